//! WebRTC: the server's end is the peer that serves browsers, and the client's end is a player that sends reports, requests retransmissions and
//! assembles frames as browsers do. As in the page, our receiver sends inputs and pings on a data channel and tracks the display. They are connected
//! before the session begins, over a path without delay.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use nearlight_events::RecoveryCounts;
use nearlight_session::{DisplayedFrame, EncodedFrame, PictureFacts, Receiver, Sender, Wake};
use nearlight_units::{FrameId, Span, Time};
use nearlight_webrtc::player::{PlayedFrame, Player, PlayerConfig, Reporting};
use nearlight_webrtc::{Certificate, ChannelId, CodecKind, Event, Message, Offer, Peer, PeerConfig, Remote};
use nearlight_wire::marker::Marker;

use super::{Carrier, CompleteFrame, server_clock};
use crate::world::RunError;

/// Offset of the player's clock, so that it can connect before the world's time zero.
const PLAYER_CLOCK_OFFSET: Span = Span::from_secs(10);
/// Time before the session at which connecting begins. It takes a fraction of that.
const CONNECT_LEAD_TIME: Span = Span::from_secs(1);
/// Interval between requests for a key frame while undecodable frames arrive. Guess: about what libwebrtc does.
const KEY_FRAME_RETRY: Span = Span::from_millis(200);
/// Frames whose timestamps are remembered: two seconds at 120 frames a second.
const MAX_NAMED_FRAMES: usize = 256;
/// Label of the data channel for inputs and reports.
const DATA_CHANNEL: &str = "session";
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 8_091);
const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 40_000);

/// The configuration of a session over WebRTC.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct WebRtcConfig {
    pub(in crate::world) start: Time,
    pub(in crate::world) codec: CodecKind,
    pub(in crate::world) datagram: usize,
    /// Interval of transport-wide feedback.
    pub(in crate::world) feedback_every: Span,
    /// The client accepts repair packets as FlexFEC.
    pub(in crate::world) flexfec: bool,
    pub(in crate::world) seed: u64,
}

/// A sent frame, which the player identifies by its RTP timestamp.
#[derive(Clone, Copy)]
struct TimestampedFrame {
    timestamp: u32,
    id: FrameId,
    key: bool,
    arrived_at: Option<Time>,
}

pub(in crate::world) struct WebRtc {
    peer: Peer,
    player: Player,
    receiver: Receiver,
    channel: ChannelId,
    named: VecDeque<TimestampedFrame>,
    whole: VecDeque<PlayedFrame>,
    given_up: u64,
    /// Only a key frame can be decoded.
    broken: bool,
    key_frame_asked_at: Option<Time>,
}

#[expect(clippy::disallowed_methods, reason = "the library's times have no other name; only differences matter")]
fn origin() -> Instant {
    Instant::now()
}

fn address((address, port): ([u8; 4], u16)) -> SocketAddr {
    (address, port).into()
}

impl WebRtc {
    pub(in crate::world) fn connected(
        config: &WebRtcConfig,
        sender: Sender,
        receiver: Receiver,
    ) -> Result<Self, RunError> {
        let refused = |error: &dyn std::fmt::Display| RunError::WebRtc(error.to_string());
        let origin = origin();
        let (server, client) =
            (server_clock(config.start) - CONNECT_LEAD_TIME, player_clock(config.start) - CONNECT_LEAD_TIME);
        let reporting = Reporting::TransportWide(config.feedback_every);
        let player_config = PlayerConfig { reporting, flexfec: config.flexfec, ..PlayerConfig::default() };
        let (mut player, offer) =
            Player::with_config(player_config, client, origin, address(CLIENT)).map_err(|error| refused(&error))?;
        let offer = Offer::parse(&offer).map_err(|error| refused(&error))?;
        let codec = offer.video().iter().find(|offered| offered.codec == config.codec);
        let certificate = Certificate::generate().map_err(|error| refused(&error))?;
        let candidates = vec![address(SERVER)];
        let peer = PeerConfig {
            origin,
            candidates,
            tcp_candidates: Vec::new(),
            certificate,
            seed: config.seed,
            datagram: config.datagram,
        };
        let mut peer = Peer::answering(server, peer, &offer, codec, sender).map_err(|error| refused(&error))?;
        let answer = peer.on_offer(server, &offer).map_err(|error| refused(&error))?;
        player.on_answer(client, &answer).map_err(|error| refused(&error))?;
        let channel = connect(&mut peer, &mut player, (server, client))
            .ok_or_else(|| RunError::WebRtc("ICE found no path between the two ends".into()))?;
        peer.set_note_channel(Some(channel));
        Ok(Self {
            peer,
            player,
            receiver,
            channel,
            named: VecDeque::new(),
            whole: VecDeque::new(),
            given_up: 0,
            broken: false,
            key_frame_asked_at: None,
        })
    }

    fn named(&self, frame: FrameId) -> Option<&TimestampedFrame> {
        self.named.iter().rev().find(|named| named.id == frame)
    }

    fn take_played(&mut self) {
        self.whole.extend(std::iter::from_fn(|| self.player.poll_frame()));
    }

    fn next_whole(&mut self, now: Time) -> Option<CompleteFrame> {
        loop {
            let played = self.whole.pop_front()?;
            let Some(named) = self.named.iter_mut().rev().find(|named| named.timestamp == played.rtp_timestamp) else {
                continue;
            };
            let TimestampedFrame { id, key, .. } = *named;
            named.arrived_at = Some(now);
            if self.player.given_up() != self.given_up {
                self.given_up = self.player.given_up();
                self.broken = true;
            }
            self.broken &= !key;
            if self.broken {
                self.request_key_frame(now);
                continue;
            }
            return Some(CompleteFrame::Played { id, show: self.whole.is_empty(), bits: played.bits });
        }
    }

    fn request_key_frame(&mut self, now: Time) {
        if self.key_frame_asked_at.is_none_or(|at| now - at >= KEY_FRAME_RETRY) {
            self.key_frame_asked_at = Some(now);
            self.player.request_key_frame(player_clock(now));
        }
    }
}

impl Carrier for WebRtc {
    fn sender(&self) -> &Sender {
        self.peer.sender()
    }

    fn sender_mut(&mut self) -> &mut Sender {
        self.peer.sender_mut()
    }

    fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    fn on_frame(&mut self, at_server: Time, frame: EncodedFrame<'_>) {
        let timestamp = self.peer.timestamp_at(frame.header.render_started_at).unwrap_or_default();
        let named = TimestampedFrame { timestamp, id: frame.id, key: frame.reference.is_none(), arrived_at: None };
        if named.key {
            self.player.expect_key_frame(timestamp);
        }
        self.named.push_back(named);
        if self.named.len() > MAX_NAMED_FRAMES {
            self.named.pop_front();
        }
        self.peer.on_frame(at_server, frame);
    }

    /// Finds the frame by the RTP timestamp, which is not encrypted. Other streams have other timestamps.
    fn frame_of(&self, bytes: &[u8]) -> Option<FrameId> {
        if !is_rtp(bytes) {
            return None;
        }
        let timestamp = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
        self.named.iter().rev().find(|named| named.timestamp == timestamp).map(|named| named.id)
    }

    fn on_server_datagram(&mut self, at_server: Time, bytes: &[u8]) {
        self.peer.on_datagram(at_server, Remote::udp(address(CLIENT)), address(SERVER), bytes);
        while let Some(event) = self.peer.poll_event() {
            if let Event::Message { message: Message::Binary(bytes), .. } = event {
                self.peer.sender_mut().on_datagram(at_server, &bytes);
            }
        }
    }

    fn on_server_timeout(&mut self, at_server: Time) {
        self.peer.on_timeout(at_server);
    }

    fn poll_server_transmit(&mut self, at_server: Time) -> Option<Vec<u8>> {
        while let Some(datagram) = self.peer.sender_mut().poll_non_media(at_server) {
            // A full channel loses it like a full path would.
            let _ = self.peer.send(at_server, self.channel, Message::Binary(datagram));
        }
        self.peer.poll_transmit(at_server).map(|transmit| transmit.datagram)
    }

    fn poll_server_timeout(&mut self) -> Option<(Time, Wake)> {
        self.peer.poll_timeout()
    }

    /// Marks are ignored: the library does not report them.
    fn on_client_datagram(&mut self, now: Time, bytes: &[u8], _marked: bool) {
        self.player.on_datagram(player_clock(now), address(SERVER), bytes);
        self.take_played();
        while let Some((_, message)) = self.player.poll_message() {
            if let Message::Binary(bytes) = message {
                self.receiver.on_datagram(now, &bytes);
            }
        }
    }

    fn on_client_timeout(&mut self, now: Time) {
        self.player.on_timeout(player_clock(now));
        self.take_played();
        self.receiver.on_timeout(now);
        while let Some(bytes) = self.receiver.poll_transmit(now) {
            self.player.send(player_clock(now), DATA_CHANNEL, Message::Binary(bytes));
        }
    }

    fn poll_client_transmit(&mut self, _now: Time) -> Option<Vec<u8>> {
        self.player.poll_transmit().map(|transmit| transmit.datagram)
    }

    fn poll_client_timeout(&mut self) -> Option<(Time, Wake)> {
        let receiver = self.receiver.poll_timeout();
        let player = self.player.poll_timeout();
        let player = player.map(|at| (at.max(Time::ZERO + PLAYER_CLOCK_OFFSET) - PLAYER_CLOCK_OFFSET, Wake::Transport));
        [receiver, player].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn poll_frame(&mut self, now: Time) -> Option<CompleteFrame> {
        self.next_whole(now)
    }

    fn on_decoded(&mut self, now: Time, frame: FrameId) {
        let Some(named) = self.named(frame) else { return };
        let facts = PictureFacts { rtp_timestamp: named.timestamp, received_at: named.arrived_at };
        self.receiver.rtp().on_picture(now, facts);
    }

    fn on_decode_failed(&mut self, now: Time, _frame: FrameId) {
        self.broken = true;
        self.request_key_frame(now);
    }

    fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Marker) -> Option<DisplayedFrame> {
        let timestamp = self.named(frame)?.timestamp;
        self.receiver.rtp().on_displayed(now, timestamp, Some(marker))
    }

    /// None: browsers do not report it.
    fn recovery(&self, _now: Time) -> Option<RecoveryCounts> {
        None
    }
}

/// Distinguishes RTP by its first bytes (RFC 7983) and from RTCP (RFC 5761, section 4).
fn is_rtp(bytes: &[u8]) -> bool {
    matches!(bytes, [128..=191, second, ..] if !(192..=223).contains(second))
}

fn player_clock(now: Time) -> Time {
    now + PLAYER_CLOCK_OFFSET
}

/// Connects both peers. Returns the server's id of the data channel once it is open at both ends.
fn connect(peer: &mut Peer, player: &mut Player, (mut server, mut client): (Time, Time)) -> Option<ChannelId> {
    let end = server + CONNECT_LEAD_TIME;
    let mut channel = None;
    while server < end {
        loop {
            let down = peer.poll_transmit(server);
            if let Some(transmit) = &down {
                player.on_datagram(client, address(SERVER), &transmit.datagram);
            }
            let up = player.poll_transmit();
            if let Some(transmit) = &up {
                peer.on_datagram(server, Remote::udp(address(CLIENT)), address(SERVER), &transmit.datagram);
            }
            if down.is_none() && up.is_none() {
                break;
            }
        }
        while let Some(event) = peer.poll_event() {
            if let Event::Opened { channel: opened, label } = event
                && label == DATA_CHANNEL
            {
                channel = Some(opened);
            }
        }
        if channel.is_some() && peer.is_connected() && player.is_open(DATA_CHANNEL) {
            return channel;
        }
        let until_peer = peer.poll_timeout().map_or(CONNECT_LEAD_TIME, |(at, _)| at - server);
        let until_player = player.poll_timeout().map_or(CONNECT_LEAD_TIME, |at| at - client);
        let step = until_peer.min(until_player).max(Span::from_micros(100));
        (server, client) = (server + step, client + step);
        peer.on_timeout(server);
        player.on_timeout(client);
    }
    None
}
