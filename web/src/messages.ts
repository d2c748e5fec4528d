// What the window and the worker tell each other. Times are milliseconds on the window's `performance` clock.

import type { ReceivedPicture } from "./carrier.ts";

export type TransportName = "webtransport" | "webrtc";

export type Hand = "gaze" | "left" | "right";
export type Action = "grab" | "release" | "push" | "throw" | "reset" | "nearer" | "farther";

/** The order is the wire's numbering. */
export const HANDS: readonly Hand[] = ["gaze", "left", "right"];
export const ACTIONS: readonly Action[] = ["grab", "release", "push", "throw", "reset", "nearer", "farther"];

/** The order of the stages in a frame's timeline. */
export const STAGES = [
  "input",
  "wait",
  "render",
  "convert",
  "encode",
  "pace",
  "network",
  "reassemble",
  "decode",
  "present",
] as const;

/** One row of the timelines that the core hands out: these numbers, then one per stage; lengths in microseconds. */
export const TIMELINE_FIELDS = ["frame", "displayedAt", "total", "motionToPhoton", "clockError", "late"] as const;
export const TIMELINE_ROW = TIMELINE_FIELDS.length + STAGES.length;

export interface StreamDescription {
  codec: string;
  codec_string: string;
  width: number;
  height: number;
  fps: number;
  encoder: string;
  adapter: string;
  views: number;
}

export interface Welcome {
  session: number;
  stream: StreamDescription;
  server: string;
  controller: string;
  fec: string;
  pacing: string;
  max_rate_bps: number;
  /** Where the user begins: the middle between the eyes. */
  start: { position: [number, number, number]; orientation: [number, number, number, number] };
}

export interface RateStatus {
  target_bps: number;
  pacing_bps: number;
  sent_bps: number;
  binding: string;
  limits: [string, number][];
  rtt_us: number | null;
  packets_lost: number;
  key_frames: number;
}

/** The server's reasons; and the page's own, where the link names another certificate or the server cannot prove that it knows the token. */
export type RefusalReason = "token" | "too_many_attempts" | "full" | "protocol" | "codec" | "internal" | "certificate" | "impostor";

export type ServerMessage =
  | ({ type: "welcome" } & Welcome)
  | { type: "refused"; reason: RefusalReason; message: string }
  | ({ type: "stream" } & StreamDescription)
  | ({ type: "rate" } & RateStatus)
  | { type: "goodbye"; message: string };

/** What made a frame whole, or the picture right again. */
export type RecoveryKind = "repair" | "late_repair" | "retransmission" | "reference" | "key_frame";

/** What the receiver counts, taken a few times a second. */
export interface Statistics {
  transport: TransportName;
  /** Milliseconds on the window's clock. */
  at: number;
  completed: number;
  decoded: number;
  displayed: number;
  late: number;
  lost: number;
  packets: number;
  packetsLost: number;
  repaired: number;
  keyFrames: number;
  /** Share of repairs and of symbols sent again in all that came. */
  redundancy: number;
  repairs: number;
  /** Share of frames that nothing healed. */
  residualLoss: number;
  /** What healed the picture last, and how many newer frames had begun to come by then. */
  healedBy: RecoveryKind | null;
  healedAfter: number;
  /** Times that a frame predicted from an acknowledged one healed it. */
  byReference: number;
  receivedBps: number;
  /** None until the clocks are synchronised. */
  clockErrorUs: number | null;
  roundTripUs: number | null;
  /** None where the session has no sound. */
  sound: SoundStatistics | null;
}

export interface SoundStatistics {
  packets: number;
  lost: number;
  repeated: number;
  concealed: number;
  late: number;
  /** From the moment in the world to its being heard; none while nothing is played. */
  delayUs: number | null;
  /** Median distance between sound and picture. */
  apartUs: number;
}

/** Which sample of the loudspeaker's is at the ear when: counted from its start, and milliseconds on the window's clock. */
export interface SpeakerClock {
  frame: number;
  at: number;
}

/** The loudspeaker asks for samples for so many moments, the first of which will be its so-and-so-many'th; it has them for `left` more, or lacked them. */
export interface FromSpeaker {
  frame: number;
  moments: number;
  left: number;
}

/** Left, right, left, and so on; and for how many moments the loudspeaker should have samples, here or on their way. */
export interface ToSpeaker {
  samples: Float32Array<ArrayBuffer>;
  depth: number;
}

export interface Marker {
  frame: number;
  input: number;
}

/** What the picture shows of one eye: position, unit quaternion x y z w, tangents left right down up. */
export const VIEW_FLOATS = 11;
/** Position and quaternion. */
export const POSE_FLOATS = 7;

export type ConnectionState =
  | { state: "connecting"; attempt: number }
  | { state: "waiting" }
  | { state: "live" }
  | { state: "stalled"; sinceMs: number }
  /** `advice` is empty where trying again is all that can be done. */
  | { state: "reconnecting"; attempt: number; retryInMs: number; why: string; advice: string }
  | { state: "refused"; reason: RefusalReason; message: string }
  | { state: "failed"; message: string };

/** `auto` takes the first that gets through, WebTransport if it does. */
export type TransportChoice = TransportName | "auto";

/** `auto` takes WebGL2 where there is a graphics card. */
export type PainterChoice = "auto" | "webgl2" | "2d";

export interface StartMessage {
  type: "start";
  canvas: OffscreenCanvas;
  /** Where `session.json` and `whep` lie. */
  origin: string;
  transport: TransportChoice;
  /** The window has peer connections; workers have none. */
  webrtc: boolean;
  token: string;
  /** The hash of the server's certificate, where the link names it: 64 hexadecimal digits. */
  certificate: string | null;
  /** The window's `performance.timeOrigin`: the worker's clock is mapped onto the window's with it. */
  epoch: number;
  displayHz: number;
  /** Leave the latency marker visible. */
  showMarker: boolean;
  painter: PainterChoice;
}

export type ToWorker =
  | StartMessage
  /** Head, count and views, count and hands, as the core's `on_presence` reads them. */
  | { type: "presence"; at: number; values: Float32Array<ArrayBuffer> }
  | { type: "act"; at: number; hand: Hand; action: Action }
  | { type: "display"; immersive: boolean; displayHz: number }
  /** The headset showed a frame whose marker pixels were these, rows from the top. */
  | { type: "shown"; at: number; frame: number; pixels: Uint8Array<ArrayBuffer> }
  /** The loudspeaker asks here for samples. */
  | { type: "speaker"; port: MessagePort }
  | { type: "speaker-clock"; clock: SpeakerClock }
  | { type: "retry" }
  /** A session over this one, from now on. */
  | { type: "transport"; transport: TransportChoice }
  | { type: "summary" | "events"; id: number }
  | { type: "close" };

export type FromWorker =
  | { type: "state"; state: ConnectionState }
  /** What draws on the screen's canvas. */
  | { type: "painter"; name: string; why: string }
  /** What carries the session, and why not another; `why` is empty where there is nothing to say. */
  | { type: "carrier"; name: TransportName; why: string }
  /** The window is to open a peer connection and to speak as its end of the port. */
  | { type: "peer"; port: MessagePort }
  | { type: "welcome"; welcome: Welcome }
  | { type: "stream"; stream: StreamDescription }
  | { type: "rate"; at: number; rate: RateStatus }
  | { type: "timelines"; rows: Float64Array<ArrayBuffer> }
  | { type: "statistics"; statistics: Statistics; marker: Marker | null }
  /** Only while immersive: the window's XR context draws it. Whoever receives it closes it. */
  | { type: "frame"; frame: number; picture: VideoFrame; views: Float32Array<ArrayBuffer> }
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
  | { type: "counts"; counts: Float64Array<ArrayBuffer> }
  /** In the order of the core's `on_rtp_sound`. */
  | { type: "sound"; counts: Float64Array<ArrayBuffer> }
  | { type: "refused"; reason: RefusalReason; message: string }
  /** `blocked`: another transport may get through. */
  | { type: "ended"; why: string; blocked: boolean };

export type ToPeer = { type: "control"; text: string } | { type: "datagram"; bytes: Uint8Array<ArrayBuffer> } | { type: "close" };
