// The cursor requested by the application.

import type { CursorShape } from "./messages.ts";

/** Sets the element's cursor. */
export function showCursor(stage: HTMLElement, shape: CursorShape): void {
  if ("named" in shape) {
    // A name that CSS does not know has no effect.
    if (CSS.supports("cursor", shape.named)) set(stage, shape.named);
    return;
  }
  const { width, height, hotspot, rgba } = shape.image;
  const bytes = Uint8ClampedArray.from(atob(rgba), (letter) => letter.charCodeAt(0));
  if (width * height * 4 !== bytes.length || bytes.length === 0) return;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d")?.putImageData(new ImageData(bytes, width, height), 0, 0);
  set(stage, `url(${canvas.toDataURL()}) ${hotspot[0]} ${hotspot[1]}, default`);
}

/** The crosshair of a captured pointer shows it too, by the attribute. */
function set(stage: HTMLElement, cursor: string): void {
  stage.style.cursor = cursor;
  stage.dataset.cursor = cursor;
}
