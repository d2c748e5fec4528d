//! A member's way into a room: WebSocket, challenge, proof, welcome, join.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nearlight_net::{ClientStream, ConnectOptions, Link, Trust, connect_page, nonce};
use nearlight_rooms::MAX_SNAPSHOT_BYTES;
use nearlight_wire::{
    Binding, Bytes32, ClientMessage, DisplayKind, Hello, PROTOCOL_VERSION, Role, RoomsWelcome, ServerMessage,
    TokenProof,
};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::SwarmError;
use crate::Setup;

pub(super) type Socket = WebSocketStream<ClientStream>;

/// How long a server may take to answer during the handshake. A server that admits many at once takes longer than one member needs.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Read at a time. The library clears as much before each read, 128 KiB by default, and messages are short.
const READ_BUFFER: usize = 4 << 10;

/// Every message is handed to the kernel at once; a room's longest message fits.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(MAX_SNAPSHOT_BYTES))
        .max_frame_size(Some(MAX_SNAPSHOT_BYTES))
}

pub(super) async fn open(link: &Link, trust: &Trust, setup: &Setup) -> Result<Socket, SwarmError> {
    let token = link.token.as_ref().ok_or(SwarmError::NoToken)?;
    let stream = connect_page(&ConnectOptions::new(link, trust.clone()), link.secure).await?;
    let url = format!("{}://{}/rooms", if link.secure { "wss" } else { "ws" }, link.authority());
    let broken = |error: tokio_tungstenite::tungstenite::Error| SwarmError::Broken(error.to_string());
    let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(config()));
    let (mut socket, _) = in_time(opened).await?.map_err(broken)?;
    let ServerMessage::Challenge { nonce: server_nonce } = parse(&answer(&mut socket).await?)? else {
        return Err(SwarmError::Broken("its first message is no challenge".into()));
    };
    let (binding, proof) = prove(link, token, server_nonce)?;
    let hello = ClientMessage::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        proof: Some(proof),
        client: concat!("nearlight swarm ", env!("CARGO_PKG_VERSION")).into(),
        display: DisplayKind::Screen,
        codecs: Vec::new(),
        display_hz: 0,
        sound: false,
        clipboard: false,
        marker: false,
        name: None,
    });
    let hello = serde_json::to_string(&hello).expect("a hello is plain data");
    socket.send(Message::Text(hello.into())).await.map_err(broken)?;
    let text = answer(&mut socket).await?;
    let Ok(welcome) = serde_json::from_str::<RoomsWelcome>(&text) else {
        return Err(refused(parse(&text)?));
    };
    if !binding.verify(token, Role::Server, &welcome.proof) {
        return Err(SwarmError::Impostor);
    }
    let join = crate::synthetic::join(setup).to_bytes();
    socket.send(Message::Binary(join.into())).await.map_err(broken)?;
    Ok(socket)
}

async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, SwarmError> {
    let limit = tokio::time::timeout(ANSWER_LIMIT, answer).await;
    limit.map_err(|_| SwarmError::Broken(format!("no answer within {} s", ANSWER_LIMIT.as_secs())))
}

/// The next text message.
async fn answer(socket: &mut Socket) -> Result<String, SwarmError> {
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
    serde_json::from_str(text).map_err(|_| SwarmError::Broken("its answer is no message of the protocol".into()))
}

fn refused(message: ServerMessage) -> SwarmError {
    match message {
        ServerMessage::Refused { message, .. } | ServerMessage::Goodbye { message } => SwarmError::Refused(message),
        _ => SwarmError::Broken("its answer to the hello is neither a welcome nor a refusal".into()),
    }
}

/// As the page proves the token over a WebSocket: by the certificate that the link names, if it names one.
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
