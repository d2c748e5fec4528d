//! An established session between two interfaces: sealing and opening of frames, retransmissions, drops, and its end.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};
use snow::StatelessTransportState;

use crate::link_layer::control::{StreamReceiver, StreamSender};
use crate::link_layer::layout::{
    ACKNOWLEDGEMENT, CLOSE, DATAGRAM, ETHERNET_MTU, Inner, KEEP_ALIVE, MAX_REASON_BYTES, PROBE, PROBE_ANSWER, Payload,
    SEGMENT, SEGMENT_HEADER, TAG_BYTES, TRANSPORT, TRANSPORT_HEADER,
};
use crate::link_layer::noise::{HandshakeResult, Parameters};
use crate::link_layer::replay::ReplayWindow;
use crate::link_layer::secrets::Key;

/// Bytes of a frame's payload besides a datagram: header, kind and tag.
pub const DATAGRAM_OVERHEAD: usize = TRANSPORT_HEADER + 1 + TAG_BYTES;

/// A peer from which nothing authentic has arrived for this long is gone. A shorter interruption of an interface does not end the session.
pub const SILENCE_LIMIT: Span = Span::from_secs(5);
/// An end that has sent nothing for this long sends a keep-alive. Four of five may be lost.
const KEEP_ALIVE_INTERVAL: Span = Span::from_secs(1);
/// Maximum number of sealed frames that wait for the interface: a second of 12 Mb/s, or 43 packets of 23 frames.
const MAX_OUTGOING_FRAMES: usize = 1_024;
/// Maximum number of datagrams that have arrived and have not been read.
const MAX_INCOMING_DATAGRAMS: usize = 1_024;
/// Number of probes of a larger frame size, and the interval between them.
const MTU_PROBES: u32 = 4;
const MTU_PROBE_INTERVAL: Span = Span::from_millis(200);
/// The session ends before the counter repeats. In practice it is never reached: a million frames a second for 36,000 years.
const LAST_COUNTER: u64 = 1 << 60;

/// The error for a datagram that was dropped because the interface accepts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_OUTGOING_FRAMES} frames wait for the interface already")]
pub struct QueueFull;

/// The reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    Here,
    /// The peer closed it, with this reason.
    Peer(String),
    /// Nothing arrived for [`SILENCE_LIMIT`].
    Silence,
}

/// Counts since the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStatistics {
    pub frames_sent: u64,
    /// Frames that were authentic and new.
    pub frames_received: u64,
    /// Frames of this session that were seen before, or are older than the window.
    pub replayed: u64,
    /// Frames that carry this session's number but were not made with its keys, or whose contents are unknown to the protocol.
    pub forged: u64,
    /// Datagrams that were not read in time.
    pub unread: u64,
    /// Segments of control messages that were retransmitted.
    pub retransmissions: u64,
    /// Smoothed round trip of control messages, if one was measured.
    pub round_trip: Option<Span>,
}

/// One end of a session.
pub struct Channel {
    cipher: StatelessTransportState,
    hash: Key,
    own: Parameters,
    peer: Parameters,
    counter: u64,
    window: ReplayWindow,
    /// The longest frame payload that is known to get through.
    mtu: usize,
    probes: u32,
    probe_at: Option<Time>,
    probed: Option<u16>,
    stream_out: StreamSender,
    stream_in: StreamReceiver,
    outgoing: VecDeque<Vec<u8>>,
    incoming: VecDeque<Vec<u8>>,
    heard_at: Time,
    sent_at: Time,
    ended: Option<EndReason>,
    statistics: ChannelStatistics,
    /// The plaintext of one frame.
    scratch: Vec<u8>,
}

impl Channel {
    pub(crate) fn new(now: Time, agreed: HandshakeResult, own: Parameters) -> Self {
        let HandshakeResult { cipher, hash, peer } = agreed;
        let usual = own.mtu.min(peer.mtu).min(ETHERNET_MTU as u16);
        let larger = own.mtu.min(peer.mtu) > usual;
        Self {
            cipher,
            hash,
            own,
            peer,
            counter: 0,
            window: ReplayWindow::default(),
            mtu: usual.into(),
            probes: if larger { MTU_PROBES } else { 0 },
            probe_at: larger.then_some(now),
            probed: None,
            stream_out: StreamSender::new(),
            stream_in: StreamReceiver::new(),
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            heard_at: now,
            sent_at: now,
            ended: None,
            statistics: ChannelStatistics::default(),
            scratch: Vec::new(),
        }
    }

    /// The number that frames to this end carry; see [`crate::link_layer::session_index`].
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.own.index
    }

    /// The handshake's hash, known only to both ends: a proof that is bound to it is valid for this session only.
    #[must_use]
    pub const fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The longest datagram that fits a frame now, in bytes. It grows if both interfaces carry jumbo frames and a probe of that size got
    /// through.
    #[must_use]
    pub const fn max_datagram(&self) -> usize {
        self.mtu - DATAGRAM_OVERHEAD
    }

    #[must_use]
    pub fn statistics(&self) -> ChannelStatistics {
        ChannelStatistics {
            retransmissions: self.stream_out.retransmissions,
            round_trip: self.stream_out.round_trip(),
            ..self.statistics
        }
    }

    /// The reason for the end of the session. None while it continues.
    #[must_use]
    pub const fn ended(&self) -> Option<&EndReason> {
        self.ended.as_ref()
    }

    /// Handles a frame with this end's number. An invalid frame is counted and changes nothing else.
    pub fn on_frame(&mut self, now: Time, payload: &[u8]) {
        let Some(Payload::Transport { index, counter, sealed }) = Payload::parse(payload) else { return };
        if index != self.own.index || self.ended.is_some() {
            return;
        }
        if !self.window.is_new(counter) {
            self.statistics.replayed += 1;
            return;
        }
        let mut opened = std::mem::take(&mut self.scratch);
        opened.resize(sealed.len(), 0);
        match self.cipher.read_message(counter, sealed, &mut opened) {
            Ok(length) => {
                self.window.insert(counter);
                self.heard_at = now;
                self.statistics.frames_received += 1;
                self.on_inner(now, &opened[..length]);
            }
            Err(_) => self.statistics.forged += 1,
        }
        self.scratch = opened;
    }

    fn on_inner(&mut self, now: Time, bytes: &[u8]) {
        match Inner::parse(bytes) {
            Some(Inner::KeepAlive) => {}
            Some(Inner::Datagram(_)) if self.incoming.len() == MAX_INCOMING_DATAGRAMS => self.statistics.unread += 1,
            Some(Inner::Datagram(datagram)) => self.incoming.push_back(datagram.to_vec()),
            Some(Inner::Segment { sequence, bytes }) => self.stream_in.on_segment(sequence, bytes),
            Some(Inner::Acknowledgement { next, further }) => self.stream_out.on_acknowledgement(now, next, further),
            Some(Inner::Close { reason }) => self.end(EndReason::Peer(reason.to_owned())),
            Some(Inner::Probe) => {
                let size = bytes.len() + TRANSPORT_HEADER + TAG_BYTES;
                self.probed = Some(size.min(usize::from(u16::MAX)) as u16);
            }
            Some(Inner::ProbeAnswer { size }) => {
                if usize::from(size) > self.mtu && size <= self.own.mtu.min(self.peer.mtu) {
                    self.mtu = size.into();
                }
                (self.probes, self.probe_at) = (0, None);
            }
            None => self.statistics.forged += 1,
        }
    }

    /// Seals a datagram for the next [`Channel::poll_transmit`].
    ///
    /// # Panics
    ///
    /// Panics if the datagram is longer than [`Channel::max_datagram`].
    pub fn send_datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), QueueFull> {
        assert!(datagram.len() <= self.max_datagram(), "a datagram of {} bytes", datagram.len());
        if self.outgoing.len() >= MAX_OUTGOING_FRAMES || self.ended.is_some() {
            return Err(QueueFull);
        }
        self.seal(now, DATAGRAM, datagram);
        Ok(())
    }

    /// Appends to the stream of control messages. Returns false, and appends nothing, if too much is already queued for the peer.
    pub fn write_control(&mut self, bytes: &[u8]) -> bool {
        self.stream_out.write(bytes)
    }

    /// Bytes of control messages that the peer has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.stream_out.waiting()
    }

    /// Returns the next payload of a frame to the peer.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        if let Some(frame) = self.outgoing.pop_front() {
            return Some(frame);
        }
        if self.ended.is_some() {
            return None;
        }
        self.write_next(now);
        self.outgoing.pop_front()
    }

    /// Seals the protocol's own messages.
    fn write_next(&mut self, now: Time) {
        if let Some((next, further)) = self.stream_in.poll_acknowledgement() {
            let body = [next.to_be_bytes(), further.to_be_bytes()].concat();
            return self.seal(now, ACKNOWLEDGEMENT, &body);
        }
        if let Some(size) = self.probed.take() {
            return self.seal(now, PROBE_ANSWER, &size.to_be_bytes());
        }
        let longest = self.max_datagram().min(ETHERNET_MTU - DATAGRAM_OVERHEAD) - SEGMENT_HEADER;
        if let Some((sequence, bytes)) = self.stream_out.poll(now, longest) {
            let body = [&sequence.to_be_bytes(), bytes].concat();
            return self.seal(now, SEGMENT, &body);
        }
        if self.probe_at.is_some_and(|at| now >= at) {
            self.probes -= 1;
            self.probe_at = (self.probes > 0).then_some(now + MTU_PROBE_INTERVAL);
            let size = usize::from(self.own.mtu.min(self.peer.mtu));
            return self.seal(now, PROBE, &vec![0; size - DATAGRAM_OVERHEAD]);
        }
        if now >= self.sent_at + KEEP_ALIVE_INTERVAL {
            self.seal(now, KEEP_ALIVE, &[]);
        }
    }

    fn seal(&mut self, now: Time, kind: u8, body: &[u8]) {
        if self.counter >= LAST_COUNTER {
            return self.end(EndReason::Here);
        }
        let sealed = 1 + body.len() + TAG_BYTES;
        let mut frame = Vec::with_capacity(TRANSPORT_HEADER + sealed);
        frame.push(TRANSPORT);
        frame.extend_from_slice(&self.peer.index.to_be_bytes());
        frame.extend_from_slice(&self.counter.to_be_bytes());
        frame.extend_from_slice(&(sealed as u16).to_be_bytes());
        frame.resize(TRANSPORT_HEADER + sealed, 0);
        let mut plain = std::mem::take(&mut self.scratch);
        plain.clear();
        plain.push(kind);
        plain.extend_from_slice(body);
        let written = self.cipher.write_message(self.counter, &plain, &mut frame[TRANSPORT_HEADER..]);
        self.scratch = plain;
        debug_assert_eq!(written.ok(), Some(sealed), "the buffer has room for the tag");
        self.counter += 1;
        self.sent_at = now;
        self.statistics.frames_sent += 1;
        self.outgoing.push_back(frame);
    }

    /// Returns the next received datagram.
    pub fn poll_datagram(&mut self) -> Option<Vec<u8>> {
        self.incoming.pop_front()
    }

    /// Returns the next bytes of the peer's stream of control messages.
    pub fn poll_control(&mut self) -> Option<Vec<u8>> {
        self.stream_in.poll()
    }

    /// When to call [`Channel::on_timeout`], and [`Channel::poll_transmit`] after it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let idle = [self.heard_at + SILENCE_LIMIT, self.sent_at + KEEP_ALIVE_INTERVAL];
        idle.into_iter().chain(self.stream_out.poll_timeout()).chain(self.probe_at).min()
    }

    pub fn on_timeout(&mut self, now: Time) {
        if now >= self.heard_at + SILENCE_LIMIT {
            self.end(EndReason::Silence);
        }
    }

    /// Ends the session. [`Channel::poll_transmit`] then informs the peer once, in at most [`MAX_REASON_BYTES`] bytes.
    pub fn close(&mut self, now: Time, reason: &str) {
        if self.ended.is_some() {
            return;
        }
        let end = reason.floor_char_boundary(MAX_REASON_BYTES);
        self.seal(now, CLOSE, &reason.as_bytes()[..end]);
        self.end(EndReason::Here);
    }

    fn end(&mut self, ended: EndReason) {
        self.ended.get_or_insert(ended);
    }

    /// Bytes stored for the peer and for this end's user.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        let queued = self.outgoing.iter().chain(&self.incoming).map(Vec::len).sum::<usize>();
        queued + self.stream_out.waiting() + self.stream_in.held()
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Channel")
            .field("index", &self.own.index)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
