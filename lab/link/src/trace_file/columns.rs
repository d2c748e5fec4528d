//! Series with a header that names their columns.

use super::numbers::numbers;
use super::series::{Row, SameTime, Series, build};
use super::{LineError, shown};

/// A published or own format, recognised by the names of its columns.
struct Format {
    name: &'static str,
    time: Clock,
    /// The columns that may hold the rate, the preferred one first.
    rate: &'static [&'static str],
    /// Megabits a second that one unit of the rate is.
    mbps: f64,
    /// A column whose value is the same throughout one recording.
    recording: Option<&'static str>,
}

/// A column with the time.
#[derive(Clone, Copy)]
enum Clock {
    /// Seconds from any moment on.
    Seconds(&'static str),
    /// The time of day, to the second.
    Date(&'static str),
    /// Microseconds that the row lasts; rows follow one another.
    Lasting(&'static str),
}

const FORMATS: [Format; 4] = [
    Format { name: "rates over time", time: Clock::Seconds("t_s"), rate: &["mbps"], mbps: 1.0, recording: None },
    // D. Raca et al., "Beyond throughput" (MMSys 2018: 4G; 2020: 5G), rates in kb/s. Uplink rates are in UL_bitrate.
    Format {
        name: "University College Cork's 4G or 5G log, its downlink (DL_bitrate, kb/s)",
        time: Clock::Date("Timestamp"),
        rate: &["DL_bitrate"],
        mbps: 1e-3,
        recording: None,
    },
    // A. Narayanan et al., "Lumos5G" (IMC 2020), rates in Mb/s.
    Format {
        name: "Lumos5G's log (Throughput, Mb/s)",
        time: Clock::Seconds("seq_num"),
        rate: &["Throughput"],
        mbps: 1.0,
        recording: Some("run_num"),
    },
    // FCC, Measuring Broadband America, raw data of web downloads: bytes a second.
    Format {
        name: "a download test of the FCC's (bytes a second)",
        time: Clock::Lasting("fetch_time"),
        rate: &["bytes_sec_interval", "bytes_sec"],
        mbps: 8e-6,
        recording: Some("unit_id"),
    },
];

/// The columns of a file that are read.
struct Columns {
    format: &'static Format,
    count: usize,
    time: usize,
    rate: usize,
    recording: Option<usize>,
}

/// Returns whether the first line of a file is a header.
pub(super) fn is_header(line: &str) -> bool {
    numbers(line).is_none()
}

/// Reads a series with a header, and names its format.
pub(super) fn read(text: &str) -> Result<(Series, &'static str), LineError> {
    let mut lines = text.lines().zip(1..);
    let header = lines.next().map_or("", |(line, _)| line);
    let separator = separator(header);
    let columns = columns(header, separator).map_err(|reason| (1, reason))?;
    let format = columns.format;
    let (mut rows, mut clock, mut recording) = (Vec::new(), 0.0, None::<&str>);
    for (line, number) in lines {
        let fields: Vec<&str> = fields(line, separator).collect();
        if fields.len() != columns.count {
            let reason =
                format!("`{}` has {} columns where the header has {}", shown(line), fields.len(), columns.count);
            return Err((number, reason));
        }
        let own = columns.recording.map(|column| fields[column]);
        if let (Some(before), Some(own)) = (recording, own)
            && before != own
        {
            let column = format.recording.unwrap_or_default();
            let reason = format!("another recording begins ({column} {own} after {before}); keep the lines of one");
            return Err((number, reason));
        }
        recording = own;
        let (time, rate) = (fields[columns.time], fields[columns.rate]);
        // Loggers write a dash or nothing where a sample failed: a gap.
        if matches!(rate, "" | "-") && format.time.is_log() {
            continue;
        }
        let mbps = rate.parse::<f64>().map_err(|_| (number, format!("`{}` is no rate", shown(rate))))? * format.mbps;
        let parsed =
            format.time.seconds(time, clock).ok_or_else(|| (number, format!("`{}` is no time", shown(time))))?;
        clock = parsed.1.unwrap_or(clock);
        rows.push(Row { line: number, start: parsed.0, end: parsed.1, mbps });
    }
    if rows.is_empty() {
        return Err((1, "the series has no lines after its header that hold a rate".to_owned()));
    }
    let same_time = if format.time.is_log() { SameTime::Averaged } else { SameTime::Refused };
    build(&rows, same_time).map(|series| (series, format.name))
}

impl Clock {
    const fn column(self) -> &'static str {
        match self {
            Self::Seconds(column) | Self::Date(column) | Self::Lasting(column) => column,
        }
    }

    /// Whether the times are those of a logger's clock, with its repetitions and gaps.
    const fn is_log(self) -> bool {
        matches!(self, Self::Date(_))
    }

    /// Returns when a row begins in seconds, and when it ends if it says so. `before` is the end of the row before it.
    fn seconds(self, text: &str, before: f64) -> Option<(f64, Option<f64>)> {
        match self {
            Self::Seconds(_) => Some((text.parse().ok()?, None)),
            Self::Date(_) => Some((date(text)?, None)),
            Self::Lasting(_) => {
                let length = text.parse::<f64>().ok().filter(|length| *length > 0.0)?;
                Some((before, Some(before + length / 1e6)))
            }
        }
    }
}

/// Returns the character between the header's fields.
fn separator(header: &str) -> char {
    [',', ';', '\t'].into_iter().find(|separator| header.contains(*separator)).unwrap_or(',')
}

fn fields(line: &str, separator: char) -> impl Iterator<Item = &str> {
    line.split(separator).map(|field| field.trim().trim_matches('"'))
}

fn columns(header: &str, separator: char) -> Result<Columns, String> {
    let names: Vec<&str> = fields(header, separator).collect();
    let find = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
    let found = FORMATS.iter().find_map(|format| {
        let time = find(format.time.column())?;
        let rate = format.rate.iter().find_map(|name| find(name))?;
        Some(Columns { format, count: names.len(), time, rate, recording: format.recording.and_then(find) })
    });
    found.ok_or_else(|| {
        let known: Vec<String> =
            FORMATS.iter().map(|format| format!("{} and {}", format.time.column(), format.rate[0])).collect();
        format!(
            "`{}` has no two columns that are known, which are {}; name your columns with seconds and Mb/s t_s and mbps",
            shown(header),
            known.join("; ")
        )
    })
}

/// Returns the seconds of a date such as `2019.11.28_07.27.32`: year, month, day, hour, minute, second, with any separators.
fn date(text: &str) -> Option<f64> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit()).filter(|number| !number.is_empty());
    let mut next = || numbers.next()?.parse::<i64>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let valid = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    // The year begins in March here, so that the leap day is its last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second) as f64)
}
