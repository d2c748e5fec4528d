//! The page's statistics and summary, collected from displayed frames and the server's messages.

use std::collections::BTreeMap;

use nearlight_events::{
    Rates, Recovery, RecoveryKind, ReportedRates, STAGES, SoundSummary, Summary, SummaryBuilder, SummaryRest,
    SummaryStream,
};
use nearlight_session::{DisplayedFrame, Receiver, Wake};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::{ServerMessage, StreamDescription};
use serde::Serialize;

/// The page's name of a number, and its value for a frame displayed at a moment.
type TimelineNumber = (&'static str, fn(Time, &DisplayedFrame) -> f64);

/// The numbers of a timeline before its stages. Not-a-number where there is none; lengths are microseconds.
const FIELDS: [TimelineNumber; 6] = [
    ("frame", |_, displayed| f64::from(displayed.timeline.frame.0)),
    ("displayedAt", |now, _| now.as_nanos() as f64 / 1e3),
    ("total", |_, displayed| micros(displayed.timeline.total())),
    ("motionToPhoton", |_, displayed| displayed.motion_to_photon().map_or(f64::NAN, micros)),
    ("clockError", |_, displayed| micros(displayed.timeline.clock_error)),
    ("late", |_, displayed| f64::from(u8::from(displayed.timeline.late))),
];
const ROW: usize = FIELDS.len() + STAGES.len();
/// Timelines that are not fetched are dropped, oldest first: 4 s at 60 frames a second.
const MAX_ROWS: usize = 240;

/// The transport of a session.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
#[expect(clippy::enum_variant_names, reason = "the transports' own names")]
pub(crate) enum TransportName {
    WebTransport,
    WebRtc,
    WebSocket,
}

impl TransportName {
    /// In the order in which the page tries them.
    pub(crate) const ALL: [Self; 3] = [Self::WebTransport, Self::WebRtc, Self::WebSocket];

    /// As written on the page and in the summary.
    const fn name(self) -> &'static str {
        match self {
            Self::WebTransport => "webtransport",
            Self::WebRtc => "webrtc",
            Self::WebSocket => "websocket",
        }
    }

    /// Nothing is lost in transit.
    const fn is_reliable(self) -> bool {
        matches!(self, Self::WebSocket)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }
}

/// Counters of the page's display; durations are in microseconds, rates in bits per second.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Statistics {
    transport: TransportName,
    completed: u64,
    decoded: u64,
    displayed: u64,
    /// Displayed pictures that were predicted from a skipped frame.
    damaged: u64,
    late: u64,
    lost: u64,
    packets_lost: u64,
    retransmitted: u64,
    key_frames: u64,
    /// Share of repairs and retransmitted symbols in all that arrived.
    redundancy: f64,
    repairs: u64,
    /// Share of frames that were never recovered.
    residual_loss: f64,
    /// How the picture last recovered from a loss, and how many newer frames had begun to arrive by then.
    #[cfg_attr(test, ts(type = "RecoveryKind | null"))]
    recovered_by: Option<RecoveryKind>,
    frames_to_recover: u32,
    /// Times that it recovered with a frame predicted from an acknowledged one.
    by_reference: u64,
    malformed: u64,
    corrupt: u64,
    /// Frames that the decoder rejected.
    refused: u64,
    unreadable_markers: u64,
    /// How often a timer was due, by the reason for which it was set.
    #[cfg_attr(test, ts(type = "Record<string, number>"))]
    wakes: BTreeMap<&'static str, u64>,
    received_bps: u64,
    /// None until the clocks are synchronised.
    clock_error_us: Option<f64>,
    round_trip_us: Option<f64>,
    /// None: the session has no sound.
    sound: Option<Sound>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "SoundStatistics"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sound {
    packets: u64,
    lost: u64,
    repeated: u64,
    concealed: u64,
    late: u64,
    /// From the moment in the world to its playback; none while nothing is played.
    delay_us: Option<f64>,
    /// Median distance between sound and picture; none while nothing is played.
    apart_us: Option<f64>,
}

pub struct Tally {
    transport: TransportName,
    builder: SummaryBuilder,
    stream: Option<StreamDescription>,
    rates: ReportedRates,
    first_shown_at: Option<Time>,
    last_shown_at: Time,
    rows: Vec<f64>,
    wakes: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// The transport loses nothing.
    pub fn is_reliable(&self) -> bool {
        self.transport.is_reliable()
    }

    pub fn new(transport: TransportName) -> Self {
        Self {
            transport,
            builder: SummaryBuilder::default(),
            stream: None,
            rates: ReportedRates::default(),
            first_shown_at: None,
            last_shown_at: Time::default(),
            rows: Vec::new(),
            wakes: BTreeMap::new(),
        }
    }

    pub fn on_message(&mut self, now: Time, message: &ServerMessage) {
        match message {
            ServerMessage::Welcome(welcome) => self.stream = Some(welcome.stream.clone()),
            ServerMessage::Stream(stream) => self.stream = Some(stream.clone()),
            ServerMessage::Rate(rate) => {
                self.rates.on_report(now, Bitrate::from_bps(rate.target_bps), Bitrate::from_bps(rate.sent_bps));
            }
            ServerMessage::Challenge { .. }
            | ServerMessage::Refused { .. }
            | ServerMessage::Haptics(_)
            | ServerMessage::Pointer { .. }
            | ServerMessage::Clipboard { .. }
            | ServerMessage::Application { .. }
            | ServerMessage::Goodbye { .. } => {}
        }
    }

    /// The receiver's timer was due.
    pub fn on_wake(&mut self, wake: Wake) {
        *self.wakes.entry(wake.name()).or_default() += 1;
    }

    /// A frame was displayed; `displayed` is the receiver's record of it.
    pub fn on_displayed(&mut self, now: Time, displayed: Option<&DisplayedFrame>) {
        self.builder.on_picture(now);
        self.first_shown_at.get_or_insert(now);
        self.last_shown_at = now;
        let Some(displayed) = displayed else { return };
        let DisplayedFrame { timeline, total, inputs, .. } = displayed;
        self.builder.on_displayed(timeline, *total);
        self.builder.on_inputs_displayed(inputs.iter().map(|(_, span)| *span));
        if self.rows.len() == MAX_ROWS * ROW {
            self.rows.drain(..ROW);
        }
        self.rows.extend(FIELDS.map(|(_, number)| number(now, displayed)));
        self.rows.extend(STAGES.map(|stage| micros(timeline.stage(stage))));
    }

    /// Rows of [`FIELDS`] and the stages, for the frames since the last call.
    pub fn take_timelines(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.rows)
    }

    /// Counters as JSON.
    #[must_use]
    pub fn statistics(&self, now: Time, receiver: &Receiver) -> String {
        let statistics = receiver.statistics(now);
        let clock = receiver.clock(now);
        let (frames, loss) = (statistics.frames, statistics.loss);
        let recovery = Recovery::new(statistics.recovery, frames);
        let counters = Statistics {
            transport: self.transport,
            completed: frames.completed,
            decoded: frames.decoded,
            displayed: frames.displayed,
            damaged: frames.damaged,
            late: frames.late,
            lost: frames.lost,
            packets_lost: loss.packets,
            retransmitted: loss.retransmitted,
            key_frames: loss.key_frames,
            redundancy: recovery.redundancy_ratio,
            repairs: recovery.repairs,
            residual_loss: recovery.residual_frame_loss,
            recovered_by: statistics.recovered_by.map(|(kind, _)| kind),
            frames_to_recover: statistics.recovered_by.map_or(0, |(_, frames)| frames),
            by_reference: recovery.recovered_by_reference,
            malformed: statistics.malformed,
            corrupt: statistics.corrupt,
            refused: statistics.refused,
            unreadable_markers: statistics.unreadable_markers,
            wakes: self.wakes.clone(),
            received_bps: statistics.received_rate.as_bps(),
            clock_error_us: clock.map(|clock| micros(clock.error)),
            round_trip_us: clock.map(|clock| micros(clock.round_trip)),
            sound: receiver.sound_statistics(now).map(|sound| Sound {
                packets: sound.counts.packets,
                lost: sound.counts.lost,
                repeated: sound.counts.repeated,
                concealed: sound.counts.concealed,
                late: sound.counts.late,
                delay_us: sound.delay.map(micros),
                apart_us: sound.apart.percentile(50).map(micros),
            }),
        };
        serde_json::to_string(&counters).expect("counters are plain numbers")
    }

    /// The session so far.
    #[must_use]
    pub fn summary(&self, now: Time, receiver: &Receiver) -> Summary {
        let statistics = receiver.statistics(now);
        let watched = self.first_shown_at.map_or(Span::ZERO, |first| self.last_shown_at - first);
        let [target, sent] = self.rates.means();
        let stream = self.stream.as_ref().map(|stream| SummaryStream {
            codec: stream.codec.name().to_owned(),
            encoder: stream.encoder.clone(),
            adapter: stream.adapter.clone(),
            transport: self.transport.name().to_owned(),
        });
        let rest = SummaryRest {
            rates: Rates::new(target, sent, statistics.received.over(watched)),
            loss: statistics.loss,
            recovery: statistics.recovery,
            sound: receiver
                .sound_statistics(now)
                .map(|sound| SoundSummary::new(sound.counts, sound.delay, &sound.apart)),
            stream: stream.unwrap_or_default(),
            clock_error: receiver.clock(now).map_or(Span::ZERO, |clock| clock.error),
            unreadable_markers: statistics.unreadable_markers,
        };
        self.builder.build(statistics.frames, watched, rest)
    }
}

fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// The columns of a row by their names.
#[cfg(test)]
pub(crate) fn timeline_columns() -> Vec<&'static str> {
    FIELDS.iter().map(|(name, _)| *name).chain(STAGES.iter().map(|stage| stage.name())).collect()
}
