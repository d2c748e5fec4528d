// Generated from Rust: `make types` writes it anew.

/** The path of WebTransport's CONNECT request. */
export const WEBTRANSPORT_PATH = "/nearlight" as const;

/** Hands by their codes. */
export const HANDS = ["none","left","right"] as const;

/** Gamepads of a user, at most. */
export const MAX_GAMEPADS = 4 as const;

/** Controllers of a user, at most. */
export const MAX_CONTROLLERS = 3 as const;

/** Fingers, at most. */
export const MAX_TOUCHES = 10 as const;

/** Bytes of a clipboard's text. */
export const MAX_CLIPBOARD_BYTES = 32768 as const;

/** Bytes of a message that is not lost. */
export const MAX_RELIABLE_MESSAGE_BYTES = 16384 as const;

/** Bytes of one that may be. */
export const MAX_UNRELIABLE_MESSAGE_BYTES = 1100 as const;

/**
 * What a controller, a hand or its joints belong to.
 */
export type Hand = "none" | "left" | "right";

/**
 * Bytes that JSON has as base64 (RFC 4648 section 4).
 */
export type Base64 = string;

/**
 * What shakes.
 */
export type HapticsTarget = { "gamepad": number } | { "controller": Hand };

/**
 * A pulse; one of no length or strength ends the one before.
 */
export type Haptics = { target: HapticsTarget, 
/**
 * At most [`MAX_HAPTICS_MILLISECONDS`].
 */
milliseconds: number, 
/**
 * Of the slow, strong motor, 0 to 1; a device with one motor takes the stronger of both.
 */
strong: number, 
/**
 * Of the fast, weak motor, 0 to 1.
 */
weak: number, };

/**
 * How the pointer looks.
 */
export type CursorShape = { "named": string } | { "image": { 
/**
 * In pixels, 1 to [`MAX_CURSOR_SIDE`].
 */
width: number, height: number, 
/**
 * The pixel that points: column and row.
 */
hotspot: [number, number], 
/**
 * Rows from the top, four bytes for each pixel: red, green, blue, opacity, not multiplied.
 */
rgba: Base64, } };

/**
 * A gamepad that a client has.
 */
export type GamepadDescription = { 
/**
 * As in the samples.
 */
index: number, 
/**
 * What its system calls it; at most 200 characters are kept.
 */
name: string, 
/**
 * It can rumble.
 */
haptics: boolean, };

/**
 * A controller that a client has.
 */
export type ControllerDescription = { hand: Hand, 
/**
 * WebXR's input profiles, most specific first, such as `oculus-touch-v3`; at most 16 of 200 characters are kept.
 */
profiles: Array<string>, 
/**
 * It can shake.
 */
haptics: boolean, };

/**
 * What a user's gamepads and controllers are.
 */
export type DevicesDescription = { gamepads: Array<GamepadDescription>, controllers: Array<ControllerDescription>, };

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
codec_string: string, 
/**
 * Of the picture in pixels; what is decoded is higher where the latency marker lies below the picture.
 */
width: number, height: number, fps: number, 
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
 * What both ends do about losses; over a transport that loses nothing the client has nothing to do.
 */
recovery: string, 
/**
 * The client holds back so many frames and shows each so many frame intervals after it came, and says how many it holds; 0 of a
 * session that is shown as soon as it comes.
 */
playback_buffer: number, 
/**
 * None: there is nothing to hear, or the client did not ask for it.
 */
sound: SoundDescription | null, pacing: string, max_rate_bps: number, 
/**
 * Where the user begins: the middle between the eyes.
 */
start: Pose, 
/**
 * The owner lets texts of the clipboard pass, either way.
 */
clipboard: boolean, 
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

export type ServerMessage = { "type": "challenge", nonce: Bytes32, } | { "type": "welcome" } & Welcome | { "type": "refused", reason: RefusalReason, message: string, } | { "type": "stream" } & StreamDescription | { "type": "rate" } & RateStatus | { "type": "haptics" } & Haptics | { "type": "pointer", cursor: CursorShape, 
/**
 * The application takes the pointer's movement: the client captures it when the user clicks.
 */
captured: boolean, } | { "type": "clipboard", text: string, } | { "type": "application", data: Base64, } | { "type": "goodbye", message: string, };
