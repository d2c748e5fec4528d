//! A room's end of one member's connection: what waits there is bounded, and what the network carries is known.

use std::convert::Infallible;

use bytes::Bytes;
use nearlight_fleet::Connection;
use nearlight_net::TcpSocket;
use nearlight_rooms::Lane;
use nearlight_units::{Bitrate, Span};
use tokio::sync::{mpsc, oneshot};

/// Messages that wait for a connection's stream, beyond those in the transport. Guess: what a room says in half a second.
const UNSENT: usize = 16;
/// Bytes of datagrams that may wait for QUIC: as much as may wait in the kernel for TCP.
const UNSENT_DATAGRAM_BYTES: usize = 16 << 10;
/// Room that voices leave to the room's own messages.
const KEPT_FROM_VOICES: usize = 4;

/// What carries a member's messages.
#[derive(Clone)]
pub(super) enum Network {
    /// All on one stream. None: the system provides no information on it.
    Tcp(Option<TcpSocket>),
    /// Datagrams beside a stream.
    Quic(nearlight_net::Connection),
}

impl Network {
    /// What it carries, and its round trip, if that is known.
    fn state(&mut self) -> Option<(Bitrate, Span)> {
        match self {
            Self::Tcp(tcp) => match tcp.as_ref()?.info() {
                Ok(info) => info.rate_limit().map(|rate| (rate, info.round_trip)),
                // It has closed, which its own task notices, or the system provides no information.
                Err(error) => {
                    tracing::debug!(%error, "nothing is known of a member's TCP");
                    *tcp = None;
                    None
                }
            },
            Self::Quic(session) => {
                // Also for the path to another network, from which the member may go on.
                if session.is_uncontrolled() {
                    session.set_congestion_control();
                }
                session.network()
            }
        }
    }
}

/// The room's way to a member.
pub(super) struct Outgoing {
    stream: mpsc::Sender<Bytes>,
    network: Network,
    /// Dropping it tells the member's task that the membership has ended.
    _membership: oneshot::Sender<Infallible>,
}

/// Its other end, at the connection.
pub(super) struct Delivered {
    pub(super) stream: mpsc::Receiver<Bytes>,
    /// Ready when the membership has ended.
    pub(super) ended: oneshot::Receiver<Infallible>,
}

impl Outgoing {
    pub(super) fn new(network: Network) -> (Self, Delivered) {
        let ((sender, stream), (membership, ended)) = (mpsc::channel(UNSENT), oneshot::channel());
        (Self { stream: sender, network, _membership: membership }, Delivered { stream, ended })
    }
}

/// A member as the room's task knows it.
pub(super) struct Peer {
    pub(super) connection: Connection,
    outgoing: Outgoing,
    /// It did not take a message that was due.
    pub(super) blocked: bool,
}

impl Peer {
    pub(super) const fn new(connection: Connection, outgoing: Outgoing) -> Self {
        Self { connection, outgoing, blocked: false }
    }

    /// Sends it a message. One for a full queue is lost, which the room makes good when the member takes messages again.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let Outgoing { stream, network, .. } = &self.outgoing;
        let taken = match network {
            Network::Quic(session)
                if Lane::of(bytes) == Lane::Datagram && bytes.len() <= session.max_datagram_size() =>
            {
                session.send_datagram(Bytes::copy_from_slice(bytes)).is_ok()
            }
            _ => stream.try_send(Bytes::copy_from_slice(bytes)).is_ok(),
        };
        self.blocked |= !taken || !self.takes(1);
    }

    /// Sends it what somebody says, unless it takes too little at the moment.
    pub(super) fn send_voice(&self, bytes: &[u8]) {
        if !self.takes(KEPT_FROM_VOICES + 1) {
            return;
        }
        let bytes = Bytes::copy_from_slice(bytes);
        match &self.outgoing.network {
            Network::Quic(session) => drop(session.send_datagram(bytes)),
            Network::Tcp(_) => drop(self.outgoing.stream.try_send(bytes)),
        }
    }

    /// Whether there is room for so many messages.
    fn takes(&self, messages: usize) -> bool {
        let datagrams_leave = match &self.outgoing.network {
            Network::Quic(session) => session.unsent_datagrams() <= UNSENT_DATAGRAM_BYTES,
            Network::Tcp(_) => true,
        };
        datagrams_leave && self.outgoing.stream.capacity() >= messages
    }

    /// It takes messages again, for the first time since it did not.
    pub(super) fn unblocks(&mut self) -> bool {
        let unblocks = self.blocked && self.takes(1);
        self.blocked &= !unblocks;
        unblocks
    }

    /// What its network carries, and its round trip, if that is known.
    pub(super) fn network(&mut self) -> Option<(Bitrate, Span)> {
        self.outgoing.network.state()
    }
}
