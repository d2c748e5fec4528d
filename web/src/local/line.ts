// A member's connection to its room: over WebTransport, datagrams beside one reliable stream; over a WebSocket, everything in order.

import { Blocked } from "../carrier.ts";
import type { TransportName } from "../generated/core.ts";
import type { FromLineWorker, Lane, LineDial, LineNews, ToLineWorker, TransportChoice } from "../messages.ts";
import { certificateOf } from "../session-info.ts";

/** How long the server may take to answer, and how long over WebTransport where a WebSocket may get through instead. */
const DIAL_MS = 6_000;
const FIRST_DIAL_MS = 3_000;
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
    return { line: await WorkerLine.open({ transport: "websocket", origin, certificate, limitMs: DIAL_MS }), certificate, why };
  };
  if (transport === "websocket") return overWebSocket("as asked");
  if (!("WebTransport" in self)) return overWebSocket("this browser lacks WebTransport");
  const asked = transport === "webtransport";
  try {
    const line = await WorkerLine.open({ transport: "webtransport", origin, certificate, limitMs: asked ? DIAL_MS : FIRST_DIAL_MS });
    return { line, certificate, why: asked ? "as asked" : transport === "webrtc" ? "members of rooms have no WebRTC" : "" };
  } catch (error) {
    if (asked || !(error instanceof Blocked)) throw error;
    return overWebSocket(`WebTransport does not get through: ${error.message}`);
  }
}

/** In a worker: a browser's streams take and hand out one datagram each time their thread is free, and that of a page which renders without a
 *  graphics card is busy for hundreds of milliseconds at a time. */
class WorkerLine implements Line {
  readonly transport: TransportName;
  readonly challenge: Uint8Array;
  readonly #worker: Worker;
  out: LineOut | null = null;

  private constructor(worker: Worker, transport: TransportName, challenge: Uint8Array) {
    this.#worker = worker;
    this.transport = transport;
    this.challenge = challenge;
  }

  static open(dial: LineDial): Promise<WorkerLine> {
    const worker = new Worker(new URL("line-worker.js", document.baseURI), { type: "module" });
    worker.postMessage({ type: "open", ...dial } satisfies ToLineWorker);
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        worker.terminate();
        reject(error);
      };
      worker.onerror = ({ message }) => fail(new Blocked(`the worker does not start: ${message}`));
      worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => {
        if (data.type === "failed") fail(data.blocked ? new Blocked(data.why) : new Error(data.why));
        if (data.type !== "open") return;
        const line = new WorkerLine(worker, dial.transport, data.challenge);
        worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => {
          if (data.type === "came") line.#onCame(data.news);
        };
        resolve(line);
      };
    });
  }

  sendText(bytes: Uint8Array): void {
    this.#post({ type: "text", bytes });
  }

  send(bytes: Uint8Array, lane: Lane): void {
    this.#post({ type: "send", bytes, lane });
  }

  close(): void {
    this.out = null;
    // It ends by itself once the session is closed.
    this.#post({ type: "close" });
  }

  #post(message: ToLineWorker): void {
    this.#worker.postMessage(message);
  }

  #onCame(came: readonly LineNews[]): void {
    for (const news of came) {
      if (news.type === "text") this.out?.onText(news.text);
      else if (news.type === "message") this.out?.onMessage(news.bytes);
      else this.out?.onEnded(news.why);
    }
    if (this.out) this.#post({ type: "taken" });
  }
}
