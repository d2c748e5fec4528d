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
use crate::report::{Measured, Report};
use crate::traffic::{Arrival, Audio, Frame, Periodic, PeriodicConfig, Video, VideoConfig};

/// The relative phases of several headsets' frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Each headset's at random.
    Random,
    /// All at the same time.
    Aligned,
    /// Evenly over the time from one frame to the next.
    Staggered,
}

/// What one run simulates. The first `headsets` stations of the cell stream; others have the background traffic they are given.
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
    /// The measured time, after `warm_up`.
    pub duration: Span,
    pub warm_up: Span,
    /// Each with a seed of its own, counted up from `seed`.
    pub runs: u32,
    pub seed: u64,
    /// How many exchanges the report shows, from the first run's end of the warm-up on.
    pub timeline: usize,
}

impl Scenario {
    /// One headset with the study's video and no uplink, ten runs of ten seconds: its section 8.2.
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

    /// Runs it. Equal scenarios give equal reports.
    pub fn run(&self) -> Result<Report, ConfigError> {
        Ok(self.measure()?.report(self.headsets, self.simulated()))
    }

    /// Runs it for a record that can be merged with others.
    pub fn record(&self) -> Result<CellRecord, ConfigError> {
        Ok(self.measure()?.record(self.headsets, self.simulated()))
    }

    /// All runs together, excluding warm-ups.
    fn simulated(&self) -> Span {
        self.duration * i64::from(self.runs)
    }

    fn measure(&self) -> Result<Measured, ConfigError> {
        self.check()?;
        let mut measured = Measured::new(self.cell.stations.len());
        for run in 0..self.runs {
            Run::new(self, run)?.finish(&mut measured);
        }
        Ok(measured)
    }

    /// Returns an error if the scenario is invalid.
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

/// A source and where its packets go.
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
struct Sent {
    at: Time,
    frame: Option<Frame>,
}

/// A frame with packets inside the cell.
struct Open {
    frame: Frame,
    left: u32,
    lost: bool,
    latest: Time,
}

struct Run<'a> {
    scenario: &'a Scenario,
    cell: Cell,
    streams: Vec<Stream>,
    /// By stream: its next packet.
    next: Vec<Time>,
    sent: Vec<Sent>,
    free: Vec<u64>,
    /// By station, in order of frame.
    frames: Vec<VecDeque<Open>>,
    is_first: bool,
    /// Measurement interval: packets and frames that begin from here
    start: Time,
    /// up to here.
    end: Time,
    /// Measured packets that have no exit yet.
    waited_for: usize,
}

/// A source's packets that precede those of all others.
struct Turn {
    index: usize,
    at: Time,
    last: Time,
}

/// How often exits are read: rarely, as reading touches the cell, but before many have accumulated.
const COLLECT: Span = Span::from_millis(1);

/// How long a run continues after its end, so that pending packets can arrive and long delays count like short ones. Guess: a packet that
/// takes longer is lost to any viewer.
const GRACE: Span = Span::from_millis(500);

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

    fn finish(mut self, measured: &mut Measured) {
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
        while self.waited_for > 0 && until < end + GRACE {
            until += Span::from_millis(5);
            self.run_until(until, measured);
        }
    }

    fn counts(&self, at: Time) -> bool {
        at >= self.start && at < self.end
    }

    /// A packet is measured if it begins within the interval, and so is the rest of a frame that does.
    fn is_waited_for(&self, sent: &Sent) -> bool {
        self.counts(sent.at) || sent.frame.is_some_and(|frame| self.counts(frame.at))
    }

    fn next(&self) -> Time {
        self.next.iter().copied().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Offers every packet that comes before `until` and takes every exit until then.
    fn run_until(&mut self, until: Time, measured: &mut Measured) {
        let mut collected = Time::ZERO;
        while let Some(Turn { index, at, last }) = self.turn(until) {
            while let Some(arrival) = self.streams[index].poll(last) {
                self.offer(self.streams[index].lane, &arrival);
            }
            self.next[index] = self.streams[index].poll_timeout();
            // Exits carry their times, so they can be processed together.
            if at.saturating_since(collected) >= COLLECT {
                collected = at;
                self.collect(at, measured);
            }
        }
        self.collect(until, measured);
    }

    /// Which source comes first, the lower one of two at the same time.
    #[inline]
    fn turn(&self, until: Time) -> Option<Turn> {
        let mut first = Turn { index: 0, at: until, last: until };
        let mut other = until;
        for (index, &at) in self.next.iter().enumerate() {
            if at < first.at {
                other = other.min(first.at);
                first = Turn { index, at, last: at };
            } else {
                other = other.min(at);
            }
        }
        let last = first.at.max(other - Span::from_nanos(1));
        (first.at < until).then_some(Turn { last, ..first })
    }

    fn offer(&mut self, lane: Lane, arrival: &Arrival) {
        let sent = Sent { at: arrival.at, frame: arrival.frame };
        self.waited_for += usize::from(self.is_waited_for(&sent));
        let handle = self.free.pop().unwrap_or_else(|| {
            self.sent.push(sent);
            self.sent.len() as u64 - 1
        });
        self.sent[handle as usize] = sent;
        if let Some(frame) = arrival.frame {
            let open = &mut self.frames[lane.station()];
            if open.back().is_none_or(|last| last.frame.id < frame.id) {
                open.push_back(Open { frame, left: frame.packets, lost: false, latest: frame.at });
            }
        }
        let flow = FlowId(lane.station() as u32);
        self.cell.offer(arrival.at, lane, Packet::new(handle, flow, arrival.size));
    }

    fn collect(&mut self, now: Time, measured: &mut Measured) {
        while let Some(CellExit { lane, exit, .. }) = self.cell.poll(now) {
            self.free.push(exit.packet.id);
            let sent = self.sent[exit.packet.id as usize];
            self.waited_for -= usize::from(self.is_waited_for(&sent));
            if exit.is_delivered() && self.counts(sent.at) {
                measured.on_packet(lane, exit.at - sent.at);
            }
            if let Some(frame) = sent.frame {
                self.on_frame_packet(lane.station(), frame.id, &exit, measured);
            }
        }
    }

    fn on_frame_packet(&mut self, station: usize, frame: FrameId, exit: &Exit, measured: &mut Measured) {
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

/// Where poses lie against the headset's video, as a share of their interval. Their intervals often divide each other, so that a
/// run keeps it; from run to run it moves by multiples of the golden ratio, so that few runs cover all of it evenly.
fn pose_phase(scenario: &Scenario, run: u32, station: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let start = Random::new(scenario.seed ^ (station as u64) << 32).unit();
    (start + GOLDEN * f64::from(run) * (station + 1) as f64).fract()
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
