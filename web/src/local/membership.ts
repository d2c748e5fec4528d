// This page as a member of the room that the world is: a line to it, and the core's replica behind that.

import { micros, pageTime } from "../clock.ts";
import { VOICE } from "../control.ts";
import initCore, { RoomMember } from "../core/core.js";
import { BODY_COLUMNS, OBJECT_COLUMNS, POSE_COLUMNS, type RoomNews, type RoomPerson } from "../generated/core.ts";
import type { Pose } from "../math.ts";
import type { TransportChoice, TransportName } from "../messages.ts";
import { type Line, type LineOut, openLine } from "./line.ts";

/** The role that the page asks for; the server grants what the link permits. */
const REQUESTED_ROLE = "host";
/** After this silence, in microseconds, the member says again that it hears others: another server may own the room since. */
const SILENCE_INTERVAL_US = 2_000_000;
/** A voice message without Opus: a packet's number alone. */
const SILENCE = new Uint8Array(4);
/** Timeout of the server's answer to the hello. Guess. */
const ANSWER_TIMEOUT_MS = 6_000;
/** Maximum interval between two calls of the replica. Guess. */
const MAX_IDLE_MS = 1_000;

export interface MembershipOptions {
  origin: string;
  token: string;
  /** The certificate that the link names. */
  certificate: string | null;
  transport: TransportChoice;
  room: string;
  name: string;
  /** Proves the right to a seat over another connection, or on another server: 16 random bytes. */
  seat: Uint8Array;
  /** Red, green, blue: 0 to 255. */
  colour: readonly [number, number, number];
}

export interface Body {
  member: number;
  head: Pose;
  /** The left and the right hand, as far as they are tracked. */
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
  /** The membership has ended. */
  onEnded(why: string, goodbye: Goodbye | null): void;
}

/** The room has said that it ends a membership, whose connection did not just break. */
export interface Goodbye {
  /** The member may join again by itself. */
  again: boolean;
}

/** Joins the room. Throws when that does not succeed. */
export async function join(options: MembershipOptions, out: MembershipOut): Promise<Membership> {
  await initCore({ module_or_path: new URL("core.wasm", document.baseURI) });
  const { line, certificate, why } = await openLine(options);
  try {
    const answer = new Answer(line);
    const nonce = crypto.getRandomValues(new Uint8Array(32));
    const member = new RoomMember(now(), options.token, line.challenge, nonce, certificate);
    line.sendText(member.hello(navigator.userAgent));
    member.on_answer(await answer.text);
    line.send(member.join(options.room, REQUESTED_ROLE, options.name, new Uint8Array(options.colour), options.seat), "stream");
    return new Membership(line, why, member, out);
  } catch (error) {
    line.close();
    throw error;
  }
}

/** The server's answer to the hello, before the room's first message. */
class Answer implements LineOut {
  readonly text: Promise<string>;
  #take: (text: string) => void = () => undefined;
  #fail: (why: Error) => void = () => undefined;

  constructor(line: Line) {
    this.text = new Promise((take, fail) => {
      [this.#take, this.#fail] = [take, fail];
    });
    AbortSignal.timeout(ANSWER_TIMEOUT_MS).addEventListener("abort", () => this.onEnded("no answer in time"));
    line.out = this;
  }

  onText(text: string): void {
    this.#take(text);
  }

  onMessage(): void {
    this.onEnded("the server's answer cannot be read");
  }

  onEnded(why: string): void {
    this.#fail(new Error(why));
  }
}

export class Membership implements LineOut {
  readonly #line: Line;
  /** The reason for the transport, or "" when it is the first choice. */
  readonly why: string;
  readonly #member: RoomMember;
  readonly #out: MembershipOut;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended = false;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(line: Line, why: string, member: RoomMember, out: MembershipOut) {
    this.#line = line;
    this.why = why;
    this.#member = member;
    this.#out = out;
    line.out = this;
    this.pump();
  }

  get transport(): TransportName {
    return this.#line.transport;
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

  /** The place that this newcomer takes, or null where it stays: nobody stands at `head` who came before it. Null: it has no place yet. */
  startingPlace(places: readonly Pose[], head: Pose | null): Pose | null {
    if (this.#ended) return null;
    const numbers = new Float32Array(places.flatMap((place) => [...place.position, ...place.orientation]));
    const number = this.#member.starting_place(numbers, head ? poseNumbers(head) : new Float32Array());
    return number === undefined ? null : (places[number] ?? null);
  }

  setBody(head: Pose, hands: { left?: Pose | null; right?: Pose | null } = {}): void {
    const numbers = (pose: Pose | null | undefined): Float32Array => (pose ? poseNumbers(pose) : new Float32Array());
    if (!this.#ended) this.#member.set_body(poseNumbers(head), numbers(hands.left), numbers(hands.right));
  }

  /** Moves an object that this member holds. */
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
    if (this.#ended) return;
    this.#saidAt = now();
    this.#line.send(new Uint8Array([VOICE, ...packet]), "datagram");
  }

  /** Sends what is due; called after each change, and by a timer. */
  pump(): void {
    if (this.#ended) return;
    clearTimeout(this.#timer);
    for (let bytes = this.#member.poll_transmit(now()); bytes; bytes = this.#member.poll_transmit(now())) {
      this.#line.send(bytes, this.#member.may_be_lost(bytes) ? "datagram" : "stream");
    }
    if (now() - this.#saidAt >= SILENCE_INTERVAL_US) this.say(SILENCE);
    const wait = (this.#member.next_timeout() - now()) / 1_000;
    this.#timer = setTimeout(() => this.pump(), Math.min(MAX_IDLE_MS, Math.max(wait, 1)));
  }

  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#line.close();
    this.#member.free();
  }

  /** The server sends its reason as text when it refuses the membership. */
  onText(text: string): void {
    this.onEnded(this.#member.refusal(text));
  }

  onMessage(bytes: Uint8Array): void {
    if (bytes[0] === VOICE) return this.#out.onHeard(bytes.subarray(1));
    try {
      this.#member.on_message(now(), bytes);
    } catch (error) {
      return this.onEnded(`the room's message cannot be read: ${String(error)}`);
    }
    for (let json = this.#member.poll_event(); json !== undefined; json = this.#member.poll_event()) {
      const news = JSON.parse(json) as RoomNews;
      if (news.type === "goodbye") return this.onEnded(news.words, news);
      this.#out.onNews(news);
      // The recipient may have closed this membership.
      if (this.#ended) return;
    }
    this.pump();
  }

  onEnded(why: string, goodbye: Goodbye | null = null): void {
    this.close();
    this.#out.onEnded(why, goodbye);
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
