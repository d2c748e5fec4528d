//! The destination of log lines: standard error, or memory while they are held back so that a link is printed before them.

pub(crate) mod format;
pub(crate) mod repeated;

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock};

use nearlight_units::lock;

use self::format::{JournalPriority, LogFormat};

/// Most bytes of log that are held back. Guess: many times what is logged during the start.
const MAX_HELD_BYTES: usize = 64 << 10;

static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Sets the format of standard error, once.
pub(crate) fn set_format(format: LogFormat) {
    let _ = FORMAT.set(format);
}

/// Writes words for the person at the terminal, which are no event of the log. Where programs read standard error, they are a line of the log.
pub(crate) fn notice(words: &str) {
    match FORMAT.get() {
        Some(LogFormat::Json) => tracing::info!("{}", words.trim()),
        _ => eprintln!("{words}"),
    }
}

/// Whether people read standard error, and no programs.
pub(crate) fn is_for_people() -> bool {
    matches!(FORMAT.get(), None | Some(LogFormat::Text))
}

/// Writes what to do next, for a person at a terminal.
pub(crate) fn hint(words: &str) {
    if is_for_people() {
        eprintln!("{words}");
    }
}

/// Writes why the command has failed.
pub(crate) fn failure(words: &str) {
    match FORMAT.get() {
        Some(LogFormat::Json) => tracing::error!("{words}"),
        Some(LogFormat::Journal) => eprint!("{}", JournalPriority::ERROR.lines(&format!("nearlight: {words}"))),
        _ => eprintln!("nearlight: {words}"),
    }
}

/// A writer of log lines; all of them write to the same place.
#[derive(Debug)]
pub(crate) struct Log;

/// Keeps log lines from now on until [`release`].
pub(crate) fn hold() {
    *held() = Some(Vec::new());
}

/// Writes the held lines, and from now on every line at once.
pub(crate) fn release() {
    let kept = held().take();
    if let Some(lines) = kept {
        let _ = io::stderr().write_all(&lines);
    }
}

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    lock(&HELD)
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(lines) = held().as_mut().filter(|lines| lines.len() + bytes.len() <= MAX_HELD_BYTES) {
            lines.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        release();
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
