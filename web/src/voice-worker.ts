// Decodes others' voices and encodes the user's off the window's thread: a browser's decoder gets the next packet only after its thread has
// taken the one before, and a page that renders without a graphics card is busy for hundreds of milliseconds at a time.

import { SoundDecoder } from "./listener.ts";
import { type FromVoiceWorker, type ToVoiceWorker, VOICE_RATE } from "./messages.ts";

/** Duration of a packet in microseconds. */
const PACKET_US = 10_000;
/** Bitrate of speech without audible loss: Opus' recommendation for full band in one channel (RFC 6716, section 2.1.1). */
const BITS_PER_SECOND = 40_000;

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToVoiceWorker>) => void) | null;
  postMessage(message: FromVoiceWorker, transfer: Transferable[]): void;
};

const decoders = new Map<number, SoundDecoder>();

function decoderOf(member: number): SoundDecoder {
  let decoder = decoders.get(member);
  if (!decoder) {
    decoder = new SoundDecoder((number, samples) => scope.postMessage({ type: "block", member, number, samples }, [samples.buffer]), 1);
    decoders.set(member, decoder);
  }
  return decoder;
}

function encode(blocks: MessagePort): void {
  const encoder = new AudioEncoder({
    output: (chunk) => {
      const packet = new Uint8Array(chunk.byteLength);
      chunk.copyTo(packet);
      scope.postMessage({ type: "packet", packet }, [packet.buffer]);
    },
    error: (error) => console.warn("the microphone's encoder stopped:", error),
  });
  encoder.configure({ codec: "opus", sampleRate: VOICE_RATE, numberOfChannels: 1, bitrate: BITS_PER_SECOND, opus: { frameDuration: PACKET_US } });
  let timestamp = 0;
  blocks.onmessage = ({ data }: MessageEvent<Float32Array<ArrayBuffer>>) => {
    if (encoder.state !== "configured") return;
    const block = new AudioData({ format: "f32", sampleRate: VOICE_RATE, numberOfFrames: data.length, numberOfChannels: 1, timestamp, data });
    timestamp += PACKET_US;
    encoder.encode(block);
    block.close();
  };
}

scope.onmessage = ({ data }) => {
  if (data.type === "packet") decoderOf(data.member).decode(data.number, data.packet);
  else if (data.type === "microphone") encode(data.blocks);
  else {
    decoders.get(data.member)?.close();
    decoders.delete(data.member);
  }
};
