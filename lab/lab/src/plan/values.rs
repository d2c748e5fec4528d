//! Quantities in plans: a number and its unit, as in paths.

use std::fmt;

use nearlight_units::{Bitrate, Bytes, Span};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let scale = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?.1;
    let value = number.trim().parse::<f64>().ok()? * scale;
    (0.0..=1e18).contains(&value).then_some(value)
}

/// Parses a time such as `480s` or `10ms`.
pub(crate) fn span(text: &str) -> Option<Span> {
    let nanos = quantity(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)])?;
    Some(Span::from_nanos(nanos.round() as i64))
}

fn rate(text: &str) -> Option<Bitrate> {
    let bits = quantity(text, &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)])?;
    Some(Bitrate::from_bps(bits.round() as u64))
}

fn size(text: &str) -> Option<Bytes> {
    let units = [("b", 1.0), ("kb", 1e3), ("mb", 1e6), ("kib", 1024.0), ("mib", 1_048_576.0)];
    quantity(text, &units).map(|bytes| Bytes::new(bytes.round() as u64))
}

macro_rules! written {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $parse:path, $form:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($form)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        $parse(text).map($name).ok_or_else(|| E::custom(format!("`{text}` cannot be used; write {}", $form)))
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

written!(
    /// A length of time in a plan.
    Length, Span, span, "a time with ns, us, ms, s or min, such as \"480s\""
);
written!(
    /// A rate in a plan.
    Rate, Bitrate, rate, "a rate with bit, kbit, mbit or gbit, such as \"35mbit\""
);
written!(
    /// A number of bytes in a plan.
    Size, Bytes, size, "a size with b, kb, mb, kib or mib, such as \"30kb\""
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_what_they_mean_in_paths() {
        assert_eq!(span("480s"), Some(Span::from_secs(480)));
        assert_eq!(span("1.5 ms"), Some(Span::from_micros(1_500)));
        assert_eq!(rate("35mbit"), Some(Bitrate::from_mbps(35)));
        assert_eq!(size("30kb"), Some(Bytes::new(30_000)));
        for wrong in ["", "10", "ms", "-1ms", "10 parsecs", "nans", "1e99s"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
