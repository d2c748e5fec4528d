//! One client of the signalling.

use nearlight_units::Time;
use std::collections::BTreeMap;

use super::polling::{Log, SESSION_TIMEOUT};
use super::{Guest, IDLE_TIMEOUT, PeerId};

#[derive(Debug)]
pub(super) enum Kind {
    WebSocket,
    Polling(Log),
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) guest: Guest,
    pub(super) kind: Kind,
    pub(super) heard_at: Time,
    pub(super) faults: u32,
    pub(super) connections: BTreeMap<String, PeerId>,
}

impl Client {
    pub(super) const fn new(now: Time, guest: Guest, kind: Kind) -> Self {
        Self { guest, kind, heard_at: now, faults: 0, connections: BTreeMap::new() }
    }

    /// When it is dropped unless it sends something. A WebSocket with a connection lives as long as its socket.
    pub(super) fn expires_at(&self) -> Option<Time> {
        match self.kind {
            Kind::Polling(_) => Some(self.heard_at + SESSION_TIMEOUT),
            Kind::WebSocket => self.connections.is_empty().then(|| self.heard_at + IDLE_TIMEOUT),
        }
    }
}
