// The worker's end of the sound: packets to WebCodecs, samples to the loudspeaker's queue.

import { type PageTime, pageTime } from "./clock.ts";
import type { FromSpeaker, SpeakerClock, ToSpeaker } from "./messages.ts";

const RATE = 48_000;
const CODEC = "opus";
/** Channels of the world's sound. */
const CHANNELS = 2;
/** Moments of sound in a millisecond. */
const MOMENTS_PER_MS = 48;
/** When more blocks than this are pending, some will never come out. Guess: decoders hold a few. */
const MAX_PENDING_BLOCKS = 64;

/** Returns whether this browser can decode the world's sound. */
export async function decodesSound(): Promise<boolean> {
  if (typeof AudioDecoder === "undefined") return false;
  const answer = await AudioDecoder.isConfigSupported({ codec: CODEC, sampleRate: RATE, numberOfChannels: CHANNELS }).catch(() => null);
  return answer?.supported === true;
}

/** Decodes blocks of Opus in order. A rejected block never comes out. Samples of several channels are interleaved. */
export class SoundDecoder {
  readonly #channels: number;
  readonly #onBlock: (block: number, samples: Float32Array<ArrayBuffer>) => void;
  #decoder: AudioDecoder | null = null;
  /**
   * Blocks in the decoder, oldest first. The timestamps of its output do not identify blocks: browsers count them on from the first
   * packet, so that each missing packet would make all later ones seem older by a block.
   */
  #pending: number[] = [];

  constructor(onBlock: (block: number, samples: Float32Array<ArrayBuffer>) => void, channels = CHANNELS) {
    this.#channels = channels;
    this.#onBlock = onBlock;
  }

  decode(block: number, bits: Uint8Array): void {
    try {
      this.#open().decode(new EncodedAudioChunk({ type: "key", timestamp: block * 10_000, data: bits }));
      this.#pending.push(block);
      if (this.#pending.length > MAX_PENDING_BLOCKS) this.close();
    } catch {
      this.close();
    }
  }

  close(): void {
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
    this.#pending = [];
  }

  #open(): AudioDecoder {
    if (this.#decoder) return this.#decoder;
    const decoder = new AudioDecoder({
      output: (data) => {
        const block = decoder === this.#decoder ? this.#pending.shift() : undefined;
        if (block !== undefined) this.#onBlock(block, interleaved(data, this.#channels));
        data.close();
      },
      // The next packet starts a new one.
      error: () => {
        if (decoder === this.#decoder) this.close();
      },
    });
    decoder.configure({ codec: CODEC, sampleRate: RATE, numberOfChannels: this.#channels });
    this.#decoder = decoder;
    return decoder;
  }
}

/** Returns the samples interleaved: left, right, left, and so on. */
function interleaved(data: AudioData, channels: number): Float32Array<ArrayBuffer> {
  const frames = data.numberOfFrames;
  const samples = new Float32Array(frames * channels);
  const plane = new Float32Array(frames);
  for (let channel = 0; channel < channels; channel += 1) {
    data.copyTo(plane, { planeIndex: Math.min(channel, data.numberOfChannels - 1), format: "f32-planar" });
    for (let index = 0; index < frames; index += 1) samples[channels * index + channel] = plane[index] ?? 0;
  }
  return samples;
}

/** Returns samples that will be heard at `heardAt`, and how many moments to buffer. */
export type SampleSource = (heardAt: PageTime, moments: number, left: number) => { samples: Float32Array<ArrayBuffer>; depth: number };

/** Answers the loudspeaker, whichever session is active. */
export class SpeakerPort {
  readonly #port: MessagePort;
  #clock: SpeakerClock | null = null;

  constructor(port: MessagePort, source: SampleSource) {
    this.#port = port;
    port.onmessage = ({ data }: MessageEvent<FromSpeaker>) => {
      const clock = this.#clock;
      const { samples, depth } = clock
        ? source(pageTime(clock.at + (data.frame - clock.frame) / MOMENTS_PER_MS), data.moments, data.left)
        : { samples: new Float32Array(data.moments * 2), depth: data.moments };
      const message: ToSpeaker = { samples, depth };
      this.#port.postMessage(message, [samples.buffer]);
    };
  }

  onClock(clock: SpeakerClock): void {
    this.#clock = clock;
  }

  close(): void {
    this.#port.close();
  }
}
