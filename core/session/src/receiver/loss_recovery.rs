//! The ways in which receivers recover from losses.

use nearlight_units::Span;
use nearlight_wire::RecoveryPolicy;

/// How a receiver recovers from losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossRecovery {
    /// Requests the missing symbols, then a key frame.
    #[default]
    Symbols,
    /// The server's encoder predicts from acknowledged frames on request: acknowledges decoded frames, requests missing symbols, then such
    /// a frame, then a key frame.
    References,
    /// Requests a key frame at once and discards everything before it: what ALVR's client does.
    KeyFrames,
    /// Skips frames that are not complete in time, hands out the following frames nevertheless, and requests a key frame after each frame
    /// until one arrives: what OpenUVR's device does.
    ///
    /// OpenUVR, RTAS 2021, section IV.B.3, and its code (`receiving/src/raw.c`). Departures:
    ///
    /// - A frame is dropped 3 ms after its loss shows: by a later packet, a newer frame, or silence. OpenUVR drops it after 3 ms of silence,
    ///   for its packets leave back to back, and drops the wrong one where packets of two frames meet: ours are numbered.
    /// - A frame of which nothing arrived is dropped as well; OpenUVR does not notice it, and what follows is damaged without a request.
    /// - A request is repeated after a round trip and 53 ms where no frame follows: our sources may pause, OpenUVR's never do.
    /// - A decoder that rejects a damaged frame gets nothing more until the key frame, as browsers may demand.
    OpenUvr,
    /// Sends no requests, like receivers of streams that carry all their redundancy; frames that are incomplete `patience` after their loss
    /// was detected are given up.
    Nothing { patience: Span },
    /// The transport itself retransmits, like TCP: missing data is on its way, however late. Requests a key frame where the decoder
    /// rejected a frame, and nothing else.
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
