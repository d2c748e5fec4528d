// A member's connection to its room: over WebTransport, datagrams beside one reliable stream; over a WebSocket, everything in order.

import { Blocked } from "../carrier.ts";
import { textOf } from "../control.ts";
import type { TransportName } from "../generated/core.ts";
import { ROOMS_PATH } from "../generated/wire.ts";
import type { FromLineWorker, Lane, ToLineWorker, TransportChoice } from "../messages.ts";
import { certificateOf } from "../session-info.ts";
import { openWebSocket } from "../websocket.ts";

/** How long the server may take to answer, and how long over WebTransport where a WebSocket may get through instead. */
const DIAL_MS = 6_000;
const FIRST_DIAL_MS = 3_000;
/** A WebSocket that holds this many bytes back is given nothing that may be lost: it would arrive too late. */
const MOST_WAITING = 4_096;

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
    const line = await WebTransportLine.open(origin, certificate, asked ? DIAL_MS : FIRST_DIAL_MS);
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

  private constructor({ socket, challenge }: Awaited<ReturnType<typeof openWebSocket>>) {
    this.#socket = socket;
    this.challenge = challenge;
    socket.onclose = () => this.out?.onEnded("the server closed the connection");
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") this.out?.onText(data);
      else this.out?.onMessage(new Uint8Array(data));
    };
  }

  static async open(origin: string, limit: AbortSignal): Promise<WebSocketLine> {
    return new WebSocketLine(await openWebSocket(origin, ROOMS_PATH, limit));
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

/** Over WebTransport, in a worker: a browser's streams take and hand out one datagram each time their thread is free, and that of a page which
 *  renders without a graphics card is busy for hundreds of milliseconds at a time. */
class WebTransportLine implements Line {
  readonly transport = "webtransport";
  readonly challenge: Uint8Array;
  /** The worker drops what waits for too long. */
  readonly isClogged = false;
  readonly #worker: Worker;
  out: LineOut | null = null;

  private constructor(worker: Worker, challenge: Uint8Array) {
    this.#worker = worker;
    this.challenge = challenge;
  }

  static open(origin: string, certificate: string | null, limitMs: number): Promise<WebTransportLine> {
    const worker = new Worker(new URL("line-worker.js", document.baseURI), { type: "module" });
    worker.postMessage({ type: "open", origin, certificate, limitMs } satisfies ToLineWorker);
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        worker.terminate();
        reject(error);
      };
      worker.onerror = ({ message }) => fail(new Blocked(`the worker does not start: ${message}`));
      worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => {
        if (data.type === "failed") fail(data.blocked ? new Blocked(data.why) : new Error(data.why));
        if (data.type !== "open") return;
        const line = new WebTransportLine(worker, data.challenge);
        worker.onmessage = ({ data }: MessageEvent<FromLineWorker>) => line.#onNews(data);
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

  #onNews(news: FromLineWorker): void {
    if (news.type === "text") this.out?.onText(news.text);
    else if (news.type === "message") this.out?.onMessage(news.bytes);
    else if (news.type === "ended") this.out?.onEnded(news.why);
  }
}
