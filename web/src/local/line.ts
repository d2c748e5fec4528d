// A member's connection to its room: over WebTransport, datagrams beside one reliable stream; over a WebSocket, everything in order.

import { Blocked } from "../carrier.ts";
import { textOf, withLength } from "../control.ts";
import { MAX_ROOM_MESSAGE_BYTES, type TransportName } from "../generated/core.ts";
import { ROOMS_PATH } from "../generated/wire.ts";
import type { TransportChoice } from "../messages.ts";
import { certificateOf } from "../session-info.ts";
import { openWebTransport } from "../webtransport.ts";

/** How long the server may take to answer, and how long over WebTransport where a WebSocket may get through instead. */
const DIAL_MS = 6_000;
const FIRST_DIAL_MS = 3_000;
/** A WebSocket that holds this many bytes back is given nothing that may be lost: it would arrive too late. */
const MOST_WAITING = 4_096;
/** The same in datagrams that wait for the browser to take them. Guess: what a member that talks sends in a tenth of a second. */
const CLOGGED_DATAGRAMS = 16;
/** More are lost. Guess: a page that is busy with its own pictures says in one go what it heard for half a second. */
const MOST_DATAGRAMS = 64;
/** Messages that wait for a stream; what is beyond is lost, and said again later. */
const MOST_MESSAGES = 64;
/** How a text begins on the stream; no version of a room's messages does. */
const TEXT = "{".charCodeAt(0);

/** `datagram`: the next message outdates it, so that it may be lost. */
export type Lane = "datagram" | "stream";

export interface LineOut {
  onText(text: string): void;
  /** A message of the room's. */
  onMessage(bytes: Uint8Array): void;
  onEnded(why: string): void;
}

export interface Line {
  readonly transport: TransportName;
  /** The server's challenge, as on a control stream. */
  readonly challenge: Uint8Array;
  /** Nothing arrives before it is set. */
  out: LineOut | null;
  /** It takes nothing more that may be lost. */
  readonly isClogged: boolean;
  /** A text as on a control stream, with its length. */
  sendText(bytes: Uint8Array): void;
  send(bytes: Uint8Array, lane: Lane): void;
  close(): void;
}

export interface LineOptions {
  origin: string;
  token: string;
  /** The certificate that the link names. */
  certificate: string | null;
  transport: TransportChoice;
}

/** A line, the certificate that the proofs name, and why it is this line; empty where there is nothing to say. */
export interface Opened {
  line: Line;
  certificate: string | null;
  why: string;
}

/** Opens a line: over WebTransport where the browser has it and it gets through, else over a WebSocket. Throws the reason where it does not come up. */
export async function openLine({ origin, token, certificate: pinned, transport }: LineOptions): Promise<Opened> {
  const certificate = await certificateOf(origin, token, pinned, AbortSignal.timeout(DIAL_MS));
  const overWebSocket = async (why: string): Promise<Opened> => {
    return { line: await WebSocketLine.open(origin, AbortSignal.timeout(DIAL_MS)), certificate, why };
  };
  if (transport === "websocket") return overWebSocket("as asked");
  if (!("WebTransport" in self)) return overWebSocket("this browser lacks WebTransport");
  const asked = transport === "webtransport";
  try {
    const line = await WebTransportLine.open(origin, certificate, AbortSignal.timeout(asked ? DIAL_MS : FIRST_DIAL_MS));
    return { line, certificate, why: asked ? "as asked" : transport === "webrtc" ? "members of rooms have no WebRTC" : "" };
  } catch (error) {
    if (asked || !(error instanceof Blocked)) throw error;
    return overWebSocket(`WebTransport does not get through: ${error.message}`);
  }
}

class WebSocketLine implements Line {
  readonly transport = "websocket";
  readonly challenge: Uint8Array;
  readonly #socket: WebSocket;
  out: LineOut | null = null;

  private constructor(socket: WebSocket, challenge: Uint8Array) {
    this.#socket = socket;
    this.challenge = challenge;
    socket.onclose = () => this.out?.onEnded("the server closed the connection");
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") this.out?.onText(data);
      else this.out?.onMessage(new Uint8Array(data));
    };
  }

  static open(origin: string, limit: AbortSignal): Promise<WebSocketLine> {
    const address = new URL(ROOMS_PATH, origin);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        socket.onclose = null;
        socket.close();
        reject(new Blocked(why));
      };
      const onLimit = (): void => fail("no answer comes back");
      limit.addEventListener("abort", onLimit);
      socket.onclose = () => fail("the server closed the connection");
      socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
        limit.removeEventListener("abort", onLimit);
        // The challenge is the server's first message.
        if (typeof data !== "string") return fail("the server's challenge cannot be read");
        resolve(new WebSocketLine(socket, withLength(data)));
      };
    });
  }

  get isClogged(): boolean {
    return this.#socket.bufferedAmount > MOST_WAITING;
  }

  sendText(bytes: Uint8Array): void {
    this.#send(textOf(bytes));
  }

  send(bytes: Uint8Array): void {
    this.#send(bytes as Uint8Array<ArrayBuffer>);
  }

  close(): void {
    this.out = null;
    this.#socket.close();
  }

  #send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data);
  }
}

class WebTransportLine implements Line {
  readonly transport = "webtransport";
  readonly challenge: Uint8Array;
  readonly #transport: WebTransport;
  readonly #stream: WritableStreamDefaultWriter<Uint8Array>;
  readonly #datagrams: WritableStreamDefaultWriter<Uint8Array>;
  #waiting = { datagram: 0, stream: 0 };
  #out: LineOut | null = null;
  #begins: (() => void) | null = null;

  private constructor({ transport, stream, datagrams, challenge }: Awaited<ReturnType<typeof openWebTransport>>) {
    this.#transport = transport;
    this.challenge = challenge;
    this.#stream = stream.writable.getWriter() as WritableStreamDefaultWriter<Uint8Array>;
    this.#datagrams = datagrams;
    this.#stream.closed.catch(() => undefined);
    const begun = new Promise<void>((resolve) => (this.#begins = resolve));
    void begun.then(() => this.#run(stream.readable as ReadableStream<Uint8Array>));
  }

  static async open(origin: string, certificate: string | null, limit: AbortSignal): Promise<WebTransportLine> {
    return new WebTransportLine(await openWebTransport(origin, ROOMS_PATH, certificate, limit));
  }

  get out(): LineOut | null {
    return this.#out;
  }

  set out(out: LineOut | null) {
    this.#out = out;
    if (out) this.#begins?.();
  }

  get isClogged(): boolean {
    return this.#waiting.datagram >= CLOGGED_DATAGRAMS;
  }

  sendText(bytes: Uint8Array): void {
    this.#write("stream", bytes, MOST_MESSAGES);
  }

  send(bytes: Uint8Array, lane: Lane): void {
    if (lane === "datagram" && bytes.length <= this.#transport.datagrams.maxDatagramSize) this.#write(lane, bytes, MOST_DATAGRAMS);
    else this.#write("stream", withLength(bytes), MOST_MESSAGES);
  }

  close(): void {
    this.#out = null;
    this.#transport.close();
  }

  #write(lane: Lane, bytes: Uint8Array, most: number): void {
    if (this.#waiting[lane] >= most) return;
    this.#waiting[lane] += 1;
    // A failed write means a lost session, which the readers report.
    void (lane === "datagram" ? this.#datagrams : this.#stream)
      .write(bytes)
      .catch(() => undefined)
      .finally(() => (this.#waiting[lane] -= 1));
  }

  async #run(stream: ReadableStream<Uint8Array>): Promise<void> {
    const closed = this.#transport.closed.then(({ reason }) => reason || "the server closed the connection");
    const why = await Promise.race([this.#readDatagrams(), this.#readStream(stream), closed]).catch(() => "the connection broke");
    this.#out?.onEnded(why);
  }

  async #readDatagrams(): Promise<string> {
    const reader = this.#transport.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "the server closed the connection";
      this.#out?.onMessage(value);
    }
  }

  /** Cuts the stream into messages, each behind its length. */
  async #readStream(stream: ReadableStream<Uint8Array>): Promise<string> {
    const reader = stream.getReader();
    let buffered = new Uint8Array();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "the server ended the membership";
      buffered = joined(buffered, value);
      while (buffered.length >= 4) {
        const end = 4 + new DataView(buffered.buffer, buffered.byteOffset).getUint32(0);
        if (end - 4 > MAX_ROOM_MESSAGE_BYTES) return "the server's message is longer than the protocol allows";
        if (buffered.length < end) break;
        const message = buffered.slice(4, end);
        buffered = buffered.subarray(end);
        if (message[0] === TEXT) this.#out?.onText(new TextDecoder().decode(message));
        else this.#out?.onMessage(message);
      }
    }
  }
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
