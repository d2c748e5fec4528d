// What other members of the room say: decoded, placed where they are, and each as loud as the user wants.

import type { SoundOutput } from "./loudspeaker.ts";
import { type FromVoiceWorker, type ToVoiceWorker, VOICE_RATE } from "./messages.ts";
import { type Pose, type Vec3, rotate } from "./math.ts";
import { FADE, type Volume, Volumes, gainOf, loudnessOf } from "./volume.ts";

/** A packet lasts so long, in seconds. */
const BLOCK = 0.01;
/** Seconds by which a voice is held back at least: the server hands it on with each of its pictures, 30 or 60 a second. Guess. */
const LEAD = 0.08;
/** At most, where packets are late: on a page that is busy for longer, voices are interrupted. Guess. */
const MOST_LEAD = 0.4;
/** While no packet is late, it is held back by so many seconds less for each second. Guess. */
const LEAD_DECAY = 0.02;
/** A packet that is later than this, in seconds, follows a pause: numbers go on where somebody did not talk. Guess. */
const PAUSE = 1;
/** What would be heard so much later than it is held back is left out. */
const MOST_AHEAD = 0.4;
/** More missing packets are a pause. */
const MOST_MISSING = 5;
/** Effective value from which somebody is taken to speak, and for how long after that, in milliseconds. Guesses: a quiet room, a syllable. */
const SPEAKING = 0.01;
const SPEAKING_MS = 300;
/** Below this a block may be left out to catch up: -60 dB. Guess. */
const SILENT = 0.001;
/** A message begins with who speaks, the packet's number, and where (docs/wire.md). */
const HEAD_BYTES = 4 + 4 + 3 * 4;

export class Voices {
  readonly #output: () => SoundOutput | null;
  readonly #volumes = new Volumes();
  readonly #speakers = new Map<number, Speaker>();
  #all: AnalyserNode | null = null;
  #worker: Worker | null = null;

  constructor(output: () => SoundOutput | null) {
    this.#output = output;
  }

  /** A message with ten milliseconds of somebody's voice. */
  onHeard(message: Uint8Array): void {
    const output = this.#output();
    // Nothing plays before the user has done something on the page.
    if (!output || message.length <= HEAD_BYTES || typeof AudioDecoder === "undefined") return;
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    const [member, number] = [view.getUint32(0), view.getUint32(4)];
    const place: Vec3 = [view.getFloat32(8), view.getFloat32(12), view.getFloat32(16)];
    if (!place.every(Number.isFinite)) return;
    let speaker = this.#speakers.get(member);
    if (!speaker) {
      speaker = new Speaker(output.context, this.#mix(output));
      speaker.setVolume(this.volumeOf(member));
      this.#speakers.set(member, speaker);
    }
    if (!speaker.onPacket(number, place)) return;
    const packet = message.slice(HEAD_BYTES);
    this.#running().postMessage({ type: "packet", member, number, packet } satisfies ToVoiceWorker, [packet.buffer]);
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

  /** Who is in the room, with their names: the others are no longer heard. */
  setMembers(members: ReadonlyMap<number, string>): void {
    for (const [member, speaker] of this.#speakers) {
      if (members.has(member)) continue;
      speaker.close();
      this.#speakers.delete(member);
      this.#worker?.postMessage({ type: "gone", member } satisfies ToVoiceWorker);
    }
    this.#volumes.setMembers(members);
  }

  /** Who speaks at the moment, also where the user does not want to hear it. */
  speaking(): ReadonlySet<number> {
    const since = performance.now() - SPEAKING_MS;
    return new Set([...this.#speakers].filter(([, { spokeAt }]) => spokeAt >= since).map(([member]) => member));
  }

  /** The newest 2,048 moments of all voices together, each as loud as the user wants it; nothing before anybody has spoken. */
  heard(): Float32Array | null {
    if (!this.#all) return null;
    const samples = new Float32Array(this.#all.fftSize);
    this.#all.getFloatTimeDomainData(samples);
    return samples;
  }

  close(): void {
    this.setMembers(new Map());
    this.#worker?.terminate();
    this.#worker = null;
  }

  #running(): Worker {
    if (!this.#worker) {
      this.#worker = new Worker(new URL("voice-worker.js", document.baseURI), { type: "module" });
      this.#worker.onmessage = ({ data }: MessageEvent<FromVoiceWorker>) => {
        if (data.type === "block") this.#speakers.get(data.member)?.onBlock(data.number, data.samples);
      };
    }
    return this.#worker;
  }

  #mix({ context, out }: SoundOutput): AudioNode {
    if (!this.#all) {
      this.#all = new AnalyserNode(context, { fftSize: 2_048 });
      this.#all.connect(out);
    }
    return this.#all;
  }
}

class Speaker {
  readonly #context: AudioContext;
  readonly #panner: PannerNode;
  readonly #gain: GainNode;
  /** When the voice's packet number 0 was due, on the context's clock in seconds; nothing before it spoke. */
  #start: number | null = null;
  #lead = LEAD;
  /** The newest packet that was played or left out. */
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
    this.#gain.gain.setTargetAtTime(gainOf(volume), this.#context.currentTime, FADE);
  }

  /** True where its packet is to be decoded. */
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
    if (loudness >= SPEAKING) this.spokeAt = performance.now();
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

  /** When a packet is to be heard, or nothing where it is left out: a voice is held back for as long as its packets are late. */
  #due(number: number, now: number, loudness: number): number | null {
    const offset = number * BLOCK;
    const late = this.#start === null ? 0 : now - this.#start - offset;
    const begins = this.#start === null || late > PAUSE || number - this.#last > MOST_MISSING;
    this.#last = number;
    if (late > 0 && !begins) this.#lead = Math.min(this.#lead + late, MOST_LEAD);
    else this.#lead = Math.max(this.#lead - BLOCK * LEAD_DECAY, LEAD);
    const start = this.#start === null || begins || late > 0 ? now + this.#lead - offset : this.#start;
    const held = start + offset - now;
    // In a pause of speech nobody misses a block.
    const skipped = held > this.#lead + MOST_AHEAD || (loudness < SILENT && held > this.#lead);
    this.#start = skipped ? start - BLOCK : start;
    return skipped ? null : start + offset;
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
