//! What all sessions share, and who is let in.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use nearlight_codec::{CodecKind, Encoders};
use nearlight_fec::policy::{RedundancyPolicy, new_policy};
use nearlight_link::Path;
use nearlight_net::{AttemptLimiter, Clock, Token};
use nearlight_pace::Mode;
use nearlight_rate::gcc::Remb;
use nearlight_rate::{Bounds, new_controller};
use nearlight_session::{Sender, SenderConfig};
use nearlight_units::Time;
use nearlight_wire::{Hello, PROTOCOL_VERSION, RefusalReason};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::bad_paths::BadPaths;
use crate::journal::Journal;
use crate::metrics::{Metrics, Refusal};
use crate::sound::Auditorium;
use crate::studio::{Format, Studio};

/// Strangers that may be about to greet at the same time.
const MAX_GREETING: usize = 32;

/// The one controller that needs to be told nothing.
const FIXED: &str = "fixed";

/// A client's place among those that the server holds at most.
pub(crate) type Place = OwnedSemaphorePermit;

/// What all sessions share.
pub(crate) struct House {
    pub(crate) clock: Clock,
    pub(crate) token: Token,
    pub(crate) limiter: Mutex<AttemptLimiter>,
    pub(crate) greeting: Semaphore,
    pub(crate) places: Arc<Semaphore>,
    pub(crate) next_session: AtomicU32,
    pub(crate) studio: Studio,
    /// None: there is nothing to hear.
    pub(crate) sound: Option<Auditorium>,
    pub(crate) adapter: String,
    pub(crate) format: Format,
    pub(crate) codec: CodecKind,
    pub(crate) controller: String,
    pub(crate) fec: String,
    pub(crate) bounds: Bounds,
    pub(crate) pacing: Mode,
    pub(crate) bad_paths: Option<BadPaths>,
    /// The most that a datagram holds, whatever the transport takes.
    pub(crate) datagram: usize,
    pub(crate) encoders: Encoders,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) journal: Option<Journal>,
    /// Becomes true when the server shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl House {
    pub(crate) const fn greeting_places() -> usize {
        MAX_GREETING
    }

    /// Checks everything that may keep a client out; the reason is in plain words for its user.
    pub(crate) fn admit(&self, peer: IpAddr, hello: &Hello) -> Result<(CodecKind, Place), (RefusalReason, String)> {
        self.check_hello(peer, hello)?;
        let codec = self.choose(|kind| hello.codecs.iter().any(|name| name == kind.name()))?;
        Ok((codec, self.take_place()?))
    }

    /// Whether this greeting opens a session.
    pub(crate) fn check_hello(&self, peer: IpAddr, hello: &Hello) -> Result<(), (RefusalReason, String)> {
        self.check_token(peer, &hello.token)?;
        if hello.protocol != PROTOCOL_VERSION {
            let message = format!(
                "This client speaks version {} of the protocol, the server version {PROTOCOL_VERSION}. Use the same release on both.",
                hello.protocol
            );
            return Err(self.refuse(Refusal::Protocol, RefusalReason::Protocol, message));
        }
        Ok(())
    }

    fn refuse(&self, metric: Refusal, reason: RefusalReason, message: impl Into<String>) -> (RefusalReason, String) {
        self.metrics.on_refusal(metric);
        (reason, message.into())
    }

    /// Whether the one at this address may try, and has the right token.
    pub(crate) fn check_token(&self, peer: IpAddr, token: &str) -> Result<(), (RefusalReason, String)> {
        let now = self.clock.now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = limiter.wait(now, peer) {
            let seconds = wait.as_secs_f64().ceil();
            let message = format!("Too many wrong tokens came from this address. Try again in {seconds} s.");
            return Err(self.refuse(Refusal::TooManyAttempts, RefusalReason::TooManyAttempts, message));
        }
        if !self.token.matches(token) {
            limiter.on_failure(now, peer);
            let message = "The pairing token is wrong. Open the link that the server printed when it started.";
            return Err(self.refuse(Refusal::Token, RefusalReason::Token, message));
        }
        limiter.on_success(peer);
        Ok(())
    }

    /// The owner's codec where the client has it, else another.
    pub(crate) fn choose(&self, offered: impl FnMut(&CodecKind) -> bool) -> Result<CodecKind, (RefusalReason, String)> {
        [self.codec].into_iter().chain(CodecKind::ALL).find(offered).ok_or_else(|| {
            let message = "This client decodes neither H.264 nor VP8, so it cannot show the stream.";
            self.refuse(Refusal::Codec, RefusalReason::Codec, message)
        })
    }

    pub(crate) fn take_place(&self) -> Result<Place, (RefusalReason, String)> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message =
                "The server is full. Try again when somebody has left, or start it with a larger --max-clients.";
            self.refuse(Refusal::Full, RefusalReason::Full, message)
        })
    }

    /// A session's sender, for datagrams up to what its transport takes.
    pub(crate) fn new_sender(&self, now: Time, max_datagram: usize, reports_arrivals: bool) -> Sender {
        let config = SenderConfig {
            max_datagram: max_datagram.min(self.datagram),
            pacing: self.pacing,
            frame_interval: self.format.frame_interval(),
            events: self.journal.is_some(),
        };
        let chosen = || new_controller(&self.controller, self.bounds).expect("checked when the server started");
        let controller =
            if reports_arrivals || self.controller == FIXED { chosen() } else { Box::new(Remb::new(self.bounds)) };
        Sender::new(now, config, controller)
    }

    /// A session's redundancy policy.
    pub(crate) fn new_policy(&self) -> Box<dyn RedundancyPolicy> {
        new_policy(&self.fec).expect("checked when the server started")
    }

    /// The bad path that the owner wants for each session, there and back; none where it is to be a clean one.
    pub(crate) fn bad_path(&self, session: u32, now: Time) -> Option<[Path; 2]> {
        let paths = self.bad_paths.as_ref()?.of_session(session, now);
        if let Err(error) = &paths {
            tracing::warn!("session {session} has a clean path instead of the bad one: {error}");
        }
        paths.ok()
    }
}

/// A name that a stranger chose, fit for a log.
pub(crate) fn clean(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
