//! Enforces a congestion window: how much may be in flight before media waits for feedback.

use nearlight_rate::{InFlight, SentPacket};
use nearlight_units::{Bytes, PacketSeq, Span, Time};

/// After this time without feedback everything in flight counts as lost, so that another window may leave. Controllers use the same limit
/// for silence.
const FEEDBACK_TIMEOUT: Span = Span::from_millis(500);

#[derive(Debug)]
pub(crate) struct WindowGate {
    in_flight: InFlight,
    /// When the last feedback arrived, or when the first packet left for which none has.
    last_feedback_at: Time,
}

impl WindowGate {
    pub(crate) fn new(now: Time) -> Self {
        Self { in_flight: InFlight::default(), last_feedback_at: now }
    }

    pub(crate) fn on_sent(&mut self, packet: &SentPacket) {
        if self.in_flight.bytes() == Bytes::ZERO {
            self.last_feedback_at = packet.sent_at;
        }
        self.in_flight.on_packet_sent(packet);
    }

    /// Handles feedback that covers packets up to this one.
    pub(crate) fn on_feedback(&mut self, now: Time, newest: PacketSeq) {
        self.in_flight.on_reported(newest);
        self.last_feedback_at = now;
    }

    /// Until when media waits at most. None if it may leave.
    pub(crate) fn closed_until(&self, window: Option<Bytes>) -> Option<Time> {
        window.filter(|window| self.in_flight.bytes() >= *window).map(|_| self.last_feedback_at + FEEDBACK_TIMEOUT)
    }

    /// Whether media may leave now.
    pub(crate) fn is_open(&mut self, now: Time, window: Option<Bytes>) -> bool {
        match self.closed_until(window) {
            Some(until) if now < until => false,
            Some(_) => {
                self.in_flight.forget();
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u32, at: u64) -> SentPacket {
        let (seq, sent_at, size) = (PacketSeq(seq), Time::from_millis(at), Bytes::new(1_000));
        SentPacket { seq, sent_at, size, frame: None, probe: None, app_limited: false }
    }

    #[test]
    fn a_full_window_waits_for_feedback_or_half_a_second() {
        let window = Some(Bytes::new(3_000));
        let mut gate = WindowGate::new(Time::ZERO);
        for seq in 0..3 {
            assert!(gate.is_open(Time::from_millis(10), window), "{seq}");
            gate.on_sent(&packet(seq, 10));
        }
        assert!(!gate.is_open(Time::from_millis(11), window));
        assert!(gate.is_open(Time::from_millis(11), None), "controllers without a window are not held");
        gate.on_feedback(Time::from_millis(30), PacketSeq(0));
        assert!(gate.is_open(Time::from_millis(30), window));
        gate.on_sent(&packet(3, 30));
        assert_eq!(gate.closed_until(window), Some(Time::from_millis(530)));
        assert!(!gate.is_open(Time::from_millis(529), window));
        assert!(gate.is_open(Time::from_millis(530), window), "what was under way is lost by now");
        gate.on_sent(&packet(4, 530));
        assert!(gate.is_open(Time::from_millis(530), window), "and a whole window may leave again");
    }
}
