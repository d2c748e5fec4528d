//! The quantities of all crates, and how they lock. A unit is a type and never a suffix of a name.
//!
//! All are plain integers inside, so results do not depend on a platform's floating point.

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

mod buckets;
mod lock;
mod smoothing;
mod time;

pub use buckets::{Bucket, Buckets};
pub use lock::lock;
pub use smoothing::{smoothed, smoothed_deviation, smoothed_to_nearest};
pub use time::{RemoteTime, Time};

/// A signed length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(i64);

impl Span {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    #[must_use]
    #[inline]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    #[must_use]
    #[inline]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    #[must_use]
    #[inline]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Converts seconds, rounded to the nearest nanosecond. NaN becomes zero; other values saturate.
    #[must_use]
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as i64)
    }

    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> i64 {
        self.0 / 1_000
    }

    #[must_use]
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    #[must_use]
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span times `factor`, rounded to the nearest nanosecond.
    #[must_use]
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as i64)
    }

    #[must_use]
    #[inline]
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }
}

impl Add for Span {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Span {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl std::ops::Mul<i64> for Span {
    type Output = Self;

    #[inline]
    fn mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl std::ops::Div<i64> for Span {
    type Output = Self;

    #[inline]
    fn div(self, divisor: i64) -> Self {
        Self(self.0 / divisor)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3} ms", self.as_millis_f64())
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Self = Self(0);

    #[must_use]
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }

    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The mean rate of this many bytes over `span`. Zero if `span` is not positive.
    #[must_use]
    #[inline]
    pub fn over(self, span: Span) -> Bitrate {
        if span <= Span::ZERO {
            return Bitrate::ZERO;
        }
        let rate = u128::from(self.bits()) * 1_000_000_000 / span.as_nanos() as u128;
        Bitrate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl Add for Bytes {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Bytes {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bitrate(u64);

impl Bitrate {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    #[must_use]
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    #[must_use]
    #[inline]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1_000))
    }

    #[must_use]
    #[inline]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    #[must_use]
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    #[must_use]
    #[inline]
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The rate times `factor`. Negative results and NaN become zero.
    #[must_use]
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }

    /// The time that `bytes` take at this rate. The maximum span for a rate of zero.
    #[must_use]
    #[inline]
    pub fn time_to_send(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let nanos = u128::from(bytes.bits()) * 1_000_000_000 / u128::from(self.0);
        Span(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// The bytes that fit into `span` at this rate. Zero for a negative span.
    #[must_use]
    #[inline]
    pub fn bytes_in(self, span: Span) -> Bytes {
        let nanos = span.as_nanos().max(0) as u128;
        let bytes = u128::from(self.0) * nanos / 8_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Add for Bitrate {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.2} Mb/s", self.as_mbps_f64())
    }
}

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The next number.
            #[must_use]
            #[inline]
            pub const fn next(self) -> Self {
                Self(self.0.wrapping_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

serial_number! {
    /// A frame of one session, counted from 0. At 240 frames a second it lasts 207 days, so it never wraps in a session.
    FrameId
}
serial_number! {
    /// An input sample of one client, counted from 1; 0 means that no input has arrived yet.
    InputSeq
}
serial_number! {
    /// A datagram that carries media, counted from 0 in sending order, retransmissions included.
    ///
    /// At 100 Mb/s of 1,200-byte datagrams it lasts 114 hours; a session ends before it would wrap.
    PacketSeq
}

serial_number! {
    /// Ten milliseconds of sound, counted on the server's clock: block 0 began when that clock stood at zero. Lasts 497 days.
    BlockId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_sizes_and_spans_agree() {
        let rate = Bitrate::from_mbps(100);
        assert_eq!(rate.time_to_send(Bytes::new(1_200)), Span::from_micros(96));
        assert_eq!(rate.bytes_in(Span::from_micros(96)), Bytes::new(1_200));
        assert_eq!(Bytes::new(1_200).over(Span::from_micros(96)), rate);
        assert_eq!(Bitrate::ZERO.time_to_send(Bytes::new(1)), Span::MAX);
        assert_eq!(Bytes::new(1).over(Span::ZERO), Bitrate::ZERO);
    }
}
