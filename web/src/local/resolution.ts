// Chooses how many of its pixels a page renders: fewer when its pictures come too slowly, which the browser then enlarges.

/** Frame rate below which fewer pixels are rendered. Guess: motion looks even from about 24 pictures a second on. */
const MIN_FRAME_RATE = 24;
/** Frame rate above which more pixels are rendered again. Twice as many pixels take at most twice as long, so it is over twice the minimum. */
const SPARE_FRAME_RATE = 50;
/** Scale of each side in a step, which halves the pixels. */
const STEP = Math.SQRT1_2;
/** Minimum scale of each side: an eighth of the pixels. A name next to the user can still be read. */
const MIN_SCALE = STEP ** 3;
/** Period over which pictures are counted, in seconds. */
const COUNT_SECONDS = 1;
/** Slow periods in a row after which fewer pixels are rendered: a single one is a shader that is compiled. */
const MAX_SLOW_PERIODS = 2;
/** A longer interval between pictures, in seconds, means that the page was not seen. */
const MAX_INTERVAL_SECONDS = 10;
/** Seconds at one scale before more pixels are tried. Guess: a machine that has time for a moment may have none in the next. */
const MIN_SCALE_SECONDS = 5;
/** Seconds for which fewer pixels are not tried again after they did not help. Guess. */
const USELESS_SECONDS = 60;
/** Minimum gain in frame rate by which the fewest pixels help. With less, something else is slow. Guess. */
const MIN_GAIN = 1.25;

export class Resolution {
  #scale = 1;
  #counted = { pictures: 0, seconds: 0 };
  /** Pictures a second with all pixels. */
  #before = 0;
  #slow = 0;
  /** Seconds at this scale. */
  #since = 0;
  /** Seconds for which fewer pixels are not tried. */
  #useless = 0;

  /** Share of each side. */
  get scale(): number {
    return this.#scale;
  }

  /** A picture was rendered, this many seconds after the previous one. */
  onPicture(seconds: number): void {
    if (seconds > MAX_INTERVAL_SECONDS) {
      this.#counted = { pictures: 0, seconds: 0 };
      return;
    }
    this.#counted.pictures += 1;
    this.#counted.seconds += seconds;
    if (this.#counted.seconds < COUNT_SECONDS) return;
    this.#decide(this.#counted.pictures / this.#counted.seconds, this.#counted.seconds);
    this.#counted = { pictures: 0, seconds: 0 };
  }

  #decide(rate: number, passed: number): void {
    this.#since += passed;
    this.#useless = Math.max(0, this.#useless - passed);
    this.#slow = rate < MIN_FRAME_RATE ? this.#slow + 1 : 0;
    if (this.#slow >= MAX_SLOW_PERIODS) this.#lower(rate);
    else if (rate > SPARE_FRAME_RATE && this.#scale < 1 && this.#since >= MIN_SCALE_SECONDS) this.#set(this.#scale / STEP);
  }

  #lower(rate: number): void {
    if (this.#scale > MIN_SCALE) {
      if (this.#useless > 0) return;
      if (this.#scale === 1) this.#before = rate;
      this.#set(this.#scale * STEP);
    } else if (rate < MIN_GAIN * this.#before) {
      this.#useless = USELESS_SECONDS;
      this.#set(1);
    }
  }

  #set(scale: number): void {
    // Steps up and down end at the same sizes, but for rounding.
    this.#scale = scale > 0.99 ? 1 : scale < MIN_SCALE + 0.01 ? MIN_SCALE : scale;
    this.#since = 0;
    this.#slow = 0;
  }
}
