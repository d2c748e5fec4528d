//! Simulates headsets in a cell for some time, and reports the results.

use std::collections::VecDeque;

use nearlight_link::{Exit, FlowId, Packet};
use nearlight_units::{Bytes, FrameId, Span, Time};

use crate::cell::{Cell, CellExit, Lane};
use crate::config::{Category, CellConfig, Direction, length, within};
use crate::distribution::Distribution;
use crate::error::ConfigError;
use crate::random::Random;
use crate::record::CellRecord;
use crate::report::{Measurements, Report};
use crate::traffic::{Arrival, Audio, Frame, Periodic, PeriodicConfig, Video, VideoConfig};

/// The relative phases of several headsets' frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Random phases.
    Random,
    /// Equal phases.
    Aligned,
    /// Phases spread evenly over the frame interval.
    Staggered,
}

/// A simulation scenario. The first `headsets` stations of the cell stream; others have the configured background traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub cell: CellConfig,
    pub headsets: usize,
    pub video: Option<VideoConfig>,
    pub video_category: Category,
    /// Audio accompanies the video, in the same category.
    pub audio: bool,
    pub poses: Option<PeriodicConfig>,
    pub pose_category: Category,
    pub phases: Phases,
    /// Measured time, after `warm_up`.
    pub duration: Span,
    pub warm_up: Span,
    /// Number of runs, with seeds counted up from `seed`.
    pub runs: u32,
    pub seed: u64,
    /// Number of exchanges to report, from the end of the first run's warm-up.
    pub timeline: usize,
}

impl Scenario {
    /// Returns the study's scenario (its section 8.2): one headset, video and no uplink, ten runs of ten seconds.
    #[must_use]
    pub fn study(cell: CellConfig, video: VideoConfig) -> Self {
        Self {
            cell,
            headsets: 1,
            video: Some(video),
            video_category: Category::BestEffort,
            audio: false,
            poses: None,
            pose_category: Category::BestEffort,
            phases: Phases::Random,
            duration: Span::from_secs(10),
            warm_up: Span::ZERO,
            runs: 10,
            seed: 1,
            timeline: 0,
        }
    }

    /// Runs the scenario. Equal scenarios give equal reports.
    ///
    /// # Errors
    ///
    /// The scenario is invalid.
    pub fn run(&self) -> Result<Report, ConfigError> {
        Ok(self.measure()?.report(self.headsets, self.simulated()))
    }

    /// Runs the scenario and returns a record that can be merged with others.
    ///
    /// # Errors
    ///
    /// The scenario is invalid.
    pub fn record(&self) -> Result<CellRecord, ConfigError> {
        Ok(self.measure()?.record(self.headsets, self.simulated()))
    }

    /// Total time of all runs, excluding warm-ups.
    fn simulated(&self) -> Span {
        self.duration * i64::from(self.runs)
    }

    fn measure(&self) -> Result<Measurements, ConfigError> {
        self.check()?;
        let mut measured = Measurements::new(self.cell.stations.len());
        for run in 0..self.runs {
            Run::new(self, run)?.finish(&mut measured);
        }
        Ok(measured)
    }

    /// Checks the scenario.
    ///
    /// # Errors
    ///
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.cell.check()?;
        self.video.map_or(Ok(()), |video| video.check())?;
        self.poses.map_or(Ok(()), |poses| poses.check())?;
        within("the number of headsets", self.headsets as u64, 0..=self.cell.stations.len() as u64)?;
        within("the number of runs", self.runs, 1..=100_000)?;
        within("the length of the time line", self.timeline as u64, 0..=1_000_000)?;
        length("a run", self.duration, Span::from_millis(1), Span::from_secs(86_400))?;
        length("the warm-up", self.warm_up, Span::ZERO, Span::from_secs(86_400))?;
        let sizes = [self.video.map(|video| video.packet), self.poses.map(|poses| poses.size)];
        let size = sizes.into_iter().flatten().max().unwrap_or(Bytes::ZERO);
        for station in self.cell.stations.iter().take(self.headsets) {
            let longest = self.cell.longest_packet(station)?;
            if size > longest {
                return Err(ConfigError::PacketTooLong { size, longest, mcs: station.mcs });
            }
        }
        Ok(())
    }
}

/// A source and the lane of its packets.
struct Stream {
    lane: Lane,
    source: Source,
}

enum Source {
    Video(Video),
    Audio(Audio),
    Poses(Periodic),
}

impl Stream {
    #[inline]
    fn poll(&mut self, now: Time) -> Option<Arrival> {
        match &mut self.source {
            Source::Video(video) => video.poll(now),
            Source::Audio(audio) => audio.poll(now),
            Source::Poses(poses) => poses.poll(now),
        }
    }

    fn poll_timeout(&self) -> Time {
        match &self.source {
            Source::Video(video) => video.poll_timeout(),
            Source::Audio(audio) => audio.poll_timeout(),
            Source::Poses(poses) => poses.poll_timeout(),
        }
    }
}

/// A packet inside the cell, by its handle.
#[derive(Clone, Copy)]
struct PacketInFlight {
    at: Time,
    frame: Option<Frame>,
}

/// A frame with packets inside the cell.
struct FrameInFlight {
    frame: Frame,
    left: u32,
    lost: bool,
    latest: Time,
}

struct Run<'a> {
    scenario: &'a Scenario,
    cell: Cell,
    streams: Vec<Stream>,
    /// Time of the next packet of each stream.
    next: Vec<Time>,
    sent: Vec<PacketInFlight>,
    free: Vec<u64>,
    /// Frames in flight of each station, in order.
    frames: Vec<VecDeque<FrameInFlight>>,
    is_first: bool,
    /// Start of the measurement interval.
    start: Time,
    /// End of the measurement interval.
    end: Time,
    /// Measured packets that have no exit yet.
    waited_for: usize,
}

/// Packets of a source that precede those of all others.
struct SourceBatch {
    index: usize,
    at: Time,
    last: Time,
}

/// Interval at which exits are read. Guess: long, as reading touches the cell, but too short for many exits to accumulate.
const COLLECT_INTERVAL: Span = Span::from_millis(1);

/// Time that a run continues after its end, so that pending packets can arrive and long delays count like short ones. Guess: a later packet is lost
/// to any viewer.
const DELIVERY_GRACE: Span = Span::from_millis(500);

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, run: u32) -> Result<Self, ConfigError> {
        let mut random = Random::new(scenario.seed.wrapping_add(u64::from(run)).wrapping_mul(2).wrapping_add(1));
        let cell = Cell::new(scenario.cell.clone(), random.below(u64::MAX))?;
        let streams = streams(scenario, run, &mut random)?;
        let frames = scenario.cell.stations.iter().map(|_| VecDeque::new()).collect();
        let start = Time::ZERO + scenario.warm_up;
        Ok(Self {
            scenario,
            cell,
            next: streams.iter().map(Stream::poll_timeout).collect(),
            streams,
            sent: Vec::new(),
            free: Vec::new(),
            frames,
            is_first: run == 0,
            start,
            end: start + scenario.duration,
            waited_for: 0,
        })
    }

    fn finish(mut self, measured: &mut Measurements) {
        let (start, end) = (self.start, self.end);
        self.run_until(start, measured);
        measured.on_start(&self.cell);
        if self.is_first {
            self.cell.set_record(self.scenario.timeline);
        }
        while self.is_first && measured.timeline_has_room(self.scenario.timeline) && self.next() < end {
            let until = (self.next() + Span::from_millis(1)).min(end);
            self.run_until(until, measured);
            measured.on_exchanges(&mut self.cell, self.scenario.timeline);
        }
        self.cell.set_record(0);
        self.run_until(end, measured);
        measured.on_end(&self.cell);
        let mut until = end;
        while self.waited_for > 0 && until < end + DELIVERY_GRACE {
            until += Span::from_millis(5);
            self.run_until(until, measured);
        }
    }

    fn counts(&self, at: Time) -> bool {
        at >= self.start && at < self.end
    }

    /// Returns whether a packet is measured: it begins within the interval, or belongs to a frame that does.
    fn is_measured(&self, sent: &PacketInFlight) -> bool {
        self.counts(sent.at) || sent.frame.is_some_and(|frame| self.counts(frame.at))
    }

    fn next(&self) -> Time {
        self.next.iter().copied().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Offers every packet before `until` and collects every exit until then.
    fn run_until(&mut self, until: Time, measured: &mut Measurements) {
        let mut collected = Time::ZERO;
        while let Some(SourceBatch { index, at, last }) = self.turn(until) {
            while let Some(arrival) = self.streams[index].poll(last) {
                self.offer(self.streams[index].lane, &arrival);
            }
            self.next[index] = self.streams[index].poll_timeout();
            // Exits carry their times, so they can be processed together.
            if at.saturating_since(collected) >= COLLECT_INTERVAL {
                collected = at;
                self.collect(at, measured);
            }
        }
        self.collect(until, measured);
    }

    /// Returns the source that sends next, the lower one of two at the same time.
    #[inline]
    fn turn(&self, until: Time) -> Option<SourceBatch> {
        let mut first = SourceBatch { index: 0, at: until, last: until };
        let mut other = until;
        for (index, &at) in self.next.iter().enumerate() {
            if at < first.at {
                other = other.min(first.at);
                first = SourceBatch { index, at, last: at };
            } else {
                other = other.min(at);
            }
        }
        let last = first.at.max(other - Span::from_nanos(1));
        (first.at < until).then_some(SourceBatch { last, ..first })
    }

    fn offer(&mut self, lane: Lane, arrival: &Arrival) {
        let sent = PacketInFlight { at: arrival.at, frame: arrival.frame };
        self.waited_for += usize::from(self.is_measured(&sent));
        let handle = self.free.pop().unwrap_or_else(|| {
            self.sent.push(sent);
            self.sent.len() as u64 - 1
        });
        self.sent[handle as usize] = sent;
        if let Some(frame) = arrival.frame {
            let open = &mut self.frames[lane.station()];
            if open.back().is_none_or(|last| last.frame.id < frame.id) {
                open.push_back(FrameInFlight { frame, left: frame.packets, lost: false, latest: frame.at });
            }
        }
        let flow = FlowId(lane.station() as u32);
        self.cell.offer(arrival.at, lane, Packet::new(handle, flow, arrival.size));
    }

    fn collect(&mut self, now: Time, measured: &mut Measurements) {
        while let Some(CellExit { lane, exit, .. }) = self.cell.poll(now) {
            self.free.push(exit.packet.id);
            let sent = self.sent[exit.packet.id as usize];
            self.waited_for -= usize::from(self.is_measured(&sent));
            if exit.is_delivered() && self.counts(sent.at) {
                measured.on_packet(lane, exit.at - sent.at);
            }
            if let Some(frame) = sent.frame {
                self.on_frame_packet(lane.station(), frame.id, &exit, measured);
            }
        }
    }

    fn on_frame_packet(&mut self, station: usize, frame: FrameId, exit: &Exit, measured: &mut Measurements) {
        let frames = &mut self.frames[station];
        let Some(first) = frames.front().map(|open| open.frame.id.0) else { return };
        let Some(open) = frames.get_mut((frame.0 - first) as usize) else { return };
        open.left -= 1;
        open.lost |= !exit.is_delivered();
        open.latest = open.latest.max(exit.at);
        while let Some(done) = self.frames[station].pop_front_if(|open| open.left == 0) {
            if self.counts(done.frame.at) {
                let delay = (!done.lost).then_some(done.latest - done.frame.at);
                measured.on_frame(station, delay);
            }
        }
    }
}

/// Returns the phase of poses relative to the headset's video, as a share of their interval. Their intervals often divide each other, so a run keeps
/// its phase. From run to run it moves by multiples of the golden ratio, so that a few runs cover all phases evenly.
fn pose_phase(scenario: &Scenario, run: u32, station: usize) -> f64 {
    const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;
    let start = Random::new(scenario.seed ^ (station as u64) << 32).unit();
    (start + GOLDEN_RATIO * f64::from(run) * (station + 1) as f64).fract()
}

fn streams(scenario: &Scenario, run: u32, random: &mut Random) -> Result<Vec<Stream>, ConfigError> {
    let mut streams = Vec::new();
    let period = scenario.video.map_or(Span::from_millis(1), |video| video.period());
    let common = random.below(period.as_nanos() as u64);
    for station in 0..scenario.headsets {
        let phase = match scenario.phases {
            Phases::Random => random.below(period.as_nanos() as u64),
            Phases::Aligned => common,
            Phases::Staggered => {
                let step = period.as_nanos() as u64 * station as u64 / scenario.headsets as u64;
                (common + step) % period.as_nanos() as u64
            }
        };
        let first = Time::from_nanos(phase);
        let down = Lane::new(station, Direction::Downlink, scenario.video_category);
        let up = Lane::new(station, Direction::Uplink, scenario.pose_category);
        if let Some(video) = scenario.video {
            let video = Video::new(video, first, random.below(u64::MAX))?;
            streams.push(Stream { lane: down, source: Source::Video(video) });
        }
        if scenario.audio {
            let first = Time::from_nanos(random.below(20_000_000));
            streams.push(Stream { lane: down, source: Source::Audio(Audio::new(first)) });
        }
        if let Some(poses) = scenario.poses {
            let interval = poses.interval.as_nanos().max(1) as u64;
            let offset = poses.interval.mul_f64(pose_phase(scenario, run, station));
            let first = Time::from_nanos((phase + offset.as_nanos() as u64) % interval);
            let poses = Periodic::new(poses, first, random.below(u64::MAX))?;
            streams.push(Stream { lane: up, source: Source::Poses(poses) });
        }
    }
    Ok(streams)
}

/// Delays of one station.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    pub downlink: Distribution,
    pub uplink: Distribution,
    pub frames: Distribution,
    pub frames_lost: u64,
}
