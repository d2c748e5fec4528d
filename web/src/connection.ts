// Keeps one WebTransport session to the server alive: dials, watches, and dials again with back-off.

import type { ConnectionState } from "./messages.ts";

/** The path of the CONNECT request. */
const PATH = "/nearlight";
/** Waits before a new attempt: doubling, so that a server that restarts is found soon and a dead one is left in peace. */
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 5_000;
/** A session that lived this long was a good one: the next loss starts its back-off anew. */
const SETTLED_MS = 5_000;
/** A server that is there sends frames and clock answers many times in this time. Guess. */
const STALL_MS = 1_000;
/** After this silence the session is given up. An outage of two seconds must not cost a new session. */
const GIVE_UP_MS = 4_000;
/** An attempt that takes longer has met a silent network. */
const DIAL_MS = 6_000;
const WATCH_MS = 250;
/** Datagrams that the browser keeps until the worker reads them: a large key frame comes in one burst. */
const QUEUED_DATAGRAMS = 4_096;
/** Datagrams that wait for the browser to take them, at most. Guess: what a session sends in a tenth of a second. */
const UNSENT_DATAGRAMS = 16;
/** What the browser could not send by then is out of date: a movement or a report that newer ones have replaced. Guess. */
const OUTGOING_MAX_AGE_MS = 100;

/** One session with the server. */
export interface Link {
  sendDatagram(bytes: Uint8Array): void;
  sendControl(bytes: Uint8Array): void;
}

export interface ConnectionOut {
  onOpen(link: Link): void;
  onControl(bytes: Uint8Array): void;
  onDatagram(bytes: Uint8Array): void;
  /** The link of the last `onOpen` is of no use any more. */
  onLost(): void;
  onState(state: ConnectionState): void;
}

/** What the server says of itself at `session.json`. */
interface SessionInfo {
  /** None where an authority vouches for the certificate. */
  certificate_sha256: string | null;
}

export class Connection {
  readonly #origin: string;
  readonly #out: ConnectionOut;
  #wanted = true;
  #transport: WebTransport | null = null;
  #attempt = 0;
  #heardAt = 0;
  #watchedAt = 0;
  #shown = false;
  #shownAt = 0;
  #wake: (() => void) | null = null;
  /** Why the present session must end, where this side decided that. */
  #reason: string | null = null;

  constructor(origin: string, out: ConnectionOut) {
    this.#origin = origin;
    this.#out = out;
    void this.#run();
  }

  /** A frame of this session is on the display. */
  onShown(): void {
    if (this.#shown) return;
    this.#shown = true;
    this.#shownAt = performance.now();
    this.#out.onState({ state: "live" });
  }

  /** Ends the session in favour of a new one. */
  restart(why: string): void {
    this.#reason = why;
    this.#transport?.close();
  }

  close(): void {
    this.#wanted = false;
    this.#transport?.close();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (this.#wanted) {
      if (this.#attempt === 0) this.#out.onState({ state: "connecting", attempt: 1 });
      const why = await this.#session();
      if (!this.#wanted) return;
      if (this.#shown && performance.now() - this.#shownAt > SETTLED_MS) this.#attempt = 0;
      const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#attempt);
      this.#attempt += 1;
      this.#out.onState({ state: "reconnecting", attempt: this.#attempt, retryInMs: wait, why });
      await this.#sleep(wait);
    }
  }

  /** One session from dialling to its end; says why it ended. */
  async #session(): Promise<string> {
    this.#shown = false;
    this.#reason = null;
    let opened = false;
    try {
      const transport = await this.#dial();
      this.#transport = transport;
      if (!this.#wanted) return "closed";
      const control = await transport.createBidirectionalStream();
      opened = true;
      this.#open(transport, control.writable);
      const ends = [this.#readDatagrams(transport), this.#readControl(control.readable), this.#watch(transport)];
      const why = await Promise.race([...ends, transport.closed.then(describeClose)]);
      return this.#reason ?? why;
    } catch (error) {
      return this.#reason ?? explain(error);
    } finally {
      this.#transport?.close();
      this.#transport = null;
      if (opened) this.#out.onLost();
    }
  }

  async #dial(): Promise<WebTransport> {
    const limit = AbortSignal.timeout(DIAL_MS);
    const answer = await fetch(new URL("session.json", this.#origin), { cache: "no-store", signal: limit });
    if (!answer.ok) throw new Error(`the server answers ${answer.status} where it should describe itself`);
    const info = (await answer.json()) as SessionInfo;
    // A browser may resolve `localhost` to an address family on which nobody listens, and QUIC does not try the other.
    const { hostname, port, protocol } = new URL(this.#origin);
    const host = hostname === "localhost" ? "127.0.0.1" : hostname;
    // Page and sessions share one port number; an address leaves out its scheme's own.
    const sessions = port || (protocol === "https:" ? "443" : "80");
    const options: WebTransportOptions = { requireUnreliable: true };
    if (info.certificate_sha256) {
      options.serverCertificateHashes = [{ algorithm: "sha-256", value: fromHex(info.certificate_sha256) }];
    }
    const transport = new WebTransport(`https://${host}:${sessions}${PATH}`, options);
    // Otherwise an unhandled rejection, beside the one that `ready` reports.
    transport.closed.catch(() => undefined);
    limit.addEventListener("abort", () => {
      if (this.#transport !== transport) transport.close();
    });
    await transport.ready;
    return transport;
  }

  #open(transport: WebTransport, controlStream: WritableStream<Uint8Array>): void {
    const datagrams = transport.datagrams as WebTransportDatagramDuplexStream & {
      incomingMaxBufferedDatagrams?: number;
      createWritable?: () => WritableStream<Uint8Array>;
    };
    datagrams.incomingMaxBufferedDatagrams = QUEUED_DATAGRAMS;
    datagrams.incomingHighWaterMark = QUEUED_DATAGRAMS;
    const writable = datagrams.createWritable?.() ?? datagrams.writable;
    const sender = writable.getWriter() as WritableStreamDefaultWriter<Uint8Array>;
    datagrams.outgoingMaxAge = OUTGOING_MAX_AGE_MS;
    let unsent = 0;
    const control = controlStream.getWriter();
    // A failed write means a lost session, which the readers notice and report.
    const ignore = (): void => undefined;
    sender.closed.catch(ignore);
    control.closed.catch(ignore);
    this.#heardAt = performance.now();
    this.#out.onState({ state: "waiting" });
    this.#out.onOpen({
      sendDatagram: (bytes) => {
        // The browser's own congestion control may hold datagrams back. Rather than late they are lost, which the session bears.
        if (unsent === UNSENT_DATAGRAMS) return;
        unsent += 1;
        void sender
          .write(bytes)
          .catch(ignore)
          .finally(() => (unsent -= 1));
      },
      sendControl: (bytes) => void control.write(bytes).catch(ignore),
    });
  }

  async #readDatagrams(transport: WebTransport): Promise<string> {
    const reader = transport.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "the server closed the connection";
      if (this.#transport !== transport) return "replaced";
      this.#heardAt = performance.now();
      this.#out.onDatagram(value);
    }
  }

  async #readControl(stream: ReadableStream<Uint8Array>): Promise<string> {
    const reader = stream.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "the server ended the session";
      this.#out.onControl(value);
    }
  }

  /** A server that died says nothing, and QUIC alone would wait for half a minute. */
  async #watch(transport: WebTransport): Promise<string> {
    let stalled = false;
    this.#watchedAt = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
      if (this.#transport !== transport) return "replaced";
      const now = performance.now();
      // A page that was frozen has heard nothing because it did not listen.
      if (now - this.#watchedAt > STALL_MS) this.#heardAt = now;
      this.#watchedAt = now;
      const silence = now - this.#heardAt;
      if (silence > GIVE_UP_MS) return "the server fell silent";
      if (silence > STALL_MS) {
        stalled = true;
        this.#out.onState({ state: "stalled", sinceMs: silence });
      } else if (stalled) {
        stalled = false;
        this.#out.onState(this.#shown ? { state: "live" } : { state: "waiting" });
      }
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function describeClose(info: WebTransportCloseInfo): string {
  return info.reason ? `the server closed the connection: ${info.reason}` : "the server closed the connection";
}

function explain(error: unknown): string {
  if (error instanceof TypeError) return "the server cannot be reached";
  if (error instanceof DOMException && error.name === "TimeoutError") return "the server does not answer";
  if (error instanceof Error && error.name === "WebTransportError") return "the connection broke";
  return error instanceof Error ? error.message : String(error);
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
