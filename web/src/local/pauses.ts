// The pauses of a page that tries to join its room again.

/** Upper bound of the first pause. It doubles with each further one: a short interruption is over soon. Guess. */
const MIN_BOUND_MS = 500;
/** Maximum of the upper bound: a server that is gone for longer is not flooded. Guess. */
const MAX_BOUND_MS = 8_000;

export class Pauses {
  readonly #random: () => number;
  /** Number of pauses so far. */
  count = 0;

  /** `random`: from 0 to below 1. */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** Returns the next pause in milliseconds. One half is random, so that pages that lost their room together do not all come together. */
  next(): number {
    const bound = Math.min(MAX_BOUND_MS, MIN_BOUND_MS * 2 ** this.count);
    this.count += 1;
    return bound * (0.5 + 0.5 * this.#random());
  }
}
