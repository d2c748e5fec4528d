//! Members over WebTransport: datagrams for messages that the next one makes obsolete, and the session's stream for everything else.

use std::sync::Arc;

use bytes::Bytes;
use nearlight_net::{CloseReason, Connection, ControlReceiver, ControlSender, NetError, ReceivedDatagram};
use nearlight_rooms::MAX_UPSTREAM_BYTES;
use nearlight_wire::{ClientMessage, RoomsWelcome, ServerMessage};
use tokio::sync::mpsc;

use super::member::{Disconnect, MemberHandshake, MemberReader, MemberWriter};
use super::peer::Network;
use crate::state::ServerState;
use crate::transports::Sessions;
use crate::transports::webtransport::{CLOSE_NORMAL, WebTransportHandshake};

pub(crate) async fn serve(state: Arc<ServerState>, sessions: Sessions, connection: Connection) {
    super::member::serve(state, sessions, WebTransportHandshake::new(connection)).await;
}

/// Receives the member's datagrams and stream messages.
pub(super) struct WebTransportReader {
    connection: Connection,
    stream: ControlReceiver<ClientMessage>,
}

/// Sends messages to the member over the stream.
pub(super) struct WebTransportWriter {
    connection: Connection,
    stream: ControlSender<ServerMessage>,
}

impl MemberHandshake for WebTransportHandshake {
    type Reader = WebTransportReader;
    type Writer = WebTransportWriter;

    async fn welcome(&mut self, welcome: &RoomsWelcome) -> bool {
        let Some((stream, _)) = &mut self.control else { return false };
        let json = serde_json::to_vec(welcome).unwrap_or_default();
        stream.send_bytes(&json).await.is_ok()
    }

    async fn recv_join(&mut self) -> Option<Result<Bytes, String>> {
        let (_, stream) = self.control.as_mut()?;
        match stream.recv_bytes(MAX_UPSTREAM_BYTES).await {
            Ok(bytes) => Some(Ok(bytes.into())),
            Err(NetError::Control(error)) => Some(Err(error.to_string())),
            Err(_) => None,
        }
    }

    /// Does nothing: rooms have no rate controller for a connection, so QUIC's own congestion control applies.
    fn claim(&self, _: &ServerState) {
        self.connection.set_congestion_control();
    }

    fn network(&self) -> Network {
        Network::Quic(self.connection.clone())
    }

    fn split(self) -> (WebTransportReader, WebTransportWriter) {
        let Self { connection, control } = self;
        let (to, from) = control.expect("it has sent its hello and its join");
        (
            WebTransportReader { connection: connection.clone(), stream: from },
            WebTransportWriter { connection, stream: to },
        )
    }
}

impl MemberReader for WebTransportReader {
    async fn recv(&mut self) -> Result<Bytes, Disconnect> {
        tokio::select! {
            datagram = self.connection.recv_datagram() => match datagram {
                Ok(ReceivedDatagram { datagram, .. }) => Ok(datagram),
                Err(reason) => Err(closed(&reason)),
            },
            message = self.stream.recv_bytes(MAX_UPSTREAM_BYTES) => message.map(Bytes::from).map_err(|error| match error {
                NetError::Closed(reason) => closed(&reason),
                error => Disconnect::left(&error.to_string()),
            }),
        }
    }

    fn close(self) {
        self.connection.close(CLOSE_NORMAL, "the membership has ended");
    }
}

fn closed(reason: &CloseReason) -> Disconnect {
    let lost = !matches!(reason, CloseReason::Peer { .. } | CloseReason::Here);
    Disconnect { reason: reason.to_string(), lost }
}

impl MemberWriter for WebTransportWriter {
    async fn write(mut self, mut messages: mpsc::Receiver<Bytes>) -> bool {
        while let Some(bytes) = messages.recv().await {
            if let Err(error) = self.stream.send_bytes(&bytes).await {
                return matches!(error, NetError::Closed(_));
            }
        }
        // Closing would discard the last message, so the member must read it first.
        self.stream.finish().await;
        self.connection.closed().await;
        false
    }
}
