// Where the world is rendered: on the server, whose pictures are streamed, or in this page. Decides for `auto`.

export const RENDERING_CHOICES = ["server", "local", "auto"] as const;
export type RenderingChoice = (typeof RENDERING_CHOICES)[number];
/** On the server, or in the page. */
export type Rendering = "server" | "local";

/** How bad it may be, and for how long, before the other way is tried. Guesses: what people take for a hiccup, and for a bad picture. */
const PATIENCE_MS = 4_000;
const MIN_SHARE_OF_FRAMES = 0.6;
const MAX_ROUND_TRIP_MS = 120;
const MIN_LOCAL_FRAME_RATE = 24;
/** A way that was left is not tried again for so long. Guess. */
const AVOIDED_MS = 60_000;

export class RenderingChooser {
  #choice: RenderingChoice;
  #current: Rendering;
  /** Since when the current way has been bad. */
  #badSince: number | null = null;
  readonly #leftAt: Record<Rendering, number> = { server: Number.NEGATIVE_INFINITY, local: Number.NEGATIVE_INFINITY };

  constructor(choice: RenderingChoice) {
    this.#choice = choice;
    this.#current = choice === "local" ? "local" : "server";
  }

  get choice(): RenderingChoice {
    return this.#choice;
  }

  /** What the choice amounts to at present. */
  get rendering(): Rendering {
    return this.#current;
  }

  setChoice(choice: RenderingChoice): void {
    this.#choice = choice;
    if (choice !== "auto") this.#current = choice;
    this.#badSince = null;
  }

  /** The server's pictures: how many a second are displayed of how many, and the round trip where it is known. */
  onStream(at: number, displayed: number, of: number, roundTripMs: number | null): void {
    this.#judge(at, "server", displayed < of * MIN_SHARE_OF_FRAMES || (roundTripMs ?? 0) > MAX_ROUND_TRIP_MS);
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

  #judge(at: number, way: Rendering, bad: boolean): void {
    if (this.#choice !== "auto" || this.#current !== way) return;
    if (!bad) this.#badSince = null;
    else this.#badSince ??= at;
    const patient = this.#badSince === null || at - this.#badSince < PATIENCE_MS;
    if (!patient && at - this.#leftAt[other(way)] >= AVOIDED_MS) this.#leave(at, way);
  }

  #leave(at: number, way: Rendering): void {
    this.#leftAt[way] = at;
    this.#current = other(way);
    this.#badSince = null;
  }
}

function other(way: Rendering): Rendering {
  return way === "local" ? "server" : "local";
}
