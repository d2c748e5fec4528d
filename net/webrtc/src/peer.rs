//! One client: one of the library's connections, and the sender that decides what it carries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use nearlight_fec::ParityGroups;
use nearlight_session::{EncodedFrame, Segmentation, Sender, Wake};
use nearlight_units::{Bytes, FrameId, PacketSeq, Time};
use nearlight_wire::FrameNote;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rtc::data_channel::{RTCDataChannelId, RTCDataChannelInit};
use rtc::peer_connection::RTCPeerConnection;
use rtc::peer_connection::certificate::RTCCertificate;
use rtc::peer_connection::event::{RTCDataChannelEvent, RTCPeerConnectionEvent};
use rtc::peer_connection::message::RTCMessage;
use rtc::peer_connection::state::RTCPeerConnectionState;
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::sansio::Protocol as _;
use rtc::shared::{TaggedBytesMut, TransportContext, TransportProtocol};

use crate::candidate_pairs::{CandidatePair, CandidatePairs};
use crate::codec;
use crate::contained::PanicGuard;
use crate::dtls;
use crate::feedback::{Reports, StreamReports};
use crate::negotiate::{self, Codecs, Sources};
use crate::payload::Payloads;
use crate::reception::Reception;
use crate::rtcp::RtcpQueue;
use crate::stream::{InitialValues, Stream};
use crate::stun::{BINDING_REQUEST, Stun, Verifier};
use crate::{Carriage, CodecKind, IceCredentials, Offer, OfferedCodec, Remote};

mod description;
mod incoming;
mod outgoing;

/// Maximum length of a message on a data channel in bytes, in both directions: a control message's limit.
pub const MAX_MESSAGE: usize = 65_536;
/// Maximum number of channels that a client may open. Further ones are ignored.
const MAX_CHANNELS: usize = 8;
/// Maximum bytes queued for a channel. A client that does not receive its messages loses them.
const MAX_QUEUED_BYTES: usize = 256 * 1_024;
/// Maximum number of notes of frames that have not begun to leave: more than the sender queues.
const MAX_NOTES: usize = 64;
/// Maximum number of sources that a client's RTCP may name: the library stores a state for each, before it checks a packet's signature. A
/// browser has one or two.
const MAX_SOURCES: usize = 64;
/// Range of datagram sizes in bytes: smaller ones are not worth their headers, larger ones do not cross the Internet.
const DATAGRAM_BYTES: std::ops::RangeInclusive<usize> = 640..=1_200;

/// A data channel of one client.
pub type ChannelId = RTCDataChannelId;

/// A server's certificate for DTLS, one for all peers.
#[derive(Clone, Debug)]
pub struct Certificate(pub(crate) RTCCertificate);

impl Certificate {
    /// Creates and self-signs a key.
    pub fn generate() -> Result<Self, PeerError> {
        Ok(Self(negotiate::certificate().map_err(PeerError::Certificate)?))
    }
}

/// A peer's configuration.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The platform's equivalent of [`Time::ZERO`].
    pub origin: Instant,
    /// Addresses at which the server can be reached, best first.
    pub candidates: Vec<SocketAddr>,
    /// Addresses at which clients may open TCP connections if no UDP gets through, best first.
    pub tcp_candidates: Vec<SocketAddr>,
    pub certificate: Certificate,
    /// Seed of the SSRCs, first sequence numbers and timestamps.
    pub seed: u64,
    /// Largest datagram without IP and UDP headers, in bytes, clamped to 640 to 1,200.
    pub datagram: usize,
}

/// The reason why a peer cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("no certificate can be made: {0}")]
    Certificate(#[source] rtc::shared::error::Error),
    /// The library's own messages are safe to show: they name the library's parts, not the client's input.
    #[error("the description cannot be used: a line violates RFC 8866 or contradicts another one")]
    Description(#[from] rtc::shared::error::Error),
    /// Every section was rejected, so there is no address and no name to connect to (RFC 8829, section 5.3.1).
    #[error("the offer has no section that the server can answer: offer video to receive, or a data channel")]
    NothingAccepted,
    #[error("the channel is not open, or the client does not receive the messages sent on it")]
    Channel,
    /// The cause is unknown: the library panicked on the client's bytes.
    #[error("the WebRTC library failed on what the client sent; the session cannot go on")]
    Failed,
}

/// A message on a data channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Text(String),
    Binary(Vec<u8>),
}

/// An event of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Media may flow.
    Connected,
    Opened {
        channel: ChannelId,
        label: String,
    },
    Message {
        channel: ChannelId,
        message: Message,
    },
    Closed {
        channel: ChannelId,
    },
    /// The client or its connection is gone.
    Ended,
    /// The library failed on the client's input: the session has ended.
    Failed,
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    pub to: Remote,
    /// The server's address as the client knows it.
    pub from: SocketAddr,
    pub datagram: Vec<u8>,
}

struct Video {
    stream: Stream,
    codec: CodecKind,
    /// VP8's picture number, 15 bits.
    picture: u16,
    /// Notes of frames that have not fully left.
    notes: VecDeque<FrameNote>,
}

/// A client's connection as a state machine.
pub struct Peer {
    connection: PanicGuard<RTCPeerConnection>,
    /// The peer's own credentials, once a description contains them.
    credentials: Option<IceCredentials>,
    verifier: Option<Verifier>,
    screen: dtls::Screen,
    /// SSRCs named by the client's RTCP.
    reporters: BTreeSet<u32>,
    candidate_pairs: CandidatePairs,
    sender: Sender,
    origin: Instant,
    candidates: Vec<SocketAddr>,
    tcp_candidates: Vec<SocketAddr>,
    datagram: usize,
    rtcp_queue: RtcpQueue,
    sources: Sources,
    beginnings: [InitialValues; 2],
    tracks: [Option<RTCRtpSenderId>; 2],
    video: Option<Video>,
    sound: Option<Stream>,
    reports: Reports,
    /// Reports of streams, if the client reports each stream by its own numbers.
    stream_reports: Option<StreamReports>,
    /// The number of the packet that left last.
    newest_seq: Option<PacketSeq>,
    reception: Reception,
    channels: BTreeMap<ChannelId, String>,
    note_channel: Option<ChannelId>,
    events: VecDeque<Event>,
    connected: bool,
    ended: bool,
}

impl Peer {
    /// Maximum size of a datagram that a peer sends, in bytes without IP and UDP headers.
    pub const MAX_DATAGRAM: usize = *DATAGRAM_BYTES.end();

    /// Makes a peer that answers offers of these codecs, under the payload types that the client assigned to them, and sends what `sender`
    /// decides. Repairs are sent only if the client accepts them.
    pub fn answering(
        now: Time,
        config: PeerConfig,
        offer: &Offer,
        codec: Option<&OfferedCodec>,
        sender: Sender,
    ) -> Result<Self, PeerError> {
        let codecs = Codecs {
            video: codec.into_iter().cloned().collect(),
            sound: offer.sound().cloned(),
            repairs: offer.repairs().filter(|_| sender.names().redundancy.is_some()).cloned(),
            reports_arrivals: offer.reports_arrivals(),
        };
        Self::new(now, config, &codecs, sender)
    }

    /// Makes a peer that offers pictures itself, once the client has connected without any: codecs best first, optionally sound.
    pub fn offering(
        now: Time,
        config: PeerConfig,
        codecs: &[CodecKind],
        sound: bool,
        sender: Sender,
    ) -> Result<Self, PeerError> {
        let codecs = Codecs {
            video: codecs.iter().map(|codec| codec::default_offer(*codec)).collect(),
            sound: sound.then(negotiate::default_sound),
            repairs: sender.names().redundancy.is_some().then(negotiate::default_repairs),
            reports_arrivals: true,
        };
        Self::new(now, config, &codecs, sender)
    }

    fn new(now: Time, config: PeerConfig, codecs: &Codecs, sender: Sender) -> Result<Self, PeerError> {
        let PeerConfig { origin, candidates, tcp_candidates, certificate, seed, datagram } = config;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rtcp_queue = RtcpQueue::default();
        let at = origin + Duration::from_nanos(now.as_nanos());
        let mut connection = negotiate::connection(at, &certificate, codecs, rtcp_queue.clone())?;
        negotiate::add_candidates(&mut connection, &candidates, &tcp_candidates)?;
        let sources = Sources {
            video: random.random(),
            retransmission: random.random(),
            sound: random.random(),
            repair: random.random(),
        };
        let mut begin = || InitialValues {
            // In the lower half, so that no receiver's count wraps during the first packets.
            number: random.random_range(..0x8000),
            retransmission: random.random_range(..0x8000),
            repair: random.random_range(..0x8000),
            timestamp: random.random(),
        };
        Ok(Self {
            connection: PanicGuard::new(connection),
            credentials: None,
            verifier: None,
            screen: dtls::Screen::default(),
            reporters: BTreeSet::new(),
            candidate_pairs: CandidatePairs::default(),
            sender,
            origin,
            candidates,
            tcp_candidates,
            datagram: datagram.clamp(*DATAGRAM_BYTES.start(), *DATAGRAM_BYTES.end()),
            rtcp_queue,
            sources,
            beginnings: [begin(), begin()],
            tracks: [None; 2],
            video: None,
            sound: None,
            reports: Reports::default(),
            stream_reports: None,
            newest_seq: None,
            reception: Reception::default(),
            channels: BTreeMap::new(),
            note_channel: None,
            events: VecDeque::new(),
            connected: false,
            ended: false,
        })
    }

    /// The key with which a client signs its requests. None before the peer has described itself.
    #[must_use]
    pub const fn credentials(&self) -> Option<&IceCredentials> {
        self.credentials.as_ref()
    }

    /// The picture's codec as negotiated.
    #[must_use]
    pub fn codec(&self) -> Option<CodecKind> {
        self.video.as_ref().map(|video| video.codec)
    }

    /// Whether the client accepts sound.
    #[must_use]
    pub const fn takes_sound(&self) -> bool {
        self.sound.is_some()
    }

    /// The RTP timestamp of a picture whose rendering started then. None before the client has agreed to a codec.
    #[must_use]
    pub fn timestamp_at(&self, render_started_at: Time) -> Option<u32> {
        self.video.as_ref().map(|video| video.stream.timestamp_at(render_started_at))
    }

    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.connected && !self.ended
    }

    /// Whether there is media to send. Before the first picture there is not, and probes of the path cannot be filled.
    fn has_media(&self) -> bool {
        self.is_connected() && self.sender.target().encoder.next > FrameId(0)
    }

    #[must_use]
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The sender, for facts from elsewhere: inputs, pings and reports on a data channel, skipped frames.
    pub const fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// Opens a channel to the client, unordered and without retransmissions. [`Event::Opened`] says when it may be used.
    ///
    /// On a channel that the client opened, the library sends reliably and in order, whatever the client requested: one lost message delays
    /// all later ones, by a second if its retransmission is lost as well.
    pub fn open_unreliable(&mut self, label: &str) -> Result<(), PeerError> {
        let options = RTCDataChannelInit { ordered: false, max_retransmits: Some(0), ..RTCDataChannelInit::default() };
        let made = self.connection.run(|connection| connection.create_data_channel(label, Some(options)).map(|_| ()));
        made.ok_or(PeerError::Failed)?.map_err(PeerError::from)
    }

    /// Sets the channel on which a note announces each frame. None: notes are not wanted.
    pub const fn set_note_channel(&mut self, channel: Option<ChannelId>) {
        self.note_channel = channel;
    }

    /// Splits and queues an encoded frame. Before the client has agreed to a codec, it is dropped.
    pub fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        let Some(video) = &mut self.video else { return };
        let (overhead, repair_overhead) = (video.stream.overhead(), video.stream.repair_overhead());
        // A retransmission needs two bytes for the original number.
        let largest = (overhead + 2).max(repair_overhead.unwrap_or(0));
        let most = self.datagram - usize::from(largest);
        let Payloads { bytes, ends } = Payloads::cut(video.codec, video.picture, &frame.bits, most);
        video.picture = (video.picture + 1) & 0x7FFF;
        let timestamp = video.stream.timestamp_at(frame.header.render_started_at);
        let packets = ends.len().min(usize::from(u16::MAX)) as u16;
        let id = frame.id;
        let key = frame.reference.is_none();
        let header = frame.header.clone();
        let note = FrameNote { frame: frame.id, key, last: false, rtp_timestamp: timestamp, sent_at: now, header };
        video.notes.push_back(note);
        if video.notes.len() > MAX_NOTES {
            video.notes.pop_front();
        }
        let segmentation = Segmentation { ends, overhead, repair_overhead };
        let repairs =
            self.sender.rtp().on_segmented_frame(now, EncodedFrame { bits: bytes.into(), ..frame }, segmentation);
        video.stream.on_frame(id, ParityGroups::new(packets, repairs), timestamp);
    }

    /// Sends an Opus packet whose first sample is due at `heard_at` on the server's clock, like the pictures rendered then.
    pub fn on_sound(&mut self, now: Time, heard_at: Time, opus: Vec<u8>) {
        if !self.is_connected() {
            return;
        }
        let Some(stream) = &mut self.sound else { return };
        let size = Bytes::new(opus.len() as u64 + u64::from(stream.overhead()));
        // Packets that the client does not report are not counted.
        let counts = stream.config().transport_wide.is_some() || self.stream_reports.is_some();
        let seq = if counts { self.sender.rtp().on_other_sent(now, size) } else { PacketSeq(0) };
        if counts {
            self.newest_seq = Some(seq);
        }
        let packet = stream.single(stream.timestamp_at(heard_at), seq, opus);
        if let Some(reports) = &mut self.stream_reports {
            reports.on_sent(now, seq, packet.header.ssrc, packet.header.sequence_number);
        }
        stream.on_sent(now, &packet);
        self.write(now, packet);
    }

    /// Sends a message on a channel.
    pub fn send(&mut self, now: Time, channel: ChannelId, message: Message) -> Result<(), PeerError> {
        let at = self.instant(now);
        let sent = self.connection.run(|connection| {
            let mut channel = connection.data_channel(channel)?;
            if channel.outstanding_bytes() > MAX_QUEUED_BYTES {
                return None;
            }
            match message {
                Message::Text(text) => channel.send_text(at, text).ok(),
                Message::Binary(bytes) => channel.send(at, BytesMut::from(&bytes[..])).ok(),
            }
        });
        sent.ok_or(PeerError::Failed)?.ok_or(PeerError::Channel)
    }

    /// Returns whether half of a channel's queue is free: messages that may wait then do not displace others.
    pub fn has_room(&mut self, channel: ChannelId) -> bool {
        let queued = self.connection.run(|connection| Some(connection.data_channel(channel)?.outstanding_bytes()));
        queued.flatten().is_some_and(|bytes| bytes <= MAX_QUEUED_BYTES / 2)
    }

    /// Handles a datagram from the socket shared by all peers. A datagram that does not belong here is dropped before it changes anything.
    pub fn on_datagram(&mut self, now: Time, from: Remote, to: SocketAddr, datagram: &[u8]) {
        if !self.admits(datagram) {
            return;
        }
        let (candidates, transport_protocol) = match from.carriage {
            Carriage::Udp => (&self.candidates, TransportProtocol::UDP),
            Carriage::Tcp => (&self.tcp_candidates, TransportProtocol::TCP),
        };
        let way = CandidatePair { remote: from, local: candidate_for(candidates, to) };
        let transport =
            TransportContext { local_addr: way.local, peer_addr: from.address, transport_protocol, ecn: None };
        let at = self.instant(now);
        let mut read = |datagram: &[u8]| {
            let message = TaggedBytesMut { now: at, transport, message: BytesMut::from(datagram) };
            // The library logs what it rejects; a stranger's bytes are no error of ours.
            let _ = self.connection.run(|connection| connection.handle_read(message));
        };
        read(datagram);
        if let Some(again) = self.candidate_pairs.on_read(now, way, datagram) {
            read(&again);
        }
        self.take_in(now);
    }

    /// Whether the library may read a datagram (RFC 7983 distinguishes the protocols).
    fn admits(&mut self, datagram: &[u8]) -> bool {
        match datagram {
            [0..=3, ..] => Stun::parse(datagram).is_some_and(|stun| {
                let verifier = self.verifier.as_mut();
                stun.kind != BINDING_REQUEST || verifier.is_some_and(|verifier| verifier.verify(datagram))
            }),
            [20..=63, ..] => self.screen.admits(self.connected, datagram),
            // RTCP (RFC 5761 section 4). Clients send no media.
            [128..=191, 192..=223, _, _, source @ ..] => {
                let Some(source) = source.first_chunk().map(|source| u32::from_be_bytes(*source)) else { return false };
                self.reporters.contains(&source)
                    || (self.reporters.len() < MAX_SOURCES && self.reporters.insert(source))
            }
            _ => false,
        }
    }

    /// Handles the timer that [`Peer::poll_timeout`] announced.
    pub fn on_timeout(&mut self, now: Time) {
        let at = self.instant(now);
        let due = self.connection.run(RTCPeerConnection::poll_timeout).flatten();
        if due.is_some_and(|due| due <= at) {
            let _ = self.connection.run(|connection| connection.handle_timeout(at));
        }
        if due.is_some_and(|due| due <= at) || self.connection.is_gone() {
            self.take_in(now);
        }
        if self.candidate_pairs.consent_ends().is_some_and(|end| end <= now) {
            self.end();
        }
        if self.has_media() {
            self.sender.on_timeout(now);
        }
    }

    /// When to call [`Peer::on_timeout`] and [`Peer::poll_transmit`] next even if nothing happens.
    pub fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        let protocols = self.connection.run(RTCPeerConnection::poll_timeout).flatten().map(|at| self.time(at));
        let reports = [self.video.as_ref().map(|video| &video.stream), self.sound.as_ref()];
        let reports = reports.into_iter().flatten().filter_map(Stream::report_due).min();
        let reports = reports.filter(|_| self.is_connected());
        let media = self.sender.poll_timeout().filter(|_| self.has_media());
        let consent = self.candidate_pairs.consent_ends().filter(|_| !self.ended);
        let transport = [protocols, reports, consent].into_iter().flatten().min().map(|at| (at, Wake::Transport));
        [media, transport].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the next datagram to send. Call it until None.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        loop {
            if let Some(message) = self.connection.run(RTCPeerConnection::poll_write).flatten() {
                let TransportContext { local_addr: from, peer_addr, transport_protocol, .. } = message.transport;
                let remote = match transport_protocol {
                    TransportProtocol::TCP => Remote::tcp(peer_addr),
                    _ => Remote::udp(peer_addr),
                };
                let way = self.candidate_pairs.on_write(now, CandidatePair { remote, local: from }, &message.message);
                return Some(Transmit { to: way.remote, from: way.local, datagram: message.message.to_vec() });
            }
            if !self.is_connected() || !(self.write_media(now) || self.write_report(now)) {
                return None;
            }
        }
    }

    /// Closes the connection with the protocols' own messages, which [`Peer::poll_transmit`] returns.
    pub fn close(&mut self) {
        let _ = self.connection.run(RTCPeerConnection::close);
        self.ended = true;
    }

    fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.as_nanos())
    }

    fn time(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.origin);
        Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Returns the candidate that represents one of the server's addresses.
fn candidate_for(candidates: &[SocketAddr], to: SocketAddr) -> SocketAddr {
    let exact = candidates.iter().find(|candidate| **candidate == to);
    let alike = || candidates.iter().find(|candidate| candidate.is_ipv4() == to.is_ipv4());
    exact.or_else(alike).copied().unwrap_or(to)
}

#[cfg(test)]
mod tests;
