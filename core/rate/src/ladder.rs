//! Nebula's ladder: nine picture sizes with their rates (Alhilal et al., WWW 2022, section 4.3).
//!
//! # Departures
//! * The ladder is scaled so that its top is the user's maximum. With a maximum of 6.5 Mb/s it is the paper's.
//! * Within a class the paper prints a larger picture with a smaller rate (480 lines at 3, 540 at 2 Mb/s, for example). Here a larger
//!   rate has the larger picture.

use nearlight_units::Bitrate;

use crate::Step;

/// Rates in kb/s and lines of the picture, the lowest first.
const RUNGS: [(u64, u16); 9] =
    [(200, 144), (600, 270), (1_000, 288), (1_200, 360), (1_800, 376), (2_000, 480), (3_000, 540), (4_500, 720), TOP];
const TOP: (u64, u16) = (6_500, 1_080);

/// The ladder below a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    maximum: Bitrate,
}

impl Ladder {
    /// The paper's lowest and highest rates.
    pub const RATES: (Bitrate, Bitrate) = (Bitrate::from_kbps(RUNGS[0].0), Bitrate::from_kbps(TOP.0));

    #[must_use]
    pub fn up_to(maximum: Bitrate) -> Self {
        Self { maximum }
    }

    /// The highest rung.
    #[must_use]
    pub fn top(&self) -> usize {
        RUNGS.len() - 1
    }

    /// A rung's rate. Beyond the top it is the top's.
    #[must_use]
    pub fn rate(&self, rung: usize) -> Bitrate {
        let (kbps, _) = RUNGS.get(rung).copied().unwrap_or(TOP);
        self.maximum.mul_f64(kbps as f64 / TOP.0 as f64)
    }

    /// The highest rung whose rate is at most `rate`, or the lowest rung.
    #[must_use]
    pub fn below(&self, rate: Bitrate) -> usize {
        (0..RUNGS.len()).rev().find(|rung| self.rate(*rung) <= rate).unwrap_or(0)
    }

    /// The picture at a rung, with this share of the frame rate.
    #[must_use]
    pub fn step(&self, rung: usize, frame_rate: f64) -> Step {
        let (_, lines) = RUNGS.get(rung).copied().unwrap_or(TOP);
        Step { rung: rung as u8, scale: f64::from(lines) / f64::from(TOP.1), frame_rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_papers_at_6500_kbps_and_grows_with_the_maximum() {
        let paper = Ladder::up_to(Ladder::RATES.1);
        let rates: Vec<u64> = (0..=paper.top()).map(|rung| paper.rate(rung).as_bps() / 1_000).collect();
        assert_eq!(rates, [200, 600, 1_000, 1_200, 1_800, 2_000, 3_000, 4_500, 6_500]);
        let scaled = Ladder::up_to(Bitrate::from_mbps(65));
        assert!((0..=8).all(|rung| scaled.rate(rung).as_bps().abs_diff(10 * paper.rate(rung).as_bps()) <= 10));
        assert!(scaled.step(8, 1.0).scale.to_bits() == 1.0_f64.to_bits() && scaled.step(7, 1.0).scale < 0.67);
    }

    #[test]
    fn the_rung_below_a_rate_is_the_highest_that_is_not_above() {
        let ladder = Ladder::up_to(Ladder::RATES.1);
        for (kbps, rung) in [(0, 0), (199, 0), (200, 0), (999, 1), (1_000, 2), (6_499, 7), (6_500, 8), (90_000, 8)] {
            assert_eq!(ladder.below(Bitrate::from_kbps(kbps)), rung, "{kbps}");
        }
    }
}
