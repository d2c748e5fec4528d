//! A room's end of one member's connection: a bounded queue, and the state of the network.

use std::convert::Infallible;

use bytes::Bytes;
use nearlight_fleet::Connection;
use nearlight_net::TcpSocket;
use nearlight_rooms::Lane;
use nearlight_units::{Bitrate, Span};
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait for a connection's stream, beyond those in the transport. Guess: what a room sends in half a second.
const MAX_UNSENT_MESSAGES: usize = 16;
/// Bytes of datagrams that may wait in QUIC: as much as may wait in the kernel for TCP.
const MAX_UNSENT_DATAGRAM_BYTES: usize = 16 << 10;
/// Places in the queue that voices leave free for the room's own messages.
const RESERVED_FOR_ROOM: usize = 4;

/// The network connection that carries a member's messages.
#[derive(Clone)]
pub(super) enum Network {
    /// TCP, with all messages on one stream. None if the system provides no information on the connection.
    Tcp(Option<TcpSocket>),
    /// QUIC, with datagrams beside a stream.
    Quic(nearlight_net::Connection),
}

impl Network {
    /// Returns the rate that the network carries and its round trip, if they are known.
    fn state(&mut self) -> Option<(Bitrate, Span)> {
        match self {
            Self::Tcp(tcp) => match tcp.as_ref()?.info() {
                Ok(info) => info.rate_limit().map(|rate| (rate, info.round_trip)),
                // Either the connection has closed, which its own task notices, or the system provides no information.
                Err(error) => {
                    tracing::debug!(%error, "no TCP information for a member's connection");
                    *tcp = None;
                    None
                }
            },
            Self::Quic(session) => {
                // This also covers a path over another network, to which the member may have migrated.
                if session.is_uncontrolled() {
                    session.set_congestion_control();
                }
                session.network()
            }
        }
    }
}

/// The room's end of the channel to a member.
pub(super) struct OutgoingSender {
    stream: mpsc::Sender<Bytes>,
    network: Network,
    /// Dropping this informs the member's task that the membership has ended.
    _membership: oneshot::Sender<Infallible>,
}

/// The member's end of that channel.
pub(super) struct OutgoingReceiver {
    pub(super) stream: mpsc::Receiver<Bytes>,
    /// Completes when the membership has ended.
    pub(super) ended: oneshot::Receiver<Infallible>,
}

impl OutgoingSender {
    pub(super) fn new(network: Network) -> (Self, OutgoingReceiver) {
        let ((sender, stream), (membership, ended)) = (mpsc::channel(MAX_UNSENT_MESSAGES), oneshot::channel());
        (Self { stream: sender, network, _membership: membership }, OutgoingReceiver { stream, ended })
    }
}

/// A member as the room's task knows it.
pub(super) struct Peer {
    pub(super) connection: Connection,
    outgoing: OutgoingSender,
    /// Whether the member's queue was full when a message was due.
    pub(super) blocked: bool,
}

impl Peer {
    pub(super) const fn new(connection: Connection, outgoing: OutgoingSender) -> Self {
        Self { connection, outgoing, blocked: false }
    }

    /// Sends a message. If the queue is full the message is lost, and the room sends its content again when the queue has space.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let OutgoingSender { stream, network, .. } = &self.outgoing;
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

    /// Sends a voice packet, unless the queue is nearly full.
    pub(super) fn send_voice(&self, bytes: &[u8]) {
        if !self.takes(RESERVED_FOR_ROOM + 1) {
            return;
        }
        let bytes = Bytes::copy_from_slice(bytes);
        match &self.outgoing.network {
            Network::Quic(session) => drop(session.send_datagram(bytes)),
            Network::Tcp(_) => drop(self.outgoing.stream.try_send(bytes)),
        }
    }

    /// Returns whether the queue has space for this many messages.
    fn takes(&self, messages: usize) -> bool {
        let datagrams_leave = match &self.outgoing.network {
            Network::Quic(session) => session.unsent_datagrams() <= MAX_UNSENT_DATAGRAM_BYTES,
            Network::Tcp(_) => true,
        };
        datagrams_leave && self.outgoing.stream.capacity() >= messages
    }

    /// Returns true once when a blocked member accepts messages again.
    pub(super) fn unblocks(&mut self) -> bool {
        let unblocks = self.blocked && self.takes(1);
        self.blocked &= !unblocks;
        unblocks
    }

    /// Returns the rate that the member's network carries and its round trip, if they are known.
    pub(super) fn network(&mut self) -> Option<(Bitrate, Span)> {
        self.outgoing.network.state()
    }
}
