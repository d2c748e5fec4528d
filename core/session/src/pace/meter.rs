//! A leaky bucket in exact integers.

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// The weight of one bit, chosen so that a rate in bits per second times a span in nanoseconds is a whole number.
const BIT: i128 = 1_000_000_000;

/// Counts sent bytes against the bytes that the rate has allowed since.
///
/// The level rises with each packet and falls at the rate; a packet may leave while the level is not above zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    /// The level in billionths of a bit. Negative values are credit.
    level: i128,
    rate: Bitrate,
    at: Time,
}

impl Meter {
    pub(crate) fn new(now: Time, rate: Bitrate) -> Self {
        Self { level: 0, rate, at: now }
    }

    /// The time up to which the meter has advanced.
    pub(crate) fn at(&self) -> Time {
        self.at
    }

    /// Advances the meter. Credit beyond `credit`'s worth is lost.
    pub(crate) fn on_time(&mut self, now: Time, credit: Span) {
        let passed = now.saturating_since(self.at);
        self.level = (self.level - amount(self.rate, passed)).max(-amount(self.rate, credit));
        self.at = self.at.max(now);
    }

    pub(crate) fn set_rate(&mut self, rate: Bitrate) {
        self.rate = rate;
    }

    /// Grants a new interval's worth in advance. Credit left over from an earlier one is lost; its debt remains.
    pub(crate) fn begin_interval(&mut self, now: Time, interval: Span) {
        let unpaid = now.saturating_since(self.at + interval);
        self.level = (self.level - amount(self.rate, unpaid)).max(0) - amount(self.rate, interval);
        self.at = self.at.max(now);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.level <= 0
    }

    pub(crate) fn on_sent(&mut self, size: Bytes) {
        self.level += i128::from(size.bits()) * BIT;
    }

    /// Accounts for a packet that left without waiting: it adds debt, up to `limit`'s worth.
    pub(crate) fn on_sent_ahead(&mut self, size: Bytes, limit: Span) {
        let limit = amount(self.rate, limit).max(self.level);
        self.on_sent(size);
        self.level = self.level.min(limit);
    }

    /// Whether credit granted in advance is left.
    pub(crate) fn has_credit(&self) -> bool {
        self.level < 0
    }

    /// The start of the interval that brings the level below zero.
    pub(crate) fn earns_credit_at(&self, interval: Span) -> Time {
        if self.has_credit() {
            return self.at;
        }
        let grant = amount(self.rate, interval);
        if grant == 0 {
            return Time::FAR_FUTURE;
        }
        let intervals = i64::try_from(self.level / grant + 1).unwrap_or(i64::MAX);
        self.at + interval * intervals
    }

    /// When the level will be back at zero.
    pub(crate) fn opens_at(&self) -> Time {
        if self.is_open() {
            return self.at;
        }
        let rate = i128::from(self.rate.as_bps());
        if rate == 0 {
            return Time::FAR_FUTURE;
        }
        let wait = (self.level + rate - 1) / rate;
        self.at + i64::try_from(wait).map_or(Span::MAX, Span::from_nanos)
    }
}

fn amount(rate: Bitrate, span: Span) -> i128 {
    i128::from(rate.as_bps()) * i128::from(span.as_nanos().max(0))
}
