// A session over WebRTC, as the worker sees it: only windows have peer connections, so a `Peer` there handles the connection.

import { type Carrier, type CarrierOut, SessionRefused, TransportBlocked, rtpTimestampOf } from "./carrier.ts";
import { textOf, withLength } from "./control.ts";
import type { FromPeer, ToPeer } from "./messages.ts";

/** Opens a session's carrier. `ask` hands the other end of the port to the window, where it becomes a `Peer`. */
export async function dialWebRtc(ask: (port: MessagePort) => void, limit: AbortSignal): Promise<Carrier> {
  const { port1: port, port2 } = new MessageChannel();
  ask(port2);
  const post = (message: ToPeer): void => port.postMessage(message);
  return new Promise((resolve, reject) => {
    let open = false;
    let ports: string[] = [];
    const blocked = (why: string): TransportBlocked => (ports.length > 0 ? portsBlocked(ports) : new TransportBlocked(why));
    const fail = (error: Error): void => {
      post({ type: "close" });
      reject(error);
    };
    limit.addEventListener("abort", () => {
      if (open) return;
      const error = blocked("no connection in time");
      // Another transport is to find the place free that the offer took.
      port.onmessage = ({ data }: MessageEvent<FromPeer>) => {
        if (data.type === "left") reject(error);
      };
      post({ type: "close" });
    });
    port.onmessage = ({ data }: MessageEvent<FromPeer>) => {
      if (data.type === "open") {
        open = true;
        resolve(new WebRtcCarrier(port));
      }
      else if (data.type === "answered") ({ ports } = data);
      else if (data.type === "ended") fail(data.blocked ? blocked(data.why) : new Error(data.why));
      else if (data.type === "refused") fail(new SessionRefused(data.reason, data.message));
    };
  });
}

/** The server answers over HTTP, but no connection comes up at these ports. */
function portsBlocked(ports: string[]): TransportBlocked {
  const which = ports.length > 1 ? `neither ${ports.slice(0, -1).join(", ")} nor ${ports.at(-1)}` : `not ${ports[0]}`;
  return new TransportBlocked(
    "no connection comes up at the server's ports",
    `The server answers the page, but no connection comes up: ${which} of it can be reached. Strict firewalls and some VPNs block them. ` +
      "Open one of them; or start the server with --ice-server turn:NAME:PASSWORD@HOST:443?transport=tcp, " +
      "a TURN server that both this browser and the server reach.",
  );
}

class WebRtcCarrier implements Carrier {
  readonly name = "webrtc";
  readonly challenge = null;
  readonly #port: MessagePort;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  sendDatagram(bytes: Uint8Array<ArrayBuffer>): void {
    this.#post({ type: "datagram", bytes }, [bytes.buffer]);
  }

  sendControl(bytes: Uint8Array): Promise<void> {
    // The channel queues 16 MiB, several times the longest text of the clipboard.
    this.#post({ type: "control", text: textOf(bytes) });
    return Promise.resolve();
  }

  run(out: CarrierOut): Promise<string> {
    return new Promise((resolve) => {
      this.#port.onmessage = ({ data }: MessageEvent<FromPeer>) => {
        if (data.type === "datagram") out.onDatagram(new Uint8Array(data.bytes));
        else if (data.type === "picture") out.onPicture(data.received);
        else if (data.type === "pictures") void readPictures(data.readable, out);
        else if (data.type === "control") out.onControl(withLength(data.text));
        else if (data.type === "counts") out.onCounts(data.counts);
        else if (data.type === "sound") out.onSoundCounts(data.counts);
        else if (data.type === "undecodable") out.onUndecodable();
        else if (data.type === "ended") resolve(data.why);
      };
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#port.onmessage = ({ data }: MessageEvent<FromPeer>) => {
        if (data.type === "picture") data.received.picture.close();
        if (data.type === "left") resolve();
      };
      this.#post({ type: "close" });
    });
  }

  #post(message: ToPeer, transfer: Transferable[] = []): void {
    this.#port.postMessage(message, transfer);
  }
}

async function readPictures(readable: ReadableStream<VideoFrame>, out: CarrierOut): Promise<void> {
  const reader = readable.getReader();
  for (;;) {
    const { value: picture, done } = await reader.read();
    if (done) return;
    const rtpTimestamp = rtpTimestampOf(picture);
    if (rtpTimestamp === undefined) picture.close();
    else out.onPicture({ picture, rtpTimestamp, receivedAt: null });
  }
}
