//! One member's connection, from the challenge to its end, over any carrier.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearlight_fleet::Connection;
use nearlight_net::nonce;
use nearlight_rooms::{Join, JoinError, SeatKey};
use nearlight_wire::{RefusalReason, RoomsWelcome};
use tokio::sync::{mpsc, oneshot};

use super::peer::{Delivered, Network, Outgoing};
use super::{Newcomer, ToRoom, enter, take_place, task};
use crate::handshake::{Handshake, ProvenClient, prove, refuse};
use crate::metrics::Refusal;
use crate::state::{Rejection, ServerState, clean};
use crate::transports::Sessions;
use crate::websocket::GOODBYE_LIMIT;

/// How long a member may take to say which room it wants.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// A connection until its member has joined.
pub(super) trait MemberHandshake: Handshake {
    type Reading: Reading;
    type Writing: Writing;

    /// Sends the answer to the hello. False: the connection has broken.
    fn welcome(&mut self, welcome: &RoomsWelcome) -> impl Future<Output = bool> + Send;

    /// The message after that; none if the connection has ended. The error says what arrived instead.
    fn recv_join(&mut self) -> impl Future<Output = Option<Result<Bytes, String>>> + Send;

    /// The connection carries a membership from now on.
    fn claim(&self, state: &ServerState);

    fn network(&self) -> Network;

    fn split(self) -> (Self::Reading, Self::Writing);
}

/// What comes from a member.
pub(super) trait Reading: Send {
    /// The next message, of at most [`nearlight_rooms::MAX_UPSTREAM_BYTES`].
    fn recv(&mut self) -> impl Future<Output = Result<Bytes, Ended>> + Send;

    /// Closes the connection, of which nothing is used any more.
    fn close(self);
}

/// What goes to a member, but for datagrams, which the room hands to the transport itself.
pub(super) trait Writing: Send + 'static {
    /// Until there are no more messages and the member knows that. True: the connection has broken.
    fn write(self, messages: mpsc::Receiver<Bytes>) -> impl Future<Output = bool> + Send;
}

/// Why a member's messages have ended.
pub(super) struct Ended {
    pub(super) words: String,
    /// The connection broke, and the member may come back over another one.
    pub(super) lost: bool,
}

impl Ended {
    pub(super) fn left(words: &str) -> Self {
        Self { words: words.into(), lost: false }
    }
}

/// Checks the proof of the token, lets the member join the room that it names, and moves its messages until it leaves.
pub(super) async fn serve<H: MemberHandshake>(state: Arc<ServerState>, sessions: Sessions, handshake: H) {
    let Some(proven) = prove(&state, handshake).await else { return };
    let ProvenClient { hello, role: permitted, proof, mut handshake, place: waiting } = proven;
    let place = match take_place(&state) {
        Ok(place) => place,
        Err(error) => {
            state.metrics.on_refusal(Refusal::Full);
            return refuse(handshake, full(error.to_string())).await;
        }
    };
    let welcome = RoomsWelcome { server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(), proof };
    if !handshake.welcome(&welcome).await {
        return;
    }
    let join = match tokio::time::timeout(JOIN_LIMIT, handshake.recv_join()).await {
        Ok(Some(Ok(bytes))) => Join::parse(&bytes).map_err(|error| error.to_string()),
        Ok(Some(Err(words))) => Err(words),
        Ok(None) => return,
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
    let name = join.room.clone();
    let joined = match join_room(&state, &sessions, join, &handshake.network()).await {
        Ok(joined) => joined,
        Err(rejection) => return refuse(handshake, rejection).await,
    };
    let counted = state.metrics.join_room(&name);
    let Joined { room, connection, delivered: Delivered { stream, mut ended } } = joined;
    let (mut reading, writing) = handshake.split();
    let mut writing = tokio::spawn(writing.write(stream));
    let mut written = false;
    let lost = tokio::select! {
        ended = read(&mut reading, &room, connection) => {
            let Ended { words, lost } = ended;
            tracing::debug!(connection = connection.0, words, "a member's connection has ended");
            lost
        }
        broke = &mut writing => {
            written = true;
            broke.unwrap_or(true)
        }
        _ = &mut ended => false,
    };
    // The room knows already if it ended the membership itself.
    let _ = room.send(ToRoom::Left { connection, lost }).await;
    // A member that takes nothing does not hold its place.
    if !written && tokio::time::timeout(GOODBYE_LIMIT, &mut writing).await.is_err() {
        writing.abort();
    }
    reading.close();
    drop((counted, place));
}

fn full(message: String) -> Rejection {
    Rejection { reason: RefusalReason::Full, message, wait: None }
}

struct Joined {
    room: mpsc::Sender<ToRoom>,
    connection: Connection,
    delivered: Delivered,
}

async fn join_room(
    state: &Arc<ServerState>,
    sessions: &Sessions,
    join: Join,
    network: &Network,
) -> Result<Joined, Rejection> {
    let connection = state.rooms.new_connection();
    // A room that was closing is opened again.
    for _ in 0..2 {
        let room = enter(state, sessions, &join.room).await.map_err(|error| full(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let (outgoing, delivered) = Outgoing::new(network.clone());
        let newcomer = Newcomer { connection, join: join.clone(), outgoing, answer };
        let _ = room.send(ToRoom::Join(Box::new(newcomer))).await;
        match answered.await {
            Ok(Ok(())) => return Ok(Joined { room, connection, delivered }),
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

/// Passes the member's messages on, until there are no more.
async fn read(reading: &mut impl Reading, room: &mpsc::Sender<ToRoom>, connection: Connection) -> Ended {
    loop {
        match reading.recv().await {
            Ok(bytes) => {
                if room.send(ToRoom::Message { connection, bytes }).await.is_err() {
                    return Ended::left("the room has closed");
                }
            }
            Err(ended) => return ended,
        }
    }
}
