// A session over a WebSocket on the page's own port: a binary message is a datagram, a text a control message. For networks and browsers
// that support nothing else: TCP makes everything wait for what was lost.

import { Blocked, type Carrier, type CarrierOut, type Challenge } from "./carrier.ts";
import { textOf, withLength } from "./control.ts";
import { certificateOf } from "./session-info.ts";

/** The same path as over WebTransport. */
const PATH = "nearlight";
/** Maximum bytes queued for the network: newer movements and reports replace older ones. Guess: a second of them. */
const MAX_UNSENT_BYTES = 32_768;

/** `pinned` is the certificate that the link names. The browser has checked the connection as it did for the page; that both ends know
 *  the token, the proofs show. */
export async function dialWebSocket(origin: string, token: string, pinned: string | null, limit: AbortSignal): Promise<Carrier> {
  const certificate = await certificateOf(origin, token, pinned, limit);
  const { socket, challenge } = await openWebSocket(origin, PATH, limit);
  return new WebSocketCarrier(socket, { bytes: challenge, certificate });
}

/** A socket before its client has said anything, and the server's challenge, as on a control stream. */
interface OpenedWebSocket {
  socket: WebSocket;
  challenge: Uint8Array;
}

/** Opens a socket at `path` of the page's own port. */
export function openWebSocket(origin: string, path: string, limit: AbortSignal): Promise<OpenedWebSocket> {
  const address = new URL(path, origin);
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
      resolve({ socket, challenge: withLength(data) });
    };
  });
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

  sendControl(bytes: Uint8Array): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(textOf(bytes));
  }

  run(out: CarrierOut): Promise<string> {
    return new Promise((resolve) => {
      if (this.#socket.readyState !== WebSocket.OPEN) resolve("the server closed the connection");
      this.#socket.onclose = () => resolve("the server closed the connection");
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
