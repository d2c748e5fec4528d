// Generated from Rust: `make types` writes it anew.

/** All stages in the order that a frame passes them. */
export const STAGES = ["input","wait","render","convert","encode","pace","network","reassemble","decode","present"] as const;

/**
 * A stage of a frame's path from the user's movement to the display.
 */
export type Stage = "input" | "wait" | "render" | "convert" | "encode" | "pace" | "network" | "reassemble" | "decode" | "present";

/**
 * What completed a frame after a loss, or let decoding resume.
 */
export type RecoveryKind = "repair" | "late_repair" | "retransmission" | "reference" | "key_frame";
