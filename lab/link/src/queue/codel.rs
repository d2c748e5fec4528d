//! `CoDel`, controlled delay, after RFC 8289 section 5.
//!
//! Departures
//! - A packet that can carry a mark is marked instead of dropped (RFC 8289 section 3 allows it) and leaves at once.

use nearlight_units::{Bytes, Span, Time};

use super::{FULL_PACKET, Verdict};

/// `CoDel`'s two constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// `TARGET`, the acceptable standing queue delay.
    pub target: Span,
    /// `INTERVAL`, how long the delay may stay above the target: roughly one round trip.
    pub interval: Span,
}

impl Default for CoDel {
    /// RFC 8289 sections 4.2 and 4.3.
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100) }
    }
}

#[derive(Clone, Debug)]
pub(super) struct State {
    config: CoDel,
    /// `first_above_time_`: when the delay will have been above the target for an interval.
    above_until: Option<Time>,
    /// `dropping_`
    dropping: bool,
    /// `drop_next_`
    next_drop: Time,
    /// `count_`: drops since dropping began.
    count: u32,
    /// `lastcount_`: `count` when dropping began.
    last_count: u32,
    /// A drop in the dropping state; the next packet determines the time of the next drop.
    dropped: bool,
}

impl State {
    pub(super) fn new(config: CoDel) -> Self {
        Self {
            config,
            above_until: None,
            dropping: false,
            next_drop: Time::ZERO,
            count: 0,
            last_count: 0,
            dropped: false,
        }
    }

    /// The queue has nothing to send.
    pub(super) fn on_empty(&mut self) {
        self.above_until = None;
        self.dropping = false;
        self.dropped = false;
    }

    /// A packet has reached the head after `sojourn`, with `left` bytes behind it. After [`Verdict::Signal`] on a packet that is
    /// dropped, call this for the next packet at the same `now`.
    pub(super) fn on_departure(&mut self, now: Time, sojourn: Span, left: Bytes) -> Verdict {
        let dropped = std::mem::take(&mut self.dropped);
        if !self.is_late(now, sojourn, left) {
            self.dropping = false;
            return Verdict::Pass;
        }
        if self.dropping {
            if dropped {
                self.next_drop = self.after(self.next_drop);
            }
            if now < self.next_drop {
                return Verdict::Pass;
            }
            self.count += 1;
            self.dropped = true;
            return Verdict::Signal;
        }
        self.begin(now);
        Verdict::Signal
    }

    /// `ok_to_drop`
    fn is_late(&mut self, now: Time, sojourn: Span, left: Bytes) -> bool {
        if sojourn < self.config.target || left <= FULL_PACKET {
            self.above_until = None;
            return false;
        }
        let above_until = *self.above_until.get_or_insert(now + self.config.interval);
        now >= above_until
    }

    fn begin(&mut self, now: Time) {
        self.dropping = true;
        let recent = now - self.next_drop < self.config.interval * 16;
        let delta = self.count - self.last_count;
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.next_drop = self.after(now);
    }

    /// `control_law`
    fn after(&self, from: Time) -> Time {
        from + self.config.interval.mul_f64(1.0 / f64::from(self.count).sqrt())
    }
}
