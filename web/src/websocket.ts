// A session over a WebSocket on the page's own port: a binary message is a datagram, a text a control message. For networks and browsers
// that support nothing else: TCP makes everything wait for what was lost.

import { type Carrier, type CarrierOut, type Challenge, TransportBlocked } from "./carrier.ts";
import { textOf, withLength } from "./control.ts";

/** What may keep a WebSocket from opening although the page was loaded from the same port. */
const PROXY_ADVICE =
  "WebSockets do not get through either. If a proxy is in front of the server, it must forward them: in nginx, proxy_http_version 1.1 and the " +
  "headers Upgrade and Connection.";
/** Path of sessions, as over WebTransport. */
const PATH = "nearlight";
/** Maximum bytes queued for the network, because newer movements and reports replace older ones. Guess: a second of them. */
const MAX_UNSENT_BYTES = 32_768;
/** How often a full socket is checked for room. Guess: a megabyte a second still fills slow paths. */
const ROOM_CHECK_MS = 20;

/** Opens a session's carrier. The browser checks the connection as it did for the page; the proofs, which name the certificate, show that both
 *  ends know the token. */
export async function dialWebSocket(origin: string, certificate: string | null, limit: AbortSignal): Promise<Carrier> {
  const { socket, challenge } = await openWebSocket(origin, PATH, limit);
  return new WebSocketCarrier(socket, { bytes: challenge, certificate });
}

/** A socket before its client has sent anything, and the server's challenge as on a control stream. */
interface OpenedWebSocket {
  socket: WebSocket;
  challenge: Uint8Array;
}

/** Opens a socket at `path` of the page's own port. */
export function openWebSocket(origin: string, path: string, limit: AbortSignal): Promise<OpenedWebSocket> {
  // Below the page, which a proxy may serve below a path of its own.
  const address = new URL(path.replace(/^\//, ""), origin);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  return new Promise((resolve, reject) => {
    const fail = (why: string, advice = ""): void => {
      socket.onclose = null;
      socket.close();
      reject(new TransportBlocked(why, advice));
    };
    const onLimit = (): void => fail("no answer in time", PROXY_ADVICE);
    limit.addEventListener("abort", onLimit);
    let opened = false;
    socket.onopen = () => {
      opened = true;
    };
    socket.onclose = (event) => {
      if (opened) fail(closeReason(event));
      else fail("the connection does not open", PROXY_ADVICE);
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      limit.removeEventListener("abort", onLimit);
      // The challenge is the server's first message.
      if (typeof data !== "string") return fail("the server's challenge cannot be read");
      resolve({ socket, challenge: withLength(data) });
    };
  });
}

/** Returns why a socket that was open has closed. Only a clean end comes from the other side. */
export function closeReason({ wasClean, reason }: CloseEvent): string {
  if (!wasClean) return "the connection broke";
  return reason ? `the server closed the connection: ${reason}` : "the server closed the connection";
}

class WebSocketCarrier implements Carrier {
  readonly name = "websocket";
  readonly challenge: Challenge;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket, challenge: Challenge) {
    this.#socket = socket;
    this.challenge = challenge;
    socket.onclose = null;
    socket.onmessage = null;
  }

  sendDatagram(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#socket.readyState === WebSocket.OPEN && this.#socket.bufferedAmount < MAX_UNSENT_BYTES) this.#socket.send(bytes);
  }

  async sendControl(bytes: Uint8Array): Promise<void> {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(textOf(bytes));
    // Nothing reports that the socket has sent what it buffers.
    while (this.#socket.readyState === WebSocket.OPEN && this.#socket.bufferedAmount >= MAX_UNSENT_BYTES) {
      await new Promise((resolve) => setTimeout(resolve, ROOM_CHECK_MS));
    }
  }

  run(out: CarrierOut): Promise<string> {
    return new Promise((resolve) => {
      if (this.#socket.readyState !== WebSocket.OPEN) resolve("the connection was closed");
      this.#socket.onclose = (event) => resolve(closeReason(event));
      this.#socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
        if (typeof data === "string") out.onControl(withLength(data));
        else out.onDatagram(new Uint8Array(data));
      };
    });
  }

  close(): void {
    this.#socket.onmessage = null;
    this.#socket.close();
  }
}
