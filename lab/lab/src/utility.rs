//! What a session is worth to its user, in one number: see "What serves the user" in docs/lab.md.
//!
//! Not included: how much quality changes from frame to frame, and how late beyond its deadline a frame is.

use nearlight_rate::Bounds;
use nearlight_units::Bitrate;

/// The quality of coded frames, from 0 to 1 at the highest rate of the plan: logarithmic in the rate, as in BOLA (Spiteri et al.,
/// INFOCOM 2016) and in Pensieve's `QoE_log` (Mao et al., SIGCOMM 2017).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameQuality {
    lowest: f64,
    highest: f64,
    frame_rate: f64,
    /// Quality of the newest frame that was not a key frame.
    plain: Option<f64>,
}

impl FrameQuality {
    pub(crate) fn new(bounds: Bounds, frame_rate: u16) -> Self {
        let lowest = bounds.minimum.max(Bitrate::from_kbps(1));
        let highest = bounds.maximum.max(lowest);
        let bits = |rate: Bitrate| rate.as_bps() as f64;
        Self { lowest: bits(lowest), highest: bits(highest), frame_rate: f64::from(frame_rate), plain: None }
    }

    fn of_rate(&self, rate: f64) -> f64 {
        (libm::log1p(rate / self.lowest) / libm::log1p(self.highest / self.lowest)).min(1.0)
    }

    /// Returns the quality of the next frame, which has this many bytes. A key frame needs several times the bits for the same picture, so it counts
    /// like the frame before it.
    pub(crate) fn on_frame(&mut self, bytes: usize, key: bool) -> f64 {
        let own = self.of_rate(bytes as f64 * 8.0 * self.frame_rate);
        if key {
            return self.plain.unwrap_or(own);
        }
        self.plain = Some(own);
        own
    }
}

/// Returns the utility, from -1 to 1. A second of stall costs as much as a second at the highest quality is worth, as in MPC (Yin et al., SIGCOMM
/// 2015) and Pensieve.
pub(crate) fn utility(quality: f64, captured: u64, stall_ratio: f64) -> f64 {
    quality / captured.max(1) as f64 - stall_ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality() -> FrameQuality {
        let (minimum, maximum) = (Bitrate::from_mbps(1), Bitrate::from_mbps(63));
        FrameQuality::new(Bounds { minimum, start: minimum, maximum }, 50)
    }

    #[test]
    fn quality_is_logarithmic_in_the_rate_and_one_at_the_highest() {
        // A frame of 2,500 bytes, 50 times a second, is 1 Mb/s.
        for (megabits, expected) in [(0, 0.0), (1, 1.0 / 6.0), (7, 0.5), (63, 1.0), (500, 1.0)] {
            let found = quality().on_frame(2_500 * megabits, false);
            assert!((found - expected).abs() < 1e-9, "{megabits} Mb/s: {found}");
        }
    }

    #[test]
    fn a_key_frame_is_worth_no_more_than_its_neighbours() {
        let mut quality = quality();
        let plain = quality.on_frame(17_500, false);
        assert!((quality.on_frame(70_000, true) - plain).abs() < 1e-12);
        assert!((quality.on_frame(17_500, false) - plain).abs() < 1e-12);
    }

    #[test]
    fn utility_goes_from_minus_one_to_one() {
        assert!((utility(100.0, 100, 0.0) - 1.0).abs() < 1e-12);
        assert!((utility(0.0, 100, 1.0) + 1.0).abs() < 1e-12);
        assert!((utility(0.0, 0, 0.0)).abs() < 1e-12);
    }
}
