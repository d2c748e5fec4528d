//! The mode beside loss-based flows such as CUBIC. They fill the queue until it overflows, so a flow that yields to a queue gets nothing.
//! The rate follows CUBIC's own law (RFC 9438) until the queue drains.

use nearlight_units::{Bitrate, Bytes, PacketSeq, Span, Time};
use nearlight_window::{AckSample, CUBIC_BETA, Cause, Congestion, CongestionLaw, Cubic, CubicOptions};

use super::mode::Mode;
use super::path::Path;
use super::tracking::Tracking;
use crate::PacketReport;
use crate::windowed::{LAW_PACKET, WINDOW_RATE_SHARE};

/// CUBIC beside others of its kind.
#[derive(Debug)]
pub(super) struct Competing {
    law: Cubic,
    /// Losses of packets up to this one have been answered.
    answered: Option<PacketSeq>,
    /// Until the first loss, the rate is at least this: a queue that grows is not yet full.
    initial_rate: Option<Bitrate>,
    round_trip: Span,
}

impl Competing {
    /// Begins with half of the rate that the path gave us alone: the equal share beside one competitor.
    pub(super) fn beside_one(now: Time, round_trip: Span, path: &Path) -> Self {
        Self::new(now, path.solo_target.mul_f64(0.5), round_trip)
    }

    fn new(now: Time, rate: Bitrate, round_trip: Span) -> Self {
        let mut law = Cubic::new(LAW_PACKET, CubicOptions { hystart: false, fast_convergence: false });
        // A loss sets the window to a part of what was in flight (section 4.6 of RFC 9438), and ends slow start.
        let flight = rate.mul_f64(1.0 / (WINDOW_RATE_SHARE * CUBIC_BETA)).bytes_in(round_trip);
        let flight = flight.max(Bytes::new(2 * LAW_PACKET.get()));
        law.on_loss(now, &Congestion { cause: Cause::Loss, flight, in_flight: flight });
        law.on_recovered(now);
        Self { law, answered: None, initial_rate: Some(rate), round_trip }
    }

    pub(super) fn rate(&self) -> Bitrate {
        let rate = self.law.window().over(self.round_trip).mul_f64(WINDOW_RATE_SHARE);
        self.initial_rate.map_or(rate, |initial| initial.max(rate))
    }

    /// Answers a packet that is lost or marked, once for all that were sent before the answer.
    pub(super) fn on_report(&mut self, now: Time, report: &PacketReport, newest_sent: PacketSeq) {
        let seq = report.packet.seq;
        let is_congestion = report.arrived_at.is_none() || report.ce;
        if !is_congestion || self.answered.is_some_and(|answered| seq <= answered) {
            return;
        }
        self.answered = Some(newest_sent.max(seq));
        let initial = self
            .initial_rate
            .take()
            .map_or(Bytes::ZERO, |rate| rate.mul_f64(1.0 / WINDOW_RATE_SHARE).bytes_in(self.round_trip));
        let flight = self.law.window().max(initial);
        self.law.on_loss(now, &Congestion { cause: Cause::Loss, flight, in_flight: flight });
        self.law.on_recovered(now);
    }

    /// Handles feedback that acknowledges `acked`. The competition is over once the queue has been empty for longer than BBR keeps it empty
    /// to measure the round trip, or holds our own packets only.
    pub(super) fn on_feedback(&mut self, now: Time, acked: Bytes, path: &Path) -> Option<Mode> {
        let round_trip = path.round_trip?;
        self.acknowledge(now, acked, round_trip);
        let drained_for = path.frame_interval * i64::from(path.queue.empty_frames());
        let is_over =
            drained_for >= path.parameters.drained_for + round_trip * 2 || path.queue.is_own(&path.parameters);
        is_over.then(|| Mode::Tracking(Tracking::default()))
    }

    fn acknowledge(&mut self, now: Time, acked: Bytes, round_trip: Span) {
        self.round_trip = round_trip.max(Span::from_millis(1));
        if acked > Bytes::ZERO {
            let sample =
                AckSample { acked, round_trip: Some(round_trip), window_limited: true, ..AckSample::default() };
            self.law.on_ack(now, &sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SentPacket;

    fn lost(seq: u32) -> PacketReport {
        let packet = SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::ZERO,
            size: LAW_PACKET,
            frame: None,
            probe: None,
            app_limited: false,
        };
        PacketReport { packet, arrived_at: None, ce: false }
    }

    #[test]
    fn it_opens_with_its_rate_while_the_queue_grows_and_a_loss_takes_three_tenths_once() {
        let begun = Time::from_secs(1);
        let rate = Bitrate::from_mbps(10);
        let mut competing = Competing::new(begun, rate, Span::from_millis(50));
        assert!((competing.rate().as_mbps_f64() / 10.0 - 1.0).abs() < 0.01, "{}", competing.rate());
        competing.acknowledge(begun + Span::from_millis(50), LAW_PACKET, Span::from_millis(200));
        assert_eq!(competing.rate(), rate, "in a longer queue too");
        competing.on_report(begun + Span::from_millis(60), &lost(10), PacketSeq(90));
        let cut = competing.rate().as_mbps_f64();
        assert!((cut / 7.0 - 1.0).abs() < 0.01, "{cut}");
        competing.on_report(begun + Span::from_millis(70), &lost(80), PacketSeq(95));
        assert!((competing.rate().as_mbps_f64() - cut).abs() < 1e-9, "the same flight");
        competing.on_report(begun + Span::from_millis(300), &lost(91), PacketSeq(200));
        assert!(competing.rate().as_mbps_f64() < cut * 0.75, "{}", competing.rate());
    }
}
