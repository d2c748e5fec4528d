//! How much may be unacknowledged and how fast packets may leave: laws of congestion control behind one trait.
//!
//! A law sees what acknowledgements teach and answers a window and, where it has one, a pacing rate. It knows nothing of
//! sequence numbers, retransmissions or timers: a bulk sender has those, and a media session brings its own. Laws that set a window
//! (Reno, CUBIC, Vegas, LEDBAT++, Hera) and laws that set a rate (PCC) look the same to their callers: a rate-based law bounds the
//! flight by a window of its own, and learns from [`CongestionLaw::on_packet_acked`] and [`CongestionLaw::on_packet_lost`] what became
//! of the packets that it sent at each rate.

#![forbid(unsafe_code)]

mod bbr;
mod bbr3;
mod copa;
mod cubic;
mod filter;
mod hera;
mod hera_adaptive;
mod hystart;
mod ledbat;
mod pcc;
mod prr;
mod reno;
mod rounds;
mod smoothed;
mod spec;
mod timed_minimum;
mod vegas;

pub use bbr::{BbrMode, BbrV1};
pub use bbr3::{Bbr3Phase, BbrV3};
pub use copa::{Copa, CopaMode};
pub use cubic::{BETA as CUBIC_BETA, Cubic, CubicOptions};
pub use hera::{Hera, HeraOptions, OnLoss, Reading, Step};
pub use hera_adaptive::HeraAdaptive;
pub use ledbat::LedbatPlusPlus;
pub use pcc::{Allegro, Observed, Pcc, Vivace};
pub use reno::Reno;
pub use spec::{LAWS, LawSpec, UnknownLaw};
pub use vegas::Vegas;

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

/// A packet as its sender recorded it when it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentPacket {
    pub sent_at: Time,
    pub size: Bytes,
    /// Sent, neither acknowledged nor counted as lost, this packet included.
    pub in_flight: Bytes,
    /// Counted as lost since it left, itself included where it is.
    pub lost_since: Bytes,
    /// The sender had nothing to send for a part of the time before.
    pub app_limited: bool,
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

/// A law of congestion control. Facts come with non-decreasing `now`.
///
/// Windows and sizes count bytes on IP. Order for one acknowledgement: [`CongestionLaw::on_packet_acked`] and
/// [`CongestionLaw::on_packet_lost`] for each packet that it settles, [`CongestionLaw::on_recovered`] if it ends an episode,
/// [`CongestionLaw::on_loss`] if it begins one, then [`CongestionLaw::on_ack`].
pub trait CongestionLaw: Send {
    /// The name in logs and plans.
    fn name(&self) -> &'static str;

    /// A packet left; `in_flight` includes it.
    fn on_sent(&mut self, _now: Time, _size: Bytes, _in_flight: Bytes) {}

    /// A packet arrived that was not counted as lost. No round trip is known of what was sent more than once.
    fn on_packet_acked(&mut self, _now: Time, _packet: &SentPacket, _round_trip: Option<Span>) {}

    /// A packet counts as lost. It is not told of again should it arrive after all; nor are packets that
    /// [`CongestionLaw::on_timeout`] gives up.
    fn on_packet_lost(&mut self, _now: Time, _packet: &SentPacket) {}

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

impl CongestionLaw for Box<dyn CongestionLaw> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn on_sent(&mut self, now: Time, size: Bytes, in_flight: Bytes) {
        (**self).on_sent(now, size, in_flight);
    }

    fn on_packet_acked(&mut self, now: Time, packet: &SentPacket, round_trip: Option<Span>) {
        (**self).on_packet_acked(now, packet, round_trip);
    }

    fn on_packet_lost(&mut self, now: Time, packet: &SentPacket) {
        (**self).on_packet_lost(now, packet);
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        (**self).on_ack(now, sample);
    }

    fn on_loss(&mut self, now: Time, congestion: &Congestion) {
        (**self).on_loss(now, congestion);
    }

    fn on_recovered(&mut self, now: Time) {
        (**self).on_recovered(now);
    }

    fn on_timeout(&mut self, now: Time, flight: Bytes) {
        (**self).on_timeout(now, flight);
    }

    fn window(&self) -> Bytes {
        (**self).window()
    }

    fn pacing(&self) -> Option<Bitrate> {
        (**self).pacing()
    }

    fn burst(&self) -> Bytes {
        (**self).burst()
    }
}
