//! The reliable stream of one session, as typed messages.

use std::marker::PhantomData;

use nearlight_wire::{ControlReader, write_control};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web_transport_quinn::{ReadError, RecvStream, SendStream, WriteError};

use crate::NetError;
use crate::connection::CloseReason;

/// Bytes taken from the stream at a time.
const CHUNK: usize = 4_096;

/// Sends messages of type `M`, in order and without loss.
pub struct ControlSender<M> {
    stream: SendStream,
    messages: PhantomData<fn(M)>,
}

/// Receives messages of type `M`.
pub struct ControlReceiver<M> {
    stream: RecvStream,
    reader: ControlReader,
    chunk: Box<[u8; CHUNK]>,
    messages: PhantomData<fn() -> M>,
}

impl<M: Serialize> ControlSender<M> {
    pub(crate) fn new(stream: SendStream) -> Self {
        Self { stream, messages: PhantomData }
    }

    /// Hands the message to the transport; waits while the peer reads too slowly.
    ///
    /// Dropping the future midway leaves half a message on the stream: put it in a task of its own, or close the session.
    pub async fn send(&mut self, message: &M) -> Result<(), NetError> {
        self.stream.write_all(&write_control(message)).await.map_err(|error| match error {
            WriteError::SessionError(error) => NetError::Closed(CloseReason::from(error)),
            WriteError::Stopped(_) | WriteError::InvalidStopped(_) | WriteError::ClosedStream => NetError::ControlEnded,
        })
    }

    #[cfg(test)]
    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the stream is open");
    }
}

impl<M: DeserializeOwned> ControlReceiver<M> {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream, reader: ControlReader::default(), chunk: Box::new([0; CHUNK]), messages: PhantomData }
    }

    /// The next message. Dropping the future loses nothing. After an error nothing more can be received.
    pub async fn recv(&mut self) -> Result<M, NetError> {
        loop {
            if let Some(message) = self.reader.poll()? {
                return Ok(message);
            }
            match self.stream.read(&mut self.chunk[..]).await {
                Ok(Some(count)) => self.reader.on_bytes(&self.chunk[..count]),
                Err(ReadError::SessionError(error)) => return Err(NetError::Closed(CloseReason::from(error))),
                Ok(None) | Err(_) => return Err(NetError::ControlEnded),
            }
        }
    }
}
