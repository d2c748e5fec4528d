//! Members over a WebSocket on the page's own port: text messages until the join, then a binary message for each message of a room.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use nearlight_rooms::MAX_UPSTREAM_BYTES;
use nearlight_wire::RoomsWelcome;
use tokio::sync::mpsc;

use super::member::{Disconnect, MemberHandshake, MemberReader, MemberWriter};
use super::peer::Network;
use crate::state::ServerState;
use crate::transports::Sessions;
use crate::transports::websocket::{WebSocketClient, text};

pub(crate) async fn serve(state: Arc<ServerState>, sessions: Sessions, client: WebSocketClient) {
    super::member::serve(state, sessions, client).await;
}

impl MemberHandshake for WebSocketClient {
    type Reader = SplitStream<WebSocket>;
    type Writer = SplitSink<WebSocket, Message>;

    async fn welcome(&mut self, welcome: &RoomsWelcome) -> bool {
        self.socket.send(text(welcome)).await.is_ok()
    }

    async fn recv_join(&mut self) -> Option<Result<Bytes, String>> {
        match self.socket.recv().await {
            Some(Ok(Message::Binary(bytes))) => Some(Ok(bytes)),
            Some(Ok(_)) => Some(Err("the message after the hello is not a join".into())),
            Some(Err(_)) | None => None,
        }
    }

    fn claim(&self, state: &ServerState) {
        Self::claim(self, state);
    }

    fn network(&self) -> Network {
        Network::Tcp(self.tcp.clone())
    }

    fn split(self) -> (Self::Reader, Self::Writer) {
        let (sink, stream) = self.socket.split();
        (stream, sink)
    }
}

impl MemberReader for SplitStream<WebSocket> {
    async fn recv(&mut self) -> Result<Bytes, Disconnect> {
        loop {
            match self.next().await {
                Some(Ok(Message::Binary(bytes))) if bytes.len() <= MAX_UPSTREAM_BYTES => return Ok(bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) => return Err(Disconnect::left("it closed the socket")),
                Some(Ok(_)) => return Err(Disconnect::left("it sent a message that is not binary")),
                None => return Err(Disconnect { reason: "its connection closed".into(), lost: true }),
                Some(Err(error)) => return Err(Disconnect { reason: error.to_string(), lost: true }),
            }
        }
    }

    fn close(self) {}
}

impl MemberWriter for SplitSink<WebSocket, Message> {
    async fn write(mut self, mut messages: mpsc::Receiver<Bytes>) -> bool {
        while let Some(bytes) = messages.recv().await {
            if self.send(Message::Binary(bytes)).await.is_err() {
                return true;
            }
        }
        self.send(Message::Close(None)).await.is_err()
    }
}
