//! Congestion control: how many bytes may be unacknowledged and how fast packets may leave. Each law implements one trait.
//!
//! A law is told of acknowledgements and returns a window and, if it has one, a pacing rate. It does not know
//! sequence numbers, retransmissions or timers: a bulk sender has those, and a media session brings its own. Laws that set a window
//! (Reno, CUBIC, Vegas, LEDBAT++, Hera) and laws that set a rate (PCC) look the same to their callers: a rate-based law bounds the
//! flight by a window of its own, and learns from [`CongestionLaw::on_packet_acked`] and [`CongestionLaw::on_packet_lost`] the fate
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
mod spec;
mod timed_minimum;
mod vegas;

pub use bbr::{BbrMode, BbrV1};
pub use bbr3::{Bbr3Phase, BbrV3};
pub use copa::{Copa, CopaMode};
pub use cubic::{BETA as CUBIC_BETA, Cubic, CubicOptions};
pub use hera::{Hera, HeraOptions, LossResponse, Reading, Step};
pub use hera_adaptive::HeraAdaptive;
pub use ledbat::LedbatPlusPlus;
pub use pcc::{Allegro, IntervalResult, Pcc, Vivace};
pub use reno::Reno;
pub use spec::{LAWS, LawSpec, UnknownLaw};
pub use vegas::Vegas;

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// The initial window in packets (RFC 6928).
pub const INITIAL_WINDOW: u64 = 10;

/// The path's delivery rate between the sending and the acknowledgement of one packet
/// (draft-cheng-iccrg-delivery-rate-estimation-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRate {
    pub rate: Bitrate,
    /// Whether the sender had nothing to send for a part of the time, so that the path may carry more.
    pub app_limited: bool,
}

/// The result of an acknowledgement, after losses have been detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Newly acknowledged bytes, selectively or not.
    pub acked: Bytes,
    /// Bytes newly counted as lost.
    pub lost: Bytes,
    /// Bytes sent and neither acknowledged nor counted as lost, before this acknowledgement.
    pub in_flight_before: Bytes,
    /// Bytes sent and neither acknowledged nor counted as lost, after this acknowledgement.
    pub in_flight: Bytes,
    /// All bytes acknowledged since the start.
    pub delivered: Bytes,
    /// `delivered` when the newest of the acknowledged packets was sent.
    pub delivered_when_sent: Bytes,
    /// Round trip of the newest acknowledged packet. None if it was sent more than once.
    pub round_trip: Option<Span>,
    /// The delivery rate. None if the sample spans less than the shortest round trip.
    pub delivery: Option<DeliveryRate>,
    /// Whether the window held the sender back, and not the application or the receiver.
    pub window_limited: bool,
    /// Whether the receiver echoed congestion marks (ECE, RFC 3168).
    pub marked: bool,
}

/// A packet as its sender recorded it when it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentPacket {
    pub sent_at: Time,
    pub size: Bytes,
    /// Bytes sent and neither acknowledged nor counted as lost, this packet included.
    pub in_flight: Bytes,
    /// Bytes counted as lost since it left, including itself if it was lost.
    pub lost_since: Bytes,
    /// Whether the sender had nothing to send for a part of the time before.
    pub app_limited: bool,
}

/// The signal that showed congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Loss,
    /// An ECN mark.
    Mark,
}

/// Congestion, signalled at most once per window of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    pub cause: Cause,
    /// Bytes in flight when the loss was detected, including the lost packets (RFC 5681's `FlightSize`).
    pub flight: Bytes,
    /// Bytes in flight without the lost packets.
    pub in_flight: Bytes,
}

/// A congestion control law. Facts come with non-decreasing `now`.
///
/// Windows and sizes count bytes including IP headers. Order of calls for one acknowledgement: [`CongestionLaw::on_packet_acked`] and
/// [`CongestionLaw::on_packet_lost`] for each packet that it settles, [`CongestionLaw::on_recovered`] if it ends an episode,
/// [`CongestionLaw::on_loss`] if it begins one, then [`CongestionLaw::on_ack`].
pub trait CongestionLaw: Send {
    /// The name in logs and plans.
    fn name(&self) -> &'static str;

    /// Handles a sent packet. `in_flight` includes it.
    fn on_sent(&mut self, _now: Time, _size: Bytes, _in_flight: Bytes) {}

    /// Handles an arrived packet that was not counted as lost. There is no round trip for packets sent more than once.
    fn on_packet_acked(&mut self, _now: Time, _packet: &SentPacket, _round_trip: Option<Span>) {}

    /// Handles a packet that counts as lost. It is not reported again if it arrives after all, and packets that
    /// [`CongestionLaw::on_timeout`] discards are not reported either.
    fn on_packet_lost(&mut self, _now: Time, _packet: &SentPacket) {}

    fn on_ack(&mut self, now: Time, sample: &AckSample);

    /// Handles the beginning of an episode of congestion. Losses of packets sent before it ended belong to it.
    fn on_loss(&mut self, now: Time, congestion: &Congestion);

    /// Handles the end of an episode: all packets in flight when it began are acknowledged.
    fn on_recovered(&mut self, now: Time);

    /// Handles a time-out: nothing was acknowledged for a retransmission time-out, and all of `flight` counts as lost.
    fn on_timeout(&mut self, now: Time, flight: Bytes);

    /// Bytes that may be in flight.
    fn window(&self) -> Bytes;

    /// The pacing rate. None if acknowledgements alone clock the packets.
    fn pacing(&self) -> Option<Bitrate> {
        None
    }

    /// Bytes that may leave at once when the pacing rate allows anything, at least one packet.
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
