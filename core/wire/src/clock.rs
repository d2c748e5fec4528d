//! The exchange from which clock offset and round trip are estimated.

use nearlight_units::RemoteTime;

use crate::cursor::Reader;
use crate::{Kind, WireError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// When the ping was sent, on the client's clock.
    pub client_sent_at: RemoteTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// When the ping was sent, on the client's clock, copied from it.
    pub client_sent_at: RemoteTime,
    /// When the ping arrived, on the server's clock.
    pub server_received_at: RemoteTime,
    /// When the pong was sent, on the server's clock.
    pub server_sent_at: RemoteTime,
}

impl Ping {
    pub(crate) fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(Kind::Ping.first_byte());
        bytes.extend_from_slice(&self.client_sent_at.as_micros().to_be_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { client_sent_at: reader.time()? })
    }
}

impl Pong {
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![Kind::Pong.first_byte()];
        for time in [self.client_sent_at, self.server_received_at, self.server_sent_at] {
            bytes.extend_from_slice(&time.as_micros().to_be_bytes());
        }
        bytes
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut time = || reader.time();
        Ok(Self { client_sent_at: time()?, server_received_at: time()?, server_sent_at: time()? })
    }
}
