//! State shared by all sessions, and the admission of clients.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Encoders};
use nearlight_fec::policy::new_policy;
use nearlight_link::Path;
use nearlight_net::{Clock, Gate, RateLimiter, RatePolicy, TcpSocket};
use nearlight_pace::Mode;
use nearlight_rate::gcc::Remb;
use nearlight_rate::{Bounds, new_controller};
use nearlight_rooms::Role;
use nearlight_session::{Algorithms, Framing, Sender, SenderConfig};
use nearlight_units::{Span, Time};
use nearlight_urs::signalling::Guest;
use nearlight_webrtc::Peer;
use nearlight_wire::{Hello, PROTOCOL_VERSION, RecoveryPolicy, RefusalReason};
use tokio::sync::watch;

use crate::admission::{Admission, NotAdmitted, Permit, QUIET};
use crate::bad_paths::BadPaths;
use crate::event_log::EventLog;
use crate::metrics::{Metrics, Refusal};
use crate::pairing::{Channel, Pairing, Proven, Wrong};
use crate::rooms::Rooms;
use crate::sound::Mixer;
use crate::studio::{Format, Studio};

/// Connections that may be in the handshake at the same time, in total and from one address. Beyond that, the one that has been silent
/// longest is dropped. Guess: a class of 30 behind one address opens the link at the same moment.
const MAX_HANDSHAKES: usize = 64;
const MAX_HANDSHAKES_PER_ADDRESS: usize = 32;
/// One handshake more, of QUIC and of the protocol, for so many members that rooms may have. All of a crowd may come within a second or two from
/// one address, and a handshake on a busy machine takes tenths of a second. A server that was told to hold a member can hold its handshake, which costs
/// less, is over after 5 s, and occupies one of at most as many TCP connections as are bounded by themselves.
const MEMBERS_FOR_A_HANDSHAKE: usize = 4;

/// How many handshakes more than without them there may be where rooms have at most so many members.
pub(crate) const fn handshakes_of(members: usize) -> usize {
    members / MEMBERS_FOR_A_HANDSHAKE
}

/// How long a client waits for a place that may become free, and how often that is checked: longer than a silent client keeps its place,
/// and shorter than clients wait for an answer to their handshake.
const ADMISSION_PATIENCE: Span = Span::from_secs(4);
const ADMISSION_CHECK: Duration = Duration::from_millis(100);

/// The only controller that needs no feedback.
const FIXED: &str = "fixed";

/// Why a client is refused.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    pub(crate) reason: RefusalReason,
    /// In plain words for its user.
    pub(crate) message: String,
    /// When to try again, if that is known.
    pub(crate) wait: Option<Span>,
}

/// What carries a session's media.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MediaTransport {
    /// Datagrams of our own protocol of at most this many bytes, and the loss recovery of both ends.
    Datagrams { largest: usize, recovery: RecoveryPolicy },
    /// RTP, and whether the client reports packet arrival times.
    Rtp { reports_arrivals: bool },
}

/// What all sessions share.
pub(crate) struct ServerState {
    pub(crate) clock: Clock,
    pub(crate) pairing: Pairing,
    pub(crate) offers: Offers,
    pub(crate) handshakes: Arc<Gate>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) rooms: Rooms,
    pub(crate) next_session: AtomicU32,
    pub(crate) studio: Studio,
    /// None: there is no sound.
    pub(crate) sound: Option<Mixer>,
    /// Clipboard text may be exchanged.
    pub(crate) clipboard: bool,
    pub(crate) adapter: String,
    /// The page explains how to move in it.
    pub(crate) demonstration: bool,
    pub(crate) format: Format,
    pub(crate) codec: CodecKind,
    pub(crate) controller: String,
    pub(crate) fec: String,
    pub(crate) recovery: RecoveryPolicy,
    pub(crate) bounds: Bounds,
    pub(crate) pacing: Mode,
    /// Of TCP connections that carry media; none: the system's.
    pub(crate) tcp_control: Option<String>,
    pub(crate) bad_paths: Option<BadPaths>,
    /// The maximum datagram size, whatever the transport allows.
    pub(crate) datagram: usize,
    pub(crate) encoders: Encoders,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) event_log: Option<EventLog>,
    /// Becomes true when the server shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl ServerState {
    /// On a server whose rooms have at most so many members.
    pub(crate) fn new_handshakes(members: usize) -> Arc<Gate> {
        let more = handshakes_of(members);
        Gate::new(MAX_HANDSHAKES + more, MAX_HANDSHAKES_PER_ADDRESS + more, 0)
    }

    /// Sets the congestion control that the owner chose on a TCP connection that is about to carry media.
    pub(crate) fn on_media_connection(&self, tcp: &TcpSocket) {
        let Some(name) = &self.tcp_control else { return };
        if let Err(error) = tcp.set_congestion_control(name) {
            tracing::warn!(%error, "cannot set congestion control {name} on a TCP connection; it keeps the system's default");
        }
    }

    /// A codec and a place for a client that has proved that it knows the token. If the only candidate is the place of a silent client,
    /// such as this client's own previous session that was killed a moment ago, it waits for that place to become free.
    pub(crate) async fn admit(&self, peer: IpAddr, hello: &Hello) -> Result<(CodecKind, Permit), Rejection> {
        let codec = self.choose(|kind| hello.codecs.contains(kind))?;
        let guest = Guest { address: peer, trusted: true };
        let came_at = self.clock.now();
        loop {
            let now = self.clock.now();
            match self.admission.take(now, guest) {
                Err(NotAdmitted::Silent(_)) if now < came_at + ADMISSION_PATIENCE => {
                    tokio::time::sleep(ADMISSION_CHECK).await;
                }
                // A client that was killed just now is not yet known to be silent.
                Err(NotAdmitted::Full) if now <= came_at + QUIET => tokio::time::sleep(ADMISSION_CHECK).await,
                taken => {
                    let permit = taken.map_err(|why| self.not_admitted(why))?;
                    permit.hear(now);
                    return Ok((codec, permit));
                }
            }
        }
    }

    /// The role and the server's own proof for a client whose handshake proves that it knows a token.
    pub(crate) fn check_hello(&self, peer: IpAddr, hello: &Hello, channel: &Channel) -> Result<Proven, Rejection> {
        // Another version of the protocol proves the token differently, or sends it in the clear.
        self.check_version(hello)?;
        let checked = self.pairing.check_proof(self.clock.now(), peer, hello.proof.as_ref(), channel);
        checked.map_err(|wrong| self.wrong_token(wrong))
    }

    /// Whether the client speaks the same version of the protocol.
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

    fn make_wait(&self, wait: Span, why: &str) -> Rejection {
        let message = format!("{why} Try again in {} s.", seconds(wait));
        let rejection = self.refuse(Refusal::TooManyAttempts, RefusalReason::TooManyAttempts, message);
        Rejection { wait: Some(wait), ..rejection }
    }

    /// The role for which an HTTP request's token stands.
    pub(crate) fn check_token(&self, peer: IpAddr, token: &str) -> Result<Role, Rejection> {
        self.pairing.check_bearer(self.clock.now(), peer, token).map_err(|wrong| self.wrong_token(wrong))
    }

    fn wrong_token(&self, wrong: Wrong) -> Rejection {
        match wrong {
            Wrong::Token => {
                let message = "The pairing token is wrong. Open the link that the server printed when it started.";
                self.refuse(Refusal::Token, RefusalReason::Token, message)
            }
            Wrong::TooOften(wait) => {
                self.make_wait(wait, "The pairing token is wrong, as others from this address were before.")
            }
        }
    }

    /// The owner's codec if the client supports it, otherwise another.
    pub(crate) fn choose(&self, offered: impl FnMut(&CodecKind) -> bool) -> Result<CodecKind, Rejection> {
        [self.codec].into_iter().chain(CodecKind::ALL).find(offered).ok_or_else(|| {
            let message = "This client receives neither H.264 nor VP8, so it cannot show the stream.";
            self.refuse(Refusal::Codec, RefusalReason::Codec, message)
        })
    }

    /// Counts an offer, which costs work before a client is connected, unless its address has made too many.
    pub(crate) fn count_offer(&self, now: Time, guest: Guest) -> Result<(), Rejection> {
        self.offers.take(now, guest).map_err(|wait| self.make_wait(wait, "Too many offers came from this address."))
    }

    pub(crate) fn try_admit(&self, now: Time, guest: Guest) -> Result<Permit, Rejection> {
        self.admission.take(now, guest).map_err(|why| self.not_admitted(why))
    }

    fn not_admitted(&self, why: NotAdmitted) -> Rejection {
        match why {
            NotAdmitted::Full => {
                let message =
                    "The server is full. Try again when somebody has left, or start it with a larger --max-clients.";
                self.refuse(Refusal::Full, RefusalReason::Full, message)
            }
            NotAdmitted::Silent(wait) => {
                let message = format!(
                    "The server is full, but one of its clients does not answer. Try again in {} s.",
                    seconds(wait)
                );
                Rejection { wait: Some(wait), ..self.refuse(Refusal::Full, RefusalReason::Full, message) }
            }
            NotAdmitted::Waits(wait) => {
                self.make_wait(wait, "Clients of this address hold places and have not connected.")
            }
        }
    }

    /// The loss recovery of a session with this codec, whose encoder may keep no references.
    pub(crate) fn recovery(&self, codec: CodecKind) -> Result<RecoveryPolicy, CodecError> {
        let Format { size, fps, .. } = self.format;
        let config = EncoderConfig { size, fps, rate: self.bounds.start, threads: EncoderConfig::usual_threads() };
        let keeps_references = self.encoders.describe(codec, config)?.keeps_references;
        Ok(match self.recovery {
            RecoveryPolicy::Reference if !keeps_references => RecoveryPolicy::Retransmission,
            chosen => chosen,
        })
    }

    /// A session's sender.
    pub(crate) fn new_sender(&self, now: Time, transport: MediaTransport) -> Sender {
        let (framing, largest, recovery, reports_arrivals) = match transport {
            MediaTransport::Datagrams { largest, recovery } => (Framing::Symbols, largest, recovery, true),
            // The client's own recovery: it sends NACKs, then requests a key frame.
            MediaTransport::Rtp { reports_arrivals } => {
                (Framing::Rtp, Peer::LARGEST_DATAGRAM, RecoveryPolicy::Retransmission, reports_arrivals)
            }
        };
        let chosen = || new_controller(&self.controller, self.bounds).expect("checked when the server started");
        let controller =
            if reports_arrivals || self.controller == FIXED { chosen() } else { Box::new(Remb::new(self.bounds)) };
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

    /// The impaired path that the owner wants for each session, in both directions; none for a clean path.
    pub(crate) fn bad_path(&self, session: u32, now: Time) -> Option<[Path; 2]> {
        let paths = self.bad_paths.as_ref()?.of_session(session, now);
        if let Err(error) = &paths {
            tracing::warn!("session {session}: the path is not impaired: {error}");
        }
        paths.ok()
    }
}

/// Counts offers per address. Offers with a token are counted separately, so that clients without one cannot exhaust their budget.
pub(crate) struct Offers {
    trusted: Mutex<RateLimiter>,
    strangers: Mutex<RateLimiter>,
}

impl Offers {
    pub(crate) fn new() -> Self {
        let limiter = || Mutex::new(RateLimiter::new(RatePolicy::default()));
        Self { trusted: limiter(), strangers: limiter() }
    }

    fn take(&self, now: Time, guest: Guest) -> Result<(), Span> {
        let limiter = if guest.trusted { &self.trusted } else { &self.strangers };
        limiter.lock().unwrap_or_else(PoisonError::into_inner).take(now, guest.address)
    }
}

/// Whole seconds, as people and HTTP count them.
pub(crate) fn seconds(wait: Span) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}

/// A name chosen by a stranger, sanitised for the log.
pub(crate) fn clean(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
