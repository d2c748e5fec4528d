//! What all WebRTC peers share: incoming datagrams are dispatched to one of them, and all send through one UDP socket or through TCP
//! connections that clients opened.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nearlight_link::Path;
use nearlight_net::{Clock, Impairment};
use nearlight_units::Time;
use nearlight_webrtc::{Carriage, Certificate, IceCredentials, PeerId, Remote, Routes};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::streams::Streams;

/// Datagrams that wait for one peer's task; more are dropped, as in a full queue of the network.
const WAITING: usize = 512;
/// WebRTC's datagrams are never larger.
const LARGEST: usize = 2_048;

/// A datagram for a peer.
pub(crate) struct Incoming {
    pub(crate) at: Time,
    pub(crate) from: Remote,
    pub(crate) datagram: Bytes,
}

impl Incoming {
    /// The server address that it was sent to is not known; the peer assumes the likeliest.
    pub(crate) fn to(&self) -> SocketAddr {
        SocketAddr::new(self.from.address.ip(), 0)
    }
}

#[derive(Default)]
struct Table {
    routes: Routes,
    peers: BTreeMap<PeerId, Entrance>,
    next: u32,
}

/// Where one peer's datagrams enter.
enum Entrance {
    Open(mpsc::Sender<Incoming>),
    /// Through an impaired path.
    Path(Impairment),
}

impl Entrance {
    fn offer(&self, at: Time, from: Remote, datagram: &[u8]) {
        match self {
            Self::Open(waiting) => {
                let _ = waiting.try_send(Incoming { at, from, datagram: Bytes::copy_from_slice(datagram) });
            }
            Self::Path(path) => path.offer(label(from, datagram)),
        }
    }
}

/// The sockets towards clients, the peers behind them, and what new peers are configured with.
pub(crate) struct Exchange {
    socket: UdpSocket,
    pub(super) streams: Streams,
    clock: Clock,
    table: Mutex<Table>,
    pub(crate) certificate: Certificate,
    /// Addresses at which clients may reach the socket, best first.
    pub(crate) candidates: Vec<SocketAddr>,
    /// The same for TCP connections.
    pub(crate) tcp_candidates: Vec<SocketAddr>,
    /// The socket speaks IPv6, so it names IPv4 addresses in IPv6.
    mapped: bool,
}

impl Exchange {
    /// Needs a tokio runtime. `announced` are addresses in front of this machine whose ports lead here, `reachable` its own where the
    /// socket is bound to all of them; `tcp_port` is where clients open TCP connections.
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
            // For clients on this machine, which may have no other network.
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
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dispatches datagrams to their peers; never returns.
    pub(crate) async fn run(&self) {
        let mut buffer = vec![0; LARGEST];
        loop {
            let (length, from) = match self.socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    // An earlier datagram found an address unreachable; the system reports that to the next read.
                    tracing::debug!(%error, "a WebRTC datagram could not be read");
                    continue;
                }
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            self.take_in(Remote::udp(from), &buffer[..length]);
        }
    }

    /// A datagram arrived; false if it is for no peer.
    pub(super) fn take_in(&self, from: Remote, datagram: &[u8]) -> bool {
        let at = self.clock.now();
        let mut table = self.table();
        let peer = table.routes.on_datagram(at, from, datagram);
        let Some(entrance) = peer.and_then(|peer| table.peers.get(&peer)) else { return false };
        entrance.offer(at, from, datagram);
        true
    }

    /// A line for a peer with these local credentials. With an impaired path, datagrams in both directions cross it.
    pub(crate) fn connect(self: &Arc<Self>, own: &IceCredentials, path: Option<[Path; 2]>) -> Line {
        let (sender, incoming) = mpsc::channel(WAITING);
        let (there, entrance) = match path {
            None => (None, Entrance::Open(sender)),
            Some([out, home]) => {
                let (now, clock, exchange) = (self.clock.now(), self.clock, Arc::clone(self));
                let there = Impairment::start(out, clock, now, move |datagram| {
                    if let Some((to, datagram)) = datagram.and_then(unlabel) {
                        exchange.transmit(to, &datagram);
                    }
                });
                let back = Impairment::start(home, clock, now, move |datagram| {
                    if let Some((from, datagram)) = datagram.and_then(unlabel) {
                        let _ = sender.try_send(Incoming { at: clock.now(), from, datagram });
                    }
                });
                (Some(there), Entrance::Path(back))
            }
        };
        let mut table = self.table();
        let peer = PeerId(table.next);
        table.next = table.next.wrapping_add(1);
        if !table.routes.add(peer, own) {
            tracing::error!("the WebRTC library was built without HMAC-SHA1; no WebRTC client can connect");
        }
        table.peers.insert(peer, entrance);
        drop(table);
        Line { exchange: Arc::clone(self), peer, incoming, there }
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
        // A full queue loses datagrams like the path: the client requests what it misses again.
        if let Err(error) = self.socket.try_send_to(datagram, to) {
            tracing::debug!(%to, %error, "a WebRTC datagram was not sent");
        }
    }
}

/// Both directions of one peer's datagrams. Dropping it forgets the peer.
pub(crate) struct Line {
    exchange: Arc<Exchange>,
    peer: PeerId,
    incoming: mpsc::Receiver<Incoming>,
    there: Option<Impairment>,
}

impl Line {
    /// The next datagram; none when the exchange is gone.
    pub(crate) async fn recv(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    pub(crate) fn send(&self, to: Remote, datagram: &[u8]) {
        match &self.there {
            Some(path) => path.offer(label(to, datagram)),
            None => self.exchange.transmit(to, datagram),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut table = self.exchange.table();
        table.routes.remove(self.peer);
        table.peers.remove(&self.peer);
    }
}

/// Bytes of a label.
const LABEL: usize = 19;

/// An impaired path carries bytes only: their remote address is appended to them.
fn label(remote: Remote, datagram: &[u8]) -> Bytes {
    let ip = match remote.address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let tcp = [u8::from(remote.carriage == Carriage::Tcp)];
    [datagram, &ip.octets(), &remote.address.port().to_be_bytes(), &tcp].concat().into()
}

fn unlabel(mut labelled: Bytes) -> Option<(Remote, Bytes)> {
    let (_, label) = labelled.split_last_chunk::<LABEL>()?;
    let (ip, rest) = label.split_at(16);
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?);
    let address = SocketAddr::new(IpAddr::V6(ip).to_canonical(), u16::from_be_bytes([rest[0], rest[1]]));
    let carriage = if rest[2] == 1 { Carriage::Tcp } else { Carriage::Udp };
    labelled.truncate(labelled.len() - LABEL);
    Some((Remote { carriage, address }, labelled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_path_knows_whose_bytes_it_carries() {
        for address in ["192.0.2.1:80", "[2001:db8::1]:65535"] {
            let address = address.parse().expect("an address");
            for remote in [Remote::udp(address), Remote::tcp(address)] {
                assert_eq!(unlabel(label(remote, b"bytes")), Some((remote, Bytes::from_static(b"bytes"))));
            }
        }
        assert_eq!(unlabel(Bytes::from_static(b"short")), None);
    }
}
