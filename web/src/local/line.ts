// A member's connection to its room: over WebTransport, datagrams beside one reliable stream; over a WebSocket, everything in order.

import { TransportBlocked, explain } from "../carrier.ts";
import type { TransportName } from "../generated/core.ts";
import type { FromLineWorker, Lane, LineDial, LineEvent, ToLineWorker, TransportChoice } from "../messages.ts";
import { race } from "../race.ts";
import { webTransportEndOf } from "../session-info.ts";
import { workerError } from "../worker-error.ts";

/** Timeout of an attempt to connect. Guess: longer than any handshake that still succeeds. */
const DIAL_TIMEOUT_MS = 6_000;

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
  /** Receives what arrives. Nothing arrives before the next task. */
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

/** A line, the certificate that the proofs name, and the reason for the transport ("" when it is the first choice). */
export interface OpenedLine {
  line: Line;
  certificate: string | null;
  why: string;
}

/** Opens a line over WebTransport if the browser has it and it gets through, else over a WebSocket. Throws when neither comes up. */
export async function openLine({ origin, token, certificate: pinned, transport }: LineOptions): Promise<OpenedLine> {
  const end = await webTransportEndOf(origin, token, pinned, AbortSignal.timeout(DIAL_TIMEOUT_MS));
  const hasWebTransport = "WebTransport" in self;
  const asked = transport === "websocket" || (transport === "webtransport" && hasWebTransport);
  const names = asked ? [transport] : hasWebTransport ? (["webtransport", "websocket"] as const) : (["websocket"] as const);
  const entrants = names.map((name, rank) => {
    return { name, rank, dial: (limit: AbortSignal) => WorkerLine.open({ transport: name, origin, end }, limit) };
  });
  const { opened: line, name, failures } = await race(entrants, DIAL_TIMEOUT_MS);
  return { line, certificate: end.certificate, why: asked ? "as asked" : reasonFor(name, transport, hasWebTransport, failures.get("webtransport")) };
}

/** Says why a line has the transport that the user has not chosen, or "" for the best one. */
function reasonFor(name: TransportName, transport: TransportChoice, hasWebTransport: boolean, failure: unknown): string {
  if (!hasWebTransport) return "this browser lacks WebTransport";
  if (name === "websocket") return `WebTransport does not get through: ${failure === undefined ? "it was not ready in time" : explain(failure)}`;
  return transport === "webrtc" ? "members of rooms have no WebRTC" : "";
}

/** Runs in a worker, because a browser's streams move one datagram each time their thread is free. The window's thread is busy for hundreds of
 *  milliseconds at a time when the page renders without a graphics card. */
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

  static open(dial: LineDial, limit: AbortSignal): Promise<WorkerLine> {
    const worker = new Worker(new URL("line-worker.js", document.baseURI), { type: "module" });
    worker.postMessage({ type: "open", ...dial } satisfies ToLineWorker);
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        worker.terminate();
        reject(error);
      };
      let isOpen = false;
      limit.addEventListener("abort", () => {
        if (!isOpen) fail(new TransportBlocked("no answer in time"));
      });
      worker.onerror = (event) => fail(new Error(`the connection's worker failed: ${workerError(event)}`));
      worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => {
        if (data.type === "failed") fail(data.blocked ? new TransportBlocked(data.why) : new Error(data.why));
        if (data.type !== "open") return;
        isOpen = true;
        const line = new WorkerLine(worker, dial.transport, data.challenge);
        worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => {
          if (data.type === "received") line.#onReceived(data.events);
        };
        worker.onerror = (event) => {
          worker.terminate();
          line.out?.onEnded(`the connection's worker failed: ${workerError(event)}`);
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

  #onReceived(events: readonly LineEvent[]): void {
    for (const event of events) {
      if (event.type === "text") this.out?.onText(event.text);
      else if (event.type === "message") this.out?.onMessage(event.bytes);
      else this.out?.onEnded(event.why);
    }
    if (this.out) this.#post({ type: "taken" });
  }
}
