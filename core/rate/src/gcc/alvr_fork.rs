//! GCC as it was built into ALVR for "Congestion Control for VR Cloud Gaming" (MM '25): ahmad-hl/GCC_NADA_ALVR, branch GCC.
//!
//! A port of libwebrtc's delay-based half that works on whole frames. It differs from its paper:
//! * Each frame is one sample: the trendline's window of 20 is 278 ms at 72 frames a second.
//! * Growth by 8 % is per frame, not per second (the paper says 5 %), up to 1.5 times the arriving rate.
//! * The round trip is always 200 ms and a packet 1,500 bytes, so growth near a known capacity is 20 kb/s each second at any rate.
//! * The known capacity's bounds clamp the rate: after the first over-use the rate is kept close above the arriving rate of that time,
//!   until more arrives than the bound explains.
//! * There is no loss-based half, no probing, no pacing and no pause between cuts. For the first 5 s only over-use changes the rate.
//!
//! # Departures
//! * Its rates (start 15, from 5 to 150 Mb/s) are the preset's; the user's own take precedence.
//! * Times are not truncated to milliseconds, and the arriving rate has libwebrtc's floor of 40 kb/s.
//! * Each whole frame is reported once, with feedback. The fork's client reports whatever frame it displays at each refresh:
//!   a frame that is overtaken never, a frame that is repeated twice, with its bytes and its old times.
//! * Frames that lose packets are not samples, unless the session repairs them. While every frame loses packets, the rate stays.

use nearlight_units::{Bitrate, Span, Time};

use super::acked::{AckedRate, Windows};
use super::aimd::LinkCapacity;
use super::detector::Usage;
use super::groups::Delta;
use super::trendline::Trendline;
use crate::frames::{FrameSample, Frames};
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, SentPacket};

/// Windows of the arriving rate (`GCC_BITRATE_ESTIMATOR_INIT_WINDOW_MS` and `_NONINIT_`).
const WINDOWS: Windows = Windows { first: Span::from_millis(350), later: Span::from_millis(250) };
/// Only over-use changes the rate for this time after the first rate is known (`kInitializationTime`).
const INITIALISATION_TIME: Span = Span::from_secs(5);
/// Growth per frame while the capacity is unknown (`GCC_INCREASE_COEF_ALPHA`; its scaling with time is never reached).
const GROWTH: f64 = 1.08;
const MIN_GROWTH: Bitrate = Bitrate::from_kbps(1);
/// Growth near a known capacity, in bit/s per second: 12,000 bits in twice 300 ms (`GetNearMaxIncreaseRateBpsPerSecond`).
const GROWTH_SLOPE: f64 = 20_000.0;
/// Growth ends at this multiple of the arriving rate, plus [`ARRIVING_MARGIN`].
const MAX_ARRIVING_RATIO: f64 = 1.5;
const ARRIVING_MARGIN: Bitrate = Bitrate::from_kbps(10);
/// The share of the arriving rate that remains after over-use (`GCC_DECREASE_COEF_BETA`).
const BACKOFF: f64 = 0.85;

/// The fork's `AimdRateControl`.
#[derive(Clone, Debug)]
struct Rate {
    bounds: Bounds,
    estimate: Bitrate,
    holds: bool,
    changed_at: Option<Time>,
    capacity: LinkCapacity,
    /// The last arriving rate, once known.
    arriving: Option<Bitrate>,
    arriving_since: Option<Time>,
    begun: bool,
    limit: Limit,
}

impl Rate {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            estimate: bounds.start,
            holds: true,
            changed_at: None,
            capacity: LinkCapacity::default(),
            arriving: None,
            arriving_since: None,
            begun: false,
            limit: Limit::Delay,
        }
    }

    fn on_frame(&mut self, now: Time, usage: Usage, arriving: Option<Bitrate>) {
        self.begin(now, arriving);
        self.arriving = arriving.or(self.arriving);
        if !self.begun && usage != Usage::Over {
            return;
        }
        let arriving = self.arriving.unwrap_or(self.bounds.start);
        let rate = match usage {
            Usage::Over => self.decrease(now, arriving),
            Usage::Normal => self.increase(now, arriving),
            Usage::Under => {
                self.holds = true;
                self.estimate
            }
        };
        self.estimate = self.clamp(rate);
    }

    /// Sets the rate to the arriving rate after the initialisation.
    fn begin(&mut self, now: Time, arriving: Option<Bitrate>) {
        let (false, Some(arriving)) = (self.begun, arriving) else { return };
        let since = *self.arriving_since.get_or_insert(now);
        if now.saturating_since(since) > INITIALISATION_TIME {
            self.estimate = arriving;
            self.begun = true;
        }
    }

    fn increase(&mut self, now: Time, arriving: Bitrate) -> Bitrate {
        if std::mem::take(&mut self.holds) {
            self.changed_at = Some(now);
        }
        if self.capacity.lies_below(arriving) {
            self.capacity = LinkCapacity::default();
        }
        let passed = now.saturating_since(self.changed_at.replace(now).unwrap_or(now));
        let ceiling = Self::ceiling(arriving);
        if self.estimate >= ceiling {
            self.limit = Limit::Delivered;
            return self.estimate;
        }
        let grown = if self.capacity.is_known() {
            self.estimate + Bitrate::from_bps(1).mul_f64(GROWTH_SLOPE * passed.as_secs_f64())
        } else {
            self.estimate.mul_f64(GROWTH).max(self.estimate + MIN_GROWTH)
        };
        self.limit = if grown > ceiling { Limit::Delivered } else { Limit::Delay };
        grown.min(ceiling)
    }

    fn decrease(&mut self, now: Time, arriving: Bitrate) -> Bitrate {
        let mut rate = arriving.mul_f64(BACKOFF);
        if rate > self.estimate
            && let Some(capacity) = self.capacity.estimate()
        {
            rate = capacity.mul_f64(BACKOFF);
        }
        if self.capacity.lies_above(arriving) {
            self.capacity = LinkCapacity::default();
        }
        self.capacity.on_over_use(arriving);
        self.begun = true;
        self.holds = true;
        self.changed_at = Some(now);
        self.limit = Limit::Delay;
        rate.min(self.estimate)
    }

    /// Clamps the rate to the capacity's bounds.
    fn clamp(&self, rate: Bitrate) -> Bitrate {
        let (lower, upper) = self.capacity.bounds().unwrap_or((Bitrate::ZERO, Bitrate::MAX));
        let lower = lower.max(self.bounds.minimum);
        let capped = rate.min(upper.min(self.bounds.maximum));
        let kept = if capped < self.estimate { capped.max(lower.mul_f64(BACKOFF)).min(self.estimate) } else { capped };
        kept.max(self.bounds.minimum)
    }

    fn ceiling(arriving: Bitrate) -> Bitrate {
        arriving.mul_f64(MAX_ARRIVING_RATIO) + ARRIVING_MARGIN
    }
}

/// The controller.
#[derive(Debug)]
pub struct AlvrFork {
    frames: Frames,
    previous: Option<FrameSample>,
    trendline: Trendline,
    acked: AckedRate,
    rate: Rate,
}

impl AlvrFork {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            frames: Frames::default(),
            previous: None,
            trendline: Trendline::default(),
            acked: AckedRate::new(WINDOWS),
            rate: Rate::new(bounds.in_order()),
        }
    }

    fn on_frame(&mut self, now: Time, sample: &FrameSample) {
        let previous = self.previous.replace(*sample).unwrap_or(*sample);
        self.trendline.on_delta(&Delta {
            sent: sample.sent_at - previous.sent_at,
            arrived: sample.arrived_at - previous.arrived_at,
            arrived_at: sample.arrived_at,
        });
        self.acked.on_packet(sample.arrived_at, sample.size);
        self.rate.on_frame(now, self.trendline.usage(), self.acked.rate());
    }
}

impl RateController for AlvrFork {
    fn name(&self) -> &'static str {
        "gcc-alvr-fork"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.frames.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        feedback.packets.iter().for_each(|report| self.frames.on_report(report));
        while let Some(sample) = self.frames.poll() {
            self.on_frame(now, &sample);
        }
    }

    fn on_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        None
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.rate.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let rate = &self.rate;
        let mut candidates = vec![(rate.limit, rate.estimate)];
        if rate.limit == Limit::Delay {
            candidates.extend(rate.arriving.map(|arriving| (Limit::Delivered, Rate::ceiling(arriving))));
        }
        Decision::unpaced(&rate.bounds, &candidates)
    }

    fn held(&self) -> usize {
        self.frames.held() + self.trendline.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_mbps(5), start: Bitrate::from_mbps(15), maximum: Bitrate::from_mbps(150) };
    /// 72 frames a second.
    const FRAME: Span = Span::from_nanos(13_888_889);

    /// Applies calm frames for this many seconds, from second `from` on.
    fn run(rate: &mut Rate, from: u64, seconds: i64, mbps: u64) {
        for frame in 1..=72 * seconds {
            rate.on_frame(Time::from_secs(from) + FRAME * frame, Usage::Normal, Some(Bitrate::from_mbps(mbps)));
        }
    }

    #[test]
    fn near_a_known_capacity_it_grows_by_20_kbps_each_second_at_any_rate() {
        for mbps in [10, 25, 80] {
            let mut rate = Rate::new(BOUNDS);
            rate.estimate = Bitrate::from_mbps(mbps);
            rate.on_frame(Time::from_secs(1), Usage::Over, Some(Bitrate::from_mbps(mbps)));
            let cut = rate.estimate.as_bps();
            assert_eq!(cut, mbps * 850_000);
            run(&mut rate, 1, 20, mbps);
            let slope = (rate.estimate.as_bps() - cut) as f64 / 20.0;
            // The first calm frame only ends the hold.
            assert!((slope - 20_000.0).abs() < 20.0, "{slope} bit/s each second at {mbps} Mb/s");
        }
    }

    #[test]
    fn it_is_pinned_three_deviations_above_what_arrived_at_over_use() {
        let mut rate = Rate::new(BOUNDS);
        rate.estimate = Bitrate::from_mbps(30);
        rate.on_frame(Time::from_secs(1), Usage::Over, Some(Bitrate::from_mbps(25)));
        run(&mut rate, 1, 600, 25);
        // est + 3 sqrt(dev * est) with the first deviation of 0.4: 25,000 + 3 * 100 kb/s.
        assert_eq!(rate.estimate, Bitrate::from_kbps(25_300));
        // More arrives than the bound explains: it is forgotten, and growth is 8 % a frame again.
        run(&mut rate, 700, 1, 26);
        assert_eq!(rate.estimate, Rate::ceiling(Bitrate::from_mbps(26)));
    }

    #[test]
    fn growth_is_8_percent_a_frame_up_to_one_and_a_half_times_what_arrives() {
        let mut rate = Rate::new(BOUNDS);
        rate.begun = true;
        for frame in 1..=5 {
            rate.on_frame(Time::from_millis(14 * frame), Usage::Normal, Some(Bitrate::from_mbps(30)));
        }
        let expected = 15e6 * 1.08_f64.powi(5);
        assert!((rate.estimate.as_bps() as f64 - expected).abs() < 5.0, "{}", rate.estimate);
        run(&mut rate, 1, 1, 30);
        assert_eq!((rate.estimate, rate.limit), (Bitrate::from_kbps(45_010), Limit::Delivered));
    }

    #[test]
    fn for_5_s_only_over_use_counts_and_then_the_rate_is_what_arrives() {
        let mut rate = Rate::new(BOUNDS);
        run(&mut rate, 0, 5, 12);
        assert_eq!(rate.estimate, BOUNDS.start);
        rate.on_frame(Time::from_millis(5_030), Usage::Under, Some(Bitrate::from_mbps(12)));
        assert_eq!(rate.estimate, Bitrate::from_mbps(12));
        let mut rate = Rate::new(BOUNDS);
        rate.on_frame(Time::from_millis(400), Usage::Over, Some(Bitrate::from_mbps(10)));
        assert_eq!(rate.estimate, Bitrate::from_kbps(8_500));
    }
}
