//! Which peer a datagram is for, where all of them share one socket.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use crate::stun::{BINDING_REQUEST, Stun, USERNAME};

/// Addresses of one peer at a time: a browser tries each of its networks. Guess: twice as many as a laptop has.
const MAX_ADDRESSES: usize = 16;

/// What carries datagrams between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carriage {
    Udp,
    /// A connection that the client opened, each datagram behind its length (RFC 4571, RFC 6544).
    Tcp,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remote {
    pub carriage: Carriage,
    pub address: SocketAddr,
}

impl Remote {
    #[must_use]
    pub const fn udp(address: SocketAddr) -> Self {
        Self { carriage: Carriage::Udp, address }
    }

    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self { carriage: Carriage::Tcp, address }
    }
}

/// A peer's number within a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// Peers by the name that their STUN requests carry, and by the addresses such requests came from.
#[derive(Debug, Default)]
pub struct Routes {
    by_name: BTreeMap<String, PeerId>,
    by_address: BTreeMap<Remote, PeerId>,
    addresses: BTreeMap<PeerId, VecDeque<Remote>>,
}

impl Routes {
    /// A peer's own ICE name (`ice-ufrag`), from its answer.
    pub fn add(&mut self, peer: PeerId, name: &str) {
        self.by_name.insert(name.to_owned(), peer);
        self.addresses.insert(peer, VecDeque::new());
    }

    pub fn remove(&mut self, peer: PeerId) {
        self.by_name.retain(|_, other| *other != peer);
        for address in self.addresses.remove(&peer).unwrap_or_default() {
            self.by_address.remove(&address);
        }
    }

    /// The peer that a datagram is for. A request that names a peer makes its address known; the peer itself checks what
    /// the request is worth before it answers or sends there.
    pub fn on_datagram(&mut self, from: Remote, datagram: &[u8]) -> Option<PeerId> {
        if let Some(name) = requested(datagram) {
            let peer = *self.by_name.get(name)?;
            self.learn(peer, from);
            return Some(peer);
        }
        self.by_address.get(&from).copied()
    }

    fn learn(&mut self, peer: PeerId, address: Remote) {
        let before = self.by_address.insert(address, peer);
        if before == Some(peer) {
            return;
        }
        if let Some(other) = before.and_then(|other| self.addresses.get_mut(&other)) {
            other.retain(|known| *known != address);
        }
        let known = self.addresses.entry(peer).or_default();
        known.push_back(address);
        if known.len() > MAX_ADDRESSES
            && let Some(oldest) = known.pop_front()
        {
            self.by_address.remove(&oldest);
        }
    }
}

/// The first half of a binding request's user name: who is asked.
fn requested(datagram: &[u8]) -> Option<&str> {
    let request = Stun::parse(datagram).filter(|stun| stun.kind == BINDING_REQUEST)?;
    std::str::from_utf8(request.attribute(USERNAME)?).ok()?.split(':').next()
}

#[cfg(test)]
mod tests;
