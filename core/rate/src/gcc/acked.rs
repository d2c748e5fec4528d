//! The acknowledged rate: a Bayesian blend of the arrivals in short windows.

use nearlight_units::{Bitrate, Bytes, RemoteTime, Span};

/// Lengths of the windows over which arrivals are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Length of the first window, which is longer because there is no history.
    pub first: Span,
    pub later: Span,
}

impl Windows {
    /// The lengths of libwebrtc (`kInitialRateWindowMs`, `kRateWindowMs`).
    pub const LIBWEBRTC: Self = Self { first: Span::from_millis(500), later: Span::from_millis(150) };
}

/// Factor from a sample's distance to its uncertainty (libwebrtc `uncertainty_scale_`).
const UNCERTAINTY_SCALE: f64 = 10.0;
/// The factor for a window of few bytes, which is less reliable.
const SMALL_WINDOW_UNCERTAINTY_SCALE: f64 = 25.0;
/// A window of fewer bytes than this is small (str0m's value; libwebrtc's field trial is off by default).
const SMALL_WINDOW: Bytes = Bytes::new(2_000);
/// The estimate's initial variance, and the variance that each window adds (libwebrtc `bitrate_estimate_var_`, `+ 5`).
const INITIAL_VARIANCE: f64 = 50.0;
const PROCESS_VARIANCE: f64 = 5.0;
/// The variance after the sender resumes sending at its full rate (libwebrtc `ExpectFastRateChange`).
const EXPECTED_CHANGE_VARIANCE: f64 = 200.0;
/// The lowest estimate in kb/s (str0m's floor).
const MIN_ESTIMATE_KBPS: f64 = 40.0;
/// An arrival this much before its predecessor is a change of the receiver's clock rather than reordering.
/// Guess: no path reorders by more, and no clock adjustment that matters is smaller.
const MIN_CLOCK_JUMP: Span = Span::from_secs(1);

/// Estimates the rate at which packets arrive: libwebrtc `BitrateEstimator`.
#[derive(Clone, Debug)]
pub struct AckedRate {
    windows: Windows,
    /// The estimate in kb/s, the unit of the constants.
    estimate: Option<f64>,
    variance: f64,
    /// The last window's rate.
    latest: Option<f64>,
    window: Window,
}

#[derive(Clone, Debug, Default)]
struct Window {
    last: Option<RemoteTime>,
    span: Span,
    sum: Bytes,
}

impl Default for AckedRate {
    fn default() -> Self {
        Self::new(Windows::LIBWEBRTC)
    }
}

impl AckedRate {
    #[must_use]
    pub fn new(windows: Windows) -> Self {
        Self { windows, estimate: None, variance: 0.0, latest: None, window: Window::default() }
    }

    /// Records a packet's arrival, by the receiver's clock.
    pub fn on_packet(&mut self, arrived_at: RemoteTime, size: Bytes) {
        let length = if self.estimate.is_some() { self.windows.later } else { self.windows.first };
        if let Some((sum, sample)) = self.window.on_packet(arrived_at, size, length) {
            self.latest = Some(sample.max(MIN_ESTIMATE_KBPS));
            self.blend(sum, sample);
        }
    }

    /// Gives the next windows more weight, because the sender resumes sending at its full rate.
    pub fn expect_change(&mut self) {
        self.variance += EXPECTED_CHANGE_VARIANCE;
    }

    /// The rate. None until the first window is complete.
    #[must_use]
    pub fn rate(&self) -> Option<Bitrate> {
        self.estimate.map(|estimate| Bitrate::from_kbps(1).mul_f64(estimate))
    }

    /// The rate, but not above that of the last window, which shows a sudden drop 0.8 s earlier.
    #[must_use]
    pub fn cautious_rate(&self) -> Option<Bitrate> {
        let latest = self.latest.map(|latest| Bitrate::from_kbps(1).mul_f64(latest));
        self.rate().map(|rate| latest.map_or(rate, |latest| rate.min(latest)))
    }

    fn blend(&mut self, sum: Bytes, sample: f64) {
        let Some(estimate) = self.estimate else {
            self.estimate = Some(sample.max(MIN_ESTIMATE_KBPS));
            self.variance = INITIAL_VARIANCE;
            return;
        };
        let scale = if sum < SMALL_WINDOW { SMALL_WINDOW_UNCERTAINTY_SCALE } else { UNCERTAINTY_SCALE };
        let uncertainty = scale * (estimate - sample).abs() / estimate;
        let sample_variance = uncertainty * uncertainty;
        let variance = self.variance + PROCESS_VARIANCE;
        let blended = (sample_variance * estimate + variance * sample) / (sample_variance + variance);
        self.estimate = Some(blended.max(MIN_ESTIMATE_KBPS));
        self.variance = sample_variance * variance / (sample_variance + variance);
    }
}

impl Window {
    /// Returns the bytes and the rate in kb/s of a window that this packet closes.
    fn on_packet(&mut self, now: RemoteTime, size: Bytes, length: Span) -> Option<(Bytes, f64)> {
        let last = *self.last.get_or_insert(now);
        if last - now > MIN_CLOCK_JUMP {
            *self = Self { last: Some(now), ..Self::default() };
        }
        let passed = now.saturating_since(last);
        self.last = self.last.max(Some(now));
        self.span += passed;
        if passed > length {
            // Silence does not mean a low rate: the sender may have had nothing to send.
            self.sum = Bytes::ZERO;
            self.span = Span::from_nanos(self.span.as_nanos() % length.as_nanos());
        }
        let closed = (self.span >= length).then(|| {
            self.span -= length;
            let sum = std::mem::take(&mut self.sum);
            (sum, sum.over(length).as_bps() as f64 / 1e3)
        });
        self.sum += size;
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(acked: &mut AckedRate, from: RemoteTime, length: Span, rate: Bitrate) {
        let size = Bytes::new(1_250);
        let gap = rate.time_to_send(size);
        let mut at = from;
        while at < from + length {
            acked.on_packet(at, size);
            at += gap;
        }
    }

    #[test]
    fn a_steady_rate_is_found_exactly_after_the_first_window() {
        let mut acked = AckedRate::default();
        feed(&mut acked, RemoteTime::ZERO, Span::from_millis(499), Bitrate::from_mbps(10));
        assert_eq!(acked.rate(), None);
        feed(&mut acked, RemoteTime::from_millis(499), Span::from_millis(10), Bitrate::from_mbps(10));
        let found = acked.rate().expect("the window is complete").as_bps();
        assert!(found.abs_diff(10_000_000) < 50_000, "{found}");
    }

    #[test]
    fn one_sample_blends_as_the_formula_says() {
        // At 1,000 kb/s with variance 50, a sample of 2,000 kb/s: uncertainty 10 * 1000 / 1000, so variance 100 against 55.
        let mut acked = AckedRate { estimate: Some(1_000.0), variance: 50.0, ..AckedRate::default() };
        acked.blend(Bytes::new(37_500), 2_000.0);
        let expected = (100.0 * 1_000.0 + 55.0 * 2_000.0) / 155.0;
        assert!((acked.estimate.expect("kept") - expected).abs() < 1e-9);
        assert!((acked.variance - 100.0 * 55.0 / 155.0).abs() < 1e-9);
    }

    #[test]
    fn an_expected_change_is_followed_faster() {
        let mut acked = AckedRate { estimate: Some(4_000.0), variance: 1.0, ..AckedRate::default() };
        let mut expecting = acked.clone();
        expecting.expect_change();
        for rates in [&mut acked, &mut expecting] {
            feed(rates, RemoteTime::from_secs(1), Span::from_millis(320), Bitrate::from_mbps(16));
        }
        assert!(expecting.rate() > acked.rate());
    }

    #[test]
    fn a_sudden_drop_is_in_the_cautious_rate_after_two_windows() {
        let mut acked = AckedRate::default();
        feed(&mut acked, RemoteTime::ZERO, Span::from_secs(5), Bitrate::from_mbps(20));
        feed(&mut acked, RemoteTime::from_secs(5), Span::from_millis(301), Bitrate::from_mbps(5));
        assert!(acked.cautious_rate() < Some(Bitrate::from_kbps(5_200)), "{:?}", acked.cautious_rate());
        assert!(acked.rate() > Some(Bitrate::from_mbps(12)), "{:?}", acked.rate());
    }

    #[test]
    fn silence_and_jumps_of_the_clock_are_no_rates() {
        let mut acked = AckedRate::default();
        feed(&mut acked, RemoteTime::from_secs(100), Span::from_secs(2), Bitrate::from_mbps(10));
        feed(&mut acked, RemoteTime::from_secs(160), Span::from_secs(2), Bitrate::from_mbps(10));
        feed(&mut acked, RemoteTime::from_secs(3), Span::from_secs(2), Bitrate::from_mbps(10));
        let found = acked.rate().expect("known").as_bps();
        assert!(found.abs_diff(10_000_000) < 300_000, "{found}");
    }
}
