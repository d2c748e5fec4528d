//! One monitor interval: a rate, and the fate of the packets that were sent at it.

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::SentPacket;

/// The result of a complete interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalResult {
    /// The rate that the interval was given.
    pub rate: Bitrate,
    /// Bytes sent in it over its length.
    pub sent: Bitrate,
    /// Share of its packets that were lost, from 0 to 1.
    pub loss: f64,
    /// Growth of the round trip in seconds per second. 0 if the slope is within its own error.
    pub gradient: f64,
}

impl IntervalResult {
    /// The rate in Mb/s, the unit of both papers' utilities.
    #[must_use]
    pub fn mbps(&self) -> f64 {
        self.rate.as_mbps_f64()
    }
}

/// Sums for a regression of round trips over the time of sending.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    count: f64,
    times: f64,
    round_trips: f64,
    times_squared: f64,
    round_trips_squared: f64,
    products: f64,
}

impl Slope {
    fn add(&mut self, time: f64, round_trip: f64) {
        self.count += 1.0;
        self.times += time;
        self.round_trips += round_trip;
        self.times_squared += time * time;
        self.round_trips_squared += round_trip * round_trip;
        self.products += time * round_trip;
    }

    /// The slope. 0 if it is smaller than its standard error (PCC-Uspace).
    fn value(&self) -> f64 {
        let spread = self.count * self.times_squared - self.times * self.times;
        if self.count < 3.0 || spread <= 0.0 {
            return 0.0;
        }
        let slope = (self.count * self.products - self.times * self.round_trips) / spread;
        let total = self.count * self.round_trips_squared - self.round_trips * self.round_trips;
        let left = (total - slope * slope * spread).max(0.0);
        let error = libm::sqrt(left / (spread * (self.count - 2.0)));
        if slope.abs() <= error { 0.0 } else { slope }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    began: Time,
    ended: Option<Time>,
    rate: Bitrate,
    mark: Option<u32>,
    sent: u64,
    acked: u64,
    lost: u64,
    slope: Slope,
}

impl Interval {
    pub(super) fn new(began: Time, rate: Bitrate, mark: Option<u32>) -> Self {
        Self { began, ended: None, rate, mark, sent: 0, acked: 0, lost: 0, slope: Slope::default() }
    }

    pub(super) fn began(&self) -> Time {
        self.began
    }

    pub(super) fn rate(&self) -> Bitrate {
        self.rate
    }

    pub(super) fn mark(&self) -> Option<u32> {
        self.mark
    }

    pub(super) fn on_sent(&mut self, size: Bytes) {
        self.sent += size.get();
    }

    pub(super) fn on_acked(&mut self, packet: &SentPacket, round_trip: Option<Span>) {
        self.acked += packet.size.get();
        if let Some(round_trip) = round_trip {
            self.slope.add((packet.sent_at - self.began).as_secs_f64(), round_trip.as_secs_f64());
        }
    }

    pub(super) fn on_lost(&mut self, size: Bytes) {
        self.lost += size.get();
    }

    pub(super) fn end(&mut self, now: Time) {
        self.ended.get_or_insert(now);
    }

    /// Ends the interval after a silence: unsettled packets count as lost.
    pub(super) fn settle_as_lost(&mut self, now: Time) {
        self.end(now);
        self.lost = self.lost.max(self.sent.saturating_sub(self.acked));
    }

    pub(super) fn is_settled(&self, now: Time, patience: Span) -> bool {
        self.ended.is_some_and(|ended| self.acked + self.lost >= self.sent || now.saturating_since(ended) > patience)
    }

    /// The interval's result. None if the fate of every packet is unknown.
    pub(super) fn result(&self) -> Option<IntervalResult> {
        let (settled, length) = (self.acked + self.lost, self.ended? - self.began);
        if settled == 0 || length <= Span::ZERO {
            return None;
        }
        let (rate, sent) = (self.rate, Bytes::new(self.sent).over(length));
        Some(IntervalResult { rate, sent, loss: self.lost as f64 / settled as f64, gradient: self.slope.value() })
    }
}
