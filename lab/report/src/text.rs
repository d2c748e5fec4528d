//! Text that is safe in HTML and SVG, and numbers that read well.

use std::fmt::Write;

/// `text` for element content and quoted attributes. Control characters that XML forbids become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(character),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe
}

/// A coordinate with one tenth of a pixel, which no eye tells from more.
pub(crate) fn coordinate(value: f64) -> String {
    let tenths = if value.is_finite() { (value * 10.0).round() as i64 } else { 0 };
    let (sign, whole, rest) = (if tenths < 0 { "-" } else { "" }, tenths.abs() / 10, tenths.abs() % 10);
    if rest == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest}") }
}

/// A number with `decimals` places, a real minus sign and thin spaces between thousands.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "–".into() } else { format!("{}∞", if value < 0.0 { "−" } else { "" }) };
    }
    if value.abs() >= 1e12 {
        return format!("{value:.3e}").replace('-', "−");
    }
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, rest) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    // A negative number that rounds to zero is zero.
    if value < 0.0 && plain.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        text.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        // Four digits read as one; years and 1080 lines too.
        if index > 0 && whole.len() > 4 && (whole.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if !rest.is_empty() {
        let _ = write!(text, ".{rest}");
    }
    text
}

/// Places after the point that show values up to `largest` with three digits; four for 100 to 1000 with a fraction.
pub(crate) fn decimals_for(largest: f64) -> usize {
    match largest.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        size if size > 0.0 && size.is_finite() => ((2.0 - size.log10().floor()) as usize).min(9),
        _ => 0,
    }
}

/// `value` alone, with about three digits.
pub(crate) fn figure(value: f64) -> String {
    number(value, decimals_for(value))
}

/// A chance: never zero, never in powers of ten.
pub(crate) fn chance(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_printed() {
        for (value, decimals, expected) in [
            (0.0, 1, "0.0"),
            (-0.04, 1, "0.0"),
            (-12.345, 2, "−12.35"),
            (1234.5, 0, "1234"),
            (1_234_567.8, 1, "1\u{202f}234\u{202f}567.8"),
            (f64::NAN, 2, "–"),
            (f64::INFINITY, 2, "∞"),
            (1e300, 0, "1.000e300"),
        ] {
            assert_eq!(number(value, decimals), expected);
        }
        assert_eq!(figure(0.000_012_34), "0.0000123");
        assert_eq!(coordinate(-0.04), "0");
        assert_eq!(coordinate(f64::NAN), "0");
        assert_eq!(coordinate(12.25), "12.3");
    }

    #[test]
    fn nothing_escapes() {
        assert_eq!(escape("<a b='\"'>&\u{0}\u{1b}é"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;  é");
    }
}
