//! WebRTC's hybrid of retransmission and redundancy: the share of the rate that redundancy takes.
//!
//! The curve is that of the redundancy policy of the same kind. The share of lost packets is smoothed here.

use nearlight_fec::policy::webrtc_share;
use nearlight_units::Span;

use crate::{PacketReport, Redundancy};

/// Weight of a packet in the share of lost packets. Guess: some seconds of a call.
const LOSS_WEIGHT: f64 = 1.0 / 500.0;

/// Tracks losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protection {
    loss: f64,
}

impl Protection {
    pub fn on_report(&mut self, report: &PacketReport) {
        let lost = f64::from(u8::from(report.arrived_at.is_none()));
        self.loss += LOSS_WEIGHT * (lost - self.loss);
    }

    /// The redundancy at this round trip.
    #[must_use]
    pub fn redundancy(&self, round_trip: Option<Span>) -> Redundancy {
        let share = webrtc_share(self.loss, round_trip.unwrap_or(Span::ZERO));
        Redundancy { share, loss: self.loss }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bytes, PacketSeq, Time};

    use super::*;
    use crate::SentPacket;

    #[test]
    fn short_round_trips_need_no_redundancy_and_long_ones_twice_the_losses() {
        let mut protection = Protection::default();
        for seq in 0..20_000 {
            let packet = SentPacket {
                seq: PacketSeq(seq),
                sent_at: Time::ZERO,
                size: Bytes::new(1_200),
                frame: None,
                probe: None,
                app_limited: false,
            };
            protection.on_report(&PacketReport {
                packet,
                arrived_at: Some(nearlight_units::RemoteTime::ZERO).filter(|_| !seq.is_multiple_of(50)),
                ce: false,
            });
        }
        for (millis, share) in [(5, 0.0), (20, 0.0), (60, 0.02), (100, 0.04), (400, 0.04)] {
            let found = protection.redundancy(Some(Span::from_millis(millis)));
            assert!((found.share - share).abs() < 0.002 && (found.loss - 0.02).abs() < 0.001, "{millis} ms: {found:?}");
        }
        protection.loss = 0.9;
        assert!((protection.redundancy(Some(Span::from_secs(1))).share - 0.5).abs() < 1e-12);
    }
}
