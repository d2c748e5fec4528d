// Decodes the voices of other members off the window's thread: browsers hand a packet of sound to the decoder only after its thread has taken
// the one before, and a page that renders without a graphics card is busy for hundreds of milliseconds at a time.

import { SoundDecoder } from "./listener.ts";
import type { ToVoiceWorker, VoiceBlock } from "./messages.ts";

const decoders = new Map<number, SoundDecoder>();

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToVoiceWorker>) => void) | null;
  postMessage(message: VoiceBlock, transfer: Transferable[]): void;
};

function decoderOf(member: number): SoundDecoder {
  let decoder = decoders.get(member);
  if (!decoder) {
    decoder = new SoundDecoder((number, samples) => scope.postMessage({ member, number, samples }, [samples.buffer]), 1);
    decoders.set(member, decoder);
  }
  return decoder;
}

scope.onmessage = ({ data }) => {
  if (data.type === "packet") decoderOf(data.member).decode(data.number, data.packet);
  else {
    decoders.get(data.member)?.close();
    decoders.delete(data.member);
  }
};
