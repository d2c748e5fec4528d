// The loudspeaker's and the microphone's ends on the browser's audio thread: a queue of samples that requests more when it runs low, and one
// that hands out blocks. It only moves samples; the core decides how many to queue.

import type { FromSpeaker, ToSpeaker } from "./messages.ts";

/** Moments of a block, which is ten milliseconds: the maximum requested at once, and what the microphone hands out. */
const BLOCK_MOMENTS = 480;

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
  /** Moments that have been requested and not arrived yet. */
  #awaited = 0;
  /** Moments that should be queued or requested; 0 until the first answer. */
  #depth = 0;
  /** Moments that were missing since samples last arrived. */
  #missed = 0;
  /** Minimum of queued moments since the last request; negative if some were missing. */
  #fewest = Number.POSITIVE_INFINITY;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<MessagePort>) => this.#connect(data);
  }

  process(_inputs: unknown, outputs: Float32Array[][]): boolean {
    const [left, right] = outputs[0] ?? [];
    if (!left || !right) return true;
    const filled = this.#fill(left, right);
    if (this.#depth > 0) this.#missed += left.length - filled;
    this.#fewest = Math.min(this.#fewest, this.#queued - this.#missed);
    this.#request(currentFrame + left.length);
    return true;
  }

  /**
   * Requests samples whenever some have been played, without waiting for answers: outputs take ten milliseconds and more at once, and no
   * answer arrives in between.
   */
  #request(next: number): void {
    if (!this.#source) return;
    const ahead = this.#queued + this.#awaited;
    // The first answer says how much to buffer.
    const wanted = this.#depth > 0 || ahead > 0 ? this.#depth - ahead : BLOCK_MOMENTS;
    const moments = Math.min(BLOCK_MOMENTS, wanted);
    if (moments <= 0) return;
    const ask: FromSpeaker = { frame: next + ahead, moments, left: this.#fewest };
    this.#source.postMessage(ask);
    this.#awaited += moments;
    this.#fewest = Number.POSITIVE_INFINITY;
  }

  #connect(source: MessagePort): void {
    this.#source = source;
    source.onmessage = ({ data }: MessageEvent<ToSpeaker>) => {
      const moments = data.samples.length / 2;
      this.#depth = data.depth;
      this.#awaited -= moments;
      this.#queue.push(data.samples);
      this.#queued += moments;
      this.#missed = 0;
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

class Recorder extends AudioWorkletProcessor {
  #encoder: MessagePort | null = null;
  #block = new Float32Array(BLOCK_MOMENTS);
  #filled = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<MessagePort>) => (this.#encoder = data);
  }

  process(inputs: Float32Array[][]): boolean {
    for (const sample of inputs[0]?.[0] ?? []) {
      this.#block[this.#filled] = sample;
      this.#filled += 1;
      if (this.#filled < BLOCK_MOMENTS) continue;
      this.#encoder?.postMessage(this.#block, [this.#block.buffer]);
      this.#block = new Float32Array(BLOCK_MOMENTS);
      this.#filled = 0;
    }
    return true;
  }
}

registerProcessor("speaker", Speaker);
registerProcessor("microphone", Recorder);
