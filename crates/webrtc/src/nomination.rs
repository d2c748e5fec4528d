//! Which of a client's ways media take.
//!
//! A client nominates one of the ways that work, and another one when it finds a better one or the first is gone (RFC 8445 section
//! 8.1.1). The `rtc` crate stays with the first for good. What it wants to send is therefore sent to where the client's own media and
//! reports came from last, as far as that is a way which the client nominated and the library, which checks the signature, agreed to.
//!
//! The crate also leaves a nomination unanswered as long as its own check of the way is under way, and some clients ask again only half
//! a second later. Such a nomination is put before it once more when the check has come back.

use std::collections::VecDeque;
use std::net::SocketAddr;

use nearlight_units::{Span, Time};

use crate::Remote;
use crate::stun::{BINDING_REQUEST, BINDING_SUCCESS, Stun, USE_CANDIDATE};

/// Nominations that wait, and ways that were agreed to. Guess: twice as many as a laptop has networks.
const MAX_WAYS: usize = 16;
/// A longer nomination is not kept: those of browsers have about 130 bytes.
const MAX_REQUEST: usize = 512;
/// The first byte of what is no STUN begins here (RFC 7983).
const FIRST_OF_MEDIA: u8 = 20;
/// A client that is not heard for so long has gone (RFC 7675 section 5.1).
pub(crate) const CONSENT: Span = Span::from_secs(30);

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) remote: Remote,
    pub(crate) local: SocketAddr,
}

#[derive(Debug)]
struct Asked {
    way: Way,
    transaction: [u8; 12],
    request: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Nominations {
    /// Unanswered, oldest first.
    asked: VecDeque<Asked>,
    agreed: VecDeque<Way>,
    /// Where media came from last.
    used: Option<Way>,
    /// When anything came by a way that was agreed to.
    heard_at: Option<Time>,
}

impl Nominations {
    /// The library has read a datagram. Answers with one that it is to read again.
    pub(crate) fn on_read(&mut self, now: Time, way: Way, datagram: &[u8]) -> Option<Vec<u8>> {
        let known = self.agreed.contains(&way);
        if known {
            self.heard_at = Some(now);
        }
        if datagram.first().is_some_and(|first| *first >= FIRST_OF_MEDIA) {
            self.used = Some(way).filter(|_| known).or(self.used);
            return None;
        }
        let stun = Stun::parse(datagram)?;
        match stun.kind {
            BINDING_REQUEST if stun.attribute(USE_CANDIDATE).is_some() && datagram.len() <= MAX_REQUEST => {
                let (transaction, request) = (stun.transaction, datagram.to_vec());
                self.asked.retain(|asked| asked.transaction != transaction);
                self.asked.push_back(Asked { way, transaction, request });
                if self.asked.len() > MAX_WAYS {
                    self.asked.pop_front();
                }
                None
            }
            BINDING_SUCCESS => self.asked.iter().rfind(|asked| asked.way == way).map(|asked| asked.request.clone()),
            _ => None,
        }
    }

    /// The library sends a datagram this way. Answers with the way that it is to take.
    pub(crate) fn on_write(&mut self, now: Time, way: Way, datagram: &[u8]) -> Way {
        if datagram.first().is_some_and(|first| *first >= FIRST_OF_MEDIA) {
            return self.used.unwrap_or(way);
        }
        if let Some(stun) = Stun::parse(datagram).filter(|stun| stun.kind == BINDING_SUCCESS) {
            let place = self.asked.iter().position(|asked| asked.way == way && asked.transaction == stun.transaction);
            if place.and_then(|place| self.asked.remove(place)).is_some() {
                self.agreed.retain(|agreed| *agreed != way);
                self.agreed.push_back(way);
                if self.agreed.len() > MAX_WAYS {
                    self.agreed.pop_front();
                }
                self.heard_at = Some(now);
            }
        }
        way
    }

    /// When the client's consent to be sent anything ends; none before it has nominated a way.
    pub(crate) fn consent_ends(&self) -> Option<Time> {
        self.heard_at.map(|at| at + CONSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stun::COOKIE;

    const NOW: Time = Time::from_secs(1);
    const MEDIA: [u8; 4] = [0x80, 96, 0, 1];

    fn way(port: u16) -> Way {
        let remote = Remote::udp(([192, 0, 2, 1], port).into());
        Way { remote, local: ([198, 51, 100, 1], 8_091).into() }
    }

    fn message(kind: [u8; 2], transaction: u8, nominates: bool) -> Vec<u8> {
        let attributes: &[u8] = if nominates { &[0x80, 0x22, 0, 1, 9, 0, 0, 0, 0, 0x25, 0, 0] } else { &[] };
        let length = (attributes.len() as u16).to_be_bytes();
        [&kind[..], &length, &COOKIE, &[transaction; 12], attributes].concat()
    }

    fn nominate(nominations: &mut Nominations, port: u16, transaction: u8) {
        assert_eq!(nominations.on_read(NOW, way(port), &message(BINDING_REQUEST, transaction, true)), None);
        nominations.on_write(NOW, way(port), &message(BINDING_SUCCESS, transaction, false));
    }

    #[test]
    fn media_go_where_the_client_s_media_come_from_among_the_ways_agreed_to() {
        let mut nominations = Nominations::default();
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(1), "the library's choice");
        nominate(&mut nominations, 1, 1);
        nominate(&mut nominations, 2, 2);
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(1), "nothing came from the second yet");
        nominations.on_read(NOW, way(2), &MEDIA);
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(2));
        nominations.on_read(NOW, way(3), &MEDIA);
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(2), "nobody nominated the third");
        let check = message(BINDING_REQUEST, 9, false);
        assert_eq!(nominations.on_write(NOW, way(1), &check), way(1), "checks are of one way");
        nominations.on_read(NOW, way(1), &MEDIA);
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(1));
    }

    #[test]
    fn what_the_library_does_not_answer_is_no_way() {
        let mut nominations = Nominations::default();
        nominate(&mut nominations, 1, 1);
        nominations.on_read(NOW, way(2), &message(BINDING_REQUEST, 2, true));
        nominations.on_write(NOW, way(2), &message(BINDING_SUCCESS, 7, false));
        nominations.on_write(NOW, way(3), &message(BINDING_SUCCESS, 2, false));
        nominations.on_read(NOW, way(2), &MEDIA);
        assert_eq!(nominations.on_write(NOW, way(1), &MEDIA), way(1));
    }

    #[test]
    fn an_unanswered_nomination_is_read_again_when_the_check_comes_back() {
        let mut nominations = Nominations::default();
        let request = message(BINDING_REQUEST, 1, true);
        nominations.on_read(NOW, way(1), &request);
        let checked = message(BINDING_SUCCESS, 5, false);
        assert_eq!(nominations.on_read(NOW, way(2), &checked), None, "of another way");
        assert_eq!(nominations.on_read(NOW, way(1), &checked), Some(request));
        nominations.on_write(NOW, way(1), &message(BINDING_SUCCESS, 1, false));
        assert_eq!(nominations.on_read(NOW, way(1), &checked), None, "it was answered");
    }

    #[test]
    fn memory_is_bounded_whatever_is_nominated() {
        let mut nominations = Nominations::default();
        for port in 1..200 {
            nominations.on_read(NOW, way(port), &message(BINDING_REQUEST, port as u8, true));
            nominate(&mut nominations, port, 0);
            assert!(nominations.asked.len() <= MAX_WAYS && nominations.agreed.len() <= MAX_WAYS);
        }
        let mut long = message(BINDING_REQUEST, 1, true);
        long.resize(MAX_REQUEST + 1, 0);
        nominations.asked.clear();
        nominations.on_read(NOW, way(1), &long);
        assert!(nominations.asked.is_empty());
    }

    #[test]
    fn consent_ends_half_a_minute_after_the_last_word() {
        let mut nominations = Nominations::default();
        assert_eq!(nominations.consent_ends(), None);
        nominate(&mut nominations, 1, 1);
        nominations.on_read(NOW + Span::from_secs(5), way(1), &MEDIA);
        nominations.on_read(NOW + Span::from_secs(9), way(2), &MEDIA);
        assert_eq!(nominations.consent_ends(), Some(NOW + Span::from_secs(35)));
    }
}
