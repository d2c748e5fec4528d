//! Trace files in the formats that are in use, recognised by their content.
//!
//! - Mahimahi: one whole number a line, the millisecond at which 1,500 bytes may leave, never descending. The same number again
//!   means several packets in that millisecond.
//! - Pensieve: two numbers a line, when a rate begins in seconds and the rate in Mb/s.
//! - Logs of downloads, Norway's (HSDPA) and Belgium's (4G): six numbers a line.
//! - CSV with a header: `t_s,mbps`, and the published sets that `columns` lists.
//!
//! A rate holds until the next one begins. The last one is as long as the one before it, and then everything repeats. A byte order
//! mark, CR LF and empty lines at the end are permitted.

mod columns;
mod numbers;
mod series;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nearlight_units::Span;
use thiserror::Error;

use crate::capacity::{Rates, Trace};
use series::Series;

/// The longest file that is read: 64 MiB are two hours of 100 Mb/s in Mahimahi's format.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The number of a line, and what is wrong with it.
type LineError = (usize, String);

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

/// A trace file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTrace {
    pub trace: TraceFile,
    /// What the file was taken for, for people.
    pub description: String,
}

/// Reads a trace of any format.
pub fn read_trace(file: &Path) -> Result<RecordedTrace, TraceError> {
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
pub fn parse_trace(bytes: &[u8]) -> Result<RecordedTrace, LineError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|&byte| byte == b'\n').count();
        (line, "is not text in UTF-8; a trace holds numbers, one line each".to_owned())
    })?;
    let text = text.trim_end();
    let first = text.lines().next().unwrap_or_default();
    if columns::is_header(first) && first.contains([',', ';', '\t']) {
        return columns::read(text).map(|(series, name)| describe(series, name));
    }
    match numbers::numbers(first).unwrap_or_default().len() {
        2 => numbers::pairs(text).map(|series| describe(series, "rates over time (seconds, Mb/s)")),
        6 => numbers::downloads(text).map(|series| describe(series, "a log of downloads (Norway's 3G, Belgium's 4G)")),
        _ => numbers::packets(text).map(|trace| {
            let description = format!("Mahimahi's format, {}, mean {}", trace.length(), trace.mean());
            RecordedTrace { trace: TraceFile::Packets(trace), description }
        }),
    }
}

fn describe(series: Series, name: &str) -> RecordedTrace {
    let Series { rates, rows, gaps, longest_gap } = series;
    let length = rates.period().unwrap_or(Span::ZERO);
    let gaps = match gaps {
        0 => String::new(),
        1 => format!("; in a gap of {longest_gap:.1} s the rate before it goes on"),
        _ => format!("; in {gaps} gaps, the longest of {longest_gap:.1} s, the rate before each goes on"),
    };
    let description = format!("{name}, {rows} rows, {length}, mean {}{gaps}", rates.mean());
    RecordedTrace { trace: TraceFile::Series(rates), description }
}

/// The beginning of a line, to keep error messages short.
fn shown(line: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 40;
    let start: String = line.chars().take(MAX_SHOWN_CHARACTERS).collect();
    if start.len() < line.len() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bitrate, Time};

    use super::*;

    fn series(bytes: &[u8]) -> (Rates, String) {
        match parse_trace(bytes) {
            Ok(RecordedTrace { trace: TraceFile::Series(rates), description }) => (rates, description),
            other => panic!("a series: {other:?}"),
        }
    }

    /// Returns the rates in kb/s at these milliseconds.
    fn kbps<const N: usize>(rates: &Rates, at: [u64; N]) -> [u64; N] {
        at.map(|at| rates.at(Time::from_millis(at)).as_bps() / 1_000)
    }

    #[test]
    fn both_formats_are_recognised() {
        let TraceFile::Packets(trace) = parse_trace(b"0\n5\n5\n10\n").unwrap().trace else { panic!("packets") };
        assert_eq!((trace.length(), trace.mean()), (Span::from_millis(10), Bitrate::from_kbps(4_800)));
        let (rates, _) = series(b"t_s,mbps\r\n10.0,2.5\r\n10.2,0\r\n10.4,7\r\n");
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
            (b"time,rate\n0,1\n", 1, "t_s and mbps"),
            (b"t_s,mbps\n", 1, "no lines after its header"),
            (b"t_s,mbps\n0,1\n0,2\n", 3, "does not begin after"),
            (b"t_s,mbps\n0,1\n1,-2\n", 3, "allowed is 0"),
            (b"t_s,mbps\n0,1\n1,NaN\n", 3, "allowed is 0"),
            (b"t_s,mbps\n0,1\n1,2,3\n", 3, "3 columns where"),
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

    #[test]
    fn published_formats_are_recognised_by_their_content() {
        let (rates, described) = series(b"\xEF\xBB\xBF0.000\t1.5\r\n0.500\t2.0\r\n1.000\t3.25\r\n\r\n");
        assert_eq!(rates.period(), Some(Span::from_millis(1_500)));
        assert_eq!(kbps(&rates, [0, 499, 500, 1_499]), [1_500, 1_500, 2_000, 3_250]);
        assert!(described.contains("seconds, Mb/s") && described.contains("3 rows"), "{described}");

        // 50,000 bytes in a second, 100,000 in the next, and after a gap of three seconds 25,000 in half a second.
        let norway = "1289406399 549267 59.85 10.78 50000 1000\n1289406400 550270 59.85 10.78 100000 1003\n\
                      1289406404 553770 59.85 10.78 25000 500\n";
        let (rates, described) = series(norway.as_bytes());
        assert_eq!(rates.period(), Some(Span::from_millis(5_503)));
        assert_eq!(kbps(&rates, [0, 1_100, 4_900, 5_100]), [400, 797, 797, 400]);
        assert!(described.contains("Norway") && described.contains("a gap of 3.0 s"), "{described}");

        let cork = "Timestamp,Longitude,Operatorname,DL_bitrate,UL_bitrate,State\r\n\
                    2019.11.30_23.59.59,-8.4,B,40000,100,D\r\n2019.11.30_23.59.59,-8.4,B,20000,100,D\r\n\
                    2019.12.01_00.00.00,-8.4,\"B\",10000,100,D\r\n2019.12.01_00.00.01,-8.4,B,-,-,D\r\n\
                    2019.12.01_00.00.02,-8.4,B,0,100,I\r\n";
        let (rates, described) = series(cork.as_bytes());
        assert_eq!(kbps(&rates, [0, 1_000, 2_999, 3_000]), [30_000, 10_000, 10_000, 0]);
        assert!(described.contains("Cork") && described.contains("4 rows"), "{described}");

        let (rates, described) =
            series(b"run_num;seq_num;nrStatus;Throughput\n7;1;CONNECTED;800.5\n7;2;CONNECTED;12\n7;3;LTE;1\n");
        assert_eq!(kbps(&rates, [0, 1_000, 2_000]), [800_500, 12_000, 1_000]);
        assert!(described.contains("Lumos5G"), "{described}");

        let (rates, described) =
            series(b"unit_id,dtime,fetch_time,bytes_sec\n5,2016-01-01,5000000,125000\n5,2016-01-02,2500000,250000\n");
        assert_eq!((rates.period(), kbps(&rates, [0, 5_000])), (Some(Span::from_millis(7_500)), [1_000, 2_000]));
        assert!(described.contains("FCC"), "{described}");
    }

    #[test]
    fn errors_in_published_formats_name_the_line() {
        let cases: [(&[u8], usize, &str); 8] = [
            (b"0 1\n1 2 3\n", 2, "two numbers"),
            (b"1 2 3\n4 5 6\n", 1, "not an integer number"),
            (b"1 1000 0 0 5 1000\n1 1000 0 0 5 1000\n", 2, "not after the row before"),
            (b"1 1000 0 0 5 0\n", 1, "must be above 0"),
            (b"Timestamp,DL_bitrate\n2019.13.01_00.00.00,5\n", 2, "no time"),
            (b"Timestamp,DL_bitrate\n2019.12.01_00.00.00,fast\n", 2, "no rate"),
            (b"run_num,seq_num,Throughput\n1,1,5\n2,1,5\n", 3, "another recording begins (run_num 2 after 1)"),
            (b"seconds,speed\n0,1\n", 1, "Timestamp and DL_bitrate"),
        ];
        for (bytes, line, reason) in cases {
            let (found, why) = parse_trace(bytes).expect_err(reason);
            assert!(found == line && why.contains(reason), "line {found}: {why}");
        }
    }
}
