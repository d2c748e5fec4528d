//! WebRTC's hybrid of retransmission and redundancy: what redundancy takes of the rate.
//!
//! Where a retransmission is quick, it is all that there is; the longer the round trip, the more is added in advance.
//!
//! Source: libwebrtc, `VCMNackFecMethod`. Departures: its tables of protection by loss, rate and round trip are replaced by a line of
//! the round trip and twice the smoothed share of lost packets. Guess: at 1 % loss and a round trip of 50 ms that is less than
//! what redundancy for a group of pictures takes, as in Nebula's Figure 13.

use nearlight_units::Span;

use crate::{PacketReport, Redundancy};

/// Below the first, nothing is added; from the second on, all (`kLowRttNackMs`; for the second, 100 ms, at which
/// retransmissions are too late for a call).
const ROUND_TRIPS: (Span, Span) = (Span::from_millis(20), Span::from_millis(100));
/// Redundancy over losses at long round trips. Guess: a burst of two losses in a frame is still repaired.
const OVER_LOSS: f64 = 2.0;
/// Redundancy never takes more (`kProtectionOverheadRateThreshold`).
const MOST: f64 = 0.5;
/// Weight of a packet in the share of lost ones. Guess: some seconds of a call.
const WEIGHT: f64 = 1.0 / 500.0;

/// Follows losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protection {
    loss: f64,
}

impl Protection {
    pub fn on_report(&mut self, report: &PacketReport) {
        let lost = f64::from(u8::from(report.arrived_at.is_none()));
        self.loss += WEIGHT * (lost - self.loss);
    }

    /// What is added at this round trip.
    #[must_use]
    pub fn redundancy(&self, round_trip: Option<Span>) -> Redundancy {
        let (low, high) = ROUND_TRIPS;
        let over = (round_trip.unwrap_or(Span::ZERO) - low).as_secs_f64();
        let place = (over / (high - low).as_secs_f64()).clamp(0.0, 1.0);
        Redundancy { share: (OVER_LOSS * self.loss * place).min(MOST), loss: self.loss }
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
                arrived_at: Some(Time::ZERO).filter(|_| !seq.is_multiple_of(50)),
                ce: false,
            });
        }
        for (millis, share) in [(5, 0.0), (20, 0.0), (60, 0.02), (100, 0.04), (400, 0.04)] {
            let found = protection.redundancy(Some(Span::from_millis(millis)));
            assert!((found.share - share).abs() < 0.002 && (found.loss - 0.02).abs() < 0.001, "{millis} ms: {found:?}");
        }
        protection.loss = 0.9;
        assert!((protection.redundancy(Some(Span::from_secs(1))).share - MOST).abs() < 1e-12);
    }
}
