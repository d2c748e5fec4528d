// The user's microphone, for a program that records and for others in the room: each packet has ten milliseconds of Opus (docs/programs.md).

import { type FromVoiceWorker, type ToVoiceWorker, VOICE_RATE } from "./messages.ts";

/** With what messages of the microphone to and from an application begin. */
const PREFIX = new TextEncoder().encode("mic");

/** The application's message with a packet. */
export function messageOf(packet: Uint8Array): Uint8Array {
  const message = new Uint8Array(PREFIX.length + packet.length);
  message.set(PREFIX);
  message.set(packet, PREFIX.length);
  return message;
}

/** The packet in a message of the application's, if that is what it has. */
export function packetOf(message: Uint8Array): Uint8Array | null {
  return PREFIX.every((byte, index) => message[index] === byte) ? message.subarray(PREFIX.length) : null;
}

export class Microphone {
  /** Whether what it hears is sent. */
  live = false;
  /** A packet: its number, and Opus. */
  readonly #send: (packet: Uint8Array) => void;
  #started = false;
  #stop: (() => void) | null = null;
  #number = 0;

  constructor(send: (packet: Uint8Array) => void) {
    this.#send = send;
  }

  /** Asks the user for the microphone, unless it runs. Throws where the browser or the user does not give it. */
  async start(): Promise<void> {
    if (this.#started) return;
    this.#started = true;
    try {
      await this.#open();
    } catch (error) {
      this.#started = false;
      throw error;
    }
  }

  /** Gives the microphone back to the browser. */
  stop(): void {
    this.#stop?.();
    this.#stop = null;
    this.#started = false;
  }

  async #open(): Promise<void> {
    if (typeof AudioEncoder === "undefined") throw new Error("this browser has no encoder for sound");
    const wanted = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const stream = await navigator.mediaDevices.getUserMedia({ audio: wanted });
    const context = new AudioContext({ sampleRate: VOICE_RATE, latencyHint: "interactive" });
    await context.audioWorklet.addModule(new URL("worklet.js", document.baseURI));
    const node = new AudioWorkletNode(context, "microphone", { numberOfInputs: 1, numberOfOutputs: 0 });
    const { port1, port2 } = new MessageChannel();
    node.port.postMessage(port1, [port1]);
    const worker = new Worker(new URL("voice-worker.js", document.baseURI), { type: "module" });
    worker.postMessage({ type: "microphone", blocks: port2 } satisfies ToVoiceWorker, [port2]);
    worker.onmessage = ({ data }: MessageEvent<FromVoiceWorker>) => {
      if (data.type === "packet" && this.live) this.#onPacket(data.packet);
    };
    context.createMediaStreamSource(stream).connect(node);
    this.#stop = () => {
      for (const track of stream.getTracks()) track.stop();
      void context.close();
      worker.terminate();
    };
  }

  #onPacket(opus: Uint8Array): void {
    const packet = new Uint8Array(4 + opus.length);
    new DataView(packet.buffer).setUint32(0, this.#number);
    packet.set(opus, 4);
    this.#number = (this.#number + 1) >>> 0;
    this.#send(packet);
  }
}
