// The user's microphone, for a program that records and for others in the room: each packet has ten milliseconds of Opus (docs/programs.md).

const RATE = 48_000;
const BLOCK_MS = 10;
/** Speech without audible loss: Opus' recommendation for full band in one channel (RFC 6716, section 2.1.1). */
const BITS_PER_SECOND = 40_000;
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
  #blocks = 0;

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
    const encoder = new AudioEncoder({
      output: (chunk) => this.#onPacket(chunk),
      error: (error) => console.warn("the microphone's encoder stopped:", error),
    });
    encoder.configure({ codec: "opus", sampleRate: RATE, numberOfChannels: 1, bitrate: BITS_PER_SECOND, opus: { frameDuration: BLOCK_MS * 1_000 } });
    const context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    await context.audioWorklet.addModule(new URL("worklet.js", document.baseURI));
    const node = new AudioWorkletNode(context, "microphone", { numberOfInputs: 1, numberOfOutputs: 0 });
    node.port.onmessage = ({ data }: MessageEvent<Float32Array<ArrayBuffer>>) => this.#onBlock(encoder, data);
    context.createMediaStreamSource(stream).connect(node);
    this.#stop = () => {
      for (const track of stream.getTracks()) track.stop();
      void context.close();
      if (encoder.state !== "closed") encoder.close();
    };
  }

  #onBlock(encoder: AudioEncoder, data: Float32Array<ArrayBuffer>): void {
    if (!this.live || encoder.state !== "configured") return;
    const timestamp = this.#blocks * BLOCK_MS * 1_000;
    this.#blocks += 1;
    const block = new AudioData({ format: "f32", sampleRate: RATE, numberOfFrames: data.length, numberOfChannels: 1, timestamp, data });
    encoder.encode(block);
    block.close();
  }

  #onPacket(chunk: EncodedAudioChunk): void {
    const packet = new Uint8Array(4 + chunk.byteLength);
    new DataView(packet.buffer).setUint32(0, this.#number);
    chunk.copyTo(packet.subarray(4));
    this.#number = (this.#number + 1) >>> 0;
    this.#send(packet);
  }
}
