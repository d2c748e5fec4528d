//! Recent events, kept for export from the page.

use std::borrow::Cow;
use std::collections::VecDeque;

use nearlight_events::{Event, Origin, Record, write_line};
use nearlight_session::Receiver;
use nearlight_units::Time;

/// Older records are dropped: five minutes of a headset's 90 frames a second, or about 10 MB.
const MAX_RECORDS: usize = 27_000;

/// The newest events of a session.
#[derive(Default)]
pub struct Journal {
    records: VecDeque<(Time, Event)>,
    pub session: u32,
}

impl Journal {
    /// Takes the receiver's pending events.
    pub fn take_from(&mut self, receiver: &mut Receiver) {
        while let Some(record) = receiver.poll_event() {
            if self.records.len() == MAX_RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(record);
        }
    }

    /// One line of JSON for each record, in the schema that server and native client write (docs/json.md).
    pub fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (at, event) in &self.records {
            let record = Record { at: *at, origin: Origin::Client, session: self.session, event: Cow::Borrowed(event) };
            write_line(&mut lines, &record).expect("memory takes every line");
        }
        lines
    }
}
