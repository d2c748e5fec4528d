//! Sessions and competing flows over shared links in virtual time: the clock goes from one deadline to the next.

mod application;
mod capture_moments;
mod carrier;
mod display;
mod links;
mod media;
mod network;
mod oracle;
mod reliable;
mod rival;
mod sent_frames;
mod standstill;
mod tally;

pub use self::capture_moments::{CaptureMoment, capture_moments};
pub use self::reliable::MAX_WAIT_OVER_TCP;
pub(crate) use self::tally::{SessionTotals, Tally};

use std::collections::BTreeMap;

use crate::dash::{Client, ClientConfig};
use nearlight_codec::{CodecError, CodecKind};
use nearlight_fec::policy::{UnknownPolicy, new_policy};
use nearlight_flows::{Bulk, BulkConfig, Cbr, CbrConfig, Schedule, Short, ShortConfig};
use nearlight_link::{Hop, Random};
use nearlight_rate::{Bounds, Preset, RateController, UnknownController, new_controller};
use nearlight_session::{Algorithms, Framing, Receiver, ReceiverConfig, Sender, SenderConfig};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wifi::{ConfigError, Scenario};
use thiserror::Error;

use self::carrier::{Carrier, Datagrams, WebRtc, WebRtcConfig, server_clock};
pub(crate) use self::links::{Links, segment_seeds, trace_start};
use self::links::{RECORDED_EXCHANGES, refresh_phase};
use self::media::{MediaActor, MediaConfig};
use self::network::Arrival;
use self::reliable::Reliable;
use self::rival::{Rival, RivalTraffic};
use crate::encoder::new_encoder;
use crate::plan::{self, Cell, Kind, Recovery, Setting, TrafficModel};
use crate::record::{LinkRecord, MediaRecord, RivalRecord, RunRecord, WifiRecord};
use crate::utility::FrameQuality;

/// Interval of Chromium's transport-wide feedback at 5 to 8 Mb/s, measured in headless Chromium 156.
const CHROMIUM_FEEDBACK_INTERVAL: Span = Span::from_micros(62_500);

/// Why a run could not be finished.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Controller(#[from] UnknownController),
    #[error(transparent)]
    Fec(#[from] UnknownPolicy),
    #[error(transparent)]
    Wifi(#[from] ConfigError),
    #[error("the codec failed in the middle of a run: {0}; run the plan again with another picture size or encoder")]
    Codec(#[from] CodecError),
    #[error(
        "the ends of a WebRTC session could not be connected: {0}; this is a fault of the program, not of the plan"
    )]
    WebRtc(String),
    /// A run over a real path; the text tells the user what to do.
    #[error("{0}")]
    Live(String),
    /// The caller interrupted the plan.
    #[error(
        "the run was not made, because the plan was interrupted; a later call that names the same folder continues it"
    )]
    Interrupted,
}

enum Actor {
    Media(Box<MediaActor>),
    Reliable(Box<Reliable>),
    Rival(Rival),
}

impl Actor {
    fn due(&self) -> Time {
        match self {
            Self::Media(media) => media.due,
            Self::Reliable(media) => media.due,
            Self::Rival(rival) => rival.due,
        }
    }
}

struct World<'a> {
    cell: &'a Cell,
    links: Links,
    actors: Vec<Actor>,
    now: Time,
    next_sample: Time,
    arrival: Arrival,
    record: RunRecord,
    /// Media bytes delivered by each link and direction before the measured time.
    delivered_before: Vec<[Bytes; 2]>,
    rivals_before: Vec<Bytes>,
}

/// Runs a cell once. The same cell and seed give the same record, to the bit.
pub fn run(cell: &Cell, seed: u64) -> Result<RunRecord, RunError> {
    if let Some(traffic) = &cell.traffic {
        return run_traffic(cell, traffic, seed);
    }
    if cell.controller == plan::oracle::NAME {
        return oracle::run(cell, seed);
    }
    let mut world = World::new(cell, seed)?;
    world.run();
    world.finish()
}

/// Runs the traffic model. Each seed has as many runs as the scenario says, with random numbers of their own.
fn run_traffic(cell: &Cell, traffic: &TrafficModel, seed: u64) -> Result<RunRecord, RunError> {
    let scenario = traffic.scenario.clone();
    let first = seed.saturating_sub(1).wrapping_mul(u64::from(scenario.runs)).wrapping_add(1);
    let timeline = if seed == 1 { RECORDED_EXCHANGES } else { 0 };
    let record = Scenario { seed: first, timeline, ..scenario }.record()?;
    let mut run = RunRecord::new(cell, seed);
    run.simulated = cell.length();
    run.wifi.push(WifiRecord { cell: traffic.cell.clone(), record });
    Ok(run)
}

impl<'a> World<'a> {
    fn new(cell: &'a Cell, seed: u64) -> Result<Self, RunError> {
        let mut random = Random::new(seed);
        let links = Links::new(cell, seed, &mut random)?;
        let mut actors = Vec::new();
        let mut phases = Phases { seed, has_cells: links.has_cells(), first: None };
        for index in 0..cell.media.len() {
            actors.push(new_media(cell, index, &mut phases, &mut random)?);
        }
        for (index, flow) in cell.flows.iter().enumerate() {
            let route = (cell.media.len() + index) as u16;
            actors.push(Actor::Rival(Rival::new(new_load(flow, random.seed()), route, cell.setting.warm_up)));
        }
        let next_sample = Time::ZERO + cell.setting.sample;
        let record = RunRecord::new(cell, seed);
        let (delivered_before, rivals_before) = (Vec::new(), Vec::new());
        let (now, arrival) = (Time::ZERO, Arrival::default());
        Ok(Self { cell, links, actors, now, next_sample, arrival, record, delivered_before, rivals_before })
    }

    fn run(&mut self) {
        let end = Time::ZERO + self.cell.setting.duration;
        let measured_from = Time::ZERO + self.cell.setting.warm_up;
        let mut begun = false;
        loop {
            let actors = self.actors.iter().map(Actor::due).min().unwrap_or(end);
            let next = actors.min(self.links.network.due()).min(self.next_sample);
            if !begun && next >= measured_from {
                begun = true;
                self.begin_measuring(measured_from);
            }
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.step();
            if self.now >= self.next_sample {
                self.sample();
                self.next_sample += self.cell.setting.sample;
            }
        }
        self.now = end;
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(event) = self.links.network.poll(now, &mut self.arrival) {
            match event {
                Ok(end) => match &mut self.actors[usize::from(end.flow)] {
                    Actor::Media(media) => media.on_arrival(now, end.far, &self.arrival, &mut self.links.network),
                    Actor::Reliable(media) => media.on_arrival(now, end.far, &self.arrival, &mut self.links.network),
                    Actor::Rival(rival) => rival.on_arrival(now, end.far, &self.arrival, &mut self.links.network),
                },
                Err(lost) => {
                    self.record.on_dropped(lost.reason);
                    match &mut self.actors[usize::from(lost.to.flow)] {
                        Actor::Media(media) => media.on_lost(now, lost.to.far),
                        Actor::Reliable(media) => media.on_lost(now, lost.to.far),
                        Actor::Rival(_) => {}
                    }
                }
            }
        }
        for actor in &mut self.actors {
            if actor.due() <= now {
                match actor {
                    Actor::Media(media) => media.on_wake(now, &mut self.links.network),
                    Actor::Reliable(media) => media.on_wake(now, &mut self.links.network),
                    Actor::Rival(rival) => rival.on_wake(now, &mut self.links.network),
                }
            }
        }
    }

    /// Returns the media bytes that each link has delivered so far, in both directions.
    fn delivered(&self) -> Vec<[Bytes; 2]> {
        let media = self.cell.media.len() as u32;
        let carried = |lane: u16| {
            let counters = self.links.network.path(lane).flows().iter();
            let is_data = |flow: u32| flow >> 1 < media && flow & 1 == 1;
            counters.filter(|counters| is_data(counters.flow.0)).map(|counters| counters.delivered_bytes).sum()
        };
        self.links.shared.iter().map(|link| link.lanes.map(carried)).collect()
    }

    fn begin_measuring(&mut self, now: Time) {
        self.links.start_recording(now, if self.record.seed == 1 { RECORDED_EXCHANGES } else { 0 });
        self.delivered_before = self.delivered();
        self.rivals_before = self.rivals().map(|rival| rival.statistics().delivered).collect();
    }

    fn rivals(&self) -> impl Iterator<Item = &Rival> {
        self.actors.iter().filter_map(|actor| if let Actor::Rival(rival) = actor { Some(rival) } else { None })
    }

    fn sample(&mut self) {
        let mut rivals = self.record.rivals.iter_mut();
        let mut media_records = self.record.media.iter_mut();
        let sample = self.cell.setting.sample;
        for actor in &mut self.actors {
            match actor {
                Actor::Media(media) => {
                    let Some(record) = media_records.next() else { continue };
                    let active = media.is_active(self.now - sample);
                    let target = if active { media.target() } else { Bitrate::ZERO };
                    record.on_sample(target, std::mem::take(&mut media.tally.sampled), sample);
                }
                Actor::Reliable(media) => {
                    let Some(record) = media_records.next() else { continue };
                    let active = media.is_active(self.now - sample);
                    let target = if active { media.target() } else { Bitrate::ZERO };
                    record.on_sample(target, std::mem::take(&mut media.tally.sampled), sample);
                }
                Actor::Rival(rival) => {
                    let Some(record) = rivals.next() else { continue };
                    record.on_sample(rival.statistics().delivered, sample);
                }
            }
        }
        for (link, record) in self.links.shared.iter().zip(&mut self.record.links) {
            for (lane, side) in link.lanes.iter().zip(&mut record.sides) {
                let path = self.links.network.path(*lane);
                side.on_sample(path.capacity(self.now), path.backlog().delay);
            }
        }
    }

    fn finish(mut self) -> Result<RunRecord, RunError> {
        self.record.wifi = self.links.finish_recording(self.now);
        let delivered = self.delivered();
        let measured = self.cell.setting.duration - self.cell.setting.warm_up;
        for ((record, after), before) in self.record.links.iter_mut().zip(delivered).zip(&self.delivered_before) {
            for (side, (after, before)) in record.sides.iter_mut().zip(after.into_iter().zip(before)) {
                side.delivered = after.saturating_sub(*before).over(measured).as_bps() / 1_000;
            }
        }
        let before = std::mem::take(&mut self.rivals_before);
        let after: Vec<Bytes> = self.rivals().map(|rival| rival.statistics().delivered).collect();
        for (record, (after, before)) in self.record.rivals.iter_mut().zip(after.into_iter().zip(before)) {
            record.delivered = after.saturating_sub(before).over(measured).as_bps() / 1_000;
        }
        let mut records = self.record.media.iter_mut();
        let mut rivals = self.record.rivals.iter_mut();
        for actor in self.actors {
            let (failed, tally, end) = match actor {
                Actor::Rival(mut rival) => {
                    if let Some(record) = rivals.next() {
                        if let Some((record, playback)) = record.playback.as_mut().zip(rival.playback(self.now)) {
                            record.fill(&playback);
                        }
                        record.delay = rival.delay;
                    }
                    continue;
                }
                Actor::Media(media) => {
                    let (redundant, other) = media.redundancy(self.now);
                    let (retransmissions, frame_losses) = (media.retransmissions(self.now), Some(media.frame_losses()));
                    let (recovery, in_time) = (media.recovery(self.now), media.in_time());
                    let end = SessionTotals { retransmissions, redundant, other, frame_losses, recovery, in_time };
                    let mut tally = media.tally;
                    tally.on_end();
                    (media.failed, tally, end)
                }
                Actor::Reliable(media) => {
                    let (retransmissions, redundant, other) = media.retransmissions();
                    let (frame_losses, in_time) = (Some(media.frame_losses()), media.in_time());
                    let end =
                        SessionTotals { retransmissions, redundant, other, frame_losses, recovery: None, in_time };
                    (media.failed, media.tally, end)
                }
            };
            if let Some(error) = failed {
                return Err(error.into());
            }
            if let Some(record) = records.next() {
                tally.write(record, &end);
            }
        }
        Ok(self.record)
    }
}

/// Returns the rate bounds of a session: a preset's own if the plan says so.
pub(crate) fn bounds(cell: &Cell, controller: &str) -> Result<Bounds, RunError> {
    if cell.setting.own_rates.iter().any(|name| name == controller) {
        return Ok(Preset::named(controller)?.bounds);
    }
    Ok(cell.setting.source.bounds)
}

/// The phases of the sessions' capture clocks.
struct Phases {
    seed: u64,
    has_cells: bool,
    /// Phase of the first session.
    first: Option<f64>,
}

fn new_media(cell: &Cell, index: usize, phases: &mut Phases, random: &mut Random) -> Result<Actor, RunError> {
    let (setting, media) = (&cell.setting, &cell.media[index]);
    let name = media.controller.as_deref().unwrap_or(&cell.controller);
    let bounds = if cell.system.reliable.is_some() { setting.source.bounds } else { bounds(cell, name)? };
    let start = Time::ZERO + media.start;
    let frame_interval = Span::from_nanos(1_000_000_000 / i64::from(setting.source.fps));
    let source = plan::Source { bounds, ..setting.source.clone() };
    let made = new_encoder(&source, random.seed())?;
    let own_phase = random.unit();
    let first_phase = *phases.first.get_or_insert(own_phase);
    let refresh_interval = Span::from_nanos(1_000_000_000 / i64::from(setting.client.refresh));
    let refresh_phase = if phases.has_cells { refresh_phase(refresh_interval, phases.seed, index) } else { Span::ZERO };
    let config = MediaConfig {
        flow: index as u16,
        start,
        stop: Time::ZERO + media.stop,
        pauses: media.pauses.iter().map(|(from, to)| (Time::ZERO + *from, Time::ZERO + *to)).collect(),
        phase: setting.phases.of_session(frame_interval, (index, cell.media.len()), own_phase, first_phase),
        refresh_phase,
        fps: source.fps,
        render: source.render,
        encode: source.encode,
        headers: setting.headers,
        ecn: setting.ecn,
        client: setting.client,
        warm_up: Time::ZERO + setting.warm_up,
        recovery: cell.system.recovery,
        group: cell.system.group,
        captures: cell.system.captures,
        // All presets are judged by the plan's rates, whatever rates they use.
        quality: FrameQuality::new(setting.source.bounds, setting.source.fps),
    };
    if let Some(law) = cell.system.reliable {
        return Ok(Actor::Reliable(Box::new(Reliable::new(config, law, bounds.maximum, made))));
    }
    let mut controller = new_controller(name, bounds)?;
    controller.set_priority(server_clock(start), media.priority);
    let sender = new_sender(cell, &config, controller)?;
    let carrier = new_carrier(cell, &config, sender, phases.seed)?;
    Ok(Actor::Media(Box::new(MediaActor::new(config, carrier, made.0, made.1))))
}

fn new_carrier(cell: &Cell, config: &MediaConfig, sender: Sender, seed: u64) -> Result<Box<dyn Carrier>, RunError> {
    let mut receiver = Receiver::new(ReceiverConfig { events: false });
    let setting = &cell.setting;
    match setting.transport {
        plan::Transport::WebTransport => {
            if let Some(interval) = setting.feedback_every {
                receiver.set_feedback_interval(interval);
            }
            Ok(Box::new(Datagrams { sender, receiver }))
        }
        plan::Transport::WebRtc => {
            let codec = match setting.source.encoder {
                plan::Encoder::Codec { kind, .. } => kind,
                // The model's bits are not pictures; VP8's packetisation does not parse them.
                plan::Encoder::Model(_) => CodecKind::Vp8,
            };
            let webrtc = WebRtcConfig {
                start: config.start,
                codec,
                datagram: setting.datagram,
                feedback_every: setting.feedback_every.unwrap_or(CHROMIUM_FEEDBACK_INTERVAL),
                flexfec: cell.system.fec != plan::NO_FEC,
                seed: seed.wrapping_add(u64::from(config.flow) << 32),
            };
            Ok(Box::new(WebRtc::connected(&webrtc, sender, receiver)?))
        }
    }
}

fn new_sender(cell: &Cell, config: &MediaConfig, controller: Box<dyn RateController>) -> Result<Sender, RunError> {
    let Setting { datagram, pacing, transport, ref source, .. } = *cell.setting;
    let frame_interval = Span::from_nanos(1_000_000_000 / i64::from(source.fps));
    let sender = SenderConfig {
        framing: match transport {
            plan::Transport::WebTransport => Framing::Symbols,
            plan::Transport::WebRtc => Framing::Rtp,
        },
        max_datagram: datagram,
        pacing,
        frame_interval,
        group: cell.system.group,
        playback_buffer: config.client.playback_buffer,
        // Systems that reproduce published ones behave as those do.
        unrestrained: matches!(cell.system.recovery, Recovery::None | Recovery::Group),
        ..SenderConfig::default()
    };
    let sender = match cell.system.recovery {
        Recovery::Policy(policy) => sender.recovering(policy, true),
        Recovery::None | Recovery::Group => sender,
    };
    let algorithms = Algorithms { controller, redundancy: Some(new_policy(&cell.system.fec)?) };
    Ok(Sender::new(server_clock(config.start), sender, algorithms))
}

fn new_load(flow: &plan::Flow, seed: u64) -> RivalTraffic {
    let schedule = Schedule { begins: Time::ZERO + flow.start, ends: Time::ZERO + flow.stop };
    RivalTraffic::Plain(match flow.kind {
        Kind::Dash { law, ref content } => {
            let config = ClientConfig { law, content: content.clone(), schedule, seed };
            return RivalTraffic::Dash(Box::new(Client::new(config)));
        }
        Kind::Tcp { law } => {
            let config = BulkConfig { law, schedule, seed, ..BulkConfig::default() };
            Box::new(Bulk::new(config))
        }
        Kind::Short { law, connections, begin_busy } => {
            let config = ShortConfig { law, connections, begin_busy, schedule, seed, ..ShortConfig::default() };
            Box::new(Short::new(config))
        }
        Kind::Cbr { rate, packet, on, off } => Box::new(Cbr::new(CbrConfig { rate, packet, on, off, schedule })),
    })
}

impl RunRecord {
    pub(crate) fn new(cell: &Cell, seed: u64) -> Self {
        Self {
            labels: cell.labels.clone(),
            seed,
            live: None,
            simulated: cell.setting.duration,
            sample: cell.setting.sample,
            warm_up: cell.setting.warm_up,
            render: cell.setting.source.render,
            encode: cell.setting.source.encode,
            decode: cell.setting.client.decode,
            media: cell.media.iter().map(|media| MediaRecord::new(&media.name)).collect(),
            rivals: cell.flows.iter().map(RivalRecord::new).collect(),
            links: cell.segments.iter().map(|segment| LinkRecord::new(&segment.name)).collect(),
            dropped: BTreeMap::new(),
            wifi: Vec::new(),
        }
    }
}
