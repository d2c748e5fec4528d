// The voices of other members of the room: decoded, placed where the members are, and each as loud as the user wants.

import type { SoundOutput } from "./loudspeaker.ts";
import { type FromVoiceWorker, type ToVoiceWorker, VOICE_RATE } from "./messages.ts";
import { type Pose, type Vec3, rotate } from "./math.ts";
import { workerError } from "./worker-error.ts";
import { FADE_SECONDS, type Volume, Volumes, gainOf, loudnessOf } from "./volume.ts";

/** Duration of a packet in seconds. */
const BLOCK_SECONDS = 0.01;
/** Minimum playout delay in seconds. Guess: the server forwards voices with its pictures, 30 or 60 times a second. */
const MIN_DELAY_SECONDS = 0.08;
/** Maximum playout delay when packets are late. Guess: a page that is busy for longer interrupts voices. */
const MAX_DELAY_SECONDS = 0.4;
/** Seconds by which the delay shrinks in each second without a late packet. Guess. */
const DELAY_DECAY = 0.02;
/** A packet that is later than this many seconds follows a pause, because numbers do not count pauses. Guess. */
const PAUSE_SECONDS = 1;
/** A block that would play this many seconds later than the playout delay is dropped. Guess. */
const MAX_AHEAD_SECONDS = 0.4;
/** More missing packets than this are a pause. Guess. */
const MAX_MISSING_PACKETS = 5;
/** RMS from which a member counts as speaking. Guess: louder than a quiet room. */
const SPEAKING_RMS = 0.01;
/** A member counts as speaking for this long after the last loud block. Guess: a syllable. */
const SPEAKING_HOLD_MS = 300;
/** RMS below which a block may be dropped to catch up: -60 dB. Guess. */
const SILENT_RMS = 0.001;
/** A message begins with the member, the packet's number, and the position (docs/wire.md). */
const HEADER_BYTES = 4 + 4 + 3 * 4;
/** Pause before another decoding worker is tried after one has failed. Guess. */
const WORKER_RETRY_MS = 5_000;

export class Voices {
  readonly #output: () => SoundOutput | null;
  readonly #volumes = new Volumes();
  readonly #speakers = new Map<number, Speaker>();
  /** Mixes all voices. */
  #mix: AnalyserNode | null = null;
  #worker: Worker | null = null;
  /** When a worker failed last. */
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(output: () => SoundOutput | null) {
    this.#output = output;
  }

  /** A message with ten milliseconds of a member's voice. */
  onHeard(message: Uint8Array): void {
    const output = this.#output();
    // Nothing plays before the user has done something on the page.
    if (!output || message.length <= HEADER_BYTES || typeof AudioDecoder === "undefined") return;
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    const [member, number] = [view.getUint32(0), view.getUint32(4)];
    const place: Vec3 = [view.getFloat32(8), view.getFloat32(12), view.getFloat32(16)];
    if (!place.every(Number.isFinite)) return;
    let speaker = this.#speakers.get(member);
    if (!speaker) {
      speaker = new Speaker(output.context, this.#mixOf(output));
      speaker.setVolume(this.volumeOf(member));
      this.#speakers.set(member, speaker);
    }
    if (!speaker.onPacket(number, place)) return;
    const packet = message.slice(HEADER_BYTES);
    this.#startWorker()?.postMessage({ type: "packet", member, number, packet } satisfies ToVoiceWorker, [packet.buffer]);
  }

  /** Where the user's ears are. */
  setListener({ position, orientation }: Pose): void {
    if (this.#speakers.size === 0) return;
    const listener = this.#output()?.context.listener;
    if (!listener) return;
    const [ahead, up] = [rotate(orientation, [0, 0, -1]), rotate(orientation, [0, 1, 0])];
    if (!("positionX" in listener)) return place(listener, position, ahead, up);
    set(listener, ["positionX", "positionY", "positionZ"], position);
    set(listener, ["forwardX", "forwardY", "forwardZ"], ahead);
    set(listener, ["upX", "upY", "upZ"], up);
  }

  volumeOf(member: number): Volume {
    return this.#volumes.of(member);
  }

  setVolume(member: number, volume: Volume): void {
    this.#volumes.set(member, volume);
    this.#speakers.get(member)?.setVolume(volume);
  }

  /** The members of the room and their names. Voices of anybody else end. */
  setMembers(members: ReadonlyMap<number, string>): void {
    for (const [member, speaker] of this.#speakers) {
      if (members.has(member)) continue;
      speaker.close();
      this.#speakers.delete(member);
      this.#worker?.postMessage({ type: "gone", member } satisfies ToVoiceWorker);
    }
    this.#volumes.setMembers(members);
  }

  /** Returns the members who are speaking, muted ones included. */
  speaking(): ReadonlySet<number> {
    const since = performance.now() - SPEAKING_HOLD_MS;
    return new Set([...this.#speakers].filter(([, { spokeAt }]) => spokeAt >= since).map(([member]) => member));
  }

  /** Returns the newest 2,048 samples of all voices together, each as loud as the user wants it, or null before anybody has spoken. */
  heard(): Float32Array | null {
    if (!this.#mix) return null;
    const samples = new Float32Array(this.#mix.fftSize);
    this.#mix.getFloatTimeDomainData(samples);
    return samples;
  }

  /** Ends all voices, and disconnects from the output. The next packet starts again. */
  close(): void {
    this.setMembers(new Map());
    this.#mix?.disconnect();
    this.#mix = null;
    this.#stopWorker();
  }

  /** Returns the decoding worker, or null shortly after one has failed. */
  #startWorker(): Worker | null {
    if (this.#worker || performance.now() - this.#failedAt < WORKER_RETRY_MS) return this.#worker;
    const worker = new Worker(new URL("voice-worker.js", document.baseURI), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<FromVoiceWorker>) => {
      if (data.type === "block") this.#speakers.get(data.member)?.onBlock(data.number, data.samples);
    };
    worker.onerror = (event) => {
      console.warn("the voice worker failed:", workerError(event));
      this.#failedAt = performance.now();
      this.#stopWorker();
    };
    return worker;
  }

  #stopWorker(): void {
    this.#worker?.terminate();
    this.#worker = null;
  }

  #mixOf({ context, out }: SoundOutput): AudioNode {
    if (!this.#mix) {
      this.#mix = new AnalyserNode(context, { fftSize: 2_048 });
      this.#mix.connect(out);
    }
    return this.#mix;
  }
}

class Speaker {
  readonly #context: AudioContext;
  readonly #panner: PannerNode;
  readonly #gain: GainNode;
  /** When packet 0 was due on the context's clock, in seconds; null before the first packet. */
  #start: number | null = null;
  /** Playout delay in seconds. */
  #delay = MIN_DELAY_SECONDS;
  /** The newest packet that was played or dropped. */
  #last = 0;
  #newest: number | null = null;
  /** When it was last loud enough to be speech. */
  spokeAt = Number.NEGATIVE_INFINITY;

  constructor(context: AudioContext, out: AudioNode) {
    this.#context = context;
    // As loud as at one metre within it, half as loud at two.
    this.#panner = new PannerNode(context, { panningModel: "HRTF", distanceModel: "inverse", refDistance: 1, rolloffFactor: 1 });
    this.#gain = new GainNode(context);
    this.#panner.connect(this.#gain).connect(out);
  }

  setVolume(volume: Volume): void {
    this.#gain.gain.setTargetAtTime(gainOf(volume), this.#context.currentTime, FADE_SECONDS);
  }

  /** Returns whether the packet should be decoded. */
  onPacket(number: number, place: Vec3): boolean {
    const ahead = this.#newest === null ? 1 : (number - this.#newest) | 0;
    if (ahead <= 0) return false;
    this.#newest = number;
    set(this.#panner, ["positionX", "positionY", "positionZ"], place);
    return true;
  }

  /** A packet's sound. */
  onBlock(number: number, samples: Float32Array<ArrayBuffer>): void {
    const context = this.#context;
    const loudness = loudnessOf(samples);
    if (loudness >= SPEAKING_RMS) this.spokeAt = performance.now();
    const at = this.#due(number, context.currentTime, loudness);
    if (at === null) return;
    const buffer = context.createBuffer(1, samples.length, VOICE_RATE);
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(this.#panner);
    source.start(at);
  }

  close(): void {
    this.#panner.disconnect();
    this.#gain.disconnect();
  }

  /** Returns when a packet should play, or null when it is dropped. The delay follows how late packets are. */
  #due(number: number, now: number, loudness: number): number | null {
    const offset = number * BLOCK_SECONDS;
    const late = this.#start === null ? 0 : now - this.#start - offset;
    const begins = this.#start === null || late > PAUSE_SECONDS || number - this.#last > MAX_MISSING_PACKETS;
    this.#last = number;
    if (late > 0 && !begins) this.#delay = Math.min(this.#delay + late, MAX_DELAY_SECONDS);
    else this.#delay = Math.max(this.#delay - BLOCK_SECONDS * DELAY_DECAY, MIN_DELAY_SECONDS);
    const start = this.#start === null || begins || late > 0 ? now + this.#delay - offset : this.#start;
    const ahead = start + offset - now;
    // In a pause of speech nobody misses a block.
    const dropped = ahead > this.#delay + MAX_AHEAD_SECONDS || (loudness < SILENT_RMS && ahead > this.#delay);
    this.#start = dropped ? start - BLOCK_SECONDS : start;
    return dropped ? null : start + offset;
  }
}

/** Firefox has only the older methods. */
function place(listener: AudioListener, position: Vec3, ahead: Vec3, up: Vec3): void {
  listener.setPosition(...position);
  listener.setOrientation(...ahead, ...up);
}

function set<Name extends string>(node: Record<Name, AudioParam>, names: readonly Name[], values: Vec3): void {
  for (const [axis, name] of names.entries()) node[name].value = values[axis] ?? 0;
}
