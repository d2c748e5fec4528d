// Where the world is rendered: on the server, whose pictures are streamed, or in this page. Decides for `auto`.

export const RENDERING_CHOICES = ["server", "local", "auto"] as const;
export type RenderingChoice = (typeof RENDERING_CHOICES)[number];
/** On the server, or in the page. */
export type Rendering = "server" | "local";

/** How long a rendering may be bad before the other one is tried. Guess: people take less for a hiccup. */
const MAX_BAD_MS = 4_000;
/** Minimum share of the stream's frames that must be displayed. Guess. */
const MIN_DISPLAYED_SHARE = 0.6;
/** Maximum round trip of the stream. Guess. */
const MAX_ROUND_TRIP_MS = 120;
/** Minimum rate of the page's own pictures, per second. Guess: motion looks even from about here on. */
const MIN_LOCAL_FRAME_RATE = 24;
/** How long a rendering that was left is not tried again. Guess. */
const AVOID_MS = 60_000;

export class RenderingChooser {
  #choice: RenderingChoice;
  #current: Rendering;
  /** Since when the current rendering has been bad. */
  #badSince: number | null = null;
  readonly #leftAt: Record<Rendering, number> = { server: Number.NEGATIVE_INFINITY, local: Number.NEGATIVE_INFINITY };

  constructor(choice: RenderingChoice) {
    this.#choice = choice;
    this.#current = choice === "local" ? "local" : "server";
  }

  get choice(): RenderingChoice {
    return this.#choice;
  }

  /** The rendering that the choice currently means. */
  get rendering(): Rendering {
    return this.#current;
  }

  setChoice(choice: RenderingChoice): void {
    this.#choice = choice;
    if (choice !== "auto") this.#current = choice;
    this.#badSince = null;
  }

  /** The stream's displayed pictures a second of `expected`, and its round trip if known. */
  onStream(at: number, displayed: number, expected: number, roundTripMs: number | null): void {
    this.#judge(at, "server", displayed < expected * MIN_DISPLAYED_SHARE || (roundTripMs ?? 0) > MAX_ROUND_TRIP_MS);
  }

  /** The page's own pictures in a second. */
  onLocalFrameRate(at: number, framesPerSecond: number): void {
    this.#judge(at, "local", framesPerSecond < MIN_LOCAL_FRAME_RATE);
  }

  /** The page cannot render the world. */
  onLocalFailed(at: number): void {
    this.#leave(at, "local");
    if (this.#choice === "local") this.#choice = "server";
  }

  #judge(at: number, rendering: Rendering, bad: boolean): void {
    if (this.#choice !== "auto" || this.#current !== rendering) return;
    if (!bad) this.#badSince = null;
    else this.#badSince ??= at;
    const patient = this.#badSince === null || at - this.#badSince < MAX_BAD_MS;
    if (!patient && at - this.#leftAt[other(rendering)] >= AVOID_MS) this.#leave(at, rendering);
  }

  #leave(at: number, rendering: Rendering): void {
    this.#leftAt[rendering] = at;
    this.#current = other(rendering);
    this.#badSince = null;
  }
}

function other(rendering: Rendering): Rendering {
  return rendering === "local" ? "server" : "local";
}
