// One clock for the page: the window's `performance.now()`, which workers have with another origin.

/** Milliseconds on the window's clock, in a worker that was told the window's `performance.timeOrigin`. */
export class PageClock {
  readonly #shift: number;

  constructor(epoch: number) {
    this.#shift = performance.timeOrigin - epoch;
  }

  now(): number {
    return performance.now() + this.#shift;
  }
}

/** The core takes microseconds. */
export function micros(milliseconds: number): number {
  return milliseconds * 1000;
}
