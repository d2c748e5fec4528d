//! Builds a capacity from rows of a time and a rate.

use nearlight_units::{Bitrate, Span};

use super::LineError;
use crate::capacity::{Rates, StepsError};

/// The highest rate in a series, in Mb/s: a slip in the unit more likely than a link.
const MAX_RATE_MBPS: f64 = 1e6;
/// The latest start of a step in seconds, from the first one: over a year.
const MAX_START_SECONDS: f64 = 4e7;
/// A pause is a gap if it is this much longer than the usual step. Guess: loggers miss single samples, which need no mention.
const GAP_STEPS: f64 = 2.5;

/// A line of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) line: usize,
    /// When the rate begins to hold, in seconds.
    pub(super) start: f64,
    /// When the rate ceases to hold, if the file says so.
    pub(super) end: Option<f64>,
    pub(super) mbps: f64,
}

/// A series of rates.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) rates: Rates,
    pub(super) rows: usize,
    pub(super) gaps: usize,
    /// The longest gap in seconds.
    pub(super) longest_gap: f64,
}

/// What rows with the same time mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SameTime {
    /// An error of the file.
    Refused,
    /// Several samples within the clock's resolution, whose mean counts.
    Averaged,
}

/// Returns the capacity: each rate holds until the next row begins. The last row is as long as the one before it, and then everything
/// repeats.
pub(super) fn build(rows: &[Row], same_time: SameTime) -> Result<Series, LineError> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Err((1, "the series has no rows with a rate".to_owned()));
    };
    let mut steps: Vec<(Span, Bitrate)> = Vec::new();
    let mut equal = 1.0;
    for (at, row) in rows.iter().enumerate() {
        let (start, mut mbps) = (row.start - first.start, row.mbps);
        if !(0.0..=MAX_START_SECONDS).contains(&start) {
            let reason = format!("begins {start} s after the first row; allowed is 0 to {MAX_START_SECONDS} s");
            return Err((row.line, reason));
        }
        if !(0.0..=MAX_RATE_MBPS).contains(&mbps) {
            return Err((row.line, format!("a rate of {mbps} Mb/s; allowed is 0 to {MAX_RATE_MBPS} Mb/s")));
        }
        let span = Span::from_secs_f64(start);
        match steps.last().map(|step| step.0) {
            Some(before) if before == span && same_time == SameTime::Averaged => {
                let sum = rows[at - equal as usize..at].iter().map(|row| row.mbps).sum::<f64>();
                equal += 1.0;
                mbps = (sum + mbps) / equal;
                steps.pop();
            }
            Some(before) if before >= span => {
                return Err((row.line, format!("{} s does not begin after the row before it", row.start)));
            }
            _ => equal = 1.0,
        }
        steps.push((span, Bitrate::from_bps((mbps * 1e6).round() as u64)));
    }
    let end = steps[steps.len() - 1].0;
    let known = last.end.map(|end| Span::from_secs_f64(end - last.start)).filter(|length| *length > Span::ZERO);
    // A single row does not define its length, and does not have to.
    let length =
        known.or_else(|| steps.len().checked_sub(2).map(|before| end - steps[before].0)).unwrap_or(Span::from_secs(1));
    let rates = Rates::steps(&steps, Some(end + length)).map_err(|error| {
        let reason = match error {
            StepsError::Zero => "every rate of the series is 0, so nothing would ever get through".to_owned(),
            other => other.to_string(),
        };
        (last.line, reason)
    })?;
    let (gaps, longest_gap) = gaps(rows);
    Ok(Series { rates, rows: rows.len(), gaps, longest_gap })
}

/// Returns the number of gaps between the rows, and the longest in seconds.
fn gaps(rows: &[Row]) -> (usize, f64) {
    let mut lengths: Vec<f64> = rows.windows(2).map(|pair| pair[1].start - pair[0].start).collect();
    lengths.sort_by(f64::total_cmp);
    let Some(usual) = lengths.get(lengths.len().saturating_sub(1) / 2).copied().filter(|usual| *usual > 0.0) else {
        return (0, 0.0);
    };
    let found: Vec<f64> = rows
        .windows(2)
        .map(|pair| pair[1].start - pair[0].end.unwrap_or(pair[0].start + usual))
        .filter(|gap| *gap > usual * (GAP_STEPS - 1.0))
        .collect();
    (found.len(), found.iter().copied().fold(0.0, f64::max))
}
