//! The envelope of a message: participant, type, length, data.

use super::bytes::Reader;
use super::{Device, Events, InputError};

/// Maximum length of a message in bytes: a longer one is rejected before it is parsed. Unity's own client sends generated layouts as text
/// of some ten kilobytes.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// One message of the data channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet<'a> {
    /// The sender. The web client always writes 0.
    pub participant: i32,
    pub message: Message<'a>,
}

/// A message by its type, 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    Connect,
    Disconnect,
    /// A layout that the client generated, as text. Not needed here.
    NewLayout(&'a [u8]),
    NewDevice(Device),
    /// At least one event is announced. Each is checked when it is read.
    NewEvents(Events<'a>),
    /// The device's number.
    RemoveDevice(i32),
    /// The layout's name, as text.
    RemoveLayout(&'a [u8]),
    /// The present usages of a device, as text.
    ChangeUsages(&'a [u8]),
    StartSending,
    StopSending,
}

impl<'a> Packet<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, InputError> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(InputError::TooLong(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        let participant = reader.i32()?;
        let kind = reader.i32()?;
        let length = usize::try_from(reader.i32()?).map_err(|_| InputError::Field("length"))?;
        let data = reader.take(length)?;
        reader.finish()?;
        let message = match kind {
            0 => Message::Connect,
            1 => Message::Disconnect,
            2 => Message::NewLayout(data),
            3 => Message::NewDevice(Device::parse(data)?),
            4 => Message::NewEvents(Events::new(data)?),
            5 => Message::RemoveDevice(Reader::new(data).i32()?),
            6 => Message::RemoveLayout(data),
            7 => Message::ChangeUsages(data),
            8 => Message::StartSending,
            9 => Message::StopSending,
            kind => return Err(InputError::Type(kind)),
        };
        Ok(Self { participant, message })
    }
}
