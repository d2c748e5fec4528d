//! The draft's loss-based rate: growth below 2 % loss, a cut above 10 % (draft-ietf-rmcat-gcc-02 section 6).

use nearlight_units::{Bitrate, Span, Time};

/// Loss ratios below which the rate grows and above which it is cut (draft).
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.1;
/// Growth factor of a step, and the factor of the loss ratio in a cut (draft).
const GROWTH: f64 = 1.05;
const LOSS_FACTOR: f64 = 0.5;
/// Minimum time between steps (pion's; the draft steps with each report, which with feedback for each frame would let the
/// rate grow 34-fold in a second).
const MIN_STEP_INTERVAL: Span = Span::from_millis(200);

/// How the loss ratios of reports are combined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// All packets reported since the last step.
    OverStep,
    /// An exponential average of the reports' ratios with this time constant. The greater of average and newest ratio decides growth, the
    /// smaller one a cut.
    Exponential(Span),
}

/// The loss-based rate.
#[derive(Clone, Debug)]
pub struct LossRatio {
    averaging: Averaging,
    rate: Bitrate,
    arrived: u32,
    lost: u32,
    average: f64,
    averaged_at: Option<Time>,
    raised_at: Option<Time>,
    cut_at: Option<Time>,
}

impl LossRatio {
    #[must_use]
    pub fn new(averaging: Averaging, start: Bitrate) -> Self {
        Self {
            averaging,
            rate: start,
            arrived: 0,
            lost: 0,
            average: 0.0,
            averaged_at: None,
            raised_at: None,
            cut_at: None,
        }
    }

    /// Handles a report's numbers of arrived and lost packets.
    pub fn on_report(&mut self, now: Time, arrived: u32, lost: u32) {
        self.arrived = self.arrived.saturating_add(arrived);
        self.lost = self.lost.saturating_add(lost);
        let total = f64::from(self.arrived) + f64::from(self.lost);
        if total == 0.0 {
            return;
        }
        let ratio = f64::from(self.lost) / total;
        match self.averaging {
            Averaging::OverStep => {
                let began = *self.averaged_at.get_or_insert(now);
                if now.saturating_since(began) >= MIN_STEP_INTERVAL {
                    self.averaged_at = Some(now);
                    self.forget();
                    self.step(now, ratio, ratio);
                }
            }
            Averaging::Exponential(memory) => {
                let passed = self.averaged_at.map_or(Span::MAX, |at| now.saturating_since(at));
                let kept = (-passed.as_secs_f64() / memory.as_secs_f64()).exp();
                self.average = ratio + kept * (self.average - ratio);
                self.averaged_at = Some(now);
                self.forget();
                self.step(now, self.average.max(ratio), self.average.min(ratio));
            }
        }
    }

    /// Lowers the rate to the delay-based one, if it is higher.
    pub fn limit_to(&mut self, delay_based: Bitrate) {
        self.rate = self.rate.min(delay_based);
    }

    /// Raises the rate to the session's lowest, if it is lower: from below, it would take long to return.
    pub fn raise_to(&mut self, lowest: Bitrate) {
        self.rate = self.rate.max(lowest);
    }

    #[must_use]
    pub fn rate(&self) -> Bitrate {
        self.rate
    }

    fn forget(&mut self) {
        self.arrived = 0;
        self.lost = 0;
    }

    fn step(&mut self, now: Time, for_growth: f64, for_cut: f64) {
        let rested = |at: Option<Time>| at.is_none_or(|at| now.saturating_since(at) >= MIN_STEP_INTERVAL);
        if for_growth < LOW_LOSS && rested(self.raised_at) {
            self.raised_at = Some(now);
            self.rate = self.rate.mul_f64(GROWTH);
        } else if for_cut > HIGH_LOSS && rested(self.cut_at) {
            self.cut_at = Some(now);
            self.rate = self.rate.mul_f64(1.0 - LOSS_FACTOR * for_cut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies reports of 100 packets each, every 50 ms for a second.
    fn after_a_second(averaging: Averaging, lost: u32) -> Bitrate {
        let mut law = LossRatio::new(averaging, Bitrate::from_mbps(20));
        for report in 0..=20_u64 {
            law.on_report(Time::from_millis(50 * report), 100 - lost, lost);
        }
        law.rate()
    }

    #[test]
    fn up_below_2_percent_down_above_10_and_still_between() {
        let start = 20e6;
        for (lost, expected) in
            [(0, 1.05_f64.powi(5)), (1, 1.05_f64.powi(5)), (2, 1.0), (10, 1.0), (20, 0.9_f64.powi(5))]
        {
            let found = after_a_second(Averaging::OverStep, lost).as_bps() as f64;
            assert!((found / (start * expected) - 1.0).abs() < 1e-6, "{lost} %: {found}");
        }
        // With the first report at once, a sixth step fits in.
        let exponential = Averaging::Exponential(Span::from_millis(200));
        for (lost, expected) in [(0, 1.05_f64.powi(6)), (2, 1.0), (20, 0.9_f64.powi(6))] {
            let found = after_a_second(exponential, lost).as_bps() as f64;
            assert!((found / (start * expected) - 1.0).abs() < 1e-6, "{lost} %: {found}");
        }
    }

    #[test]
    fn one_lossy_report_among_good_ones_stops_growth_but_cuts_nothing() {
        let mut law = LossRatio::new(Averaging::Exponential(Span::from_millis(200)), Bitrate::from_mbps(20));
        law.on_report(Time::ZERO, 100, 0);
        let before = law.rate();
        law.on_report(Time::from_millis(195), 100, 0);
        // The average rises to 2.4 %, and has come down to 2.3 % with the next report.
        law.on_report(Time::from_millis(205), 50, 50);
        law.on_report(Time::from_millis(215), 100, 0);
        assert_eq!(law.rate(), before);
        law.on_report(Time::from_millis(300), 100, 0);
        assert!(law.rate() > before);
    }

    #[test]
    fn never_above_what_delay_allows_and_nothing_from_empty_reports() {
        let mut law = LossRatio::new(Averaging::OverStep, Bitrate::from_mbps(20));
        law.limit_to(Bitrate::from_mbps(7));
        law.on_report(Time::ZERO, 0, 0);
        law.on_report(Time::from_secs(5), 0, 0);
        assert_eq!(law.rate(), Bitrate::from_mbps(7));
    }
}
