// This page as a member of the room that the world is: a WebSocket, and the core's replica behind it.

import { micros, pageTime } from "../clock.ts";
import { textOf, withLength } from "../control.ts";
import initCore, { RoomMember } from "../core/core.js";
import { BODY_COLUMNS, OBJECT_COLUMNS, POSE_COLUMNS, type RoomNews, type RoomPerson } from "../generated/core.ts";
import type { Pose } from "../math.ts";
import { certificateOf } from "../session-info.ts";

const PATH = "rooms";
/** What is wished: the server grants what the link permits. */
const ROLE = "host";
/** The first byte of a message with somebody's voice (docs/wire.md). */
const VOICE = 0x18;
/** A connection that holds this many bytes back is given no more of the user's voice: it would be heard too late. */
const MOST_WAITING = 4_096;
/** That it hears others is said again after so much silence, in microseconds: another server may own the room since. */
const REPEAT = 2_000_000;
/** A packet's number, and no packet. */
const SILENCE = new Uint8Array(4);
/** How long the server may take to answer. */
const DIAL_MS = 6_000;
/** Where nothing is due earlier, the replica is asked again after this. */
const IDLE_MS = 1_000;

export interface MembershipOptions {
  origin: string;
  token: string;
  /** The certificate that the link names. */
  certificate: string | null;
  room: string;
  name: string;
  /** Red, green, blue: 0 to 255. */
  colour: readonly [number, number, number];
}

export interface Body {
  member: number;
  head: Pose;
  /** Left and right, where they are there. */
  hands: Pose[];
}

export interface RoomObject {
  object: number;
  /** The member that holds it, or 0. */
  owner: number;
  pose: Pose;
}

export interface MembershipOut {
  onNews(news: RoomNews): void;
  /** Somebody's voice, without the message's first byte. */
  onHeard(message: Uint8Array): void;
  /** The membership has ended, and why. */
  onEnded(why: string): void;
}

/** Joins the room. Throws the reason where that does not succeed. */
export async function join(options: MembershipOptions, out: MembershipOut): Promise<Membership> {
  const { origin, token, certificate } = options;
  const limit = AbortSignal.timeout(DIAL_MS);
  await initCore({ module_or_path: new URL("core.wasm", document.baseURI) });
  const proven = await certificateOf(origin, token, certificate, limit);
  const address = new URL(PATH, origin);
  address.hash = "";
  address.search = "";
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  const answers = new Answers(socket, limit);
  try {
    const nonce = crypto.getRandomValues(new Uint8Array(32));
    const member = new RoomMember(now(), token, withLength(await answers.next()), nonce, proven);
    socket.send(textOf(member.hello(navigator.userAgent)));
    member.on_answer(await answers.next());
    socket.send(member.join(options.room, ROLE, options.name, new Uint8Array(options.colour)) as Uint8Array<ArrayBuffer>);
    answers.close();
    return new Membership(socket, member, out);
  } catch (error) {
    answers.close();
    socket.close();
    throw error;
  }
}

/** The texts with which the server answers before the room speaks. */
class Answers {
  readonly #socket: WebSocket;
  readonly #waiting: string[] = [];
  #fail: ((why: Error) => void) | null = null;
  #take: ((text: string) => void) | null = null;
  #failure: Error | null = null;
  readonly #limit: AbortSignal;
  readonly #onLimit = (): void => this.#onFailure("no answer comes back");

  constructor(socket: WebSocket, limit: AbortSignal) {
    this.#socket = socket;
    this.#limit = limit;
    limit.addEventListener("abort", this.#onLimit);
    socket.onclose = () => this.#onFailure("the server closed the connection");
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data !== "string") return this.#onFailure("the server's answer cannot be read");
      if (this.#take) this.#take(data);
      else this.#waiting.push(data);
      this.#take = null;
    };
  }

  next(): Promise<string> {
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) return Promise.resolve(waiting);
    if (this.#failure) return Promise.reject(this.#failure);
    return new Promise((take, fail) => {
      [this.#take, this.#fail] = [take, fail];
    });
  }

  close(): void {
    this.#limit.removeEventListener("abort", this.#onLimit);
    [this.#socket.onclose, this.#socket.onmessage] = [null, null];
  }

  #onFailure(why: string): void {
    this.#failure = new Error(why);
    this.#fail?.(this.#failure);
  }
}

export class Membership {
  readonly #socket: WebSocket;
  readonly #member: RoomMember;
  readonly #out: MembershipOut;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended = false;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(socket: WebSocket, member: RoomMember, out: MembershipOut) {
    this.#socket = socket;
    this.#member = member;
    this.#out = out;
    socket.onclose = () => this.#end("the server closed the connection");
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => this.#onMessage(data);
    this.pump();
  }

  /** This member's number, or 0 before the room is known. */
  get you(): number {
    return this.#member.you();
  }

  get members(): RoomPerson[] {
    return JSON.parse(this.#member.members()) as RoomPerson[];
  }

  get bodies(): Body[] {
    const each = BODY_COLUMNS.length + 3 * POSE_COLUMNS.length;
    return rows(this.#member.bodies(), each).map((row) => {
      const [member = 0, hands = 0] = row;
      const pose = (index: number): Pose => poseOf(row, BODY_COLUMNS.length + index * POSE_COLUMNS.length);
      return { member, head: pose(0), hands: [1, 2].filter((hand) => (hands & hand) !== 0).map(pose) };
    });
  }

  get objects(): RoomObject[] {
    return rows(this.#member.objects(), OBJECT_COLUMNS.length + POSE_COLUMNS.length).map((row) => {
      const [object = 0, owner = 0] = row;
      return { object, owner, pose: poseOf(row, OBJECT_COLUMNS.length) };
    });
  }

  setBody(head: Pose, hands: { left?: Pose | null; right?: Pose | null } = {}): void {
    const numbers = (pose: Pose | null | undefined): Float32Array => (pose ? poseNumbers(pose) : new Float32Array());
    if (!this.#ended) this.#member.set_body(poseNumbers(head), numbers(hands.left), numbers(hands.right));
  }

  /** Where an object is that this member holds. */
  setObject(object: number, pose: Pose): void {
    if (!this.#ended) this.#member.set_object(object, poseNumbers(pose));
  }

  take(object: number): void {
    if (!this.#ended) this.#member.take(object);
    this.pump();
  }

  release(object: number): void {
    if (!this.#ended) this.#member.release(object);
    this.pump();
  }

  handOver(object: number, to: number): void {
    if (!this.#ended) this.#member.hand_over(object, to);
    this.pump();
  }

  /** Ten milliseconds of the user's voice: the packet's number, and Opus. */
  say(packet: Uint8Array): void {
    if (this.#ended || this.#socket.readyState !== WebSocket.OPEN || this.#socket.bufferedAmount > MOST_WAITING) return;
    this.#saidAt = now();
    this.#socket.send(new Uint8Array([VOICE, ...packet]));
  }

  /** Sends what is due; called after each change, and by a timer. */
  pump(): void {
    if (this.#ended) return;
    clearTimeout(this.#timer);
    for (let bytes = this.#member.poll_transmit(now()); bytes; bytes = this.#member.poll_transmit(now())) {
      if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
    }
    if (now() - this.#saidAt >= REPEAT) this.say(SILENCE);
    const wait = (this.#member.next_timeout() - now()) / 1_000;
    this.#timer = setTimeout(() => this.pump(), Math.min(IDLE_MS, Math.max(wait, 1)));
  }

  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    [this.#socket.onclose, this.#socket.onmessage] = [null, null];
    this.#socket.close();
    this.#member.free();
  }

  #onMessage(data: string | ArrayBuffer): void {
    // In place of the room's first message the server says in words why there is none.
    if (typeof data === "string") return this.#end(this.#member.refusal(data));
    const bytes = new Uint8Array(data);
    if (bytes[0] === VOICE) return this.#out.onHeard(bytes.subarray(1));
    try {
      this.#member.on_message(now(), bytes);
    } catch (error) {
      return this.#end(`the room's message cannot be read: ${String(error)}`);
    }
    for (let json = this.#member.poll_event(); json !== undefined; json = this.#member.poll_event()) {
      const news = JSON.parse(json) as RoomNews;
      if (news.type === "goodbye") return this.#end(news.words);
      this.#out.onNews(news);
      // Whoever hears of it may have closed this.
      if (this.#ended) return;
    }
    this.pump();
  }

  #end(why: string): void {
    this.close();
    this.#out.onEnded(why);
  }
}

function now(): number {
  return micros(pageTime(performance.now()));
}

function rows(numbers: Float32Array, each: number): Float32Array[] {
  return Array.from({ length: Math.floor(numbers.length / each) }, (_, row) => numbers.subarray(row * each, (row + 1) * each));
}

function poseOf(row: Float32Array, start: number): Pose {
  const [x = 0, y = 0, z = 0, qx = 0, qy = 0, qz = 0, qw = 1] = row.subarray(start, start + POSE_COLUMNS.length);
  return { position: [x, y, z], orientation: [qx, qy, qz, qw] };
}

function poseNumbers({ position, orientation }: Pose): Float32Array {
  return new Float32Array([...position, ...orientation]);
}
