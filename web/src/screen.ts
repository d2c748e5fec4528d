// Shows pictures on the page's canvas at the display's own pace.

import { micros, type PageClock } from "./clock.ts";
import { DisplayQueue } from "./core/core.js";
import type { DisplayOrder } from "./messages.ts";
import type { Painter } from "./painter.ts";
import type { Crop, DisplayTimes, MarkerPixels, PictureKey } from "./picture.ts";

export interface ScreenOut {
  /** The frame goes to the display from the canvas. `marker` are the pixels that were decoded below it; null where it has no marker. */
  onShown(frame: PictureKey, marker: MarkerPixels | null): void;
  /** The display refreshes this many times a second, as far as animation frames show; it may be another display than before. */
  onRefreshRate(hertz: number): void;
}

/** Weight of the newest interval in a mean. Guess: settles within a second at 30 frames a second. */
const MEAN_WEIGHT = 1 / 16;
/** Intervals from which the display's rate is derived: a quarter of them may be missed, or early. */
const RATE_INTERVALS = 64;
/** Longer intervals are pauses. */
const PAUSE_MS = 100;
/** A page without animation frames for this long is not looked at. Guess: pages that were only busy lacked them for 0.3 s. */
const HIDDEN_MS = 1_000;
/** Longest refresh interval of a usual display. Longer means are those of a busy page. */
const MAX_REFRESH_MS = 1_000 / 60;

interface WaitingFrame {
  frame: PictureKey;
  picture: VideoFrame;
  crop: Crop;
}

/** The picture on the canvas, which the next animation frame shows. */
interface PaintedFrame {
  frame: PictureKey;
  marker: MarkerPixels | null;
  paintedAt: number;
}

/** An exponentially weighted mean of durations. */
class Mean {
  ms = Number.NaN;

  note(ms: number): void {
    this.ms = Number.isNaN(this.ms) ? ms : this.ms + (ms - this.ms) * MEAN_WEIGHT;
  }
}

/** Measures the display's refresh rate. A busy page misses animation frames, so their mean interval is not the display's. */
class RefreshRate {
  hertz = 0;
  readonly #steps: number[] = [];

  /** Takes the milliseconds between two animation frames. Returns whether the rate has changed. */
  note(step: number): boolean {
    if (!(step > 0 && step <= PAUSE_MS)) return false;
    this.#steps.push(step);
    if (this.#steps.length < RATE_INTERVALS) return false;
    const quarter = this.#steps.sort((one, other) => one - other)[RATE_INTERVALS / 4] ?? Number.NaN;
    this.#steps.length = 0;
    const hertz = Math.round(1_000 / quarter);
    if (Math.abs(hertz - this.hertz) <= 1) return false;
    this.hertz = hertz;
    return true;
  }
}

/**
 * Paints a picture as soon as the canvas is free, so that the display does not wait for drawing. Which one is decided by the core's queue:
 * where two came between two of the display's chances, the second waits for the next chance rather than being shown instead of the first.
 */
export class Screen {
  readonly #out: ScreenOut;
  readonly #painter: Painter;
  readonly #clock: PageClock;
  readonly #queue: DisplayQueue;
  /** The queued pictures by number, because frame ids repeat from session to session. */
  readonly #waiting = new Map<number, WaitingFrame>();
  #number = 0;
  #painted: PaintedFrame | null = null;
  /** When the first picture since the last chance was painted. */
  #unseenSince = Number.NaN;
  #painting = false;
  #closed = false;
  #scheduled: number;
  #later: ReturnType<typeof setTimeout> | undefined;
  /** Interval between animation frames; updated all the time, because windows move to other displays. */
  readonly #chances = new Mean();
  /** Duration of painting. */
  readonly #paints = new Mean();
  #chanceAt = Number.NaN;
  readonly #refresh = new RefreshRate();

  constructor(painter: Painter, clock: PageClock, order: DisplayOrder, out: ScreenOut) {
    this.#out = out;
    this.#clock = clock;
    this.#painter = painter;
    this.#queue = new DisplayQueue(order);
    this.#scheduled = requestAnimationFrame((at) => this.#onChance(at));
  }

  /** Takes the picture over and shows it at one of the display's next chances, unless newer ones come first. */
  show(frame: PictureKey, picture: VideoFrame, crop: Crop, { capturedAt, deadline }: DisplayTimes): void {
    if (this.#closed) return picture.close();
    // Only the newest waits on a page that is not looked at.
    if (this.#unseenFor() > PAUSE_MS) this.#queue.set_refresh_interval(Number.NaN);
    this.#number += 1;
    this.#waiting.set(this.#number, { frame, picture, crop });
    this.#queue.push(capturedAt, deadline, this.#number);
    this.#closeSkipped();
    this.#advance();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    cancelAnimationFrame(this.#scheduled);
    clearTimeout(this.#later);
    for (const { picture } of this.#waiting.values()) picture.close();
    this.#waiting.clear();
    this.#queue.free();
    // A painting that is under way still needs the painter.
    if (!this.#painting) this.#painter.close?.();
  }

  /** Returns for how long the painted picture and those before it have waited for an animation frame. */
  #unseenFor(): number {
    return this.#painted ? performance.now() - this.#unseenSince : 0;
  }

  /**
   * A newer picture may replace the painted one before the display's chance. A picture waits for half the time between two chances in the
   * mean, so what takes longer to paint would miss this chance too; and the chances of a worker that is always busy never come in WebKit.
   * There the painted picture is replaced only when it is old. A page that is not looked at has no chances: nothing is painted for it.
   */
  #paintsOver({ paintedAt }: PaintedFrame): boolean {
    if (this.#queue.shows_in_turn || this.#unseenFor() > HIDDEN_MS) return false;
    const isQuick = this.#paints.ms <= Math.min(this.#chances.ms, MAX_REFRESH_MS) / 2;
    return isQuick || performance.now() - paintedAt > PAUSE_MS;
  }

  /** Paints the next picture if the canvas is free or may be painted over. */
  #advance(): void {
    if (this.#painting || (this.#painted && !this.#paintsOver(this.#painted))) return;
    const number = this.#queue.take(micros(this.#clock.now()));
    this.#closeSkipped();
    const next = number === undefined ? undefined : this.#waiting.get(number);
    if (number === undefined || !next) return;
    this.#waiting.delete(number);
    void this.#paint(next);
  }

  async #paint({ frame, picture, crop }: WaitingFrame): Promise<void> {
    this.#painting = true;
    const begunAt = performance.now();
    try {
      const marker = await this.#painter.paint(picture, crop);
      const paintedAt = performance.now();
      if (!this.#painted) this.#unseenSince = paintedAt;
      this.#painted = { frame, marker, paintedAt };
    } finally {
      picture.close();
      this.#painting = false;
      this.#paints.note(performance.now() - begunAt);
      if (this.#closed) this.#painter.close?.();
    }
    if (!this.#closed) this.#advance();
  }

  #closeSkipped(): void {
    for (let number = this.#queue.poll_skipped(); number !== undefined; number = this.#queue.poll_skipped()) {
      this.#waiting.get(number)?.picture.close();
      this.#waiting.delete(number);
    }
  }

  /** An animation frame: the canvas goes to the display when this returns. */
  #onChance(at: number): void {
    this.#scheduled = requestAnimationFrame((next) => this.#onChance(next));
    const step = at - this.#chanceAt;
    this.#chanceAt = at;
    if (step > 0) this.#chances.note(Math.min(step, PAUSE_MS));
    // Where painting takes longer than the time between chances, it decides how many pictures can be shown.
    this.#queue.set_refresh_interval(Math.max(this.#chances.ms, this.#paints.ms) * 1_000);
    if (this.#refresh.note(step)) this.#out.onRefreshRate(this.#refresh.hertz);
    const shown = this.#painted;
    this.#painted = null;
    if (shown) this.#out.onShown(shown.frame, shown.marker);
    this.#queue.on_refresh(micros(this.#clock.now()));
    if (!this.#queue.is_empty) this.#later = setTimeout(() => this.#advance());
  }
}
