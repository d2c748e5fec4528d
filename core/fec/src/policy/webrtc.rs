//! WebRTC's hybrid of retransmission and redundancy.
//!
//! If a retransmission is quick, there is nothing else. The longer the round trip, the more redundancy is added in advance.
//!
//! Source: libwebrtc, `VCMNackFecMethod`. Departures: a linear function of the round trip and twice the share of lost packets replace its
//! tables of protection by loss, rate and round trip. Guess: at 1 % loss and a round trip of 50 ms that is less than the redundancy
//! for a group of pictures, as in Nebula's Figure 13. Fractions of a repair accumulate over frames instead of being rounded up. Losses
//! to a full queue do not count.

use nearlight_units::Span;

use super::{Basis, FrameFacts, Plan, RedundancyPolicy};

/// Round trips below which nothing is added, and from which on everything is (`kLowRttNackMs`; for the second, 100 ms, at which
/// retransmissions are too late for a call).
const ROUND_TRIP_BOUNDS: (Span, Span) = (Span::from_millis(20), Span::from_millis(100));
/// Ratio of redundancy to losses at long round trips. Guess: a burst of two losses in a frame is still repaired.
const REDUNDANCY_PER_LOSS: f64 = 2.0;
/// Maximum share of redundancy (`kProtectionOverheadRateThreshold`).
const MAX_SHARE: f64 = 0.5;

/// The share of redundancy in all bytes sent, at this packet loss: linear in the round trip.
#[must_use]
pub fn webrtc_share(loss: f64, round_trip: Span) -> f64 {
    let (low, high) = ROUND_TRIP_BOUNDS;
    let place = ((round_trip - low).as_secs_f64() / (high - low).as_secs_f64()).clamp(0.0, 1.0);
    (REDUNDANCY_PER_LOSS * loss * place).min(MAX_SHARE)
}

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebRtc {
    /// Accumulated fraction of repairs that are due.
    due: f64,
}

impl RedundancyPolicy for WebRtc {
    fn name(&self) -> String {
        "webrtc".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        let share = webrtc_share(facts.losses.beside_queues(), facts.round_trip);
        self.due += f64::from(facts.sources) * share / (1.0 - share);
        let repairs = self.due.floor();
        self.due -= repairs;
        Plan::simple(Basis::Share, repairs as u16, facts.rounds())
    }
}
