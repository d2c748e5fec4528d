//! Selects the candidate pair of a client that carries media.
//!
//! A client nominates one of the pairs that work, and another one when it finds a better one or the first fails (RFC 8445 section 8.1.1).
//! The `rtc` crate permanently uses the first. So its outgoing datagrams are redirected to the pair from which the client's own media and
//! reports last came, if that pair is valid: the library, which checks the signature, has answered a check that came over it, and the
//! server's own check has been answered.
//!
//! The crate also leaves a nomination unanswered as long as its own check of the pair is in progress, and some clients only retry half a
//! second later. Such a nomination is replayed to it once when the check has been answered.

use std::collections::VecDeque;
use std::net::SocketAddr;

use nearlight_units::{Span, Time};

use crate::Remote;
use crate::stun::{BINDING_REQUEST, BINDING_SUCCESS, Stun, USE_CANDIDATE};

/// Maximum number of candidate pairs remembered of one client. Guess: twice as many as a laptop has networks.
const MAX_PAIRS: usize = 16;
/// Maximum length of a stored nomination in bytes: those of browsers have about 130.
const MAX_NOMINATION_BYTES: usize = 512;
/// Minimum first byte of non-STUN traffic (RFC 7983).
const MIN_MEDIA_BYTE: u8 = 20;
/// A client that has been silent for this long is gone (RFC 7675 section 5.1).
const CONSENT_TIMEOUT: Span = Span::from_secs(30);

/// A remote and a local address (RFC 8445 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CandidatePair {
    pub(crate) remote: Remote,
    pub(crate) local: SocketAddr,
}

#[derive(Debug)]
struct PairState {
    pair: CandidatePair,
    /// The transactions of the newest checks: the client's, and the server's own.
    asked: Option<[u8; 12]>,
    checks: Option<[u8; 12]>,
    /// A nomination that the library has not answered.
    nomination: Option<Vec<u8>>,
    answered: bool,
    came_back: bool,
}

impl PairState {
    const fn new(pair: CandidatePair) -> Self {
        Self { pair, asked: None, checks: None, nomination: None, answered: false, came_back: false }
    }

    /// Whether checks in both directions have succeeded.
    const fn is_proven(&self) -> bool {
        self.answered && self.came_back
    }
}

#[derive(Debug, Default)]
pub(crate) struct CandidatePairs {
    /// Pairs, ordered by when a client last sent a check there, oldest first.
    seen: VecDeque<PairState>,
    /// The pair from which media last came.
    used: Option<CandidatePair>,
    /// When something authenticated by the client last arrived, once the library has answered a check.
    heard_at: Option<Time>,
}

impl CandidatePairs {
    /// Handles a datagram that the library has read; requests only if they are signed. Returns one that the library is to read again.
    pub(crate) fn on_read(&mut self, now: Time, pair: CandidatePair, datagram: &[u8]) -> Option<Vec<u8>> {
        if is_media(datagram) {
            let known = self.seen.iter().find(|known| known.pair == pair && known.is_proven());
            self.used = known.map(|known| known.pair).or(self.used);
            return None;
        }
        let stun = Stun::parse(datagram)?;
        match stun.kind {
            BINDING_REQUEST => {
                self.on_heard(now);
                let known = self.known(pair);
                known.asked = Some(stun.transaction);
                let nominates = stun.attribute(USE_CANDIDATE).is_some() && datagram.len() <= MAX_NOMINATION_BYTES;
                known.nomination = nominates.then(|| datagram.to_vec());
                None
            }
            BINDING_SUCCESS => {
                let known = self.seen.iter_mut().find(|known| known.pair == pair)?;
                if known.checks != Some(stun.transaction) {
                    return None;
                }
                known.came_back = true;
                known.nomination.clone()
            }
            _ => None,
        }
    }

    /// Handles a datagram that the library sends over this pair. Returns the pair that is to carry it.
    pub(crate) fn on_write(&mut self, now: Time, pair: CandidatePair, datagram: &[u8]) -> CandidatePair {
        if is_media(datagram) {
            return self.used.unwrap_or(pair);
        }
        let Some(stun) = Stun::parse(datagram) else { return pair };
        match stun.kind {
            BINDING_REQUEST => self.known(pair).checks = Some(stun.transaction),
            BINDING_SUCCESS => {
                let known = self.known(pair);
                if known.asked == Some(stun.transaction) {
                    (known.answered, known.nomination) = (true, None);
                    self.heard_at = Some(now);
                }
            }
            _ => {}
        }
        pair
    }

    /// Records the arrival of data that only the client can have sent.
    pub(crate) fn on_heard(&mut self, now: Time) {
        if self.heard_at.is_some() {
            self.heard_at = Some(now);
        }
    }

    fn known(&mut self, pair: CandidatePair) -> &mut PairState {
        let place = self.seen.iter().position(|known| known.pair == pair);
        let known = place.and_then(|place| self.seen.remove(place));
        if known.is_none() && self.seen.len() >= MAX_PAIRS {
            // A request replayed from elsewhere proves nothing, and evicts only others of its kind.
            let unproven = self.seen.iter().position(|known| !known.is_proven());
            let idle = || self.seen.iter().position(|known| Some(known.pair) != self.used);
            self.seen.remove(unproven.or_else(idle).unwrap_or(0));
        }
        self.seen.push_back(known.unwrap_or_else(|| PairState::new(pair)));
        let last = self.seen.len() - 1;
        &mut self.seen[last]
    }

    /// When the client's consent to receive expires. None before a pair is valid.
    pub(crate) fn consent_ends(&self) -> Option<Time> {
        self.heard_at.map(|at| at + CONSENT_TIMEOUT)
    }
}

/// Whether the datagram is DTLS, RTP or RTCP.
fn is_media(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| *first >= MIN_MEDIA_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stun::COOKIE;

    const NOW: Time = Time::from_secs(1);
    const MEDIA: [u8; 4] = [0x80, 96, 0, 1];

    fn pair(port: u16) -> CandidatePair {
        let remote = Remote::udp(([192, 0, 2, 1], port).into());
        CandidatePair { remote, local: ([198, 51, 100, 1], 8_091).into() }
    }

    fn message(kind: [u8; 2], transaction: u8, nominates: bool) -> Vec<u8> {
        let attributes: &[u8] = if nominates { &[0x80, 0x22, 0, 1, 9, 0, 0, 0, 0, 0x25, 0, 0] } else { &[] };
        let length = (attributes.len() as u16).to_be_bytes();
        [&kind[..], &length, &COOKIE, &[transaction; 12], attributes].concat()
    }

    /// Has the client's check and the server's own answered.
    fn prove(candidate_pairs: &mut CandidatePairs, port: u16, transaction: u8) {
        assert_eq!(candidate_pairs.on_read(NOW, pair(port), &message(BINDING_REQUEST, transaction, false)), None);
        candidate_pairs.on_write(NOW, pair(port), &message(BINDING_SUCCESS, transaction, false));
        check(candidate_pairs, port, transaction ^ 0x80);
    }

    fn check(candidate_pairs: &mut CandidatePairs, port: u16, transaction: u8) -> Option<Vec<u8>> {
        candidate_pairs.on_write(NOW, pair(port), &message(BINDING_REQUEST, transaction, false));
        candidate_pairs.on_read(NOW, pair(port), &message(BINDING_SUCCESS, transaction, false))
    }

    #[test]
    fn media_go_where_the_client_s_media_come_from_by_a_proven_way() {
        let mut candidate_pairs = CandidatePairs::default();
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(1), "the library's choice");
        prove(&mut candidate_pairs, 1, 1);
        prove(&mut candidate_pairs, 2, 2);
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(1), "nothing came from the second yet");
        candidate_pairs.on_read(NOW, pair(2), &MEDIA);
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(2));
        candidate_pairs.on_read(NOW, pair(3), &MEDIA);
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(2), "nothing is known of the third");
        let own = message(BINDING_REQUEST, 9, false);
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &own), pair(1), "checks are of one pair");
        candidate_pairs.on_read(NOW, pair(1), &MEDIA);
        assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(1));
    }

    #[test]
    fn half_a_proof_is_none() {
        let mut candidate_pairs = CandidatePairs::default();
        prove(&mut candidate_pairs, 1, 1);
        // Checked, and an answer to another check.
        candidate_pairs.on_read(NOW, pair(2), &message(BINDING_REQUEST, 2, true));
        candidate_pairs.on_write(NOW, pair(2), &message(BINDING_SUCCESS, 7, false));
        check(&mut candidate_pairs, 2, 20);
        // Answered, but the server's check was not: not this one.
        candidate_pairs.on_read(NOW, pair(3), &message(BINDING_REQUEST, 3, true));
        candidate_pairs.on_write(NOW, pair(3), &message(BINDING_SUCCESS, 3, false));
        candidate_pairs.on_write(NOW, pair(3), &message(BINDING_REQUEST, 30, false));
        candidate_pairs.on_read(NOW, pair(3), &message(BINDING_SUCCESS, 31, false));
        for port in [2, 3] {
            candidate_pairs.on_read(NOW, pair(port), &MEDIA);
            assert_eq!(candidate_pairs.on_write(NOW, pair(1), &MEDIA), pair(1), "{port}");
        }
    }

    #[test]
    fn an_unanswered_nomination_is_read_again_when_the_check_comes_back() {
        let mut candidate_pairs = CandidatePairs::default();
        let request = message(BINDING_REQUEST, 1, true);
        candidate_pairs.on_read(NOW, pair(1), &request);
        assert_eq!(check(&mut candidate_pairs, 2, 5), None, "of another pair");
        assert_eq!(check(&mut candidate_pairs, 1, 6), Some(request));
        candidate_pairs.on_write(NOW, pair(1), &message(BINDING_SUCCESS, 1, false));
        assert_eq!(check(&mut candidate_pairs, 1, 7), None, "it was answered");
    }

    #[test]
    fn memory_is_bounded_whatever_is_asked_and_the_way_in_use_is_not_forgotten() {
        let mut candidate_pairs = CandidatePairs::default();
        prove(&mut candidate_pairs, 1, 1);
        candidate_pairs.on_read(NOW, pair(1), &MEDIA);
        for port in 2..200 {
            candidate_pairs.on_read(NOW, pair(port), &message(BINDING_REQUEST, port as u8, true));
            assert!(candidate_pairs.seen.len() <= MAX_PAIRS);
        }
        assert!(candidate_pairs.seen.iter().any(|known| known.pair == pair(1)));
        let mut long = message(BINDING_REQUEST, 1, true);
        long.resize(MAX_NOMINATION_BYTES + 1, 0);
        candidate_pairs.on_read(NOW, pair(1), &long);
        assert!(candidate_pairs.known(pair(1)).nomination.is_none());
    }

    #[test]
    fn consent_ends_half_a_minute_after_the_last_word() {
        let mut candidate_pairs = CandidatePairs::default();
        assert_eq!(candidate_pairs.consent_ends(), None);
        prove(&mut candidate_pairs, 1, 1);
        candidate_pairs.on_heard(NOW + Span::from_secs(5));
        // An attacker can send that from there.
        candidate_pairs.on_read(NOW + Span::from_secs(9), pair(1), &MEDIA);
        assert_eq!(candidate_pairs.consent_ends(), Some(NOW + Span::from_secs(35)));
        candidate_pairs.on_read(NOW + Span::from_secs(10), pair(1), &message(BINDING_REQUEST, 2, false));
        assert_eq!(candidate_pairs.consent_ends(), Some(NOW + Span::from_secs(40)));
    }
}
