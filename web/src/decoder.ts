// WebCodecs behind frame ids: encoded pictures go in, pictures come out, and every frame that will never come out is reported.

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
  #inside: FrameId[] = [];
  #needsKey = true;

  constructor(codec: string, out: DecoderOut) {
    this.#codec = codec;
    this.#out = out;
  }

  decode(frame: FrameId, key: boolean, bits: Uint8Array): void {
    if (this.#needsKey && !key) {
      this.#out.onFailure(frame, "no key frame yet");
      return;
    }
    try {
      const decoder = this.#running();
      this.#needsKey = false;
      this.#inside.push(frame);
      // The time stamp is only a label that is returned with the picture; nothing is scheduled by it.
      decoder.decode(new EncodedVideoChunk({ type: key ? "key" : "delta", timestamp: frame, data: bits }));
    } catch (error) {
      this.#fail(String(error));
    }
  }

  close(): void {
    this.#inside = [];
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
  }

  #running(): VideoDecoder {
    if (this.#decoder) return this.#decoder;
    const decoder = new VideoDecoder({
      output: (picture) => {
        if (decoder !== this.#decoder) {
          picture.close();
          return;
        }
        const label = picture.timestamp as FrameId;
        this.#inside = this.#inside.filter((frame) => frame !== label);
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
    const lost = this.#inside;
    this.close();
    this.#needsKey = true;
    for (const frame of lost) this.#out.onFailure(frame, why);
  }
}
