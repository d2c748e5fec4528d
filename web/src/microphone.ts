// The user's microphone, for a program that records and for others in the room. Each packet holds ten milliseconds of Opus (docs/programs.md).

import { Disposables } from "./disposables.ts";
import { type FromVoiceWorker, type ToVoiceWorker, VOICE_RATE } from "./messages.ts";
import { workerError } from "./worker-error.ts";

/** First bytes of the microphone's messages to and from an application. */
const PREFIX = new TextEncoder().encode("mic");

/** Returns the application message that carries a packet. */
export function messageOf(packet: Uint8Array): Uint8Array {
  const message = new Uint8Array(PREFIX.length + packet.length);
  message.set(PREFIX);
  message.set(packet, PREFIX.length);
  return message;
}

/** Returns the packet that an application's message carries, or null for any other message. */
export function packetOf(message: Uint8Array): Uint8Array | null {
  return PREFIX.every((byte, index) => message[index] === byte) ? message.subarray(PREFIX.length) : null;
}

export interface MicrophoneOut {
  /** A packet: its number, and Opus. */
  onPacket(packet: Uint8Array): void;
  /** The microphone ended by itself: it was unplugged, its permission was withdrawn, or its encoder failed. */
  onEnded(why: string): void;
}

export class Microphone {
  /** Whether packets are sent. */
  live = false;
  readonly #out: MicrophoneOut;
  #recording: Recording | null = null;
  #number = 0;

  constructor(out: MicrophoneOut) {
    this.#out = out;
  }

  /**
   * Asks the user for the microphone, unless it is on or already asked for. Returns true once it is on, and false when `stop` was called
   * meanwhile. Throws when the browser or the user refuses.
   */
  async start(): Promise<boolean> {
    const recording = (this.#recording ??= new Recording((opus) => this.#onPacket(opus), (why) => this.#onEnded(why)));
    try {
      await recording.started;
    } catch (error) {
      // Nobody waits for a recording that was stopped while it started.
      if (this.#recording !== recording) return false;
      this.#recording = null;
      throw error;
    }
    return this.#recording === recording;
  }

  /** Gives the microphone back to the browser, also when the user has not answered yet. */
  stop(): void {
    this.#recording?.close();
    this.#recording = null;
  }

  #onEnded(why: string): void {
    this.stop();
    this.#out.onEnded(why);
  }

  #onPacket(opus: Uint8Array): void {
    if (!this.live) return;
    const packet = new Uint8Array(4 + opus.length);
    new DataView(packet.buffer).setUint32(0, this.#number);
    packet.set(opus, 4);
    this.#number = (this.#number + 1) >>> 0;
    this.#out.onPacket(packet);
  }
}

/** One use of the microphone. `close` releases what it holds, and what it only obtains later. */
class Recording {
  readonly started: Promise<void>;
  readonly #disposables = new Disposables();
  readonly #onPacket: (opus: Uint8Array) => void;
  readonly #onEnded: (why: string) => void;

  constructor(onPacket: (opus: Uint8Array) => void, onEnded: (why: string) => void) {
    this.#onPacket = onPacket;
    this.#onEnded = onEnded;
    this.started = this.#open().catch((error: unknown) => {
      this.close();
      throw error;
    });
  }

  close(): void {
    this.#disposables.close();
  }

  async #open(): Promise<void> {
    if (typeof AudioEncoder === "undefined") throw new Error("this browser cannot encode sound");
    const constraints = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const stream = await navigator.mediaDevices.getUserMedia({ audio: constraints });
    this.#disposables.add(() => {
      for (const track of stream.getTracks()) track.stop();
    });
    if (this.#disposables.closed) return;
    for (const track of stream.getTracks()) track.onended = () => this.#fail("the browser ended the recording");
    const context = new AudioContext({ sampleRate: VOICE_RATE, latencyHint: "interactive" });
    this.#disposables.add(() => void context.close().catch(() => undefined));
    await context.audioWorklet.addModule(new URL("worklet.js", document.baseURI));
    if (this.#disposables.closed) return;
    const node = new AudioWorkletNode(context, "microphone", { numberOfInputs: 1, numberOfOutputs: 0 });
    const { port1, port2 } = new MessageChannel();
    node.port.postMessage(port1, [port1]);
    const worker = new Worker(new URL("voice-worker.js", document.baseURI), { type: "module" });
    this.#disposables.add(() => worker.terminate());
    worker.onerror = (event) => this.#fail(`the voice worker failed: ${workerError(event)}`);
    worker.onmessage = ({ data }: MessageEvent<FromVoiceWorker>) => {
      if (data.type === "packet") this.#onPacket(data.packet);
    };
    worker.postMessage({ type: "microphone", blocks: port2 } satisfies ToVoiceWorker, [port2]);
    context.createMediaStreamSource(stream).connect(node);
  }

  #fail(why: string): void {
    if (!this.#disposables.closed) this.#onEnded(why);
  }
}
