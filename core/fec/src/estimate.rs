//! Estimates the loss process against which redundancy protects, from the fates of packets.
//!
//! A packet that met a full queue was lost to congestion, which a lower rate cures and redundancy aggravates. So the process is
//! measured on the other packets alone: those that met a queue far from its ceiling, whether they arrived or not. Excluding both
//! fates alike keeps the measure unbiased when losses are unrelated to the queue.
//!
//! # Limits
//! A queue that stays full for longer than the minimum delay is remembered ([`EPOCH`] and up to twice that) looks like a longer path
//! without a queue, and its losses look random. Only a sender that never yields keeps a queue full for that long.

use nearlight_units::{FrameId, RemoteTime, Span, Time};
use serde::Serialize;

use crate::gilbert::LossProcess;

/// Number of packets that the estimate remembers, by exponential decay. Guess: a second and a half at 35 Mb/s; 1 % of it are 50 losses.
const MEMORY_PACKETS: f64 = 5_000.0;

/// The prior, with the weight of [`PRIOR_PACKETS`] packets: a twentieth of a loss, so that a clean path is
/// recognized within seconds. Guess: good Wi-Fi.
const PRIOR: LossProcess = LossProcess { loss: 0.0005, burst: 2.0 };
const PRIOR_PACKETS: f64 = 100.0;

/// Number of runs of the prior's length in the mean burst, so that a single loss does not determine it. Guess.
const PRIOR_RUNS: f64 = 1.0;

/// A shorter queue does not cause loss. Guess: a third of a frame at 90 frames a second, below what a burst leaves behind.
const MIN_CONGESTED_QUEUE: Span = Span::from_millis(4);

/// A queue above this share of its ceiling may be full. Guess.
const FULL_QUEUE_SHARE: f64 = 0.7;

/// A queue above this may cause drops by active queue management. Guess: three times the 5 ms target of `CoDel` (RFC 8289).
const AQM_QUEUE: Span = Span::from_millis(15);

/// The base delay and the queue's ceiling are extremes over one to two of these epochs. Guess.
const EPOCH: Span = Span::from_secs(10);

/// Longer runs are counted as outages, not as losses of the process, because no redundancy bridges them. As many losses as the planner's
/// tables distinguish.
const MIN_OUTAGE_PACKETS: u32 = 128;

/// A packet's outcome, once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOutcome {
    pub frame: FrameId,
    pub sent_at: Time,
    /// When the packet arrived. None for a packet reported missing.
    pub arrived_at: Option<RemoteTime>,
}

/// The estimate, for policies and the log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossSummary {
    /// Losses unrelated to a queue, against which redundancy helps.
    pub random: LossProcess,
    /// Share of all packets that were lost to a full queue, 0 to 1: the rate controller handles these.
    pub congestion: f64,
    /// Share of all packets that were lost, 0 to 1, whatever the cause.
    pub total: f64,
}

impl LossSummary {
    /// No losses.
    pub const CLEAN: Self = Self { random: LossProcess::CLEAN, congestion: 0.0, total: 0.0 };

    /// Share of packets that were lost for another reason than a full queue, 0 to 1: as in the process, or as counted when no queue
    /// interfered with counting, without the prior.
    #[must_use]
    pub fn beside_queues(&self) -> f64 {
        self.random.loss.max(self.total - self.congestion)
    }

    /// Makes the summary of a path that loses packets at random.
    #[must_use]
    pub fn random(process: LossProcess) -> Self {
        Self { random: process, congestion: 0.0, total: process.loss }
    }
}

/// An extreme over the last one to two epochs.
#[derive(Clone, Copy, Debug)]
struct Extreme {
    since: Time,
    now: Span,
    before: Span,
    /// 1 for the largest, -1 for the smallest.
    sign: i64,
}

impl Extreme {
    const fn new(sign: i64) -> Self {
        Self { since: Time::ZERO, now: Span::from_nanos(-i64::MAX), before: Span::from_nanos(-i64::MAX), sign }
    }

    fn on(&mut self, at: Time, value: Span) {
        if at.saturating_since(self.since) > EPOCH {
            self.before = self.now;
            self.now = Span::from_nanos(-i64::MAX);
            self.since = at;
        }
        self.now = self.now.max(value * self.sign);
    }

    fn get(&self) -> Span {
        self.now.max(self.before) * self.sign
    }
}

/// The newest packet that arrived.
#[derive(Clone, Copy, Debug)]
struct LastArrival {
    sent_at: Time,
    frame: FrameId,
    queue: Span,
    /// Growth of the queue from packet to packet within the frame.
    growth: Span,
}

/// Decaying counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: f64,
    lost: f64,
    runs: f64,
}

impl Counts {
    fn on_packet(&mut self) {
        let keep = 1.0 - 1.0 / MEMORY_PACKETS;
        self.packets = self.packets * keep + 1.0;
        self.lost *= keep;
        self.runs *= keep;
    }

    fn ratio(&self) -> f64 {
        if self.packets > 0.0 { self.lost / self.packets } else { 0.0 }
    }
}

/// Estimates the loss process from packets' fates.
#[derive(Clone, Debug)]
pub struct LossEstimate {
    base: Extreme,
    ceiling: Extreme,
    last: Option<LastArrival>,
    /// Missing packets since `last`, with the frame and time of each. They are classified when the run ends.
    run: Vec<PacketOutcome>,
    random: Counts,
    all: Counts,
    congested: f64,
    outages: u32,
}

impl Default for LossEstimate {
    fn default() -> Self {
        let random = Counts {
            packets: PRIOR_PACKETS,
            lost: PRIOR_PACKETS * PRIOR.loss,
            runs: PRIOR_PACKETS * PRIOR.loss / PRIOR.burst,
        };
        Self {
            base: Extreme::new(-1),
            ceiling: Extreme::new(1),
            last: None,
            run: Vec::new(),
            random,
            all: Counts::default(),
            congested: 0.0,
            outages: 0,
        }
    }
}

impl LossEstimate {
    /// Handles the next packet's outcome, in the order of sending.
    pub fn on_outcome(&mut self, outcome: &PacketOutcome) {
        let Some(arrived_at) = outcome.arrived_at else {
            if self.run.len() <= MIN_OUTAGE_PACKETS as usize {
                self.run.push(*outcome);
            }
            return;
        };
        let delay = arrived_at.ahead_of(outcome.sent_at);
        self.base.on(outcome.sent_at, delay);
        let queue = delay - self.base.get();
        self.ceiling.on(outcome.sent_at, queue);
        self.end_run(outcome, queue);
        self.count(self.is_exposed(queue), false, false);
        let growth = match &self.last {
            Some(last) if last.frame == outcome.frame => (queue - last.queue).max(Span::ZERO),
            _ => Span::ZERO,
        };
        self.last = Some(LastArrival { sent_at: outcome.sent_at, frame: outcome.frame, queue, growth });
    }

    #[must_use]
    pub fn summary(&self) -> LossSummary {
        let burst = (self.random.lost + PRIOR_RUNS * PRIOR.burst) / (self.random.runs + PRIOR_RUNS);
        let congestion = if self.all.packets > 0.0 { self.congested / self.all.packets } else { 0.0 };
        LossSummary { random: LossProcess::new(self.random.ratio(), burst), congestion, total: self.all.ratio() }
    }

    /// Number of interruptions that took more packets in a row than any redundancy could replace.
    #[must_use]
    pub fn outages(&self) -> u32 {
        self.outages
    }

    /// Handles an arrival: the losses before it can now be classified.
    fn end_run(&mut self, arrival: &PacketOutcome, queue: Span) {
        let run = std::mem::take(&mut self.run);
        if run.len() > MIN_OUTAGE_PACKETS as usize {
            self.outages += 1;
        } else {
            let mut begins = true;
            for (position, lost) in run.iter().enumerate() {
                let exposed = self.is_exposed(self.queue_at(lost, position, arrival, queue));
                self.count(exposed, true, begins);
                begins = exposed;
            }
        }
        self.run = run;
        self.run.clear();
    }

    /// The queue that a lost packet met, derived from its neighbours.
    fn queue_at(&self, lost: &PacketOutcome, position: usize, arrival: &PacketOutcome, queue: Span) -> Span {
        let before = self.last.map_or(Span::ZERO, |last| {
            if last.frame == lost.frame {
                // A burst's packets pile up: the further back in it, the longer the queue.
                (last.queue + last.growth * (position as i64 + 1)).min(self.ceiling.get().max(last.queue))
            } else {
                // Since then it had time to drain.
                (last.queue - (lost.sent_at - last.sent_at)).max(Span::ZERO)
            }
        });
        if arrival.frame == lost.frame { before.max(queue) } else { before }
    }

    fn is_exposed(&self, queue: Span) -> bool {
        queue >= MIN_CONGESTED_QUEUE && queue >= self.ceiling.get().mul_f64(FULL_QUEUE_SHARE).min(AQM_QUEUE)
    }

    fn count(&mut self, exposed: bool, lost: bool, begins: bool) {
        self.all.on_packet();
        self.congested *= 1.0 - 1.0 / MEMORY_PACKETS;
        self.all.lost += f64::from(u8::from(lost));
        if exposed {
            self.congested += f64::from(u8::from(lost));
            return;
        }
        self.random.on_packet();
        self.random.lost += f64::from(u8::from(lost));
        self.random.runs += f64::from(u8::from(lost && begins));
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg32;
    use rand_pcg::rand_core::{RngCore, SeedableRng};

    use super::*;

    /// A sender of frames over a bottleneck with a queue, and a channel behind it that loses packets in bursts.
    struct Path {
        random: Pcg32,
        service: Span,
        /// Packets that the queue holds; more are dropped.
        room: i64,
        process: LossProcess,
        bad: bool,
        free_at: Time,
        now: Time,
        frame: u32,
    }

    impl Path {
        fn new(service: Span, room: i64, process: LossProcess) -> Self {
            let random = Pcg32::seed_from_u64(21);
            Self { random, service, room, process, bad: false, free_at: Time::ZERO, now: Time::from_secs(1), frame: 0 }
        }

        fn happens(&mut self, probability: f64) -> bool {
            f64::from(self.random.next_u32()) < probability * 4_294_967_296.0
        }

        /// A frame of `packets`, all at once, every 60th of a second.
        fn frame(&mut self, packets: u32, estimate: &mut LossEstimate) {
            for number in 0..packets {
                let sent_at = self.now + Span::from_micros(i64::from(number) * 12);
                let waiting = self.free_at.saturating_since(sent_at).as_nanos() / self.service.as_nanos();
                let ends = 1.0 / self.process.burst;
                let begins = self.process.loss * ends / (1.0 - self.process.loss);
                self.bad = if self.bad { !self.happens(ends) } else { self.happens(begins) };
                let mut arrived_at = None;
                if waiting < self.room {
                    self.free_at = self.free_at.max(sent_at) + self.service;
                    arrived_at = (!self.bad).then(|| (self.free_at + Span::from_secs(3_600)).for_peer());
                }
                estimate.on_outcome(&PacketOutcome { frame: FrameId(self.frame), sent_at, arrived_at });
            }
            self.frame += 1;
            self.now += Span::from_micros(16_667);
        }
    }

    #[test]
    fn random_losses_are_measured_whatever_the_bursts_queue_up() {
        for (loss, burst) in [(0.01, 1.33), (0.03, 3.0), (0.05, 8.0)] {
            let mut estimate = LossEstimate::default();
            // 50 packets of 1,200 bytes at 60 frames a second over 60 Mb/s: each frame queues up to 8 ms, nothing overflows.
            let mut path = Path::new(Span::from_micros(160), 1_000, LossProcess::new(loss, burst));
            let mut seen = [0.0, 0.0];
            for frame in 0..4_000 {
                path.frame(50, &mut estimate);
                if frame >= 1_000 {
                    let summary = estimate.summary();
                    seen[0] += summary.random.loss / 3_000.0;
                    seen[1] += summary.random.burst / 3_000.0;
                }
            }
            assert!((seen[0] / loss - 1.0).abs() < 0.2, "{loss} {burst}: {seen:?}");
            assert!((seen[1] / burst - 1.0).abs() < 0.25, "{loss} {burst}: {seen:?}");
        }
    }

    #[test]
    fn congestion_losses_buy_nothing() {
        let mut estimate = LossEstimate::default();
        // 12 % more than the bottleneck carries, into a queue of 100 packets: every lost packet found it full.
        let mut path = Path::new(Span::from_micros(320), 100, LossProcess::CLEAN);
        for _ in 0..1_200 {
            path.frame(59, &mut estimate);
        }
        let summary = estimate.summary();
        assert!(summary.total > 0.08, "{summary:?}");
        assert!(summary.congestion > 0.9 * summary.total, "{summary:?}");
        assert!(summary.random.loss < 0.005, "{summary:?}");
    }

    #[test]
    fn bursts_that_overflow_a_short_queue_are_congestion_too() {
        let mut estimate = LossEstimate::default();
        // The link carries the rate, but its queue holds only 40 of the 60 packets that come at once.
        let mut path = Path::new(Span::from_micros(150), 40, LossProcess::new(0.01, 1.33));
        for _ in 0..1_200 {
            path.frame(60, &mut estimate);
        }
        let summary = estimate.summary();
        assert!(summary.congestion > 0.15, "{summary:?}");
        assert!((summary.random.loss - 0.01).abs() < 0.006, "{summary:?}");
    }

    #[test]
    fn a_clean_path_becomes_clean_and_an_outage_is_no_process() {
        let mut estimate = LossEstimate::default();
        assert!((estimate.summary().random.loss - PRIOR.loss).abs() < 1e-9);
        let mut path = Path::new(Span::from_micros(100), 1_000, LossProcess::CLEAN);
        for _ in 0..600 {
            path.frame(40, &mut estimate);
        }
        assert!(estimate.summary().random.loss < 1e-4, "{:?}", estimate.summary());
        for number in 0..500 {
            estimate.on_outcome(&PacketOutcome {
                frame: FrameId(path.frame + number / 40),
                sent_at: path.now,
                arrived_at: None,
            });
        }
        path.frame(40, &mut estimate);
        assert_eq!(estimate.outages(), 1);
        assert!(estimate.summary().random.loss < 1e-4, "{:?}", estimate.summary());
    }

    #[test]
    fn absurd_reports_keep_it_within_bounds() {
        let mut estimate = LossEstimate::default();
        let mut random = Pcg32::seed_from_u64(22);
        for _ in 0..5_000 {
            let mut number = || u64::from(random.next_u32()) << (random.next_u32() % 33);
            let outcome = PacketOutcome {
                frame: FrameId(number() as u32 % 7),
                sent_at: Time::from_nanos(number()),
                arrived_at: (number() % 3 > 0).then(|| RemoteTime::from_nanos(number())),
            };
            estimate.on_outcome(&outcome);
            let summary = estimate.summary();
            assert!((0.0..=LossProcess::MAX_LOSS).contains(&summary.random.loss), "{summary:?}");
            assert!((1.0..=LossProcess::MAX_BURST).contains(&summary.random.burst), "{summary:?}");
            assert!((0.0..=1.0).contains(&summary.congestion) && (0.0..=1.0).contains(&summary.total), "{summary:?}");
        }
    }
}
