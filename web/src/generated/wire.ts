// Generated from Rust: `make types` writes it anew.

/** The path of WebTransport's CONNECT request. */
export const WEBTRANSPORT_PATH = "/nearlight" as const;

/** The path at which rooms are joined. */
export const ROOMS_PATH = "/rooms" as const;

/** Hands by their codes. */
export const HANDS = ["none","left","right"] as const;

/** Gamepads of a user, at most. */
export const MAX_GAMEPADS = 4 as const;

/** Controllers of a user, at most. */
export const MAX_CONTROLLERS = 3 as const;

/** Fingers, at most. */
export const MAX_TOUCHES = 10 as const;

/** Bytes of a clipboard's text. */
export const MAX_CLIPBOARD_BYTES = 4194304 as const;

/** Bytes of a message that is not lost. */
export const MAX_RELIABLE_MESSAGE_BYTES = 16384 as const;

/** Bytes of one that may be. */
export const MAX_UNRELIABLE_MESSAGE_BYTES = 1100 as const;

/** Ends the names of gamepads that a server has made for a program. */
export const SERVED_GAMEPAD = "(Nearlight)" as const;

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
 * Strength of the slow, strong motor, 0 to 1. A device with one motor uses the greater of both strengths.
 */
strong: number, 
/**
 * Strength of the fast, weak motor, 0 to 1.
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
 * A gamepad of the user.
 */
export type GamepadDescription = { 
/**
 * The index by which input samples refer to it.
 */
index: number, 
/**
 * The name that the user's system gives it; at most 200 characters are kept.
 */
name: string, 
/**
 * It can rumble.
 */
haptics: boolean, };

/**
 * A tracked controller of the user.
 */
export type ControllerDescription = { hand: Hand, 
/**
 * WebXR's input profiles, most specific first, such as `oculus-touch-v3`; at most 16 of 200 characters are kept.
 */
profiles: Array<string>, 
/**
 * It can vibrate.
 */
haptics: boolean, };

/**
 * Descriptions of a user's gamepads and controllers.
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
 * The picture's width and height in pixels. Where the latency marker is below the picture, the decoded frame is higher.
 */
width: number, height: number, fps: number, 
/**
 * The encoder's name and version.
 */
encoder: string, 
/**
 * The source of the pictures: renderer and graphics adapter, or the name of a file or program.
 */
adapter: string, 
/**
 * 1 for a screen; 2 for two eyes side by side.
 */
views: number, };

/**
 * What a user may do, by the token of the user's link. `docs/wire.md`, section "Roles".
 */
export type UserRole = "host" | "guest" | "spectator";

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
 * How both ends recover from losses. It has no effect over a transport that loses nothing.
 */
recovery: string, 
/**
 * How many frames the client buffers before it shows the first one; it reports how many are buffered. 0: frames are shown as soon as
 * they are decoded.
 */
playback_buffer: number, 
/**
 * None: the application has no sound, or the client did not request it.
 */
sound: SoundDescription | null, pacing: string, max_rate_bps: number, 
/**
 * The user's initial head pose, midway between the eyes.
 */
start: Pose, 
/**
 * Both the server's owner and the user allow the exchange of clipboard text.
 */
clipboard: boolean, 
/**
 * The pictures are the demonstration world's or a scene's, so that the page can explain how to walk, grab and throw in them.
 */
demonstration: boolean, 
/**
 * What the user's token permits.
 */
role: UserRole, 
/**
 * The server's proof that it knows the token, over the same fields as the client's; none over WebRTC.
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
 * The application uses the pointer's movement rather than its position: the client captures the pointer when the user clicks.
 */
captured: boolean, } | { "type": "clipboard", text: string, } | { "type": "application", data: Base64, } | { "type": "goodbye", message: string, };
