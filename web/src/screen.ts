// Shows pictures on the page's canvas at the display's own pace.

import type { Painter } from "./painter.ts";
import type { Crop, MarkerPixels, PictureKey } from "./picture.ts";

export interface ScreenOut {
  /** The frame goes to the display from the canvas. `marker` are the pixels that were decoded below it; null where it has no marker. */
  onShown(frame: PictureKey, marker: MarkerPixels | null): void;
  /** The display refreshes this many times a second, as far as animation frames show; it may be another display than before. */
  onRefreshRate(hertz: number): void;
}

/** Pictures are this much rarer than the display's chances where one may wait for the next chance: below that it would delay more than
 *  the one picture behind it. */
const CHANCES_PER_PICTURE = 1.8;
/** Weight of one more interval in a mean. Guess: settled within a second at 30 frames a second. */
const NEWS = 1 / 16;

/** Chances by which the display's rate is told: a quarter of them may be missed, or early. */
const TOLD_BY = 64;
/** Longer intervals are pauses. */
const PAUSE_MS = 100;

interface Waiting {
  frame: PictureKey;
  picture: VideoFrame;
  crop: Crop;
}

/** On the canvas, for the display's next chance. */
interface Painted {
  frame: PictureKey;
  marker: MarkerPixels | null;
  paintedAt: number;
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

/** The display's refresh rate. A busy page misses chances, so that the mean interval is none of the display's. */
class RefreshRate {
  hertz = 0;
  #at = Number.NaN;
  readonly #steps: number[] = [];

  /** True where the rate has become another. */
  note(at: number): boolean {
    const step = at - this.#at;
    this.#at = at;
    if (!(step > 0 && step <= PAUSE_MS)) return false;
    this.#steps.push(step);
    if (this.#steps.length < TOLD_BY) return false;
    const quarter = this.#steps.sort((one, other) => one - other)[TOLD_BY / 4] ?? Number.NaN;
    this.#steps.length = 0;
    const hertz = Math.round(1_000 / quarter);
    if (Math.abs(hertz - this.hertz) <= 1) return false;
    this.hertz = hertz;
    return true;
  }
}

/**
 * Paints a picture as soon as it is there, so that the display does not wait for drawing. The newest picture first; but where the
 * display changes about twice for each picture, one that came late is shown before the one that caught up with it: a picture left out
 * is seen as a jerk, one chance of delay is not.
 */
export class Screen {
  readonly #out: ScreenOut;
  readonly #painter: Painter;
  #painted: Painted | null = null;
  #painting = false;
  #waiting: Waiting | null = null;
  #scheduled: number;
  #later: ReturnType<typeof setTimeout> | undefined;
  /** Updated all the time, for windows move to other displays. */
  readonly #chances = new Cadence();
  readonly #pictures = new Cadence();
  readonly #refresh = new RefreshRate();

  constructor(painter: Painter, out: ScreenOut) {
    this.#out = out;
    this.#painter = painter;
    this.#scheduled = requestAnimationFrame((at) => this.#onChance(at));
  }

  /** Takes the picture over and shows it at the display's next chance, or at the one after it. */
  show(frame: PictureKey, picture: VideoFrame, crop: Crop): void {
    const now = performance.now();
    this.#pictures.note(now);
    const arrived = { frame, picture, crop };
    // A page that is not looked at has no chances: nothing is painted for it.
    const unseen = this.#painted !== null && now - this.#painted.paintedAt > PAUSE_MS;
    const next = this.#waiting;
    this.#waiting = null;
    if (this.#painting || unseen) {
      next?.picture.close();
      this.#waiting = arrived;
    } else if (next) {
      this.#waiting = arrived;
      void this.#paint(next);
    } else if (this.#painted && this.#mayWait()) {
      this.#waiting = arrived;
    } else {
      void this.#paint(arrived);
    }
  }

  close(): void {
    cancelAnimationFrame(this.#scheduled);
    clearTimeout(this.#later);
    this.#waiting?.picture.close();
    this.#waiting = null;
  }

  #mayWait(): boolean {
    return this.#pictures.everyMs >= CHANCES_PER_PICTURE * this.#chances.everyMs;
  }

  async #paint({ frame, picture, crop }: Waiting): Promise<void> {
    this.#painting = true;
    try {
      this.#painted = { frame, marker: await this.#painter.paint(picture, crop), paintedAt: performance.now() };
    } finally {
      picture.close();
      this.#painting = false;
    }
    if (!this.#mayWait()) this.#paintWaiting();
  }

  #paintWaiting(): void {
    const next = this.#waiting;
    this.#waiting = null;
    if (next) void this.#paint(next);
  }

  /** The canvas is free for the next picture. */
  #onGone(): void {
    if (!this.#painted && !this.#painting) this.#paintWaiting();
  }

  /** What is on the canvas goes to the display when this returns. */
  #onChance(at: number): void {
    this.#scheduled = requestAnimationFrame((next) => this.#onChance(next));
    this.#chances.note(at);
    if (this.#refresh.note(at)) this.#out.onRefreshRate(this.#refresh.hertz);
    const shown = this.#painted;
    this.#painted = null;
    if (shown) this.#out.onShown(shown.frame, shown.marker);
    if (this.#waiting) this.#later = setTimeout(() => this.#onGone());
  }
}
