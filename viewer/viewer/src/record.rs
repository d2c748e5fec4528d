//! Writes a run's files: events as JSON lines, a trace, a table of frames and the sound.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use nearlight_events::{CsvWriter, Event, Origin, Record, TraceWriter, create_private_file, write_line};
use nearlight_units::{Span, Time};

use crate::wav::WavWriter;
use crate::{RecordOptions, ViewerError};

/// The screenshot's name in error messages.
pub const SCREENSHOT: &str = "the screenshot";

/// Interval between two flushes: the length of the record that is lost if the process is killed.
const FLUSH_INTERVAL: Span = Span::from_secs(1);

/// Writes every event to the requested files.
pub struct Recorder {
    events: Option<(PathBuf, BufWriter<File>)>,
    trace: Option<(PathBuf, TraceWriter<File>)>,
    csv: Option<(PathBuf, CsvWriter<BufWriter<File>>)>,
    sound: Option<(PathBuf, WavWriter)>,
    flush_at: Time,
}

impl Recorder {
    pub fn new(options: &RecordOptions) -> Result<Self, ViewerError> {
        let create = |path: &Option<PathBuf>, what| -> Result<Option<(PathBuf, File)>, ViewerError> {
            let Some(path) = path else { return Ok(None) };
            let file = create_private_file(path).map_err(|source| failed(what, path, source))?;
            Ok(Some((path.clone(), file)))
        };
        let events = create(&options.events, EVENTS)?.map(|(path, file)| (path, BufWriter::new(file)));
        let trace = match create(&options.trace, TRACE)? {
            Some((path, file)) => {
                let writer = TraceWriter::new(file, "nearlight client");
                Some((path.clone(), writer.map_err(|source| failed(TRACE, &path, source))?))
            }
            None => None,
        };
        let csv = match create(&options.csv, CSV)? {
            Some((path, file)) => {
                let writer = CsvWriter::new(BufWriter::new(file));
                Some((path.clone(), writer.map_err(|source| failed(CSV, &path, source))?))
            }
            None => None,
        };
        let sound = match create(&options.sound, SOUND)? {
            Some((path, file)) => {
                let writer = WavWriter::new(file);
                Some((path.clone(), writer.map_err(|source| failed(SOUND, &path, source))?))
            }
            None => None,
        };
        // The screenshot is written after the run, but an error is reported before it.
        create(&options.screenshot, SCREENSHOT)?;
        Ok(Self { events, trace, csv, sound, flush_at: Time::ZERO })
    }

    /// Writes interleaved stereo samples that were played.
    pub fn write_sound(&mut self, samples: &[f32]) -> Result<(), ViewerError> {
        match &mut self.sound {
            Some((path, writer)) => writer.write(samples).map_err(|source| failed(SOUND, path, source)),
            None => Ok(()),
        }
    }

    pub fn write(&mut self, at: Time, session: u32, event: &Event) -> Result<(), ViewerError> {
        let record = Record { at, origin: Origin::Client, session, event: Cow::Borrowed(event) };
        if let Some((path, writer)) = &mut self.events {
            write_line(writer, &record).map_err(|source| failed(EVENTS, path, source))?;
        }
        if let Some((_, writer)) = &mut self.trace {
            writer.write(&record);
        }
        if let Some((path, writer)) = &mut self.csv {
            writer.write(&record).map_err(|source| failed(CSV, path, source))?;
        }
        if at < self.flush_at {
            return Ok(());
        }
        self.flush_at = at + FLUSH_INTERVAL;
        self.flush()
    }

    pub fn flush(&mut self) -> Result<(), ViewerError> {
        if let Some((path, writer)) = &mut self.events {
            writer.flush().map_err(|source| failed(EVENTS, path, source))?;
        }
        if let Some((path, writer)) = &mut self.trace {
            writer.flush().map_err(|source| failed(TRACE, path, source))?;
        }
        if let Some((path, writer)) = &mut self.csv {
            writer.flush().map_err(|source| failed(CSV, path, source))?;
        }
        if let Some((path, writer)) = &mut self.sound {
            writer.flush().map_err(|source| failed(SOUND, path, source))?;
        }
        Ok(())
    }
}

const EVENTS: &str = "events";
const TRACE: &str = "the trace";
const SOUND: &str = "the sound";
const CSV: &str = "the table of frames";

fn failed(what: &'static str, path: &Path, source: io::Error) -> ViewerError {
    ViewerError::File { what, path: path.to_owned(), source }
}
