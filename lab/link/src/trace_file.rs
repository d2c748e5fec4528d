//! Trace files: Mahimahi's, and series of rates as CSV.
//!
//! - Mahimahi: one whole number a line, the millisecond at which 1,500 bytes may leave, never descending. The same number again
//!   means several packets in that millisecond.
//! - CSV: the header `t_s,mbps`, then a line for each step: when it begins in seconds and its rate in Mb/s. The last step is as
//!   long as the one before it, and then everything repeats.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nearlight_units::{Bitrate, Span};
use thiserror::Error;

use crate::capacity::{Rates, StepsError, Trace};

/// The longest file that is read: 64 MiB are two hours of 100 Mb/s in Mahimahi's format.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The highest rate in a series, in Mb/s: a slip in the unit more likely than a link.
const MAX_RATE_MBPS: f64 = 1e6;

/// The latest start of a step in seconds: over a year.
const MAX_START_SECONDS: f64 = 4e7;

/// The first line of a series.
const HEADER: &str = "t_s,mbps";

/// The parsed content of a trace file.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceFile {
    /// Moments at which a packet may leave.
    Packets(Trace),
    /// Rates over time.
    Series(Rates),
}

impl TraceFile {
    /// The time after which it repeats.
    #[must_use]
    pub fn length(&self) -> Span {
        match self {
            Self::Packets(trace) => trace.length(),
            // Every series read from a file has a period.
            Self::Series(rates) => rates.period().unwrap_or(Span::ZERO),
        }
    }

    /// Returns the trace from `offset` on. The part before it is appended at the end.
    #[must_use]
    pub fn starting_at(&self, offset: Span) -> Self {
        match self {
            Self::Packets(trace) => Self::Packets(trace.starting_at(offset)),
            Self::Series(rates) => Self::Series(rates.starting_at(offset)),
        }
    }
}

/// A trace file that cannot be used.
#[derive(Debug, Error)]
pub enum TraceError {
    #[error("cannot read the trace `{}`: {source}; give the path of an existing file", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("the trace `{}` is longer than 64 MiB; shorten it: a trace repeats from its start when it ends", file.display())]
    TooLong { file: PathBuf },
    #[error("the trace `{}` is not usable: line {line}: {reason}", file.display())]
    Line { file: PathBuf, line: usize, reason: String },
}

/// Reads a trace of either format; a first line with a comma is the header of a series.
pub fn read_trace(file: &Path) -> Result<TraceFile, TraceError> {
    let unreadable = |source| TraceError::Read { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TraceError::TooLong { file: file.to_owned() });
    }
    parse_trace(&bytes).map_err(|(line, reason)| TraceError::Line { file: file.to_owned(), line, reason })
}

/// Reads a trace's bytes; an error is the number of the line and what is wrong with it.
pub fn parse_trace(bytes: &[u8]) -> Result<TraceFile, (usize, String)> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|&byte| byte == b'\n').count();
        (line, "is not text; a trace holds numbers, one line each".to_owned())
    })?;
    let first = text.lines().next().unwrap_or_default();
    if first.contains(',') { series(text).map(TraceFile::Series) } else { packets(text).map(TraceFile::Packets) }
}

/// The beginning of a line, to keep error messages short.
fn shown(line: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 40;
    let start: String = line.chars().take(MAX_SHOWN_CHARACTERS).collect();
    if start.len() < line.len() { format!("{start}…") } else { start }
}

fn packets(text: &str) -> Result<Trace, (usize, String)> {
    let mut opportunities: Vec<u32> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let at = line.trim_end().parse::<u32>().map_err(|_| {
            let reason = "is not an integer number of milliseconds; a packet trace has one per line, and a rate series begins \
                          with the line";
            (number, format!("`{}` {reason} `{HEADER}`", shown(line)))
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

fn series(text: &str) -> Result<Rates, (usize, String)> {
    let mut lines = text.lines().zip(1..);
    let header = lines.next().map_or("", |(line, _)| line.trim_end());
    if header != HEADER {
        return Err((1, format!("`{}` is not the header of a series of rates, `{HEADER}`", shown(header))));
    }
    let mut steps: Vec<(Span, Bitrate)> = Vec::new();
    let mut first_start = Span::ZERO;
    let mut last_line = 1;
    for (line, number) in lines {
        let (start, rate) = step(line).map_err(|reason| (number, reason))?;
        if steps.is_empty() {
            first_start = start;
        }
        let start = start - first_start;
        if steps.last().is_some_and(|before| before.0 >= start) {
            return Err((number, format!("`{}` does not begin after the line before it", shown(line))));
        }
        steps.push((start, rate));
        last_line = number;
    }
    let last = steps.last().ok_or((last_line, "the series has no lines after its header".to_owned()))?.0;
    // A single line does not define its length, and does not have to.
    let length = steps.len().checked_sub(2).map_or(Span::from_secs(1), |before| last - steps[before].0);
    Rates::steps(&steps, Some(last + length)).map_err(|error| {
        let reason = match error {
            StepsError::Zero => "every rate of the series is 0, so nothing would ever get through".to_owned(),
            other => other.to_string(),
        };
        (last_line, reason)
    })
}

fn step(line: &str) -> Result<(Span, Bitrate), String> {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
    let mut fields = line.split(',');
    let (start, rate) = (number(fields.next()), number(fields.next()));
    let (Some(start), Some(rate), None) = (start, rate, fields.next()) else {
        return Err(format!("`{}` is not two numbers with a comma between them", shown(line)));
    };
    if !(0.0..=MAX_START_SECONDS).contains(&start) {
        return Err(format!("begins at {start} s; allowed is 0 to {MAX_START_SECONDS} s"));
    }
    if !(0.0..=MAX_RATE_MBPS).contains(&rate) {
        return Err(format!("a rate of {rate} Mb/s; allowed is 0 to {MAX_RATE_MBPS} Mb/s"));
    }
    Ok((Span::from_secs_f64(start), Bitrate::from_bps((rate * 1e6).round() as u64)))
}

#[cfg(test)]
mod tests {
    use nearlight_units::Time;

    use super::*;

    #[test]
    fn both_formats_are_recognised() {
        let TraceFile::Packets(trace) = parse_trace(b"0\n5\n5\n10\n").unwrap() else { panic!("packets") };
        assert_eq!((trace.length(), trace.mean()), (Span::from_millis(10), Bitrate::from_kbps(4_800)));
        let TraceFile::Series(rates) = parse_trace(b"t_s,mbps\r\n10.0,2.5\r\n10.2,0\r\n10.4,7\r\n").unwrap() else {
            panic!("series")
        };
        assert_eq!(rates.period(), Some(Span::from_millis(600)));
        for (at, rate) in [(0, 2_500), (199, 2_500), (200, 0), (599, 7_000), (600, 2_500)] {
            assert_eq!(rates.at(Time::from_millis(at)), Bitrate::from_kbps(rate), "at {at} ms");
        }
    }

    #[test]
    fn bad_files_are_answered_with_the_line_and_the_reason() {
        let cases: [(&[u8], usize, &str); 14] = [
            (b"", 1, "empty"),
            (b"0\n0\n", 2, "lasts no time"),
            (b"1\n\n3\n", 2, "not an integer number"),
            (b"1\n5\n4\n", 3, "never go back"),
            (b"1\n2.5\n", 2, "not an integer number"),
            (b"1\n99999999999\n", 2, "not an integer number"),
            (b"1\n\xff\xfe\n", 2, "not text"),
            (b"time,rate\n0,1\n", 1, "t_s,mbps"),
            (b"t_s,mbps\n", 1, "no lines after its header"),
            (b"t_s,mbps\n0,1\n0,2\n", 3, "does not begin after"),
            (b"t_s,mbps\n0,1\n1,-2\n", 3, "allowed is 0"),
            (b"t_s,mbps\n0,1\n1,NaN\n", 3, "allowed is 0"),
            (b"t_s,mbps\n0,1\n1,2,3\n", 3, "not two numbers"),
            (b"t_s,mbps\n0,0\n1,0\n", 3, "every rate"),
        ];
        for (bytes, line, reason) in cases {
            let (found, why) = parse_trace(bytes).expect_err(reason);
            assert_eq!(found, line, "{why}");
            assert!(why.contains(reason), "{why}");
        }
        let long = [b"7".repeat(1_000), b"\n".to_vec()].concat();
        assert!(parse_trace(&long).expect_err("a long line").1.len() < 250, "the error stays short");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = read_trace(Path::new("no/such.mahi")).expect_err("missing").to_string();
        assert!(error.contains("no/such.mahi") && error.contains("existing file"), "{error}");
    }
}
