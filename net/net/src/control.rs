//! The reliable stream of one session, as typed messages, or as raw messages of a room.

use std::marker::PhantomData;
use std::sync::Arc;

use nearlight_wire::{ControlReader, write_control, write_message};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web_transport_quinn::{ReadError, RecvStream, SendStream, WriteError};

use crate::NetError;
use crate::connection::CloseReason;
use crate::ethernet::EthernetSession;

/// Number of bytes read from the stream at a time.
const READ_BYTES: usize = 4_096;

enum Outgoing {
    Quic(SendStream),
    Ethernet(Arc<EthernetSession>),
}

enum Incoming {
    Quic(RecvStream),
    Ethernet(Arc<EthernetSession>),
}

/// Sends messages of type `M`, in order and without loss.
pub struct ControlSender<M> {
    stream: Outgoing,
    messages: PhantomData<fn(M)>,
}

/// Receives messages of type `M`.
pub struct ControlReceiver<M> {
    stream: Incoming,
    reader: ControlReader,
    chunk: Box<[u8; READ_BYTES]>,
    messages: PhantomData<fn() -> M>,
}

impl<M: Serialize> ControlSender<M> {
    pub(crate) fn new(stream: SendStream) -> Self {
        Self { stream: Outgoing::Quic(stream), messages: PhantomData }
    }

    pub(crate) fn over_ethernet(session: Arc<EthernetSession>) -> Self {
        Self { stream: Outgoing::Ethernet(session), messages: PhantomData }
    }

    /// Hands the message to the transport. Waits while the peer reads too slowly.
    ///
    /// Dropping the future midway leaves half a message on the stream: run it in a separate task, or close the session.
    pub async fn send(&mut self, message: &M) -> Result<(), NetError> {
        self.write(write_control(message)).await
    }

    /// Hands over a message of another kind, given as bytes.
    pub async fn send_bytes(&mut self, message: &[u8]) -> Result<(), NetError> {
        self.write(write_message(message)).await
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), NetError> {
        let stream = match &mut self.stream {
            Outgoing::Quic(stream) => stream,
            Outgoing::Ethernet(session) => return session.send_control(&bytes).await.map_err(NetError::Closed),
        };
        stream.write_all(&bytes).await.map_err(|error| match error {
            WriteError::SessionError(error) => NetError::Closed(CloseReason::from(error)),
            WriteError::Stopped(_) | WriteError::InvalidStopped(_) | WriteError::ClosedStream => NetError::ControlEnded,
        })
    }

    /// Ends the stream, and waits until the peer has all of it or wants no more.
    pub async fn finish(self) {
        match self.stream {
            Outgoing::Quic(mut stream) => {
                if stream.finish().is_ok() {
                    let _ = stream.stopped().await;
                }
            }
            Outgoing::Ethernet(session) => drop(session.acknowledged().await),
        }
    }

    #[cfg(test)]
    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        match &mut self.stream {
            Outgoing::Quic(stream) => stream.write_all(bytes).await.expect("the stream is open"),
            Outgoing::Ethernet(session) => session.send_control(bytes).await.expect("the session is open"),
        }
    }
}

impl<M: DeserializeOwned> ControlReceiver<M> {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self::over(Incoming::Quic(stream))
    }

    pub(crate) fn over_ethernet(session: Arc<EthernetSession>) -> Self {
        Self::over(Incoming::Ethernet(session))
    }

    fn over(stream: Incoming) -> Self {
        Self { stream, reader: ControlReader::default(), chunk: Box::new([0; READ_BYTES]), messages: PhantomData }
    }

    /// Returns the next message. Dropping the future loses nothing. After an error nothing more can be received.
    pub async fn recv(&mut self) -> Result<M, NetError> {
        loop {
            if let Some(message) = self.reader.poll()? {
                return Ok(message);
            }
            self.read().await?;
        }
    }

    /// Returns the bytes of the next message, of at most `most` bytes. Otherwise as [`ControlReceiver::recv`].
    pub async fn recv_bytes(&mut self, most: usize) -> Result<Vec<u8>, NetError> {
        loop {
            if let Some(message) = self.reader.poll_bytes(most)? {
                return Ok(message);
            }
            self.read().await?;
        }
    }

    /// Waits for further bytes.
    async fn read(&mut self) -> Result<(), NetError> {
        let stream = match &mut self.stream {
            Incoming::Quic(stream) => stream,
            Incoming::Ethernet(session) => {
                let bytes = session.recv_control().await.map_err(NetError::Closed)?;
                self.reader.on_bytes(&bytes);
                return Ok(());
            }
        };
        match stream.read(&mut self.chunk[..]).await {
            Ok(Some(count)) => self.reader.on_bytes(&self.chunk[..count]),
            Err(ReadError::SessionError(error)) => return Err(NetError::Closed(CloseReason::from(error))),
            Ok(None) | Err(_) => return Err(NetError::ControlEnded),
        }
        Ok(())
    }
}
