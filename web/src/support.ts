// What the page needs of a browser, and which browsers have it.

export interface Missing {
  name: string;
  advice: string;
}

/** The window has what a session over WebRTC needs: connections, and a way to decoded pictures. */
export function hasWebRtc(): boolean {
  const pictures = "MediaStreamTrackProcessor" in window || "requestVideoFrameCallback" in HTMLVideoElement.prototype;
  return "RTCPeerConnection" in window && pictures;
}

const BROWSERS = "Chrome, Edge or another Chromium browser from version 114 has it; so do the browsers of Quest and Pico headsets.";

/** What this browser lacks; empty where the page can run. */
export function missingFeatures(): Missing[] {
  const needs: [string, boolean, string][] = [
    [
      "Secure context",
      window.isSecureContext,
      "Open the link that begins with https://, or with http://localhost on the machine that serves it.",
    ],
    ["WebTransport or WebRTC", hasTransport(), BROWSERS],
    ["WebCodecs", "VideoFrame" in window, BROWSERS],
    ["WebAssembly", "WebAssembly" in window, "Every browser since 2017 has it; a security setting may have switched it off."],
    ["WebGL2", hasWebGl2(), "Switch graphics acceleration on in the browser's settings."],
    ["OffscreenCanvas", "transferControlToOffscreen" in HTMLCanvasElement.prototype, BROWSERS],
  ];
  return needs.filter(([, there]) => !there).map(([name, , advice]) => ({ name, advice }));
}

function hasTransport(): boolean {
  return ("WebTransport" in window && "VideoDecoder" in window) || hasWebRtc();
}

function hasWebGl2(): boolean {
  return document.createElement("canvas").getContext("webgl2") !== null;
}
