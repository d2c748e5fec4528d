//! `--events`: the event log, written by its own thread so that no session waits for a disk.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearlight_events::{Event, Origin, Record, write_line};
use nearlight_units::Time;

/// Entries that may wait for the disk. If the disk is slower than the events, entries are dropped, with a warning in the log.
const MAX_QUEUED_ENTRIES: usize = 16_384;
/// Interval at which the buffer is flushed, for readers that follow the file.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

type Entry = (Time, u32, Event);

/// Takes events from sessions; cheap to clone.
#[derive(Clone)]
pub(crate) struct EventLog {
    entries: SyncSender<Entry>,
}

/// Handle of the writing thread, to wait until the file is complete.
pub(crate) struct EventLogThread(JoinHandle<std::io::Result<()>>);

impl EventLog {
    /// Starts the thread that writes the file.
    pub(crate) fn start(file: File) -> std::io::Result<(Self, EventLogThread)> {
        let mut file = BufWriter::new(file);
        let (entries, waiting) = sync_channel::<Entry>(MAX_QUEUED_ENTRIES);
        let thread = thread::Builder::new().name("event log".into()).spawn(move || {
            loop {
                match waiting.recv_timeout(FLUSH_INTERVAL) {
                    Ok((at, session, event)) => {
                        write_line(
                            &mut file,
                            &Record { at, origin: Origin::Server, session, event: Cow::Owned(event) },
                        )?;
                    }
                    Err(RecvTimeoutError::Timeout) => file.flush()?,
                    Err(RecvTimeoutError::Disconnected) => return file.flush(),
                }
            }
        })?;
        Ok((Self { entries }, EventLogThread(thread)))
    }

    pub(crate) fn write(&self, at: Time, session: u32, event: Event) {
        if self.entries.try_send((at, session, event)).is_err() {
            tracing::warn!("an event was not written: the disk is too slow, or writing the file failed");
        }
    }
}

impl EventLogThread {
    /// Waits until the file is complete. Call this after every [`EventLog`] has been dropped.
    pub(crate) fn finish(self) {
        match self.0.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the events file is not complete"),
            Err(_) => tracing::error!("the events file is not complete: its thread panicked"),
        }
    }
}
