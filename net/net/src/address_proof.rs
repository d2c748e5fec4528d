//! Limits what is sent to addresses whose owners have not proved that they receive it.
//!
//! Anybody who holds a session can send one of its packets with a forged source address, as if the client had moved there. QUIC then
//! validates the new path (RFC 9000 section 9.3), and must not send more than three times as much there as came from there (section 8.1).
//! The library rounds that up to a whole datagram each time: a packet of 100 bytes draws 1,200. So its socket counts the bytes of each
//! address itself, and drops what exceeds the limit before it is sent.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nearlight_units::lock;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// Bytes that may be sent for each byte that came from an address without a proof (RFC 9000 section 8.1).
const AMPLIFICATION_LIMIT: u64 = 3;
/// Shortest datagram with which a client begins a connection (RFC 9000 section 14.1).
const MIN_INITIAL_BYTES: usize = 1_200;
/// First bit of a packet with a long header, which belongs to a handshake (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;
/// Addresses that are remembered, twice: those of the present, and those of before. Guess: many times the sessions of a server. An address
/// is forgotten after this many others were heard and it was silent meanwhile; one with a session is proved again before long.
const MAX_ADDRESSES: usize = 4_096;
/// Interval at which sessions are checked for a change of address. A client that moves gets pictures again at most this long after QUIC has
/// validated its new path.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Packets without a challenge that show that QUIC has validated a path: until then each has one.
const PACKETS_OF_VALIDATED_PATH: u64 = 2;

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Proven,
    Unproven {
        received: u64,
        sent: u64,
        /// Whether a datagram was long enough to begin a handshake, in which QUIC's own limit suffices.
        handshake: bool,
    },
}

/// The addresses of peers, each without its port: whoever receives at one port of an address is not harmed by packets to another.
#[derive(Debug, Default)]
struct Addresses {
    present: HashMap<IpAddr, Proof>,
    before: HashMap<IpAddr, Proof>,
}

impl Addresses {
    fn get(&mut self, address: IpAddr) -> Option<&mut Proof> {
        if let Some(known) = self.before.remove(&address) {
            self.insert(address, known);
        }
        self.present.get_mut(&address)
    }

    fn insert(&mut self, address: IpAddr, proof: Proof) {
        if self.present.len() >= MAX_ADDRESSES {
            self.before = std::mem::take(&mut self.present);
        }
        self.present.insert(address, proof);
    }

    fn on_received(&mut self, address: IpAddr, datagram: usize, begins: bool) {
        match self.get(address) {
            Some(Proof::Proven) => {}
            Some(Proof::Unproven { received, handshake, .. }) => {
                *received += datagram as u64;
                *handshake |= begins;
            }
            None => self.insert(address, Proof::Unproven { received: datagram as u64, sent: 0, handshake: begins }),
        }
    }

    fn may_send(&mut self, address: IpAddr, bytes: usize) -> bool {
        match self.get(address) {
            Some(Proof::Unproven { received, sent, handshake }) => {
                let allowed = *received * AMPLIFICATION_LIMIT;
                if *handshake { *sent < allowed } else { *sent + bytes as u64 <= allowed }
            }
            Some(Proof::Proven) | None => true,
        }
    }

    fn on_sent(&mut self, address: IpAddr, bytes: usize) {
        if let Some(Proof::Unproven { sent, .. }) = self.get(address) {
            *sent += bytes as u64;
        }
    }
}

/// The addresses that one socket has heard.
#[derive(Debug, Default)]
pub(crate) struct AddressProofs(Mutex<Addresses>);

impl AddressProofs {
    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        lock(&self.0)
    }

    /// Records that somebody at the address has proved to receive what is sent there.
    pub(crate) fn prove(&self, peer: SocketAddr) {
        let mut addresses = self.addresses();
        match addresses.get(canonical(peer)) {
            Some(proof) => *proof = Proof::Proven,
            None => addresses.insert(canonical(peer), Proof::Proven),
        }
    }

    /// Follows a connection whose handshake is complete, and proves each address to which QUIC has validated the path. Ends with the
    /// connection.
    pub(crate) async fn follow(self: Arc<Self>, connection: quinn::Connection) {
        let mut proven = canonical(connection.remote_address());
        let mut candidate: Option<(IpAddr, u64)> = None;
        while connection.close_reason().is_none() {
            let peer = connection.remote_address();
            let unchallenged = unchallenged_packets(&connection.stats());
            match candidate {
                _ if canonical(peer) == proven => {
                    candidate = None;
                    self.prove(peer);
                }
                Some((address, before)) if address == canonical(peer) => {
                    if unchallenged >= before + PACKETS_OF_VALIDATED_PATH {
                        (proven, candidate) = (address, None);
                        self.prove(peer);
                    }
                }
                _ => candidate = Some((canonical(peer), unchallenged)),
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Returns how many packets were sent that show that the path is validated. Until then, each packet has a challenge, except for those that
/// look for the largest datagram, and answers to challenges, which may go to another address.
fn unchallenged_packets(statistics: &quinn::ConnectionStats) -> u64 {
    let frames = &statistics.frame_tx;
    let others = frames.path_challenge + frames.path_response + statistics.path.sent_plpmtud_probes;
    statistics.udp_tx.datagrams.saturating_sub(others)
}

fn canonical(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

/// A server's UDP socket, which sends to an address without a proof no more than three times what came from there.
pub(crate) struct LimitedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    proofs: Arc<AddressProofs>,
}

impl LimitedSocket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, proofs: Arc<AddressProofs>) -> Self {
        Self { inner, proofs }
    }
}

impl fmt::Debug for LimitedSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LimitedSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl AsyncUdpSocket for LimitedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let (address, bytes) = (canonical(transmit.destination), transmit.contents.len());
        if !self.proofs.addresses().may_send(address, bytes) {
            // As if the network had lost it: QUIC sends again what matters.
            tracing::trace!(%address, bytes, "nothing is sent to an address that has not proved to receive it");
            return Ok(());
        }
        self.inner.try_send(transmit)?;
        self.proofs.addresses().on_sent(address, bytes);
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        received: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(context, buffers, received))?;
        let mut addresses = self.proofs.addresses();
        for (datagrams, meta) in buffers.iter().zip(received.iter()).take(count) {
            let is_long = datagrams.first().is_some_and(|first| first & LONG_HEADER != 0);
            let begins = is_long && meta.stride.min(meta.len) >= MIN_INITIAL_BYTES;
            addresses.on_received(canonical(meta.addr), meta.len, begins);
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    #[test]
    fn an_address_without_a_proof_is_sent_three_times_what_came_from_it() {
        let mut addresses = Addresses::default();
        addresses.on_received(address(1), 100, false);
        assert!(addresses.may_send(address(1), 300) && !addresses.may_send(address(1), 301));
        addresses.on_sent(address(1), 300);
        assert!(!addresses.may_send(address(1), 1));
        addresses.on_received(address(1), 400, false);
        assert!(addresses.may_send(address(1), 1_200) && !addresses.may_send(address(1), 1_201));
        assert!(addresses.may_send(address(2), 1_200), "the server answers only, so this address was forgotten");

        addresses.on_received(address(3), MIN_INITIAL_BYTES, true);
        addresses.on_sent(address(3), 3_599);
        assert!(addresses.may_send(address(3), 1_200), "a handshake is limited by QUIC itself");
        addresses.on_sent(address(3), 1_200);
        assert!(!addresses.may_send(address(3), 1));
    }

    #[test]
    fn forged_addresses_displace_no_session_that_is_heard() {
        let proofs = AddressProofs::default();
        proofs.prove(SocketAddr::new(address(0), 1));
        for forged in 1..=20_000 {
            let mut addresses = proofs.addresses();
            addresses.on_received(address(forged), 40, false);
            if forged % 1_000 == 0 {
                addresses.on_received(address(0), 40, false);
            }
            assert!(addresses.present.len() <= MAX_ADDRESSES && addresses.before.len() <= MAX_ADDRESSES);
        }
        assert!(proofs.addresses().may_send(address(0), 1_000_000));
    }
}
