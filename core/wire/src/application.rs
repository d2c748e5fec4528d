//! The application's own messages, which Nearlight carries without interpreting them.

use std::borrow::Cow;

use crate::cursor::Reader;
use crate::{ExtendedKind, Kind, WireError};

/// Maximum bytes of an application message that may be lost: it fits one datagram.
pub const MAX_UNRELIABLE_MESSAGE_BYTES: usize = 1_100;
/// Maximum bytes of an application message on the control stream, where it travels as base64.
pub const MAX_RELIABLE_MESSAGE_BYTES: usize = 16 * 1_024;

/// A message between the application and its user's page or program, opaque to everything in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationMessage {
    /// The content: at most [`MAX_RELIABLE_MESSAGE_BYTES`], or [`MAX_UNRELIABLE_MESSAGE_BYTES`] if it is not reliable.
    pub data: Vec<u8>,
    /// Whether it is delivered once and in order. Otherwise it may be lost, duplicated or reordered.
    pub reliable: bool,
}

impl ApplicationMessage {
    /// The maximum length of this kind of message in bytes.
    #[must_use]
    pub const fn limit(&self) -> usize {
        if self.reliable { MAX_RELIABLE_MESSAGE_BYTES } else { MAX_UNRELIABLE_MESSAGE_BYTES }
    }
}

/// A message that may be lost, duplicated or reordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreliableMessage<'a>(pub Cow<'a, [u8]>);

impl<'a> UnreliableMessage<'a> {
    /// The message as a datagram.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + self.0.len());
        self.write(&mut bytes);
        bytes
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.0.len() <= MAX_UNRELIABLE_MESSAGE_BYTES);
        bytes.extend([Kind::Extended.first_byte(), ExtendedKind::Application as u8]);
        bytes.extend_from_slice(&self.0);
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let data = reader.rest();
        if data.len() > MAX_UNRELIABLE_MESSAGE_BYTES {
            return Err(WireError::Field("application message"));
        }
        Ok(Self(data.into()))
    }

    /// Converts to a message that owns its bytes.
    #[must_use]
    pub fn into_owned(self) -> UnreliableMessage<'static> {
        UnreliableMessage(Cow::Owned(self.0.into_owned()))
    }
}
