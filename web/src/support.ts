// What the page needs of a browser, and which browsers have it.

import { TRANSPORTS } from "./generated/core.ts";
import { TRANSPORT } from "./transports.ts";

export interface MissingFeature {
  name: string;
  advice: string;
}

/** Returns whether the window supports sessions over WebRTC: connections, and access to decoded pictures. */
export function hasWebRtc(): boolean {
  const pictures = "MediaStreamTrackProcessor" in window || "requestVideoFrameCallback" in HTMLVideoElement.prototype;
  return "RTCPeerConnection" in window && pictures;
}

/** WebCodecs came to Chromium before and to Firefox after WebTransport. */
const BROWSERS =
  "Chrome, Edge and other Chromium browsers have it from version 114, Firefox from version 130; so do the browsers of Quest and Pico headsets.";

/** Returns what this browser lacks; empty when the page can run. */
export function missingFeatures(): MissingFeature[] {
  const needs: [string, boolean, string][] = [
    [
      "Secure context",
      window.isSecureContext,
      "Open the link that begins with https://, or with http://localhost on the machine that serves it.",
    ],
    ["WebCodecs' video decoder, or WebRTC", hasTransport(), BROWSERS],
    ["WebCodecs", "VideoFrame" in window, BROWSERS],
    ["Workers", "Worker" in window, BROWSERS],
    ["WebAssembly", "WebAssembly" in window, "Every browser since 2017 has it; a security setting may have switched it off."],
    ["OffscreenCanvas", "transferControlToOffscreen" in HTMLCanvasElement.prototype, BROWSERS],
  ];
  return needs.filter(([, there]) => !there).map(([name, , advice]) => ({ name, advice }));
}

function hasTransport(): boolean {
  return TRANSPORTS.some((name) => TRANSPORT[name].isAvailable({ webrtc: hasWebRtc() }));
}

/** Only a headset's pictures need it: on a screen the 2D canvas serves as well. */
export function hasWebGl2(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return gl !== null;
}
