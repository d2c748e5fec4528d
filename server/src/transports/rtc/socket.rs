//! The sockets that all WebRTC peers share. Incoming datagrams are dispatched to their peers; outgoing ones leave through one UDP socket or
//! through TCP connections that clients opened.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use nearlight_net::{Clock, EmulatedPath, PathEntrance};
use nearlight_units::{Time, lock};
use nearlight_webrtc::{Carriage, Certificate, IceCredentials, PeerId, Remote, Routes};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::streams::Streams;

/// Datagrams that may wait for one peer's task. Further ones are dropped, as in a full network queue.
const MAX_QUEUED_DATAGRAMS: usize = 512;
/// Largest datagram of WebRTC.
const MAX_DATAGRAM_BYTES: usize = 2_048;

/// A datagram for a peer.
pub(crate) struct Incoming {
    pub(crate) at: Time,
    pub(crate) from: Remote,
    pub(crate) datagram: Bytes,
}

impl Incoming {
    /// Returns the server address that the datagram was sent to. It is not known, so the peer assumes the likeliest.
    pub(crate) fn to(&self) -> SocketAddr {
        SocketAddr::new(self.from.address.ip(), 0)
    }
}

#[derive(Default)]
struct Table {
    routes: Routes,
    peers: BTreeMap<PeerId, PeerQueue>,
    next: u32,
}

/// The queue of one peer's incoming datagrams.
enum PeerQueue {
    Direct(mpsc::Sender<Incoming>),
    /// Datagrams cross an emulated path first.
    Emulated(Box<dyn PathEntrance>),
}

impl PeerQueue {
    fn offer(&self, at: Time, from: Remote, datagram: &[u8]) {
        match self {
            Self::Direct(waiting) => {
                let _ = waiting.try_send(Incoming { at, from, datagram: Bytes::copy_from_slice(datagram) });
            }
            Self::Emulated(path) => path.offer(label(from, datagram)),
        }
    }
}

/// The sockets towards clients, the routes to their peers, and the configuration of new peers.
pub(crate) struct RtcEndpoint {
    socket: UdpSocket,
    pub(super) streams: Streams,
    clock: Clock,
    table: Mutex<Table>,
    pub(crate) certificate: Certificate,
    /// Addresses at which clients may reach the socket, best first.
    pub(crate) candidates: Vec<SocketAddr>,
    /// Addresses at which clients may open TCP connections, best first.
    pub(crate) tcp_candidates: Vec<SocketAddr>,
    /// Whether the socket is an IPv6 socket, which takes IPv4 addresses in their IPv6-mapped form.
    mapped: bool,
}

impl RtcEndpoint {
    /// Creates the endpoint; this needs a tokio runtime. `announced` are addresses in front of this machine whose ports lead here.
    /// `reachable` are the machine's own addresses, for a socket that is bound to all of them. Clients open TCP connections to `tcp_port`.
    pub(crate) fn new(
        socket: std::net::UdpSocket,
        announced: &[IpAddr],
        reachable: &[IpAddr],
        tcp_port: u16,
        certificate: Certificate,
        clock: Clock,
    ) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let mut addresses = announced.to_vec();
        match local.ip() {
            bound if bound.is_unspecified() => addresses.extend(reachable),
            bound => addresses.push(bound),
        }
        if local.ip().is_unspecified() {
            // These serve clients on this machine, which may have no other network.
            addresses.push(Ipv4Addr::LOCALHOST.into());
            addresses.extend(local.is_ipv6().then_some(IpAddr::from(Ipv6Addr::LOCALHOST)));
        }
        let candidates = |port| addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            streams: Streams::default(),
            clock,
            table: Mutex::default(),
            certificate,
            candidates: candidates(local.port()),
            tcp_candidates: candidates(tcp_port),
            mapped: local.is_ipv6(),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.candidates.first().map_or(0, SocketAddr::port)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Dispatches datagrams to their peers; never returns.
    pub(crate) async fn run(&self) {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            let (length, from) = match self.socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    // The system reports to the next read that an earlier datagram found an address unreachable.
                    tracing::debug!(%error, "a WebRTC datagram could not be read");
                    continue;
                }
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            self.dispatch(Remote::udp(from), &buffer[..length]);
        }
    }

    /// Passes a datagram to its peer. Returns false if there is none.
    pub(super) fn dispatch(&self, from: Remote, datagram: &[u8]) -> bool {
        let at = self.clock.now();
        let mut table = self.table();
        let peer = table.routes.on_datagram(at, from, datagram);
        let Some(queue) = peer.and_then(|peer| table.peers.get(&peer)) else { return false };
        queue.offer(at, from, datagram);
        true
    }

    /// Opens a socket for a peer with these local credentials. Datagrams in both directions cross the emulated path, if there is one.
    pub(crate) fn connect(
        self: &Arc<Self>,
        own: &IceCredentials,
        path: Option<[Box<dyn EmulatedPath>; 2]>,
    ) -> PeerSocket {
        let (sender, incoming) = mpsc::channel(MAX_QUEUED_DATAGRAMS);
        let (there, queue) = match path {
            None => (None, PeerQueue::Direct(sender)),
            Some([out, home]) => {
                let (now, clock, endpoint) = (self.clock.now(), self.clock, Arc::clone(self));
                let to_client = move |datagram: Option<Bytes>| {
                    if let Some((to, datagram)) = datagram.and_then(unlabel) {
                        endpoint.transmit(to, &datagram);
                    }
                };
                let from_client = move |datagram: Option<Bytes>| {
                    if let Some((from, datagram)) = datagram.and_then(unlabel) {
                        let _ = sender.try_send(Incoming { at: clock.now(), from, datagram });
                    }
                };
                let there = out.open(clock, now, Box::new(to_client));
                (Some(there), PeerQueue::Emulated(home.open(clock, now, Box::new(from_client))))
            }
        };
        let mut table = self.table();
        let peer = PeerId(table.next);
        table.next = table.next.wrapping_add(1);
        if !table.routes.add(peer, own) {
            tracing::error!("the WebRTC library was built without HMAC-SHA1; no WebRTC client can connect");
        }
        table.peers.insert(peer, queue);
        drop(table);
        PeerSocket { endpoint: Arc::clone(self), peer, incoming, there }
    }

    fn transmit(&self, to: Remote, datagram: &[u8]) {
        if to.carriage == Carriage::Tcp {
            self.streams.send(to.address, datagram);
            return;
        }
        let to = match to.address.ip() {
            IpAddr::V4(address) if self.mapped => SocketAddr::new(address.to_ipv6_mapped().into(), to.address.port()),
            _ => to.address,
        };
        // A full queue loses datagrams like the path does; the client requests them again.
        if let Err(error) = self.socket.try_send_to(datagram, to) {
            tracing::debug!(%to, %error, "a WebRTC datagram was not sent");
        }
    }
}

/// Sends and receives one peer's datagrams. Dropping it removes the peer.
pub(crate) struct PeerSocket {
    endpoint: Arc<RtcEndpoint>,
    peer: PeerId,
    incoming: mpsc::Receiver<Incoming>,
    there: Option<Box<dyn PathEntrance>>,
}

impl PeerSocket {
    /// Waits for the next datagram. Returns none when the endpoint is gone.
    pub(crate) async fn recv(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    pub(crate) fn send(&self, to: Remote, datagram: &[u8]) {
        match &self.there {
            Some(path) => path.offer(label(to, datagram)),
            None => self.endpoint.transmit(to, datagram),
        }
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        let mut table = self.endpoint.table();
        table.routes.remove(self.peer);
        table.peers.remove(&self.peer);
    }
}

/// Bytes of the label that [`label`] appends: IPv6 address, port and transport.
const LABEL_BYTES: usize = 19;

/// Appends the remote address to a datagram, because an emulated path carries bytes only.
fn label(remote: Remote, datagram: &[u8]) -> Bytes {
    let ip = match remote.address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let tcp = [u8::from(remote.carriage == Carriage::Tcp)];
    [datagram, &ip.octets(), &remote.address.port().to_be_bytes(), &tcp].concat().into()
}

fn unlabel(mut labelled: Bytes) -> Option<(Remote, Bytes)> {
    let (_, label) = labelled.split_last_chunk::<LABEL_BYTES>()?;
    let (ip, rest) = label.split_at(16);
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?);
    let address = SocketAddr::new(IpAddr::V6(ip).to_canonical(), u16::from_be_bytes([rest[0], rest[1]]));
    let carriage = if rest[2] == 1 { Carriage::Tcp } else { Carriage::Udp };
    labelled.truncate(labelled.len() - LABEL_BYTES);
    Some((Remote { carriage, address }, labelled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_path_knows_whose_bytes_it_carries() {
        for address in ["192.0.2.1:80", "[2001:db8::1]:65535"] {
            let address = address.parse().expect("an address");
            for remote in [Remote::udp(address), Remote::tcp(address)] {
                assert_eq!(unlabel(label(remote, b"bytes")), Some((remote, Bytes::from_static(b"bytes"))));
            }
        }
        assert_eq!(unlabel(Bytes::from_static(b"short")), None);
    }
}
