// How many of its pixels a page renders: fewer where its pictures come too slowly, and the browser enlarges them.

/** Below the first number of pictures a second fewer pixels are rendered, above the second more again. Guess: motion looks even from about 24 on.
 *  Twice as many pixels take at most twice as long, so that with more than twice that number they are not too many. */
const TOO_FEW = 24;
const ENOUGH = 50;
/** A step halves the pixels. The last one leaves an eighth: a name next to the user can still be read. */
const STEP = Math.SQRT1_2;
const LEAST = STEP ** 3;
/** Pictures are counted for this long, in seconds, and have to be too few so many times in a row: once is a shader that is compiled. */
const COUNTED = 1;
const IN_A_ROW = 2;
/** A longer interval, in seconds, is a page that was not seen. */
const PAUSE = 10;
/** More pixels are tried after this long at one size, in seconds. Guess: a machine that has time for a moment may have none in the next. */
const PATIENCE = 5;
/** How long fewer pixels are not tried again, in seconds, where they were no use. Guess. */
const USELESS = 60;
/** Where the fewest pixels make pictures come no faster than all by this factor, something else is slow, and all are rendered. Guess. */
const WORTH = 1.25;

export class Resolution {
  #scale = 1;
  #counted = { pictures: 0, seconds: 0 };
  /** Pictures a second with all pixels. */
  #before = 0;
  #slow = 0;
  /** Seconds at this scale. */
  #since = 0;
  /** Fewer pixels are no use for so many seconds. */
  #useless = 0;

  /** Share of each side. */
  get scale(): number {
    return this.#scale;
  }

  /** A picture was rendered, so many seconds after the one before. */
  onPicture(seconds: number): void {
    if (seconds > PAUSE) {
      this.#counted = { pictures: 0, seconds: 0 };
      return;
    }
    this.#counted.pictures += 1;
    this.#counted.seconds += seconds;
    if (this.#counted.seconds < COUNTED) return;
    this.#decide(this.#counted.pictures / this.#counted.seconds, this.#counted.seconds);
    this.#counted = { pictures: 0, seconds: 0 };
  }

  #decide(rate: number, passed: number): void {
    this.#since += passed;
    this.#useless = Math.max(0, this.#useless - passed);
    this.#slow = rate < TOO_FEW ? this.#slow + 1 : 0;
    if (this.#slow >= IN_A_ROW) this.#lower(rate);
    else if (rate > ENOUGH && this.#scale < 1 && this.#since >= PATIENCE) this.#set(this.#scale / STEP);
  }

  #lower(rate: number): void {
    if (this.#scale > LEAST) {
      if (this.#useless > 0) return;
      if (this.#scale === 1) this.#before = rate;
      this.#set(this.#scale * STEP);
    } else if (rate < WORTH * this.#before) {
      this.#useless = USELESS;
      this.#set(1);
    }
  }

  #set(scale: number): void {
    // Steps up and down end at the same sizes, but for rounding.
    this.#scale = scale > 0.99 ? 1 : scale < LEAST + 0.01 ? LEAST : scale;
    this.#since = 0;
    this.#slow = 0;
  }
}
