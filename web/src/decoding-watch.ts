// Whether a decoder keeps its promise: some claim a codec and put out no picture, with or without an error.

/** Time without a picture after which a decoder that reported errors counts as failed. Guess: one that recovers does so by the next key frame. */
const REFUSED_MS = 1_000;
/** Time without a picture after which a decoder that reports nothing counts as failed. Guess: the first picture of a software decoder on two busy
 *  cores takes up to 0.6 s. */
const SILENT_MS = 2_000;
/** Time without a picture after which a decoder that has worked before counts as failed. Guess: longer than any pause between two pictures. */
const STOPPED_MS = 6_000;
/** Longest time that one check may count: a thread that was busy or suspended has not waited. */
const MAX_STEP_MS = 400;

/** Counts the time in which frames went in and no picture came out. Call `check` several times a second. */
export class DecodingWatch {
  #frames = 0;
  #refusals = 0;
  #worked = false;
  #waitedMs = 0;
  #checkedAt: number | null = null;

  /** A frame was given to the decoder. */
  onFrame(): void {
    this.#frames += 1;
  }

  /** The decoder refused a frame. */
  onRefusal(): void {
    this.#refusals += 1;
  }

  /** A picture came out. */
  onPicture(): void {
    [this.#frames, this.#refusals, this.#waitedMs, this.#worked] = [0, 0, 0, true];
  }

  /** Returns whether the decoder has put out nothing for too long. `now` in milliseconds. */
  check(now: number): boolean {
    const step = Math.min(now - (this.#checkedAt ?? now), MAX_STEP_MS);
    this.#checkedAt = now;
    if (this.#frames === 0) return false;
    this.#waitedMs += step;
    const limit = this.#worked ? STOPPED_MS : this.#refusals > 0 ? REFUSED_MS : SILENT_MS;
    return this.#waitedMs >= limit;
  }
}
