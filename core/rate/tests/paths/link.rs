//! A sender, one bottleneck and a receiver in virtual time, in steps of 100 µs: enough to see a control law at work.
//!
//! Not modelled: retransmissions, jitter of service, other traffic, loss of feedback, an encoder that misses its target.

use std::collections::{BTreeMap, VecDeque};

use nearlight_rate::{
    Bounds, Decision, Feedback, PacketReport, Probe, RateController, SentFrame, SentPacket, new_controller,
};
use nearlight_session::pace::{Class, Mode, Pacer};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

const STEP: Span = Span::from_micros(100);
const FRAME: Span = Span::from_micros(16_667);
/// Encoding time of a hardware encoder, far below a frame interval.
const ENCODE: Span = Span::from_millis(4);
const PACKET: Bytes = Bytes::new(1_200);
/// A frame without motion.
const MIN_FRAME: Bytes = Bytes::new(200);
/// Packets that may overtake before one counts as missing.
const REORDERING: u32 = 3;

/// The path's slowest hop, and the way there and back.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub capacity: Bitrate,
    /// The capacity of the queue in front of it.
    pub queue: Bytes,
    pub one_way: Span,
    /// Share of packets that get lost at random.
    pub loss: f64,
    /// Feedback gets through.
    pub feedback: bool,
    /// Media gets through.
    pub open: bool,
}

impl Link {
    /// A round trip of 20 ms and a queue of 100 ms.
    pub fn of(capacity: Bitrate) -> Self {
        let queue = capacity.bytes_in(Span::from_millis(100));
        Self { capacity, queue, one_way: Span::from_millis(10), loss: 0.0, feedback: true, open: true }
    }
}

/// Measurements over a period of time.
#[derive(Clone, Debug)]
pub struct Summary {
    pub target: Bitrate,
    pub highest_target: Bitrate,
    pub received: Bitrate,
    pub queue_median: Span,
    pub queue_p95: Span,
    pub queue_maximum: Span,
    /// The longest time for which the queue was longer than 50 ms.
    pub congested: Span,
    pub lost: f64,
    pub probes: u32,
    /// The first moment, from the stretch's beginning, at which the target reached 85 % of the capacity.
    pub converged: Option<Span>,
}

#[derive(Debug, Default)]
struct Seen {
    steps: u64,
    /// Sum over all steps.
    targets: u128,
    highest_target: u64,
    /// Steps by the queue's delay in nanoseconds.
    queues: BTreeMap<i64, u64>,
    arrived: Bytes,
    sent: u64,
    lost: u64,
    probes: u32,
    congested: Span,
    longest_congested: Span,
    converged: Option<Span>,
}

/// A feedback message on its way.
struct Report {
    comes_at: Time,
    left_at: Time,
    arrivals: Vec<(PacketSeq, Time)>,
}

pub struct Path {
    pub link: Link,
    /// The maximum that the scene requires.
    pub demand: Bitrate,
    pub controller: Box<dyn RateController>,
    bounds: Bounds,
    pub now: Time,
    pub decision: Decision,
    pacer: Pacer,
    random: Pcg32,
    next_frame: Time,
    frame: FrameId,
    next_seq: PacketSeq,
    probe: Option<Probe>,
    records: VecDeque<SentPacket>,
    queue: VecDeque<SentPacket>,
    queued: Bytes,
    served: u64,
    travelling: VecDeque<(Time, SentPacket)>,
    arrivals: Vec<(PacketSeq, Time)>,
    next_report: Time,
    reports: VecDeque<Report>,
    /// Something happened in the last step: the next one may have its consequences.
    eventful: bool,
    seen: Seen,
}

impl Path {
    pub fn new(preset: &str, bounds: Bounds, link: Link, seed: u64) -> Self {
        let controller = new_controller(preset, bounds).expect("a preset");
        let mut pacer = Pacer::new(Mode::Interval(Mode::DEFAULT_INTERVAL));
        let decision = controller.decision();
        pacer.set_rate(Time::ZERO, decision.pacing);
        Self {
            decision,
            bounds,
            link,
            demand: Bitrate::MAX,
            controller,
            now: Time::from_secs(1),
            pacer,
            random: Pcg32::seed_from_u64(seed),
            next_frame: Time::ZERO,
            frame: FrameId(0),
            next_seq: PacketSeq(0),
            probe: None,
            records: VecDeque::new(),
            queue: VecDeque::new(),
            queued: Bytes::ZERO,
            served: 0,
            travelling: VecDeque::new(),
            arrivals: Vec::new(),
            next_report: Time::ZERO,
            reports: VecDeque::new(),
            eventful: true,
            seen: Seen::default(),
        }
    }

    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.controller.set_bounds(self.now, bounds);
        self.decide();
    }

    /// Continues the run and returns the measurements.
    pub fn run(&mut self, length: Span) -> Summary {
        self.seen = Seen::default();
        let from = self.now;
        while self.now < from + length {
            self.skip(from + length);
            self.now += STEP;
            self.produce();
            self.send();
            self.serve();
            self.receive();
            self.control();
            self.note_convergence(from);
            self.observe(1);
        }
        self.summary(length)
    }

    /// Skips steps without events, which are the majority.
    fn skip(&mut self, until: Time) {
        if std::mem::take(&mut self.eventful) || self.pacer.is_probing() {
            return;
        }
        let pace = self.pacer.poll_timeout();
        let arrival = self.travelling.front().map(|(at, _)| *at);
        let report = self.reports.front().map(|report| report.comes_at);
        let wake = self.controller.poll_timeout().map(|(at, _)| at);
        let next = [pace, arrival, report, wake].into_iter().flatten().fold(until, Time::min);
        let next = next.min(self.next_frame).min(self.next_report);
        let mut steps = (next.saturating_since(self.now).as_nanos() - 1).max(0) / STEP.as_nanos();
        if let Some(head) = self.queue.front() {
            let needed = (head.size.bits() * 1_000).saturating_sub(self.served);
            let served = (needed.max(1) - 1) / self.served_in_step();
            steps = steps.min(served as i64);
            self.served += steps.unsigned_abs() * self.served_in_step();
        }
        self.now += STEP * steps;
        self.observe(steps.unsigned_abs() as u32);
    }

    fn produce(&mut self) {
        if self.now < self.next_frame {
            return;
        }
        self.eventful = true;
        self.next_frame = self.now.max(self.next_frame) + FRAME;
        let rate = self.decision.target.min(self.demand);
        self.frame = self.frame.next();
        let size = rate.bytes_in(FRAME).max(MIN_FRAME);
        self.pacer.on_frame(self.now, size, self.next_frame);
        self.controller.on_frame_sent(self.now, &SentFrame { frame: self.frame, size, key: false, encode: ENCODE });
    }

    fn send(&mut self) {
        if !self.pacer.is_probing() {
            self.probe = self.controller.poll_probe(self.now);
            if let Some(probe) = self.probe {
                self.pacer.on_probe(self.now, probe.rate, probe.size);
                self.seen.probes += 1;
            }
        }
        loop {
            let probing = self.pacer.is_probing();
            let media = self.pacer.queued() > Bytes::ZERO;
            let (class, size) =
                if media { (Class::Media, self.pacer.queued().min(PACKET)) } else { (Class::Padding, PACKET) };
            if !self.pacer.poll(self.now, size, class) || !(media || probing) {
                return;
            }
            let packet = SentPacket {
                seq: self.next_seq,
                sent_at: self.now,
                size,
                frame: media.then_some(self.frame),
                probe: self.probe.filter(|_| probing).map(|probe| probe.id),
                app_limited: self.pacer.queued() == Bytes::ZERO,
            };
            self.eventful = true;
            self.next_seq = self.next_seq.next();
            self.controller.on_packet_sent(&packet);
            self.records.push_back(packet);
            self.seen.sent += 1;
            self.offer(packet);
        }
    }

    fn offer(&mut self, packet: SentPacket) {
        let unlucky = f64::from(self.random.next_u32()) / f64::from(u32::MAX) < self.link.loss;
        if unlucky || !self.link.open || self.queued + packet.size > self.link.queue {
            self.seen.lost += 1;
            return;
        }
        self.queued += packet.size;
        self.queue.push_back(packet);
    }

    fn serve(&mut self) {
        self.served += self.served_in_step();
        while let Some(head) = self.queue.front()
            && head.size.bits() * 1_000 <= self.served
        {
            self.eventful = true;
            self.served -= head.size.bits() * 1_000;
            self.queued = self.queued.saturating_sub(head.size);
            self.travelling.push_back((self.now + self.link.one_way, *head));
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            self.served = 0;
        }
    }

    /// In thousandths of a bit.
    fn served_in_step(&self) -> u64 {
        (self.link.capacity.as_bps() / 10).max(1)
    }

    fn receive(&mut self) {
        while let Some(&(at, packet)) = self.travelling.front()
            && at <= self.now
        {
            self.eventful = true;
            self.travelling.pop_front();
            self.seen.arrived += packet.size;
            self.arrivals.push((packet.seq, at));
        }
        if self.now < self.next_report {
            return;
        }
        self.eventful = true;
        self.next_report = self.now + FRAME;
        let arrivals = std::mem::take(&mut self.arrivals);
        if self.link.feedback && !arrivals.is_empty() {
            let comes_at = self.now + self.link.one_way;
            self.reports.push_back(Report { comes_at, left_at: self.now, arrivals });
        }
    }

    fn control(&mut self) {
        let mut changed = false;
        while let Some(report) = self.reports.pop_front_if(|report| report.comes_at <= self.now) {
            self.feed_back(&report);
            changed = true;
        }
        while let Some((at, _)) = self.controller.poll_timeout()
            && at <= self.now
        {
            self.controller.on_timeout(self.now);
            changed = true;
            let next = self.controller.poll_timeout();
            assert!(next.is_none_or(|(next, _)| next > self.now), "a timeout that was served stays due");
        }
        if changed {
            self.eventful = true;
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.decision = self.controller.decision();
        let Bounds { minimum, maximum, .. } = self.bounds;
        assert!((minimum..=maximum).contains(&self.decision.target), "{:?} at {:?}", self.decision, self.now);
        self.pacer.set_rate(self.now, self.decision.pacing);
    }

    fn feed_back(&mut self, report: &Report) {
        let Some(&(newest, newest_arrived)) = report.arrivals.last() else { return };
        let missing_before = newest.0.saturating_sub(REORDERING);
        let mut arrivals = report.arrivals.iter().peekable();
        let (mut packets, mut waiting) = (Vec::with_capacity(report.arrivals.len() + 8), Vec::new());
        // Nothing overtakes on this path: sent packets and arrivals are in one order.
        while let Some(packet) = self.records.pop_front_if(|packet| packet.seq <= newest) {
            let arrived_at = arrivals.next_if(|(seq, _)| *seq == packet.seq).map(|(_, at)| at.for_peer());
            if arrived_at.is_some() || packet.seq.0 < missing_before {
                packets.push(PacketReport { packet, arrived_at, ce: false });
            } else {
                waiting.push(packet);
            }
        }
        waiting.into_iter().rev().for_each(|packet| self.records.push_front(packet));
        let newest_sent = packets.iter().find(|report| report.packet.seq == newest).map(|report| report.packet.sent_at);
        let round_trip = newest_sent.map(|sent| (self.now - sent) - (report.left_at - newest_arrived));
        self.controller.on_sender_queue(self.now, self.pacer.queued());
        self.controller.on_feedback(self.now, &Feedback { packets: &packets, round_trip });
    }

    fn note_convergence(&mut self, from: Time) {
        if self.decision.target >= self.link.capacity.mul_f64(0.85) && self.seen.converged.is_none() {
            self.seen.converged = Some(self.now - from);
        }
    }

    /// Records the current state for this many steps.
    fn observe(&mut self, steps: u32) {
        if steps == 0 {
            return;
        }
        let queue = self.link.capacity.time_to_send(self.queued);
        if queue > Span::from_millis(50) {
            self.seen.congested += STEP * i64::from(steps);
            self.seen.longest_congested = self.seen.longest_congested.max(self.seen.congested);
        } else {
            self.seen.congested = Span::ZERO;
        }
        let target = self.decision.target.as_bps();
        self.seen.targets += u128::from(target) * u128::from(steps);
        self.seen.highest_target = self.seen.highest_target.max(target);
        self.seen.steps += u64::from(steps);
        *self.seen.queues.entry(queue.as_nanos()).or_default() += u64::from(steps);
    }

    fn summary(&mut self, length: Span) -> Summary {
        let seen = &mut self.seen;
        let queue = |share: u64| {
            let mut before = (seen.steps - 1) * share / 100;
            let mut delays = seen.queues.iter();
            let place = delays.find(|(_, steps)| match before.checked_sub(**steps) {
                Some(rest) => {
                    before = rest;
                    false
                }
                None => true,
            });
            Span::from_nanos(*place.expect("a step").0)
        };
        Summary {
            target: Bitrate::from_bps((seen.targets / u128::from(seen.steps)) as u64),
            highest_target: Bitrate::from_bps(seen.highest_target),
            received: seen.arrived.over(length),
            queue_median: queue(50),
            queue_p95: queue(95),
            queue_maximum: queue(100),
            congested: seen.longest_congested,
            lost: seen.lost as f64 / seen.sent.max(1) as f64,
            probes: seen.probes,
            converged: seen.converged,
        }
    }
}
