// The window's end of the sound: the audio context that a user's gesture starts, volume, mute, and which moment is being heard.

import { pageTime } from "./clock.ts";
import { Disposables } from "./disposables.ts";
import type { SpeakerClock } from "./messages.ts";
import { store, stored } from "./storage.ts";
import { FADE_SECONDS, type Volume, gainOf, loudnessOf } from "./volume.ts";

/** Samples a second in each channel: the rate of the server's Opus. */
const SAMPLE_RATE = 48_000;
/** How often the worker learns which sample is being heard. Guess: the two clocks drift by microseconds meanwhile. */
const CLOCK_INTERVAL_MS = 250;
/** Key of the user's choice in the site's storage. */
const STORAGE_KEY = "nearlight.sound";

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

/** The audio context with all that plays through it. */
interface AudioGraph {
  context: AudioContext;
  gain: GainNode;
  /** Feeds the meters. */
  splitter: ChannelSplitterNode;
  meters: AnalyserNode[];
}

export class Loudspeaker {
  readonly #out: LoudspeakerOut;
  readonly #choice: Volume = storedVolume();
  readonly #disposables = new Disposables();
  #graph: AudioGraph | null = null;
  /** Pending while the graph is being built. */
  #opening: Promise<void> | null = null;
  /** The user has made a gesture, after which browsers let pages play. */
  #permitted = false;
  /** Plays the track that WebRTC receives. */
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

  /** The track that WebRTC receives. It is played in addition to the worklet's samples. */
  set track(track: MediaStreamTrack | null) {
    this.#element.srcObject = track && new MediaStream([track]);
    this.#play();
    this.#measureTrack();
  }

  /** Whether such a track is being played. */
  get plays(): boolean {
    return this.#element.srcObject !== null && !this.#element.paused;
  }

  /** Starts the sound. Call it from a user's gesture, as often as there are gestures: a start that failed is tried again. */
  async start(): Promise<void> {
    if (this.#disposables.closed) return;
    this.#permitted = true;
    if (this.#element.paused) this.#play();
    if (!this.#graph) {
      this.#opening ??= this.#open().finally(() => {
        this.#opening = null;
      });
      await this.#opening;
    }
    await this.#graph?.context.resume();
  }

  /** Ends the sound for good. */
  close(): void {
    this.#disposables.close();
    this.#graph = null;
    this.#source = null;
    this.#element.pause();
    this.#element.srcObject = null;
  }

  /** Where more sound can be played at the same volume, or null before the start. */
  get output(): SoundOutput | null {
    return this.#graph && { context: this.#graph.context, out: this.#graph.gain };
  }

  /** RMS of the last 40 ms at the left and the right ear, before volume and mute, or null before the start. */
  loudness(): [number, number] | null {
    const [left, right] = (this.#graph?.meters ?? []).map((meter) => {
      const samples = new Float32Array(meter.fftSize);
      meter.getFloatTimeDomainData(samples);
      return loudnessOf(samples);
    });
    return left === undefined || right === undefined ? null : [left, right];
  }

  async #open(): Promise<void> {
    const context = new AudioContext({ sampleRate: SAMPLE_RATE, latencyHint: "interactive" });
    const release = (): void => void context.close().catch(() => undefined);
    try {
      await context.audioWorklet.addModule(new URL("worklet.js", document.baseURI));
      this.#disposables.add(release);
      if (this.#disposables.closed) return;
      this.#graph = this.#connect(context);
      this.#apply();
      this.#measureTrack();
      this.#disposables.every(CLOCK_INTERVAL_MS, () => this.#tell(context));
      this.#tell(context);
    } catch (error) {
      release();
      throw error;
    }
  }

  #connect(context: AudioContext): AudioGraph {
    const speaker = new AudioWorkletNode(context, "speaker", { numberOfInputs: 0, outputChannelCount: [2] });
    const gain = context.createGain();
    speaker.connect(gain).connect(context.destination);
    const splitter = context.createChannelSplitter(2);
    speaker.connect(splitter);
    const meters = [0, 1].map((ear) => {
      const meter = new AnalyserNode(context, { fftSize: 2048 });
      splitter.connect(meter, ear);
      return meter;
    });
    const { port1, port2 } = new MessageChannel();
    speaker.port.postMessage(port1, [port1]);
    this.#out.onPort(port2);
    return { context, gain, splitter, meters };
  }

  /** An element plays a received track sooner than an audio context would, and needs none. */
  #play(): void {
    if (!this.#permitted || !this.#element.srcObject) return;
    // A browser that refuses without a gesture is asked again at the next one.
    this.#element.play().catch(() => undefined);
  }

  /** Feeds the meters with the received track. */
  #measureTrack(): void {
    this.#source?.disconnect();
    this.#source = null;
    const { srcObject } = this.#element;
    if (!this.#graph || !(srcObject instanceof MediaStream)) return;
    this.#source = this.#graph.context.createMediaStreamSource(srcObject);
    this.#source.connect(this.#graph.splitter);
  }

  #apply(): void {
    store(STORAGE_KEY, JSON.stringify(this.#choice));
    const gain = gainOf(this.#choice);
    this.#element.volume = gain;
    this.#graph?.gain.gain.setTargetAtTime(gain, this.#graph.context.currentTime, FADE_SECONDS);
  }

  #tell(context: AudioContext): void {
    if (context.state !== "running") return;
    const { contextTime, performanceTime } = context.getOutputTimestamp();
    if (contextTime && performanceTime) {
      this.#out.onClock({ frame: contextTime * SAMPLE_RATE, at: pageTime(performanceTime) });
      return;
    }
    // Some outputs do not report what is being heard; what they are given now is heard after their latency.
    const latency = 1000 * (context.outputLatency || context.baseLatency || 0);
    this.#out.onClock({ frame: context.currentTime * SAMPLE_RATE, at: pageTime(performance.now() + latency) });
  }
}

function storedVolume(): Volume {
  try {
    const { volume, muted } = JSON.parse(stored(STORAGE_KEY) ?? "{}") as Partial<Volume>;
    return { volume: typeof volume === "number" && volume >= 0 && volume <= 1 ? volume : 0.8, muted: muted === true };
  } catch {
    return { volume: 0.8, muted: false };
  }
}
