// The messages between window and worker.

import type { ReceivedPicture } from "./carrier.ts";
import type { PageTime } from "./clock.ts";
import type { PictureCounts, Statistics as Counters, SoundCounts, TransportName } from "./generated/core.ts";
import type { CodecKind, CursorShape, DevicesDescription, Hand, Haptics, RateStatus, ServerMessage, RefusalReason as ServerRefusal, StreamDescription, Welcome } from "./generated/wire.ts";
import type { WebTransportEnd } from "./session-info.ts";
import type { RememberedTransport } from "./transport-memory.ts";
import type { DeviceInput } from "./input/devices.ts";
import type { Crop, FrameId, MarkerPixels, PictureKey } from "./picture.ts";
import type { Surface } from "./surface.ts";

export type { CursorShape, Hand, Haptics, RateStatus, ServerMessage, StreamDescription, TransportName, Welcome };

/** Why there is no session: the server's reasons, and the page's own. `certificate`: the link names another one. `impostor`: the server cannot
 *  prove that it knows the token. `undecodable`: the browser decodes no picture of any codec that it claims. */
export type RefusalReason = ServerRefusal | "certificate" | "impostor" | "undecodable" | "proxy";

/** The receiver's counters, taken a few times a second. */
export interface Statistics extends Counters {
  at: PageTime;
}

/** When the loudspeaker's sample `frame`, counted from its start, is being heard. */
export interface SpeakerClock {
  frame: number;
  at: PageTime;
}

/** The loudspeaker requests `moments` samples in each channel, of which `frame` is the first. It has `left` more queued; negative if it lacked some. */
export interface FromSpeaker {
  frame: number;
  moments: number;
  left: number;
}

/** Interleaved samples, and how many moments the loudspeaker should have queued or requested. */
export interface ToSpeaker {
  samples: Float32Array<ArrayBuffer>;
  depth: number;
}

export interface Marker {
  frame: FrameId;
  input: number;
}

export type ConnectionState =
  | { state: "connecting"; attempt: number }
  | { state: "waiting" }
  | { state: "live" }
  | { state: "stalled"; sinceMs: number }
  /** `advice` is empty where retrying is all that can be done. */
  | { state: "reconnecting"; attempt: number; retryInMs: number; why: string; advice: string }
  | { state: "refused"; reason: RefusalReason; message: string }
  | { state: "failed"; message: string };

/** `auto` takes the first transport that gets through. */
export type TransportChoice = TransportName | "auto";

/** `auto` takes WebGL2 where there is a graphics card, else a video element where the browser lets it be fed with pictures, else 2D. */
export type PainterChoice = "auto" | "webgl2" | "video" | "2d";

/** Whether the display shows each picture in its turn, or the newest first. */
export type DisplayOrder = "in-turn" | "newest";

export interface StartMessage {
  type: "start";
  surface: Surface;
  /** Why that is not WebGL2, or was chosen; empty where there is nothing to say. */
  why: string;
  /** Base of `session.json` and `whep`. */
  origin: string;
  transport: TransportChoice;
  /** The transport of the last visit, if a better one did not get through then. */
  remembered: RememberedTransport | null;
  /** The window has peer connections; workers have none. */
  webrtc: boolean;
  token: string;
  /** The hash of the server's certificate, where the link names it: 64 hexadecimal digits. */
  certificate: string | null;
  /** The window's `performance.timeOrigin`: the worker's clock is mapped onto the window's with it. */
  epoch: number;
  displayHz: number;
  displayOrder: DisplayOrder;
  /** Lets the application read and write the clipboard, where the server's owner permits it as well. */
  clipboard: boolean;
  /** What others in the room are to call the user; empty: what the server makes up. */
  userName: string;
  /** The key of the page's seat in rooms, by which a page that is in a room twice keeps its name: 16 random bytes. */
  seat: Uint8Array;
}

export type ToWorker =
  | StartMessage
  /** As `presenceNumbers` lays them out. */
  | { type: "presence"; at: PageTime; values: Float32Array<ArrayBuffer> }
  | { type: "device"; at: PageTime; input: DeviceInput }
  /** The user's gamepads and controllers. */
  | ({ type: "devices" } & DevicesDescription)
  | { type: "clipboard"; text: string }
  /** A message for the application. */
  | { type: "send"; data: Uint8Array<ArrayBuffer>; reliable: boolean }
  | { type: "display"; immersive: boolean; displayHz: number }
  /** The headset showed a frame, whose marker had these pixels. */
  | { type: "shown"; at: PageTime; frame: PictureKey; marker: MarkerPixels | null }
  /** The loudspeaker requests samples here. */
  | { type: "speaker"; port: MessagePort }
  | { type: "speaker-clock"; clock: SpeakerClock }
  | { type: "retry" }
  /** End the session until the next `retry`: the page renders the world. */
  | { type: "pause" }
  /** Use this transport for sessions from now on. */
  | { type: "transport"; transport: TransportChoice }
  /** The user's name in sessions from now on; `anew`: in one that begins at once. */
  | { type: "name"; userName: string; anew: boolean }
  | { type: "summary" | "events"; id: number }
  | { type: "close" };

export type FromWorker =
  | { type: "state"; state: ConnectionState }
  /** What draws pictures. */
  | { type: "painter"; name: string; why: string }
  /** The session's transport, and why this one; `why` is empty where there is nothing to say. `remembered` is for the next visit: null to begin
   *  with the best transport, undefined to keep what was remembered. */
  | { type: "carrier"; name: TransportName; why: string; remembered: RememberedTransport | null | undefined }
  /** The window is to open a peer connection, which communicates through its end of the port. `codecs` are those to ask for, best first. */
  | { type: "peer"; port: MessagePort; codecs: CodecKind[] }
  /** Which codecs the browser claims and does not decode, in words. */
  | { type: "codec"; why: string }
  | { type: "welcome"; welcome: Welcome }
  | { type: "stream"; stream: StreamDescription }
  | { type: "rate"; at: PageTime; rate: RateStatus }
  /** The server ends the session; a new one is tried. */
  | { type: "goodbye" }
  | { type: "haptics"; haptics: Haptics }
  | { type: "pointer"; cursor: CursorShape; captured: boolean }
  | { type: "clipboard"; text: string }
  /** A message from the application. */
  | { type: "received"; data: Uint8Array<ArrayBuffer>; reliable: boolean }
  | { type: "timelines"; rows: Float64Array<ArrayBuffer> }
  | { type: "statistics"; statistics: Statistics; marker: Marker | null }
  /** Only while immersive: the window's XR context draws it. The recipient closes it. */
  | { type: "frame"; frame: PictureKey; picture: VideoFrame; crop: Crop; views: Float32Array<ArrayBuffer> }
  /** `text` is an object of JSON for a summary, lines of JSON for events. */
  | { type: "answer"; id: number; text: string };

/** From a peer connection in the window to its session in the worker. */
export type FromPeer =
  /** Both data channels are open. */
  | { type: "open" }
  /** The server has answered the offer and waits at these of its ports, such as `UDP port 8091`. */
  | { type: "answered"; ports: string[] }
  | { type: "control"; text: string }
  | { type: "datagram"; bytes: ArrayBuffer }
  /** All pictures from now on, or where the browser has no such stream each by itself. */
  | { type: "pictures"; readable: ReadableStream<VideoFrame> }
  | { type: "picture"; received: ReceivedPicture }
  | { type: "counts"; counts: PictureCounts }
  | { type: "sound"; counts: SoundCounts }
  /** Frames arrive, and the browser decodes none of them. */
  | { type: "undecodable" }
  | { type: "refused"; reason: RefusalReason; message: string }
  /** `blocked`: another transport may get through. */
  | { type: "ended"; why: string; blocked: boolean }
  /** After `close`: the server has given the session's place away. */
  | { type: "left" };

export type ToPeer = { type: "control"; text: string } | { type: "datagram"; bytes: Uint8Array<ArrayBuffer> } | { type: "close" };

/** Sample rate of voices, which have one channel. */
export const VOICE_RATE = 48_000;

/** To a worker that encodes and decodes voices. */
export type ToVoiceWorker =
  /** A member's packet to decode. `number` counts a voice's packets. */
  | { type: "packet"; member: number; number: number; packet: Uint8Array<ArrayBuffer> }
  | { type: "gone"; member: number }
  /** The user's own voice, to be encoded: the port hands out blocks of ten milliseconds. */
  | { type: "microphone"; blocks: MessagePort };

export type FromVoiceWorker =
  /** A decoded packet. */
  | { type: "block"; member: number; number: number; samples: Float32Array<ArrayBuffer> }
  /** Ten milliseconds of the user's own voice. */
  | { type: "packet"; packet: Uint8Array<ArrayBuffer> };

/** How a room's message travels. A `datagram` may be lost, because the next message replaces it. */
export type Lane = "datagram" | "stream";

/** How a member's connection is opened. */
export interface LineDial {
  transport: "webtransport" | "websocket";
  origin: string;
  end: WebTransportEnd;
}

/** To the worker with a member's connection. */
export type ToLineWorker =
  | ({ type: "open" } & LineDial)
  /** As on a control stream, with its length. */
  | { type: "text"; bytes: Uint8Array }
  | { type: "send"; bytes: Uint8Array; lane: Lane }
  /** The window has handled the last `received`. */
  | { type: "taken" }
  | { type: "close" };

export type FromLineWorker =
  | { type: "open"; challenge: Uint8Array }
  /** `blocked`: another transport may get through. */
  | { type: "failed"; why: string; blocked: boolean }
  /** Everything received since the window's last `taken`. A browser that draws slowly lets a window handle few events between two pictures. */
  | { type: "received"; events: LineEvent[] };

export type LineEvent =
  | { type: "text"; text: string }
  /** A message of the room. */
  | { type: "message"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "ended"; why: string };
