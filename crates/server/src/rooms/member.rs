//! One member's socket, from the challenge to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::Message;
use futures_util::StreamExt as _;
use futures_util::stream::SplitStream;
use nearlight_fleet::Connection;
use nearlight_net::TcpSocket;
use nearlight_net::nonce;
use nearlight_rooms::{Join, JoinError, MAX_UPSTREAM_BYTES, SeatKey};
use nearlight_wire::{RefusalReason, RoomsWelcome};
use tokio::sync::{mpsc, oneshot};

use super::{Newcomer, ToRoom, enter, take_place, task};
use crate::handshake::{Handshake as _, ProvenClient, prove, refuse};
use crate::metrics::Refusal;
use crate::state::{Rejection, ServerState, clean};
use crate::transports::Sessions;
use crate::websocket::{GOODBYE_LIMIT, WebSocketClient, text, write};

/// Where rooms are joined.
pub(crate) const PATH: &str = "/rooms";
/// Messages that wait for a socket, beyond those in the kernel and in TLS. Guess: what a room says in half a second.
const UNSENT: usize = 16;
/// How long a member may take to say which room it wants.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// Checks the proof of the token, lets the member join the room that it names, and moves its messages until it leaves.
pub(crate) async fn serve(state: Arc<ServerState>, sessions: Sessions, client: WebSocketClient) {
    let Some(proven) = prove(&state, client).await else { return };
    let ProvenClient { hello, role: permitted, proof, mut handshake, place: waiting } = proven;
    let place = match take_place(&state) {
        Ok(place) => place,
        Err(error) => {
            state.metrics.on_refusal(Refusal::Full);
            return refuse(handshake, full(error.to_string())).await;
        }
    };
    let welcome = RoomsWelcome { server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(), proof };
    if handshake.socket.send(text(&welcome)).await.is_err() {
        return;
    }
    let join = match tokio::time::timeout(JOIN_LIMIT, handshake.socket.recv()).await {
        Ok(Some(Ok(Message::Binary(bytes)))) => Join::parse(&bytes).map_err(|error| error.to_string()),
        Ok(Some(Ok(_))) => Err("the message after the hello is not a join".into()),
        Ok(_) => return,
        Err(_) => Err("no join arrived in time".into()),
    };
    drop(waiting);
    let mut join = match join {
        // Roles are ordered: none gets one above its token's.
        Ok(join) => Join { role: join.role.max(permitted), ..join },
        Err(words) => return handshake.refuse(None, &words).await,
    };
    if state.rooms.is_shared() && join.key.is_none() {
        // By its key, the member's seat is found again when another server takes the room over.
        join.key = nonce().ok().and_then(|nonce| nonce.0.first_chunk().copied()).map(SeatKey);
    }
    let peer = handshake.peer();
    tracing::debug!(%peer, room = join.room, client = clean(&hello.client), "a member joins");
    handshake.claim(&state);
    let tcp = handshake.tcp.clone();
    let name = join.room.clone();
    let (outgoing, messages) = mpsc::channel(UNSENT);
    let (room, connection) = match join_room(&state, &sessions, join, tcp.as_ref(), outgoing).await {
        Ok(joined) => joined,
        Err(rejection) => return refuse(handshake, rejection).await,
    };
    let counted = state.metrics.join_room(&name);
    let (sink, incoming) = handshake.socket.split();
    let mut writing = tokio::spawn(async move {
        // It ends when the room drops its end of the queue.
        let mut sink = write(sink, messages).await;
        if let Some(sink) = &mut sink {
            let _ = futures_util::SinkExt::send(sink, Message::Close(None)).await;
        }
    });
    let (written, lost) = tokio::select! {
        ended = read(incoming, &room, connection) => {
            let Ended { words, lost } = ended;
            tracing::debug!(connection = connection.0, words, "a member's socket has ended");
            (false, lost)
        }
        _ = &mut writing => (true, true),
    };
    // The room knows already if it ended the membership itself.
    let _ = room.send(ToRoom::Left { connection, lost }).await;
    if !written && tokio::time::timeout(GOODBYE_LIMIT, &mut writing).await.is_err() {
        writing.abort();
    }
    drop((counted, place));
}

fn full(message: String) -> Rejection {
    Rejection { reason: RefusalReason::Full, message, wait: None }
}

async fn join_room(
    state: &Arc<ServerState>,
    sessions: &Sessions,
    join: Join,
    tcp: Option<&TcpSocket>,
    outgoing: mpsc::Sender<Message>,
) -> Result<(mpsc::Sender<ToRoom>, Connection), Rejection> {
    let connection = state.rooms.new_connection();
    // A room that was closing is opened again.
    for _ in 0..2 {
        let room = enter(state, sessions, &join.room).await.map_err(|error| full(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let (join, tcp, outgoing) = (join.clone(), tcp.cloned(), outgoing.clone());
        let newcomer = Newcomer { connection, join, tcp, outgoing, answer };
        let _ = room.send(ToRoom::Join(Box::new(newcomer))).await;
        match answered.await {
            Ok(Ok(())) => return Ok((room, connection)),
            Ok(Err(error @ JoinError::Full)) => return Err(full(task::words(error))),
            Ok(Err(error)) => {
                let reason = RefusalReason::Protocol;
                return Err(Rejection { reason, message: task::words(error), wait: None });
            }
            Err(_) => {}
        }
    }
    Err(full("The server is shutting down.".into()))
}

/// Why a member's messages have ended.
struct Ended {
    words: String,
    /// The connection broke, and the member may come back over another one.
    lost: bool,
}

/// Passes the member's messages on, until there are no more.
async fn read(
    mut incoming: SplitStream<axum::extract::ws::WebSocket>,
    room: &mpsc::Sender<ToRoom>,
    connection: Connection,
) -> Ended {
    let ended = |words: &str| Ended { words: words.into(), lost: false };
    loop {
        match incoming.next().await {
            Some(Ok(Message::Binary(bytes))) if bytes.len() <= MAX_UPSTREAM_BYTES => {
                if room.send(ToRoom::Message { connection, bytes }).await.is_err() {
                    return ended("the room has closed");
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) => return ended("it closed the socket"),
            Some(Ok(_)) => return ended("it sent what is no room's message"),
            None => return Ended { words: "its connection closed".into(), lost: true },
            Some(Err(error)) => return Ended { words: error.to_string(), lost: true },
        }
    }
}
