//! One line per displayed frame, for spreadsheets and statistics programs.

use std::io::{self, Write};

use nearlight_units::Span;

use crate::{Event, Record, STAGES};

/// Writes displayed frames as comma-separated values. Durations are in microseconds, times on the record's own clock.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    writer: W,
}

impl<W: Write> CsvWriter<W> {
    /// Starts a table with its heading.
    pub fn new(mut writer: W) -> io::Result<Self> {
        let stages = STAGES.map(|stage| format!("{}_us", stage.name()));
        writeln!(writer, "session,frame,input,displayed_at_us,total_us,{},clock_error_us,late", stages.join(","))?;
        Ok(Self { writer })
    }

    /// Adds a row for a displayed frame. Other events have none.
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let Event::FrameDisplayed { timeline } = &*record.event else { return Ok(()) };
        let stages = STAGES.map(|stage| micros(timeline.stage(stage)));
        writeln!(
            self.writer,
            "{},{},{},{},{},{},{},{}",
            record.session,
            timeline.frame,
            timeline.input,
            micros(timeline.displayed_at() - nearlight_units::Time::ZERO),
            micros(timeline.total()),
            stages.join(","),
            micros(timeline.clock_error),
            u8::from(timeline.late),
        )
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn micros(span: Span) -> String {
    format!("{:.1}", span.as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use nearlight_units::{FrameId, InputSeq, Time};

    use std::borrow::Cow;

    use super::*;
    use crate::{Origin, Timeline};

    #[test]
    fn every_row_has_the_headings_columns() {
        let mut bytes = Vec::new();
        let mut table = CsvWriter::new(&mut bytes).expect("memory");
        let timeline = Timeline {
            frame: FrameId(3),
            input: InputSeq(2),
            boundaries: std::array::from_fn(|index| Time::from_micros(index as u64 * 100)),
            clock_error: Span::from_nanos(1_500),
            late: true,
        };
        for event in [Event::FrameDisplayed { timeline }, Event::FrameSkipped { reason: "pacer queue".into() }] {
            let record = Record { at: Time::ZERO, origin: Origin::Client, session: 1, event: Cow::Borrowed(&event) };
            table.write(&record).expect("memory");
        }
        let text = String::from_utf8(bytes).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert!(lines[1].starts_with("1,3,2,1000.0,1000.0,100.0,"), "{text}");
        assert!(lines[1].ends_with(",1.5,1"), "{text}");
    }
}
