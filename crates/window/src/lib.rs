//! How much may be unacknowledged and how fast packets may leave: congestion-window laws behind one trait.
//!
//! A law sees what acknowledgements teach and answers a window and, where it has one, a pacing rate. It knows nothing of
//! sequence numbers, retransmissions or timers: a bulk sender has those, and a media session brings its own.

#![forbid(unsafe_code)]

mod bbr;
mod cubic;
mod filter;
mod hystart;
mod prr;
mod reno;
mod rounds;

pub use bbr::{BbrMode, BbrV1};
pub use cubic::{Cubic, CubicOptions};
pub use reno::Reno;

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// The window before anything is known, in packets (RFC 6928).
pub const INITIAL_WINDOW: u64 = 10;

/// How fast the path delivered between the sending and the acknowledgement of one packet
/// (draft-cheng-iccrg-delivery-rate-estimation-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRate {
    pub rate: Bitrate,
    /// The sender had nothing to send for a part of the time: the path may carry more.
    pub app_limited: bool,
}

/// What an acknowledgement teaches, after losses have been detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Newly acknowledged, selectively or not.
    pub acked: Bytes,
    /// Newly counted as lost.
    pub lost: Bytes,
    /// Sent, neither acknowledged nor counted as lost, before this acknowledgement.
    pub in_flight_before: Bytes,
    /// The same after it.
    pub in_flight: Bytes,
    /// All bytes ever acknowledged.
    pub delivered: Bytes,
    /// `delivered` when the newest of the acknowledged packets was sent.
    pub delivered_when_sent: Bytes,
    /// Of the newest acknowledged packet; None where it was sent more than once.
    pub round_trip: Option<Span>,
    /// None where the sample spans less than the shortest round trip.
    pub delivery: Option<DeliveryRate>,
    /// The window, not the application or the receiver, held the sender back.
    pub window_limited: bool,
    /// The receiver echoed congestion marks (ECE, RFC 3168).
    pub marked: bool,
}

/// What told of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Loss,
    /// An ECN mark.
    Mark,
}

/// Congestion, at most once per window of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    pub cause: Cause,
    /// In flight when the loss was seen, the lost packets included (RFC 5681's `FlightSize`).
    pub flight: Bytes,
    /// The same without the lost ones.
    pub in_flight: Bytes,
}

/// A congestion-window law. Facts come with non-decreasing `now`.
///
/// Windows and sizes count bytes on IP. Order for one acknowledgement: [`WindowLaw::on_recovered`] if it ends an episode,
/// [`WindowLaw::on_loss`] if it begins one, then [`WindowLaw::on_ack`].
pub trait WindowLaw: Send {
    /// The name in logs and plans.
    fn name(&self) -> &'static str;

    /// A packet left; `in_flight` includes it.
    fn on_sent(&mut self, _now: Time, _size: Bytes, _in_flight: Bytes) {}

    fn on_ack(&mut self, now: Time, sample: &AckSample);

    /// An episode of congestion begins. Losses of packets sent before it ended belong to it.
    fn on_loss(&mut self, now: Time, congestion: &Congestion);

    /// All packets that were out when the episode began are acknowledged.
    fn on_recovered(&mut self, now: Time);

    /// Nothing was acknowledged for a whole retransmission time-out: all of `flight` counts as lost.
    fn on_timeout(&mut self, now: Time, flight: Bytes);

    /// Bytes that may be in flight.
    fn window(&self) -> Bytes;

    /// How fast packets may leave; None where acknowledgements alone clock them.
    fn pacing(&self) -> Option<Bitrate> {
        None
    }

    /// What may leave at once when the pacing rate allows anything, at least one packet.
    fn burst(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// The laws that competing flows are made with, by name.
pub const LAWS: [&str; 3] = ["reno", "cubic", "bbr"];

/// The law of that name before its first packet; None for a name not in [`LAWS`]. The seed decides where BBR's probing begins.
#[must_use]
pub fn new_law(name: &str, packet: Bytes, seed: u64) -> Option<Box<dyn WindowLaw>> {
    match name {
        "reno" => Some(Box::new(Reno::new(packet))),
        "cubic" => Some(Box::new(Cubic::new(packet, CubicOptions::default()))),
        "bbr" => Some(Box::new(BbrV1::new(packet, seed))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_law_of_that_name() {
        for name in LAWS {
            let law = new_law(name, Bytes::new(1_500), 1).expect(name);
            assert_eq!(law.name(), name);
            assert_eq!(law.window(), Bytes::new(15_000));
        }
        assert!(new_law("vegas", Bytes::new(1_500), 1).is_none());
    }
}
