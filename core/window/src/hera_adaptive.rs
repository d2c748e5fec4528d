//! Our own variant of Hera, for its paper's future work: the number of buckets follows the path.
//!
//! The target is the path's own round trip plus an allowance for its jitter, rather than a number that suits one path. The steps are
//! shares of the window that change the round trip by the desired amount, so that they suit every rate. α is weighted by time rather than
//! by samples, so that a burst of acknowledgements counts no more than a quiet second.
//!
//! * Buckets are 5 ms wide. The target is half their number times their width.
//! * The path's own round trip is the lowest of the last 10 s. The jitter is the mean deviation of round trips (RFC 6298's `RTTVAR`).
//! * Measurements at the same moment count as one: over TCP an acknowledgement, in media mode the feedback on a frame.
//! * α is the share of the last second that the mean round trip spent in this bucket and those below.
//! * Until the target is first reached, the window doubles in a round trip.
//!
//! All arithmetic is on integers, as in [`Hera`](crate::Hera).

use std::collections::VecDeque;

use nearlight_units::{Bytes, Span, Time};

use super::hera::{Backlog, PARTS};
use super::rounds::Rounds;
use super::timed_minimum::TimedMinimum;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// The width of a bucket. Guess: a third of Hera's, because paths of 20 ms need targets between its buckets.
const BUCKET_MICROS: u64 = 5_000;
/// Maximum number of buckets: round trips beyond 1.28 s count as 1.28 s.
const MAX_BUCKETS: usize = 256;
/// Number of round trips in the mean (Hera's `backlog_length`).
const BACKLOG_LENGTH: u16 = 10;
/// Time over which the minimum round trip is taken (as in BBR).
const MIN_ROUND_TRIP_WINDOW: Span = Span::from_secs(10);
/// Time over which α is taken. Guess: older measurements say little of a path that fades.
const HISTORY_LENGTH: Span = Span::from_secs(1);
/// Maximum number of measurements in that time, which bounds the memory.
const MAX_MEASUREMENTS: usize = 1_000;
/// The allowance for jitter: this many mean deviations, as in RFC 6298's time-out, within bounds. Guess for the bounds: with two buckets
/// the window can detect that it is below the target, and the maximum is Hera's own target of 25 ms above a path of 20 ms.
const JITTER_DEVIATIONS: u64 = 4;
const MIN_ALLOWANCE_MICROS: u64 = 10_000;
const MAX_ALLOWANCE_MICROS: u64 = 25_000;
/// Each bucket of distance changes the window by this many quarters of what would change the round trip by a bucket. Guess: four
/// quarters overshoot, because the effect shows only a round trip later.
const STEP_QUARTERS: u64 = 3;
/// Bounds of the window in packets (our Hera's).
const MIN_WINDOW: u64 = 4 * PARTS;
const MAX_WINDOW: u64 = 20_000 * PARTS;

/// The time that the mean round trip spent in each bucket.
#[derive(Clone, Debug)]
struct TimedHistogram {
    /// The time in microseconds.
    spent: Vec<u64>,
    total: u64,
    /// Start, bucket and length in microseconds of each visit, the oldest first.
    moments: VecDeque<(Time, u16, u64)>,
}

impl TimedHistogram {
    fn new() -> Self {
        Self { spent: vec![0; MAX_BUCKETS], total: 0, moments: VecDeque::new() }
    }

    fn add(&mut self, now: Time, bucket: u16) {
        let since = self.moments.back().map_or(Span::ZERO, |(at, _, length)| {
            now.saturating_since(*at + Span::from_micros((*length).cast_signed()))
        });
        // A silence says nothing about its own duration.
        let length = since.min(HISTORY_LENGTH).as_micros().max(1).cast_unsigned();
        self.spent[usize::from(bucket)] += length;
        self.total += length;
        self.moments.push_back((now - Span::from_micros(length.cast_signed()), bucket, length));
        while self.moments.len() > MAX_MEASUREMENTS
            || self
                .moments
                .front()
                .is_some_and(|(at, _, _)| now.saturating_since(*at) > HISTORY_LENGTH && self.moments.len() > 1)
        {
            let Some((_, bucket, length)) = self.moments.pop_front() else { break };
            self.spent[usize::from(bucket)] -= length;
            self.total -= length;
        }
    }

    fn up_to(&self, bucket: u16) -> u64 {
        self.spent[..=usize::from(bucket)].iter().sum()
    }
}

/// Hera with a target that follows the path.
#[derive(Clone, Debug)]
pub struct HeraAdaptive {
    packet: u64,
    backlog: Backlog,
    histogram: TimedHistogram,
    bucket: u16,
    lowest: TimedMinimum,
    /// The smoothed round trip in microseconds.
    smoothed: Option<u64>,
    deviation: u64,
    /// The last measurement, which has not been counted yet, and its time.
    pending: Option<(Time, Span)>,
    rounds: Rounds,
    starting: bool,
    /// The window in [`PARTS`] of a packet.
    window: u64,
}

impl HeraAdaptive {
    #[must_use]
    pub fn new(packet: Bytes) -> Self {
        Self {
            packet: packet.get().max(1),
            backlog: Backlog::new(BACKLOG_LENGTH),
            histogram: TimedHistogram::new(),
            bucket: 0,
            lowest: TimedMinimum::default(),
            smoothed: None,
            deviation: 0,
            pending: None,
            rounds: Rounds::default(),
            starting: true,
            window: INITIAL_WINDOW * PARTS,
        }
    }

    /// The target round trip. None before the first measurement.
    #[must_use]
    pub fn target(&self) -> Option<Span> {
        let lowest = self.lowest.value()?;
        let need = (JITTER_DEVIATIONS * self.deviation).clamp(MIN_ALLOWANCE_MICROS, MAX_ALLOWANCE_MICROS);
        Some(lowest + Span::from_micros(need.cast_signed()))
    }

    /// Half the number of buckets.
    fn centre(&self) -> u16 {
        let target = self.target().map_or(0, |target| target.as_micros().max(0).cast_unsigned());
        target.div_ceil(BUCKET_MICROS).clamp(1, MAX_BUCKETS as u64 - 1) as u16
    }

    fn on_round_trip(&mut self, now: Time, round_trip: Span) {
        self.lowest.on_value(now, round_trip, MIN_ROUND_TRIP_WINDOW);
        let counts = self.pending.filter(|(at, _)| *at < now);
        self.pending = Some((now, round_trip));
        if let Some((at, round_trip)) = counts {
            self.count(at, round_trip);
        }
    }

    fn count(&mut self, at: Time, round_trip: Span) {
        let micros = round_trip.as_micros().max(0).cast_unsigned();
        let smoothed = self.smoothed.unwrap_or(micros);
        self.deviation = (3 * self.deviation + smoothed.abs_diff(micros)) / 4;
        self.smoothed = Some((7 * smoothed + micros) / 8);
        let mean = self.backlog.on_round_trip(round_trip);
        self.bucket = (mean / BUCKET_MICROS).min(MAX_BUCKETS as u64 - 1) as u16;
        self.histogram.add(at, self.bucket);
    }

    fn step(&mut self, may_grow: bool) {
        let centre = self.centre();
        let below = self.bucket < centre;
        let distance = u64::from(if below { centre - self.bucket } else { self.bucket - centre + 1 });
        self.starting &= below;
        let round_trip = self.smoothed.unwrap_or(0).max(BUCKET_MICROS);
        let unit = (self.window * BUCKET_MICROS * STEP_QUARTERS / (4 * round_trip)).max(PARTS);
        let weight = u128::from(self.histogram.up_to(self.bucket));
        let delta = (weight * u128::from(distance * unit) / u128::from(self.histogram.total.max(1))) as u64;
        let delta = delta.min(self.window / 2);
        if below && may_grow && !self.starting {
            self.window += delta;
        } else if !below {
            self.window -= delta;
        }
        self.window = self.window.clamp(MIN_WINDOW, MAX_WINDOW);
    }
}

impl CongestionLaw for HeraAdaptive {
    fn name(&self) -> &'static str {
        "hera-adaptive"
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip {
            self.on_round_trip(now, round_trip.max(Span::from_micros(1)));
        }
        if self.rounds.on_ack(sample.delivered, sample.delivered_when_sent) && self.histogram.total > 0 {
            self.step(sample.window_limited);
        }
        if self.starting && sample.window_limited {
            let growth = sample.acked.get().saturating_mul(PARTS) / self.packet;
            self.window = self.window.saturating_add(growth).min(MAX_WINDOW);
        }
    }

    fn on_loss(&mut self, _now: Time, _congestion: &Congestion) {
        self.starting = false;
    }

    fn on_recovered(&mut self, _now: Time) {}

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.window = MIN_WINDOW;
        self.starting = true;
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window / PARTS * self.packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_500);

    #[test]
    fn the_target_follows_the_path_and_its_jitter() {
        let target = |base: i64, jitter: i64| {
            let mut law = HeraAdaptive::new(PACKET);
            for number in 0..200_i64 {
                let round_trip = Span::from_millis(base + if number % 2 == 0 { jitter } else { 0 });
                law.on_round_trip(Time::from_millis(number.unsigned_abs()), round_trip);
            }
            law.target().expect("round trips").as_micros()
        };
        assert_eq!(target(20, 0), 30_000);
        assert_eq!(target(100, 0), 110_000);
        assert!((35_000..=45_000).contains(&target(20, 20)), "{}", target(20, 20));
    }

    #[test]
    fn a_second_counts_as_much_whether_it_had_many_samples_or_few() {
        let mut histogram = TimedHistogram::new();
        for micros in 0..300_u64 {
            histogram.add(Time::from_micros(1_000_000 + micros), 9);
        }
        for millis in 1..=400 {
            histogram.add(Time::from_millis(1_000 + millis), 2);
        }
        let share = histogram.up_to(2) as f64 / histogram.total as f64;
        assert!(share > 0.99, "{share}");
        histogram.add(Time::from_secs(9), 4);
        assert_eq!((histogram.up_to(2), histogram.moments.len()), (0, 1));
    }
}
