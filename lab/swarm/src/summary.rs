//! A run's figures, as `docs/json.md` describes them.

use std::collections::BTreeMap;

use nearlight_units::Span;
use serde::Serialize;

use crate::tally::{Delays, Tally};
use crate::{Behaviour, Profile};

/// The transport of members' messages to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    #[default]
    WebSocket,
    /// Poses in datagrams, the rest on a stream.
    WebTransport,
}

impl Carrier {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "WebSocket",
            Self::WebTransport => "WebTransport",
        }
    }
}

/// Quantiles of a delay in milliseconds, within 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Quantiles {
    pub(crate) fn of(delays: &Delays) -> Option<Self> {
        let at = |share| Some(delays.quantile(share)?.middle() / 1e3);
        Some(Self { count: delays.count(), p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
            .filter(|quantiles| quantiles.count > 0)
    }
}

/// Voices of members that spoke.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Voices {
    /// Packets that members sent.
    pub sent: u64,
    /// Delay from sending a packet until one member received it; the count is that of packets received.
    pub delay_ms: Option<Quantiles>,
}

/// Members that also took the server's video stream. They take its pictures as viewers do and decode none of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Video {
    pub clients: usize,
    /// Those that got a picture.
    pub watched: usize,
    /// Time from the beginning of the connection to the first complete picture.
    pub startup_ms: Option<Quantiles>,
    /// Delay from the beginning of a frame's capture until the decoder would have it, by the clocks of both ends as far as they are synchronised.
    pub frame_ms: Option<Quantiles>,
    /// Whole pictures a second of one client on the average.
    pub fps: f64,
    /// Megabits a second of one client on the average.
    pub received_mbps: f64,
    /// Share of the time since the first picture in which the picture stood still for longer than a stall, on the average.
    pub stall_ratio: f64,
    /// Pictures that came after their deadline, and those that never came, of all clients.
    pub late: u64,
    pub lost: u64,
    /// Clients without a picture, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// A naive broadcast beside the rooms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NaiveBroadcast {
    pub seconds: f64,
    pub members: usize,
    pub interaction_ms: Option<Quantiles>,
    pub received_bytes_per_second: f64,
    /// Processor time of its server as a share of one core.
    pub server_cores: Option<f64>,
    /// Messages that its server dropped because a member did not take them in time.
    pub dropped: u64,
    /// Received bytes of a member, relative to a room.
    pub bytes_ratio: Option<f64>,
    #[serde(skip)]
    pub(crate) interaction_samples: Vec<f64>,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub behaviours: Vec<Behaviour>,
    pub pose_hz: f64,
    pub rooms: usize,
    pub members: usize,
    /// Members that knew their room.
    pub joined: u64,
    /// Attempts to join after the server had asked a member to come again.
    pub retries: u64,
    /// False: stopped before its end.
    pub complete: bool,
    /// True: over the lab's links, in virtual time.
    pub virtual_time: bool,
    /// The transport; None in virtual time.
    pub carrier: Option<Carrier>,
    /// The path in virtual time, each way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub seconds: f64,
    pub actions: u64,
    pub shared_actions: u64,
    pub refused_actions: u64,
    pub unanswered_actions: u64,
    pub interaction_ms: Option<Quantiles>,
    pub delivery_ms: Option<Quantiles>,
    /// Share of shared actions that all members saw within 100 ms.
    pub fluency: Option<f64>,
    pub startup_ms: Option<Quantiles>,
    /// Time from the loss of a member's connection until another server informs it of its room.
    pub moved_ms: Option<Quantiles>,
    pub stalls: u64,
    pub stalled_seconds: f64,
    pub lost_events: u64,
    /// Members whose state was compared at rest, and those of them that differed from the most of their room.
    pub compared: u64,
    pub disagreeing: u64,
    /// Memberships that ended before the run did, by reason.
    pub ended: BTreeMap<String, u64>,
    /// Averages over members.
    pub received_bytes_per_second: f64,
    pub sent_bytes_per_second: f64,
    pub received_bytes_per_neighbour_per_second: f64,
    /// Share of the received bytes that came in datagrams; none where there is no carrier, or nothing came.
    pub datagram_share: Option<f64>,
    /// Processor time of this program as a share of one core.
    pub swarm_cores: Option<f64>,
    /// The server's, if its process was named.
    pub server_cores: Option<f64>,
    /// Voice statistics. None when nobody spoke.
    pub voices: Option<Voices>,
    /// Video statistics. None when nobody took the video stream.
    pub video: Option<Video>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naive: Option<NaiveBroadcast>,
    /// Evenly spaced quantiles of the delays, in milliseconds.
    #[serde(skip)]
    pub(crate) interaction_samples: Vec<f64>,
    #[serde(skip)]
    pub(crate) delivery_samples: Vec<f64>,
    #[serde(skip)]
    pub(crate) startup_samples: Vec<f64>,
}

/// The conditions of a run, besides its tally.
#[derive(Clone, Debug)]
pub(crate) struct RunFacts<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) rooms: usize,
    pub(crate) members: usize,
    pub(crate) complete: bool,
    pub(crate) carrier: Option<Carrier>,
    pub(crate) path: Option<String>,
    pub(crate) length: Span,
    pub(crate) swarm_cores: Option<f64>,
    pub(crate) server_cores: Option<f64>,
}

impl Summary {
    pub(crate) fn new(facts: RunFacts<'_>, tally: &Tally) -> Self {
        let RunFacts { profile, rooms, members, complete, carrier, path, length, swarm_cores, server_cores } = facts;
        let per = |bytes: nearlight_units::Bytes, seconds: f64| {
            if seconds > 0.0 { bytes.get() as f64 / seconds } else { 0.0 }
        };
        Self {
            behaviours: profile.behaviours.clone(),
            pose_hz: profile.pose_hz,
            rooms,
            members,
            joined: tally.joined,
            retries: tally.retries,
            complete,
            virtual_time: path.is_some(),
            carrier,
            path,
            seconds: length.as_secs_f64(),
            actions: tally.asked,
            shared_actions: tally.shared,
            refused_actions: tally.refused,
            unanswered_actions: tally.unanswered,
            interaction_ms: Quantiles::of(&tally.interaction),
            delivery_ms: Quantiles::of(&tally.delivery),
            fluency: (tally.shared > 0).then(|| tally.fluent as f64 / tally.shared as f64),
            startup_ms: Quantiles::of(&tally.startup),
            moved_ms: Quantiles::of(&tally.moves),
            stalls: tally.stalls,
            stalled_seconds: tally.stalled.as_secs_f64(),
            lost_events: tally.lost_events,
            compared: tally.compared,
            disagreeing: tally.disagreeing,
            ended: tally.ended.clone(),
            received_bytes_per_second: per(tally.received, tally.member_seconds),
            sent_bytes_per_second: per(tally.sent, tally.member_seconds),
            received_bytes_per_neighbour_per_second: per(tally.received, tally.neighbour_seconds),
            datagram_share: carrier
                .filter(|_| tally.received > nearlight_units::Bytes::ZERO)
                .map(|_| tally.received_in_datagrams.get() as f64 / tally.received.get() as f64),
            swarm_cores,
            server_cores,
            voices: (tally.spoken > 0).then(|| Voices { sent: tally.spoken, delay_ms: Quantiles::of(&tally.voice) }),
            video: None,
            naive: None,
            interaction_samples: samples(&tally.interaction),
            delivery_samples: samples(&tally.delivery),
            startup_samples: samples(&tally.startup),
        }
    }
}

/// Most samples that represent a distribution in a page.
const MAX_SAMPLES: u64 = 1_000;

/// Evenly spaced quantiles in milliseconds.
pub(crate) fn samples(delays: &Delays) -> Vec<f64> {
    let count = delays.count().min(MAX_SAMPLES);
    let share = |number: u64| (number as f64 + 0.5) / count as f64;
    (0..count).filter_map(|number| Some(delays.quantile(share(number))?.middle() / 1e3)).collect()
}
