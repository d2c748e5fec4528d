//! One member's connection over any carrier, from the challenge to the end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearlight_fleet::Connection;
use nearlight_net::{nonce, subscriber};
use nearlight_rooms::{Join, JoinError, SeatKey, is_urgent};
use nearlight_wire::{RefusalReason, RoomsWelcome};
use tokio::sync::{mpsc, oneshot};

use super::peer::{Network, OutgoingReceiver, OutgoingSender};
use super::{JoinRequest, MemberPlace, RoomInput, enter, take_place, task};
use crate::access::admission::Applicant;
use crate::access::handshake::{Handshake, ProvenClient, prove, refuse};
use crate::metrics::Refusal;
use crate::state::{Rejection, ServerState, clean};
use crate::transports::Sessions;
use crate::transports::websocket::GOODBYE_LIMIT;

/// Time that a member has to send its join.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// A connection whose member has not joined yet.
pub(super) trait MemberHandshake: Handshake {
    type Reader: MemberReader;
    type Writer: MemberWriter;

    /// Sends the answer to the hello. Returns false if the connection has broken.
    fn welcome(&mut self, welcome: &RoomsWelcome) -> impl Future<Output = bool> + Send;

    /// Waits for the join. Returns none if the connection has ended. The error says what arrived instead.
    fn recv_join(&mut self) -> impl Future<Output = Option<Result<Bytes, String>>> + Send;

    /// Marks the connection as one that carries a membership.
    fn claim(&self, state: &ServerState);

    fn network(&self) -> Network;

    fn split(self) -> (Self::Reader, Self::Writer);
}

/// Receives a member's messages.
pub(super) trait MemberReader: Send {
    /// Waits for the next message, which has at most [`nearlight_rooms::MAX_UPSTREAM_BYTES`].
    fn recv(&mut self) -> impl Future<Output = Result<Bytes, Disconnect>> + Send;

    /// Closes the connection.
    fn close(self);
}

/// Sends messages to a member. Datagrams take another way: the room hands them to the transport itself.
pub(super) trait MemberWriter: Send + 'static {
    /// Sends until there are no more messages and the member knows that. Returns whether the connection has broken.
    fn write(self, messages: mpsc::Receiver<Bytes>) -> impl Future<Output = bool> + Send;
}

/// Why a member sends no more messages.
pub(super) struct Disconnect {
    pub(super) reason: String,
    /// Whether the connection broke, so that the member may come back over another one.
    pub(super) lost: bool,
}

impl Disconnect {
    pub(super) fn left(reason: &str) -> Self {
        Self { reason: reason.into(), lost: false }
    }
}

/// Checks the proof of the token, lets the member join the room that it names, and moves its messages until it leaves.
pub(super) async fn serve<H: MemberHandshake>(state: Arc<ServerState>, sessions: Sessions, handshake: H) {
    let Some(proven) = prove(&state, handshake).await else { return };
    let ProvenClient { hello, credential, proof, mut handshake, place: waiting } = proven;
    let place = match take_place(&state, Applicant::new(handshake.peer(), credential)) {
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
        Ok(Some(Err(reason))) => Err(reason),
        Ok(None) => return,
        Err(_) => Err("no join arrived in time".into()),
    };
    drop(waiting);
    let mut join = match join {
        // Roles are ordered. Nobody gets a role above its token's.
        Ok(join) => Join { role: join.role.max(credential.role), ..join },
        Err(reason) => return handshake.refuse(None, &reason).await,
    };
    if state.rooms.is_shared() && join.key.is_none() {
        // The key identifies the member's seat when another server takes the room over.
        join.key = nonce().ok().and_then(|nonce| nonce.0.first_chunk().copied()).map(SeatKey);
    }
    let peer = handshake.peer();
    tracing::debug!(%peer, room = join.room, client = clean(&hello.client), "a member joins");
    handshake.claim(&state);
    let name = join.room.clone();
    let joined = match join_room(&state, &sessions, subscriber(peer), join, &handshake.network()).await {
        Ok(joined) => joined,
        Err(rejection) => return refuse(handshake, rejection).await,
    };
    let counted = state.metrics.join_room(&name);
    let JoinedRoom { room, connection, delivered: OutgoingReceiver { stream, mut ended } } = joined;
    let (mut reading, writing) = handshake.split();
    let mut writing = tokio::spawn(writing.write(stream));
    let mut written = false;
    let lost = tokio::select! {
        ended = read(&mut reading, &room, connection, &place) => {
            let Disconnect { reason, lost } = ended;
            tracing::debug!(connection = connection.0, reason, "a member's connection has ended");
            lost
        }
        broke = &mut writing => {
            written = true;
            broke.unwrap_or(true)
        }
        _ = &mut ended => false,
        why = place.displaced() => {
            tracing::info!(connection = connection.0, reason = why.words(), "a membership ended");
            false
        }
    };
    // If the room ended the membership itself, it ignores this.
    let _ = room.send(RoomInput::Left { connection, lost }).await;
    // A member that accepts no data must not keep its place.
    if !written && tokio::time::timeout(GOODBYE_LIMIT, &mut writing).await.is_err() {
        writing.abort();
    }
    reading.close();
    drop((counted, place));
}

fn full(message: String) -> Rejection {
    Rejection { reason: RefusalReason::Full, message, wait: None }
}

struct JoinedRoom {
    room: mpsc::Sender<RoomInput>,
    connection: Connection,
    delivered: OutgoingReceiver,
}

async fn join_room(
    state: &Arc<ServerState>,
    sessions: &Sessions,
    address: IpAddr,
    join: Join,
    network: &Network,
) -> Result<JoinedRoom, Rejection> {
    let connection = state.rooms.new_connection();
    // A room that was closing is opened again.
    for _ in 0..2 {
        let room = enter(state, sessions, &join.room).await.map_err(|error| full(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let (outgoing, delivered) = OutgoingSender::new(network.clone());
        let request = JoinRequest { connection, address, join: join.clone(), outgoing, answer };
        let _ = room.send(RoomInput::Join(Box::new(request))).await;
        match answered.await {
            Ok(Ok(())) => return Ok(JoinedRoom { room, connection, delivered }),
            Ok(Err(error @ (JoinError::Full | JoinError::AddressHold(_)))) => {
                return Err(full(task::join_error_message(error)));
            }
            Ok(Err(error)) => {
                let reason = RefusalReason::Protocol;
                return Err(Rejection { reason, message: task::join_error_message(error), wait: None });
            }
            Err(_) => {}
        }
    }
    Err(full("The server is shutting down.".into()))
}

/// Forwards the member's messages to the room until there are no more.
async fn read(
    reading: &mut impl MemberReader,
    room: &mpsc::Sender<RoomInput>,
    connection: Connection,
    place: &MemberPlace,
) -> Disconnect {
    loop {
        match reading.recv().await {
            Ok(bytes) => {
                // Members at rest send a sign of life too; commands are the user's.
                place.on_heard(is_urgent(&bytes));
                if room.send(RoomInput::Message { connection, bytes }).await.is_err() {
                    return Disconnect::left("the room has closed");
                }
            }
            Err(ended) => return ended,
        }
    }
}
