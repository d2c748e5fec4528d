//! How a client of Nearlight's own protocol is admitted over any transport: challenge, hello, proof of the token, a place.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearlight_codec::CodecError;
use nearlight_net::{Pass, nonce};
use nearlight_rooms::Role;
use nearlight_session::Sender;
use nearlight_wire::{Binding, Bytes32, Hello, ServerMessage};

use crate::admission::Permit;
use crate::metrics::Refusal;
use crate::pairing::{Channel, Proven};
use crate::session_common::{ClientPreferences, SessionCommon};
use crate::state::{MediaTransport, Rejection, ServerState, clean};

/// A client that has not sent its hello within this time is disconnected.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// A connection before its session.
pub(crate) trait Handshake: Sized + Send {
    fn peer(&self) -> IpAddr;

    /// What binds a proof of the token to this connection, if both ends can see it.
    fn exporter(&self) -> Option<Binding>;

    /// Sends the challenge and waits for the client's hello. The error says what arrived instead.
    fn challenge(&mut self, nonce: Bytes32) -> impl Future<Output = Result<Hello, String>> + Send;

    /// Closes the connection, after sending `refusal` if the client reads it.
    fn refuse(self, refusal: Option<ServerMessage>, words: &str) -> impl Future<Output = ()> + Send;
}

/// A client that has proved that it knows the token.
pub(crate) struct AcceptedClient<G> {
    pub(crate) session: NewSession,
    pub(crate) hello: Hello,
    /// The server's own proof.
    pub(crate) proof: Bytes32,
    pub(crate) permit: Permit,
    pub(crate) handshake: G,
}

/// What a session begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSession {
    pub(crate) number: u32,
    preferences: ClientPreferences,
}

impl NewSession {
    /// The state that the session shares with the studio, and a sender that suits its encoder.
    pub(crate) fn open(
        self,
        state: &Arc<ServerState>,
        max_datagram: usize,
    ) -> Result<(SessionCommon, Sender), CodecError> {
        let recovery = state.recovery(self.preferences.codec)?;
        let sender = state.new_sender(state.clock.now(), MediaTransport::Datagrams { largest: max_datagram, recovery });
        let common = SessionCommon::open(Arc::clone(state), self.number, self.preferences, &sender)?;
        Ok((common.with_sound_in_datagrams().with_recovery(recovery), sender))
    }
}

/// A client that has proved that it knows the token, before it has a place.
pub(crate) struct ProvenClient<G> {
    pub(crate) hello: Hello,
    /// The role that its token stands for.
    pub(crate) role: Role,
    /// The server's own proof.
    pub(crate) proof: Bytes32,
    pub(crate) handshake: G,
    /// Its place among those in the handshake.
    pub(crate) place: Pass,
}

/// Challenges the client and checks its proof of the token, or refuses it with a message.
pub(crate) async fn prove<G: Handshake>(state: &Arc<ServerState>, mut handshake: G) -> Option<ProvenClient<G>> {
    let peer = handshake.peer();
    let Some(mut place) = state.handshakes.enter(state.clock.now(), peer) else {
        state.metrics.on_refusal(Refusal::Full);
        handshake.refuse(None, "too many clients are connecting; try again in a moment").await;
        return None;
    };
    let nonce = match nonce() {
        Ok(nonce) => nonce,
        Err(error) => {
            tracing::error!(%error, "a client could not be served");
            handshake.refuse(None, "the server cannot generate random numbers").await;
            return None;
        }
    };
    let hello = tokio::select! {
        hello = tokio::time::timeout(HANDSHAKE_LIMIT, handshake.challenge(nonce)) => match hello {
            Ok(Ok(hello)) => Ok(hello),
            Ok(Err(error)) => {
                tracing::info!(%peer, %error, "a client sent no valid hello");
                Err("the first message must be a hello")
            }
            Err(_) => Err("no hello arrived in time"),
        },
        () = place.evicted() => Err("another client needed the slot before a hello arrived; try again"),
    };
    let hello = match hello {
        Ok(hello) => hello,
        Err(words) => {
            state.metrics.on_refusal(Refusal::Silent);
            handshake.refuse(None, words).await;
            return None;
        }
    };
    let channel = Channel { exporter: handshake.exporter(), nonce };
    match state.check_hello(peer, &hello, &channel) {
        Ok(Proven { role, proof }) => Some(ProvenClient { hello, role, proof, handshake, place }),
        Err(rejection) => {
            refuse(handshake, rejection).await;
            None
        }
    }
}

/// Refuses a client with the words for its user.
pub(crate) async fn refuse<G: Handshake>(handshake: G, rejection: Rejection) {
    let Rejection { reason, message, .. } = rejection;
    tracing::warn!(peer = %handshake.peer(), ?reason, "a client was refused");
    let refusal = ServerMessage::Refused { reason, message: message.clone() };
    handshake.refuse(Some(refusal), &message).await;
}

/// Admits the client, or refuses it with a message.
pub(crate) async fn receive<G: Handshake>(state: &Arc<ServerState>, handshake: G) -> Option<AcceptedClient<G>> {
    let ProvenClient { hello, role, proof, handshake, place } = prove(state, handshake).await?;
    let peer = handshake.peer();
    let admitted = state.admit(peer, &hello).await;
    drop(place);
    let (codec, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(rejection) => {
            refuse(handshake, rejection).await;
            return None;
        }
    };
    let number = state.next_session.fetch_add(1, Ordering::Relaxed);
    tracing::info!(session = number, %peer, client = clean(&hello.client), codec = codec.name(), "a client connected");
    let Hello { display, sound, marker, .. } = hello;
    let preferences = ClientPreferences { role, codec, display, sound, marker };
    Some(AcceptedClient { session: NewSession { number, preferences }, hello, proof, permit, handshake })
}
