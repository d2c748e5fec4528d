//! Events, each as one line of JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use nearlight_units::{Bitrate, Bytes, FrameId, InputSeq, Span, Time};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::{RecoveryKind, Timeline};

/// The end that recorded an event. Times of a record are on that end's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Server,
    Client,
}

/// A limit that a rate decision considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub limit: Cow<'static, str>,
    pub rate: Bitrate,
}

/// A candidate protection of a frame. Its cost counts packets, those sent and those expected to be lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtectionCandidate {
    pub basis: Cow<'static, str>,
    pub repairs: u16,
    /// The cost in packets. Infinite, and null in JSON, if the candidate was ruled out.
    #[serde(deserialize_with = "or_infinite")]
    pub cost: f64,
}

fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|number| number.unwrap_or(f64::INFINITY))
}

/// An event. Durations are in nanoseconds, rates in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A frame reached the display.
    FrameDisplayed { timeline: Timeline },
    /// A complete frame was skipped by the display for a newer one. Its timeline starts with its rendering and ends with its last known
    /// stage.
    FramePassedOver { timeline: Timeline },
    /// The first pixels of `input` reached the display, the newest of those that `frame` is the first to show: one for a displayed frame.
    MotionToPhoton { input: InputSeq, frame: FrameId, span: Span },
    /// As [`Event::MotionToPhoton`], but for every input. Inputs superseded by a newer one waited for the frame that shows the newer one.
    InputToPhoton { input: InputSeq, frame: FrameId, span: Span },
    /// A frame will never be displayed.
    FrameLost { frame: FrameId, reason: Cow<'static, str> },
    /// A frame was complete but did not match the digest in its repairs: its symbols were discarded.
    FrameCorrupt { frame: FrameId },
    /// A frame with losses was completed, when `behind` newer frames had begun to arrive: by `symbols` that were recovered from repairs or,
    /// without any, by retransmitted symbols.
    FrameRecovered { frame: FrameId, by: RecoveryKind, symbols: u32, behind: u32 },
    /// The decoder continues after a frame was not available in time: with `frame`, when `frames` newer ones had begun to arrive.
    PictureRecovered { frame: FrameId, by: RecoveryKind, frames: u32 },
    /// Repairs were generated for a frame and those before it, `covers` in all. Contains every candidate and, if the policy computes it,
    /// the probability that the frame is not complete in time.
    FrameProtected {
        frame: FrameId,
        basis: Cow<'static, str>,
        repairs: u16,
        covers: u8,
        expected_loss: Option<f64>,
        candidates: Vec<ProtectionCandidate>,
    },
    /// The receiver requested symbols again.
    SymbolsRequested { frame: FrameId, symbols: u32, attempt: u32 },
    /// The receiver requested a frame that is predicted from `decoded` or an older one.
    ReferenceRequested { decoded: FrameId, newest: FrameId },
    /// The receiver requested a key frame.
    KeyFrameRequested { newest: FrameId, reason: Cow<'static, str> },
    /// The sender decided that the next frame is a key frame.
    KeyFrameForced { reason: Cow<'static, str> },
    /// The sender skipped a frame before it was encoded.
    FrameSkipped { reason: Cow<'static, str> },
    /// A frame left the encoder, predicted from `reference`.
    FrameSent { frame: FrameId, bytes: u64, key: bool, reference: Option<FrameId>, symbols: u32 },
    /// A complete frame went to the decoder.
    FrameReady { frame: FrameId },
    /// A complete frame went to the decoder although it depends, directly or indirectly, on a skipped frame: the picture is damaged.
    FrameDamaged { frame: FrameId },
    /// Media datagrams so far, sent (server) or arrived (client), with the retransmitted pieces and the repairs among them. At most ten a
    /// second, while there are any.
    Traffic { packets: u64, bytes: Bytes, retransmissions: u64, repairs: u64 },
    /// The rate controller changed its decision: target, pacing rate and all candidates.
    RateDecision { target: Bitrate, pacing: Bitrate, binding: Cow<'static, str>, candidates: Vec<Candidate> },
    /// The kernel's state of the TCP connection that carries the media. At most ten a second.
    TcpState {
        /// The smoothed round trip.
        round_trip: Span,
        congestion_window: Bytes,
        delivery_rate: Bitrate,
        /// Whether the delivery rate was measured while TCP had nothing more to send.
        app_limited: bool,
        /// Bytes handed to the kernel, but not sent yet.
        unsent: Bytes,
        /// Segments retransmitted so far.
        retransmissions: u64,
    },
    /// Clock synchronisation: the server's clock minus the client's, and the bound on the error.
    ClockEstimated { offset: Span, error: Span, round_trip: Span, drift_ppm: f64 },
    /// A datagram was rejected by every parser.
    MalformedDatagram { reason: String },
}

/// An event with its time and origin. Reading accepts exactly what is written: fields that are missing or unknown are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// Nanoseconds on the clock of `origin`.
    pub at: Time,
    pub origin: Origin,
    pub session: u32,
    #[serde(flatten)]
    pub event: Cow<'a, Event>,
}

/// Appends a record as one line of JSON.
pub fn write_line(writer: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, record)?;
    writer.write_all(b"\n")
}

/// The error for a line of an events file that this version does not know.
#[derive(Debug, Error)]
#[error(
    "line {line} of the events is none that this version writes: {source}; use one version of server, client and reader"
)]
pub struct UnknownLine {
    /// Line number, counted from 1.
    pub line: usize,
    source: serde_json::Error,
}

/// Returns the records of an events file in their order. An unterminated last line was truncated with its writer, and is skipped.
pub fn read_lines(text: &str) -> impl Iterator<Item = Result<Record<'static>, UnknownLine>> + '_ {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let numbered = whole.lines().enumerate();
    numbered.map(|(index, line)| serde_json::from_str(line).map_err(|source| UnknownLine { line: index + 1, source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: Event) -> String {
        let mut line = Vec::new();
        let record = Record { at: Time::from_micros(5), origin: Origin::Server, session: 1, event: Cow::Owned(event) };
        write_line(&mut line, &record).expect("memory never fails");
        String::from_utf8(line).expect("JSON is UTF-8")
    }

    #[test]
    fn a_record_is_one_flat_line() {
        assert_eq!(
            line(Event::FrameSkipped { reason: "pacer queue".into() }),
            "{\"at\":5000,\"origin\":\"server\",\"session\":1,\"event\":\"frame_skipped\",\"reason\":\"pacer queue\"}\n"
        );
    }

    /// One event of each kind. A new kind does not compile in [`place`] until it is added.
    fn every_event() -> Vec<Event> {
        let (frame, newest, symbols, reason) = (FrameId(7), FrameId(9), 3, Cow::Borrowed("a reason"));
        let (target, pacing, span) = (Bitrate::from_mbps(8), Bitrate::from_mbps(20), Span::from_micros(-3));
        let (input, boundaries) = (InputSeq(4), std::array::from_fn(|boundary| Time::from_micros(boundary as u64)));
        let timeline = Timeline { frame, input, boundaries, clock_error: Span::from_micros(1), late: true };
        let weighed = |cost| ProtectionCandidate { basis: "block".into(), repairs: 2, cost };
        vec![
            Event::FrameDisplayed { timeline: timeline.clone() },
            Event::FramePassedOver { timeline },
            Event::MotionToPhoton { input, frame, span },
            Event::InputToPhoton { input, frame, span },
            Event::FrameLost { frame, reason: reason.clone() },
            Event::FrameCorrupt { frame },
            Event::FrameRecovered { frame, by: RecoveryKind::LateRepair, symbols, behind: 1 },
            Event::PictureRecovered { frame, by: RecoveryKind::KeyFrame, frames: 2 },
            Event::FrameProtected {
                frame,
                basis: "block".into(),
                repairs: 2,
                covers: 1,
                expected_loss: None,
                candidates: vec![weighed(1.5), weighed(f64::INFINITY)],
            },
            Event::SymbolsRequested { frame, symbols, attempt: 1 },
            Event::ReferenceRequested { decoded: frame, newest },
            Event::KeyFrameRequested { newest, reason: reason.clone() },
            Event::KeyFrameForced { reason: reason.clone() },
            Event::FrameSkipped { reason: reason.clone() },
            Event::FrameSent { frame, bytes: 10_000, key: false, reference: Some(FrameId(6)), symbols },
            Event::FrameReady { frame },
            Event::FrameDamaged { frame },
            Event::Traffic { packets: 10, bytes: Bytes::new(12_000), retransmissions: 2, repairs: 1 },
            Event::RateDecision {
                target,
                pacing,
                binding: "loss".into(),
                candidates: vec![Candidate { limit: "loss".into(), rate: target }],
            },
            Event::ClockEstimated { offset: span, error: span, round_trip: span, drift_ppm: -1.5 },
            Event::MalformedDatagram { reason: "too short".to_owned() },
            Event::TcpState {
                round_trip: span,
                congestion_window: Bytes::new(20_000),
                delivery_rate: target,
                app_limited: true,
                unsent: Bytes::ZERO,
                retransmissions: 5,
            },
        ]
    }

    /// The index of an event in [`every_event`].
    fn place(event: &Event) -> usize {
        match event {
            Event::FrameDisplayed { .. } => 0,
            Event::FramePassedOver { .. } => 1,
            Event::MotionToPhoton { .. } => 2,
            Event::InputToPhoton { .. } => 3,
            Event::FrameLost { .. } => 4,
            Event::FrameCorrupt { .. } => 5,
            Event::FrameRecovered { .. } => 6,
            Event::PictureRecovered { .. } => 7,
            Event::FrameProtected { .. } => 8,
            Event::SymbolsRequested { .. } => 9,
            Event::ReferenceRequested { .. } => 10,
            Event::KeyFrameRequested { .. } => 11,
            Event::KeyFrameForced { .. } => 12,
            Event::FrameSkipped { .. } => 13,
            Event::FrameSent { .. } => 14,
            Event::FrameReady { .. } => 15,
            Event::FrameDamaged { .. } => 16,
            Event::Traffic { .. } => 17,
            Event::RateDecision { .. } => 18,
            Event::ClockEstimated { .. } => 19,
            Event::MalformedDatagram { .. } => 20,
            Event::TcpState { .. } => 21,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let events = every_event();
        let places: Vec<_> = events.iter().map(place).collect();
        assert_eq!(places, (0..events.len()).collect::<Vec<_>>());
        let text: String = events.iter().cloned().map(line).collect();
        let read: Vec<_> =
            read_lines(&text).map(|record| record.expect("its own writing").event.into_owned()).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn a_renamed_event_or_field_is_an_error_and_a_line_that_was_cut_off_is_not() {
        let whole = line(every_event().swap_remove(17));
        let fault =
            |text: &str| read_lines(text).find_map(Result::err).map(|unknown| (unknown.line, unknown.to_string()));
        assert_eq!(fault(&format!("{whole}{}", &whole[..30])), None);
        for (from, to, reported) in [
            ("\"traffic\"", "\"transport\"", "unknown variant `transport`"),
            ("\"retransmissions\"", "\"repeats\"", "missing field `retransmissions`"),
            ("{", "", "line 2"),
        ] {
            let (line, words) = fault(&format!("{whole}{}{whole}", whole.replace(from, to))).expect("an error");
            assert!(line == 2 && words.contains(reported), "{words}");
        }
    }
}
