// A member's WebTransport session with its room, off the window's thread (local/line.ts).

import { Blocked } from "./carrier.ts";
import { withLength } from "./control.ts";
import { MAX_ROOM_MESSAGE_BYTES } from "./generated/core.ts";
import { ROOMS_PATH } from "./generated/wire.ts";
import type { FromLineWorker, Lane, ToLineWorker } from "./messages.ts";
import { openWebTransport } from "./webtransport.ts";

/** Datagrams that wait for the browser to take them; what is beyond is lost. Guess: what a busy page says in one go, having heard its user for
 *  half a second. */
const MOST_DATAGRAMS = 64;
/** Messages that wait for the stream; what is beyond is lost, and said again later. */
const MOST_MESSAGES = 64;
/** How a text begins on the stream; no version of a room's messages does. */
const TEXT = "{".charCodeAt(0);

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToLineWorker>) => void) | null;
  postMessage(message: FromLineWorker, transfer?: Transferable[]): void;
  close(): void;
};

class Session {
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

  onMessage(message: Exclude<ToLineWorker, { type: "open" }>): void {
    if (message.type === "text") this.#write("stream", message.bytes, MOST_MESSAGES);
    else if (message.type === "close") {
      this.#transport.close();
      scope.close();
    } else if (message.lane === "datagram" && message.bytes.length <= this.#transport.datagrams.maxDatagramSize) {
      this.#write("datagram", message.bytes, MOST_DATAGRAMS);
    } else this.#write("stream", withLength(message.bytes), MOST_MESSAGES);
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
    scope.postMessage({ type: "ended", why });
    scope.close();
  }

  async #readDatagrams(): Promise<string> {
    const reader = this.#transport.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
    for (;;) {
      const { value: bytes, done } = await reader.read();
      if (done) return "the server closed the connection";
      scope.postMessage({ type: "message", bytes });
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
      if (bytes[0] === TEXT) scope.postMessage({ type: "text", text: new TextDecoder().decode(bytes) });
      else scope.postMessage({ type: "message", bytes });
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

async function open({ origin, certificate, limitMs }: Extract<ToLineWorker, { type: "open" }>): Promise<void> {
  try {
    session = new Session(await openWebTransport(origin, ROOMS_PATH, certificate, AbortSignal.timeout(limitMs)));
  } catch (error) {
    scope.postMessage({ type: "failed", why: error instanceof Error ? error.message : String(error), blocked: error instanceof Blocked });
  }
}

scope.onmessage = ({ data }) => {
  if (data.type === "open") void open(data);
  else session?.onMessage(data);
};
