// WebCodecs behind frame ids: encoded pictures go in, pictures come out, and every frame that will never come out is reported.

import { DecodingWatch } from "./decoding-watch.ts";
import type { FrameId } from "./picture.ts";

export interface DecoderOut {
  /** The receiver of a picture closes it. */
  onPicture(frame: FrameId, picture: VideoFrame): void;
  /** The frame could not be decoded; later ones need a key frame. */
  onFailure(frame: FrameId, why: string): void;
}

export class Decoder {
  readonly #out: DecoderOut;
  readonly #codec: string;
  #decoder: VideoDecoder | null = null;
  /** Frames in the decoder, oldest first. */
  #pending: FrameId[] = [];
  #needsKey = true;
  readonly #watch = new DecodingWatch();

  constructor(codec: string, out: DecoderOut) {
    this.#codec = codec;
    this.#out = out;
  }

  decode(frame: FrameId, key: boolean, bits: Uint8Array): void {
    if (this.#needsKey && !key) {
      this.#out.onFailure(frame, "no key frame yet");
      return;
    }
    this.#pending.push(frame);
    this.#watch.onFrame();
    try {
      const decoder = this.#open();
      this.#needsKey = false;
      // The timestamp only identifies the frame; nothing is scheduled by it.
      decoder.decode(new EncodedVideoChunk({ type: key ? "key" : "delta", timestamp: frame, data: bits }));
    } catch (error) {
      this.#fail(String(error));
    }
  }

  /** Returns whether the decoder puts out nothing although it is given frames. Call it several times a second. */
  isDead(now: number): boolean {
    return this.#watch.check(now);
  }

  close(): void {
    this.#pending = [];
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
  }

  #open(): VideoDecoder {
    if (this.#decoder) return this.#decoder;
    const decoder = new VideoDecoder({
      output: (picture) => {
        if (decoder !== this.#decoder) {
          picture.close();
          return;
        }
        const label = picture.timestamp as FrameId;
        this.#pending = this.#pending.filter((frame) => frame !== label);
        this.#watch.onPicture();
        this.#out.onPicture(label, picture);
      },
      error: (error) => {
        if (decoder === this.#decoder) this.#fail(error.message);
      },
    });
    // Size and parameter sets travel in the stream (Annex B), so there is nothing else to configure.
    decoder.configure({ codec: this.#codec, optimizeForLatency: true, hardwareAcceleration: "no-preference" });
    this.#decoder = decoder;
    return decoder;
  }

  #fail(why: string): void {
    const lost = this.#pending;
    this.#watch.onRefusal();
    this.close();
    this.#needsKey = true;
    for (const frame of lost) this.#out.onFailure(frame, why);
  }
}
