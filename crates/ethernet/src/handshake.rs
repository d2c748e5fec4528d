//! How a session begins: a solicitation, a cookie, and one round trip of Noise.
//!
//! The server keeps no state until a client has proved twice that it knows the token and once that it receives at its address. The frames
//! of the first round trip cost both ends one HMAC each; a client without the token is not answered at all.

use std::collections::{BTreeMap, BTreeSet};

use nearlight_units::{Span, Time};

use crate::HardwareAddress;
use crate::channel::Channel;
use crate::layout::{self, Cookie, NONCE_BYTES, Nonce, Payload, SMALLEST_MTU, VERSION};
use crate::noise::{Context, Initiator, Parameters, respond};
use crate::secrets::{AddressPair, Key, Secrets, cookie, is_cookie};

/// A client retries after this, with the interval doubling each time. Guess: a busy Wi-Fi's round trip.
const FIRST_RETRY: Span = Span::from_millis(50);
const LONGEST_RETRY: Span = Span::from_secs(1);
/// A client whose initiation remains unanswered for this long begins again: the server may have been restarted.
const PATIENCE: Span = Span::from_secs(2);
/// A cookie is valid in the period in which it was made and in the next.
const COOKIE_PERIOD: Span = Span::from_secs(4);
/// Answers that are kept for clients whose copy was lost; only holders of the token can make us keep one.
const MOST_ANSWERS: usize = 64;
/// As long as their cookies are valid.
const ANSWER_LIFE: Span = Span::from_secs(8);

/// Fills a buffer with unpredictable bytes.
pub(crate) type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// Where a client's session is to be.
#[derive(Clone, Debug)]
pub struct Opening {
    pub token: String,
    pub client: HardwareAddress,
    pub server: HardwareAddress,
    /// The longest payload of a frame that the client's interface carries, at least [`SMALLEST_MTU`].
    pub mtu: u16,
}

/// A client that is about to have a session.
pub struct Connecting {
    opening: Opening,
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

impl Connecting {
    pub fn new(now: Time, opening: Opening, random: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        let mut random: Random = Box::new(random);
        let (mut nonce, mut index) = ([0; NONCE_BYTES], [0; 4]);
        random(&mut nonce);
        random(&mut index);
        let own = Parameters { index: u32::from_be_bytes(index), mtu: opening.mtu.max(SMALLEST_MTU as u16) };
        Self {
            secrets: Secrets::new(&opening.token),
            opening,
            nonce,
            own,
            random,
            stage: Stage::Soliciting,
            send_at: now,
            retry: FIRST_RETRY,
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

    /// A payload arrived from the server's address. Returns the session once it is open.
    pub fn on_frame(&mut self, now: Time, payload: &[u8]) -> Option<Channel> {
        match Payload::parse(payload)? {
            Payload::Cookie { version, nonce, cookie, signed, code } if nonce == self.nonce => {
                if !self.secrets.verify(self.reversed_addresses(), signed, &code) {
                    return None;
                }
                if version != VERSION {
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
        self.stage = Stage::Initiating { state: Box::new(state), frame, until: now + PATIENCE };
        (self.send_at, self.retry) = (now, FIRST_RETRY);
    }

    fn on_response(&mut self, now: Time, noise: &[u8]) -> Option<Channel> {
        let Stage::Initiating { state, .. } = &mut self.stage else { return None };
        let peer = state.finish(noise).filter(|peer| usize::from(peer.mtu) >= SMALLEST_MTU)?;
        let Stage::Initiating { state, .. } = std::mem::replace(&mut self.stage, Stage::Soliciting) else {
            return None;
        };
        Some(Channel::new(now, state.agree(peer)?, self.own))
    }

    /// The payload of a frame to the server that is due now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        if now < self.send_at {
            return None;
        }
        if let Stage::Initiating { until, .. } = &self.stage
            && now >= *until
        {
            self.stage = Stage::Soliciting;
            self.retry = FIRST_RETRY;
            // The server may still hold an answer to the old one.
            (self.random)(&mut self.nonce);
        }
        self.send_at = now + self.retry;
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
        Some(match &self.stage {
            Stage::Soliciting => self.secrets.sign(self.addresses(), layout::solicitation(&self.nonce)),
            Stage::Initiating { frame, .. } => frame.clone(),
        })
    }

    /// When [`Connecting::poll_transmit`] has the next frame.
    #[must_use]
    pub const fn poll_timeout(&self) -> Time {
        self.send_at
    }
}

/// Which clients a server answers.
#[derive(Clone, Debug)]
pub struct ResponderConfig {
    pub token: String,
    pub address: HardwareAddress,
    /// None: every address.
    pub allowed: Option<BTreeSet<HardwareAddress>>,
    /// The longest payload of a frame that the server's interface carries, at least [`SMALLEST_MTU`].
    pub mtu: u16,
}

/// Counts of frames that began no session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderStatistics {
    /// From addresses that are not on the list.
    pub not_allowed: u64,
    /// Of our EtherType, but unknown to the protocol.
    pub malformed: u64,
    /// Made without the token, or with another.
    pub wrong_token: u64,
    /// With a cookie that is no longer valid.
    pub stale: u64,
    /// Initiations that were answered before: lost answers, or replays.
    pub repeated: u64,
    pub cookies: u64,
    pub sessions: u64,
}

/// What a frame led to.
#[derive(Debug)]
pub enum Accepted {
    /// Nothing to do.
    Dropped,
    /// Send this payload to the frame's source.
    Reply(Vec<u8>),
    /// The same, and a session has begun.
    Session { reply: Vec<u8>, channel: Box<Channel> },
}

/// A server's end of all handshakes on one interface.
pub struct Responder {
    config: ResponderConfig,
    secrets: Secrets,
    /// Of cookies.
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

    /// The interface carries payloads of this length from now on.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu;
    }

    /// A payload that belongs to no session arrived from `source`.
    pub fn on_frame(&mut self, now: Time, source: HardwareAddress, payload: &[u8]) -> Accepted {
        if !self.allows(source) {
            self.statistics.not_allowed += 1;
            return Accepted::Dropped;
        }
        let addresses = AddressPair { destination: self.config.address, source };
        let back = AddressPair { destination: source, source: self.config.address };
        match Payload::parse(payload) {
            // A client of another version is informed of ours.
            Some(Payload::Solicitation { version: _, nonce, signed, code }) => {
                if !self.secrets.verify(addresses, signed, &code) {
                    self.statistics.wrong_token += 1;
                    return Accepted::Dropped;
                }
                self.statistics.cookies += 1;
                let cookie = cookie(&self.secret, period(now), source, &nonce);
                Accepted::Reply(self.secrets.sign(back, layout::cookie(&nonce, &cookie)))
            }
            Some(Payload::Initiation { nonce, cookie, noise, signed, code }) => {
                if !self.secrets.verify(addresses, signed, &code) {
                    self.statistics.wrong_token += 1;
                    return Accepted::Dropped;
                }
                let good = |period| is_cookie(&self.secret, period, source, &nonce, &cookie);
                if !good(period(now)) && !period(now).checked_sub(1).is_some_and(good) {
                    self.statistics.stale += 1;
                    return Accepted::Dropped;
                }
                self.on_initiation(now, addresses, (&nonce, &cookie), noise)
            }
            // Most likely for a session that is over.
            Some(Payload::Transport { .. }) => Accepted::Dropped,
            Some(Payload::Cookie { .. } | Payload::Response { .. }) | None => {
                self.statistics.malformed += 1;
                Accepted::Dropped
            }
        }
    }

    fn on_initiation(
        &mut self,
        now: Time,
        addresses: AddressPair,
        (nonce, cookie): (&Nonce, &Cookie),
        noise: &[u8],
    ) -> Accepted {
        self.answers.retain(|_, answer| now.saturating_since(answer.at) < ANSWER_LIFE);
        let key = (addresses.source, *nonce);
        if let Some(answer) = self.answers.get(&key) {
            self.statistics.repeated += 1;
            return Accepted::Reply(answer.frame.clone());
        }
        let (mut index, mut random) = ([0; 4], [0; 32]);
        (self.random)(&mut index);
        (self.random)(&mut random);
        let own = Parameters { index: u32::from_be_bytes(index), mtu: self.config.mtu.max(SMALLEST_MTU as u16) };
        let context = Context { secrets: &self.secrets, addresses, nonce, cookie };
        let answered = respond(context, noise, own, random);
        let Some((agreed, message)) = answered.filter(|(agreed, _)| usize::from(agreed.peer.mtu) >= SMALLEST_MTU)
        else {
            self.statistics.wrong_token += 1;
            return Accepted::Dropped;
        };
        // At least the newest sessions all have different numbers.
        if self.answers.values().any(|answer| answer.index == own.index) {
            return Accepted::Dropped;
        }
        let frame = layout::response(agreed.peer.index, &message);
        if self.answers.len() >= MOST_ANSWERS {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at).map(|(key, _)| *key);
            oldest.and_then(|key| self.answers.remove(&key));
        }
        self.answers.insert(key, Answer { at: now, index: own.index, frame: frame.clone() });
        self.statistics.sessions += 1;
        Accepted::Session { reply: frame, channel: Box::new(Channel::new(now, agreed, own)) }
    }

    /// Answers that are kept.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        self.answers.len()
    }
}

fn period(now: Time) -> u64 {
    now.as_nanos() / COOKIE_PERIOD.as_nanos().unsigned_abs()
}
