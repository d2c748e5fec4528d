//! GCC as in draft-ietf-rmcat-gcc-02, and as pion implements it.
//!
//! Decides from arrival times of groups of packets and from the share of lost packets. Never probes, and does not detect an application
//! that sends little.
//!
//! # Departures
//! Departures of `gcc-draft02`:
//! * The growth of delay is multiplied with the count of groups, up to 60, before it is compared with the threshold: the draft
//!   compares it as it is, but its gains only make sense with that factor, which every implementation has.
//! * `f_max` counts groups per millisecond, without which the variance of measurements would never be forgotten; `chi` is 0.01, the
//!   middle of the range that the draft gives.
//! * Arrivals are merged for 100 ms at most, as in libwebrtc: without that, a stream paced at its own rate can be one endless group,
//!   and the rate never changes again.
//! * The average of rates at over-use gives new ones a weight of 0.05 ("covers multiple occasions"); with 0.95 it would be the last one.
//! * The loss-based rate steps once in 200 ms and stays below the delay-based one; stepping with each report, it would grow without bound.
//! * The rate changes with each group of packets; the draft leaves open how often. The minimum step of 1 kb/s then makes growth near
//!   convergence faster than half a packet per response time when groups follow each other in less than 25 ms.
//!
//! Departures of `gcc-pion` (pion/interceptor, `pkg/gcc`):
//! * Its start of 10 kb/s and its maximum of 50 Mb/s are replaced by the user's.
//! * Updates follow feedback in virtual time; pion reads the wall clock while it processes a message.
//! * Three of pion's deviations are kept: the exponent of `chi` takes nanoseconds for milliseconds, so variance never adapts; groups last
//!   as long as packets follow each other within 5 ms; the rate grows on once it exceeds 1.5 times the arriving rate.
//!
//! Departures of both: without feedback the rate falls ([`crate::silence`]); when a receiver's clock jumps, its offset is measured anew.

use nearlight_units::{Bitrate, RemoteTime, Span, Time};

use super::detector::{Detector, DetectorOptions, Growth, Usage};
use super::groups::{Anchor, Delta, Groups, MAX_BURST};
use super::kalman::{Forgetting, Kalman};
use super::loss_ratio::{Averaging, LossRatio};
use super::remote_rate::{RemoteOptions, RemoteRate, Step};
use crate::arriving::ArrivingRate;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentPacket};

/// The time over which the arriving rate is measured (draft: 0.5 to 1 s; pion: 0.5 s).
const ARRIVING_WINDOW: Span = Span::from_millis(500);
/// The round trip before one has been measured (libwebrtc `kDefaultRtt`).
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(200);
/// Speed at which the variance of measurements is forgotten, between the draft's 0.001 and 0.1.
const CHI: f64 = 0.01;
/// The share of the variance that pion keeps: 0.999 to the power of 30 / (1000 * 5 ms in nanoseconds) differs from 1 by less than a
/// double can accumulate over a session's length.
const PION_VARIANCE_KEPT: f64 = 1.0;

/// The parameters in which presets differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftOptions {
    pub name: &'static str,
    pub anchor: Anchor,
    /// The longest time for which arrivals close together are merged into one sample of delay.
    pub max_burst: Span,
    pub forgetting: Forgetting,
    pub remote: RemoteOptions,
    pub loss: Averaging,
    /// Whether the threshold and times of over-use advance with feedback rather than with arrivals.
    pub at_feedback: bool,
    /// Ratio of the pacing rate to the target.
    pub pacing: f64,
}

impl DraftOptions {
    /// draft-ietf-rmcat-gcc-02: bursts of 5 ms at the target.
    pub const DRAFT: Self = Self {
        name: "gcc-draft02",
        anchor: Anchor::First,
        max_burst: MAX_BURST,
        forgetting: Forgetting::ByRate { chi: CHI },
        remote: RemoteOptions::DRAFT,
        loss: Averaging::OverStep,
        at_feedback: false,
        pacing: 1.0,
    };

    /// pion/interceptor a01a583.
    pub const PION: Self = Self {
        name: "gcc-pion",
        anchor: Anchor::Last,
        max_burst: Span::MAX,
        forgetting: Forgetting::Constant(PION_VARIANCE_KEPT),
        remote: RemoteOptions::PION,
        loss: Averaging::Exponential(Span::from_millis(200)),
        at_feedback: true,
        pacing: 1.5,
    };
}

/// The controller.
#[derive(Debug)]
pub struct Draft {
    options: DraftOptions,
    bounds: Bounds,
    groups: Groups,
    kalman: Kalman,
    detector: Detector,
    judged_at: Option<Time>,
    first_arrival: Option<RemoteTime>,
    arriving: ArrivingRate,
    remote: RemoteRate,
    loss: LossRatio,
    round_trip: Span,
    silence: Silence,
    /// Whether missing feedback caused the last change of the rate.
    silenced: bool,
    arrivals: Vec<(RemoteTime, PacketReport)>,
}

impl Draft {
    #[must_use]
    pub fn new(bounds: Bounds, options: DraftOptions) -> Self {
        let bounds = bounds.in_order();
        Self {
            options,
            bounds,
            groups: Groups::new(options.anchor, options.max_burst),
            kalman: Kalman::new(options.forgetting),
            detector: Detector::new(DetectorOptions::DRAFT),
            judged_at: None,
            first_arrival: None,
            arriving: ArrivingRate::new(ARRIVING_WINDOW),
            remote: RemoteRate::new(options.remote, bounds.start, bounds.maximum),
            loss: LossRatio::new(options.loss, bounds.start),
            round_trip: UNKNOWN_ROUND_TRIP,
            silence: Silence::default(),
            silenced: false,
            arrivals: Vec::new(),
        }
    }

    fn on_delta(&mut self, now: Time, delta: &Delta) {
        let trend = self.kalman.on_change(delta.arrived - delta.sent, delta.sent);
        let (length, at) = if self.options.at_feedback {
            (now.saturating_since(self.judged_at.unwrap_or(now)), now - Time::ZERO)
        } else {
            let first_arrival = *self.first_arrival.get_or_insert(delta.arrived_at);
            (delta.sent, delta.arrived_at - first_arrival)
        };
        self.judged_at = Some(now);
        self.detector.on_growth(&Growth { trend, gain: 1.0, length, at });
        let step = Step { usage: self.detector.usage(), arriving: self.arriving.rate(), round_trip: self.round_trip };
        self.remote.on_step(now, &step);
        self.silenced = false;
    }

    fn target(&self) -> Bitrate {
        self.bounds.clamp(self.remote.estimate().min(self.loss.rate()))
    }

    fn delay_limit(&self) -> Limit {
        match self.detector.usage() {
            _ if self.silenced => Limit::FeedbackTimeout,
            Usage::Normal if self.remote.is_at_ceiling() => Limit::Delivered,
            _ => Limit::Delay,
        }
    }
}

impl RateController for Draft {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.silence.on_feedback(feedback);
        if let Some(round_trip) = feedback.round_trip {
            self.round_trip = round_trip.max(Span::ZERO);
        }
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.extend(feedback.packets.iter().filter_map(|report| report.arrived_at.map(|at| (at, *report))));
        if !arrivals.is_sorted_by_key(|(at, _)| *at) {
            arrivals.sort_by_key(|(at, _)| *at);
        }
        let lost = feedback.packets.len() - arrivals.len();
        self.loss.on_report(now, arrivals.len() as u32, lost as u32);
        for (at, report) in &arrivals {
            self.arriving.on_packet(*at, report.packet.size);
            if let Some(delta) = self.groups.on_packet(report.packet.sent_at, *at) {
                self.on_delta(now, &delta);
            }
        }
        self.loss.limit_to(self.remote.estimate());
        arrivals.clear();
        self.arrivals = arrivals;
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.remote.set_estimate(self.target().mul_f64(Silence::FACTOR));
            self.loss.limit_to(self.remote.estimate());
            self.detector.drop_hypothesis();
            self.silenced = true;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let lowest = self.target() <= self.bounds.minimum;
        self.silence.due(lowest).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.remote.set_maximum(self.bounds.maximum);
    }

    fn decision(&self) -> Decision {
        let delay = (self.delay_limit(), self.remote.estimate());
        let loss = (Limit::Loss, self.loss.rate());
        let (winner, other) = if loss.1 < delay.1 { (loss, delay) } else { (delay, loss) };
        let mut candidates = [winner, other, winner];
        let mut count = 2;
        if let Some(arriving) = self.arriving.rate()
            && delay.0 != Limit::Delivered
        {
            candidates[2] = (Limit::Delivered, RemoteRate::ceiling(arriving));
            count = 3;
        }
        Decision::of(&self.bounds, &candidates[..count], self.options.pacing)
    }

    fn held(&self) -> usize {
        self.kalman.held() + self.arrivals.len()
    }
}
