//! Finds the peer that a datagram is for, because all peers share one socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nearlight_units::{Span, Time};

use crate::stun::{BINDING_REQUEST, IceCredentials, Stun, USERNAME, Verifier};

/// Maximum number of addresses of one peer at a time: a browser tries each of its networks. Guess: twice as many as a laptop has.
const MAX_ADDRESSES: usize = 16;
/// How long an address belongs to its peer after the peer's client last signed a request there. A client checks its paths every 5 s
/// (RFC 7675 section 5.1): it has missed two checks then.
const ROUTE_LIFETIME: Span = Span::from_secs(15);

/// The transport of datagrams between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carriage {
    Udp,
    /// A connection opened by the client, each datagram prefixed with its length (RFC 4571, RFC 6544).
    Tcp,
}

/// The address of a client, with its transport.
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

/// Peers by the name in their STUN requests, and by the addresses from which signed requests came.
#[derive(Debug, Default)]
pub struct Routes {
    by_name: BTreeMap<String, PeerId>,
    by_address: BTreeMap<Remote, Route>,
    peers: BTreeMap<PeerId, PeerRoutes>,
}

#[derive(Debug)]
struct PeerRoutes {
    verifier: Verifier,
    addresses: Vec<Remote>,
}

/// An address from which a peer's client has signed a request.
#[derive(Clone, Copy, Debug)]
struct Route {
    peer: PeerId,
    signed_at: Time,
    /// When anything but STUN last arrived from there.
    used_at: Option<Time>,
}

impl Routes {
    /// Registers a peer with its own ICE credentials. Returns false if its requests could not be verified; then it receives nothing.
    pub fn add(&mut self, peer: PeerId, credentials: &IceCredentials) -> bool {
        let Some(verifier) = Verifier::new(credentials) else { return false };
        self.by_name.insert(credentials.name.clone(), peer);
        self.peers.insert(peer, PeerRoutes { verifier, addresses: Vec::new() });
        true
    }

    pub fn remove(&mut self, peer: PeerId) {
        self.by_name.retain(|_, other| *other != peer);
        for address in self.peers.remove(&peer).map(|known| known.addresses).unwrap_or_default() {
            self.by_address.remove(&address);
        }
    }

    /// Returns the peer that a datagram is for. A request that is signed with a peer's password registers its address; an unsigned one is
    /// dropped.
    pub fn on_datagram(&mut self, now: Time, from: Remote, datagram: &[u8]) -> Option<PeerId> {
        let stun = Stun::parse(datagram);
        if let Some(request) = stun.filter(|stun| stun.kind == BINDING_REQUEST) {
            let peer = *self.by_name.get(requested(&request)?)?;
            if !self.peers.get_mut(&peer)?.verifier.verify(datagram) {
                return None;
            }
            self.learn(now, peer, from);
            return Some(peer);
        }
        let route = self.by_address.get_mut(&from)?;
        if stun.is_none() {
            route.used_at = Some(now);
        }
        Some(route.peer)
    }

    fn learn(&mut self, now: Time, peer: PeerId, address: Remote) {
        let before = self.by_address.get_mut(&address);
        match before {
            Some(route) if route.peer == peer => {
                route.signed_at = now;
                return;
            }
            // An active peer's address cannot be taken over with requests that only claim to come from it.
            Some(route) if now.saturating_since(route.signed_at) < ROUTE_LIFETIME => return,
            Some(route) => {
                let other = route.peer;
                self.forget(other, address);
            }
            None => {}
        }
        let Some(known) = self.peers.get_mut(&peer) else { return };
        if known.addresses.len() >= MAX_ADDRESSES {
            // A genuine address was first signed, then used: a signed request that is replayed from elsewhere evicts only others of its
            // kind.
            let age = |address: &Remote| self.by_address.get(address).map(|route| (route.used_at, route.signed_at));
            if let Some(idlest) = known.addresses.iter().copied().min_by_key(age) {
                self.forget(peer, idlest);
            }
        }
        if let Some(known) = self.peers.get_mut(&peer) {
            known.addresses.push(address);
            self.by_address.insert(address, Route { peer, signed_at: now, used_at: None });
        }
    }

    fn forget(&mut self, peer: PeerId, address: Remote) {
        self.by_address.remove(&address);
        if let Some(known) = self.peers.get_mut(&peer) {
            known.addresses.retain(|other| *other != address);
        }
    }
}

/// The first half of a binding request's user name, which identifies the requested peer.
fn requested<'a>(request: &Stun<'a>) -> Option<&'a str> {
    std::str::from_utf8(request.attribute(USERNAME)?).ok()?.split(':').next()
}

#[cfg(test)]
mod tests;
