//! Limits how much of a program's output is logged. Reads no clock.

use nearlight_units::{Span, Time};

/// Average rate of logged output, in bytes per second, with each line's prefix. A program that prints without end fills about 350 MB of log a
/// day. Guess: more than programs print that are used.
const LOGGED_BYTES_PER_SECOND: u64 = 4 << 10;
/// Bytes that are logged at once. Guess: a crash with the stacks of all threads.
const BURST_BYTES: u64 = 256 << 10;
/// Bytes that the log adds to a line: time, level and the program's name.
const PREFIX_BYTES: u64 = 64;
/// Time between two lines that count what was left out. Guess: one can read along.
const NOTICE_INTERVAL: Span = Span::from_secs(10);

/// What becomes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The line is logged.
    Log,
    /// The line is logged after this notice about lines that were left out.
    LogAfter(String),
    /// The line is left out, and this notice is logged.
    Notice(String),
    /// The line is left out.
    LeaveOut,
}

/// A token bucket for the lines that a program prints.
#[derive(Debug)]
pub(crate) struct OutputLimit {
    /// Bytes that may be logged now, and when that was.
    available: u64,
    updated: Time,
    left_out: OmittedLines,
    /// When lines that were left out were last counted in the log.
    noticed: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OmittedLines {
    lines: u64,
    bytes: u64,
}

impl OutputLimit {
    pub(crate) const fn new(now: Time) -> Self {
        Self { available: BURST_BYTES, updated: now, left_out: OmittedLines { lines: 0, bytes: 0 }, noticed: None }
    }

    /// Decides about a line of this length.
    pub(crate) fn on_line(&mut self, now: Time, length: usize) -> Verdict {
        self.refill(now);
        let length = length as u64;
        let cost = length + PREFIX_BYTES;
        if cost <= self.available {
            self.available -= cost;
            return self.take_notice(now).map_or(Verdict::Log, Verdict::LogAfter);
        }
        self.left_out.lines += 1;
        self.left_out.bytes += length;
        let due = self.noticed.is_none_or(|noticed| now.saturating_since(noticed) >= NOTICE_INTERVAL);
        if due { self.take_notice(now).map_or(Verdict::LeaveOut, Verdict::Notice) } else { Verdict::LeaveOut }
    }

    /// Returns the notice about lines that were left out since the last one.
    pub(crate) fn take_notice(&mut self, now: Time) -> Option<String> {
        let OmittedLines { lines, bytes } = std::mem::take(&mut self.left_out);
        (lines > 0).then(|| {
            self.noticed = Some(now);
            format!(
                "{lines} lines of output ({bytes} bytes) are left out: the log takes {LOGGED_BYTES_PER_SECOND} bytes a second"
            )
        })
    }

    fn refill(&mut self, now: Time) {
        let elapsed = now.saturating_since(self.updated).as_nanos().max(0) as u64;
        // A day fills any bucket, and the product stays far below the limit of the type.
        let gained = elapsed.min(86_400_000_000_000) / 1_000 * LOGGED_BYTES_PER_SECOND / 1_000_000;
        if gained > 0 {
            (self.available, self.updated) = ((self.available + gained).min(BURST_BYTES), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Time {
        Time::ZERO + Span::from_millis(milliseconds)
    }

    /// Prints a line every millisecond, and returns how many bytes and notices the log gets.
    fn print(limit: &mut OutputLimit, from: i64, until: i64, length: usize) -> (u64, u64) {
        let (mut bytes, mut notices) = (0, 0);
        for moment in from..until {
            match limit.on_line(at(moment), length) {
                Verdict::Log => bytes += length as u64,
                Verdict::LogAfter(_) => (bytes, notices) = (bytes + length as u64, notices + 1),
                Verdict::Notice(_) => notices += 1,
                Verdict::LeaveOut => {}
            }
        }
        (bytes, notices)
    }

    #[test]
    fn a_program_that_prints_without_end_fills_the_log_slowly_and_the_log_says_so() {
        let mut limit = OutputLimit::new(Time::ZERO);
        let (bytes, notices) = print(&mut limit, 0, 1_000_000, 2_000);
        assert!(bytes <= BURST_BYTES + 1_000 * LOGGED_BYTES_PER_SECOND, "{bytes} bytes in 1,000 s");
        assert!(notices >= 100, "{notices} notices");
    }

    #[test]
    fn what_a_program_usually_prints_is_logged_whole() {
        let mut limit = OutputLimit::new(Time::ZERO);
        for line in 0..2_000 {
            assert_eq!(limit.on_line(at(0), 60), Verdict::Log, "line {line} of a crash");
        }
        for second in 1..1_000 {
            assert_eq!(limit.on_line(at(second * 1_000), 2_000), Verdict::Log, "second {second}");
        }
        assert_eq!(limit.take_notice(at(1_000_000)), None);
    }

    #[test]
    fn every_line_is_logged_or_counted() {
        let mut limit = OutputLimit::new(Time::ZERO);
        let (mut logged, mut counted) = (0, 0);
        let mut count = |notice: &str| {
            let lines = notice.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            counted += lines.expect("a number");
        };
        for moment in 0..60_000 {
            match limit.on_line(at(moment), 500) {
                Verdict::Log => logged += 1,
                Verdict::LogAfter(notice) => {
                    logged += 1;
                    count(&notice);
                }
                Verdict::Notice(notice) => count(&notice),
                Verdict::LeaveOut => {}
            }
        }
        limit.take_notice(at(60_000)).iter().for_each(|notice| count(notice));
        assert_eq!(logged + counted, 60_000);
    }
}
