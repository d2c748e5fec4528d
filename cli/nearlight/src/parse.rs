//! Parsers of quantities on the command line.

use nearlight_codec::{MAX_SIDE, MIN_SIDE};
use nearlight_server::PictureSize;
use nearlight_units::{Bitrate, Span};

/// `25mbps`, `25mbit`, `800kbps`, or a plain number of megabits per second.
pub fn bitrate(text: &str) -> Result<Bitrate, String> {
    let lower = text.to_ascii_lowercase();
    let split = lower.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let factor = match unit.trim() {
        "" | "m" | "mbps" | "mbit" => 1e6,
        "k" | "kbps" | "kbit" => 1e3,
        "g" | "gbps" | "gbit" => 1e9,
        _ => return Err("expected a rate such as 25mbps or 800kbps".into()),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(Bitrate::from_bps((value * factor) as u64)),
        _ => Err("expected a rate such as 25mbps or 800kbps".into()),
    }
}

/// `1280x720`, or `auto`.
pub fn picture_size(text: &str) -> Result<PictureSize, String> {
    if text == "auto" {
        return Ok(PictureSize::Auto);
    }
    let fits = |side: &u16| side.is_multiple_of(2) && (MIN_SIDE..=MAX_SIDE).contains(side);
    let side = |text: &str| text.parse::<u16>().ok().filter(fits);
    let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
    sides.map(|(width, height)| PictureSize::Fixed { width, height }).ok_or_else(|| {
        format!("expected auto or a size such as 1280x720, with even numbers from {MIN_SIDE} to {MAX_SIDE}")
    })
}

/// `world.example`, or an address.
pub fn host(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if text.parse::<std::net::IpAddr>().is_ok() || text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("expected a host name such as world.example, or an address, without scheme and port".into())
}

/// `8`: at least one.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a number of at least 1".into()),
    }
}

/// `60`, or `auto`.
pub fn fps(text: &str) -> Result<Option<u16>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse() {
        Ok(fps) if (1..=240).contains(&fps) => Ok(Some(fps)),
        _ => Err("expected a number from 1 to 240, or auto".into()),
    }
}

/// `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    either(text, "on", "off")
}

/// `fitted` or `even`.
pub fn captures(text: &str) -> Result<bool, String> {
    either(text, "fitted", "even")
}

/// True for the first of the two.
fn either(text: &str, yes: &str, no: &str) -> Result<bool, String> {
    if text == yes || text == no { Ok(text == yes) } else { Err(format!("expected {yes} or {no}")) }
}

/// `10` or `2.5`, in seconds.
pub fn seconds(text: &str) -> Result<Span, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(Span::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds, such as 10 or 2.5".into()),
    }
}

/// Seconds in a minute, an hour and a day.
pub const MINUTE_S: u64 = 60;
pub const HOUR_S: u64 = 60 * MINUTE_S;
pub const DAY_S: u64 = 24 * HOUR_S;

/// `90s`, `5m`, `8h` or `30d`, at least a second: how long something stays valid, in seconds.
pub fn lifetime_s(text: &str) -> Result<u64, String> {
    let unit = text.chars().next_back().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(MINUTE_S),
        'h' => Some(HOUR_S),
        'd' => Some(DAY_S),
        _ => None,
    });
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let seconds = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "expected a time such as 90s, 5m, 8h or 30d".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        assert_eq!(bitrate("25mbps"), Ok(Bitrate::from_mbps(25)));
        assert_eq!(bitrate("1.5"), Ok(Bitrate::from_kbps(1_500)));
        assert_eq!(bitrate("800 kbit"), Ok(Bitrate::from_kbps(800)));
        assert!(["", "fast", "-3", "nan", "3 parsecs"].iter().all(|text| bitrate(text).is_err()));
        assert_eq!(picture_size("1280x720"), Ok(PictureSize::Fixed { width: 1_280, height: 720 }));
        assert!(["1281x720", "0x0", "64x14", "1280", "9000x9000"].iter().all(|text| picture_size(text).is_err()));
        assert_eq!((count("8"), count("0").is_err(), count("many").is_err()), (Ok(8), true, true));
        assert_eq!((fps("auto"), fps("72")), (Ok(None), Ok(Some(72))));
        assert_eq!(seconds("2.5"), Ok(Span::from_millis(2_500)));
        assert!(["0", "-1", "inf", "soon"].iter().all(|text| seconds(text).is_err()));
    }

    #[test]
    fn lifetimes_are_read_with_their_unit() {
        for (text, expected) in [("90s", 90), ("5m", 300), ("8h", 28_800), ("30d", 2_592_000)] {
            assert_eq!(lifetime_s(text), Ok(expected), "{text}");
        }
        for text in ["", "5", "m", "-5m", "0s", "5 m", "5é", "99999999999999999999d", "18446744073709551615d"] {
            assert!(lifetime_s(text).is_err(), "{text}");
        }
    }
}
