//! The named ways to distribute a frame's packets over time.

use std::fmt;
use std::str::FromStr;

use nearlight_units::Span;
use thiserror::Error;

/// How a frame's packets are distributed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All at once, as soon as the frame is available.
    Burst,
    /// Groups of packets, one group per interval, each as large as the pacing rate allows (WebRTC's method, with 5 ms).
    Interval(Span),
    /// Evenly over the time to the next frame, never above the pacing rate.
    Spread,
    /// Evenly at the pacing rate, a multiple of the target, and faster if earlier frames showed that the path permits it
    /// ([`Headroom`](crate::pace::Headroom)), so that a frame has left well before the next one.
    Compressed,
}

impl Mode {
    /// WebRTC's interval (`burst_time` in draft-ietf-rmcat-gcc-02, section 4).
    pub const DEFAULT_INTERVAL: Span = Span::from_millis(5);

    /// The longest interval that `interval:…` accepts. Guess: beyond it a frame's packets wait longer than any frame lasts.
    const MAX_INTERVAL: Span = Span::from_secs(1);
}

/// The error for a name that is not a pacing mode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a pacing mode: use burst, interval, interval:5ms (from 1us up to 1000ms, such as 5.56ms or 250us), spread or compressed"
)]
pub struct UnknownMode(String);

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Burst => formatter.write_str("burst"),
            Self::Interval(interval) if interval.as_micros() % 1_000 == 0 => {
                write!(formatter, "interval:{}ms", interval.as_micros() / 1_000)
            }
            Self::Interval(interval) => write!(formatter, "interval:{}us", interval.as_micros()),
            Self::Spread => formatter.write_str("spread"),
            Self::Compressed => formatter.write_str("compressed"),
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "burst" => Ok(Self::Burst),
            "interval" => Ok(Self::Interval(Self::DEFAULT_INTERVAL)),
            "spread" => Ok(Self::Spread),
            "compressed" => Ok(Self::Compressed),
            _ => {
                let length = text.strip_prefix("interval:").and_then(parse_length);
                let accepted = length.filter(|&length| length > Span::ZERO && length <= Self::MAX_INTERVAL);
                accepted.map(Self::Interval).ok_or_else(|| UnknownMode(text.to_owned()))
            }
        }
    }
}

fn parse_length(text: &str) -> Option<Span> {
    if let Some(millis) = text.strip_suffix("ms") {
        let millis: f64 = millis.parse().ok().filter(|millis: &f64| (0.0..1e6).contains(millis))?;
        return Some(Span::from_micros((millis * 1e3).round() as i64));
    }
    text.strip_suffix("us")?.parse().ok().map(Span::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_the_mode_that_printed_them() {
        let cases = [
            ("burst", Mode::Burst),
            ("interval:5ms", Mode::Interval(Span::from_millis(5))),
            ("interval:1000ms", Mode::Interval(Span::from_secs(1))),
            ("interval:2500us", Mode::Interval(Span::from_micros(2_500))),
            ("spread", Mode::Spread),
            ("compressed", Mode::Compressed),
        ];
        for (name, mode) in cases {
            assert_eq!(name.parse(), Ok(mode));
            assert_eq!(mode.to_string(), name);
        }
        assert_eq!("interval".parse(), Ok(Mode::Interval(Mode::DEFAULT_INTERVAL)));
        assert_eq!("interval:5.56ms".parse(), Ok(Mode::Interval(Span::from_micros(5_560))));
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        for wrong in [
            "",
            "Burst",
            "interval:",
            "interval:0ms",
            "interval:-5ms",
            "interval:5",
            "interval:1001ms",
            "interval:NaNms",
            "even",
        ] {
            let error = wrong.parse::<Mode>().expect_err(wrong).to_string();
            assert!(error.contains("burst, interval, interval:5ms"), "{error}");
            assert!(error.contains("spread or compressed"), "{error}");
        }
    }
}
