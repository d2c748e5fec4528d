// The window's end of the sound: the audio context that a user's gesture starts, volume, mute, and which moment is being heard.

import { pageTime } from "./clock.ts";
import type { SpeakerClock } from "./messages.ts";
import { FADE, type Volume, gainOf, loudnessOf } from "./volume.ts";

const RATE = 48_000;
/** How often the worker is informed which sample is being heard when. */
const CLOCK_MS = 250;
/** The key under which the user's choice is stored. */
const STORED = "nearlight.sound";

export interface LoudspeakerOut {
  /** Samples are requested and delivered here. */
  onPort(port: MessagePort): void;
  onClock(clock: SpeakerClock): void;
}

/** Where sound goes once the user has done something on the page. */
export interface SoundOutput {
  context: AudioContext;
  out: AudioNode;
}

export class Loudspeaker {
  readonly #out: LoudspeakerOut;
  readonly #choice: Volume = stored();
  #context: AudioContext | null = null;
  #gain: GainNode | null = null;
  #meters: AnalyserNode[] = [];
  /** Where the meters are fed. */
  #splitter: ChannelSplitterNode | null = null;
  /** Over WebRTC the browser receives and plays by itself. */
  readonly #element = new Audio();
  #source: MediaStreamAudioSourceNode | null = null;

  constructor(out: LoudspeakerOut) {
    this.#out = out;
  }

  /** 0 to 1. */
  get volume(): number {
    return this.#choice.volume;
  }

  set volume(volume: number) {
    this.#choice.volume = Math.min(1, Math.max(0, volume));
    this.#choice.muted = false;
    this.#apply();
  }

  get muted(): boolean {
    return this.#choice.muted;
  }

  set muted(muted: boolean) {
    this.#choice.muted = muted;
    this.#apply();
  }

  /** The track that the browser receives by itself, heard in addition to what the worklet plays. */
  set track(track: MediaStreamTrack | null) {
    this.#element.srcObject = track && new MediaStream([track]);
    if (this.#context) this.#play(this.#context);
  }

  /** Whether such a track is being played. */
  get plays(): boolean {
    return this.#element.srcObject !== null && !this.#element.paused;
  }

  /** Call it from a user's gesture: browsers mute pages before one. Repeated calls are harmless. */
  async start(): Promise<void> {
    if (this.#context) {
      if (this.#element.paused) this.#play(this.#context);
      await this.#context.resume();
      return;
    }
    const context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    this.#context = context;
    await context.audioWorklet.addModule(new URL("worklet.js", document.baseURI));
    const speaker = new AudioWorkletNode(context, "speaker", { numberOfInputs: 0, outputChannelCount: [2] });
    const gain = context.createGain();
    speaker.connect(gain).connect(context.destination);
    this.#gain = gain;
    this.#meter(context, speaker);
    this.#play(context);
    const { port1, port2 } = new MessageChannel();
    speaker.port.postMessage(port1, [port1]);
    this.#out.onPort(port2);
    this.#apply();
    setInterval(() => this.#tell(context), CLOCK_MS);
    this.#tell(context);
    await context.resume();
  }

  /** Where more sound can be played, with the same volume; none before the start. */
  get output(): SoundOutput | null {
    return this.#context && this.#gain ? { context: this.#context, out: this.#gain } : null;
  }

  /** How loud the last 40 ms were for the left and the right ear before volume and mute, as effective values; none before the start. */
  loudness(): [number, number] | null {
    const [left, right] = this.#meters.map((meter) => {
      const samples = new Float32Array(meter.fftSize);
      meter.getFloatTimeDomainData(samples);
      return loudnessOf(samples);
    });
    return left === undefined || right === undefined ? null : [left, right];
  }

  /** An element plays a received track sooner than an audio context does; the context only measures it. */
  #play(context: AudioContext): void {
    this.#source?.disconnect();
    this.#source = null;
    const { srcObject } = this.#element;
    if (!(srcObject instanceof MediaStream) || !this.#splitter) return;
    this.#source = context.createMediaStreamSource(srcObject);
    this.#source.connect(this.#splitter);
    // Without a gesture the browser refuses; the next one starts it.
    this.#element.play().catch(() => undefined);
  }

  #meter(context: AudioContext, speaker: AudioNode): void {
    const splitter = context.createChannelSplitter(2);
    speaker.connect(splitter);
    this.#splitter = splitter;
    this.#meters = [0, 1].map((ear) => {
      const meter = new AnalyserNode(context, { fftSize: 2048 });
      splitter.connect(meter, ear);
      return meter;
    });
  }

  #apply(): void {
    try {
      localStorage.setItem(STORED, JSON.stringify(this.#choice));
    } catch {
      // A browser that stores nothing starts with the defaults next time.
    }
    const gain = gainOf(this.#choice);
    this.#element.volume = gain;
    if (this.#context) this.#gain?.gain.setTargetAtTime(gain, this.#context.currentTime, FADE);
  }

  #tell(context: AudioContext): void {
    if (context.state !== "running") return;
    const { contextTime, performanceTime } = context.getOutputTimestamp();
    if (contextTime && performanceTime) {
      this.#out.onClock({ frame: contextTime * RATE, at: pageTime(performanceTime) });
      return;
    }
    // Some outputs do not report what is being heard; what they are given now is heard after their latency.
    const latency = 1000 * (context.outputLatency || context.baseLatency || 0);
    this.#out.onClock({ frame: context.currentTime * RATE, at: pageTime(performance.now() + latency) });
  }
}

function stored(): Volume {
  try {
    const { volume, muted } = JSON.parse(localStorage.getItem(STORED) ?? "{}") as Partial<Volume>;
    return { volume: typeof volume === "number" && volume >= 0 && volume <= 1 ? volume : 0.8, muted: muted === true };
  } catch {
    return { volume: 0.8, muted: false };
  }
}
