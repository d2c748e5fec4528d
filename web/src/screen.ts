// Shows pictures on the page's canvas at the display's own pace, newest first.

import type { Painter } from "./painter.ts";

export interface ScreenOut {
  /** The frame is on the canvas. `pixels` are the marker's as they stood there, RGBA. */
  onShown(frame: number, pixels: Uint8Array, bottomUp: boolean): void;
}

export class Screen {
  readonly #out: ScreenOut;
  readonly #painter: Painter;
  #waiting: { frame: number; picture: VideoFrame } | null = null;
  #scheduled: number | null = null;

  constructor(painter: Painter, out: ScreenOut) {
    this.#out = out;
    this.#painter = painter;
  }

  /** Takes the picture over and shows it at the display's next chance, unless a newer one comes first. */
  show(frame: number, picture: VideoFrame): void {
    this.#waiting?.picture.close();
    this.#waiting = { frame, picture };
    this.#scheduled ??= requestAnimationFrame(() => this.#draw());
  }

  close(): void {
    if (this.#scheduled !== null) cancelAnimationFrame(this.#scheduled);
    this.#waiting?.picture.close();
    this.#waiting = null;
  }

  #draw(): void {
    this.#scheduled = null;
    if (!this.#waiting) return;
    const { frame, picture } = this.#waiting;
    this.#waiting = null;
    const { pixels, bottomUp } = this.#painter.paint(picture);
    picture.close();
    this.#out.onShown(frame, pixels, bottomUp);
  }
}
