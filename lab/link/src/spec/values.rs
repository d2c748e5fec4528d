//! How values are written in a path's text, and read back.

use std::fmt;

use nearlight_units::{Bitrate, Bytes, Span};

use crate::outage::Window;
use crate::queue::Limit;
use crate::random::Probability;

/// Parts of a value, whichever separator the writer chose.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(['/', ',']).map(str::trim)
}

/// A number and its unit, scaled by the unit and rounded; None for anything else and for values beyond 2^63.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    const MAX_QUANTITY: f64 = 9.2e18;
    let split = text.find(|symbol: char| symbol.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let scale = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?.1;
    let value = number.parse::<f64>().ok()? * scale;
    (0.0..=MAX_QUANTITY).contains(&value).then_some(value.round() as u64)
}

pub(super) fn rate(text: &str) -> Option<Bitrate> {
    let bits = quantity(text, &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)])?;
    Some(Bitrate::from_bps(bits))
}

pub(super) fn span(text: &str) -> Option<Span> {
    let nanos = quantity(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)])?;
    i64::try_from(nanos).ok().map(Span::from_nanos)
}

pub(super) fn bytes(text: &str) -> Option<Bytes> {
    let units = [("b", 1.0), ("kb", 1e3), ("mb", 1e6), ("kib", 1024.0), ("mib", 1_048_576.0)];
    quantity(text, &units).map(Bytes::new)
}

pub(super) fn probability(text: &str) -> Option<Probability> {
    text.parse().ok()
}

pub(super) fn limit(text: &str) -> Option<Limit> {
    if text.eq_ignore_ascii_case("unlimited") {
        return Some(Limit::Unlimited);
    }
    if let Some(packets) = text.strip_suffix('p') {
        return packets.trim().parse().ok().map(Limit::Packets);
    }
    span(text).map(Limit::Time).or_else(|| bytes(text).map(Limit::Bytes))
}

/// `START+LENGTH`, or `START+LENGTH@PERIOD`.
pub(super) fn window(text: &str) -> Option<Window> {
    let (once, every) = match text.split_once('@') {
        Some((once, every)) => (once, Some(span(every)?)),
        None => (text, None),
    };
    let (start, length) = once.split_once('+')?;
    let window = Window { start: span(start)?, length: span(length)?, every };
    // An outage longer than its period would never end.
    every.is_none_or(|every| every > window.length).then_some(window)
}

/// `RATE`, then `RATE@START`: ascending starts, the first one 0.
pub(super) fn steps(text: &str) -> Option<Vec<(Span, Bitrate)>> {
    let step = |text: &str| match text.split_once('@') {
        Some((value, start)) => Some((span(start)?, rate(value)?)),
        None => Some((Span::ZERO, rate(text)?)),
    };
    parts(text).map(step).collect()
}

/// `SHARE:DELAY` points of a distribution: at least two, both ascending, the last share 100 %.
pub(super) fn quantiles(text: &str) -> Option<Vec<(f64, Span)>> {
    let point = |text: &str| {
        let (share, delay) = text.split_once(':')?;
        Some((probability(share)?.fraction(), span(delay)?))
    };
    let points: Vec<(f64, Span)> = parts(text).map(point).collect::<Option<_>>()?;
    let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let complete = points.len() >= 2 && points.last().is_some_and(|last| last.0 >= 1.0);
    (ascending && complete).then_some(points)
}

/// A value as it would be written.
pub(super) struct Notation<T>(pub T);

/// The largest unit in which the value is an integer.
fn write_in(formatter: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let (scale, unit) = units.iter().find(|(scale, _)| value.is_multiple_of(*scale)).unwrap_or(&units[units.len() - 1]);
    write!(formatter, "{}{unit}", value / scale)
}

impl fmt::Display for Notation<Bitrate> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")];
        write_in(formatter, self.0.as_bps(), if self.0 == Bitrate::ZERO { &units[3..] } else { &units })
    }
}

impl fmt::Display for Notation<Span> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        write_in(formatter, self.0.as_nanos().max(0) as u64, &units)
    }
}

impl fmt::Display for Notation<Bytes> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000, "mb"), (1_000, "kb"), (1, "b")];
        write_in(formatter, self.0.get(), if self.0 == Bytes::ZERO { &units[2..] } else { &units })
    }
}

impl fmt::Display for Notation<Limit> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::Bytes(bytes) => Notation(bytes).fmt(formatter),
            Limit::Packets(packets) => write!(formatter, "{packets}p"),
            Limit::Time(span) => Notation(span).fmt(formatter),
            Limit::Unlimited => formatter.write_str("unlimited"),
        }
    }
}

impl fmt::Display for Notation<Window> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { start, length, every } = self.0;
        write!(formatter, "{}+{}", Notation(start), Notation(length))?;
        every.map_or(Ok(()), |every| write!(formatter, "@{}", Notation(every)))
    }
}

/// Values with slashes in between.
pub(super) fn list<T: fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_what_they_say() {
        assert_eq!(rate("10mbit"), Some(Bitrate::from_mbps(10)));
        assert_eq!(rate("2.5 Mbit"), Some(Bitrate::from_kbps(2_500)));
        assert_eq!(span("1.5s"), Some(Span::from_millis(1_500)));
        assert_eq!(bytes("3kb"), Some(Bytes::new(3_000)));
        assert_eq!(bytes("3KiB"), Some(Bytes::new(3_072)));
        assert_eq!(limit("100p"), Some(Limit::Packets(100)));
        assert_eq!(limit("100ms"), Some(Limit::Time(Span::from_millis(100))));
        assert_eq!(probability("25%"), probability("0.25"));
        for wrong in ["", "10", "mbit", "10mbps", "-1mbit", "1e99gbit", "NaNmbit", "10 mbit s"] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
        for wrong in ["5s", "5s+", "5s+2", "0s+5s@5s", "+2s", "5s+2s@"] {
            assert_eq!(window(wrong), None, "{wrong}");
        }
        for wrong in ["0%:1ms", "0%:1ms/50%:2ms", "0%:2ms/100%:1ms", "100%:1ms/0%:0ms", "50%/100%"] {
            assert_eq!(quantiles(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for bps in [0, 1, 999, 1_000, 1_500, 35_000_000, 2_000_000_000] {
            let value = Bitrate::from_bps(bps);
            assert_eq!(rate(&Notation(value).to_string()), Some(value));
        }
        for nanos in [0, 1, 1_500, 10_000_000, 300_000_000_000] {
            let value = Span::from_nanos(nanos);
            assert_eq!(span(&Notation(value).to_string()), Some(value));
        }
        assert_eq!(Notation(Span::from_millis(10)).to_string(), "10ms");
        assert_eq!(Notation(Bytes::new(3_000)).to_string(), "3kb");
    }
}
