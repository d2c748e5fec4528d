//! The record of one run: a line of JSON in the results folder.

use std::collections::BTreeMap;

use nearlight_dash::{Content, Playback};
use nearlight_events::{RecoveryCounts, STAGES};
use nearlight_link::DropReason;
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::CellRecord;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::plan::{Flow, Kind};

/// A run of a cell with a seed. Rates are kb/s, lengths in histograms microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    pub labels: BTreeMap<String, String>,
    pub seed: u64,
    /// How it came about, if not in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveNote>,
    pub simulated: Span,
    pub warm_up: Span,
    /// Between two entries of a series; the first entry is the mean from the start to then.
    pub sample: Span,
    /// What the plan charges for a frame besides the network.
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

/// How a run came about that was not made in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveNote {
    /// What made the link: `root`, `user` or `relay`.
    pub means: String,
    /// The link's thread went before ordinary programs.
    pub real_time: bool,
    /// Packets that the link never saw because the machine was too slow: any of them spoils the run.
    pub missed: u64,
    /// How much later than the path decided packets left, in microseconds, of both directions the worse.
    pub lateness_us_p50: f64,
    pub lateness_us_p99: f64,
}

/// A Wi-Fi cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WifiRecord {
    /// As it is written.
    pub cell: String,
    pub record: CellRecord,
}

/// How many frames of the measured time did not serve the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameLossCounts {
    /// Not whole by their deadline, or never.
    pub residual: u64,
    /// Not shown, damaged, or shown after their deadline.
    pub bad: u64,
    /// Runs of such frames.
    pub runs: u64,
}

/// How a session served its user in the measured time: every captured frame counts, sent or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// Frames that were shown undamaged and by their deadline,
    pub in_time: u64,
    /// and the sum of their qualities, each from 0 to 1.
    pub quality: f64,
    pub stalls: u64,
    /// How long they took together, and the time in which they could have been.
    pub stalled: Span,
    pub watched: Span,
}

/// Bytes since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
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
    /// Of these, pictures that were predicted from a frame that was never decoded.
    #[serde(default)]
    pub damaged: u64,
    /// The longest time that the display showed nothing but such pictures, in microseconds; not known of runs that earlier versions made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_damage: Option<u64>,
    pub late: u64,
    pub passed_over: u64,
    pub packets_sent: u64,
    pub packets_lost: u64,
    /// Packets that carried symbols again, from the session's start.
    pub retransmissions: u64,
    /// Of what was sent in the measured time: what another datagram could have stood in for, and all else.
    pub redundant_bytes: u64,
    pub other_bytes: u64,
    /// Where it is known what became of each frame. Earlier versions wrote it under another name, like the next field.
    #[serde(alias = "fates")]
    pub frame_losses: Option<FrameLossCounts>,
    /// Where the session's own receiver tells.
    #[serde(default, alias = "healed", skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryCounts>,
    /// Not known of runs that earlier versions made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRecord>,
    /// The longest time that a picture stood while media arrived, in microseconds, and how often one stood longer than four round trips
    /// and 250 ms; none where no datagram carried media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_standstill: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlong_standstills: Option<u64>,
    /// How often the receiver had no request pending while the picture was frozen, which must never happen.
    #[serde(default)]
    pub stuck: u64,
    /// Datagrams without IP and UDP headers.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub frame_network_latency: Histogram,
    /// From a frame's first packet to its last, as they came.
    #[serde(default)]
    pub frame_assembly: Histogram,
    pub frame_latency: Histogram,
    pub one_way_delay: Histogram,
    pub queue_delay: Histogram,
    /// Of displayed frames. Earlier versions kept that of inputs alone, under the name of this one.
    #[serde(default, rename = "frame_motion_to_photon")]
    pub motion_to_photon: Histogram,
    /// Of inputs.
    #[serde(alias = "motion_to_photon")]
    pub input_to_photon: Histogram,
    /// Of displayed frames, in the order of `nearlight_events::STAGES`; empty if unknown.
    #[serde(default)]
    pub stages: [Histogram; STAGES.len()],
    pub psnr: Histogram,
    pub ssim: Histogram,
    /// Zero while the session sends nothing.
    pub target: Vec<u32>,
    pub sent: Vec<u32>,
    pub received: Vec<u32>,
}

impl MediaRecord {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(crate) fn on_sample(&mut self, target: Bitrate, sampled: Sampled, sample: Span) {
        let rate = |bytes: u64| (Bytes::new(bytes).over(sample).as_bps() / 1_000) as u32;
        self.target.push((target.as_bps() / 1_000) as u32);
        self.sent.push(rate(sampled.sent));
        self.received.push(rate(sampled.received));
    }
}

/// How a player of adaptive streaming did, from its first request to the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaybackRecord {
    /// From the first request to the first picture; none before it.
    pub startup: Option<Span>,
    /// The bit rates in kb/s, and how long each was played.
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
    /// Nothing was played yet.
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
    /// It answers to congestion.
    pub elastic: bool,
    pub from: f64,
    pub to: f64,
    /// Data that arrived in the measured time.
    pub delivered: u64,
    pub received: Vec<u32>,
    /// From one end of the path to the other, of each packet with data in the measured time, in microseconds.
    #[serde(default)]
    pub delay: Histogram,
    /// Of a player.
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

/// A shared link, forward and back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkRecord {
    pub name: String,
    pub sides: [SideRecord; 2],
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SideRecord {
    /// Media that it carried in the measured time, with IP headers.
    pub delivered: u64,
    /// Zero where nothing limits it.
    pub capacity: Vec<u32>,
    /// How long a packet would have waited, in microseconds.
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
