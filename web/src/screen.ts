// Shows pictures on the page's canvas at the display's own pace.

import type { Painter } from "./painter.ts";

export interface ScreenOut {
  /** The frame is on the canvas. `pixels` are the marker's as they stood there, RGBA. */
  onShown(frame: number, pixels: Uint8Array, bottomUp: boolean): void;
}

/** Pictures are this much rarer than the display's chances where one may wait for the next chance: below that it would delay more than
 *  the one picture behind it. */
const CHANCES_PER_PICTURE = 1.8;
/** What one more interval counts in a mean. Guess: settled within a second at 30 frames a second. */
const NEWS = 1 / 16;

/** Longer intervals are pauses. */
const PAUSE_MS = 100;

interface Waiting {
  frame: number;
  picture: VideoFrame;
}

/** Mean interval of what happens again and again. */
class Cadence {
  everyMs = Number.NaN;
  #at = Number.NaN;

  note(at: number): void {
    const step = at - this.#at;
    this.#at = at;
    if (step > PAUSE_MS || Number.isNaN(step)) return;
    this.everyMs = Number.isNaN(this.everyMs) ? step : this.everyMs + (step - this.everyMs) * NEWS;
  }
}

/**
 * The newest picture first; but where the display changes about twice for each picture, one that came late is shown before the one
 * that caught up with it: a picture left out is seen as a jerk, one chance of delay is not.
 */
export class Screen {
  readonly #out: ScreenOut;
  readonly #painter: Painter;
  readonly #waiting: Waiting[] = [];
  #scheduled: number;
  /** All the time, for windows move to other displays. */
  readonly #chances = new Cadence();
  readonly #pictures = new Cadence();

  constructor(painter: Painter, out: ScreenOut) {
    this.#out = out;
    this.#painter = painter;
    this.#scheduled = requestAnimationFrame((at) => this.#onChance(at));
  }

  /** Takes the picture over and shows it at the display's next chance, or at the one after it. */
  show(frame: number, picture: VideoFrame): void {
    this.#pictures.note(performance.now());
    const room = this.#pictures.everyMs >= CHANCES_PER_PICTURE * this.#chances.everyMs ? 1 : 0;
    while (this.#waiting.length > room) this.#waiting.shift()?.picture.close();
    this.#waiting.push({ frame, picture });
  }

  close(): void {
    cancelAnimationFrame(this.#scheduled);
    for (const { picture } of this.#waiting.splice(0)) picture.close();
  }

  #onChance(at: number): void {
    this.#scheduled = requestAnimationFrame((next) => this.#onChance(next));
    this.#chances.note(at);
    const next = this.#waiting.shift();
    if (!next) return;
    const { pixels, bottomUp } = this.#painter.paint(next.picture);
    next.picture.close();
    this.#out.onShown(next.frame, pixels, bottomUp);
  }
}
