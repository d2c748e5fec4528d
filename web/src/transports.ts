// The transports of a session: their names, which browsers have them, and how they are dialled. The only place in the page that lists them.

import type { Carrier } from "./carrier.ts";
import type { TransportName } from "./generated/core.ts";
import type { WebTransportEnd } from "./session-info.ts";
import { dialWebRtc } from "./webrtc.ts";
import { dialWebSocket } from "./websocket.ts";
import { dialWebTransport } from "./webtransport.ts";

/** The server to dial. */
export interface Destination {
  /** The page's address, below which sessions are opened. */
  origin: string;
  end: WebTransportEnd;
  /** The window is to open a peer connection, which communicates through the other end of the port. */
  askForPeer(port: MessagePort): void;
}

/** Capabilities of the browser. */
export interface Browser {
  /** Has peer connections with access to their decoded pictures. Only the window can tell. */
  webrtc: boolean;
}

interface Transport {
  /** Name in the panel's choice. */
  label: string;
  /** Name in the panel's facts. */
  title: string;
  isAvailable(browser: Browser): boolean;
  /** Opens a carrier before the limit aborts; then it closes what it has opened and rejects. */
  dial(to: Destination, limit: AbortSignal): Promise<Carrier>;
}

const decodes = (): boolean => "VideoDecoder" in self;

export const TRANSPORT: Record<TransportName, Transport> = {
  webtransport: {
    label: "WebTransport",
    title: "WebTransport datagrams",
    isAvailable: () => "WebTransport" in self && decodes(),
    dial: ({ origin, end }, limit) => dialWebTransport(origin, end, limit),
  },
  webrtc: {
    label: "WebRTC",
    title: "WebRTC",
    isAvailable: ({ webrtc }) => webrtc,
    dial: ({ askForPeer }, limit) => dialWebRtc(askForPeer, limit),
  },
  websocket: {
    label: "WebSocket",
    title: "WebSocket (TCP)",
    // Every browser has WebSockets.
    isAvailable: decodes,
    dial: ({ origin, end }, limit) => dialWebSocket(origin, end.certificate, limit),
  },
};
