//! The state that all sessions share, and the admission of clients.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Encoders};
use nearlight_fec::policy::new_policy;
use nearlight_net::{Clock, EmulatedPath, EmulatedPaths, Gate, RateLimiter, RatePolicy, TcpSocket};
use nearlight_rate::gcc::Remb;
use nearlight_rate::{Bounds, new_controller};
use nearlight_session::pace::Mode;
use nearlight_session::{Algorithms, Framing, Sender, SenderConfig};
use nearlight_units::{Span, Time, lock};
use nearlight_urs::signalling::Guest;
use nearlight_webrtc::Peer;
use nearlight_wire::{Hello, PROTOCOL_VERSION, RecoveryPolicy, RefusalReason};
use tokio::sync::watch;

use crate::access::admission::{Admission, AdmissionError, Applicant, Permit, SUSPECT_SILENCE};
use crate::access::code_pairing::CodePairing;
use crate::access::history::PlaceKind;
use crate::access::link_register::Credential;
use crate::access::pairing::{AuthError, Pairing, ProofChannel, VerifiedProof};
use crate::event_log::EventLog;
use crate::media::sound::Mixer;
use crate::media::studio::{Format, Studio};
use crate::metrics::{Metrics, Refusal};
use crate::rooms::Rooms;
use crate::session::starts::StartingPlaces;

/// Connections that may be in the handshake at the same time, in total and from one address. Beyond that, the connection that has been
/// silent longest is dropped. Guess: a class of 30 behind one address opens the link at the same moment.
const MAX_HANDSHAKES: usize = 64;
const MAX_HANDSHAKES_PER_ADDRESS: usize = 32;
/// Members of rooms per additional handshake, of QUIC and of the protocol. A crowd may connect within a second or two from one address, and
/// a handshake on a busy machine takes tenths of a second. A handshake costs less than the member that the server was told to hold, ends
/// after 5 s, and the number of TCP connections has a bound of its own.
const MEMBERS_PER_HANDSHAKE: usize = 4;

/// Returns how many additional handshakes are permitted if rooms have at most `members`.
pub(crate) const fn extra_handshakes(members: usize) -> usize {
    members / MEMBERS_PER_HANDSHAKE
}

/// Longest time that a client waits for a permit that may become free, and the interval of the checks. It is longer than a silent client
/// keeps its permit, and shorter than clients wait for an answer to their handshake.
const ADMISSION_PATIENCE: Span = Span::from_secs(4);
const ADMISSION_CHECK: Duration = Duration::from_millis(100);

/// Name of the only controller that needs no feedback.
const FIXED_CONTROLLER: &str = "fixed";

/// Why a client is refused.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    pub(crate) reason: RefusalReason,
    /// A message for the client's user.
    pub(crate) message: String,
    /// How long to wait before trying again, if that is known.
    pub(crate) wait: Option<Span>,
}

/// The protocol that carries a session's media.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MediaTransport {
    /// Datagrams of Nearlight's own protocol, the largest of them in bytes, and the loss recovery of both ends.
    Datagrams { largest: usize, recovery: RecoveryPolicy },
    /// RTP, and whether the client reports arrival times of packets.
    Rtp { reports_arrivals: bool },
}

/// The state that all sessions share.
pub(crate) struct ServerState {
    pub(crate) clock: Clock,
    pub(crate) pairing: Pairing,
    pub(crate) code_pairing: CodePairing,
    pub(crate) offers: OfferLimiter,
    pub(crate) handshakes: Arc<Gate>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) rooms: Rooms,
    pub(crate) next_session: AtomicU32,
    pub(crate) studio: Studio,
    /// The mixer; none if there is no sound.
    pub(crate) sound: Option<Mixer>,
    /// Whether the owner allows the exchange of clipboard text.
    pub(crate) clipboard: bool,
    pub(crate) adapter: String,
    /// Where users start.
    pub(crate) starts: StartingPlaces,
    /// Whether the source is the demonstration, whose controls the page explains.
    pub(crate) demonstration: bool,
    pub(crate) format: Format,
    pub(crate) codec: CodecKind,
    pub(crate) controller: String,
    pub(crate) fec: String,
    pub(crate) recovery: RecoveryPolicy,
    pub(crate) bounds: Bounds,
    pub(crate) pacing: Mode,
    /// The congestion control of TCP connections that carry media; none keeps the system's.
    pub(crate) tcp_control: Option<String>,
    pub(crate) emulated_paths: Option<Arc<dyn EmulatedPaths>>,
    /// The largest datagram in bytes, even if the transport allows more.
    pub(crate) datagram: usize,
    pub(crate) encoders: Encoders,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) event_log: Option<EventLog>,
    /// Becomes true when the server shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl ServerState {
    /// Returns the gate of handshakes for a server whose rooms have at most `members`.
    pub(crate) fn new_handshakes(members: usize) -> Arc<Gate> {
        let more = extra_handshakes(members);
        Gate::new(MAX_HANDSHAKES + more, MAX_HANDSHAKES_PER_ADDRESS + more, 0)
    }

    /// Sets the owner's congestion control on a TCP connection that is about to carry media.
    pub(crate) fn on_media_connection(&self, tcp: &TcpSocket) {
        let Some(name) = &self.tcp_control else { return };
        if let Err(error) = tcp.set_congestion_control(name) {
            tracing::warn!(%error, "cannot set congestion control {name} on a TCP connection; it keeps the system's default");
        }
    }

    /// Returns a codec and a permit for a client that has proved that it knows the token. If the only candidate is the permit of a silent
    /// client, such as this client's own previous session that was killed a moment ago, it waits for that permit to become free.
    pub(crate) async fn admit(&self, applicant: Applicant, hello: &Hello) -> Result<(CodecKind, Permit), Rejection> {
        let codec = self.choose(|kind| hello.codecs.contains(kind))?;
        let came_at = self.clock.now();
        loop {
            let now = self.clock.now();
            match self.admission.take(now, applicant) {
                Err(AdmissionError::SilentClient(_)) if now < came_at + ADMISSION_PATIENCE => {
                    tokio::time::sleep(ADMISSION_CHECK).await;
                }
                // A client that was killed a moment ago is not yet known to be silent.
                Err(AdmissionError::Full | AdmissionError::Reserved) if now <= came_at + SUSPECT_SILENCE => {
                    tokio::time::sleep(ADMISSION_CHECK).await;
                }
                taken => {
                    let permit = taken.map_err(|why| self.not_admitted(why))?;
                    permit.on_heard(now);
                    self.check_link(applicant)?;
                    return Ok((codec, permit));
                }
            }
        }
    }

    /// Checks the proof in a client's hello. Returns what its token entitles to, and the server's own proof.
    pub(crate) fn check_hello(
        &self,
        peer: IpAddr,
        hello: &Hello,
        channel: &ProofChannel,
    ) -> Result<VerifiedProof, Rejection> {
        // Another version of the protocol proves the token differently, or sends it in the clear.
        self.check_version(hello)?;
        let checked = self.pairing.check_proof(self.clock.now(), peer, hello.proof.as_ref(), channel);
        checked.map_err(|wrong| self.wrong_token(wrong))
    }

    /// Checks that the client speaks the same version of the protocol.
    pub(crate) fn check_version(&self, hello: &Hello) -> Result<(), Rejection> {
        if hello.protocol != PROTOCOL_VERSION {
            let message = format!(
                "This client speaks version {} of the protocol, the server version {PROTOCOL_VERSION}. Reload the page; of the program, \
                 use the same release on both machines.",
                hello.protocol
            );
            return Err(self.refuse(Refusal::Protocol, RefusalReason::Protocol, message));
        }
        Ok(())
    }

    fn refuse(&self, metric: Refusal, reason: RefusalReason, message: impl Into<String>) -> Rejection {
        self.metrics.on_refusal(metric);
        Rejection { reason, message: message.into(), wait: None }
    }

    fn rejection_with_wait(&self, wait: Span, why: &str) -> Rejection {
        let message = format!("{why} Try again in {} s.", seconds(wait));
        let rejection = self.refuse(Refusal::TooManyAttempts, RefusalReason::TooManyAttempts, message);
        Rejection { wait: Some(wait), ..rejection }
    }

    /// Returns what an HTTP request's token entitles to.
    pub(crate) fn check_token(&self, peer: IpAddr, token: &str) -> Result<Credential, Rejection> {
        self.pairing.check_bearer(self.clock.now(), peer, token).map_err(|wrong| self.wrong_token(wrong))
    }

    fn wrong_token(&self, wrong: AuthError) -> Rejection {
        match wrong {
            AuthError::WrongToken => {
                let message = "The link's token is wrong, or the link was revoked or has expired. Open the link that the server printed when it started, or ask the owner for another one.";
                self.refuse(Refusal::Token, RefusalReason::Token, message)
            }
            AuthError::TooManyFailures(wait) => {
                self.rejection_with_wait(wait, "The link's token is wrong, as others from this address were before.")
            }
        }
    }

    /// Returns the owner's codec if the client supports it, and otherwise another.
    pub(crate) fn choose(&self, offered: impl FnMut(&CodecKind) -> bool) -> Result<CodecKind, Rejection> {
        [self.codec].into_iter().chain(CodecKind::ALL).find(offered).ok_or_else(|| {
            let message = "This client receives neither H.264 nor VP8, so it cannot show the stream.";
            self.refuse(Refusal::Codec, RefusalReason::Codec, message)
        })
    }

    /// Counts an offer, which costs work before a client is connected. Rejects it if its address has made too many.
    pub(crate) fn count_offer(&self, now: Time, guest: Guest) -> Result<(), Rejection> {
        self.offers
            .take(now, guest)
            .map_err(|wait| self.rejection_with_wait(wait, "Too many offers came from this address."))
    }

    pub(crate) fn try_admit(&self, now: Time, applicant: Applicant) -> Result<Permit, Rejection> {
        let permit = self.admission.take(now, applicant).map_err(|why| self.not_admitted(why))?;
        self.check_link(applicant)?;
        Ok(permit)
    }

    /// Counts a client that has got its place, and refuses it if its link has ended meanwhile.
    fn check_link(&self, applicant: Applicant) -> Result<(), Rejection> {
        let is_valid = self.pairing.links().on_place(PlaceKind::Session, applicant);
        is_valid.then_some(()).ok_or_else(|| self.wrong_token(AuthError::WrongToken))
    }

    /// Returns why a guest whom nobody knows would not be served, or none if it would. An owner may be served all the same.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        if self.studio.has_failed() {
            return Some("the renderer has stopped; see the server's log");
        }
        if *self.closing.borrow() {
            return Some("the server is shutting down");
        }
        let has_place = self.admission.has_place(self.clock.now(), nearlight_rooms::Role::Guest);
        (!has_place).then_some("the places for clients are taken")
    }

    fn not_admitted(&self, why: AdmissionError) -> Rejection {
        match why {
            AdmissionError::Full => {
                let message =
                    "The server is full. Try again when somebody has left, or start it with a larger --max-clients.";
                self.refuse(Refusal::Full, RefusalReason::Full, message)
            }
            AdmissionError::Reserved => {
                let message = "The places for clients of your role are taken; the others are reserved. Try again when somebody has left, or start the server with a larger --max-clients.";
                self.refuse(Refusal::Full, RefusalReason::Full, message)
            }
            AdmissionError::SilentClient(wait) => {
                let message = format!(
                    "The server is full, but one of its clients does not answer. Try again in {} s.",
                    seconds(wait)
                );
                Rejection { wait: Some(wait), ..self.refuse(Refusal::Full, RefusalReason::Full, message) }
            }
            AdmissionError::AddressLimit(wait) => {
                self.rejection_with_wait(wait, "Clients of this address hold places and have not connected.")
            }
        }
    }

    /// Returns the loss recovery of a session with this codec, whose encoder may keep no references.
    pub(crate) fn recovery(&self, codec: CodecKind) -> Result<RecoveryPolicy, CodecError> {
        let Format { size, fps, .. } = self.format;
        let config = EncoderConfig { size, fps, rate: self.bounds.start, threads: EncoderConfig::default_threads() };
        let keeps_references = self.encoders.describe(codec, config)?.keeps_references;
        Ok(match self.recovery {
            RecoveryPolicy::Reference if !keeps_references => RecoveryPolicy::Retransmission,
            chosen => chosen,
        })
    }

    /// Creates a session's sender.
    pub(crate) fn new_sender(&self, now: Time, transport: MediaTransport) -> Sender {
        let (framing, largest, recovery, reports_arrivals) = match transport {
            MediaTransport::Datagrams { largest, recovery } => (Framing::Symbols, largest, recovery, true),
            // Such a client has a recovery of its own: it sends NACKs, then requests a key frame.
            MediaTransport::Rtp { reports_arrivals } => {
                (Framing::Rtp, Peer::MAX_DATAGRAM, RecoveryPolicy::Retransmission, reports_arrivals)
            }
        };
        let chosen = || new_controller(&self.controller, self.bounds).expect("checked when the server started");
        let controller = if reports_arrivals || self.controller == FIXED_CONTROLLER {
            chosen()
        } else {
            Box::new(Remb::new(self.bounds))
        };
        let config = SenderConfig {
            framing,
            max_datagram: largest.min(self.datagram),
            pacing: self.pacing,
            frame_interval: self.format.frame_interval(),
            events: self.event_log.is_some(),
            maximum: Some(self.bounds.maximum),
            // Receivers of other protocols choose their own buffer.
            playback_buffer: if framing == Framing::Symbols { controller.playback_buffer() } else { 0 },
            ..SenderConfig::default()
        }
        .recovering(recovery, true);
        let redundancy = Some(new_policy(&self.fec).expect("checked when the server started"));
        Sender::new(now, config, Algorithms { controller, redundancy })
    }

    /// Returns the emulated paths of a session, to its client and back, or none for the real path alone.
    pub(crate) fn emulated_path(&self, session: u32, now: Time) -> Option<[Box<dyn EmulatedPath>; 2]> {
        let paths = self.emulated_paths.as_ref()?.for_session(session, now);
        if let Err(error) = &paths {
            tracing::warn!("session {session}: no path is emulated: {error}");
        }
        paths.ok()
    }
}

/// Counts offers per address. Offers with a token are counted separately, so that clients without one cannot exhaust their budget.
pub(crate) struct OfferLimiter {
    trusted: Mutex<RateLimiter>,
    strangers: Mutex<RateLimiter>,
}

impl OfferLimiter {
    pub(crate) fn new() -> Self {
        let limiter = || Mutex::new(RateLimiter::new(RatePolicy::default()));
        Self { trusted: limiter(), strangers: limiter() }
    }

    fn take(&self, now: Time, guest: Guest) -> Result<(), Span> {
        let limiter = if guest.trusted { &self.trusted } else { &self.strangers };
        lock(limiter).take(now, guest.address)
    }
}

/// Rounds a wait up to whole seconds, for people and for HTTP's `Retry-After`.
pub(crate) fn seconds(wait: Span) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}

/// Sanitises a name that a client chose, for the log.
pub(crate) fn clean(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
