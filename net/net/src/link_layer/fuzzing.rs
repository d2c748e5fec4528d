//! Arbitrary operations on both ends and the network between them, for the fuzz target and the property test. The invariants: nothing
//! panics, memory is bounded, every datagram is handed out at most once and only if it was sent, and the streams of control messages arrive
//! complete and in order.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use nearlight_units::{Span, Time};

use crate::link_layer::{
    Channel, ClientHandshake, ConnectConfig, HardwareAddress, Responder, ResponderAction, ResponderConfig,
};

pub(crate) const TOKEN: &str = "a-token-of-the-owner-s";
pub(crate) const CLIENT: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 1]);
pub(crate) const SERVER: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 2]);

/// Maximum number of frames in the network, and of those remembered for replays.
const MAX_FRAMES_IN_NETWORK: usize = 64;
/// Maximum number of bytes stored at both ends together: limits of queues times the largest frame, and of the streams.
const MAX_STORED_BYTES: usize = 4 * 1_024 * 9_000 + 4 * (300 << 10);

/// One of the two ends.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Client,
    Server,
}

/// An operation.
#[derive(Arbitrary, Clone, Debug)]
pub enum Operation {
    Wait {
        milliseconds: u8,
    },
    Deliver {
        to: End,
        frames: u8,
    },
    Lose {
        to: End,
    },
    /// Swaps the two frames at the head of the queue.
    Reorder {
        to: End,
    },
    Replay {
        to: End,
        back: u8,
    },
    Corrupt {
        to: End,
        place: u8,
        bits: u8,
    },
    Garbage {
        to: End,
        payload: Vec<u8>,
    },
    Datagram {
        from: End,
        length: u16,
    },
    Control {
        from: End,
        length: u16,
    },
    Close {
        from: End,
    },
}

/// Distinct bytes from a multiplicative hash of a counter: not secret, but repeatable.
pub(crate) fn repeatable(seed: u64) -> impl FnMut(&mut [u8]) + Send + 'static {
    let mut state = seed;
    move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

/// One end's view of what was sent and received.
#[derive(Default)]
struct Side {
    channel: Option<Channel>,
    /// Frames on the way to this end.
    arriving: Vec<Vec<u8>>,
    /// Earlier frames to this end.
    past: Vec<Vec<u8>>,
    sent: u64,
    datagrams: BTreeSet<u64>,
    control_sent: u64,
    control_received: u64,
}

/// Both ends and the network between them.
pub struct Pair {
    now: Time,
    responder: Responder,
    connecting: Option<ClientHandshake>,
    client: Side,
    server: Side,
}

impl Pair {
    #[must_use]
    pub fn new(mtu: u16) -> Self {
        let now = Time::from_secs(100);
        let config = ResponderConfig { token: TOKEN.into(), address: SERVER, allowed: None, mtu };
        let opening = ConnectConfig { token: TOKEN.into(), client: CLIENT, server: SERVER, mtu };
        Self {
            now,
            responder: Responder::new(config, repeatable(1)),
            connecting: Some(ClientHandshake::new(now, opening, repeatable(2))),
            client: Side::default(),
            server: Side::default(),
        }
    }

    fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    pub fn run(&mut self, operation: &Operation) {
        match *operation {
            Operation::Wait { milliseconds } => self.now += Span::from_millis(milliseconds.into()),
            Operation::Deliver { to, frames } => {
                for _ in 0..=frames % 48 {
                    self.deliver(to);
                }
            }
            Operation::Lose { to } => {
                let arriving = &mut self.side(to).arriving;
                if !arriving.is_empty() {
                    arriving.remove(0);
                }
            }
            Operation::Reorder { to } => {
                if let [first, second, ..] = &mut self.side(to).arriving[..] {
                    std::mem::swap(first, second);
                }
            }
            Operation::Replay { to, back } => {
                let past = &self.side(to).past;
                let frame = past.len().checked_sub(1 + usize::from(back)).map(|place| past[place].clone());
                if let Some(frame) = frame {
                    self.arrive(to, &frame);
                }
            }
            Operation::Corrupt { to, place, bits } => {
                if let Some(first) = self.side(to).arriving.first_mut() {
                    let place = usize::from(place) % first.len();
                    first[place] ^= bits;
                }
            }
            Operation::Garbage { to, ref payload } => self.arrive(to, payload),
            Operation::Datagram { from, length } => {
                let now = self.now;
                let side = self.side(from);
                let Some(channel) = &mut side.channel else { return };
                let length = usize::from(length).clamp(8, channel.max_datagram());
                let mut datagram = vec![0; length];
                datagram[..8].copy_from_slice(&side.sent.to_be_bytes());
                side.sent += 1;
                let _ = channel.send_datagram(now, &datagram);
            }
            Operation::Control { from, length } => {
                let side = self.side(from);
                let Some(channel) = &mut side.channel else { return };
                let bytes: Vec<u8> = (side.control_sent..).take(length.into()).map(control_byte).collect();
                if channel.write_control(&bytes) {
                    side.control_sent += bytes.len() as u64;
                }
            }
            Operation::Close { from } => {
                let now = self.now;
                self.side(from).channel.as_mut().into_iter().for_each(|channel| channel.close(now, "closed"));
            }
        }
        self.step();
        self.check();
    }

    /// Lets every frame arrive for a while: what was lost before is retransmitted, and must arrive.
    pub fn settle(&mut self) {
        for _ in 0..400 {
            self.now += Span::from_millis(20);
            for end in [End::Client, End::Server] {
                (0..MAX_FRAMES_IN_NETWORK).for_each(|_| self.deliver(end));
            }
            self.step();
            self.check();
        }
        let open = |side: &Side| side.channel.as_ref().is_some_and(|channel| channel.ended().is_none());
        if open(&self.client) && open(&self.server) {
            assert_eq!(self.client.control_sent, self.server.control_received, "the client's stream is whole");
            assert_eq!(self.server.control_sent, self.client.control_received, "the server's stream is whole");
        }
    }

    /// Whether both ends have an open session.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let open = |side: &Side| side.channel.as_ref().is_some_and(|channel| channel.ended().is_none());
        open(&self.client) && open(&self.server)
    }

    fn deliver(&mut self, to: End) {
        let side = self.side(to);
        if side.arriving.is_empty() {
            return;
        }
        let frame = side.arriving.remove(0);
        if side.past.len() == MAX_FRAMES_IN_NETWORK {
            side.past.remove(0);
        }
        side.past.push(frame.clone());
        self.arrive(to, &frame);
    }

    fn arrive(&mut self, to: End, frame: &[u8]) {
        let now = self.now;
        if let Some(channel) = &mut self.side(to).channel
            && crate::link_layer::session_index(frame) == Some(channel.index())
        {
            return channel.on_frame(now, frame);
        }
        match to {
            End::Client => {
                let opened = self.connecting.as_mut().and_then(|connecting| connecting.on_frame(now, frame));
                if let Some(channel) = opened {
                    self.client.channel = Some(channel);
                    self.connecting = None;
                }
            }
            End::Server => match self.responder.on_frame(now, CLIENT, frame) {
                ResponderAction::Dropped => {}
                ResponderAction::Reply(reply) => self.client.arriving.push(reply),
                ResponderAction::Session { reply, channel } => {
                    self.client.arriving.push(reply);
                    // The newest is the one that the client will use, unless it is a replay; either way one is enough here.
                    self.server.channel.get_or_insert(*channel);
                }
            },
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(connecting) = &mut self.connecting {
            while let Some(frame) = connecting.poll_transmit(now) {
                self.server.arriving.push(frame);
            }
            assert!(connecting.poll_timeout() > now);
        }
        exchange(now, &mut self.client, &mut self.server);
        exchange(now, &mut self.server, &mut self.client);
        for side in [&mut self.client, &mut self.server] {
            side.arriving.truncate(2 * MAX_FRAMES_IN_NETWORK);
        }
    }

    fn check(&self) {
        let held = [&self.client, &self.server].map(|side| side.channel.as_ref().map_or(0, Channel::held));
        assert!(held.iter().sum::<usize>() <= MAX_STORED_BYTES && self.responder.held() <= 64, "{held:?}");
        let counts = self.responder.statistics();
        assert!(counts.sessions <= 8, "replayed handshakes open no sessions: {counts:?}");
    }
}

/// Moves frames from one end to the other, and collects what was received.
fn exchange(now: Time, near: &mut Side, far: &mut Side) {
    let Some(channel) = &mut near.channel else { return };
    channel.on_timeout(now);
    let mut polled = 0;
    while let Some(frame) = channel.poll_transmit(now) {
        far.arriving.push(frame);
        polled += 1;
        assert!(polled < 2_000, "poll_transmit comes to an end");
    }
    assert!(channel.poll_timeout().is_none_or(|at| at > now), "nothing stays due");
    while let Some(datagram) = channel.poll_datagram() {
        let number = u64::from_be_bytes(*datagram.first_chunk().expect("what was sent"));
        assert!(number < far.sent && near.datagrams.insert(number), "datagram {number} was not sent, or came twice");
    }
    while let Some(bytes) = channel.poll_control() {
        for byte in bytes {
            assert_eq!(byte, control_byte(near.control_received), "the stream is in order");
            near.control_received += 1;
        }
    }
}

const fn control_byte(place: u64) -> u8 {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Runs the operations on ends whose interfaces carry 1,500 bytes or jumbo frames, then lets everything arrive.
pub fn run(jumbo: bool, operations: &[Operation]) {
    let mut pair = Pair::new(if jumbo { 9_000 } else { 1_500 });
    for operation in operations {
        pair.run(operation);
    }
    pair.settle();
}
