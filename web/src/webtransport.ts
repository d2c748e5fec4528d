// A session over WebTransport: QUIC datagrams, and one stream for the control messages.

import { type Carrier, type CarrierOut, type Challenge, TransportBlocked } from "./carrier.ts";
import { WEBTRANSPORT_PATH } from "./generated/wire.ts";
import type { WebTransportEnd } from "./session-info.ts";

/** Maximum datagrams that the browser keeps until the worker reads them. Guess: a large key frame comes in one burst. */
const MAX_QUEUED_DATAGRAMS = 4_096;
/** Maximum datagrams that wait for the browser to take them. Guess: a session sends as many in a tenth of a second. */
const MAX_UNSENT_DATAGRAMS = 16;
/** The browser drops what it could not send within this time, because newer movements and reports replace it. Guess. */
const OUTGOING_MAX_AGE_MS = 100;
/** Maximum bytes of the server's challenge, which is a short message. */
const MAX_CHALLENGE_BYTES = 1_024;

/** Opens a session's carrier. */
export async function dialWebTransport(origin: string, end: WebTransportEnd, limit: AbortSignal): Promise<Carrier> {
  return new WebTransportCarrier(await openWebTransport(origin, WEBTRANSPORT_PATH, end, limit), end.certificate);
}

/** A session before its client has sent anything. */
interface OpenedWebTransport {
  transport: WebTransport;
  stream: WebTransportBidirectionalStream;
  /** Outgoing datagrams. */
  datagrams: WritableStreamDefaultWriter<Uint8Array>;
  /** The server's, as received on its stream. */
  challenge: Uint8Array;
}

/** Opens a session at `path`. */
export async function openWebTransport(origin: string, path: string, end: WebTransportEnd, limit: AbortSignal): Promise<OpenedWebTransport> {
  // A browser may resolve `localhost` to an address family on which nobody listens, and QUIC does not try the other.
  const { hostname, port, protocol } = new URL(origin);
  const host = hostname === "localhost" ? "127.0.0.1" : hostname;
  // Without a proxy, page and sessions share one port number; an address leaves out its scheme's own.
  const sessions = end.port ?? (port || (protocol === "https:" ? "443" : "80"));
  const options: WebTransportOptions = { requireUnreliable: true };
  if (end.certificate) options.serverCertificateHashes = [{ algorithm: "sha-256", value: fromHex(end.certificate) }];
  const transport = new WebTransport(`https://${host}:${sessions}${path}`, options);
  // Otherwise an unhandled rejection, beside the one that `ready` reports.
  transport.closed.catch(() => undefined);
  let opened = false;
  limit.addEventListener("abort", () => {
    if (!opened) transport.close();
  });
  try {
    await transport.ready;
    const [stream, challenge] = await Promise.all([transport.createBidirectionalStream(), readChallenge(transport)]);
    opened = true;
    return { transport, stream, datagrams: datagramsOf(transport), challenge };
  } catch (error) {
    transport.close();
    throw new TransportBlocked(limit.aborted ? "no answer in time" : explain(error));
  }
}

/** Reads the challenge from the stream that the server opens with the session. */
async function readChallenge(transport: WebTransport): Promise<Uint8Array> {
  const streams = transport.incomingUnidirectionalStreams.getReader() as ReadableStreamDefaultReader<ReadableStream<Uint8Array>>;
  const { value: stream } = await streams.read();
  streams.releaseLock();
  if (!stream) throw new Error("the server closed the connection");
  const reader = stream.getReader();
  const bytes: number[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return Uint8Array.from(bytes);
    if (bytes.length + value.length > MAX_CHALLENGE_BYTES) throw new Error("the server's challenge is too long");
    bytes.push(...value);
  }
}

/** Sets the browser's datagram queues, and returns the writer of the outgoing one. */
function datagramsOf(transport: WebTransport): WritableStreamDefaultWriter<Uint8Array> {
  const datagrams = transport.datagrams as WebTransportDatagramDuplexStream & {
    incomingMaxBufferedDatagrams?: number;
    createWritable?: () => WritableStream<Uint8Array>;
  };
  datagrams.incomingMaxBufferedDatagrams = MAX_QUEUED_DATAGRAMS;
  datagrams.incomingHighWaterMark = MAX_QUEUED_DATAGRAMS;
  datagrams.outgoingMaxAge = OUTGOING_MAX_AGE_MS;
  const writer = (datagrams.createWritable?.() ?? datagrams.writable).getWriter() as WritableStreamDefaultWriter<Uint8Array>;
  // A failed write means a lost session, which the readers notice and report.
  writer.closed.catch(ignore);
  return writer;
}

class WebTransportCarrier implements Carrier {
  readonly name = "webtransport";
  readonly challenge: Challenge;
  readonly #transport: WebTransport;
  readonly #incoming: ReadableStream<Uint8Array>;
  readonly #control: WritableStreamDefaultWriter<Uint8Array>;
  readonly #datagrams: WritableStreamDefaultWriter<Uint8Array>;
  #unsent = 0;
  #closed = false;

  constructor({ transport, stream, datagrams, challenge }: OpenedWebTransport, certificate: string | null) {
    this.#transport = transport;
    this.challenge = { bytes: challenge, certificate };
    this.#incoming = stream.readable as ReadableStream<Uint8Array>;
    this.#control = stream.writable.getWriter() as WritableStreamDefaultWriter<Uint8Array>;
    this.#datagrams = datagrams;
    this.#control.closed.catch(ignore);
  }

  sendDatagram(bytes: Uint8Array): void {
    // The browser's own congestion control may hold datagrams back. They are dropped rather than sent late, which the session tolerates.
    if (this.#unsent === MAX_UNSENT_DATAGRAMS) return;
    this.#unsent += 1;
    void this.#datagrams
      .write(bytes)
      .catch(ignore)
      .finally(() => (this.#unsent -= 1));
  }

  async sendControl(bytes: Uint8Array): Promise<void> {
    await this.#control.write(bytes).catch(ignore);
  }

  async run(out: CarrierOut): Promise<string> {
    try {
      return await Promise.race([this.#readDatagrams(out), this.#readControl(out), this.#transport.closed.then(describeClose)]);
    } catch (error) {
      return explain(error);
    }
  }

  close(): void {
    this.#closed = true;
    this.#transport.close();
  }

  async #readDatagrams(out: CarrierOut): Promise<string> {
    const reader = this.#transport.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#closed) return "the server closed the connection";
      out.onDatagram(value);
    }
  }

  async #readControl(out: CarrierOut): Promise<string> {
    const reader = this.#incoming.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#closed) return "the server ended the session";
      out.onControl(value);
    }
  }
}

function ignore(): void {}

function describeClose(info: WebTransportCloseInfo): string {
  return info.reason ? `the server closed the connection: ${info.reason}` : "the server closed the connection";
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name !== "WebTransportError") return error.message;
  return error.message ? `the connection broke (${error.message})` : "the connection broke";
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
