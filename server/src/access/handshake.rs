//! Admission of a client of Nearlight's own protocol over any transport: challenge, hello, proof of the token, permit.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearlight_codec::CodecError;
use nearlight_net::{Pass, nonce};
use nearlight_session::Sender;
use nearlight_wire::{Binding, Bytes32, Hello, ServerMessage};

use crate::access::admission::{Applicant, Permit};
use crate::access::link_register::Credential;
use crate::access::pairing::{ProofChannel, VerifiedProof};
use crate::metrics::Refusal;
use crate::session::common::{ClientPreferences, SessionCommon};
use crate::state::{MediaTransport, Rejection, ServerState, clean};

/// Time that a client has to send its hello before it is disconnected.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no hello.
pub(crate) enum NoHello {
    /// The client has left. A page does so on each transport that was not ready first.
    Left,
    /// Something else arrived: what, in words.
    Invalid(String),
}

/// A connection whose session has not begun.
pub(crate) trait Handshake: Sized + Send {
    fn peer(&self) -> IpAddr;

    /// Returns the value that binds a proof of the token to this connection, if both ends can see one.
    fn exporter(&self) -> Option<Binding>;

    /// Sends the challenge and waits for the client's hello.
    fn challenge(&mut self, nonce: Bytes32) -> impl Future<Output = Result<Hello, NoHello>> + Send;

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

/// The number and the preferences with which a session begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSession {
    pub(crate) number: u32,
    preferences: ClientPreferences,
}

impl NewSession {
    /// Opens the state that the session shares with the studio, and a sender that suits the session's encoder.
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

/// A client that has proved that it knows the token and has no permit yet.
pub(crate) struct ProvenClient<G> {
    pub(crate) hello: Hello,
    /// What the client's token entitles it to.
    pub(crate) credential: Credential,
    /// The server's own proof.
    pub(crate) proof: Bytes32,
    pub(crate) handshake: G,
    /// The client's slot among the connections in the handshake.
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
            Ok(Err(NoHello::Left)) => {
                tracing::debug!(%peer, "a client left before its hello");
                return None;
            }
            Ok(Err(NoHello::Invalid(error))) => {
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
    let channel = ProofChannel { exporter: handshake.exporter(), nonce };
    match state.check_hello(peer, &hello, &channel) {
        Ok(VerifiedProof { credential, proof }) => Some(ProvenClient { hello, credential, proof, handshake, place }),
        Err(rejection) => {
            refuse(handshake, rejection).await;
            None
        }
    }
}

/// Refuses a client with a message for its user.
pub(crate) async fn refuse<G: Handshake>(handshake: G, rejection: Rejection) {
    let Rejection { reason, message, .. } = rejection;
    tracing::warn!(peer = %handshake.peer(), ?reason, "a client was refused");
    let refusal = ServerMessage::Refused { reason, message: message.clone() };
    handshake.refuse(Some(refusal), &message).await;
}

/// Admits the client, or refuses it with a message.
pub(crate) async fn receive<G: Handshake>(state: &Arc<ServerState>, handshake: G) -> Option<AcceptedClient<G>> {
    let ProvenClient { hello, credential, proof, handshake, place } = prove(state, handshake).await?;
    let peer = handshake.peer();
    let admitted = state.admit(Applicant::new(peer, credential), &hello).await;
    drop(place);
    let (codec, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(rejection) => {
            refuse(handshake, rejection).await;
            return None;
        }
    };
    let number = state.next_session.fetch_add(1, Ordering::Relaxed);
    let link = state.pairing.name_of(credential);
    tracing::info!(session = number, %peer, client = clean(&hello.client), codec = codec.name(), role = credential.role.name(), link, "a client connected");
    let Hello { display, sound, marker, .. } = hello;
    let preferences = ClientPreferences { role: credential.role, codec, display, sound, marker };
    Some(AcceptedClient { session: NewSession { number, preferences }, hello, proof, permit, handshake })
}
