//! The handshake of a session: a solicitation, a cookie, and one round trip of Noise.
//!
//! The server keeps no state until a client has proved twice that it knows the token and once that it receives at its address. The frames
//! of the first round trip cost both ends one HMAC each. A client without the token gets no answer at all.

use std::collections::{BTreeMap, BTreeSet};

use nearlight_units::{Span, Time};

use crate::link_layer::HardwareAddress;
use crate::link_layer::channel::Channel;
use crate::link_layer::layout::{self, Cookie, MIN_MTU, NONCE_BYTES, Nonce, Payload, TRANSPORT_VERSION};
use crate::link_layer::noise::{Context, Initiator, Parameters, respond};
use crate::link_layer::secrets::{AddressPair, Key, Secrets, cookie, is_cookie};

/// A client retries after this time, which doubles with each retry up to the maximum. Guess: a busy Wi-Fi's round trip.
const INITIAL_RETRY: Span = Span::from_millis(50);
const MAX_RETRY: Span = Span::from_secs(1);
/// A client whose initiation remains unanswered for this long begins again, because the server may have been restarted. Guess.
const INITIATION_TIMEOUT: Span = Span::from_secs(2);
/// A cookie is valid in the period in which it was made and in the next.
const COOKIE_PERIOD: Span = Span::from_secs(4);
/// Maximum number of answers stored for clients whose copy was lost. Only holders of the token can cause one to be stored.
const MAX_ANSWERS: usize = 64;
/// How long answers are stored: as long as their cookies are valid.
const ANSWER_LIFETIME: Span = Span::from_secs(8);

/// Fills a buffer with unpredictable bytes.
pub(crate) type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// The addresses and options of a session to be opened.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    pub token: String,
    pub client: HardwareAddress,
    pub server: HardwareAddress,
    /// The longest payload of a frame that the client's interface carries, at least [`MIN_MTU`].
    pub mtu: u16,
}

/// A client's end of a handshake.
pub struct ClientHandshake {
    opening: ConnectConfig,
    secrets: Secrets,
    nonce: Nonce,
    own: Parameters,
    random: Random,
    stage: Stage,
    send_at: Time,
    retry: Span,
    other_version: Option<u8>,
}

enum Stage {
    Soliciting,
    Initiating { state: Box<Initiator>, frame: Vec<u8>, until: Time },
}

impl ClientHandshake {
    pub fn new(now: Time, opening: ConnectConfig, random: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        let mut random: Random = Box::new(random);
        let (mut nonce, mut index) = ([0; NONCE_BYTES], [0; 4]);
        random(&mut nonce);
        random(&mut index);
        let own = Parameters { index: u32::from_be_bytes(index), mtu: opening.mtu.max(MIN_MTU as u16) };
        Self {
            secrets: Secrets::new(&opening.token),
            opening,
            nonce,
            own,
            random,
            stage: Stage::Soliciting,
            send_at: now,
            retry: INITIAL_RETRY,
            other_version: None,
        }
    }

    const fn addresses(&self) -> AddressPair {
        AddressPair { destination: self.opening.server, source: self.opening.client }
    }

    const fn reversed_addresses(&self) -> AddressPair {
        AddressPair { destination: self.opening.client, source: self.opening.server }
    }

    /// The server's version, if it differs.
    #[must_use]
    pub const fn other_version(&self) -> Option<u8> {
        self.other_version
    }

    /// Handles a payload from the server's address. Returns the session once it is open.
    pub fn on_frame(&mut self, now: Time, payload: &[u8]) -> Option<Channel> {
        match Payload::parse(payload)? {
            Payload::Cookie { version, nonce, cookie, signed, code } if nonce == self.nonce => {
                if !self.secrets.verify(self.reversed_addresses(), signed, &code) {
                    return None;
                }
                if version != TRANSPORT_VERSION {
                    self.other_version = Some(version);
                    return None;
                }
                if matches!(self.stage, Stage::Soliciting) {
                    self.initiate(now, &cookie);
                }
                None
            }
            Payload::Response { index, noise } if index == self.own.index => self.on_response(now, noise),
            _ => None,
        }
    }

    fn initiate(&mut self, now: Time, cookie: &Cookie) {
        let addresses = self.addresses();
        let context = Context { secrets: &self.secrets, addresses, nonce: &self.nonce, cookie };
        // Every initiation has its own ephemeral key: two initiations under one key would compromise the authentication code of both.
        let mut ephemeral = [0; 32];
        (self.random)(&mut ephemeral);
        let Some((state, message)) = Initiator::new(context, self.own, ephemeral) else { return };
        let frame = self.secrets.sign(addresses, layout::initiation(&self.nonce, cookie, &message));
        self.stage = Stage::Initiating { state: Box::new(state), frame, until: now + INITIATION_TIMEOUT };
        (self.send_at, self.retry) = (now, INITIAL_RETRY);
    }

    fn on_response(&mut self, now: Time, noise: &[u8]) -> Option<Channel> {
        let Stage::Initiating { state, .. } = &mut self.stage else { return None };
        let peer = state.finish(noise).filter(|peer| usize::from(peer.mtu) >= MIN_MTU)?;
        let Stage::Initiating { state, .. } = std::mem::replace(&mut self.stage, Stage::Soliciting) else {
            return None;
        };
        Some(Channel::new(now, state.agree(peer)?, self.own))
    }

    /// Returns the payload of a frame to the server that is due now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        if now < self.send_at {
            return None;
        }
        if let Stage::Initiating { until, .. } = &self.stage
            && now >= *until
        {
            self.stage = Stage::Soliciting;
            self.retry = INITIAL_RETRY;
            // The server may still store an answer to the old one.
            (self.random)(&mut self.nonce);
        }
        self.send_at = now + self.retry;
        self.retry = (self.retry * 2).min(MAX_RETRY);
        Some(match &self.stage {
            Stage::Soliciting => self.secrets.sign(self.addresses(), layout::solicitation(&self.nonce)),
            Stage::Initiating { frame, .. } => frame.clone(),
        })
    }

    /// When [`ClientHandshake::poll_transmit`] has the next frame.
    #[must_use]
    pub const fn poll_timeout(&self) -> Time {
        self.send_at
    }
}

/// The clients that a server answers, and its interface's limits.
#[derive(Clone, Debug)]
pub struct ResponderConfig {
    pub token: String,
    pub address: HardwareAddress,
    /// The allowed addresses. None allows every address.
    pub allowed: Option<BTreeSet<HardwareAddress>>,
    /// The longest payload of a frame that the server's interface carries, at least [`MIN_MTU`].
    pub mtu: u16,
}

/// Counts of frames that began no session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderStatistics {
    /// Frames from addresses that are not on the list.
    pub not_allowed: u64,
    /// Frames of our EtherType that are unknown to the protocol.
    pub malformed: u64,
    /// Frames made without the token, or with another.
    pub wrong_token: u64,
    /// Frames with a cookie that is no longer valid.
    pub stale: u64,
    /// Initiations that were answered before: lost answers, or replays.
    pub repeated: u64,
    pub cookies: u64,
    pub sessions: u64,
}

/// The action that follows from a frame.
#[derive(Debug)]
pub enum ResponderAction {
    /// Nothing to do.
    Dropped,
    /// Send this payload to the frame's source.
    Reply(Vec<u8>),
    /// Send this payload to the frame's source; a session has begun.
    Session { reply: Vec<u8>, channel: Box<Channel> },
}

/// A server's end of all handshakes on one interface.
pub struct Responder {
    config: ResponderConfig,
    secrets: Secrets,
    /// The key of cookies.
    secret: Key,
    random: Random,
    answers: BTreeMap<(HardwareAddress, Nonce), Answer>,
    statistics: ResponderStatistics,
}

struct Answer {
    at: Time,
    index: u32,
    frame: Vec<u8>,
}

impl Responder {
    pub fn new(config: ResponderConfig, random: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        let mut random: Random = Box::new(random);
        let mut secret = [0; 32];
        random(&mut secret);
        let secrets = Secrets::new(&config.token);
        Self { config, secrets, secret, random, answers: BTreeMap::new(), statistics: ResponderStatistics::default() }
    }

    #[must_use]
    pub const fn statistics(&self) -> ResponderStatistics {
        self.statistics
    }

    /// Whether frames from `source` are processed.
    #[must_use]
    pub fn allows(&self, source: HardwareAddress) -> bool {
        !source.is_group() && self.config.allowed.as_ref().is_none_or(|allowed| allowed.contains(&source))
    }

    /// Sets the longest payload that the interface carries from now on.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu;
    }

    /// Handles a payload from `source` that belongs to no session.
    pub fn on_frame(&mut self, now: Time, source: HardwareAddress, payload: &[u8]) -> ResponderAction {
        if !self.allows(source) {
            self.statistics.not_allowed += 1;
            return ResponderAction::Dropped;
        }
        let addresses = AddressPair { destination: self.config.address, source };
        let back = AddressPair { destination: source, source: self.config.address };
        match Payload::parse(payload) {
            // A client of another version is informed of ours.
            Some(Payload::Solicitation { version: _, nonce, signed, code }) => {
                if !self.secrets.verify(addresses, signed, &code) {
                    self.statistics.wrong_token += 1;
                    return ResponderAction::Dropped;
                }
                self.statistics.cookies += 1;
                let cookie = cookie(&self.secret, period(now), source, &nonce);
                ResponderAction::Reply(self.secrets.sign(back, layout::cookie(&nonce, &cookie)))
            }
            Some(Payload::Initiation { nonce, cookie, noise, signed, code }) => {
                if !self.secrets.verify(addresses, signed, &code) {
                    self.statistics.wrong_token += 1;
                    return ResponderAction::Dropped;
                }
                let good = |period| is_cookie(&self.secret, period, source, &nonce, &cookie);
                if !good(period(now)) && !period(now).checked_sub(1).is_some_and(good) {
                    self.statistics.stale += 1;
                    return ResponderAction::Dropped;
                }
                self.on_initiation(now, addresses, (&nonce, &cookie), noise)
            }
            // Most likely for a session that is over.
            Some(Payload::Transport { .. }) => ResponderAction::Dropped,
            Some(Payload::Cookie { .. } | Payload::Response { .. }) | None => {
                self.statistics.malformed += 1;
                ResponderAction::Dropped
            }
        }
    }

    fn on_initiation(
        &mut self,
        now: Time,
        addresses: AddressPair,
        (nonce, cookie): (&Nonce, &Cookie),
        noise: &[u8],
    ) -> ResponderAction {
        self.answers.retain(|_, answer| now.saturating_since(answer.at) < ANSWER_LIFETIME);
        let key = (addresses.source, *nonce);
        if let Some(answer) = self.answers.get(&key) {
            self.statistics.repeated += 1;
            return ResponderAction::Reply(answer.frame.clone());
        }
        let (mut index, mut random) = ([0; 4], [0; 32]);
        (self.random)(&mut index);
        (self.random)(&mut random);
        let own = Parameters { index: u32::from_be_bytes(index), mtu: self.config.mtu.max(MIN_MTU as u16) };
        let context = Context { secrets: &self.secrets, addresses, nonce, cookie };
        let answered = respond(context, noise, own, random);
        let Some((agreed, message)) = answered.filter(|(agreed, _)| usize::from(agreed.peer.mtu) >= MIN_MTU) else {
            self.statistics.wrong_token += 1;
            return ResponderAction::Dropped;
        };
        // So at least the newest sessions all have different numbers.
        if self.answers.values().any(|answer| answer.index == own.index) {
            return ResponderAction::Dropped;
        }
        let frame = layout::response(agreed.peer.index, &message);
        if self.answers.len() >= MAX_ANSWERS {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at).map(|(key, _)| *key);
            oldest.and_then(|key| self.answers.remove(&key));
        }
        self.answers.insert(key, Answer { at: now, index: own.index, frame: frame.clone() });
        self.statistics.sessions += 1;
        ResponderAction::Session { reply: frame, channel: Box::new(Channel::new(now, agreed, own)) }
    }

    /// Number of stored answers.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        self.answers.len()
    }
}

fn period(now: Time) -> u64 {
    now.as_nanos() / COOKIE_PERIOD.as_nanos().unsigned_abs()
}
