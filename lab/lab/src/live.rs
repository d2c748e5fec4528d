//! Builds the record of a run over a real path from the events of both ends, in the form of a run in virtual time.
//!
//! It uses no process, socket or clock. The caller runs server and client, and passes their events and the link's counters. All times are on the
//! machine's clock.

mod bulk;

use std::collections::{BTreeMap, BTreeSet};

use nearlight_events::{Event, Record, Stage, UnknownLine, read_lines};
use nearlight_flows::Direction;
use nearlight_link::{Hop as _, LoadError, LoadedPath, PathSpec, Random};
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};

use crate::histogram::Histogram;
use crate::plan::{Cell, Content, Encoder, Recovery, Segment, Transport, oracle};
pub use crate::record::LiveNote;
use crate::record::{RunRecord, SampleBytes};
use crate::utility::FrameQuality;
use crate::world::{SessionTotals, Tally, bounds, segment_seeds, trace_start};
pub(crate) use bulk::{IN_REAL_TIME, IN_VIRTUAL_TIME, TIME_LABEL, with_virtual_time};
pub use bulk::{LiveBulk, law_of, record_bulk, without_kernel};

/// Returns the worst of all runs' notes. None if the runs were made in virtual time.
#[must_use]
pub(crate) fn worst(runs: &[RunRecord]) -> Option<LiveNote> {
    runs.iter().filter_map(|run| run.live.clone()).reduce(|one, other| LiveNote {
        means: if one.means == other.means { one.means } else { format!("{}, {}", one.means, other.means) },
        real_time: one.real_time && other.real_time,
        missed: one.missed + other.missed,
        lateness_us_p50: one.lateness_us_p50.max(other.lateness_us_p50),
        lateness_us_p99: one.lateness_us_p99.max(other.lateness_us_p99),
    })
}

/// Counters of the link in the direction that carries the session's data.
#[derive(Clone, Debug, Default)]
pub struct LiveLink {
    /// Bytes delivered in the measured time, at the network layer.
    pub delivered: Bytes,
    /// Packets offered in the measured time, including QUIC's own.
    pub offered: u64,
    pub lost: u64,
    /// Delays of packets in the measured time, in microseconds.
    pub one_way_delay: Histogram,
    pub queue_delay: Histogram,
    /// Dropped packets by reason, of both directions and the whole run.
    pub dropped: BTreeMap<String, u64>,
}

/// Everything recorded about a live run of a session.
#[derive(Clone, Debug)]
pub struct LiveRun<'a> {
    pub cell: &'a Cell,
    pub seed: u64,
    /// The path's time zero on the machine's clock.
    pub origin: Time,
    /// JSON lines as `--events` writes them.
    pub server_events: &'a str,
    pub client_events: &'a str,
    pub link: LiveLink,
    pub note: LiveNote,
}

/// Returns the rate bounds of a cell's session.
#[must_use]
pub fn bounds_of(cell: &Cell) -> Bounds {
    let name = controller_of(cell);
    bounds(cell, name).unwrap_or(cell.setting.source.bounds)
}

/// Returns the controller preset that a cell's session runs.
#[must_use]
pub fn controller_of(cell: &Cell) -> &str {
    cell.media.first().and_then(|media| media.controller.as_deref()).unwrap_or(&cell.controller)
}

/// Returns the number of frames that the live client buffers.
fn playback_buffer(cell: &Cell) -> Option<u8> {
    if cell.system.reliable.is_some() {
        return Some(0);
    }
    Some(new_controller(controller_of(cell), bounds_of(cell)).ok()?.playback_buffer())
}

/// Returns the reason why a cell cannot be run over a real path. None if it can.
#[must_use]
pub fn refusal(cell: &Cell) -> Option<&'static str> {
    if cell.traffic.is_some() {
        return Some("it is traffic in a Wi-Fi cell, without any session");
    }
    if cell.media.is_empty() {
        return bulk::refusal(cell);
    }
    let [media] = &cell.media[..] else { return Some("it has several media sessions; live there is one") };
    let whole = media.start == Span::ZERO && media.stop >= cell.setting.duration && media.pauses.is_empty();
    let route = &media.route;
    let mut paths = cell.segments.iter().flat_map(|segment| [&segment.forward, &segment.feedback]);
    let reasons = [
        (
            cell.controller == oracle::NAME,
            "the oracle needs the future capacity of the path, which a real path does not provide",
        ),
        (paths.any(|path| path.cells().next().is_some()), "its path crosses a Wi-Fi cell"),
        (!cell.flows.is_empty(), "it has competing flows, which run in virtual time only"),
        (!whole, "its session starts later, stops earlier or pauses; live it lasts from start to end"),
        (route.direction != Direction::Forward, "its media go back; live they go from the server to the client"),
        (
            route.access.is_some() || route.access_feedback.is_some(),
            "its session has hops of its own besides the shared ones",
        ),
        (route.through.len() != cell.segments.len(), "its session takes only some of the path's segments"),
        ((media.priority - 1.0).abs() > f64::EPSILON, "its session has a priority, which nobody shares live"),
        (cell.setting.transport != Transport::WebTransport, "it goes over WebRTC, which runs in virtual time only"),
        (
            cell.setting.feedback_every.is_some(),
            "its client sends feedback at a configured interval; a live client sends it with each frame",
        ),
        (
            playback_buffer(cell) != Some(cell.setting.client.playback_buffer),
            "its client buffers a configured number of frames; a live client buffers the number that the controller requires (`playback_buffer`)",
        ),
        (cell.setting.source.fps > 240, "it has more than 240 frames a second"),
        (
            matches!(cell.system.recovery, Recovery::None | Recovery::Group),
            "its receiver sends no requests; a live receiver always does",
        ),
        (
            cell.system.recovery == Recovery::REFERENCE && matches!(cell.setting.source.encoder, Encoder::Model(_)),
            "its encoder is a model of frame sizes, which cannot predict from an older frame live",
        ),
        (
            cell.system.group > 0 && cell.system.reliable.is_none(),
            "it has scheduled key frames; the live server makes key frames only on demand",
        ),
        (
            matches!(cell.setting.source.encoder, Encoder::Codec { content: Content::Game, .. }),
            "its video is the synthetic game, which exists in virtual time only",
        ),
    ];
    reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason))
}

/// Joins a cell's segments into one path for each direction. Traces begin where the seed determines.
///
/// # Errors
///
/// A trace file cannot be read.
pub fn paths(cell: &Cell, seed: u64) -> Result<[LoadedPath; 2], LoadError> {
    let joined = |hops: &mut dyn Iterator<Item = &LoadedPath>| {
        let spec = PathSpec { hops: hops.flat_map(|path| path.spec().hops.clone()).collect() };
        Ok::<_, LoadError>(spec.load()?.starting_at(trace_start(seed)))
    };
    let there = joined(&mut cell.segments.iter().map(|segment| &segment.forward))?;
    let back = joined(&mut cell.segments.iter().rev().map(|segment| &segment.feedback))?;
    Ok([there, back])
}

/// Returns the seeds of the two paths. In virtual time a path of one segment has the same seeds, so its capacity is identical.
#[must_use]
pub fn path_seeds(seed: u64) -> [u64; 2] {
    segment_seeds(&mut Random::new(seed), 1)[0]
}

/// Session and frame number.
type Frame = (u32, FrameId);

/// Reads an events file in order, on the path's clock. Events before the path's time zero are moved to it.
fn records(text: &str, origin: Time) -> impl Iterator<Item = Result<Record<'static>, UnknownLine>> + '_ {
    read_lines(text).map(move |record| {
        let record = record?;
        Ok(Record { at: Time::ZERO + record.at.saturating_since(origin), ..record })
    })
}

/// A counter that only grows, sampled at some moments.
#[derive(Default)]
struct CumulativeCount(Vec<(Time, u64)>);

impl CumulativeCount {
    fn add(&mut self, at: Time, sum: u64) {
        // A new session counts from zero.
        let base = self.0.last().map_or(0, |(_, last)| if sum < *last { *last } else { 0 });
        self.0.push((at, base + sum));
    }

    /// Interpolates linearly between two samples.
    fn at(&self, moment: Time) -> f64 {
        let after = self.0.partition_point(|(at, _)| *at <= moment);
        match (after.checked_sub(1).map(|index| self.0[index]), self.0.get(after)) {
            (None, _) => 0.0,
            (Some((_, sum)), None) => sum as f64,
            (Some((from, low)), Some((to, high))) => {
                let share = (moment - from).as_secs_f64() / (*to - from).as_secs_f64();
                low as f64 + (*high - low) as f64 * share
            }
        }
    }

    fn between(&self, from: Time, to: Time) -> f64 {
        (self.at(to) - self.at(from)).max(0.0)
    }
}

/// Returns the record of a live run.
///
/// # Errors
///
/// The events were written by another version.
pub fn record(live: &LiveRun<'_>) -> Result<RunRecord, UnknownLine> {
    let setting = &live.cell.setting;
    let (from, to) = (Time::ZERO + setting.warm_up, Time::ZERO + setting.duration);
    let quality = FrameQuality::new(setting.source.bounds, setting.source.fps);
    let mut story = EventTally::new(from, to, quality);
    for record in records(live.server_events, live.origin) {
        story.on_server(&record?);
    }
    for record in records(live.client_events, live.origin) {
        story.on_client(&record?, setting.client.deadline);
    }
    story.finish();
    let mut record = RunRecord::new(live.cell, live.seed);
    record.live = Some(live.note.clone());
    record.dropped.clone_from(&live.link.dropped);
    let EventTally { mut tally, sent, received, packets, targets, retransmissions, in_time, .. } = story;
    tally.packets_sent = packets.between(from, to).round() as u64;
    tally.bytes_sent = sent.between(from, to).round() as u64;
    tally.bytes_received = received.between(from, to).round() as u64;
    // The link does not know whose packets it loses: the session is charged in proportion to its packets.
    let lost_share = live.link.lost as f64 / live.link.offered.max(1) as f64;
    tally.packets_lost = (lost_share * tally.packets_sent as f64).round() as u64;
    tally.one_way_delay = live.link.one_way_delay.clone();
    tally.queue_delay = live.link.queue_delay.clone();
    let mut at = Time::ZERO + setting.sample;
    while at <= to {
        let target = targets.iter().rev().find(|(since, _)| *since <= at).map_or(Bitrate::ZERO, |(_, rate)| *rate);
        if let Some(media) = record.media.first_mut() {
            let (sent, received) = (sent.between(at - setting.sample, at), received.between(at - setting.sample, at));
            let sampled = SampleBytes { sent: sent as u64, received: received as u64 };
            media.on_sample(target, sampled, setting.sample);
        }
        at += setting.sample;
    }
    sample_capacities(&mut record, live.cell, live.seed);
    if let Some(media) = record.media.first_mut() {
        // Events do not report redundant bytes or complete frames.
        tally.write(
            media,
            &SessionTotals { retransmissions, redundant: 0, other: 0, frame_losses: None, recovery: None, in_time },
        );
    }
    for link in &mut record.links {
        link.sides[0].delivered = live.link.delivered.over(to - from).as_bps() / 1_000;
    }
    Ok(record)
}

/// Adds each link's capacity at each sample.
fn sample_capacities(record: &mut RunRecord, cell: &Cell, seed: u64) {
    let begun = |path: &LoadedPath, path_seed| path.starting_at(trace_start(seed)).path(path_seed);
    let both = |(segment, seeds): (&Segment, [u64; 2])| {
        [begun(&segment.forward, seeds[0]), begun(&segment.feedback, seeds[1])]
    };
    let seeds = segment_seeds(&mut Random::new(seed), cell.segments.len());
    let paths: Vec<_> = cell.segments.iter().zip(seeds).map(both).collect();
    let mut at = Time::ZERO + cell.setting.sample;
    while at <= Time::ZERO + cell.setting.duration {
        for (link, paths) in record.links.iter_mut().zip(&paths) {
            for (side, path) in link.sides.iter_mut().zip(paths) {
                side.capacity.push(path.capacity(at).map_or(0, |rate| (rate.as_bps() / 1_000) as u32));
            }
        }
        at += cell.setting.sample;
    }
}

/// The state derived from the events so far.
struct EventTally {
    tally: Tally,
    sent: CumulativeCount,
    received: CumulativeCount,
    packets: CumulativeCount,
    targets: Vec<(Time, Bitrate)>,
    retransmissions: u64,
    quality: FrameQuality,
    /// When each frame was handed to the sender, and its quality from 0 to 1.
    sent_frames: BTreeMap<Frame, (Time, f64)>,
    /// Frames that were decoded although a reference was missing.
    damaged: BTreeSet<Frame>,
    /// Frames that were displayed in time and undamaged, and the sum of their qualities.
    in_time: (u64, f64),
    /// Frames that were decoded and have not been displayed.
    waiting: BTreeMap<Frame, Time>,
}

impl EventTally {
    fn new(from: Time, to: Time, quality: FrameQuality) -> Self {
        Self {
            tally: Tally::new(from, to),
            sent: CumulativeCount::default(),
            received: CumulativeCount::default(),
            packets: CumulativeCount::default(),
            targets: Vec::new(),
            retransmissions: 0,
            quality,
            sent_frames: BTreeMap::new(),
            damaged: BTreeSet::new(),
            in_time: (0, 0.0),
            waiting: BTreeMap::new(),
        }
    }

    fn on_server(&mut self, record: &Record<'_>) {
        let at = record.at;
        match &*record.event {
            Event::FrameSent { frame, key, bytes, .. } => {
                let quality = self.quality.on_frame(*bytes as usize, *key);
                self.sent_frames.insert((record.session, *frame), (at, quality));
                self.tally.on_capture(at);
                self.tally.on_frame_sent(at, *key);
            }
            Event::FrameSkipped { .. } => {
                self.tally.on_capture(at);
                self.tally.on_skipped(at);
            }
            Event::RateDecision { target, .. } => self.targets.push((at, *target)),
            Event::Traffic { bytes, packets, retransmissions, .. } => {
                self.sent.add(at, bytes.get());
                self.packets.add(at, *packets);
                self.retransmissions = *retransmissions;
            }
            _ => {}
        }
    }

    fn on_client(&mut self, record: &Record<'_>, deadline: Span) {
        let at = record.at;
        match &*record.event {
            Event::FrameReady { frame } => {
                let key = (record.session, *frame);
                let Some((sent_at, _)) = self.sent_frames.get(&key).copied() else { return };
                self.tally.on_frame_received(at, sent_at, sent_at);
                self.waiting.insert(key, at);
            }
            Event::FrameDamaged { frame } => {
                self.damaged.insert((record.session, *frame));
            }
            Event::FrameDisplayed { timeline } => {
                let key = (record.session, timeline.frame);
                self.waiting.remove(&key);
                let Some((sent_at, quality)) = self.sent_frames.get(&key).copied() else { return };
                // All are on the server's clock, so that their sum does not depend on clock synchronisation.
                let made = [Stage::Render, Stage::Convert, Stage::Encode].map(|stage| timeline.stage(stage));
                let captured_at = made.into_iter().fold(sent_at, |at, span| at - span);
                let latency = at - captured_at;
                // Captures are counted when they are sent or skipped: no event reports the capture itself.
                self.tally.on_displayed(at, sent_at, latency, latency > deadline, None);
                let damaged = self.damaged.remove(&key);
                self.tally.on_condition(at, sent_at, damaged);
                if latency <= deadline && !damaged && self.tally.counts_frame(sent_at) {
                    self.in_time.0 += 1;
                    self.in_time.1 += quality;
                }
                self.tally.on_timeline(captured_at, timeline);
            }
            Event::MotionToPhoton { span, .. } => self.tally.on_motion_to_photon(at, *span),
            Event::InputToPhoton { span, .. } => self.tally.on_input_to_photon(at, *span),
            Event::Traffic { bytes, .. } => self.received.add(at, bytes.get()),
            _ => {}
        }
    }

    fn finish(&mut self) {
        for at in std::mem::take(&mut self.waiting).into_values() {
            self.tally.on_passed_over(at);
        }
    }
}
