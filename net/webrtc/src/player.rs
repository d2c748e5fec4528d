//! A player for tests, which behaves like a browser and uses the library's own means, so that it shares no code with the peer.
//!
//! It offers to receive a picture, requests missing packets, reports arrivals, reassembles frames and requests a key frame if one stays
//! incomplete. If it accepts repairs, it recovers lost packets from them. It decodes nothing. It opens the channels `control` and
//! `session`.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use nearlight_units::{Span, Time};
use rtc::data_channel::RTCDataChannelInit;
use rtc::ice::network_type::NetworkType;
use rtc::interceptor::{
    ReceiverReportBuilder, Registry, Rfc8888Builder, SenderReportBuilder, Slot, TwccReceiverBuilder,
};
use rtc::peer_connection::configuration::interceptor_registry::{
    configure_simulcast_extension_headers, configure_twcc_receiver_only,
};
use rtc::peer_connection::configuration::media_engine::{MIME_TYPE_FLEX_FEC03, MIME_TYPE_RTX, MediaEngine};
use rtc::peer_connection::configuration::setting_engine::SettingEngineBuilder;
use rtc::peer_connection::event::{RTCDataChannelEvent, RTCPeerConnectionEvent};
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::peer_connection::state::RTCPeerConnectionState;
use rtc::peer_connection::transport::{RTCDtlsTransportState, RTCIceCandidateInit};
use rtc::peer_connection::{RTCPeerConnection, RTCPeerConnectionBuilder};
use rtc::rtcp::payload_feedbacks::picture_loss_indication::PictureLossIndication;
use rtc::rtcp::transport_feedbacks::transport_layer_nack::{TransportLayerNack, nack_pairs_from_sequence_numbers};
use rtc::rtp::packet::Packet;
use rtc::rtp_transceiver::rtp_sender::{
    RTCPFeedback, RTCRtpCodec, RTCRtpCodecParameters, RTCRtpHeaderExtensionCapability, RtpCodecKind,
};
use rtc::sansio::Protocol as _;
use rtc::shared::error::Error;
use rtc::shared::{TaggedBytesMut, TransportContext, TransportProtocol};

use crate::codec;
use crate::filter::FilterSlot;
use crate::{Carriage, ChannelId, CodecKind, Message, Remote, Transmit};

mod assembly;
mod attack;
mod fec_recovery;
mod reports;

use assembly::Assembly;
use attack::Keys;
use fec_recovery::FecRecovery;
use reports::OrderedReports;

/// How, and how often, a player reports the arrivals of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporting {
    /// Reports by transport-wide numbers, as browsers do, at this interval.
    TransportWide(Span),
    /// Reports by each stream's own numbers (RFC 8888), at this interval.
    PerStream(Span),
    /// No reports of arrivals: only receiver reports, one a second.
    ReceiverReports,
}

impl Reporting {
    /// The library's own default.
    const DEFAULT: Self = Self::TransportWide(Span::from_millis(100));
}

/// A complete frame, as RTP delivered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedFrame {
    pub rtp_timestamp: u32,
    /// The coded picture: annex B, or a VP8 frame.
    pub bits: Vec<u8>,
    pub packets: usize,
    pub arrived_at: Time,
    /// Whether every packet signalled that the picture need not wait.
    pub undelayed: bool,
}

/// The options of a player.
#[derive(Clone, Copy, Debug)]
pub struct PlayerConfig {
    pub reporting: Reporting,
    /// Whether it requests missing packets.
    pub asks: bool,
    /// Whether it accepts repairs.
    pub flexfec: bool,
    pub carriage: Carriage,
}

impl Default for PlayerConfig {
    fn default() -> Self {
        Self { reporting: Reporting::DEFAULT, asks: true, flexfec: false, carriage: Carriage::Udp }
    }
}

/// A receiving client.
pub struct Player {
    connection: RTCPeerConnection,
    origin: Instant,
    local: SocketAddr,
    config: PlayerConfig,
    /// The picture's payload type, from the answer.
    payload_type: u8,
    ssrc: u32,
    assembly: Assembly,
    sound: Vec<(u32, Vec<u8>)>,
    messages: VecDeque<(String, Message)>,
    open: BTreeMap<String, ChannelId>,
    recovered: Arc<AtomicU64>,
    keys: Keys,
    connected: bool,
    ended: bool,
}

impl Player {
    /// Makes a player at `local`, and its offer. `origin` is the platform's equivalent of [`Time::ZERO`].
    pub fn new(now: Time, origin: Instant, local: SocketAddr, sound: bool) -> Result<(Self, String), Error> {
        let kinds: &[RtpCodecKind] =
            if sound { &[RtpCodecKind::Video, RtpCodecKind::Audio] } else { &[RtpCodecKind::Video] };
        Self::open(now, origin, local, kinds, PlayerConfig::default())
    }

    /// Makes a player of picture and sound with a configuration of its own.
    pub fn with_config(
        config: PlayerConfig,
        now: Time,
        origin: Instant,
        local: SocketAddr,
    ) -> Result<(Self, String), Error> {
        Self::open(now, origin, local, &[RtpCodecKind::Video, RtpCodecKind::Audio], config)
    }

    /// Makes a player that never requests missing packets.
    pub fn mute(now: Time, origin: Instant, local: SocketAddr) -> Result<(Self, String), Error> {
        let config = PlayerConfig { asks: false, ..PlayerConfig::default() };
        Self::open(now, origin, local, &[RtpCodecKind::Video], config)
    }

    /// Makes a player that accepts repairs, and requests missing packets like any other.
    pub fn with_flexfec(now: Time, origin: Instant, local: SocketAddr) -> Result<(Self, String), Error> {
        let config = PlayerConfig { flexfec: true, ..PlayerConfig::default() };
        Self::open(now, origin, local, &[RtpCodecKind::Video], config)
    }

    /// Makes a player that opens a TCP connection, because its network blocks UDP. The driver splits the stream.
    pub fn without_udp(now: Time, origin: Instant, local: SocketAddr) -> Result<(Self, String), Error> {
        let config = PlayerConfig { carriage: Carriage::Tcp, ..PlayerConfig::default() };
        Self::open(now, origin, local, &[RtpCodecKind::Video], config)
    }

    /// Makes a player that only offers its channels, as Unity's clients do.
    pub fn without_media(now: Time, origin: Instant, local: SocketAddr) -> Result<(Self, String), Error> {
        Self::open(now, origin, local, &[], PlayerConfig::default())
    }

    fn open(
        now: Time,
        origin: Instant,
        local: SocketAddr,
        kinds: &[RtpCodecKind],
        config: PlayerConfig,
    ) -> Result<(Self, String), Error> {
        let at = origin + Duration::from_nanos(now.as_nanos());
        let recovered = Arc::new(AtomicU64::new(0));
        let keys = Keys::default();
        let mut connection = connection(at, config, &recovered, &keys)?;
        for kind in kinds {
            connection.add_transceiver_from_kind(*kind, None)?;
        }
        connection.create_data_channel("control", None)?;
        let unreliable =
            RTCDataChannelInit { ordered: false, max_retransmits: Some(0), ..RTCDataChannelInit::default() };
        connection.create_data_channel("session", Some(unreliable))?;
        let ip = local.ip();
        let candidate = match config.carriage {
            Carriage::Udp => format!("candidate:1 1 udp 2130706431 {ip} {} typ host", local.port()),
            // Port 9 is a placeholder for an unknown one (RFC 6544 section 4.5).
            Carriage::Tcp => format!("candidate:1 1 tcp 1518280447 {ip} 9 typ host tcptype active"),
        };
        connection.add_local_candidate(RTCIceCandidateInit { candidate, ..RTCIceCandidateInit::default() })?;
        let offer = connection.create_offer(None)?;
        let sdp = offer.sdp.clone();
        connection.set_local_description(at, offer)?;
        let player = Self {
            connection,
            origin,
            local,
            config,
            payload_type: 0,
            ssrc: 0,
            assembly: Assembly::default(),
            sound: Vec::new(),
            messages: VecDeque::new(),
            open: BTreeMap::new(),
            recovered,
            keys,
            connected: false,
            ended: false,
        };
        Ok((player, sdp))
    }

    /// Handles the server's answer.
    pub fn on_answer(&mut self, now: Time, answer: &str) -> Result<(), Error> {
        self.note_format(answer)?;
        let at = self.instant(now);
        self.connection.set_remote_description(at, RTCSessionDescription::answer(answer.to_owned())?)
    }

    /// Answers a server's offer and accepts everything in it.
    pub fn answer(&mut self, now: Time, offer: &str) -> Result<String, Error> {
        let at = self.instant(now);
        self.connection.set_remote_description(at, RTCSessionDescription::offer(offer.to_owned())?)?;
        let answer = self.connection.create_answer(None)?;
        let sdp = answer.sdp.clone();
        self.note_format(&sdp)?;
        self.connection.set_local_description(at, answer)?;
        Ok(sdp)
    }

    /// Records the picture's first codec in a description, if it has a picture. Fails on an unknown format.
    fn note_format(&mut self, sdp: &str) -> Result<(), Error> {
        let Some(video) = sdp.split("m=video").nth(1) else { return Ok(()) };
        let map = video.lines().find_map(|line| line.strip_prefix("a=rtpmap:")).unwrap_or_default();
        let (payload_type, name) = map.split_once(' ').unwrap_or_default();
        let format = payload_type.parse().ok().zip(codec::from_rtpmap(name.trim_end()));
        let (payload_type, codec) = format.ok_or_else(|| {
            let known = CodecKind::ALL.map(CodecKind::name).join(", ");
            Error::Other(format!(
                "the description's first video format, \"{map}\", is none of {known}: offer one of these"
            ))
        })?;
        (self.payload_type, self.assembly.codec) = (payload_type, codec);
        let delay = |line: &&str| line.starts_with("a=extmap:") && line.ends_with("playout-delay");
        let delay = video.lines().find(delay).and_then(|line| line["a=extmap:".len()..].split([' ', '/']).next());
        self.assembly.playout_delay = delay.and_then(|id| id.parse().ok());
        Ok(())
    }

    pub fn on_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let transport = TransportContext {
            local_addr: self.local,
            peer_addr: from,
            transport_protocol: match self.config.carriage {
                Carriage::Udp => TransportProtocol::UDP,
                Carriage::Tcp => TransportProtocol::TCP,
            },
            ecn: None,
        };
        let message = TaggedBytesMut { now: self.instant(now), transport, message: BytesMut::from(datagram) };
        let _ = self.connection.handle_read(message);
        self.take_in(now);
    }

    pub fn on_timeout(&mut self, now: Time) {
        let at = self.instant(now);
        if self.connection.poll_timeout().is_some_and(|due| due <= at) {
            let _ = self.connection.handle_timeout(at);
        }
        self.take_in(now);
        if self.assembly.give_up(now) {
            self.request_key_frame(now);
        }
    }

    pub fn poll_timeout(&mut self) -> Option<Time> {
        let protocols = self
            .connection
            .poll_timeout()
            .map(|at| Time::from_nanos(at.saturating_duration_since(self.origin).as_nanos() as u64));
        protocols.into_iter().chain(self.assembly.poll_timeout()).min()
    }

    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let message = self.connection.poll_write()?;
        let TransportContext { peer_addr: address, local_addr: from, .. } = message.transport;
        let to = Remote { carriage: self.config.carriage, address };
        Some(Transmit { to, from, datagram: message.message.to_vec() })
    }

    /// Returns the next complete frame, in order.
    pub fn poll_frame(&mut self) -> Option<PlayedFrame> {
        self.assembly.poll_frame()
    }

    /// Marks the frame with this timestamp as a key frame: once it is complete the player continues with it, whatever is missing before it,
    /// as browsers do. They detect it from the picture itself.
    pub fn expect_key_frame(&mut self, rtp_timestamp: u32) {
        self.assembly.expect_key_frame(rtp_timestamp);
    }

    /// Returns the next message, with its channel's label.
    pub fn poll_message(&mut self) -> Option<(String, Message)> {
        self.messages.pop_front()
    }

    /// The packets of sound so far: RTP timestamp and payload.
    #[must_use]
    pub fn sound(&self) -> &[(u32, Vec<u8>)] {
        &self.sound
    }

    #[must_use]
    pub fn is_open(&self, label: &str) -> bool {
        self.open.contains_key(label)
    }

    /// Sends a message. Returns false if the channel is not open.
    pub fn send(&mut self, now: Time, label: &str, message: Message) -> bool {
        let at = self.instant(now);
        let Some(mut channel) = self.open.get(label).and_then(|id| self.connection.data_channel(*id)) else {
            return false;
        };
        match message {
            Message::Text(text) => channel.send_text(at, text).is_ok(),
            Message::Binary(bytes) => channel.send(at, BytesMut::from(&bytes[..])).is_ok(),
        }
    }

    /// Requests a key frame.
    pub fn request_key_frame(&mut self, now: Time) {
        let media_ssrc = self.ssrc;
        let message =
            vec![Box::new(PictureLossIndication { sender_ssrc: 1, media_ssrc }) as Box<dyn rtc::rtcp::Packet>];
        let now = self.instant(now);
        let _ = self
            .connection
            .handle_write(TaggedRTCMessage { now, message: RTCMessage::RtcpPacket(String::new(), message) });
    }

    #[must_use]
    pub const fn carriage(&self) -> Carriage {
        self.config.carriage
    }

    #[must_use]
    pub const fn codec(&self) -> CodecKind {
        self.assembly.codec
    }

    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.connected
    }

    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Number of gaps that were never filled.
    #[must_use]
    pub const fn given_up(&self) -> u64 {
        self.assembly.given_up()
    }

    /// Number of packets requested, counted per request.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.assembly.requests()
    }

    /// Number of packets recovered from repairs.
    #[must_use]
    pub fn recovered(&self) -> u64 {
        self.recovered.load(Ordering::Relaxed)
    }

    /// Makes a datagram with arbitrary content under the keys of the player's own connection, as a hostile client would. None before
    /// the handshake has ended.
    #[must_use]
    pub fn seal(&self, kind: u8, content: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(kind, content)
    }

    /// Makes a datagram with an SCTP packet of any chunks. None before the player has sent one.
    #[must_use]
    pub fn seal_chunks(&self, chunks: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal_chunks(chunks)
    }

    pub fn close(&mut self) {
        let _ = self.connection.close();
    }

    fn take_in(&mut self, now: Time) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                RTCPeerConnectionEvent::OnConnectionStateChangeEvent(state) => {
                    self.connected |= state == RTCPeerConnectionState::Connected;
                    self.ended |= matches!(state, RTCPeerConnectionState::Failed | RTCPeerConnectionState::Closed);
                }
                RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnOpen(id)) => {
                    let label = self.connection.data_channel(id).map(|channel| channel.label().to_owned());
                    self.open.extend(label.map(|label| (label, id)));
                }
                RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnClose(id)) => {
                    self.open.retain(|_, other| *other != id);
                }
                _ => {}
            }
        }
        while let Some(message) = self.connection.poll_read() {
            match message.message {
                RTCMessage::RtpPacket(_, packet) => self.on_packet(now, packet),
                RTCMessage::DataChannelMessage(id, message) => {
                    let label = self.open.iter().find(|(_, other)| **other == id).map(|(label, _)| label.clone());
                    let message = if message.is_string {
                        Message::Text(String::from_utf8_lossy(&message.data).into_owned())
                    } else {
                        Message::Binary(message.data.to_vec())
                    };
                    self.messages.extend(label.map(|label| (label, message)));
                }
                _ => {}
            }
        }
        let state = self.connection.sctp().map(|sctp| sctp.transport().state());
        self.ended |= state == Some(RTCDtlsTransportState::Closed);
        self.assembly.assemble(now);
        self.request_missing(now);
    }

    fn on_packet(&mut self, now: Time, packet: Packet) {
        if packet.header.payload_type != self.payload_type {
            self.sound.push((packet.header.timestamp, packet.payload.to_vec()));
            return;
        }
        self.ssrc = packet.header.ssrc;
        self.assembly.on_packet(now, packet);
    }

    /// Requests missing packets. The library's own requests continue after a retransmission has arrived, because it does not inspect those.
    fn request_missing(&mut self, now: Time) {
        let numbers = self.assembly.poll_missing(now, self.config.asks);
        if numbers.is_empty() {
            return;
        }
        let nacks = nack_pairs_from_sequence_numbers(&numbers);
        let nack = TransportLayerNack { sender_ssrc: 1, media_ssrc: self.ssrc, nacks };
        let message = RTCMessage::RtcpPacket(String::new(), vec![Box::new(nack)]);
        let now = self.instant(now);
        let _ = self.connection.handle_write(TaggedRTCMessage { now, message });
    }

    fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.as_nanos())
    }
}

fn connection(
    at: Instant,
    config: PlayerConfig,
    recovered: &Arc<AtomicU64>,
    keys: &Keys,
) -> Result<RTCPeerConnection, Error> {
    let mut engine = MediaEngine::default();
    engine.register_default_codecs()?;
    if config.flexfec {
        let rtp_codec = RTCRtpCodec {
            mime_type: MIME_TYPE_FLEX_FEC03.into(),
            clock_rate: 90_000,
            channels: 0,
            sdp_fmtp_line: "repair-window=10000000".into(),
            rtcp_feedback: vec![],
        };
        engine.register_codec(RTCRtpCodecParameters { rtp_codec, payload_type: 49 }, RtpCodecKind::Video)?;
    }
    let playout_delay = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay".to_owned();
    let playout_delay = RTCRtpHeaderExtensionCapability { uri: playout_delay };
    engine.register_header_extension(playout_delay, RtpCodecKind::Video, None)?;
    configure_simulcast_extension_headers(&mut engine)?;
    let registry = Registry::new();
    let every = |interval: Span| Duration::from_nanos(u64::try_from(interval.as_nanos()).unwrap_or(0));
    let registry = match config.reporting {
        Reporting::TransportWide(interval) => {
            // Needed for what it writes into the description; its own reporter has a fixed interval.
            configure_twcc_receiver_only(Registry::new(), &mut engine)?;
            registry.with(Slot::TwccReceiver, TwccReceiverBuilder::new().with_interval(every(interval)).build())
        }
        Reporting::PerStream(interval) => {
            for kind in [RtpCodecKind::Video, RtpCodecKind::Audio] {
                engine.register_feedback(RTCPFeedback { typ: "ack".into(), parameter: "ccfb".into() }, kind);
            }
            registry.with(Slot::Rfc8888, Rfc8888Builder::new().with_interval(every(interval)).build())
        }
        Reporting::ReceiverReports => {
            let send_time = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time".to_owned();
            let capability = RTCRtpHeaderExtensionCapability { uri: send_time };
            engine.register_header_extension(capability, RtpCodecKind::Video, None)?;
            engine.register_feedback(
                RTCPFeedback { typ: "goog-remb".into(), parameter: String::new() },
                RtpCodecKind::Video,
            );
            registry
        }
    };
    let registry = registry
        .with(Slot::ReceiverReport, OrderedReports::new(ReceiverReportBuilder::new().build()))
        .with(Slot::SenderReport, SenderReportBuilder::new().build())
        .with(fec_recovery::CHAIN_POSITION.into(), FilterSlot::new(FecRecovery::new(Arc::clone(recovered))));
    let networks = match config.carriage {
        Carriage::Udp => vec![NetworkType::Udp4, NetworkType::Udp6],
        Carriage::Tcp => vec![NetworkType::Tcp4, NetworkType::Tcp6],
    };
    let settings =
        SettingEngineBuilder::new().with_crypto_provider(keys.provider()?).with_network_types(networks).build();
    RTCPeerConnectionBuilder::new()
        .with_setting_engine(settings)
        .with_media_engine(engine)
        .with_interceptor_registry(registry)
        .build(at)
}

/// Whether an answer contains repairs.
#[must_use]
pub fn has_repairs(answer: &str) -> bool {
    answer.contains(" flexfec-03/90000") && answer.contains("a=ssrc-group:FEC-FR ")
}

/// Whether an answer contains retransmissions.
#[must_use]
pub fn has_retransmissions(answer: &str) -> bool {
    let name = MIME_TYPE_RTX.trim_start_matches("video/");
    answer.contains(&format!(" {name}/90000")) && answer.contains("a=ssrc-group:FID ")
}
