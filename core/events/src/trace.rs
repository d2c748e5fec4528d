//! A trace of every frame's stages for Perfetto and Chrome's tracing page (Trace Event Format, JSON array).

use std::io::{self, Seek, SeekFrom, Write};

use nearlight_units::{Bitrate, Span, Time};
use serde_json::{Map, Value, json};

use crate::{Event, Origin, Record, STAGES, Stage, Timeline};

/// Tracks per stage. Frames that are in one stage at the same time are on different tracks, because slices of one track must not
/// overlap. Guess: eight frames in flight are 130 ms of a 60 Hz stream; more frames share the last track.
const TRACKS_PER_STAGE: usize = 8;
/// The track of events that are no stage.
const EVENT_TRACK: usize = STAGES.len() * TRACKS_PER_STAGE;
/// Closes the array. It is written with every flush and overwritten by the next one.
const ARRAY_END: &[u8] = b"\n]\n";

/// Writes records as they arrive. After each flush the file is complete, whenever the process ends.
///
/// Stages become slices on one track per stage, rates become counters, everything else marks a moment.
#[derive(Debug)]
pub struct TraceWriter<W: Write + Seek> {
    writer: W,
    /// Events since the last flush.
    unwritten: Vec<u8>,
    /// File offset of the next event, which overwrites the end of the array.
    tail: u64,
    /// Time until which each track is occupied.
    busy: [Time; STAGES.len() * TRACKS_PER_STAGE],
    named: [bool; STAGES.len() * TRACKS_PER_STAGE + 1],
}

impl<W: Write + Seek> TraceWriter<W> {
    /// Starts a trace of the process called `process`. The file is complete from the start.
    pub fn new(writer: W, process: &str) -> io::Result<Self> {
        let mut trace = Self {
            writer,
            unwritten: b"[\n".to_vec(),
            tail: 0,
            busy: [Time::ZERO; STAGES.len() * TRACKS_PER_STAGE],
            named: [false; STAGES.len() * TRACKS_PER_STAGE + 1],
        };
        let name = json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}});
        trace.unwritten.extend_from_slice(name.to_string().as_bytes());
        trace.flush()?;
        Ok(trace)
    }

    /// Adds a record. It reaches the file with the next [`TraceWriter::flush`].
    pub fn write(&mut self, record: &Record<'_>) {
        match &*record.event {
            Event::FrameDisplayed { timeline } => self.write_frame(record, timeline, &STAGES),
            Event::FramePassedOver { timeline } => {
                let known =
                    STAGES.iter().rposition(|stage| timeline.stage(*stage) != Span::ZERO).map_or(0, |last| last + 1);
                self.write_frame(record, timeline, &STAGES[Stage::Render as usize..known]);
            }
            Event::RateDecision { target, pacing, .. } => self.write_rates(record.at, *target, *pacing),
            event => self.write_moment(record, event),
        }
    }

    /// Writes pending events and closes the array again.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let length = self.unwritten.len() as u64;
        self.unwritten.extend_from_slice(ARRAY_END);
        self.writer.seek(SeekFrom::Start(self.tail))?;
        // One call, so that a process that is killed leaves either the old end or the new one.
        self.writer.write_all(&self.unwritten)?;
        self.writer.flush()?;
        self.tail += length;
        self.unwritten.clear();
        Ok(())
    }

    fn write_frame(&mut self, record: &Record<'_>, timeline: &Timeline, stages: &[Stage]) {
        for stage in stages.iter().copied() {
            let start = timeline.boundaries[stage as usize];
            let length = timeline.stage(stage);
            let track = self.track(stage as usize, start, start + length.max(Span::ZERO));
            let mut args = Map::new();
            args.insert("frame".into(), timeline.frame.0.into());
            args.insert("input".into(), timeline.input.0.into());
            args.insert("session".into(), record.session.into());
            if length < Span::ZERO {
                // Clocks of two machines are known only within an error, which a slice cannot show.
                args.insert("length_us".into(), (length.as_nanos() as f64 / 1e3).into());
            }
            if timeline.late {
                args.insert("late".into(), true.into());
            }
            if matches!(*record.event, Event::FramePassedOver { .. }) {
                args.insert("passed_over".into(), true.into());
            }
            let length = length.max(Span::ZERO).as_nanos() as f64 / 1e3;
            self.push(&json!({
                "ph": "X", "pid": 1, "tid": track, "name": stage.name(), "cat": "frame",
                "ts": micros(start), "dur": length, "args": args,
            }));
        }
    }

    fn write_rates(&mut self, at: Time, target: Bitrate, pacing: Bitrate) {
        let args = json!({"target": target.as_mbps_f64(), "pacing": pacing.as_mbps_f64()});
        self.push(&json!({"ph": "C", "pid": 1, "name": "rate in Mb/s", "ts": micros(at), "args": args}));
    }

    fn write_moment(&mut self, record: &Record<'_>, event: &Event) {
        let mut args = match serde_json::to_value(event) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let name = args.remove("event").unwrap_or_default();
        let origin = if record.origin == Origin::Server { "server" } else { "client" };
        self.name_track(EVENT_TRACK, "events");
        self.push(&json!({
            "ph": "i", "s": "t", "pid": 1, "tid": EVENT_TRACK, "name": name, "cat": origin, "ts": micros(record.at),
            "args": args,
        }));
    }

    /// The first free track of a stage for a slice from `start` to `end`.
    fn track(&mut self, stage: usize, start: Time, end: Time) -> usize {
        let first = stage * TRACKS_PER_STAGE;
        let lane = self.busy[first..first + TRACKS_PER_STAGE]
            .iter()
            .position(|busy| *busy <= start)
            .unwrap_or(TRACKS_PER_STAGE - 1);
        let track = first + lane;
        self.busy[track] = self.busy[track].max(end);
        let name = STAGES[stage].name();
        if lane == 0 {
            self.name_track(track, name);
        } else {
            self.name_track(track, &format!("{name} {}", lane + 1));
        }
        track
    }

    fn name_track(&mut self, track: usize, name: &str) {
        if std::mem::replace(&mut self.named[track], true) {
            return;
        }
        self.push(&json!({"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": name}}));
        self.push(
            &json!({"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}),
        );
    }

    fn push(&mut self, event: &Value) {
        self.unwritten.extend_from_slice(b",\n");
        self.unwritten.extend_from_slice(event.to_string().as_bytes());
    }
}

impl<W: Write + Seek> Drop for TraceWriter<W> {
    fn drop(&mut self) {
        // A caller that needs to detect a full disk calls flush.
        let _ = self.flush();
    }
}

/// The format's unit, with nanoseconds after the decimal point.
fn micros(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::io::Cursor;

    use nearlight_units::{FrameId, InputSeq};

    use super::*;

    fn timeline(frame: u32, start: Time, stage: Span) -> Timeline {
        Timeline {
            frame: FrameId(frame),
            input: InputSeq(frame * 2),
            boundaries: std::array::from_fn(|index| start + stage * index as i64),
            clock_error: Span::ZERO,
            late: false,
        }
    }

    fn record(at: Time, event: &Event) -> Record<'_> {
        Record { at, origin: Origin::Client, session: 7, event: Cow::Borrowed(event) }
    }

    fn events(bytes: &[u8]) -> Vec<Value> {
        serde_json::from_slice(bytes).expect("always a complete array")
    }

    #[test]
    fn the_file_is_complete_after_every_flush() {
        let mut file = Cursor::new(Vec::new());
        let mut trace = TraceWriter::new(&mut file, "client").expect("memory");
        for frame in 0..3 {
            let timeline = timeline(frame, Time::from_millis(u64::from(frame) * 33), Span::from_millis(1));
            trace.write(&record(Time::ZERO, &Event::FrameDisplayed { timeline }));
            trace.flush().expect("memory");
            let written = events(trace.writer.get_ref());
            let slices = written.iter().filter(|event| event["ph"] == "X").count();
            assert_eq!(slices, STAGES.len() * (frame as usize + 1));
        }
        drop(trace);
        assert_eq!(events(file.get_ref())[0]["args"]["name"], "client");
    }

    #[test]
    fn slices_say_frame_and_input_and_telescope() {
        let mut file = Cursor::new(Vec::new());
        let timeline = timeline(4, Time::from_micros(1_500), Span::from_micros(250));
        TraceWriter::new(&mut file, "client")
            .expect("memory")
            .write(&record(Time::ZERO, &Event::FrameDisplayed { timeline }));
        let written = events(file.get_ref());
        let slices: Vec<&Value> = written.iter().filter(|event| event["ph"] == "X").collect();
        for (index, slice) in slices.iter().enumerate() {
            assert_eq!(slice["name"], STAGES[index].name());
            assert_eq!((&slice["args"]["frame"], &slice["args"]["input"]), (&json!(4), &json!(8)));
            let expected = 1_500.0 + 250.0 * index as f64;
            assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(expected), Some(250.0)));
        }
    }

    #[test]
    fn a_frame_that_was_passed_over_has_the_stages_that_it_passed() {
        let mut file = Cursor::new(Vec::new());
        let mut timeline = timeline(4, Time::from_micros(1_500), Span::from_micros(250));
        let begun = timeline.boundaries[Stage::Render as usize];
        timeline.boundaries[..2].fill(begun);
        timeline.boundaries[STAGES.len()] = timeline.boundaries[STAGES.len() - 1];
        TraceWriter::new(&mut file, "client")
            .expect("memory")
            .write(&record(Time::ZERO, &Event::FramePassedOver { timeline }));
        let written = events(file.get_ref());
        let slices: Vec<&Value> = written.iter().filter(|event| event["ph"] == "X").collect();
        let names: Vec<&str> = slices.iter().filter_map(|slice| slice["name"].as_str()).collect();
        assert_eq!(
            names,
            STAGES[Stage::Render as usize..Stage::Present as usize].iter().map(|s| s.name()).collect::<Vec<_>>()
        );
        assert!(slices.iter().all(|slice| slice["args"]["passed_over"] == true), "{slices:?}");
    }

    #[test]
    fn slices_of_one_track_never_overlap() {
        let mut file = Cursor::new(Vec::new());
        let mut trace = TraceWriter::new(&mut file, "client").expect("memory");
        for frame in 0..6 {
            let timeline = timeline(frame, Time::from_millis(u64::from(frame) * 16), Span::from_millis(40));
            trace.write(&record(Time::ZERO, &Event::FrameDisplayed { timeline }));
        }
        drop(trace);
        let mut ends = std::collections::BTreeMap::new();
        for slice in events(file.get_ref()).iter().filter(|event| event["ph"] == "X") {
            let (start, length) = (slice["ts"].as_f64().expect("a number"), slice["dur"].as_f64().expect("a number"));
            let end = ends.insert(slice["tid"].as_u64(), start + length).unwrap_or(0.0);
            assert!(end <= start, "{slice} begins before its track is free");
        }
        assert!(ends.len() > STAGES.len(), "frames in flight at once need more tracks");
    }

    #[test]
    fn rates_are_counters_and_the_rest_are_moments() {
        let mut file = Cursor::new(Vec::new());
        let mut trace = TraceWriter::new(&mut file, "server").expect("memory");
        let rate = Event::RateDecision {
            target: Bitrate::from_mbps(8),
            pacing: Bitrate::from_mbps(20),
            binding: "delay".into(),
            candidates: Vec::new(),
        };
        trace.write(&record(Time::from_millis(1), &rate));
        let lost = Event::FrameLost { frame: FrameId(3), reason: "too old".into() };
        trace.write(&record(Time::from_millis(2), &lost));
        drop(trace);
        let written = events(file.get_ref());
        assert!(written.iter().any(|event| event["ph"] == "C" && event["args"]["target"] == 8.0));
        assert!(written.iter().any(|event| event["name"] == "frame_lost" && event["args"]["frame"] == 3));
    }
}
