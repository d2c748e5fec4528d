// The two graphs of the statistics panel, drawn with one pixel column per sample or more.

import { STAGES } from "./generated/events.ts";

/** One colour per stage, from the user's hand (violet) over the server (blue to green) and the network (yellow) to the display. */
export const STAGE_COLOURS = [
  "#a78bfa",
  "#6d7cff",
  "#3ba7f5",
  "#22c9e0",
  "#2dd4a7",
  "#9bdc3a",
  "#fbd024",
  "#fb9a3c",
  "#f4736f",
  "#f284c4",
] as const;

export const RATE_COLOURS = { target: "#7dd3fc", sent: "#fbd024", received: "#4ade80" } as const;

const GRID = "rgb(255 255 255 / 0.09)";
const INK = "#8798b0";
const FONT = "10.5px system-ui, sans-serif";
/** Pixels that a label's line takes. */
const LABEL_HEIGHT = 14;

/** A canvas whose backing store follows its size on the page. */
class Surface {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;

  constructor(canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser draws no 2D graphics");
    this.#canvas = canvas;
    this.#context = context;
  }

  /** An empty surface in CSS pixels; none while it is not on the page. */
  begin(): { context: CanvasRenderingContext2D; width: number; height: number } | null {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === 0 || height === 0) return null;
    const scale = window.devicePixelRatio;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.#canvas.width !== w || this.#canvas.height !== h) {
      this.#canvas.width = w;
      this.#canvas.height = h;
    }
    const context = this.#context;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    return { context, width, height };
  }
}

/** Frames as columns whose parts are the stages. */
export class LatencyGraph {
  readonly #surface: Surface;
  #top = 40;

  constructor(canvas: HTMLCanvasElement) {
    this.#surface = new Surface(canvas);
  }

  /** `frames` are stage lengths in milliseconds, oldest first, at most `capacity`; `late` marks those past their deadline. */
  draw(frames: readonly { stages: readonly number[]; late: boolean }[], capacity: number): void {
    const begun = this.#surface.begin();
    if (!begun) return;
    const { context, width, height } = begun;
    this.#scale(frames.map(({ stages }) => stages.reduce((sum, stage) => sum + Math.max(0, stage), 0)));
    const y = (milliseconds: number): number => height - 1 - (milliseconds / this.#top) * (height - 14);
    grid(context, width, this.#top, y, "ms");
    const column = width / capacity;
    const start = width - frames.length * column;
    for (const index of STAGES.keys()) {
      context.fillStyle = STAGE_COLOURS[index] ?? INK;
      context.beginPath();
      for (const [place, { stages }] of frames.entries()) {
        let below = 0;
        for (let lower = 0; lower < index; lower += 1) below += Math.max(0, stages[lower] ?? 0);
        const length = Math.max(0, stages[index] ?? 0);
        if (length > 0) context.rect(start + place * column, y(below + length), column + 0.4, y(below) - y(below + length));
      }
      context.fill();
    }
    context.fillStyle = "#ff4d6d";
    for (const [place, { late }] of frames.entries()) if (late) context.fillRect(start + place * column, height - 1.5, Math.max(1, column), 1.5);
  }

  /** The axis ends at a round number above nearly all frames, even where few have arrived yet, and shrinks slowly against flicker. */
  #scale(totals: number[]): void {
    const sorted = totals.toSorted((a, b) => a - b);
    const high = (sorted[Math.floor((sorted.length - 1) * 0.9)] ?? 20) * 1.25;
    const steps = [10, 20, 40, 60, 80, 120, 160, 240, 320, 480, 640, 1000, 2000];
    const wanted = steps.find((step) => step >= high) ?? 2000;
    if (wanted > this.#top || high < this.#top * 0.45) this.#top = wanted;
  }
}

export interface RateSample {
  /** Seconds. */
  at: number;
  target: number | null;
  sent: number | null;
  received: number;
}

/** Rates over time as lines. */
export class RateGraph {
  readonly #surface: Surface;

  constructor(canvas: HTMLCanvasElement) {
    this.#surface = new Surface(canvas);
  }

  /** `samples` in bits per second, oldest first; the axis ends now and is `seconds` long. */
  draw(samples: readonly RateSample[], now: number, seconds: number): void {
    const begun = this.#surface.begin();
    if (!begun) return;
    const { context, width, height } = begun;
    const highest = Math.max(1e6, ...samples.flatMap(({ target, sent, received }) => [target ?? 0, sent ?? 0, received]));
    const top = [1, 2, 4, 6, 8, 10, 15, 20, 25, 30, 40, 60, 80, 100, 150, 200, 300, 500].find((step) => step * 1e6 >= highest * 1.08) ?? highest / 1e6;
    const x = (at: number): number => width - ((now - at) / seconds) * width;
    const y = (bps: number): number => height - 1 - (bps / 1e6 / top) * (height - 14);
    grid(context, width, top, (mbps) => y(mbps * 1e6), "Mb/s");
    const line = (colour: string, dash: number[], pick: (sample: RateSample) => number | null): void => {
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.setLineDash(dash);
      context.beginPath();
      let begun = false;
      for (const sample of samples) {
        const value = pick(sample);
        if (value === null) continue;
        if (begun) context.lineTo(x(sample.at), y(value));
        else context.moveTo(x(sample.at), y(value));
        begun = true;
      }
      context.stroke();
      context.setLineDash([]);
    };
    line(RATE_COLOURS.sent, [], ({ sent }) => sent);
    line(RATE_COLOURS.received, [], ({ received }) => received);
    line(RATE_COLOURS.target, [4, 3], ({ target }) => target);
  }
}

function grid(context: CanvasRenderingContext2D, width: number, top: number, y: (value: number) => number, unit: string): void {
  context.fillStyle = INK;
  context.strokeStyle = GRID;
  context.lineWidth = 1;
  // Where lines of text would touch, only the highest one is drawn.
  const labelled = y(top / 2) - y(top) < LABEL_HEIGHT ? [top] : [top / 2, top];
  for (const value of [0, top / 2, top]) {
    const at = Math.round(y(value)) + 0.5;
    context.beginPath();
    context.moveTo(0, at);
    context.lineTo(width, at);
    context.stroke();
    if (labelled.includes(value)) context.fillText(`${Number(value.toFixed(1))} ${unit}`, 2, at - 3);
  }
}
