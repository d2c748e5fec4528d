//! One member's socket, from the challenge to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::Message;
use futures_util::StreamExt as _;
use futures_util::stream::SplitStream;
use nearlight_net::TcpSocket;
use nearlight_rooms::{Join, JoinError, MAX_UPSTREAM_BYTES, MemberId};
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
    let join = match join {
        // Roles are ordered: none gets one above its token's.
        Ok(join) => Join { role: join.role.max(permitted), ..join },
        Err(words) => return handshake.refuse(None, &words).await,
    };
    let peer = handshake.peer();
    tracing::debug!(%peer, room = join.room, client = clean(&hello.client), "a member joins");
    handshake.claim(&state);
    let tcp = handshake.tcp.clone();
    let (outgoing, messages) = mpsc::channel(UNSENT);
    let (room, member) = match join_room(&state, &sessions, join, tcp.as_ref(), outgoing).await {
        Ok(joined) => joined,
        Err(rejection) => return refuse(handshake, rejection).await,
    };
    let (sink, incoming) = handshake.socket.split();
    let mut writing = tokio::spawn(async move {
        // It ends when the room drops its end of the queue.
        let mut sink = write(sink, messages).await;
        if let Some(sink) = &mut sink {
            let _ = futures_util::SinkExt::send(sink, Message::Close(None)).await;
        }
    });
    let written = tokio::select! {
        ended = read(incoming, &room, member) => {
            tracing::debug!(member = member.0, ended, "a member's socket has ended");
            false
        }
        _ = &mut writing => true,
    };
    // The room knows already if it ended the membership itself.
    let _ = room.send(ToRoom::Left { member }).await;
    if !written && tokio::time::timeout(GOODBYE_LIMIT, &mut writing).await.is_err() {
        writing.abort();
    }
    drop(place);
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
) -> Result<(mpsc::Sender<ToRoom>, MemberId), Rejection> {
    // A room that was closing is opened again.
    for _ in 0..2 {
        let room = enter(state, sessions, &join.room).await.map_err(|error| full(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let newcomer = Newcomer { join: join.clone(), tcp: tcp.cloned(), outgoing: outgoing.clone(), answer };
        let _ = room.send(ToRoom::Join(Box::new(newcomer))).await;
        match answered.await {
            Ok(Ok(member)) => return Ok((room, member)),
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

/// Passes the member's messages on. Returns why there are no more.
async fn read(
    mut incoming: SplitStream<axum::extract::ws::WebSocket>,
    room: &mpsc::Sender<ToRoom>,
    member: MemberId,
) -> String {
    loop {
        match incoming.next().await {
            Some(Ok(Message::Binary(bytes))) if bytes.len() <= MAX_UPSTREAM_BYTES => {
                if room.send(ToRoom::Message { member, bytes }).await.is_err() {
                    return "the room has closed".into();
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return "it closed the socket".into(),
            Some(Ok(_)) => return "it sent what is no room's message".into(),
            Some(Err(error)) => return error.to_string(),
        }
    }
}
