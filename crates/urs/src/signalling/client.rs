//! One client of the signalling.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearlight_units::{Span, Time};

use super::polling::{Log, SILENCE};
use super::{IDLE, PeerId};

/// New offers that a client may make at once, and how often one more. Guess: a browser makes one, and one for each change.
const OFFERS_AT_ONCE: i64 = 8;
const OFFER_INTERVAL: Span = Span::from_secs(1);

#[derive(Debug)]
pub(super) enum Kind {
    WebSocket,
    Polling(Log),
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) from: IpAddr,
    pub(super) kind: Kind,
    pub(super) heard_at: Time,
    pub(super) faults: u32,
    pub(super) connections: BTreeMap<String, PeerId>,
    /// Up to here its offers are spent, one for each interval.
    offers_spent: Time,
}

impl Client {
    pub(super) const fn new(now: Time, from: IpAddr, kind: Kind) -> Self {
        Self { from, kind, heard_at: now, faults: 0, connections: BTreeMap::new(), offers_spent: Time::ZERO }
    }

    /// Counts a new offer, unless there were too many.
    pub(super) fn may_offer(&mut self, now: Time) -> bool {
        let spent = self.offers_spent.max(now) + OFFER_INTERVAL;
        let may = spent <= now + OFFER_INTERVAL * OFFERS_AT_ONCE;
        if may {
            self.offers_spent = spent;
        }
        may
    }

    /// When it is forgotten unless it says something. A WebSocket with a connection lives as long as its socket.
    pub(super) fn dies_at(&self) -> Option<Time> {
        match self.kind {
            Kind::Polling(_) => Some(self.heard_at + SILENCE),
            Kind::WebSocket => self.connections.is_empty().then(|| self.heard_at + IDLE),
        }
    }
}
