//! The ways in which receivers recover from losses.

use nearlight_units::Span;
use nearlight_wire::RecoveryPolicy;

/// How a receiver makes good what is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRecovery {
    /// Asks for the missing symbols, then for a key frame.
    #[default]
    Symbols,
    /// The server's encoder predicts from acknowledged frames where it is asked to: acknowledges what is decoded, asks for missing symbols,
    /// then for such a frame, then for a key frame.
    References,
    /// Asks for a key frame at once and discards what comes before it: what ALVR's client does.
    KeyFrames,
    /// Leaves out what is not whole in time, hands out the frames after it for all that, and asks for a key frame after each frame until one
    /// comes: what OpenUVR's device does.
    ///
    /// OpenUVR, RTSS 2021, section IV.B.3, and its code (`receiving/src/raw.c`). Departures:
    ///
    /// - A frame is dropped 3 ms after its loss shows: by a later packet, a newer frame, or silence. OpenUVR drops it after 3 ms of silence,
    ///   for its packets leave back to back, and drops the wrong one where packets of two frames meet: ours are numbered.
    /// - A frame of which nothing came is dropped as well; OpenUVR does not notice it, and what follows is damaged without a request.
    /// - A request is repeated after a round trip and 53 ms where no frame follows: our sources may pause, OpenUVR's never do.
    /// - A decoder that refuses a damaged frame gets nothing more until the key frame, as browsers may demand.
    OpenUvr,
    /// Asks for nothing, as receivers do whose streams bring all their redundancy along; what is not whole by `patience` after its loss
    /// showed is given up.
    Nothing { patience: Span },
    /// The transport itself sends again what is lost, as TCP does: what is missing is on its way, however late. Asks for a key frame where the
    /// decoder refused a frame, and for nothing else.
    Transport,
}

impl From<RecoveryPolicy> for LossRecovery {
    fn from(policy: RecoveryPolicy) -> Self {
        match policy {
            RecoveryPolicy::Retransmission => Self::Symbols,
            RecoveryPolicy::Reference => Self::References,
            RecoveryPolicy::Intra => Self::KeyFrames,
            RecoveryPolicy::OpenUvr { .. } => Self::OpenUvr,
        }
    }
}
