// Generated from Rust: `make types` writes it anew.

/** The path of WebTransport's CONNECT request. */
export const WEBTRANSPORT_PATH = "/nearlight" as const;

/** Size of the marker in pixels. */
export const MARKER_SIZE = [192,32] as const;

/** Hands by their codes. */
export const HANDS = ["gaze","left","right"] as const;

/** Actions by their codes. */
export const ACTIONS = ["grab","release","push","throw","reset","nearer","farther"] as const;

/**
 * What acts on the world: the view's centre (mouse, touch, gamepad) or a tracked hand.
 */
export type Hand = "gaze" | "left" | "right";

/**
 * What a user can do to the world. Walking and looking are poses, not actions.
 */
export type Action = "grab" | "release" | "push" | "throw" | "reset" | "nearer" | "farther";

/**
 * A position in metres and a rotation.
 */
export type Pose = { position: [number, number, number], 
/**
 * Unit quaternion x, y, z, w.
 */
orientation: [number, number, number, number], };

/**
 * 32 bytes: a nonce, a hash, a MAC. Written as 64 hexadecimal digits.
 */
export type Bytes32 = string;

/**
 * A codec of pictures, written as its name.
 */
export type CodecKind = "h264" | "vp8";

/**
 * How the sound is coded.
 */
export type SoundDescription = { 
/**
 * `opus`.
 */
codec: string, 
/**
 * Samples a second of each channel.
 */
sample_rate: number, channels: number, };

/**
 * How the pictures are coded from now on.
 */
export type StreamDescription = { codec: CodecKind, 
/**
 * The codec string of WebCodecs, such as `avc1.42E01F`.
 */
codec_string: string, width: number, height: number, fps: number, 
/**
 * Which encoder runs, with its version.
 */
encoder: string, 
/**
 * Which renderer and graphics adapter run, or which other source.
 */
adapter: string, 
/**
 * 1 for a screen, 2 for side-by-side eyes.
 */
views: number, };

export type Welcome = { session: number, stream: StreamDescription, 
/**
 * `nearlight` and its version.
 */
server: string, controller: string, 
/**
 * The redundancy policy's name.
 */
fec: string, 
/**
 * The encoder predicts from acknowledged frames where it is asked to: the client acknowledges.
 */
references: boolean, 
/**
 * None: there is nothing to hear, or the client did not ask for it.
 */
sound: SoundDescription | null, pacing: string, max_rate_bps: number, 
/**
 * Where the user begins: the middle between the eyes.
 */
start: Pose, 
/**
 * That the server knows the token as well, bound as the client's proof was; none over WebRTC.
 */
proof?: Bytes32, };

/**
 * The rate decision in force, for the client's display.
 */
export type RateStatus = { target_bps: number, pacing_bps: number, sent_bps: number, 
/**
 * Name of the limit that decided the target.
 */
binding: string, 
/**
 * Every candidate: limit and rate.
 */
limits: Array<[string, number]>, rtt_us: number | null, packets_lost: number, key_frames: number, };

/**
 * Why a session was refused or ended.
 */
export type RefusalReason = "token" | "too_many_attempts" | "full" | "protocol" | "codec" | "internal";

export type ServerMessage = { "type": "challenge", nonce: Bytes32, } | { "type": "welcome" } & Welcome | { "type": "refused", reason: RefusalReason, message: string, } | { "type": "stream" } & StreamDescription | { "type": "rate" } & RateStatus | { "type": "goodbye", message: string, };
