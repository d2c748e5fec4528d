//! WebRTC's hybrid of retransmission and redundancy.
//!
//! Where a retransmission is quick it is all that there is; the longer the round trip, the more is added in advance.
//!
//! Source: libwebrtc, `VCMNackFecMethod`. Departures: its tables of protection by loss, rate and round trip are replaced by a line of
//! the round trip and twice the share of lost packets. Guess: at 1 % loss and a round trip of 50 ms that is less than what redundancy
//! for a group of pictures takes, as in Nebula's Figure 13. Parts of a repair add up over frames instead of being rounded up. Losses
//! to a full queue do not count.

use nearlight_units::Span;

use super::{Basis, FrameFacts, Plan, RedundancyPolicy};

/// Below the first, nothing is added; from the second on, all (`kLowRttNackMs`; for the second, 100 ms, at which
/// retransmissions are too late for a call).
const ROUND_TRIPS: (Span, Span) = (Span::from_millis(20), Span::from_millis(100));
/// Redundancy over losses at long round trips. Guess: a burst of two losses in a frame is still repaired.
const OVER_LOSS: f64 = 2.0;
/// Redundancy never takes more (`kProtectionOverheadRateThreshold`).
const MOST: f64 = 0.5;

/// The share of redundancy in all bytes sent, at this packet loss: linear in the round trip.
#[must_use]
pub fn webrtc_share(loss: f64, round_trip: Span) -> f64 {
    let (low, high) = ROUND_TRIPS;
    let place = ((round_trip - low).as_secs_f64() / (high - low).as_secs_f64()).clamp(0.0, 1.0);
    (OVER_LOSS * loss * place).min(MOST)
}

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebRtc {
    /// Repairs that are due, in parts of one.
    owed: f64,
}

impl RedundancyPolicy for WebRtc {
    fn name(&self) -> String {
        "webrtc".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        let share = webrtc_share(facts.losses.beside_queues(), facts.round_trip);
        self.owed += f64::from(facts.sources) * share / (1.0 - share);
        let repairs = self.owed.floor();
        self.owed -= repairs;
        Plan::simple(Basis::Share, repairs as u16, facts.rounds())
    }
}
