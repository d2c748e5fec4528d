//! The draft's delay-based rate: three states, and growth that is slow near the rates at which delay has grown before
//! (draft-ietf-rmcat-gcc-02 section 5.5).

use nearlight_units::{Bitrate, Bytes, Span, Time};

use super::detector::Usage;

/// Growth factor per second far from convergence (draft `eta`), and the share of the arriving rate that remains after over-use (`beta`).
const GROWTH: f64 = 1.08;
const BACKOFF: f64 = 0.85;
/// Growth near convergence: half a packet per response time, and at least this much in a step.
const PACKET_SHARE: f64 = 0.5;
const MIN_STEP: Bitrate = Bitrate::from_bps(1_000);
/// The frame rate and packet size assumed for that growth, and the addition to the round trip (draft).
const ASSUMED_FRAME_RATE: f64 = 30.0;
const ASSUMED_PACKET: Bytes = Bytes::new(1_200);
const REACTION_TIME: Span = Span::from_millis(100);
/// Growth ends at this multiple of the arriving rate (draft).
const MAX_ARRIVING_RATIO: f64 = 1.5;
/// A rate within this many standard deviations of the average is near convergence (draft).
const NEAR_DEVIATIONS: f64 = 3.0;
/// The lowest internal estimate: below it, half of a small packet each second would round to standstill. Guess, as in libwebrtc.
const MIN_ESTIMATE: Bitrate = Bitrate::from_kbps(5);

/// The parameters in which variants differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteOptions {
    /// Weight of a new rate in the average of the rates at which delay grew.
    pub weight: f64,
    /// Whether the average is reset when more arrives than it explains.
    pub forgets: bool,
    /// Whether a rate that exceeds the multiple of the arriving rate continues to grow.
    pub leaks: bool,
}

impl RemoteOptions {
    /// The parameters of the draft.
    pub const DRAFT: Self = Self { weight: 0.05, forgets: true, leaks: false };

    /// The parameters of pion.
    pub const PION: Self = Self { weight: 0.95, forgets: false, leaks: true };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Decrease,
    Hold,
}

/// The input of one step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub usage: Usage,
    /// The arriving rate, once known.
    pub arriving: Option<Bitrate>,
    pub round_trip: Span,
}

/// The rate and its history.
#[derive(Clone, Debug)]
pub struct RemoteRate {
    options: RemoteOptions,
    estimate: Bitrate,
    maximum: Bitrate,
    state: State,
    stepped_at: Option<Time>,
    /// Average in bit/s of the arriving rate at over-use, and its variance.
    average: Option<(f64, f64)>,
    at_ceiling: bool,
}

impl RemoteRate {
    #[must_use]
    pub fn new(options: RemoteOptions, start: Bitrate, maximum: Bitrate) -> Self {
        Self {
            options,
            estimate: start.max(MIN_ESTIMATE),
            maximum: maximum.max(MIN_ESTIMATE),
            state: State::Increase,
            stepped_at: None,
            average: None,
            at_ceiling: false,
        }
    }

    pub fn set_maximum(&mut self, maximum: Bitrate) {
        self.maximum = maximum.max(MIN_ESTIMATE);
        self.estimate = self.estimate.min(self.maximum);
    }

    pub fn set_estimate(&mut self, estimate: Bitrate) {
        self.estimate = estimate.max(MIN_ESTIMATE).min(self.maximum);
    }

    pub fn on_step(&mut self, now: Time, step: &Step) {
        self.state = match (step.usage, self.state) {
            (Usage::Over, _) => State::Decrease,
            (Usage::Normal, State::Hold | State::Increase) => State::Increase,
            (Usage::Normal, State::Decrease) | (Usage::Under, _) => State::Hold,
        };
        let passed = now.saturating_since(self.stepped_at.unwrap_or(now));
        match self.state {
            State::Increase => self.increase(passed, step),
            State::Decrease => self.decrease(step.arriving),
            State::Hold => return,
        }
        self.stepped_at = Some(now);
        self.estimate = self.estimate.max(MIN_ESTIMATE).min(self.maximum);
    }

    #[must_use]
    pub fn estimate(&self) -> Bitrate {
        self.estimate
    }

    /// Whether growth was limited to a multiple of the arriving rate.
    #[must_use]
    pub fn is_at_ceiling(&self) -> bool {
        self.at_ceiling
    }

    /// The rate at which growth ends while packets arrive at `arriving`.
    #[must_use]
    pub fn ceiling(arriving: Bitrate) -> Bitrate {
        arriving.mul_f64(MAX_ARRIVING_RATIO)
    }

    fn increase(&mut self, passed: Span, step: &Step) {
        let near = self.is_near(step.arriving);
        let grown = if near {
            let response = step.round_trip.max(Span::ZERO) + REACTION_TIME;
            let share = PACKET_SHARE * (passed.as_secs_f64() / response.as_secs_f64()).min(1.0);
            self.estimate + Bitrate::from_bps(1).mul_f64(share * self.packet_bits()).max(MIN_STEP)
        } else {
            self.estimate.mul_f64(GROWTH.powf(passed.as_secs_f64().min(1.0)))
        };
        let ceiling = step.arriving.map_or(Bitrate::MAX, Self::ceiling);
        let leaks = self.options.leaks && !near && ceiling <= self.estimate;
        self.at_ceiling = grown > ceiling && !leaks;
        self.estimate = if self.at_ceiling { ceiling.max(self.estimate) } else { grown };
    }

    fn decrease(&mut self, arriving: Option<Bitrate>) {
        self.at_ceiling = false;
        let Some(arriving) = arriving else { return };
        self.estimate = arriving.mul_f64(BACKOFF);
        let sample = arriving.as_bps() as f64;
        let (average, variance) = self.average.unwrap_or((sample, 0.0));
        let (weight, error) = (self.options.weight, sample - average);
        self.average = Some((average + weight * error, (1.0 - weight) * variance + weight * error * error));
    }

    /// Whether the arriving rate is near those at which delay grew before.
    fn is_near(&mut self, arriving: Option<Bitrate>) -> bool {
        let Some(((average, variance), arriving)) = self.average.zip(arriving) else { return false };
        let distance = arriving.as_bps() as f64 - average;
        let spread = NEAR_DEVIATIONS * variance.sqrt();
        if self.options.forgets && distance > spread {
            self.average = None;
        }
        distance.abs() <= spread
    }

    /// Bits per packet when a frame is cut into equal packets.
    fn packet_bits(&self) -> f64 {
        let frame = self.estimate.as_bps() as f64 / ASSUMED_FRAME_RATE;
        frame / (frame / ASSUMED_PACKET.bits() as f64).ceil().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAXIMUM: Bitrate = Bitrate::from_mbps(100);

    fn step(usage: Usage, mbps: u64) -> Step {
        Step { usage, arriving: Some(Bitrate::from_mbps(mbps)), round_trip: Span::from_millis(20) }
    }

    /// Causes over-use at different rates, so that the average has a spread.
    fn converged(options: RemoteOptions) -> RemoteRate {
        let mut rate = RemoteRate::new(options, Bitrate::from_mbps(35), MAXIMUM);
        for mbps in [35, 37, 33, 36, 34] {
            rate.on_step(Time::ZERO, &step(Usage::Over, mbps));
        }
        rate
    }

    #[test]
    fn far_from_convergence_it_grows_by_8_percent_a_second() {
        let mut rate = RemoteRate::new(RemoteOptions::DRAFT, Bitrate::from_mbps(10), MAXIMUM);
        for number in 0..=100 {
            rate.on_step(Time::from_millis(20 * number), &step(Usage::Normal, 50));
        }
        let expected = 10e6 * 1.08_f64.powi(2);
        assert!((rate.estimate().as_bps() as f64 / expected - 1.0).abs() < 1e-5, "{}", rate.estimate());
    }

    #[test]
    fn near_convergence_it_grows_by_half_a_packet_a_response_time() {
        for options in [RemoteOptions::DRAFT, RemoteOptions::PION] {
            let mut rate = converged(options);
            let cut = rate.estimate().as_bps();
            assert_eq!(cut, 28_900_000, "85 % of the last arriving rate");
            // Steps of 50 ms: above the least step. The first one only holds.
            for number in 1..=201 {
                rate.on_step(Time::from_millis(50 * number), &step(Usage::Normal, 34));
            }
            let slope = (rate.estimate().as_bps() - cut) as f64 / 10.05;
            let frame = 28.9e6 / 30.0;
            let expected = 0.5 * frame / f64::ceil(frame / 9_600.0) / 0.12;
            assert!((slope / expected - 1.0).abs() < 0.01, "{slope} bit/s each second, not {expected}");
        }
    }

    #[test]
    fn steps_that_come_fast_grow_by_the_least_step() {
        let mut rate = converged(RemoteOptions::DRAFT);
        let cut = rate.estimate().as_bps();
        for number in 1..=201 {
            rate.on_step(Time::from_millis(5 * number), &step(Usage::Normal, 34));
        }
        assert_eq!(rate.estimate().as_bps() - cut, 200 * 1_000);
    }

    #[test]
    fn over_use_decreases_from_any_state_and_growth_waits_for_a_hold() {
        let mut rate = RemoteRate::new(RemoteOptions::DRAFT, Bitrate::from_mbps(10), MAXIMUM);
        rate.on_step(Time::from_millis(0), &step(Usage::Over, 10));
        assert_eq!((rate.estimate(), rate.state), (Bitrate::from_kbps(8_500), State::Decrease));
        rate.on_step(Time::from_millis(100), &step(Usage::Normal, 10));
        assert_eq!((rate.estimate(), rate.state), (Bitrate::from_kbps(8_500), State::Hold));
        rate.on_step(Time::from_millis(200), &step(Usage::Under, 10));
        assert_eq!(rate.state, State::Hold);
        rate.on_step(Time::from_millis(300), &step(Usage::Normal, 12));
        assert!(rate.estimate() > Bitrate::from_kbps(8_500) && rate.state == State::Increase);
    }

    #[test]
    fn growth_ends_at_one_and_a_half_times_what_arrives_but_leaks_in_pion() {
        for (options, leaks) in [(RemoteOptions::DRAFT, false), (RemoteOptions::PION, true)] {
            let mut rate = RemoteRate::new(options, Bitrate::from_mbps(20), MAXIMUM);
            for second in 0..30 {
                rate.on_step(Time::from_secs(second), &step(Usage::Normal, 14));
            }
            assert_eq!(rate.estimate() > Bitrate::from_mbps(21), leaks, "{}", rate.estimate());
            rate.set_estimate(Bitrate::from_mbps(40));
            for second in 30..40 {
                rate.on_step(Time::from_secs(second), &step(Usage::Normal, 14));
            }
            assert_eq!(rate.estimate() > Bitrate::from_mbps(40), leaks, "{}", rate.estimate());
        }
    }

    #[test]
    fn more_arriving_than_the_average_explains_resets_it_in_the_draft_only() {
        for (options, known) in [(RemoteOptions::DRAFT, false), (RemoteOptions::PION, true)] {
            let mut rate = converged(options);
            rate.on_step(Time::from_millis(50), &step(Usage::Normal, 60));
            rate.on_step(Time::from_millis(100), &step(Usage::Normal, 60));
            assert_eq!(rate.average.is_some(), known);
        }
    }
}
