//! Beside a flow that fills the queue, whoever yields to a queue gets nothing: there the rate follows CUBIC's own law.

use nearlight_units::{Bitrate, Bytes, PacketSeq, Span, Time};
use nearlight_window::{AckSample, CUBIC_BETA, Cause, Congestion, CongestionLaw, Cubic, CubicOptions};

use crate::windowed::SHARE;

/// What the law counts in: a full packet of the session on IP.
const PACKET: Bytes = Bytes::new(1_200);

/// CUBIC beside others of its kind.
#[derive(Debug)]
pub(super) struct Competition {
    law: Cubic,
    /// Losses of packets up to this one have been answered.
    answered: Option<PacketSeq>,
    /// Until the first loss, the rate is at least this: a queue that grows is not yet full.
    opening: Option<Bitrate>,
    round_trip: Span,
}

impl Competition {
    /// Begins at this rate with this round trip.
    pub(super) fn new(now: Time, rate: Bitrate, round_trip: Span) -> Self {
        let mut law = Cubic::new(PACKET, CubicOptions { hystart: false, fast_convergence: false });
        // A loss sets the window to a part of what was under way (section 4.6 of RFC 9438), and ends slow start.
        let flight = rate.mul_f64(1.0 / (SHARE * CUBIC_BETA)).bytes_in(round_trip).max(Bytes::new(2 * PACKET.get()));
        law.on_loss(now, &Congestion { cause: Cause::Loss, flight, in_flight: flight });
        law.on_recovered(now);
        Self { law, answered: None, opening: Some(rate), round_trip }
    }

    pub(super) fn on_feedback(&mut self, now: Time, acked: Bytes, round_trip: Span) {
        self.round_trip = round_trip.max(Span::from_millis(1));
        let sample = AckSample { acked, round_trip: Some(round_trip), window_limited: true, ..AckSample::default() };
        if acked > Bytes::ZERO {
            self.law.on_ack(now, &sample);
        }
    }

    /// A packet got lost, or marked; `newest` is the newest that has left.
    pub(super) fn on_congestion(&mut self, now: Time, seq: PacketSeq, newest: PacketSeq) {
        if self.answered.is_some_and(|answered| seq <= answered) {
            return;
        }
        self.answered = Some(newest.max(seq));
        let opened =
            self.opening.take().map_or(Bytes::ZERO, |rate| rate.mul_f64(1.0 / SHARE).bytes_in(self.round_trip));
        let flight = self.law.window().max(opened);
        self.law.on_loss(now, &Congestion { cause: Cause::Loss, flight, in_flight: flight });
        self.law.on_recovered(now);
    }

    /// For the encoder.
    pub(super) fn rate(&self) -> Bitrate {
        let rate = self.law.window().over(self.round_trip).mul_f64(SHARE);
        self.opening.map_or(rate, |opening| opening.max(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_with_its_rate_while_the_queue_grows_and_a_loss_takes_three_tenths_once() {
        let begun = Time::from_secs(1);
        let rate = Bitrate::from_mbps(10);
        let mut competition = Competition::new(begun, rate, Span::from_millis(50));
        assert!((competition.rate().as_mbps_f64() / 10.0 - 1.0).abs() < 0.01, "{}", competition.rate());
        competition.on_feedback(begun + Span::from_millis(50), PACKET, Span::from_millis(200));
        assert_eq!(competition.rate(), rate, "in a longer queue too");
        competition.on_congestion(begun + Span::from_millis(60), PacketSeq(10), PacketSeq(90));
        let cut = competition.rate().as_mbps_f64();
        assert!((cut / 7.0 - 1.0).abs() < 0.01, "{cut}");
        competition.on_congestion(begun + Span::from_millis(70), PacketSeq(80), PacketSeq(95));
        assert!((competition.rate().as_mbps_f64() - cut).abs() < 1e-9, "the same flight");
        competition.on_congestion(begun + Span::from_millis(300), PacketSeq(91), PacketSeq(200));
        assert!(competition.rate().as_mbps_f64() < cut * 0.75, "{}", competition.rate());
    }
}
