//! The cumulative capacity of a path.

use nearlight_units::{Bytes, Span, Time};

/// The cumulative service curve of a path that is never idle. Bytes of a slot are spread evenly over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    slot: Span,
    /// Bytes by the end of each slot.
    by_end: Vec<f64>,
}

impl Service {
    /// Returns the curve of a path that delivers `slots`, the bytes of each slot from time 0. `slot` must be positive.
    #[must_use]
    pub fn new(slot: Span, slots: impl IntoIterator<Item = Bytes>) -> Self {
        let add = |sum: &mut f64, bytes: Bytes| {
            *sum += bytes.get() as f64;
            Some(*sum)
        };
        Self { slot: slot.max(Span::from_nanos(1)), by_end: slots.into_iter().scan(0.0, add).collect() }
    }

    /// Returns the bytes delivered by `time`. Nothing is delivered after the last slot.
    #[must_use]
    pub fn until(&self, time: Time) -> f64 {
        let slots = (time - Time::ZERO).max(Span::ZERO).as_nanos() as f64 / self.slot.as_nanos() as f64;
        let whole = (slots as usize).min(self.by_end.len());
        let before = whole.checked_sub(1).map_or(0.0, |last| self.by_end[last]);
        let within = self.by_end.get(whole).map_or(0.0, |end| (end - before) * (slots - whole as f64));
        before + within
    }

    /// Returns the earliest time by which this many bytes are delivered, or the end of the last slot.
    #[must_use]
    pub fn when(&self, bytes: f64) -> Time {
        let slot = self.by_end.partition_point(|end| *end < bytes);
        let before = slot.checked_sub(1).map_or(0.0, |last| self.by_end[last]);
        let within = self.by_end.get(slot).map_or(0.0, |end| (bytes - before) / (end - before).max(f64::MIN_POSITIVE));
        Time::ZERO + self.slot.mul_f64(slot as f64 + within.clamp(0.0, 1.0))
    }

    /// Returns the mean rate between two times, in bytes a second.
    #[must_use]
    pub fn mean(&self, from: Time, to: Time) -> f64 {
        (self.until(to) - self.until(from)) / (to - from).as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spread_over_their_slot() {
        let service = Service::new(Span::from_millis(10), [100, 0, 300].map(Bytes::new));
        for (millis, expected) in
            [(-5, 0.0), (0, 0.0), (5, 50.0), (10, 100.0), (15, 100.0), (25, 250.0), (30, 400.0), (99, 400.0)]
        {
            let found = service.until(Time::ZERO + Span::from_millis(millis));
            assert!((found - expected).abs() < 1e-9, "{millis} ms: {found}");
        }
        for (bytes, millis) in [(50.0, 5), (100.0, 10), (250.0, 25), (400.0, 30), (401.0, 30)] {
            assert_eq!(service.when(bytes), Time::ZERO + Span::from_millis(millis), "{bytes}");
        }
        let mean = service.mean(Time::ZERO, Time::ZERO + Span::from_millis(20));
        assert!((mean - 5_000.0).abs() < 1e-9, "{mean}");
    }
}
