//! A member's connection to a room over either transport: challenge, proof, welcome, join, then the room's messages.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use nearlight_net::{
    ClientStream, Clock, CloseReason, ConnectOptions, Connection, ControlReceiver, ControlSender, Link, NetError,
    ReceivedDatagram, SESSION_INFO_PATH, SessionInfo, SessionKind, Trust, connect, connect_page, nonce,
};
use nearlight_rooms::{Join, Lane, MAX_SNAPSHOT_BYTES};
use nearlight_units::Span;
use nearlight_wire::{
    Binding, Bytes32, ClientMessage, Hello, MAX_CONTROL_BYTES, ROOMS_PATH, Role, RoomsWelcome, ServerMessage,
    TokenProof,
};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::SwarmError;
use crate::Carrier;

/// Name of the clients in the server's log.
pub(super) const CLIENT_NAME: &str = concat!("nearlight swarm ", env!("CARGO_PKG_VERSION"));

/// Longest time that a server may take to answer during the handshake. A server that admits many at once takes longer than one member needs.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Read at a time. The library clears as much before each read, 128 KiB by default, and messages are short.
const READ_BUFFER: usize = 4 << 10;

/// First byte of a text on the stream; no version of a room's messages begins so.
const TEXT_PREFIX: u8 = b'{';

/// The server's code for a session that it refuses (docs/wire.md, "Transport").
const CLOSE_REFUSED: u32 = 1;

/// Why a member's connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The room ended the membership, or sent a message that cannot be parsed.
    Ended(String),
    /// The transport failed.
    Lost(String),
}

/// A message received from the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub bytes: Bytes,
    pub in_datagram: bool,
}

/// The connection of a member that has asked to join.
pub enum MemberConnection {
    WebSocket(Box<WebSocketStream<ClientStream>>),
    WebTransport(Box<Session>),
}

/// A session over WebTransport.
pub struct Session {
    connection: Connection,
    to: ControlSender<ClientMessage>,
    from: ControlReceiver<ServerMessage>,
}

/// Every message is handed to the kernel at once; a room's longest message fits.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(MAX_SNAPSHOT_BYTES))
        .max_frame_size(Some(MAX_SNAPSHOT_BYTES))
}

impl MemberConnection {
    /// Opens a connection, on which both ends prove the link's token, and asks to join.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or does not know the token.
    pub async fn open(link: &Link, carrier: Carrier, join: &Join, clock: Clock) -> Result<Self, SwarmError> {
        let token = link.token.as_ref().ok_or(SwarmError::NoToken)?;
        match carrier {
            Carrier::WebSocket => open_websocket(link, token, join).await,
            Carrier::WebTransport => {
                let trust = link.certificate.map_or(Trust::Any, Trust::Certificate);
                open_webtransport(ConnectOptions::new(link, trust), token, join, clock).await
            }
        }
    }

    /// The next message of the room's. The future is cancel-safe.
    ///
    /// # Errors
    /// If there are no more.
    pub async fn recv(&mut self) -> Result<ReceivedMessage, DisconnectReason> {
        match self {
            Self::WebSocket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => return Ok(ReceivedMessage { bytes, in_datagram: false }),
                    Some(Ok(Message::Text(text))) => return Err(DisconnectReason::Ended(words(&text))),
                    Some(Ok(Message::Close(_))) | None => {
                        return Err(DisconnectReason::Lost("the server closed the socket".into()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(DisconnectReason::Lost(error.to_string())),
                }
            },
            Self::WebTransport(session) => {
                let Session { connection, from, .. } = &mut **session;
                tokio::select! {
                    datagram = connection.recv_datagram() => match datagram {
                        Ok(ReceivedDatagram { datagram, .. }) => Ok(ReceivedMessage { bytes: datagram, in_datagram: true }),
                        Err(reason) => Err(DisconnectReason::Lost(reason.to_string())),
                    },
                    message = from.recv_bytes(MAX_SNAPSHOT_BYTES) => match message {
                        Ok(text) if text.first() == Some(&TEXT_PREFIX) => Err(DisconnectReason::Ended(words(&String::from_utf8_lossy(&text)))),
                        Ok(bytes) => Ok(ReceivedMessage { bytes: bytes.into(), in_datagram: false }),
                        Err(error) => Err(DisconnectReason::Lost(error.to_string())),
                    },
                }
            }
        }
    }

    /// Hands the member's messages to the transport.
    ///
    /// # Errors
    /// If the connection has broken.
    pub async fn send(&mut self, messages: Vec<Vec<u8>>) -> Result<(), String> {
        match self {
            Self::WebSocket(socket) => {
                let some = !messages.is_empty();
                for message in messages {
                    socket.feed(Message::Binary(message.into())).await.map_err(|error| error.to_string())?;
                }
                if some { socket.flush().await.map_err(|error| error.to_string()) } else { Ok(()) }
            }
            Self::WebTransport(session) => {
                let Session { connection, to, .. } = &mut **session;
                for message in messages {
                    if Lane::of(&message) == Lane::Datagram && message.len() <= connection.max_datagram_size() {
                        // A datagram lost here counts as lost in the network.
                        let _ = connection.send_datagram(message.into());
                    } else {
                        to.send_bytes(&message).await.map_err(|error| error.to_string())?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Leaves the room.
    pub async fn close(&mut self) {
        match self {
            Self::WebSocket(socket) => drop(socket.as_mut().close(None).await),
            Self::WebTransport(session) => session.connection.finish(0, "").await,
        }
    }
}

async fn open_websocket(link: &Link, token: &str, join: &Join) -> Result<MemberConnection, SwarmError> {
    let stream = open_page(link).await?;
    let url = format!("{}://{}{ROOMS_PATH}", if link.secure { "wss" } else { "ws" }, link.authority());
    let broken = |error: tokio_tungstenite::tungstenite::Error| SwarmError::Broken(error.to_string());
    let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(config()));
    let (mut socket, _) = in_time(opened).await?.map_err(broken)?;
    let server_nonce = match parse(&answer(&mut socket).await?)? {
        ServerMessage::Challenge { nonce } => nonce,
        message => return Err(refused(message)),
    };
    let (binding, proof) = prove(link, token, server_nonce)?;
    let hello = serde_json::to_string(&hello(proof)).expect("a hello is plain data");
    // If the server has closed the socket, it has given the reason.
    let _ = socket.send(Message::Text(hello.into())).await;
    check_welcome(&answer(&mut socket).await?, &binding, token)?;
    socket.send(Message::Binary(join.to_bytes().into())).await.map_err(broken)?;
    Ok(MemberConnection::WebSocket(Box::new(socket)))
}

async fn open_webtransport(
    options: ConnectOptions,
    token: &str,
    join: &Join,
    clock: Clock,
) -> Result<MemberConnection, SwarmError> {
    let time_limit = Span::from_secs_f64(ANSWER_LIMIT.as_secs_f64());
    let options = ConnectOptions { kind: SessionKind::Room, time_limit, ..options };
    let connection = connect(&options, clock).await.map_err(|error| match error {
        NetError::Refused { reason, .. } => SwarmError::Busy(reason),
        error => error.into(),
    })?;
    connection.set_congestion_control();
    // A final refusal is a message on the stream.
    let ended = |error: NetError| match error {
        NetError::Closed(CloseReason::Peer { code: CLOSE_REFUSED, reason }) => SwarmError::Busy(reason),
        error => error.into(),
    };
    let (mut to, mut from) = connection.open_control().await.map_err(ended)?;
    let binding = connection.exporter();
    let hello = hello(TokenProof::Exporter { mac: binding.prove(token, Role::Client) });
    to.send(&hello).await.map_err(ended)?;
    let text = in_time(from.recv_bytes(MAX_CONTROL_BYTES)).await?.map_err(ended)?;
    check_welcome(&String::from_utf8_lossy(&text), &binding, token)?;
    to.send_bytes(&join.to_bytes()).await.map_err(ended)?;
    Ok(MemberConnection::WebTransport(Box::new(Session { connection, to, from })))
}

fn hello(proof: TokenProof) -> ClientMessage {
    ClientMessage::Hello(Hello::without_media(CLIENT_NAME.into(), Some(proof)))
}

async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, SwarmError> {
    let limit = tokio::time::timeout(ANSWER_LIMIT, answer).await;
    limit.map_err(|_| SwarmError::Broken(format!("no answer within {} s", ANSWER_LIMIT.as_secs())))
}

/// The next text message.
async fn answer(socket: &mut WebSocketStream<ClientStream>) -> Result<String, SwarmError> {
    loop {
        match in_time(socket.next()).await? {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_)) | None => return Err(SwarmError::Broken("it closed the socket".into())),
            Some(Err(error)) => return Err(SwarmError::Broken(error.to_string())),
        }
    }
}

fn parse(text: &str) -> Result<ServerMessage, SwarmError> {
    serde_json::from_str(text).map_err(|_| SwarmError::Broken("its answer is not a message of the protocol".into()))
}

/// The answer to the hello: with the server's own proof, or why it refuses.
fn check_welcome(text: &str, binding: &Binding, token: &str) -> Result<(), SwarmError> {
    match serde_json::from_str::<RoomsWelcome>(text) {
        Ok(welcome) if binding.verify(token, Role::Server, &welcome.proof) => Ok(()),
        Ok(_) => Err(SwarmError::Impostor),
        Err(_) => Err(refused(parse(text)?)),
    }
}

fn refused(message: ServerMessage) -> SwarmError {
    match message {
        ServerMessage::Refused { message, .. } => SwarmError::Refused(message),
        // The server has no slot, or received no hello in time (docs/wire.md, "WebSocket").
        ServerMessage::Goodbye { message } => SwarmError::Busy(message),
        _ => SwarmError::Broken("its answer is neither a challenge, a welcome nor a refusal".into()),
    }
}

/// Why there is a text in place of the room's first message.
fn words(text: &str) -> String {
    parse(text).map_or_else(|error| error.to_string(), |message| refused(message).to_string())
}

/// Returns the link with the certificate that browsers pin, for which it asks the server as the page does before it opens a WebSocket. A
/// link that names a certificate is unchanged.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub async fn with_certificate(link: &Link) -> Result<Link, SwarmError> {
    if link.certificate.is_some() {
        return Ok(link.clone());
    }
    Ok(Link { certificate: in_time(session_info(link)).await??.certificate_sha256, ..link.clone() })
}

/// Connects to the page, which has another certificate than sessions. The proof of the token shows the server.
async fn open_page(link: &Link) -> Result<ClientStream, SwarmError> {
    Ok(connect_page(&ConnectOptions::new(link, Trust::Any), link.secure).await?)
}

async fn session_info(link: &Link) -> Result<SessionInfo, SwarmError> {
    let token = link.token.as_ref().ok_or(SwarmError::NoToken)?;
    let broken = |error: &dyn std::fmt::Display| SwarmError::Broken(error.to_string());
    let stream = TokioIo::new(open_page(link).await?);
    let (mut sender, driver) = http1::handshake(stream).await.map_err(|error| broken(&error))?;
    let request = Request::get(SESSION_INFO_PATH)
        .header(header::HOST, link.authority())
        .header("x-nearlight-token", token)
        .body(Empty::<Bytes>::new())
        .map_err(|error| broken(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        if !response.status().is_success() {
            return Err(SwarmError::Refused(format!("{SESSION_INFO_PATH}: {}", response.status())));
        }
        let body = Limited::new(response.into_body(), MAX_CONTROL_BYTES).collect().await;
        let body = body.map_err(|error| broken(&error))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| broken(&error))
    };
    tokio::select! {
        answer = exchange => answer,
        Err(error) = driver => Err(broken(&error)),
    }
}

/// Proves the token as the page does over a WebSocket, bound to the certificate that the link names, if any.
fn prove(link: &Link, token: &str, server_nonce: Bytes32) -> Result<(Binding, TokenProof), SwarmError> {
    let client_nonce = nonce().map_err(|error| SwarmError::Broken(error.to_string()))?;
    let binding = match link.certificate {
        Some(hash) => Binding::Certificate { server_nonce, client_nonce, certificate: hash.bytes() },
        None => Binding::Nonces { server_nonce, client_nonce },
    };
    let mac = binding.prove(token, Role::Client);
    let proof = match link.certificate {
        Some(_) => TokenProof::Certificate { nonce: client_nonce, mac },
        None => TokenProof::Nonces { nonce: client_nonce, mac },
    };
    Ok((binding, proof))
}
