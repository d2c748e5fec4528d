//! Copa (Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018): steers the rate towards
//! one over delta times the queueing delay.
//!
//! The queueing delay is the lowest round trip of the last half of a round trip (`RTTstanding`) minus the lowest of the last 10 s
//! (`RTTmin`). In equilibrium a flow has 1/delta packets queued, two by default. If the queue never empties, other flows fill it:
//! then 1/delta grows by one in a round trip without a loss and halves with a loss, as TCP's window would.
//!
//! # Departures
//! From the paper, section 2, with constants from the authors' code (venkatarun95/genericCC, `markoviancc.cc`) where the paper gives none:
//! * losses do not change the window in default mode, as in the paper; the code's cut above 30 % of losses is omitted;
//! * the velocity at most doubles the window in a round trip, and is reset at once when growth has to turn;
//! * the queue counts as emptied if the lowest of the last four round trips is within a tenth of the range above `RTTmin` (the
//!   code's four, the paper has five);
//! * after a time-out, slow start restarts with two packets; the paper does not cover this case;
//! * the window does not grow while something else limits the sender.

use nearlight_units::{Bitrate, Bytes, Span, Time, smoothed};

use super::rounds::Rounds;
use super::timed_minimum::TimedMinimum;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// Delta in default mode (section 2.1).
const DEFAULT_DELTA: f64 = 0.5;
/// Time over which the minimum round trip is taken (section 2.2).
const MIN_ROUND_TRIP_WINDOW: Span = Span::from_secs(10);
/// Smoothed round trips within which the queue of a path without other flows empties (the authors' code).
const EMPTYING_ROUND_TRIPS: i64 = 4;
/// Share of the range of round trips below which the queue counts as empty (section 2.2).
const EMPTY_QUEUE_SHARE: f64 = 0.1;
/// Round trips in one direction before the velocity doubles (section 2.1, step 3).
const STEADY_ROUNDS: u32 = 3;
/// The lowest window in packets.
const MIN_WINDOW: f64 = 2.0;
/// Pacing rate in windows per round trip (section 2.1).
const PACING_FACTOR: f64 = 2.0;
/// The highest 1/delta and velocity in packets; beyond it nothing changes any more. Guess.
const MAX_PACKETS: f64 = 1_000.0;

/// Whether Copa competes with flows that fill the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopaMode {
    /// Competes while the queue never empties (section 2.2).
    #[default]
    Switching,
    /// Never competes.
    Default,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Delay-based control with mode switching.
#[derive(Clone, Debug)]
pub struct Copa {
    packet: f64,
    mode: CopaMode,
    /// The window in packets.
    window: f64,
    slow_start: bool,
    delta: f64,
    velocity: f64,
    direction: Option<Direction>,
    /// Rounds in this direction, and the window when the last one began.
    steady: u32,
    window_before: f64,
    rounds: Rounds,
    smoothed: Option<Span>,
    lowest: TimedMinimum,   // RTTmin
    standing: TimedMinimum, // RTTstanding
    recent: TimedMinimum,
    /// The lowest of the negated round trips within the time of `recent`.
    highest: TimedMinimum,
    lost_in_round: bool,
    competing: bool,
}

impl Copa {
    #[must_use]
    pub fn new(packet: Bytes, mode: CopaMode) -> Self {
        let window = INITIAL_WINDOW as f64;
        Self {
            packet: packet.get().max(1) as f64,
            mode,
            window,
            slow_start: true,
            delta: DEFAULT_DELTA,
            velocity: 1.0,
            direction: None,
            steady: 0,
            window_before: window,
            rounds: Rounds::default(),
            smoothed: None,
            lowest: TimedMinimum::default(),
            standing: TimedMinimum::default(),
            recent: TimedMinimum::default(),
            highest: TimedMinimum::default(),
            lost_in_round: false,
            competing: false,
        }
    }

    /// Whether other flows seem to fill the queue.
    #[must_use]
    pub fn is_competing(&self) -> bool {
        self.competing
    }

    fn learn(&mut self, now: Time, round_trip: Span) {
        let round_trip = round_trip.max(Span::from_nanos(1));
        let smoothed = smoothed(self.smoothed, round_trip);
        self.smoothed = Some(smoothed);
        let lowest = self.lowest.on_value(now, round_trip, MIN_ROUND_TRIP_WINDOW);
        self.standing.on_value(now, round_trip, smoothed / 2);
        let recent = self.recent.on_value(now, round_trip, smoothed * EMPTYING_ROUND_TRIPS);
        let highest = -self.highest.on_value(now, -round_trip, smoothed * EMPTYING_ROUND_TRIPS);
        let empty = recent <= lowest + (highest - lowest).mul_f64(EMPTY_QUEUE_SHARE);
        self.competing = self.mode == CopaMode::Switching && !empty;
    }

    /// Packets per second that the queueing delay allows. None without a queue.
    fn target(&self) -> Option<f64> {
        let (standing, lowest) = (self.standing.value()?, self.lowest.value()?);
        let queued = (standing - lowest).as_secs_f64();
        (queued > 0.0).then(|| 1.0 / (self.delta * queued))
    }

    /// Packets per second that the window allows.
    fn rate(&self) -> Option<f64> {
        self.standing.value().map(|standing| self.window / standing.as_secs_f64())
    }

    fn on_round(&mut self) {
        if self.competing {
            let packets = 1.0 / self.delta;
            let packets = if self.lost_in_round { packets / 2.0 } else { packets + 1.0 };
            self.delta = 1.0 / packets.clamp(1.0 / DEFAULT_DELTA, MAX_PACKETS);
        } else {
            self.delta = DEFAULT_DELTA;
        }
        self.lost_in_round = false;
        let direction = if self.window > self.window_before { Direction::Up } else { Direction::Down };
        self.window_before = self.window;
        if self.direction == Some(direction) {
            self.steady += 1;
            if self.steady >= STEADY_ROUNDS {
                // A change by more than the window in a round trip has no further effect.
                self.velocity = (2.0 * self.velocity).min(self.window * self.delta).clamp(1.0, MAX_PACKETS);
            }
        } else {
            (self.direction, self.steady, self.velocity) = (Some(direction), 0, 1.0);
        }
    }

    fn steer(&mut self, acked: f64, window_limited: bool) {
        let Some(rate) = self.rate() else { return };
        let below = self.target().is_none_or(|target| rate <= target);
        if self.slow_start {
            if below {
                self.window += if window_limited { acked } else { 0.0 };
                return;
            }
            self.slow_start = false;
        }
        // Growth that has to turn does not wait for the round's end.
        if !below && self.direction == Some(Direction::Up) && self.velocity > 1.0 {
            (self.velocity, self.steady) = (1.0, 0);
        }
        let step = self.velocity * acked / (self.delta * self.window);
        if !below {
            self.window -= step.min(self.window / 2.0);
        } else if window_limited {
            self.window += step.min(acked);
        }
        self.window = self.window.max(MIN_WINDOW);
    }
}

impl CongestionLaw for Copa {
    fn name(&self) -> &'static str {
        match self.mode {
            CopaMode::Switching => "copa",
            CopaMode::Default => "copa-default",
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip {
            self.learn(now, round_trip);
        }
        if self.rounds.on_ack(sample.delivered, sample.delivered_when_sent) && !self.slow_start {
            self.on_round();
        }
        self.steer(sample.acked.get() as f64 / self.packet, sample.window_limited);
    }

    fn on_loss(&mut self, _now: Time, _congestion: &Congestion) {
        self.lost_in_round = true;
    }

    fn on_recovered(&mut self, _now: Time) {}

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.window = MIN_WINDOW;
        self.window_before = MIN_WINDOW;
        (self.slow_start, self.velocity, self.direction, self.steady) = (true, 1.0, None, 0);
    }

    fn window(&self) -> Bytes {
        Bytes::new((self.window * self.packet) as u64)
    }

    fn pacing(&self) -> Option<Bitrate> {
        let standing = self.standing.value()?;
        Some(self.window().over(standing).mul_f64(PACING_FACTOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_500);
    const PATH: Span = Span::from_millis(40);

    /// Sends on a path of 1000 packets a second and 40 ms: each packet waits for those in flight when it left, and for a queue of other
    /// flows.
    ///
    /// `clock` and the delivered packets continue from one call to the next.
    fn run(copa: &mut Copa, clock: &mut (Time, u64), packets: u64, others: f64) -> Vec<f64> {
        let ((now, delivered), mut queues) = (clock, Vec::new());
        let mut flight: std::collections::VecDeque<(u64, u64)> = std::collections::VecDeque::new();
        for _ in 0..packets {
            while flight.len() < copa.window as usize {
                flight.push_back((*delivered, flight.len() as u64 + 1));
            }
            let Some((delivered_when_sent, in_flight)) = flight.pop_front() else { break };
            let queue = (in_flight as f64 - 40.0).max(0.0);
            queues.push(queue);
            *now += Span::from_millis(if in_flight >= 40 { 1 } else { 40 / in_flight as i64 });
            *delivered += 1_500;
            let sample = AckSample {
                acked: PACKET,
                delivered: Bytes::new(*delivered),
                delivered_when_sent: Bytes::new(delivered_when_sent),
                round_trip: Some(PATH + Span::from_secs_f64((queue + others) / 1_000.0)),
                window_limited: true,
                ..AckSample::default()
            };
            copa.on_ack(*now, &sample);
        }
        queues
    }

    #[test]
    fn about_one_over_delta_packets_are_queued_in_equilibrium() {
        let (mut copa, mut clock) = (Copa::new(PACKET, CopaMode::Default), (Time::from_secs(1), 0));
        run(&mut copa, &mut clock, 2_000, 0.0);
        let queues = run(&mut copa, &mut clock, 8_000, 0.0);
        let mean = queues.iter().sum::<f64>() / queues.len() as f64;
        assert!((1.0..4.0).contains(&mean), "{mean} packets");
    }

    #[test]
    fn it_competes_only_where_the_queue_never_empties() {
        let (mut copa, mut clock) = (Copa::new(PACKET, CopaMode::Switching), (Time::from_secs(1), 0));
        run(&mut copa, &mut clock, 4_000, 0.0);
        assert!(!copa.is_competing());
        run(&mut copa, &mut clock, 400, 30.0);
        assert!(copa.is_competing() && copa.delta < DEFAULT_DELTA / 2.0, "{}", copa.delta);
        copa.lost_in_round = true;
        let before = copa.delta;
        copa.on_round();
        assert!(copa.delta > before, "a loss halves 1/delta");
        let (mut never, mut clock) = (Copa::new(PACKET, CopaMode::Default), (Time::from_secs(1), 0));
        run(&mut never, &mut clock, 4_000, 0.0);
        run(&mut never, &mut clock, 400, 30.0);
        assert!(!never.is_competing());
    }
}
