//! Events of devices: a complete state, or a typed letter.

use super::bytes::Reader;
use super::{InputError, State, four_letters};

const STATE: u32 = four_letters(*b"STAT");
const TEXT: u32 = four_letters(*b"TEXT");
/// Bytes of type, size, device, time and number.
const HEADER_BYTES: usize = 20;
/// Alignment in bytes at which Unity stores events one behind the other.
const ALIGNMENT: usize = 4;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number that the device's `NewDevice` gave.
    pub device: u16,
    /// Seconds since the client's start, by its own clock.
    pub seconds: f64,
    pub kind: EventKind,
}

/// The kind of an event, with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// The complete state of the device.
    State(State),
    /// A letter as UTF-16 code unit or code point: the first of the browser's key name.
    Text(i32),
    /// A type that is not needed here, such as a partial state.
    Other(u32),
}

/// The events of one message, read one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Events<'a> {
    data: &'a [u8],
    /// Read position in the bytes, from the first event on.
    position: usize,
}

impl<'a> Events<'a> {
    pub(super) const fn new(data: &'a [u8]) -> Result<Self, InputError> {
        if data.len() < HEADER_BYTES {
            return Err(InputError::Truncated { need: HEADER_BYTES, have: data.len() });
        }
        Ok(Self { data, position: 0 })
    }

    fn read(&mut self) -> Result<Event, InputError> {
        let rest = &self.data[self.position..];
        let mut header = Reader::new(rest);
        let code = header.u32()?;
        let size = usize::from(header.u16()?);
        let device = header.u16()?;
        let seconds = header.f64()?;
        let _number = header.i32()?;
        let Some(body) = size.checked_sub(HEADER_BYTES) else { return Err(InputError::Field("event size")) };
        let body = header.take(body)?;
        let kind = match code {
            STATE => EventKind::State(State::parse(body)?),
            TEXT => EventKind::Text(Reader::new(body).i32()?),
            code => EventKind::Other(code),
        };
        self.position += size.next_multiple_of(ALIGNMENT).min(rest.len());
        Ok(Event { device, seconds, kind })
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, InputError>;

    /// After an error there are no more events, because the start of the next one is unknown.
    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.data.len() {
            return None;
        }
        let event = self.read();
        if event.is_err() {
            self.position = self.data.len();
        }
        Some(event)
    }
}
