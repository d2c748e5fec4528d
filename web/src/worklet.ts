// The loudspeaker's end, on the browser's audio thread: a queue of samples that asks for more when it runs low.
//
// How much it keeps and what it is given is decided in the core; here samples are only moved.

import type { FromSpeaker, ToSpeaker } from "./messages.ts";

/** Moments that are asked for beyond those to keep: five milliseconds, for what is asked for early waits. */
const AHEAD = 240;
/** At once at most: ten milliseconds. More than one answer's way takes, so that a slow page catches up. */
const MOST = 480;

declare const currentFrame: number;
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

class Speaker extends AudioWorkletProcessor {
  #source: MessagePort | null = null;
  #queue: Float32Array[] = [];
  /** Moments of the first block that have been played. */
  #played = 0;
  #queued = 0;
  /** Moments to keep. */
  #depth = 0;
  #asked = false;
  /** Times that the queue ran dry. */
  #dry = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<MessagePort>) => this.#connect(data);
  }

  process(_inputs: unknown, outputs: Float32Array[][]): boolean {
    const [left, right] = outputs[0] ?? [];
    if (!left || !right) return true;
    const filled = this.#fill(left, right);
    if (filled < left.length && this.#depth > 0) this.#dry += 1;
    if (!this.#asked && this.#source && this.#queued <= this.#depth) {
      this.#asked = true;
      const moments = Math.min(MOST, this.#depth + AHEAD - this.#queued);
      const ask: FromSpeaker = { frame: currentFrame + left.length + this.#queued, moments, dry: this.#dry };
      this.#source.postMessage(ask);
      this.#dry = 0;
    }
    return true;
  }

  #connect(source: MessagePort): void {
    this.#source = source;
    source.onmessage = ({ data }: MessageEvent<ToSpeaker>) => {
      this.#asked = false;
      this.#depth = data.depth;
      this.#queue.push(data.samples);
      this.#queued += data.samples.length / 2;
    };
  }

  #fill(left: Float32Array, right: Float32Array): number {
    let filled = 0;
    for (let block = this.#queue[0]; block && filled < left.length; block = this.#queue[0]) {
      const count = Math.min(left.length - filled, block.length / 2 - this.#played);
      for (let index = 0; index < count; index += 1) {
        const at = 2 * (this.#played + index);
        left[filled + index] = block[at] ?? 0;
        right[filled + index] = block[at + 1] ?? 0;
      }
      filled += count;
      this.#played += count;
      if (this.#played * 2 >= block.length) {
        this.#queue.shift();
        this.#played = 0;
      }
    }
    this.#queued -= filled;
    return filled;
  }
}

registerProcessor("speaker", Speaker);
