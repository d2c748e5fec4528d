//! Points in time, on the local clock or the peer's.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use crate::Span;

macro_rules! clock {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The clock's origin.
            pub const ZERO: Self = Self(0);
            /// Later than any moment a run reaches: the neutral element of a minimum.
            pub const FAR_FUTURE: Self = Self(u64::MAX);

            #[must_use]
            #[inline]
            pub const fn from_nanos(nanos: u64) -> Self {
                Self(nanos)
            }

            #[must_use]
            #[inline]
            pub const fn from_micros(micros: u64) -> Self {
                Self(micros.saturating_mul(1_000))
            }

            #[must_use]
            #[inline]
            pub const fn from_millis(millis: u64) -> Self {
                Self(millis.saturating_mul(1_000_000))
            }

            #[must_use]
            #[inline]
            pub const fn from_secs(secs: u64) -> Self {
                Self(secs.saturating_mul(1_000_000_000))
            }

            #[must_use]
            #[inline]
            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            #[must_use]
            #[inline]
            pub const fn as_micros(self) -> u64 {
                self.0 / 1_000
            }

            #[must_use]
            #[inline]
            pub fn as_secs_f64(self) -> f64 {
                self.0 as f64 / 1e9
            }

            /// `self - earlier`, or zero if `earlier` is later.
            #[must_use]
            #[inline]
            pub fn saturating_since(self, earlier: Self) -> Span {
                (self - earlier).max(Span::ZERO)
            }
        }

        impl Add<Span> for $name {
            type Output = Self;

            /// Saturates at the origin and at the far future.
            #[inline]
            fn add(self, span: Span) -> Self {
                Self(self.0.saturating_add_signed(span.as_nanos()))
            }
        }

        impl AddAssign<Span> for $name {
            #[inline]
            fn add_assign(&mut self, span: Span) {
                *self = *self + span;
            }
        }

        impl Sub<Span> for $name {
            type Output = Self;

            #[inline]
            fn sub(self, span: Span) -> Self {
                self + -span
            }
        }

        impl Sub for $name {
            type Output = Span;

            #[inline]
            fn sub(self, earlier: Self) -> Span {
                difference(self.0, earlier.0)
            }
        }
    };
}

clock! {
    /// A moment on this machine's clock, in nanoseconds since an origin that the driver chose.
    Time
}

clock! {
    /// A moment on the other end's clock, in nanoseconds since an origin that is not known here.
    ///
    /// Two of them may be compared and subtracted. They cannot be compared with a [`Time`]: `session::ClockEstimate` maps one clock
    /// onto the other.
    RemoteTime
}

impl Time {
    /// This moment as the receiver of a message sees it: every message carries its sender's clock.
    #[must_use]
    #[inline]
    pub const fn for_peer(self) -> RemoteTime {
        RemoteTime(self.0)
    }

    /// This clock's reading minus the other's: the time from `remote` to here plus the unknown offset of the clocks. The difference of two
    /// such values is a length of time, as far as the clocks do not drift.
    #[must_use]
    #[inline]
    pub fn ahead_of(self, remote: RemoteTime) -> Span {
        difference(self.0, remote.0)
    }
}

impl RemoteTime {
    /// Converts a moment of this clock that the peer has copied into its answer.
    #[must_use]
    #[inline]
    pub const fn echoed(self) -> Time {
        Time(self.0)
    }

    /// Converts the moment when both ends read one clock, as in virtual time or on one machine.
    #[must_use]
    #[inline]
    pub const fn on_shared_clock(self) -> Time {
        Time(self.0)
    }

    /// The time at which this clock is `ahead` of the moment: the inverse of [`Time::ahead_of`].
    #[must_use]
    #[inline]
    pub fn passed_by(self, ahead: Span) -> Time {
        Time(self.0) + ahead
    }

    /// The other clock's reading minus this one's: the negation of [`Time::ahead_of`].
    #[must_use]
    #[inline]
    pub fn ahead_of(self, local: Time) -> Span {
        difference(self.0, local.0)
    }
}

fn difference(later: u64, earlier: u64) -> Span {
    let difference = i128::from(later) - i128::from(earlier);
    Span::from_nanos(difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::ZERO - Span::from_secs(1), Time::ZERO);
        assert_eq!(Time::FAR_FUTURE + Span::from_secs(1), Time::FAR_FUTURE);
        assert_eq!(Time::from_millis(3) - Time::from_millis(5), Span::from_millis(-2));
        assert_eq!(Time::from_millis(3).saturating_since(Time::from_millis(5)), Span::ZERO);
    }

    #[test]
    fn readings_of_two_clocks_differ_by_delay_and_offset() {
        let (offset, delay) = (Span::from_secs(-3), Span::from_millis(20));
        let sent_at = Time::from_secs(10);
        let arrived_at = (sent_at + delay + offset).for_peer();
        assert_eq!(arrived_at.ahead_of(sent_at), delay + offset);
        assert_eq!(sent_at.ahead_of(arrived_at), -(delay + offset));
        assert_eq!(arrived_at.passed_by(-(delay + offset)), sent_at);
        assert_eq!(RemoteTime::FAR_FUTURE.ahead_of(Time::ZERO), Span::MAX);
    }

    #[test]
    fn both_clocks_are_written_alike() {
        let text = serde_json::to_string(&(Time::from_micros(7), RemoteTime::from_micros(7))).expect("plain numbers");
        assert_eq!(text, "[7000,7000]");
    }
}
