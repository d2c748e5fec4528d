//! Counts repeated lines of the log instead of writing them. A client that can cause one line can cause a million, which would hide all others
//! and fill the disk.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nearlight_units::lock;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Lines that one place in the code may write in a window; further ones are counted. Guess: more than a person reads in that time.
const MAX_LINES: u32 = 20;
/// Length of such a window. Guess.
const WINDOW: Duration = Duration::from_secs(10);
/// Bytes of a line's message that are repeated with the count.
const MAX_TEXT_BYTES: usize = 200;

/// Lines of one kind that were counted instead of written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OmittedLines {
    level: Level,
    /// The message without its values.
    text: String,
    count: u64,
}

/// The lines that one place in the code has written in its current window.
#[derive(Debug)]
struct Window {
    began: Duration,
    written: u32,
    left_out: Option<OmittedLines>,
}

/// Decides which lines are written. Times count from an arbitrary fixed moment.
#[derive(Debug)]
struct Repetition<Place> {
    /// The key is the place in the code, so the number of entries is bounded by the program's size.
    windows: HashMap<Place, Window>,
    /// What was left out in windows that are over.
    over: Vec<OmittedLines>,
    /// Whether a thread reports what was left out.
    is_reporting: bool,
}

impl<Place: Eq + Hash> Repetition<Place> {
    fn new() -> Self {
        Self { windows: HashMap::new(), over: Vec::new(), is_reporting: false }
    }

    /// Returns whether a line is written.
    fn writes(&mut self, now: Duration, place: Place, level: Level, text: impl FnOnce() -> String) -> bool {
        let fresh = || Window { began: now, written: 0, left_out: None };
        let window = self.windows.entry(place).or_insert_with(fresh);
        if now.saturating_sub(window.began) >= WINDOW {
            self.over.extend(window.left_out.take());
            *window = fresh();
        }
        window.written += 1;
        if window.written <= MAX_LINES {
            return true;
        }
        window.written = MAX_LINES;
        window.left_out.get_or_insert_with(|| OmittedLines { level, text: text(), count: 0 }).count += 1;
        false
    }

    /// Returns what was left out in all windows that are over at `now`.
    fn take_over(&mut self, now: Duration) -> Vec<OmittedLines> {
        let mut over = std::mem::take(&mut self.over);
        self.windows.retain(|_, window| {
            let is_over = now.saturating_sub(window.began) >= WINDOW;
            if is_over {
                over.extend(window.left_out.take());
            }
            !is_over
        });
        over.sort_by(|a, b| a.text.cmp(&b.text));
        over
    }
}

static REPETITION: Mutex<Option<Repetition<Identifier>>> = Mutex::new(None);

fn repetition() -> MutexGuard<'static, Option<Repetition<Identifier>>> {
    lock(&REPETITION)
}

#[expect(clippy::disallowed_methods, reason = "the log's windows are real time")]
fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Returns whether a line is one of a served program's output, which has a limit of its own.
#[cfg(target_os = "linux")]
fn is_limited_elsewhere(metadata: &Metadata<'_>) -> bool {
    metadata.target() == nearlight_display::OUTPUT_LOG_TARGET
}

#[cfg(not(target_os = "linux"))]
const fn is_limited_elsewhere(_: &Metadata<'_>) -> bool {
    false
}

/// A filter for the lines of the log. Those for diagnosis, which a user has asked for, are never left out.
#[derive(Debug)]
pub(crate) struct RepeatedLines;

impl<S: Subscriber> Filter<S> for RepeatedLines {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == module_path!() || is_limited_elsewhere(metadata) {
            return true;
        }
        let mut repetition = repetition();
        let repetition = repetition.get_or_insert_with(Repetition::new);
        let text = || {
            let mut message = Message::default();
            event.record(&mut message);
            message.0
        };
        let writes = repetition.writes(now(), metadata.callsite(), *metadata.level(), text);
        if !writes && !std::mem::replace(&mut repetition.is_reporting, true) {
            let started = std::thread::Builder::new().name("log".into()).spawn(report_until_none_is_left_out);
            // Without a thread, the next line after the window's end, or the program's end, reports it.
            repetition.is_reporting = started.is_ok();
        }
        writes
    }
}

/// The message of an event, without its fields.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
            self.0.truncate(self.0.floor_char_boundary(MAX_TEXT_BYTES));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which has nothing else to do")]
fn report_until_none_is_left_out() {
    loop {
        std::thread::sleep(WINDOW);
        report(now());
        let mut repetition = repetition();
        let Some(repetition) = repetition.as_mut() else { return };
        if repetition.windows.values().all(|window| window.left_out.is_none()) {
            repetition.is_reporting = false;
            return;
        }
    }
}

/// Reports everything that was left out and not reported yet, because the program ends.
pub(crate) fn finish() {
    report(Duration::MAX);
}

fn report(now: Duration) {
    // The lock is free before lines are written, because they take it as well.
    let over = repetition().as_mut().map(|repetition| repetition.take_over(now)).unwrap_or_default();
    for OmittedLines { level, text, count } in over {
        match level {
            Level::ERROR => tracing::error!(count, "left out further lines: {text}"),
            Level::WARN => tracing::warn!(count, "left out further lines: {text}"),
            _ => tracing::info!(count, "left out further lines: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_thousand_lines_of_one_kind_are_a_few_and_a_count() {
        let mut repetition = Repetition::new();
        let mut write = |now, place| {
            repetition.writes(Duration::from_millis(now), place, Level::WARN, || format!("refused by {place}"))
        };
        assert_eq!((0..6_000).filter(|now| write(*now, 'a')).count(), 20);
        assert!(write(9_000, 'b'), "lines of another kind are written");
        assert!(write(10_000, 'a'), "the next window begins");
        let left_out = OmittedLines { level: Level::WARN, text: "refused by a".into(), count: 5_980 };
        assert_eq!(repetition.take_over(Duration::from_millis(10_001)), [left_out]);
        assert_eq!(repetition.take_over(Duration::MAX), []);
    }
}
