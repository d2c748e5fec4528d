//! The formats of log lines: for people, for programs, and for systemd's journal.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use clap::ValueEnum;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Names the device and the inode of the journal's socket, if systemd has connected standard output or standard error to it.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The format of what a command writes to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people, with the time.
    Text,
    /// An object on each line.
    Json,
    /// Lines for the journal, which keeps the time itself: each begins with its level as `<N>`.
    Journal,
}

impl LogFormat {
    /// Returns the format that suits the place to which standard error leads.
    pub(crate) fn of_standard_error() -> Self {
        let named = std::env::var(JOURNAL_VARIABLE).unwrap_or_default();
        let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let place = file.and_then(|file| file.metadata()).map(|place| (place.dev(), place.ino()));
        if place.is_ok_and(|place| is_place(&named, place)) { Self::Journal } else { Self::Text }
    }
}

/// Returns whether the journal's variable names this device and inode. A child of a service may have the variable and other files.
fn is_place(named: &str, (device, inode): (u64, u64)) -> bool {
    named
        .split_once(':')
        .is_some_and(|(own_device, own_inode)| own_device.parse() == Ok(device) && own_inode.parse() == Ok(inode))
}

/// The level of a line for the journal (sd-daemon(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalPriority(u8);

impl JournalPriority {
    pub(super) const ERROR: Self = Self(3);
    const WARNING: Self = Self(4);
    const INFO: Self = Self(6);
    const DEBUG: Self = Self(7);

    const fn of(level: Level) -> Self {
        match level {
            Level::ERROR => Self::ERROR,
            Level::WARN => Self::WARNING,
            Level::INFO => Self::INFO,
            _ => Self::DEBUG,
        }
    }

    /// Returns the text with the priority before each of its lines, since the journal makes each an entry of its own.
    pub(super) fn lines(self, text: &str) -> String {
        text.lines().fold(String::new(), |mut lines, line| {
            let _ = writeln!(lines, "<{}>{line}", self.0);
            lines
        })
    }
}

/// Writes events for the journal.
pub(crate) struct JournalLines(Format<Full, ()>);

impl JournalLines {
    pub(crate) fn new() -> Self {
        let format = tracing_subscriber::fmt::format();
        Self(format.without_time().with_level(false).with_target(false).with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        self.0.format_event(context, Writer::new(&mut text), event)?;
        writer.write_str(&JournalPriority::of(*event.metadata().level()).lines(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_its_device_and_inode() {
        assert!(is_place("9:1234", (9, 1234)));
        for named in ["", "9", "9:", "9:1235", "8:1234", "9:1234:1", "x:y"] {
            assert!(!is_place(named, (9, 1234)), "{named}");
        }
    }

    #[test]
    fn every_line_has_its_level() {
        assert_eq!(JournalPriority::of(Level::WARN).lines("one\ntwo\n"), "<4>one\n<4>two\n");
        let levels = [Level::ERROR, Level::INFO, Level::DEBUG, Level::TRACE].map(JournalPriority::of);
        assert_eq!(levels, [3, 6, 7, 7].map(JournalPriority));
    }
}
