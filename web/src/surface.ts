// The element that shows pictures, whose other end the worker draws on or writes to.

import { webGl2Support } from "./gl.ts";
import type { PainterChoice } from "./messages.ts";
import { element } from "./page.ts";

/** The worker's end. */
export type Surface = { kind: "webgl2" | "2d"; target: OffscreenCanvas } | { kind: "video"; target: WritableStream<VideoFrame> };

/** A class that only Chromium has. The standard's `VideoTrackGenerator` exists only in workers, and in none of the browsers that have this one. */
declare class MediaStreamTrackGenerator extends MediaStreamTrack {
  constructor(options: { kind: "video" });
  readonly writable: WritableStream<VideoFrame>;
}

/** Prepares the element `picture` for the chosen painter, or for the best one in this browser. Returns the worker's end, and why it is not WebGL2. */
export function surfaceFor(choice: PainterChoice): { surface: Surface; why: string } {
  const support = webGl2Support();
  const wanted = choice === "webgl2" ? support !== "none" : choice === "auto" && support === "accelerated";
  const lacking = support === "emulated" ? "no graphics card for WebGL2" : "this browser has no WebGL2";
  const why = choice === "auto" ? lacking : "as asked";
  if (wanted) return { surface: { kind: "webgl2", target: offscreen() }, why: choice === "webgl2" ? why : "" };
  if (choice !== "2d" && "MediaStreamTrackGenerator" in window) return { surface: { kind: "video", target: video() }, why };
  return { surface: { kind: "2d", target: offscreen() }, why };
}

function offscreen(): OffscreenCanvas {
  return element("picture", HTMLCanvasElement).transferControlToOffscreen();
}

function video(): WritableStream<VideoFrame> {
  const generator = new MediaStreamTrackGenerator({ kind: "video" });
  const shown = document.createElement("video");
  Object.assign(shown, { id: "picture", muted: true, autoplay: true, playsInline: true, disablePictureInPicture: true });
  element("picture").replaceWith(shown);
  // A document counts as loading while a video in it has no picture, and the server's may never come. Nothing else is loading any more.
  const attach = (): void => {
    shown.srcObject = new MediaStream([generator]);
  };
  if (document.readyState === "complete") attach();
  else addEventListener("load", attach, { once: true });
  return generator.writable;
}
