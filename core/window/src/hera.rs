//! Hera (Asim et al., "Towards Next Generation Immersive Applications in 5G Environments", algorithm 1): the bucket that contains the mean
//! round trip determines the change of the window, weighted by how often round trips were that low.
//!
//! The mean of the last round trips (`backlog`) falls into one of X buckets of 15 ms. A histogram counts the buckets. The weight α is
//! the share of counts in this bucket and those below. Below X/2 the window grows by α · (X/2 − b) · Δmax packets; above it the window
//! shrinks.
//!
//! All arithmetic is on integers, so that an implementation in a kernel can be compared with this one: round trips in whole
//! microseconds, the window in 1/1024 of a packet.
//!
//! # Departures
//! The paper leaves the following open, or prints it in a way that contradicts its text:
//! * As printed, the window shrinks by b − X/2 − 1, which is growth at b = X/2 and nothing at X/2 + 1. The text wants the target "at the
//!   centre". [`Reading::Symmetric`] shrinks by b − X/2 + 1; [`Reading::AsPrinted`] keeps the printed sign.
//! * The algorithm steps with each measurement, the text with each round trip. [`Step::RoundTrip`] feeds the histogram with every
//!   measurement and changes the window once a round trip; [`Step::Sample`] changes it with every measurement.
//! * X is not given. Six buckets put the target at 45 ms: for paths of 20 ms, one bucket above the path's own.
//! * Sums run over N and X elements, and round trips beyond the last bucket count into it.
//! * The histogram's limit is implemented as a first-in, first-out list of buckets.
//! * The "empirically validated bounds" of the window are guesses here.
//! * The paper does not cover losses: they have no effect, except that a time-out leaves the lowest window. [`LossResponse::Halve`] halves
//!   the window, once for a window of packets, like a kernel module that leaves `ssthresh` to Reno's. It does not cover pacing either:
//!   there is none.
//! * The window does not grow while something else limits the sender (RFC 7661's reason). Otherwise it would grow without bound.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Span, Time};

use super::rounds::Rounds;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// The window's unit: the number of parts of a packet.
pub(super) const PARTS: u64 = 1 << 10;
/// Maximum number of buckets: at 15 ms each they cover four seconds.
const MAX_BUCKETS: u16 = 256;
/// Maximum length of the histogram's list, which bounds its memory.
const MAX_LIST_LENGTH: u32 = 1 << 16;
/// Maximum window in packets.
const MAX_WINDOW: u32 = 1 << 20;

/// The rule by which the window shrinks above the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Equal steps on both sides of the target.
    #[default]
    Symmetric,
    /// The printed algorithm: the bucket above the centre still grows, the next one is neutral.
    AsPrinted,
}

/// When the window changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    #[default]
    RoundTrip,
    Sample,
}

/// The response to a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossResponse {
    #[default]
    Ignore,
    Halve,
}

/// Hera's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeraOptions {
    pub reading: Reading,
    pub step: Step,
    pub on_loss: LossResponse,
    /// X: an even number from 2 to 256. The target is half of it times the bucket's size.
    pub buckets: u16,
    /// Width of a bucket in whole microseconds, at least one.
    pub bucket_size: Span,
    /// N: number of round trips in the mean, from 1 to 256.
    pub backlog: u16,
    /// Δmax: packets by which the window changes for each bucket of distance, from 1 to 1000.
    pub max_delta: u16,
    /// Entries in the histogram, at most 65,536. None keeps all counts for ever.
    pub limit: Option<u32>,
    /// Bounds of the window in packets.
    pub least: u32,
    pub most: u32,
}

impl Default for HeraOptions {
    /// The paper's values (section 4.3) for bucket size, backlog and Δmax. The rest are guesses: six buckets for a path of 20 ms, a list of
    /// 1000 entries (one second at 12 Mb/s), and 20,000 packets (240 Mb/s over one second).
    fn default() -> Self {
        Self {
            reading: Reading::Symmetric,
            step: Step::RoundTrip,
            on_loss: LossResponse::Ignore,
            buckets: 6,
            bucket_size: Span::from_millis(15),
            backlog: 10,
            max_delta: 10,
            limit: Some(1_000),
            least: 4,
            most: 20_000,
        }
    }
}

impl HeraOptions {
    /// The nearest valid options.
    #[must_use]
    pub fn in_order(self) -> Self {
        let least = self.least.clamp(1, MAX_WINDOW);
        Self {
            buckets: (self.buckets.clamp(2, MAX_BUCKETS) / 2) * 2,
            bucket_size: Span::from_micros(self.bucket_size.as_micros().clamp(1, 1_000_000)),
            backlog: self.backlog.clamp(1, 256),
            max_delta: self.max_delta.clamp(1, 1_000),
            limit: self.limit.map(|limit| limit.clamp(1, MAX_LIST_LENGTH)),
            least,
            most: self.most.clamp(least, MAX_WINDOW),
            ..self
        }
    }

    /// The change of the window in a bucket, in units of Δmax and before it is weighted. Positive values grow.
    #[must_use]
    pub fn distance(&self, bucket: u16) -> i32 {
        let (bucket, centre) = (i32::from(bucket), i32::from(self.buckets / 2));
        if bucket < centre {
            return centre - bucket;
        }
        match self.reading {
            Reading::Symmetric => -(bucket - centre + 1),
            Reading::AsPrinted => -(bucket - centre - 1),
        }
    }
}

/// Counts how often the mean round trip fell into each bucket.
#[derive(Clone, Debug)]
struct Histogram {
    counts: Vec<u64>,
    total: u64,
    /// The counted buckets, the oldest first. Empty if there is no limit.
    list: VecDeque<u16>,
    limit: Option<u32>,
}

impl Histogram {
    fn new(options: &HeraOptions) -> Self {
        let (counts, list) = (vec![0; usize::from(options.buckets)], VecDeque::new());
        Self { counts, total: 0, list, limit: options.limit }
    }

    fn add(&mut self, bucket: u16) {
        if let Some(limit) = self.limit {
            while self.list.len() >= limit as usize
                && let Some(oldest) = self.list.pop_front()
            {
                self.counts[usize::from(oldest)] -= 1;
                self.total -= 1;
            }
            self.list.push_back(bucket);
        }
        self.counts[usize::from(bucket)] += 1;
        self.total += 1;
    }

    /// Counts in this bucket and below.
    fn up_to(&self, bucket: u16) -> u64 {
        self.counts[..=usize::from(bucket)].iter().sum()
    }
}

/// The mean of the last round trips, in whole microseconds.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    /// The round trips, the oldest first.
    values: VecDeque<u64>,
    sum: u64,
    limit: usize,
}

impl Backlog {
    pub(super) fn new(limit: u16) -> Self {
        Self { values: VecDeque::new(), sum: 0, limit: usize::from(limit.max(1)) }
    }

    /// Adds a round trip. Returns the mean, including it.
    pub(super) fn on_round_trip(&mut self, round_trip: Span) -> u64 {
        let micros = round_trip.as_micros().max(0).cast_unsigned();
        if self.values.len() >= self.limit
            && let Some(oldest) = self.values.pop_front()
        {
            self.sum -= oldest;
        }
        self.values.push_back(micros);
        self.sum += micros;
        self.sum / self.values.len() as u64
    }
}

/// Histogram-based control of the round trip.
#[derive(Clone, Debug)]
pub struct Hera {
    packet: u64,
    options: HeraOptions,
    backlog: Backlog,
    histogram: Histogram,
    bucket: u16,
    rounds: Rounds,
    /// The window in [`PARTS`] of a packet.
    window: u64,
}

impl Hera {
    #[must_use]
    pub fn new(packet: Bytes, options: HeraOptions) -> Self {
        let options = options.in_order();
        let window = INITIAL_WINDOW.clamp(u64::from(options.least), u64::from(options.most)) * PARTS;
        Self {
            packet: packet.get().max(1),
            options,
            backlog: Backlog::new(options.backlog),
            histogram: Histogram::new(&options),
            bucket: 0,
            rounds: Rounds::default(),
            window,
        }
    }

    /// The bucket that contains the mean of the last round trips.
    #[must_use]
    pub fn bucket(&self) -> u16 {
        self.bucket
    }

    fn on_round_trip(&mut self, round_trip: Span) {
        let mean = self.backlog.on_round_trip(round_trip);
        let bucket = mean / self.options.bucket_size.as_micros().cast_unsigned();
        self.bucket = bucket.min(u64::from(self.options.buckets - 1)) as u16;
        self.histogram.add(self.bucket);
    }

    fn step(&mut self, may_grow: bool) {
        let distance = self.options.distance(self.bucket);
        let weight = self.histogram.up_to(self.bucket);
        let most = u64::from(distance.unsigned_abs()) * u64::from(self.options.max_delta) * PARTS;
        // Below 2^50: at most 2^17 counts with a limit, and without one as many as there were measurements.
        let delta = (u128::from(weight) * u128::from(most) / u128::from(self.histogram.total.max(1))) as u64;
        if distance > 0 && may_grow {
            self.window += delta;
        } else if distance < 0 {
            self.window = self.window.saturating_sub(delta);
        }
        let (least, most) = (u64::from(self.options.least) * PARTS, u64::from(self.options.most) * PARTS);
        self.window = self.window.clamp(least, most);
    }
}

impl CongestionLaw for Hera {
    fn name(&self) -> &'static str {
        match self.options.reading {
            Reading::Symmetric => "hera",
            Reading::AsPrinted => "hera-as-printed",
        }
    }

    fn on_ack(&mut self, _now: Time, sample: &AckSample) {
        let round_began = self.rounds.on_ack(sample.delivered, sample.delivered_when_sent);
        if let Some(round_trip) = sample.round_trip {
            self.on_round_trip(round_trip);
        }
        let due = match self.options.step {
            Step::RoundTrip => round_began && self.histogram.total > 0,
            Step::Sample => sample.round_trip.is_some(),
        };
        if due {
            self.step(sample.window_limited);
        }
    }

    fn on_loss(&mut self, _now: Time, _congestion: &Congestion) {
        if self.options.on_loss == LossResponse::Halve {
            self.window = (self.window / 2).max(u64::from(self.options.least) * PARTS);
        }
    }

    fn on_recovered(&mut self, _now: Time) {}

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.window = u64::from(self.options.least) * PARTS;
    }

    fn window(&self) -> Bytes {
        // Whole packets, as in a kernel.
        Bytes::new(self.window / PARTS * self.packet)
    }
}

#[cfg(test)]
#[path = "hera_tests.rs"]
mod tests;
