//! Events of devices: a complete state, or a typed letter.

use super::bytes::Reader;
use super::{InputError, State, four_letters};

const STATE: u32 = four_letters(*b"STAT");
const TEXT: u32 = four_letters(*b"TEXT");
/// Type, size, device, time, number.
const HEADER_BYTES: usize = 20;
/// Unity lays events out one behind the other at multiples of this.
const ALIGNMENT: usize = 4;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number that the device's `NewDevice` gave.
    pub device: u16,
    /// Seconds since the client's start, by its own clock.
    pub seconds: f64,
    pub what: What,
}

/// What happened to the device.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The complete state of the device.
    State(State),
    /// A letter as UTF-16 code unit or code point, as the browser's key name begins.
    Text(i32),
    /// A type that is not needed here, such as a partial state.
    Other(u32),
}

/// The events of one message, read one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Events<'a> {
    data: &'a [u8],
    /// How far the bytes have been read, from the first event on.
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
        let kind = header.u32()?;
        let size = usize::from(header.u16()?);
        let device = header.u16()?;
        let seconds = header.f64()?;
        let _number = header.i32()?;
        let Some(body) = size.checked_sub(HEADER_BYTES) else { return Err(InputError::Field("event size")) };
        let body = header.take(body)?;
        let what = match kind {
            STATE => What::State(State::parse(body)?),
            TEXT => What::Text(Reader::new(body).i32()?),
            kind => What::Other(kind),
        };
        self.position += size.next_multiple_of(ALIGNMENT).min(rest.len());
        Ok(Event { device, seconds, what })
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, InputError>;

    /// After an error there are no more events: where the next one begins is not known.
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
