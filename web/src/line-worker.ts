// A member's connection to its room, off the window's thread (local/line.ts).

import { TransportBlocked, explain } from "./carrier.ts";
import { VOICE, textOf, withLength } from "./control.ts";
import { MAX_ROOM_MESSAGE_BYTES } from "./generated/core.ts";
import { ROOMS_PATH } from "./generated/wire.ts";
import type { FromLineWorker, Lane, LineDial, LineEvent, ToLineWorker } from "./messages.ts";
import { closeReason, openWebSocket } from "./websocket.ts";
import { openWebTransport } from "./webtransport.ts";

/** Maximum datagrams that wait for the browser; further ones are dropped. Guess: a busy page sends half a second of input in one go. */
const MAX_WAITING_DATAGRAMS = 64;
/** Maximum messages that wait for the stream; further ones are dropped, and the core sends them again. Guess. */
const MAX_WAITING_MESSAGES = 64;
/** A WebSocket with more unsent bytes gets no message that may be lost: it would arrive too late. Guess. */
const MAX_UNSENT_BYTES = 4_096;
/** First byte of a text on the stream; no message of a room begins with it. */
const TEXT = "{".charCodeAt(0);
/** After this silence of the window its last message is sent again. A room drops members that are silent for 5 s, and a member at rest sends every
 *  second. */
const REPEAT_AFTER_MS = 1_500;
/** The last message is repeated for this long. Guess: a window that draws a slow picture or loads a world is busy for up to half a minute. */
const MAX_REPEAT_MS = 30_000;
/** A room that is silent for this long is gone, because it answers each message. Browsers notice a dead server only after half a minute over
 *  WebTransport. Longer than a room waits for a member, so that a page which was away receives the room's reason. */
const GONE_MS = 8_000;
/** Maximum voice packets that wait for a busy window. Guess: two seconds of ten voices; later they would be too late. */
const MAX_QUEUED_VOICES = 2_000;
/** Maximum events that wait for a busy window. Guess: more than a room sends before it drops a member. */
const MAX_QUEUED_EVENTS = 20_000;

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToLineWorker>) => void) | null;
  postMessage(message: FromLineWorker, transfer?: Transferable[]): void;
  close(): void;
};

/** An open connection. */
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
    socket.onclose = (event) => onEnded(closeReason(event));
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") deliver({ type: "text", text: data });
      else deliver({ type: "message", bytes: new Uint8Array(data) });
    };
    if (socket.readyState !== WebSocket.OPEN) onEnded("the connection was closed");
  }

  text(bytes: Uint8Array): void {
    this.#send(textOf(bytes));
  }

  send(bytes: Uint8Array, lane: Lane): void {
    if (lane === "stream" || this.#socket.bufferedAmount <= MAX_UNSENT_BYTES) this.#send(bytes as Uint8Array<ArrayBuffer>);
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
    this.#write("stream", bytes, MAX_WAITING_MESSAGES);
  }

  send(bytes: Uint8Array, lane: Lane): void {
    if (lane === "datagram" && bytes.length <= this.#transport.datagrams.maxDatagramSize) this.#write("datagram", bytes, MAX_WAITING_DATAGRAMS);
    else this.#write("stream", withLength(bytes), MAX_WAITING_MESSAGES);
  }

  close(): void {
    this.#transport.close();
  }

  #write(lane: Lane, bytes: Uint8Array, maximum: number): void {
    if (this.#waiting[lane] >= maximum) return;
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
      deliver({ type: "message", bytes });
    }
  }
}

/** Splits the stream into messages, which are prefixed with their length. */
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
      if (bytes[0] === TEXT) deliver({ type: "text", text: new TextDecoder().decode(bytes) });
      else deliver({ type: "message", bytes });
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
/** The window's newest message about its user. */
let newest: { bytes: Uint8Array; at: number } | null = null;
let sentAt = 0;
/** When a message last came from the room. Until the first one the membership watches over its answer. */
let receivedAt = Number.POSITIVE_INFINITY;
let watchedAt = Number.POSITIVE_INFINITY;
/** Events that wait until the window has handled the previous ones. */
let queued: LineEvent[] = [];
let windowIsReady = true;

function deliver(event: LineEvent): void {
  if (event.type === "message") receivedAt = performance.now();
  const isVoice = event.type === "message" && event.bytes[0] === VOICE;
  if (isVoice && queued.length >= MAX_QUEUED_VOICES) return;
  if (queued.length >= MAX_QUEUED_EVENTS) {
    session?.close();
    return onEnded("this page is too busy for what the room sends");
  }
  queued.push(event);
  if (windowIsReady) flush();
}

function flush(): void {
  windowIsReady = queued.length === 0;
  if (windowIsReady) return;
  const events = queued;
  queued = [];
  scope.postMessage({ type: "received", events });
}

async function open({ transport, origin, end }: LineDial): Promise<void> {
  // The window ends this worker when an attempt takes too long.
  const limit = new AbortController().signal;
  try {
    session =
      transport === "websocket"
        ? new WebSocketSession(await openWebSocket(origin, ROOMS_PATH, limit))
        : new WebTransportSession(await openWebTransport(origin, ROOMS_PATH, end, limit));
    setInterval(watch, REPEAT_AFTER_MS / 3);
  } catch (error) {
    scope.postMessage({ type: "failed", why: explain(error), blocked: error instanceof TransportBlocked });
  }
}

function onEnded(why: string): void {
  flush();
  // In a message of its own, because the answer's recipient may have been replaced.
  scope.postMessage({ type: "received", events: [{ type: "ended", why }] });
  scope.close();
}

function onSend(bytes: Uint8Array, lane: Lane): void {
  const now = performance.now();
  // A message that may be lost may also arrive twice.
  if (lane === "datagram" && bytes[0] !== VOICE) newest = { bytes, at: now };
  sentAt = now;
  session?.send(bytes, lane);
}

function watch(): void {
  const now = performance.now();
  // After a pause of this thread its messages wait behind this call.
  const wasAway = now - watchedAt >= REPEAT_AFTER_MS;
  watchedAt = now;
  if (!wasAway && now - receivedAt >= GONE_MS) {
    session?.close();
    return onEnded(`nothing came from the server for ${GONE_MS / 1_000} s`);
  }
  repeat(now);
}

function repeat(now: number): void {
  if (!newest || now - sentAt < REPEAT_AFTER_MS || now - newest.at > MAX_REPEAT_MS) return;
  sentAt = now;
  session?.send(newest.bytes, "datagram");
}

scope.onmessage = ({ data }) => {
  if (data.type === "open") void open(data);
  else if (data.type === "text") session?.text(data.bytes);
  else if (data.type === "send") onSend(data.bytes, data.lane);
  else if (data.type === "taken") flush();
  else {
    session?.close();
    scope.close();
  }
};
