// A member's connection to its room, off the window's thread (local/line.ts).

import { Blocked } from "./carrier.ts";
import { VOICE, textOf, withLength } from "./control.ts";
import { MAX_ROOM_MESSAGE_BYTES } from "./generated/core.ts";
import { ROOMS_PATH } from "./generated/wire.ts";
import type { FromLineWorker, Lane, LineDial, LineNews, ToLineWorker } from "./messages.ts";
import { openWebSocket } from "./websocket.ts";
import { openWebTransport } from "./webtransport.ts";

/** Datagrams that wait for the browser to take them; what is beyond is lost. Guess: what a busy page says in one go, having heard its user for
 *  half a second. */
const MOST_DATAGRAMS = 64;
/** Messages that wait for the stream; what is beyond is lost, and said again later. */
const MOST_MESSAGES = 64;
/** A WebSocket that holds this many bytes back is given nothing that may be lost: it would arrive too late. */
const MOST_UNSENT_BYTES = 4_096;
/** How a text begins on the stream; no version of a room's messages does. */
const TEXT = "{".charCodeAt(0);
/** A room takes a member for gone that says nothing for 5 s, and a member at rest says something every second. While the window's thread is busy,
 *  with a picture that takes long or with a world that it loads, its last message is said again in its place. It may be busy for half a minute:
 *  who sees no picture for longer has left. */
const QUIET_MS = 1_500;
const BUSY_MS = 30_000;
/** A room answers each sign of life. One from which nothing comes for so long is gone: a browser notices a dead server only after half a minute over
 *  WebTransport. Longer than a room waits for a member, so that a page which was away hears the room's reason. */
const GONE_MS = 8_000;

/** Messages that wait for a busy window, of which voices would be heard too late. Guess: two seconds of ten voices, and more than a room sends before
 *  it gives up a member that takes nothing. */
const MOST_UNTOLD_VOICES = 2_000;
const MOST_UNTOLD = 20_000;

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToLineWorker>) => void) | null;
  postMessage(message: FromLineWorker, transfer?: Transferable[]): void;
  close(): void;
};

/** A connection that is open. */
interface Session {
  text(bytes: Uint8Array): void;
  send(bytes: Uint8Array, lane: Lane): void;
  close(): void;
}

class WebSocketSession implements Session {
  readonly #socket: WebSocket;

  constructor({ socket, challenge }: Awaited<ReturnType<typeof openWebSocket>>) {
    this.#socket = socket;
    scope.postMessage({ type: "open", challenge });
    socket.onclose = () => onEnded("the server closed the connection");
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") tell({ type: "text", text: data });
      else tell({ type: "message", bytes: new Uint8Array(data) });
    };
    if (socket.readyState !== WebSocket.OPEN) onEnded("the server closed the connection");
  }

  text(bytes: Uint8Array): void {
    this.#send(textOf(bytes));
  }

  send(bytes: Uint8Array, lane: Lane): void {
    if (lane === "stream" || this.#socket.bufferedAmount <= MOST_UNSENT_BYTES) this.#send(bytes as Uint8Array<ArrayBuffer>);
  }

  close(): void {
    this.#socket.onclose = null;
    this.#socket.close();
  }

  #send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data);
  }
}

class WebTransportSession implements Session {
  readonly #transport: WebTransport;
  readonly #stream: WritableStreamDefaultWriter<Uint8Array>;
  readonly #datagrams: WritableStreamDefaultWriter<Uint8Array>;
  readonly #waiting = { datagram: 0, stream: 0 };

  constructor({ transport, stream, datagrams, challenge }: Awaited<ReturnType<typeof openWebTransport>>) {
    this.#transport = transport;
    this.#stream = stream.writable.getWriter() as WritableStreamDefaultWriter<Uint8Array>;
    this.#datagrams = datagrams;
    this.#stream.closed.catch(() => undefined);
    scope.postMessage({ type: "open", challenge });
    void this.#run(stream.readable as ReadableStream<Uint8Array>);
  }

  text(bytes: Uint8Array): void {
    this.#write("stream", bytes, MOST_MESSAGES);
  }

  send(bytes: Uint8Array, lane: Lane): void {
    if (lane === "datagram" && bytes.length <= this.#transport.datagrams.maxDatagramSize) this.#write("datagram", bytes, MOST_DATAGRAMS);
    else this.#write("stream", withLength(bytes), MOST_MESSAGES);
  }

  close(): void {
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
    const why = await Promise.race([this.#readDatagrams(), readStream(stream), closed]).catch(() => "the connection broke");
    onEnded(why);
  }

  async #readDatagrams(): Promise<string> {
    const reader = this.#transport.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
    for (;;) {
      const { value: bytes, done } = await reader.read();
      if (done) return "the server closed the connection";
      tell({ type: "message", bytes });
    }
  }
}

/** Cuts the stream into messages, each behind its length. */
async function readStream(stream: ReadableStream<Uint8Array>): Promise<string> {
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
      const bytes = buffered.slice(4, end);
      buffered = buffered.subarray(end);
      if (bytes[0] === TEXT) tell({ type: "text", text: new TextDecoder().decode(bytes) });
      else tell({ type: "message", bytes });
    }
  }
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

let session: Session | null = null;
/** What the window last said of its user, and when. */
let newest: { bytes: Uint8Array; at: number } | null = null;
let sentAt = 0;
/** When something last came from the room; before its first message others watch over its answers. */
let cameAt = Number.POSITIVE_INFINITY;
let watchedAt = Number.POSITIVE_INFINITY;
/** What the window has not been told, because it is busy with what it was told before. */
let untold: LineNews[] = [];
let isTaken = true;

function tell(news: LineNews): void {
  if (news.type === "message") cameAt = performance.now();
  const isVoice = news.type === "message" && news.bytes[0] === VOICE;
  if (isVoice && untold.length >= MOST_UNTOLD_VOICES) return;
  if (untold.length >= MOST_UNTOLD) {
    session?.close();
    return onEnded("this page is too busy for what the room sends");
  }
  untold.push(news);
  if (isTaken) tellAll();
}

function tellAll(): void {
  isTaken = untold.length === 0;
  if (isTaken) return;
  const news = untold;
  untold = [];
  scope.postMessage({ type: "came", news });
}

async function open({ transport, origin, certificate, limitMs }: LineDial): Promise<void> {
  const limit = AbortSignal.timeout(limitMs);
  try {
    session =
      transport === "websocket"
        ? new WebSocketSession(await openWebSocket(origin, ROOMS_PATH, limit))
        : new WebTransportSession(await openWebTransport(origin, ROOMS_PATH, certificate, limit));
    setInterval(watch, QUIET_MS / 3);
  } catch (error) {
    scope.postMessage({ type: "failed", why: error instanceof Error ? error.message : String(error), blocked: error instanceof Blocked });
  }
}

function onEnded(why: string): void {
  tellAll();
  // By itself: who has heard the server's answer may be another than who awaited it.
  scope.postMessage({ type: "came", news: [{ type: "ended", why }] });
  scope.close();
}

function onSend(bytes: Uint8Array, lane: Lane): void {
  const now = performance.now();
  // What may be lost may also come twice.
  if (lane === "datagram" && bytes[0] !== VOICE) newest = { bytes, at: now };
  sentAt = now;
  session?.send(bytes, lane);
}

function watch(): void {
  const now = performance.now();
  // After a pause of this thread what came meanwhile waits behind this call.
  const wasAway = now - watchedAt >= QUIET_MS;
  watchedAt = now;
  if (!wasAway && now - cameAt >= GONE_MS) {
    session?.close();
    return onEnded("nothing comes from the server any more");
  }
  sayAgain(now);
}

function sayAgain(now: number): void {
  if (!newest || now - sentAt < QUIET_MS || now - newest.at > BUSY_MS) return;
  sentAt = now;
  session?.send(newest.bytes, "datagram");
}

scope.onmessage = ({ data }) => {
  if (data.type === "open") void open(data);
  else if (data.type === "text") session?.text(data.bytes);
  else if (data.type === "send") onSend(data.bytes, data.lane);
  else if (data.type === "taken") tellAll();
  else {
    session?.close();
    scope.close();
  }
};
