//! Files of numbers without a header: times in milliseconds, series of seconds and Mb/s, and logs of downloads.

use super::series::{Row, SameTime, Series, build};
use super::{LineError, shown};
use crate::capacity::Trace;

/// Milliseconds that a row of a log may begin after the one before has ended without a gap between them. Guess: timers of phones.
const LOG_SLACK_MS: f64 = 100.0;

/// Returns the numbers of a line, which commas, semicolons, tabs or spaces separate. None if something else is in it.
pub(super) fn numbers(line: &str) -> Option<Vec<f64>> {
    let fields = line.split([',', ';', '\t', ' ']).filter(|field| !field.is_empty());
    fields.map(|field| field.parse().ok()).collect()
}

/// Reads Mahimahi's format.
pub(super) fn packets(text: &str) -> Result<Trace, LineError> {
    let mut opportunities: Vec<u32> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let at = line.trim().parse::<u32>().map_err(|_| {
            let reason = "is not an integer number of milliseconds; a packet trace has one per line. Series of rates have two numbers \
                          per line, seconds and Mb/s, or a header";
            (number, format!("`{}` {reason}", shown(line)))
        })?;
        if let Some(&before) = opportunities.last()
            && at < before
        {
            return Err((number, format!("{at} comes after {before}, but times never go back")));
        }
        opportunities.push(at);
    }
    let lines = opportunities.len().max(1);
    let empty = opportunities.is_empty();
    Trace::new(opportunities).ok_or_else(|| {
        let reason =
            if empty { "the file is empty" } else { "the trace ends in millisecond 0, so that it lasts no time" };
        (lines, reason.to_owned())
    })
}

/// Reads seconds and Mb/s, as Pensieve's traces have them.
pub(super) fn pairs(text: &str) -> Result<Series, LineError> {
    let row = |(line, number): (&str, usize)| match numbers(line).as_deref() {
        Some([start, mbps]) => Ok(Row { line: number, start: *start, end: None, mbps: *mbps }),
        _ => Err((number, format!("`{}` is not two numbers, seconds and Mb/s", shown(line)))),
    };
    build(&text.lines().zip(1..).map(row).collect::<Result<Vec<_>, _>>()?, SameTime::Refused)
}

/// Reads a log of downloads: Unix time, milliseconds of a clock, latitude, longitude, bytes since the row before, and the
/// milliseconds in which they arrived.
pub(super) fn downloads(text: &str) -> Result<Series, LineError> {
    let mut rows: Vec<Row> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let numbers = numbers(line).unwrap_or_default();
        let [_, end, _, _, bytes, lasted] = numbers[..] else {
            let reason = format!(
                "`{}` is not six numbers: Unix time, milliseconds, latitude, longitude, bytes and milliseconds",
                shown(line)
            );
            return Err((number, reason));
        };
        if !(lasted > 0.0 && lasted.is_finite()) {
            return Err((number, format!("{bytes} bytes arrived within {lasted} ms; the time must be above 0")));
        }
        let before = rows.last().and_then(|row| row.end).map(|end| end * 1e3);
        let start = match before {
            Some(before) if (end - lasted) - before <= LOG_SLACK_MS => before,
            _ => end - lasted,
        };
        if end <= start {
            return Err((number, format!("the clock stands at {end} ms, which is not after the row before it")));
        }
        rows.push(Row { line: number, start: start / 1e3, end: Some(end / 1e3), mbps: bytes * 8.0 / (lasted * 1e3) });
    }
    build(&rows, SameTime::Refused)
}
