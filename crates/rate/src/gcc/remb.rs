//! GCC for receivers that do not report individual packets: RTCP's receiver reports, and the rate that the receiver estimates itself
//! (REMB, draft-alvestrand-rmcat-remb-03).
//!
//! The receiver watches the delay, the sender the losses (draft-ietf-rmcat-gcc-02 sections 3 and 6): the rate is the lower of the two.
//! It has no preset: only WebRTC clients that offer no feedback of arrivals are served so.
//!
//! # Departures
//! * Without reports the rate falls by a fifth each second; the draft says nothing of it, and a receiver that sends none at all would
//!   get the start rate whatever its path carries.
//! * A receiver that never estimates is limited by its losses alone.

use nearlight_units::{Bitrate, Span, Time};

use super::loss_ratio::{Averaging, LossRatio};
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, ReceiverReport, SentPacket};

/// Reports leave once a second or more often (RFC 3550 section 6.2 and its usual bandwidth of 5 %). Guess: three in a row get lost only
/// where the path is blocked.
const PATIENCE: Span = Span::from_secs(3);
/// From one fall without reports to the next, and what is left of the rate (libwebrtc's, after a time-out of feedback).
const AGAIN: Span = Span::from_secs(1);
const KEPT: f64 = 0.8;
/// What losses allow stays within this multiple of the receiver's estimate. Guess: an estimate may grow by as much from one to the next.
const OVER_ESTIMATE: f64 = 1.5;
/// Pacing over target, as libwebrtc's.
const PACING: f64 = 2.5;

/// The controller.
#[derive(Debug)]
pub struct Remb {
    bounds: Bounds,
    loss: LossRatio,
    estimate: Option<Bitrate>,
    /// When the rate falls if nothing is heard until then; none before anything was sent.
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

    /// What the losses allow, never more than the user does, nor less.
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
        self.falls_at.get_or_insert(packet.sent_at + PATIENCE);
    }

    fn on_feedback(&mut self, _now: Time, _feedback: &Feedback<'_>) {}

    fn on_receiver_report(&mut self, now: Time, report: &ReceiverReport) {
        self.falls_at = Some(now + PATIENCE);
        self.silent = false;
        match *report {
            ReceiverReport::Packets { arrived, lost } => self.loss.on_report(now, arrived, lost),
            ReceiverReport::Estimate(rate) => {
                self.estimate = Some(rate);
                // Else a rate that the losses would allow grows where nobody sends it, and a higher estimate is taken at one go.
                self.loss.limit_to(self.bounds.clamp(rate.mul_f64(OVER_ESTIMATE)));
            }
        }
        self.limit();
    }

    fn on_timeout(&mut self, now: Time) {
        if self.falls_at.is_some_and(|at| at <= now) {
            self.falls_at = Some(now + AGAIN);
            self.silent = true;
            self.loss.limit_to(self.bounds.clamp(self.decision().target.mul_f64(KEPT)));
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
        Decision::of(&self.bounds, &candidates, PACING)
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

    /// A report of `lost` in a hundred each second.
    fn hear(remb: &mut Remb, from: u64, seconds: u64, lost: u32) -> f64 {
        for second in from..from + seconds {
            remb.on_receiver_report(Time::from_secs(second), &ReceiverReport::Packets { arrived: 100 - lost, lost });
        }
        remb.decision().target.as_mbps_f64()
    }

    #[test]
    fn losses_move_the_rate_as_the_draft_says() {
        let mut remb = Remb::new(BOUNDS);
        remb.on_packet_sent(&sent(Time::from_secs(1)));
        hear(&mut remb, 1, 1, 0);
        let before = remb.decision().target.as_mbps_f64();
        assert!((hear(&mut remb, 2, 5, 1) / before - 1.05_f64.powi(5)).abs() < 0.01);
        let before = remb.decision().target.as_mbps_f64();
        assert!((hear(&mut remb, 7, 5, 5) - before).abs() < 0.01, "between two and ten per cent it stays");
        assert!((hear(&mut remb, 12, 2, 40) / before - 0.8_f64.powi(2)).abs() < 0.01);
        assert_eq!(remb.decision().binding, Limit::Loss);
        assert!((hear(&mut remb, 14, 200, 0) - 20.0).abs() < 0.01, "not beyond the maximum");
        assert!((hear(&mut remb, 214, 200, 100) - 1.0).abs() < 0.01, "nor below the minimum");
    }

    #[test]
    fn the_receiver_s_estimate_is_never_exceeded() {
        let mut remb = Remb::new(BOUNDS);
        remb.on_receiver_report(Time::from_secs(1), &ReceiverReport::Estimate(Bitrate::from_mbps(3)));
        let decision = remb.decision();
        assert_eq!((decision.target, decision.binding), (Bitrate::from_mbps(3), Limit::Delay));
        hear(&mut remb, 2, 30, 0);
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
