//! The oracle: a run whose controller knows the path's future capacity. It sends the schedule with the highest utility, so its figures bound those of
//! every controller over the same path and seed. See "The oracle" in docs/lab.md, and `crate::oracle` for the schedule itself.

use crate::oracle::{Choice, Frame, Problem, Schedule, Service, solve};
use nearlight_link::{FlowId, Hop as _, Packet, Path, Random};
use nearlight_rate::Bounds;
use nearlight_units::{Bytes, Span, Time};

use super::links::{segment_seeds, trace_start};
use super::{RunError, bounds};
use crate::histogram::Histogram;
use crate::plan::Cell;
use crate::plan::oracle::NAME;
use crate::record::{FrameLossCounts, MediaRecord, RunRecord, ServiceRecord};
use crate::utility::FrameQuality;

/// Number of candidate frame sizes, evenly spaced in the logarithm of the rate. With 96 instead of 48, utilities change by less than 0.002.
const FRAME_SIZES: usize = 48;

/// Resolution at which the path's capacity is measured.
const CAPACITY_SLOT: Span = Span::from_millis(1);

/// Interval at which the path is offered packets while its capacity is measured. With [`MIN_BACKLOG_PACKETS`] it is never idle up to 200 Mb/s.
const OFFER_INTERVAL: Span = Span::from_micros(250);
const MIN_BACKLOG_PACKETS: u64 = 8;
/// Most packets offered at a time. A policer has no backlog; this is 2 Gb/s in packets of 1,200 bytes.
const MAX_OFFERED_PACKETS: usize = 50;

/// The inputs of the schedule and of its record.
struct OracleRun<'a> {
    cell: &'a Cell,
    bounds: Bounds,
    /// The path's delay without queueing.
    delay: Span,
    capacity: Vec<u32>,
    service: Service,
    captures: Vec<Time>,
    frames: Vec<Frame>,
}

/// Runs the oracle under the same conditions as any controller with this seed.
pub(crate) fn run(cell: &Cell, seed: u64) -> Result<RunRecord, RunError> {
    let bounds = bounds(cell, NAME)?;
    let seeds = segment_seeds(&mut Random::new(seed), 1);
    let mut path = cell.segments[0].forward.starting_at(trace_start(seed)).path(seeds[0][0]);
    let (service, capacity) = measure_path(&mut path, cell);
    let mut play = OracleRun {
        cell,
        bounds,
        delay: path.min_delay(),
        capacity,
        service,
        captures: Vec::new(),
        frames: Vec::new(),
    };
    play.plan_frames();
    let choices = play.choices();
    let frame_interval = play.frame_interval();
    let problem = Problem {
        service: &play.service,
        frames: &play.frames,
        choices: &choices,
        stall_after: (nearlight_events::STALL.as_nanos() / frame_interval.as_nanos()) as usize,
    };
    let schedule = solve(&problem);
    Ok(play.record(seed, &choices, &schedule))
}

/// Measures what the path carries when it is never idle, and its capacity in kb/s at each sample, as in other runs' records.
fn measure_path(path: &mut Path, cell: &Cell) -> (Service, Vec<u32>) {
    let setting = &cell.setting;
    let end = Time::ZERO + setting.duration;
    let size = Bytes::new(setting.datagram as u64) + setting.headers;
    let mut slots = vec![Bytes::ZERO; (setting.duration.as_nanos() / CAPACITY_SLOT.as_nanos()) as usize + 1];
    let mut capacity = Vec::new();
    let mut next_sample = Time::ZERO + setting.sample;
    let (mut now, mut id) = (Time::ZERO, 0);
    while now <= end {
        while let Some(exit) = path.poll(now) {
            let slot = ((exit.at - Time::ZERO).as_nanos() / CAPACITY_SLOT.as_nanos()) as usize;
            if let Some(slot) = slots.get_mut(slot).filter(|_| exit.is_delivered() && !exit.packet.duplicate) {
                *slot += exit.packet.size;
            }
        }
        for _ in 0..MAX_OFFERED_PACKETS {
            if path.backlog().packets >= MIN_BACKLOG_PACKETS {
                break;
            }
            path.offer(now, Packet::new(id, FlowId(1), size));
            id += 1;
        }
        if now >= next_sample {
            capacity.push(path.capacity(now).map_or(0, |rate| (rate.as_bps() / 1_000) as u32));
            next_sample += setting.sample;
        }
        now += OFFER_INTERVAL;
    }
    (Service::new(CAPACITY_SLOT, slots), capacity)
}

impl OracleRun<'_> {
    fn frame_interval(&self) -> Span {
        Span::from_nanos(1_000_000_000 / i64::from(self.cell.setting.source.fps))
    }

    /// Adds the captures of the measured time, evenly spaced. A frame has to be decoded by its deadline; waiting for the display's refresh does not
    /// count.
    fn plan_frames(&mut self) {
        let setting = &self.cell.setting;
        let (begin, end) = (Time::ZERO + setting.warm_up, Time::ZERO + setting.duration);
        let coded = setting.source.render + setting.source.encode;
        for number in 0.. {
            let captured = begin + Span::from_nanos(number * 1_000_000_000 / i64::from(setting.source.fps));
            if captured >= end {
                return;
            }
            let displayed = (captured + setting.client.deadline).min(end);
            self.captures.push(captured);
            // On the receiver's side of the path, like the service.
            let enters = captured + coded + self.delay;
            self.frames.push(Frame { enters, due: (displayed - setting.client.decode).max(enters) });
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let source = &self.cell.setting.source;
        let (lowest, highest) = (self.bounds.minimum.as_bps() as f64, self.bounds.maximum.as_bps() as f64);
        let mut choices: Vec<Choice> = Vec::new();
        for index in 0..FRAME_SIZES {
            let share = index as f64 / (FRAME_SIZES - 1) as f64;
            let rate = lowest.max(1.0) * libm::pow(highest.max(1.0) / lowest.max(1.0), share);
            let bytes = (rate / 8.0 / f64::from(source.fps)) as u64;
            let value = FrameQuality::new(self.bounds, source.fps).on_frame(bytes as usize, false);
            choices.push(Choice { bytes: self.size_on_path(bytes), value });
        }
        choices.dedup_by_key(|choice| choice.bytes);
        choices
    }

    /// Returns a frame's size on the path, including packet headers.
    fn size_on_path(&self, bytes: u64) -> Bytes {
        let packets = bytes.div_ceil(self.cell.setting.datagram as u64);
        Bytes::new(bytes + packets * self.cell.setting.headers.get())
    }

    fn record(&self, seed: u64, choices: &[Choice], schedule: &Schedule) -> RunRecord {
        let setting = &self.cell.setting;
        let mut record = RunRecord::new(self.cell, seed);
        let (begin, end) = (Time::ZERO + setting.warm_up, Time::ZERO + setting.duration);
        let samples = self.capacity.len();
        let mut received = vec![0_u64; samples];
        let (mut latency, mut network) = (Histogram::default(), Histogram::default());
        let (mut in_time, mut bytes) = (0, Bytes::ZERO);
        let mut queue_ends = 0.0_f64;
        for ((frame, captured), choice) in self.frames.iter().zip(&self.captures).zip(&schedule.choices) {
            let Some(choice) = choice else { continue };
            let size = choices[*choice].bytes;
            queue_ends = queue_ends.max(self.service.until(frame.enters)) + size.get() as f64;
            let arrived = self.service.when(queue_ends);
            network.add((arrived - frame.enters + self.delay).as_micros().max(0) as u64);
            latency.add((arrived + setting.client.decode - *captured).as_micros().max(0) as u64);
            in_time += 1;
            bytes += size;
            let sample = ((arrived - Time::ZERO).as_nanos() / setting.sample.as_nanos()) as usize;
            if let Some(sum) = received.get_mut(sample) {
                *sum += size.get();
            }
        }
        let kbps = |bytes: u64| (Bytes::new(bytes).over(setting.sample).as_bps() / 1_000) as u32;
        let rates: Vec<u32> = received.into_iter().map(kbps).collect();
        let captured = self.frames.len() as u64;
        let interval = self.frame_interval();
        let lost = captured - in_time;
        record.media[0] = MediaRecord {
            from: begin.as_secs_f64(),
            to: end.as_secs_f64(),
            captured,
            skipped: lost,
            sent_frames: in_time,
            received_frames: in_time,
            displayed: in_time,
            bytes_sent: bytes.get(),
            bytes_received: bytes.get(),
            frame_losses: Some(FrameLossCounts::default()),
            service: Some(ServiceRecord {
                in_time,
                quality: schedule.value,
                stalls: schedule.stalls as u64,
                stalled: Span::from_nanos(interval.as_nanos() * schedule.stalled as i64),
                watched: end - begin,
            }),
            frame_network_latency: network,
            frame_latency: latency,
            // Measured sessions have a target; the oracle's target is the rate that it sends.
            target: rates.iter().map(|rate| (*rate).max(1)).collect(),
            sent: rates.clone(),
            received: rates,
            ..MediaRecord::new(&self.cell.media[0].name)
        };
        let side = &mut record.links[0].sides[0];
        side.capacity.clone_from(&self.capacity);
        side.queue = vec![0; samples];
        side.delivered = bytes.over(end - begin).as_bps() / 1_000;
        record
    }
}
