//! Throughput of segments: two moving averages, of which the lower counts (`ThroughputModel`, `ThroughputController`).

use nearlight_units::{Bytes, Span};

/// Seconds after which a download has half its weight.
const FAST_HALF_LIFE: f64 = 3.0;
const SLOW_HALF_LIFE: f64 = 8.0;
/// Weight of a millisecond of download (`weightDownloadTimeMultiplicationFactor`).
const DOWNLOAD_TIME_WEIGHT: f64 = 0.0015;
/// Share of the throughput that the rules may use (`bandwidthSafetyFactor`).
const BANDWIDTH_SAFETY_FACTOR: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    estimate: f64,
}

impl Average {
    fn add(&mut self, value: f64, weight: f64, half_life: f64) {
        let keep = libm::pow(0.5, weight / half_life);
        self.estimate = (1.0 - keep) * value + keep * self.estimate;
    }

    /// Corrects the bias of an average that begins at zero, by the weight of what it has seen.
    fn corrected(self, total_weight: f64, half_life: f64) -> f64 {
        self.estimate / (1.0 - libm::pow(0.5, total_weight / half_life))
    }
}

/// Throughput averages with a fast and a slow half-life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throughput {
    fast: Average,
    slow: Average,
    weight: f64,
}

impl Throughput {
    /// A download took this long from its first byte to its last. A duration of zero is ignored.
    pub fn on_download(&mut self, bytes: Bytes, took: Span) {
        let millis = took.as_millis_f64();
        if millis <= 0.0 {
            return;
        }
        let kbps = libm::round(bytes.bits() as f64 / millis);
        let weight = DOWNLOAD_TIME_WEIGHT * millis;
        self.fast.add(kbps, weight, FAST_HALF_LIFE);
        self.slow.add(kbps, weight, SLOW_HALF_LIFE);
        self.weight += weight;
    }

    /// Returns the average throughput in kb/s. None before the first download.
    #[must_use]
    pub fn average(&self) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let fast = self.fast.corrected(self.weight, FAST_HALF_LIFE);
        let slow = self.slow.corrected(self.weight, SLOW_HALF_LIFE);
        Some(libm::round(fast.min(slow))).filter(|kbps| kbps.is_finite())
    }

    /// Returns the throughput that the rules may use, in kb/s.
    #[must_use]
    pub fn safe(&self) -> Option<f64> {
        self.average().map(|kbps| kbps * BANDWIDTH_SAFETY_FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(downloads: &[(u64, i64)]) -> Option<f64> {
        let mut throughput = Throughput::default();
        for &(kbps, millis) in downloads {
            throughput.on_download(Bytes::new(kbps * millis.unsigned_abs() / 8), Span::from_millis(millis));
        }
        throughput.average()
    }

    #[test]
    fn equal_downloads_average_to_themselves_from_the_first_on() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(2_000, 800)]), Some(2_000.0));
        assert_eq!(of(&[(2_000, 800), (2_000, 40), (2_000, 4_000)]), Some(2_000.0));
    }

    #[test]
    fn the_lower_of_the_two_counts_so_that_falls_are_seen_sooner_than_rises() {
        // Weights of 2 s each. Fast: halves of 0.5^(2/3); slow: of 0.5^(2/8).
        let (fast, slow) = (libm::pow(0.5, 2.0 / 3.0), libm::pow(0.5, 0.25));
        let expected = |keep: f64, first: f64, second: f64| {
            ((1.0 - keep) * second + keep * (1.0 - keep) * first) / (1.0 - keep * keep)
        };
        let millis = (2.0 / DOWNLOAD_TIME_WEIGHT).round() as i64;
        let near = |found: Option<f64>, expected: f64| (found.unwrap_or(f64::NAN) - expected).abs() < 2.0;
        let fall = of(&[(4_000, millis), (1_000, millis)]);
        assert!(near(fall, expected(fast, 4_000.0, 1_000.0)), "{fall:?}");
        let rise = of(&[(1_000, millis), (4_000, millis)]);
        assert!(near(rise, expected(slow, 1_000.0, 4_000.0)), "{rise:?}");
        assert!(expected(fast, 4_000.0, 1_000.0) < expected(slow, 4_000.0, 1_000.0));
    }

    #[test]
    fn nine_tenths_may_be_counted_on() {
        let mut throughput = Throughput::default();
        throughput.on_download(Bytes::new(125_000), Span::from_secs(1));
        assert_eq!((throughput.average(), throughput.safe()), (Some(1_000.0), Some(900.0)));
        throughput.on_download(Bytes::new(125_000), Span::ZERO);
        assert_eq!(throughput.average(), Some(1_000.0));
    }
}
