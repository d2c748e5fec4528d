//! A link without interfaces: datagrams to a local port cross it and are forwarded to one service.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use nearlight_link::{Ecn, Packet};
use nearlight_units::Bytes;
use rustix::event::{PollFd, PollFlags};

use crate::gateway::{Gateway, Target};
use crate::port::{Port, ReceivedPacket, SendRefused};

/// Longer datagrams are dropped; QUIC's and WebRTC's are not.
const MAX_DATAGRAM: usize = 2_048;

/// The headers of IPv4 and UDP, which a datagram has on every link.
const HEADERS: u64 = 28;

/// Maximum number of datagram senders that the relay distinguishes. Guess: a client takes a new port with every connection.
const MAX_PEERS: usize = 1_024;

/// Attempts to find a port number that is free for both TCP and UDP.
const PORT_ATTEMPTS: usize = 16;

/// Both ends, and where clients find the near one.
pub(crate) struct Relay {
    pub(crate) near: NearEnd,
    pub(crate) far: FarEnd,
    pub(crate) address: SocketAddr,
    /// Streams to the same port bypass the link and go straight to the service, so that a page can be loaded.
    pub(crate) gateway: Gateway,
}

impl Relay {
    pub(crate) fn open(service: SocketAddr) -> io::Result<Self> {
        let (listener, socket) = same_port()?;
        let address = socket.local_addr()?;
        listener.set_nonblocking(true)?;
        socket.set_nonblocking(true)?;
        let gateway = Gateway::start(listener, None, Target::Service(service))?;
        let near = NearEnd { socket, peers: Vec::new() };
        Ok(Self { near, far: FarEnd { service, sockets: Vec::new(), next: 0 }, address, gateway })
    }
}

fn same_port() -> io::Result<(TcpListener, UdpSocket)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORT_ATTEMPTS {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The part of the buffer that a datagram used; None if it did not fit or none arrived.
fn arrived(length: usize, peer: usize) -> Option<ReceivedPacket> {
    let size = Bytes::new(length as u64 + HEADERS);
    (length < MAX_DATAGRAM).then_some(ReceivedPacket { length, peer: peer as u32, size, ecn: Ecn::NotCapable })
}

/// The end that receives the command's datagrams.
pub(crate) struct NearEnd {
    socket: UdpSocket,
    peers: Vec<SocketAddr>,
}

impl Port for NearEnd {
    fn buffer_size(&self) -> usize {
        MAX_DATAGRAM
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<ReceivedPacket> {
        loop {
            let (length, from) = match self.socket.recv_from(buffer) {
                Ok(received) => received,
                // An ICMP error, reported here: an answer was sent to a client that no longer exists.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return None,
            };
            let known = self.peers.iter().position(|peer| *peer == from);
            let peer = match known {
                Some(peer) => peer,
                None if self.peers.len() == MAX_PEERS => continue,
                None => {
                    self.peers.push(from);
                    self.peers.len() - 1
                }
            };
            if let Some(arrived) = arrived(length, peer) {
                return Some(arrived);
            }
        }
    }

    fn send(&mut self, _packet: &Packet, peer: u32, contents: &mut [u8]) -> Result<(), SendRefused> {
        let to = self.peers.get(peer as usize).ok_or(SendRefused)?;
        self.socket.send_to(contents, to).map(drop).map_err(|_| SendRefused)
    }

    fn wait_for<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>) {
        descriptors.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
    }
}

/// The end that receives the service's answers: one socket per sender, so that the service can tell them apart.
pub(crate) struct FarEnd {
    service: SocketAddr,
    sockets: Vec<Option<UdpSocket>>,
    /// The socket to be read next.
    next: usize,
}

impl FarEnd {
    fn socket(&mut self, peer: usize) -> io::Result<&UdpSocket> {
        while self.sockets.len() <= peer {
            self.sockets.push(None);
        }
        let place = &mut self.sockets[peer];
        if let Some(socket) = place {
            return Ok(socket);
        }
        let unspecified = if self.service.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(unspecified)?;
        socket.connect(self.service)?;
        socket.set_nonblocking(true)?;
        Ok(place.insert(socket))
    }
}

impl Port for FarEnd {
    fn buffer_size(&self) -> usize {
        MAX_DATAGRAM
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<ReceivedPacket> {
        for _ in 0..self.sockets.len() {
            let peer = self.next % self.sockets.len();
            let length = self.sockets[peer].as_ref().and_then(|socket| socket.recv(buffer).ok());
            match length.and_then(|length| arrived(length, peer)) {
                Some(arrived) => return Some(arrived),
                None => self.next = (peer + 1) % self.sockets.len(),
            }
        }
        None
    }

    fn send(&mut self, _packet: &Packet, peer: u32, contents: &mut [u8]) -> Result<(), SendRefused> {
        let socket = self.socket(peer as usize).map_err(|_| SendRefused)?;
        socket.send(contents).map(drop).map_err(|_| SendRefused)
    }

    fn wait_for<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>) {
        let open = self.sockets.iter().flatten();
        descriptors.extend(open.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)));
    }
}
