//! GCC for receivers that do not report individual packets: RTCP's receiver reports, and the rate that the receiver estimates itself
//! (REMB, draft-alvestrand-rmcat-remb-03).
//!
//! The receiver observes the delay and the sender the losses (draft-ietf-rmcat-gcc-02 sections 3 and 6): the rate is the lower of the two.
//! There is no preset for it: it serves only WebRTC clients that offer no feedback of arrivals.
//!
//! # Departures
//! * Without reports the rate falls by a fifth each second. The draft does not cover this case: a receiver that sends no reports would
//!   get the start rate whatever its path carries.
//! * The rate of a receiver that never sends an estimate is limited by its losses alone.

use nearlight_units::{Bitrate, Span, Time};

use super::loss_ratio::{Averaging, LossRatio};
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, ReceiverReport, SentPacket};

/// The rate falls after this time without reports. Reports leave once a second or more often (RFC 3550 section 6.2 and its usual
/// bandwidth of 5 %). Guess: three in a row get lost only if the path is blocked.
const REPORT_TIMEOUT: Span = Span::from_secs(3);
/// Time between further reductions without reports, and the share of the rate that remains (libwebrtc's, after a time-out of feedback).
const REDUCTION_INTERVAL: Span = Span::from_secs(1);
const REDUCTION_FACTOR: f64 = 0.8;
/// The loss-based rate stays within this multiple of the receiver's estimate. Guess: an estimate may grow by as much from one to the next.
const MAX_ESTIMATE_RATIO: f64 = 1.5;
/// Ratio of the pacing rate to the target (libwebrtc).
const PACING_FACTOR: f64 = 2.5;

/// The controller.
#[derive(Debug)]
pub struct Remb {
    bounds: Bounds,
    loss: LossRatio,
    estimate: Option<Bitrate>,
    /// When the rate falls if no report arrives until then. None before the first packet was sent.
    falls_at: Option<Time>,
    silent: bool,
}

impl Remb {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let bounds = bounds.in_order();
        let loss = LossRatio::new(Averaging::OverStep, bounds.start);
        Self { bounds, loss, estimate: None, falls_at: None, silent: false }
    }

    /// Keeps the loss-based rate within the bounds.
    fn limit(&mut self) {
        self.loss.limit_to(self.bounds.maximum);
        self.loss.raise_to(self.bounds.minimum);
    }
}

impl RateController for Remb {
    fn name(&self) -> &'static str {
        "gcc-remb"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.falls_at.get_or_insert(packet.sent_at + REPORT_TIMEOUT);
    }

    fn on_feedback(&mut self, _now: Time, _feedback: &Feedback<'_>) {}

    fn on_receiver_report(&mut self, now: Time, report: &ReceiverReport) {
        self.falls_at = Some(now + REPORT_TIMEOUT);
        self.silent = false;
        match *report {
            ReceiverReport::Packets { arrived, lost } => self.loss.on_report(now, arrived, lost),
            ReceiverReport::Estimate(rate) => {
                self.estimate = Some(rate);
                // Otherwise a rate that the losses allow would grow although nobody sends at it, and a higher estimate would be applied at
                // once.
                self.loss.limit_to(self.bounds.clamp(rate.mul_f64(MAX_ESTIMATE_RATIO)));
            }
        }
        self.limit();
    }

    fn on_timeout(&mut self, now: Time) {
        if self.falls_at.is_some_and(|at| at <= now) {
            self.falls_at = Some(now + REDUCTION_INTERVAL);
            self.silent = true;
            self.loss.limit_to(self.bounds.clamp(self.decision().target.mul_f64(REDUCTION_FACTOR)));
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let is_lowest = self.decision().target <= self.bounds.minimum;
        self.falls_at.filter(|_| !(self.silent && is_lowest)).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.limit();
    }

    fn decision(&self) -> Decision {
        let loss = (if self.silent { Limit::FeedbackTimeout } else { Limit::Loss }, self.loss.rate());
        let mut candidates = vec![loss];
        candidates.extend(self.estimate.map(|rate| (Limit::Delay, rate)));
        candidates.sort_by_key(|(_, rate)| *rate);
        Decision::of(&self.bounds, &candidates, PACING_FACTOR)
    }

    fn held(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bytes, PacketSeq};

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_mbps(1), start: Bitrate::from_mbps(8), maximum: Bitrate::from_mbps(20) };

    fn sent(at: Time) -> SentPacket {
        SentPacket {
            seq: PacketSeq(0),
            sent_at: at,
            size: Bytes::new(1_200),
            frame: None,
            probe: None,
            app_limited: false,
        }
    }

    /// Applies a report of `lost` in a hundred each second.
    fn apply_reports(remb: &mut Remb, from: u64, seconds: u64, lost: u32) -> f64 {
        for second in from..from + seconds {
            remb.on_receiver_report(Time::from_secs(second), &ReceiverReport::Packets { arrived: 100 - lost, lost });
        }
        remb.decision().target.as_mbps_f64()
    }

    #[test]
    fn losses_move_the_rate_as_the_draft_says() {
        let mut remb = Remb::new(BOUNDS);
        remb.on_packet_sent(&sent(Time::from_secs(1)));
        apply_reports(&mut remb, 1, 1, 0);
        let before = remb.decision().target.as_mbps_f64();
        assert!((apply_reports(&mut remb, 2, 5, 1) / before - 1.05_f64.powi(5)).abs() < 0.01);
        let before = remb.decision().target.as_mbps_f64();
        assert!((apply_reports(&mut remb, 7, 5, 5) - before).abs() < 0.01, "between two and ten per cent it stays");
        assert!((apply_reports(&mut remb, 12, 2, 40) / before - 0.8_f64.powi(2)).abs() < 0.01);
        assert_eq!(remb.decision().binding, Limit::Loss);
        assert!((apply_reports(&mut remb, 14, 200, 0) - 20.0).abs() < 0.01, "not beyond the maximum");
        assert!((apply_reports(&mut remb, 214, 200, 100) - 1.0).abs() < 0.01, "nor below the minimum");
    }

    #[test]
    fn the_receiver_s_estimate_is_never_exceeded() {
        let mut remb = Remb::new(BOUNDS);
        remb.on_receiver_report(Time::from_secs(1), &ReceiverReport::Estimate(Bitrate::from_mbps(3)));
        let decision = remb.decision();
        assert_eq!((decision.target, decision.binding), (Bitrate::from_mbps(3), Limit::Delay));
        apply_reports(&mut remb, 2, 30, 0);
        assert_eq!(remb.decision().target, Bitrate::from_mbps(3));
        remb.on_receiver_report(Time::from_secs(40), &ReceiverReport::Estimate(Bitrate::from_bps(u64::MAX)));
        assert!((3.0..=20.0).contains(&remb.decision().target.as_mbps_f64()));
        remb.on_receiver_report(Time::from_secs(41), &ReceiverReport::Estimate(Bitrate::ZERO));
        assert_eq!(remb.decision().target, BOUNDS.minimum);
    }

    #[test]
    fn a_receiver_that_says_nothing_gets_the_minimum() {
        let mut remb = Remb::new(BOUNDS);
        assert_eq!(remb.poll_timeout(), None);
        remb.on_packet_sent(&sent(Time::from_secs(1)));
        let mut falls = Vec::new();
        while let Some((at, ControllerWake::FeedbackTimeout)) = remb.poll_timeout() {
            remb.on_timeout(at);
            falls.push(at);
        }
        assert_eq!(falls[..2], [Time::from_secs(4), Time::from_secs(5)]);
        assert_eq!((remb.decision().target, falls.len()), (BOUNDS.minimum, 10));
        remb.on_receiver_report(Time::from_secs(60), &ReceiverReport::Packets { arrived: 50, lost: 0 });
        assert!(remb.poll_timeout().is_some_and(|(at, _)| at == Time::from_secs(63)), "it is heard again");
    }
}
