//! Constant bit rate over UDP, with pauses.

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::{Arrival, Direction, FlowWake, Schedule, Statistics, Traffic, Transmit};

/// IP and UDP: 20 + 8 bytes (RFC 791, 768).
const HEADERS: Bytes = Bytes::new(28);

/// A flow that reacts to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbrConfig {
    /// Rate while it sends, on IP.
    pub rate: Bitrate,
    /// Size of a packet on IP.
    pub packet: Bytes,
    /// Time that it sends between pauses.
    pub on: Span,
    /// Length of a pause; zero for none.
    pub off: Span,
    pub schedule: Schedule,
}

/// Packets at even distances; each stretch begins with a packet.
#[derive(Debug)]
pub struct Cbr {
    config: CbrConfig,
    /// The stretch of sending that goes on, and its packets so far.
    stretch: Time,
    sent: u64,
    next: Time,
    statistics: Statistics,
}

impl Cbr {
    #[must_use]
    pub fn new(config: CbrConfig) -> Self {
        let packet = config.packet.max(HEADERS + Bytes::new(1));
        let on = config.on.max(Span::from_nanos(1));
        let config = CbrConfig { packet, on, off: config.off.max(Span::ZERO), ..config };
        let begins = config.schedule.begins;
        let next = if config.rate == Bitrate::ZERO { Time::FAR_FUTURE } else { begins };
        Self { config, stretch: begins, sent: 0, next, statistics: Statistics::default() }
    }

    /// Distances are counted from the stretch's beginning, so that no rounding adds up.
    fn advance(&mut self) {
        self.sent += 1;
        let size = Bytes::new(self.config.packet.get().saturating_mul(self.sent));
        let offset = self.config.rate.time_to_send(size);
        if self.config.off > Span::ZERO && offset >= self.config.on {
            self.stretch += self.config.on + self.config.off;
            self.sent = 0;
            self.next = self.stretch;
        } else {
            self.next = self.stretch + offset;
        }
    }
}

impl Traffic for Cbr {
    fn name(&self) -> &'static str {
        "cbr"
    }

    fn on_delivered(&mut self, _now: Time, arrival: Arrival) {
        if arrival.direction == Direction::Forward {
            self.statistics.delivered += arrival.size.saturating_sub(HEADERS);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if now < self.next || !self.config.schedule.contains(self.next) {
            return None;
        }
        let id = self.statistics.packets;
        self.statistics.packets += 1;
        self.advance();
        Some(Transmit { id, direction: Direction::Forward, size: self.config.packet, ecn: false })
    }

    fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        self.config.schedule.contains(self.next).then_some((self.next, FlowWake::Pace))
    }

    fn on_timeout(&mut self, _now: Time) {}

    fn statistics(&self) -> Statistics {
        Statistics { pacing: Some(self.config.rate), ..self.statistics }
    }
}
