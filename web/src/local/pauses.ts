// When a page that is not in its room tries to join it once more.

/** The first pause at most, doubled with each further one up to the second value: a connection that broke for a moment is back soon, and a server
 *  that is gone for longer is not flooded. */
const FIRST_MS = 500;
const LAST_MS = 8_000;

export class Pauses {
  readonly #random: () => number;
  /** How many there were. */
  count = 0;

  /** `random`: from 0 to below 1. */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** In milliseconds. One half is random, so that pages that lost their room together do not all come together. */
  next(): number {
    const most = Math.min(LAST_MS, FIRST_MS * 2 ** this.count);
    this.count += 1;
    return most * (0.5 + 0.5 * this.#random());
  }
}
