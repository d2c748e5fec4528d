//! Where one frame's time went: boundaries on one clock, so that stages telescope and sum to the total exactly.

use nearlight_units::{FrameId, InputSeq, Span, Time};
use serde::{Deserialize, Serialize};

/// A stage of a frame's path from the user's movement to the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The input sample's transfer to the server.
    Input,
    /// The sample waits for the next frame to be rendered.
    Wait,
    Render,
    /// Colour conversion.
    Convert,
    Encode,
    /// Encoded until the last packet of the first transmission has left.
    Pace,
    /// That packet's transfer to the receiver.
    Network,
    /// Until the frame is complete: repairs, and reordered packets.
    Reassemble,
    Decode,
    /// Decoded until it is on the display.
    Present,
}

/// All stages in the order that a frame passes them.
pub const STAGES: [Stage; 10] = [
    Stage::Input,
    Stage::Wait,
    Stage::Render,
    Stage::Convert,
    Stage::Encode,
    Stage::Pace,
    Stage::Network,
    Stage::Reassemble,
    Stage::Decode,
    Stage::Present,
];

impl Stage {
    /// The name in JSON, traces and graphs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Wait => "wait",
            Self::Render => "render",
            Self::Convert => "convert",
            Self::Encode => "encode",
            Self::Pace => "pace",
            Self::Network => "network",
            Self::Reassemble => "reassemble",
            Self::Decode => "decode",
            Self::Present => "present",
        }
    }
}

/// The timeline of one displayed frame. All times are on the client's clock; the server's were mapped by clock synchronisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    pub frame: FrameId,
    /// Newest input that the frame shows. The timeline starts with its event.
    pub input: InputSeq,
    /// Boundary `n` is the beginning of stage `n` of [`STAGES`]. The last one is the moment of display.
    pub boundaries: [Time; STAGES.len() + 1],
    /// Bound on the error of mapped server times, in both directions. An error shifts time between `input` and `network`.
    pub clock_error: Span,
    pub late: bool,
}

impl Timeline {
    /// The duration of one stage. `Input` and `Network` cross machines and may be negative within the clock error.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Span {
        let index = stage as usize;
        self.boundaries[index + 1] - self.boundaries[index]
    }

    /// The time from the input event to the display.
    #[must_use]
    pub fn total(&self) -> Span {
        self.boundaries[STAGES.len()] - self.boundaries[0]
    }

    /// When the picture was displayed.
    #[must_use]
    pub fn displayed_at(&self) -> Time {
        self.boundaries[STAGES.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_telescope_to_the_total() {
        let timeline = Timeline {
            frame: FrameId(3),
            input: InputSeq(2),
            boundaries: std::array::from_fn(|index| Time::from_nanos(1_000_003 * (index as u64 + 1).pow(2))),
            clock_error: Span::ZERO,
            late: false,
        };
        let sum = STAGES.iter().fold(Span::ZERO, |sum, stage| sum + timeline.stage(*stage));
        assert_eq!(sum, timeline.total());
    }

    #[test]
    fn stage_order_is_the_order_of_the_enum() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert_eq!(*stage as usize, index);
        }
    }
}
