//! The record of one run: a line of JSON in the results folder.

use std::collections::BTreeMap;

use crate::dash::{Content, Playback};
use nearlight_events::{RecoveryCounts, STAGES};
use nearlight_link::DropReason;
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::CellRecord;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::plan::{Flow, Kind};

/// The record of one run of a cell. Rates are kb/s, times in histograms microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    pub labels: BTreeMap<String, String>,
    pub seed: u64,
    /// How the run was made; None in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveNote>,
    pub simulated: Span,
    pub warm_up: Span,
    /// Sampling interval of series. The first entry is the mean from the start to the first sample.
    pub sample: Span,
    /// Rendering, encoding and decoding times that the plan assumes for each frame.
    pub render: Span,
    pub encode: Span,
    pub decode: Span,
    pub media: Vec<MediaRecord>,
    pub rivals: Vec<RivalRecord>,
    pub links: Vec<LinkRecord>,
    /// Lost packets of all flows by reason.
    pub dropped: BTreeMap<String, u64>,
    /// The traffic of each Wi-Fi cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wifi: Vec<WifiRecord>,
}

/// How a live run was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveNote {
    /// What made the link: `root`, `user` or `relay`.
    pub means: String,
    /// The link's thread had real-time priority.
    pub real_time: bool,
    /// Packets that the link never saw because the machine was too slow. Any such packet invalidates the run.
    pub missed: u64,
    /// How much later than computed packets left the link, in microseconds. The worse of both directions.
    pub lateness_us_p50: f64,
    pub lateness_us_p99: f64,
}

/// The traffic of a Wi-Fi cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WifiRecord {
    /// The cell in the notation of `wifi=`.
    pub cell: String,
    pub record: CellRecord,
}

/// Frames of the measured time that failed their user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameLossCounts {
    /// Frames that were not complete by their deadline.
    pub residual: u64,
    /// Not shown, damaged, or shown after their deadline.
    pub bad: u64,
    /// Runs of consecutive bad frames.
    pub runs: u64,
}

/// Quality of service in the measured time. Every captured frame counts, whether it was sent or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// Frames displayed undamaged by their deadline.
    pub in_time: u64,
    /// Sum of the qualities of these frames, each from 0 to 1.
    pub quality: f64,
    pub stalls: u64,
    /// Total length of stalls.
    pub stalled: Span,
    pub watched: Span,
}

/// Bytes since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampleBytes {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// A media session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MediaRecord {
    pub name: String,
    /// The measured time.
    pub from: f64,
    pub to: f64,
    pub captured: u64,
    pub skipped: u64,
    pub sent_frames: u64,
    pub key_frames: u64,
    pub received_frames: u64,
    pub displayed: u64,
    /// Displayed pictures that were predicted from a frame that was never decoded.
    #[serde(default)]
    pub damaged: u64,
    /// Longest time that only damaged pictures were displayed, in microseconds. None in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_damage: Option<u64>,
    pub late: u64,
    pub passed_over: u64,
    pub packets_sent: u64,
    pub packets_lost: u64,
    /// Retransmitted packets since the session's start.
    pub retransmissions: u64,
    /// Bytes sent in the measured time: redundant ones, and all others.
    pub redundant_bytes: u64,
    pub other_bytes: u64,
    /// Frames that failed their user. None when the fate of each frame is unknown. Earlier versions wrote this and the next field under other names.
    #[serde(alias = "fates")]
    pub frame_losses: Option<FrameLossCounts>,
    /// How frames were recovered. None when the session does not use our receiver.
    #[serde(default, alias = "healed", skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryCounts>,
    /// Quality of service. None in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRecord>,
    /// Longest time in microseconds that a picture stood still while media arrived, and the number of standstills longer than four round trips and
    /// 250 ms. None if no datagram carried media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_standstill: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlong_standstills: Option<u64>,
    /// How often the receiver had no request pending while the picture was frozen, which must never happen.
    #[serde(default)]
    pub stuck: u64,
    /// Bytes of datagrams, without IP and UDP headers.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub frame_network_latency: Histogram,
    /// Time from a frame's first received packet to its last.
    #[serde(default)]
    pub frame_assembly: Histogram,
    pub frame_latency: Histogram,
    pub one_way_delay: Histogram,
    pub queue_delay: Histogram,
    /// Motion-to-photon time of displayed frames. Earlier versions recorded that of inputs under this name.
    #[serde(default, rename = "frame_motion_to_photon")]
    pub motion_to_photon: Histogram,
    /// Input-to-photon time.
    #[serde(alias = "motion_to_photon")]
    pub input_to_photon: Histogram,
    /// Stages of displayed frames, in the order of `nearlight_events::STAGES`. Empty if unknown.
    #[serde(default)]
    pub stages: [Histogram; STAGES.len()],
    pub psnr: Histogram,
    pub ssim: Histogram,
    /// Target rate at each sample; zero while the session sends nothing.
    pub target: Vec<u32>,
    pub sent: Vec<u32>,
    pub received: Vec<u32>,
}

impl MediaRecord {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(crate) fn on_sample(&mut self, target: Bitrate, sampled: SampleBytes, sample: Span) {
        let rate = |bytes: u64| (Bytes::new(bytes).over(sample).as_bps() / 1_000) as u32;
        self.target.push((target.as_bps() / 1_000) as u32);
        self.sent.push(rate(sampled.sent));
        self.received.push(rate(sampled.received));
    }
}

/// Statistics of an adaptive streaming player, from its first request to the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaybackRecord {
    /// Time from the first request to the first picture. None if there was no picture.
    pub startup: Option<Span>,
    /// Bit rates in kb/s, and the time that each was played.
    pub ladder: Vec<u64>,
    pub played: Vec<Span>,
    pub switches: u64,
    pub stalls: u64,
    pub stalled: Span,
    pub watched: Span,
    pub abandoned: u64,
    pub replaced: u64,
}

impl PlaybackRecord {
    /// Returns the record of a player that has not played anything.
    pub(crate) fn of(content: &Content) -> Self {
        let ladder = content.ladder().iter().map(|rate| rate.as_bps() / 1_000).collect();
        Self { ladder, ..Self::default() }
    }

    pub(crate) fn fill(&mut self, playback: &Playback) {
        let Playback { startup, ref played, switches, stalls, stalled, watched, abandoned, replaced } = *playback;
        let ladder = std::mem::take(&mut self.ladder);
        *self =
            Self { startup, ladder, played: played.clone(), switches, stalls, stalled, watched, abandoned, replaced };
    }
}

/// A competing flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RivalRecord {
    pub name: String,
    /// The flow responds to congestion.
    pub elastic: bool,
    pub from: f64,
    pub to: f64,
    /// Data that arrived in the measured time.
    pub delivered: u64,
    pub received: Vec<u32>,
    /// One-way delay of each data packet in the measured time, in microseconds.
    #[serde(default)]
    pub delay: Histogram,
    /// None unless the flow is a player.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playback: Option<PlaybackRecord>,
    #[serde(skip)]
    sampled: Bytes,
}

impl RivalRecord {
    pub(crate) fn new(flow: &Flow) -> Self {
        let (name, elastic) = match flow.kind {
            Kind::Tcp { law } | Kind::Dash { law, .. } => (law.name(), true),
            Kind::Short { .. } => ("short", true),
            Kind::Cbr { .. } => ("cbr", false),
        };
        let (from, to) = (flow.start.as_secs_f64(), flow.stop.as_secs_f64());
        let playback =
            if let Kind::Dash { content, .. } = &flow.kind { Some(PlaybackRecord::of(content)) } else { None };
        Self { name: name.to_owned(), elastic, from, to, playback, ..Self::default() }
    }

    pub(crate) fn on_sample(&mut self, delivered: Bytes, sample: Span) {
        let new = delivered.saturating_sub(self.sampled);
        self.sampled = delivered;
        self.received.push((new.over(sample).as_bps() / 1_000) as u32);
    }
}

/// A shared link in both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkRecord {
    pub name: String,
    pub sides: [SideRecord; 2],
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SideRecord {
    /// Mean rate of media that it carried in the measured time, in kb/s with IP headers.
    pub delivered: u64,
    /// Capacity at each sample in kb/s; zero if unlimited.
    pub capacity: Vec<u32>,
    /// Queue delay at each sample, in microseconds.
    pub queue: Vec<u32>,
}

impl LinkRecord {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

impl SideRecord {
    pub(crate) fn on_sample(&mut self, capacity: Option<Bitrate>, queue: Span) {
        self.capacity.push(capacity.map_or(0, |rate| (rate.as_bps() / 1_000) as u32));
        self.queue.push(queue.as_micros() as u32);
    }
}

impl RunRecord {
    pub(crate) fn on_dropped(&mut self, reason: DropReason) {
        match self.dropped.get_mut(reason.name()) {
            Some(count) => *count += 1,
            None => {
                self.dropped.insert(reason.name().to_owned(), 1);
            }
        }
    }
}
