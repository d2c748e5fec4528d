//! What happened, as one line of JSON each.

use std::io::{self, Write};

use nearlight_units::{Bitrate, Bytes, FrameId, InputSeq, Span, Time};
use serde::Serialize;

use crate::{RecoveryKind, Timeline};

/// Which end saw it. Times of a record are on that end's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Server,
    Client,
}

/// A limit that a rate decision weighed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    pub limit: &'static str,
    pub rate: Bitrate,
}

/// A way to protect a frame that was weighed; its cost counts packets, sent and expected to be lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProtectionCandidate {
    pub basis: &'static str,
    pub repairs: u16,
    pub cost: f64,
}

/// Something that happened. Lengths are nanoseconds, rates bits per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A frame reached the display.
    FrameDisplayed { timeline: Timeline },
    /// A whole frame that the display passed over for a newer one. Its timeline starts with its rendering and ends with the last moment
    /// that is known of it.
    FramePassedOver { timeline: Timeline },
    /// An input's first pixels reached the display.
    MotionToPhoton { input: InputSeq, frame: FrameId, span: Span },
    /// A frame will never be displayed.
    FrameLost { frame: FrameId, reason: &'static str },
    /// A frame was whole and did not have the digest that its repairs carry: its symbols were thrown away.
    FrameCorrupt { frame: FrameId },
    /// A frame became whole only through symbols that were sent again.
    FrameRepaired { frame: FrameId, symbols: u32, late: bool },
    /// A frame became whole through repairs, when `behind` newer frames had begun to come.
    FrameRecovered { frame: FrameId, symbols: u32, behind: u32 },
    /// The decoder goes on after a frame was not there in time: with `frame`, when `frames` newer ones had begun to come.
    PictureHealed { frame: FrameId, by: RecoveryKind, frames: u32 },
    /// Repairs were made for a frame and those before it, `covers` in all; the probability that it is not whole in time, where
    /// the policy reckons with it; and every candidate.
    FrameProtected {
        frame: FrameId,
        basis: &'static str,
        repairs: u16,
        covers: u8,
        expected_loss: Option<f64>,
        candidates: Vec<ProtectionCandidate>,
    },
    /// The receiver asked for symbols again.
    SymbolsRequested { frame: FrameId, symbols: u32, attempt: u32 },
    /// The receiver asked for a frame that is predicted from `decoded` or an older one.
    ReferenceRequested { decoded: FrameId, newest: FrameId },
    /// The receiver asked for a key frame.
    KeyFrameRequested { newest: FrameId, reason: &'static str },
    /// The sender decided that the next frame is a key frame.
    KeyFrameForced { reason: &'static str },
    /// The sender left out a frame before it was encoded.
    FrameSkipped { reason: &'static str },
    /// A frame left the encoder, predicted from `reference`.
    FrameSent { frame: FrameId, bytes: u64, key: bool, reference: Option<FrameId>, symbols: u32 },
    /// A whole frame went to the decoder.
    FrameReady { frame: FrameId },
    /// Media datagrams so far: that left (server), that arrived (client). Ten a second at most, while there are any.
    Traffic { packets: u64, bytes: Bytes, repairs: u64 },
    /// The rate controller changed its mind: target, pacing rate and all candidates.
    RateDecision { target: Bitrate, pacing: Bitrate, binding: &'static str, candidates: Vec<Candidate> },
    /// Clock synchronisation: the server's clock minus the client's, and how far that may be off.
    ClockEstimated { offset: Span, error: Span, round_trip: Span, drift_ppm: f64 },
    /// A datagram that no parser accepts.
    MalformedDatagram { reason: String },
}

/// An event with its moment and end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record<'a> {
    /// Nanoseconds on the clock of `origin`.
    pub at: Time,
    pub origin: Origin,
    pub session: u32,
    #[serde(flatten)]
    pub event: &'a Event,
}

/// Appends a record as one line of JSON.
pub fn write_line(writer: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, record)?;
    writer.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_flat_line() {
        let event = Event::FrameSkipped { reason: "pacer queue" };
        let mut line = Vec::new();
        let record = Record { at: Time::from_micros(5), origin: Origin::Server, session: 1, event: &event };
        write_line(&mut line, &record).expect("memory never fails");
        assert_eq!(
            String::from_utf8(line).expect("JSON is UTF-8"),
            "{\"at\":5000,\"origin\":\"server\",\"session\":1,\"event\":\"frame_skipped\",\"reason\":\"pacer queue\"}\n"
        );
    }
}
