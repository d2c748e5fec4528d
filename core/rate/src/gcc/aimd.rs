//! The delay-based rate: it grows while the queue is stable, and falls below the arriving rate when the queue grows.

use nearlight_units::{Bitrate, Bytes, Span, Time};

use super::detector::Usage;

/// The share of the arriving rate that remains after over-use (libwebrtc `kDefaultBackoffFactor`).
const BACKOFF: f64 = 0.85;
/// Growth factor per second while the capacity is unknown (libwebrtc `alpha`).
const GROWTH: f64 = 1.08;
/// The minimum of that growth per step.
const MIN_GROWTH: Bitrate = Bitrate::from_kbps(1);
/// The minimum growth near the capacity, in bit/s per second (libwebrtc `kMinIncreaseRateBpsPerSecond`).
const MIN_SLOPE: f64 = 4_000.0;
/// The frame rate and packet size that libwebrtc assumes for growth near the capacity.
const ASSUMED_FRAME_RATE: f64 = 30.0;
const ASSUMED_PACKET: Bytes = Bytes::new(1_200);
/// Added to the round trip for the time until a change shows in feedback (libwebrtc).
const REACTION_TIME: Span = Span::from_millis(100);
/// Growth ends at this multiple of the arriving rate, plus [`ARRIVING_MARGIN`] for low rates (libwebrtc).
const MAX_ARRIVING_RATIO: f64 = 1.5;
const ARRIVING_MARGIN: Bitrate = Bitrate::from_kbps(10);
/// The round trip before one has been measured (libwebrtc `kDefaultRtt`).
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(200);
/// Bounds of the time between two decreases, which is otherwise a round trip (libwebrtc `kMin/MaxFeedbackInterval` of
/// `TimeToReduceFurther`).
const DECREASE_INTERVAL_BOUNDS: (Span, Span) = (Span::from_millis(10), Span::from_millis(200));
/// The lowest internal estimate (libwebrtc `kCongestionControllerMinBitrate`).
const MIN_ESTIMATE: Bitrate = Bitrate::from_kbps(5);

/// The reason for the estimate's last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeReason {
    /// The delay signal: growth while it is calm, a cut when it is not.
    Delay,
    /// Growth was limited to a multiple of the arriving rate.
    Delivered,
    /// A rate was set from outside, by a probe's result or a time-out.
    External,
}

/// The input from one feedback message.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    pub usage: Usage,
    /// The acknowledged rate, once known.
    pub arriving: Option<Bitrate>,
    /// The application sends less than it may.
    pub app_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hold,
    Increase,
}

/// Additive and multiplicative increase, multiplicative decrease: libwebrtc `AimdRateControl`.
#[derive(Clone, Debug)]
pub struct Aimd {
    estimate: Bitrate,
    maximum: Bitrate,
    phase: Phase,
    changed_at: Option<Time>,
    round_trip: Span,
    capacity: LinkCapacity,
    change_reason: ChangeReason,
}

impl Aimd {
    #[must_use]
    pub fn new(start: Bitrate, maximum: Bitrate) -> Self {
        Self {
            estimate: start.max(MIN_ESTIMATE),
            maximum: maximum.max(MIN_ESTIMATE),
            phase: Phase::Hold,
            changed_at: None,
            round_trip: UNKNOWN_ROUND_TRIP,
            capacity: LinkCapacity::default(),
            change_reason: ChangeReason::Delay,
        }
    }

    pub fn set_maximum(&mut self, maximum: Bitrate) {
        self.maximum = maximum.max(MIN_ESTIMATE);
        self.estimate = self.estimate.min(self.maximum);
    }

    pub fn set_round_trip(&mut self, round_trip: Span) {
        self.round_trip = round_trip;
    }

    /// Sets the estimate to a rate that was found by other means.
    pub fn set_estimate(&mut self, now: Time, estimate: Bitrate) {
        self.estimate = estimate.max(MIN_ESTIMATE).min(self.maximum);
        self.changed_at = Some(now);
        self.change_reason = ChangeReason::External;
    }

    /// Handles the capacity that a probe measured. It is blended into a known capacity, but never initialises it, because growth
    /// near a known capacity is slow.
    pub fn on_probe(&mut self, measured: Bitrate) {
        self.capacity.on_probe(measured);
    }

    /// Performs the step that feedback calls for.
    pub fn on_observation(&mut self, now: Time, seen: &Observation) {
        match (seen.usage, self.phase) {
            (Usage::Over, _) => self.decrease(now, seen.arriving),
            (Usage::Under, _) => self.phase = Phase::Hold,
            (Usage::Normal, Phase::Hold) => {
                self.phase = Phase::Increase;
                self.changed_at = Some(now);
            }
            (Usage::Normal, Phase::Increase) => self.increase(now, seen),
        }
    }

    #[must_use]
    pub fn estimate(&self) -> Bitrate {
        self.estimate
    }

    #[must_use]
    pub fn change_reason(&self) -> ChangeReason {
        self.change_reason
    }

    /// The rate at which growth ends while packets arrive at `arriving`.
    #[must_use]
    pub fn ceiling(arriving: Bitrate) -> Bitrate {
        arriving.mul_f64(MAX_ARRIVING_RATIO) + ARRIVING_MARGIN
    }

    /// Growth near a known capacity, in bits per second, per second.
    fn slope(&self) -> f64 {
        let frame = self.estimate.as_bps() as f64 / ASSUMED_FRAME_RATE;
        let packets = (frame / ASSUMED_PACKET.bits() as f64).ceil().max(1.0);
        let response = (self.round_trip + REACTION_TIME) * 2;
        (frame / packets / response.as_secs_f64()).max(MIN_SLOPE)
    }

    fn increase(&mut self, now: Time, seen: &Observation) {
        if let Some(arriving) = seen.arriving
            && self.capacity.lies_below(arriving)
        {
            self.capacity = LinkCapacity::default();
        }
        let passed = now.saturating_since(self.changed_at.unwrap_or(now));
        self.changed_at = Some(now);
        let grown = if self.capacity.is_known() {
            self.estimate + Bitrate::from_bps(1).mul_f64(self.slope() * passed.as_secs_f64())
        } else {
            let factor = GROWTH.powf(passed.as_secs_f64().min(1.0));
            self.estimate.mul_f64(factor).max(self.estimate + MIN_GROWTH)
        };
        // While the application sends little, nothing shows that more would arrive. The same holds before the acknowledged rate is known.
        let arriving = seen.arriving.filter(|_| !seen.app_limited);
        let ceiling = arriving.map_or(self.estimate, Self::ceiling).min(self.maximum);
        if ceiling <= self.estimate {
            self.change_reason =
                if self.estimate == self.maximum { self.change_reason } else { ChangeReason::Delivered };
            return;
        }
        self.change_reason = if grown > ceiling { ChangeReason::Delivered } else { ChangeReason::Delay };
        self.estimate = grown.min(ceiling);
    }

    fn decrease(&mut self, now: Time, arriving: Option<Bitrate>) {
        let gap = self.round_trip.clamp(DECREASE_INTERVAL_BOUNDS.0, DECREASE_INTERVAL_BOUNDS.1);
        let waited = self.changed_at.is_none_or(|changed| now.saturating_since(changed) >= gap);
        let far_below = arriving.is_some_and(|arriving| arriving < self.estimate.mul_f64(0.5));
        if self.phase == Phase::Hold && !waited && !far_below {
            return;
        }
        self.phase = Phase::Hold;
        self.changed_at = Some(now);
        self.change_reason = ChangeReason::Delay;
        let Some(arriving) = arriving else {
            // Over-use before the first rate is known: libwebrtc halves.
            self.estimate = self.estimate.mul_f64(0.5).max(MIN_ESTIMATE);
            return;
        };
        let mut decreased = arriving.mul_f64(BACKOFF);
        if decreased > self.estimate
            && let Some(capacity) = self.capacity.estimate()
        {
            decreased = capacity.mul_f64(BACKOFF);
        }
        self.estimate = self.estimate.min(decreased).max(MIN_ESTIMATE);
        if self.capacity.lies_above(arriving) {
            self.capacity = LinkCapacity::default();
        }
        self.capacity.on_over_use(arriving);
    }
}

/// Weights of the arriving rate at a new over-use, and of a probe (libwebrtc `OnOveruseDetected`, `OnProbeRate`).
const OVER_USE_WEIGHT: f64 = 0.05;
const PROBE_WEIGHT: f64 = 0.5;
/// Bounds of the normalised variance, in kb/s (libwebrtc `deviation_kbps_`).
const DEVIATION_BOUNDS: (f64, f64) = (0.4, 2.5);

/// Estimates the capacity from the rates at which the path was full, with their spread: libwebrtc `LinkCapacityEstimator`.
#[derive(Clone, Debug)]
pub struct LinkCapacity {
    /// The estimate in kb/s, the unit of the constants.
    estimate: Option<f64>,
    deviation: f64,
}

impl Default for LinkCapacity {
    fn default() -> Self {
        Self { estimate: None, deviation: DEVIATION_BOUNDS.0 }
    }
}

impl LinkCapacity {
    pub fn on_over_use(&mut self, arriving: Bitrate) {
        self.update(arriving, OVER_USE_WEIGHT);
    }

    pub fn on_probe(&mut self, measured: Bitrate) {
        if self.lies_below(measured) {
            *self = Self::default();
        } else if self.is_known() {
            self.update(measured, PROBE_WEIGHT);
        }
    }

    #[must_use]
    pub fn is_known(&self) -> bool {
        self.estimate.is_some()
    }

    #[must_use]
    pub fn estimate(&self) -> Option<Bitrate> {
        self.estimate.map(|estimate| Bitrate::from_kbps(1).mul_f64(estimate))
    }

    /// The estimate minus and plus three standard deviations.
    #[must_use]
    pub fn bounds(&self) -> Option<(Bitrate, Bitrate)> {
        let estimate = self.estimate?;
        let (kilobit, spread) = (Bitrate::from_kbps(1), self.spread(estimate));
        Some((kilobit.mul_f64(estimate - spread), kilobit.mul_f64(estimate + spread)))
    }

    /// Whether `rate` is more than three standard deviations above the estimate.
    #[must_use]
    pub fn lies_below(&self, rate: Bitrate) -> bool {
        self.estimate.is_some_and(|estimate| kbps(rate) > estimate + self.spread(estimate))
    }

    /// Whether `rate` is more than three standard deviations below the estimate.
    #[must_use]
    pub fn lies_above(&self, rate: Bitrate) -> bool {
        self.estimate.is_some_and(|estimate| kbps(rate) < estimate - self.spread(estimate))
    }

    fn spread(&self, estimate: f64) -> f64 {
        3.0 * (self.deviation * estimate).sqrt()
    }

    fn update(&mut self, sample: Bitrate, weight: f64) {
        let sample = kbps(sample);
        let estimate = self.estimate.map_or(sample, |estimate| (1.0 - weight) * estimate + weight * sample);
        let error = estimate - sample;
        let deviation = (1.0 - weight) * self.deviation + weight * error * error / estimate.max(1.0);
        self.deviation = deviation.clamp(DEVIATION_BOUNDS.0, DEVIATION_BOUNDS.1);
        self.estimate = Some(estimate);
    }
}

fn kbps(rate: Bitrate) -> f64 {
    rate.as_bps() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAXIMUM: Bitrate = Bitrate::from_mbps(100);

    fn seen(usage: Usage, mbps: u64) -> Observation {
        Observation { usage, arriving: Some(Bitrate::from_mbps(mbps)), app_limited: false }
    }

    /// Applies feedback every 20 ms.
    fn run(aimd: &mut Aimd, from: u64, millis: u64, observation: &Observation) {
        for step in 0..=millis / 20 {
            aimd.on_observation(Time::from_millis(from + 20 * step), observation);
        }
    }

    #[test]
    fn grows_by_8_percent_a_second_while_the_capacity_is_unknown() {
        let mut aimd = Aimd::new(Bitrate::from_mbps(10), MAXIMUM);
        run(&mut aimd, 0, 2_000, &seen(Usage::Normal, 50));
        let expected = 10e6 * 1.08_f64.powi(2);
        assert!((aimd.estimate().as_bps() as f64 / expected - 1.0).abs() < 1e-3, "{}", aimd.estimate());
        assert_eq!(aimd.change_reason(), ChangeReason::Delay);
    }

    #[test]
    fn cuts_to_85_percent_of_what_arrives_and_then_grows_by_half_a_packet_a_response_time() {
        let mut aimd = Aimd::new(Bitrate::from_mbps(40), MAXIMUM);
        aimd.set_round_trip(Span::from_millis(20));
        aimd.on_observation(Time::ZERO, &seen(Usage::Over, 36));
        let cut = aimd.estimate().as_bps();
        assert_eq!(cut, 30_600_000);
        run(&mut aimd, 0, 10_000, &seen(Usage::Normal, 36));
        let frame = 30.6e6 / 30.0;
        let packet = frame / f64::ceil(frame / 9_600.0);
        let slope = (aimd.estimate().as_bps() - cut) as f64 / 10.0;
        assert!((slope / (packet / 0.24) - 1.0).abs() < 0.01, "{slope} bit/s each second, not {}", packet / 0.24);
    }

    #[test]
    fn decreases_at_most_once_a_round_trip_unless_half_is_lost() {
        let mut aimd = Aimd::new(Bitrate::from_mbps(40), MAXIMUM);
        aimd.set_round_trip(Span::from_millis(100));
        aimd.on_observation(Time::from_millis(0), &seen(Usage::Over, 36));
        aimd.on_observation(Time::from_millis(50), &seen(Usage::Over, 20));
        assert_eq!(aimd.estimate(), Bitrate::from_kbps(30_600));
        aimd.on_observation(Time::from_millis(60), &seen(Usage::Over, 10));
        assert_eq!(aimd.estimate(), Bitrate::from_kbps(8_500));
        aimd.on_observation(Time::from_millis(400), &seen(Usage::Over, 80));
        assert!(aimd.estimate() <= Bitrate::from_kbps(8_500), "over-use never raises");
    }

    #[test]
    fn growth_ends_at_a_multiple_of_what_arrives_and_at_once_when_the_application_limits() {
        let mut aimd = Aimd::new(Bitrate::from_mbps(8), MAXIMUM);
        run(&mut aimd, 0, 60_000, &seen(Usage::Normal, 10));
        assert_eq!((aimd.estimate(), aimd.change_reason()), (Bitrate::from_kbps(15_010), ChangeReason::Delivered));
        let mut aimd = Aimd::new(Bitrate::from_mbps(8), MAXIMUM);
        run(&mut aimd, 0, 60_000, &Observation { app_limited: true, ..seen(Usage::Normal, 20) });
        assert_eq!(aimd.estimate(), Bitrate::from_mbps(8));
    }

    #[test]
    fn capacity_is_an_average_that_a_far_rate_resets() {
        let mut capacity = LinkCapacity::default();
        capacity.on_probe(Bitrate::from_mbps(20));
        assert!(!capacity.is_known(), "a probe is not the first word");
        capacity.on_over_use(Bitrate::from_mbps(20));
        capacity.on_over_use(Bitrate::from_mbps(19));
        assert_eq!(capacity.estimate(), Some(Bitrate::from_kbps(19_950)));
        // Deviation at its highest, 2.5: three standard deviations at 19,950 kb/s are 670 kb/s.
        assert!(!capacity.lies_below(Bitrate::from_kbps(20_600)) && capacity.lies_below(Bitrate::from_kbps(20_650)));
        assert!(!capacity.lies_above(Bitrate::from_kbps(19_300)) && capacity.lies_above(Bitrate::from_kbps(19_250)));
    }
}
