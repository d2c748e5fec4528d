// One clock for the page: the window's `performance.now()`, which workers have with another origin.

declare const unit: unique symbol;

/** Milliseconds on the window's clock. */
export type PageTime = number & { readonly [unit]: "ms" };

/** Microseconds on it, as the core takes them. */
export type CoreTime = number & { readonly [unit]: "µs" };

/** In the window: a time from `performance.now()` or an event. */
export function pageTime(milliseconds: number): PageTime {
  return milliseconds as PageTime;
}

/** The window's clock in a worker that was given the window's `performance.timeOrigin`. */
export class PageClock {
  readonly #shift: number;

  constructor(epoch: number) {
    this.#shift = performance.timeOrigin - epoch;
  }

  now(): PageTime {
    return pageTime(performance.now() + this.#shift);
  }
}

export function micros(time: PageTime): CoreTime {
  return (time * 1000) as CoreTime;
}
