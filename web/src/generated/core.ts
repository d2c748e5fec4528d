// Generated from Rust: `make types` writes it anew.

import type { RecoveryKind } from "./events.ts";

/** The numbers of a timeline's row: the moment of display, lengths and stages in microseconds, `late` is 0 or 1. */
export const TIMELINE_COLUMNS = ["frame","displayedAt","total","motionToPhoton","clockError","late","input","wait","render","convert","encode","pace","network","reassemble","decode","present"] as const;

/** The numbers of a pose: position in metres, unit quaternion. */
export const POSE_COLUMNS = ["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW"] as const;

/** The numbers of a view: its pose, and the tangents of its edges. */
export const VIEW_COLUMNS = ["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW","left","right","down","up"] as const;

/** Where the user is; rows of the same columns, behind their number where that is not always the same. */
export const PRESENCE_LAYOUT = [{"name":"head","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW"],"least":1,"most":1},{"name":"views","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW","left","right","down","up"],"least":1,"most":2},{"name":"gaze","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW"],"least":0,"most":1}] as const;

/** Each controller behind it, at most `MAX_CONTROLLERS`. */
export const CONTROLLER_LAYOUT = [{"name":"hand","columns":["code"],"least":1,"most":1},{"name":"aim","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW"],"least":1,"most":1},{"name":"grip","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW"],"least":0,"most":1},{"name":"buttons","columns":["value","pressed","touched"],"least":0,"most":10},{"name":"axes","columns":["value"],"least":0,"most":4}] as const;

/** Each gamepad. */
export const GAMEPAD_LAYOUT = [{"name":"pad","columns":["index"],"least":1,"most":1},{"name":"buttons","columns":["value","pressed"],"least":0,"most":20},{"name":"axes","columns":["value"],"least":0,"most":6}] as const;

/** The joints of a hand. */
export const HAND_LAYOUT = [{"name":"joints","columns":["x","y","z","quaternionX","quaternionY","quaternionZ","quaternionW","radius"],"least":25,"most":25}] as const;

/** The numbers of a pointer: fractions of the picture, captured or not, totals in pixels, W3C's `buttons`. */
export const POINTER_COLUMNS = ["x","y","captured","movedX","movedY","scrolledX","scrolledY","buttons"] as const;

/** The numbers of a finger: its name, fractions of the picture, pressure from 0 to 1. */
export const TOUCH_COLUMNS = ["id","x","y","pressure"] as const;

/**
 * The transport of a session.
 */
export type TransportName = "webtransport" | "webrtc" | "websocket";

/** Transports in the order in which the page tries them. */
export const TRANSPORTS = ["webtransport","webrtc","websocket"] as const;

/**
 * Counters of the page's display; durations are in microseconds, rates in bits per second.
 */
export type Statistics = { transport: TransportName, completed: number, decoded: number, displayed: number, 
/**
 * Displayed pictures that were predicted from a skipped frame.
 */
damaged: number, late: number, lost: number, packetsLost: number, retransmitted: number, keyFrames: number, 
/**
 * Share of repairs and retransmitted symbols in all that arrived.
 */
redundancy: number, repairs: number, 
/**
 * Share of frames that were never recovered.
 */
residualLoss: number, 
/**
 * How the picture last recovered from a loss, and how many newer frames had begun to arrive by then.
 */
recoveredBy: RecoveryKind | null, framesToRecover: number, 
/**
 * Times that it recovered with a frame predicted from an acknowledged one.
 */
byReference: number, malformed: number, corrupt: number, 
/**
 * Frames that the decoder rejected.
 */
refused: number, unreadableMarkers: number, 
/**
 * How often a timer was due, by the reason for which it was set.
 */
wakes: Record<string, number>, receivedBps: number, 
/**
 * None until the clocks are synchronised.
 */
clockErrorUs: number | null, roundTripUs: number | null, 
/**
 * None: the session has no sound.
 */
sound: SoundStatistics | null, };

export type SoundStatistics = { packets: number, lost: number, repeated: number, concealed: number, late: number, 
/**
 * From the moment in the world to its playback; none while nothing is played.
 */
delayUs: number | null, 
/**
 * Median distance between sound and picture; none while nothing is played.
 */
apartUs: number | null, };

/**
 * What the browser has counted of the pictures since the session began.
 */
export type PictureCounts = { 
/**
 * Negative where more arrived than were sent, as with duplicates.
 */
packetsLost: number, packets: number, bytes: number, 
/**
 * Packets that arrived more than once.
 */
repeatedPackets: number, redundantBytes: number, repairs: number, 
/**
 * Decoded ones.
 */
keyFrames: number, };

/**
 * Counters of the sound, which the browser also plays by itself.
 */
export type SoundCounts = { packets: number, packetsLost: number, 
/**
 * Samples that were concealed.
 */
concealed: number, 
/**
 * The moment of the world being heard: microseconds on the server's clock.
 */
heard: number | null, };

/** The numbers of a body in a room before its three poses, of head, left and right hand: `hands` has 1 for a left one, 2 for a right one. */
export const BODY_COLUMNS = ["member","hands"] as const;

/** The numbers of an object in a room before its pose: `owner` is the member that holds it, or 0. */
export const OBJECT_COLUMNS = ["object","owner"] as const;

/** Longest message of a room, in bytes. */
export const MAX_ROOM_MESSAGE_BYTES = 524288 as const;

/**
 * Somebody in the room.
 */
export type RoomPerson = { id: number, name: string, role: string, 
/**
 * Red, green, blue: 0 to 255.
 */
colour: [number, number, number], };

/**
 * What happened in the room.
 */
export type RoomNews = { "type": "synchronised" } | { "type": "members" } | { "type": "owner", object: number, } | { "type": "refused" } | { "type": "goodbye", words: string, again: boolean, };
