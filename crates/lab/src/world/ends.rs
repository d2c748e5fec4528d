//! Both ends of a session as the world drives them: with datagrams of our own between them, or with WebRTC's protocols.
//!
//! Over WebRTC the server's end is the very peer that serves browsers, and the client's a player that reports, asks for repairs and
//! puts frames together as browsers do; beside it our receiver sends inputs and pings on a data channel and knows the display, as in
//! the page. They are connected before the session begins, over a path without delay.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use nearlight_events::RecoveryCounts;
use nearlight_session::{Displayed, EncodedFrame, PictureFacts, ReadyFrame, Receiver, Sender};
use nearlight_units::{FrameId, Span, Time};
use nearlight_webrtc::player::{PlayedFrame, Player, PlayerConfig, Reporting};
use nearlight_webrtc::{Certificate, ChannelId, CodecKind, Event, Message, Offer, Peer, PeerConfig, Remote};
use nearlight_wire::ToClient;
use nearlight_wire::marker::Marker;

use super::RunError;

/// The server's clock is ahead by this: nothing may rely on equal clocks.
const CLOCKS_APART: Span = Span::from_secs(1_000);
/// The player's clock is ahead by this, so that it can connect before the world's time begins.
const PLAYER_AHEAD: Span = Span::from_secs(10);
/// Connecting begins so long before the session; it takes a fraction of that.
const CONNECTING: Span = Span::from_secs(1);
/// A request for a key frame is repeated after this while frames come that cannot be decoded. Guess: about what libwebrtc does.
const KEY_FRAME_RETRY: Span = Span::from_millis(200);
/// Frames whose names are remembered: two seconds at 120 frames a second.
const MAX_NAMED: usize = 256;
/// The channel for inputs and notes.
const CHANNEL: &str = "session";
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 8_091);
const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 40_000);

/// How a session goes over WebRTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebRtcConfig {
    pub(crate) start: Time,
    pub(crate) codec: CodecKind,
    pub(crate) datagram: usize,
    /// From one report of arrivals to the next.
    pub(crate) feedback_every: Span,
    /// The client takes repairs, as FlexFEC.
    pub(crate) mends: bool,
    pub(crate) seed: u64,
}

pub(crate) struct Ends {
    near: Near,
    pub(crate) receiver: Receiver,
}

enum Near {
    Own(Box<Sender>),
    WebRtc(Box<WebRtc>),
}

/// A frame that the player will name by its timestamp.
#[derive(Clone, Copy)]
struct Named {
    timestamp: u32,
    id: FrameId,
    key: bool,
    arrived_at: Option<Time>,
}

struct WebRtc {
    peer: Peer,
    player: Player,
    channel: ChannelId,
    named: VecDeque<Named>,
    whole: VecDeque<PlayedFrame>,
    given_up: u64,
    /// Nothing but a key frame can be decoded.
    broken: bool,
    key_frame_asked_at: Option<Time>,
}

/// A frame for the decoder.
pub(crate) enum Whole {
    Own(ReadyFrame),
    WebRtc { id: FrameId, show: bool, bits: Vec<u8> },
}

impl Whole {
    pub(crate) const fn id(&self) -> FrameId {
        match self {
            Self::Own(frame) => frame.id,
            Self::WebRtc { id, .. } => *id,
        }
    }

    /// Whether no newer one waits.
    pub(crate) const fn show(&self) -> bool {
        match self {
            Self::Own(frame) => frame.show,
            Self::WebRtc { show, .. } => *show,
        }
    }

    pub(crate) fn bits(&self) -> &[u8] {
        match self {
            Self::Own(frame) => frame.bits(),
            Self::WebRtc { bits, .. } => bits,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the library's times have no other name; only differences matter")]
fn origin() -> Instant {
    Instant::now()
}

fn address((address, port): ([u8; 4], u16)) -> SocketAddr {
    (address, port).into()
}

impl Ends {
    pub(crate) fn new(sender: Sender, receiver: Receiver) -> Self {
        Self { near: Near::Own(Box::new(sender)), receiver }
    }

    pub(crate) fn over_webrtc(config: &WebRtcConfig, sender: Sender, receiver: Receiver) -> Result<Self, RunError> {
        let refused = |error: &dyn std::fmt::Display| RunError::WebRtc(error.to_string());
        let origin = origin();
        let (server, client) = (Self::server_clock(config.start) - CONNECTING, player_clock(config.start) - CONNECTING);
        let reporting = Reporting::TransportWide(config.feedback_every);
        let player_config = PlayerConfig { reporting, mends: config.mends, ..PlayerConfig::default() };
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
            .ok_or_else(|| RunError::WebRtc("the two ends do not find each other".into()))?;
        peer.set_note_channel(Some(channel));
        let webrtc = WebRtc {
            peer,
            player,
            channel,
            named: VecDeque::new(),
            whole: VecDeque::new(),
            given_up: 0,
            broken: false,
            key_frame_asked_at: None,
        };
        Ok(Self { near: Near::WebRtc(Box::new(webrtc)), receiver })
    }

    /// The server's clock.
    pub(crate) fn server_clock(now: Time) -> Time {
        now + CLOCKS_APART
    }

    /// [`nearlight_session::MediaTarget::best_capture`] in the world's clock.
    pub(crate) fn best_capture(&self) -> Option<Time> {
        self.sender().target().best_capture.map(|at| at - CLOCKS_APART)
    }

    pub(crate) fn sender(&self) -> &Sender {
        match &self.near {
            Near::Own(sender) => sender,
            Near::WebRtc(webrtc) => webrtc.peer.sender(),
        }
    }

    pub(crate) fn sender_mut(&mut self) -> &mut Sender {
        match &mut self.near {
            Near::Own(sender) => sender,
            Near::WebRtc(webrtc) => webrtc.peer.sender_mut(),
        }
    }

    pub(crate) fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        let now = Self::server_clock(now);
        match &mut self.near {
            Near::Own(sender) => sender.on_frame(now, frame),
            Near::WebRtc(webrtc) => {
                let timestamp = webrtc.peer.timestamp_at(frame.header.render_started_at).unwrap_or_default();
                let named = Named { timestamp, id: frame.id, key: frame.reference.is_none(), arrived_at: None };
                if named.key {
                    webrtc.player.expect_key_frame(timestamp);
                }
                webrtc.named.push_back(named);
                if webrtc.named.len() > MAX_NAMED {
                    webrtc.named.pop_front();
                }
                webrtc.peer.on_frame(now, frame);
            }
        }
    }

    /// A datagram came to the server.
    pub(crate) fn on_server_datagram(&mut self, now: Time, bytes: &[u8]) {
        let now = Self::server_clock(now);
        match &mut self.near {
            Near::Own(sender) => sender.on_datagram(now, bytes),
            Near::WebRtc(webrtc) => {
                webrtc.peer.on_datagram(now, Remote::udp(address(CLIENT)), address(SERVER), bytes);
                while let Some(event) = webrtc.peer.poll_event() {
                    if let Event::Message { message: Message::Binary(bytes), .. } = event {
                        webrtc.peer.sender_mut().on_datagram(now, &bytes);
                    }
                }
            }
        }
    }

    /// A datagram came to the client, marked by a queue on its way or not.
    pub(crate) fn on_client_datagram(&mut self, now: Time, bytes: &[u8], marked: bool) {
        match &mut self.near {
            Near::Own(_) if marked => self.receiver.on_marked_datagram(now, bytes),
            Near::Own(_) => self.receiver.on_datagram(now, bytes),
            Near::WebRtc(webrtc) => {
                webrtc.player.on_datagram(player_clock(now), address(SERVER), bytes);
                webrtc.whole.extend(std::iter::from_fn(|| webrtc.player.poll_frame()));
                while let Some((_, message)) = webrtc.player.poll_message() {
                    if let Message::Binary(bytes) = message {
                        self.receiver.on_datagram(now, &bytes);
                    }
                }
            }
        }
    }

    /// Of which frame a datagram to the client carries a piece, whichever time it is sent.
    pub(crate) fn frame_of(&self, bytes: &[u8]) -> Option<FrameId> {
        match &self.near {
            Near::Own(_) => match ToClient::parse(bytes) {
                Ok(ToClient::Symbol(header, _)) if !header.flags.probe => Some(header.frame),
                _ => None,
            },
            // RTP's header is in the clear; other sources than the picture's have other timestamps.
            Near::WebRtc(webrtc) if is_rtp(bytes) => {
                let timestamp = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
                webrtc.named.iter().rev().find(|named| named.timestamp == timestamp).map(|named| named.id)
            }
            Near::WebRtc(_) => None,
        }
    }

    /// The server's timers, before its datagrams are taken.
    pub(crate) fn wake_server(&mut self, now: Time) {
        let now = Self::server_clock(now);
        let webrtc = match &mut self.near {
            Near::Own(sender) => return sender.on_timeout(now),
            Near::WebRtc(webrtc) => webrtc,
        };
        webrtc.peer.on_timeout(now);
        while let Some(datagram) = webrtc.peer.sender_mut().poll_beside(now) {
            // A full channel loses it like a full path would.
            let _ = webrtc.peer.send(now, webrtc.channel, Message::Binary(datagram));
        }
    }

    pub(crate) fn poll_server(&mut self, now: Time) -> Option<Vec<u8>> {
        let now = Self::server_clock(now);
        match &mut self.near {
            Near::Own(sender) => sender.poll_transmit(now),
            Near::WebRtc(webrtc) => webrtc.peer.poll_transmit(now).map(|transmit| transmit.datagram),
        }
    }

    /// A datagram of the server's is of no more use.
    pub(crate) fn take_back(&mut self, datagram: Vec<u8>) {
        if let Near::Own(sender) = &mut self.near {
            sender.take_back(datagram);
        }
    }

    pub(crate) fn server_due(&mut self) -> Option<Time> {
        let due = match &mut self.near {
            Near::Own(sender) => sender.poll_timeout(),
            Near::WebRtc(webrtc) => webrtc.peer.poll_timeout(),
        };
        due.map(|(at, _)| at - CLOCKS_APART)
    }

    /// The same for the client.
    pub(crate) fn wake_client(&mut self, now: Time) {
        if let Near::WebRtc(webrtc) = &mut self.near {
            webrtc.player.on_timeout(player_clock(now));
            webrtc.whole.extend(std::iter::from_fn(|| webrtc.player.poll_frame()));
            while let Some(bytes) = self.receiver.poll_transmit(now) {
                webrtc.player.send(player_clock(now), CHANNEL, Message::Binary(bytes));
            }
        }
    }

    pub(crate) fn poll_client(&mut self, now: Time) -> Option<Vec<u8>> {
        match &mut self.near {
            Near::Own(_) => self.receiver.poll_transmit(now),
            Near::WebRtc(webrtc) => webrtc.player.poll_transmit().map(|transmit| transmit.datagram),
        }
    }

    pub(crate) fn client_due(&mut self) -> Option<Time> {
        let receiver = self.receiver.poll_timeout().map(|(at, _)| at);
        let player = match &mut self.near {
            Near::Own(_) => None,
            Near::WebRtc(webrtc) => webrtc.player.poll_timeout(),
        };
        let player = player.map(|at| at.max(Time::ZERO + PLAYER_AHEAD) - PLAYER_AHEAD);
        [receiver, player].into_iter().flatten().min()
    }

    /// Whether time alone has brought a frame for the decoder: over WebRTC, where a gap before it was given up.
    pub(crate) fn has_late_frame(&self) -> bool {
        matches!(&self.near, Near::WebRtc(webrtc) if !webrtc.whole.is_empty())
    }

    /// How frames that had lost something became whole; none over WebRTC, where browsers do not tell.
    pub(crate) fn recovery(&self, now: Time) -> Option<RecoveryCounts> {
        match &self.near {
            Near::Own(_) => Some(self.receiver.statistics(now).recovery),
            Near::WebRtc(_) => None,
        }
    }

    /// The next frame for the decoder.
    pub(crate) fn poll_frame(&mut self, now: Time) -> Option<Whole> {
        match &mut self.near {
            Near::Own(_) => self.receiver.poll_frame(now).map(Whole::Own),
            Near::WebRtc(webrtc) => webrtc.poll_frame(now),
        }
    }

    pub(crate) fn on_decoded(&mut self, now: Time, frame: FrameId) {
        match &self.near {
            Near::Own(_) => self.receiver.on_decoded(now, frame),
            Near::WebRtc(webrtc) => {
                let Some(named) = webrtc.named(frame) else { return };
                let facts = PictureFacts { rtp_timestamp: named.timestamp, received_at: named.arrived_at };
                self.receiver.on_picture(now, facts);
            }
        }
    }

    pub(crate) fn on_decode_failed(&mut self, now: Time, frame: FrameId) {
        match &mut self.near {
            Near::Own(_) => self.receiver.on_decode_failed(now, frame),
            Near::WebRtc(webrtc) => {
                webrtc.broken = true;
                webrtc.request_key_frame(now);
            }
        }
    }

    pub(crate) fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Marker) -> Option<Displayed> {
        match &self.near {
            Near::Own(_) => self.receiver.on_displayed(now, frame, Some(marker)),
            Near::WebRtc(webrtc) => {
                let timestamp = webrtc.named(frame)?.timestamp;
                self.receiver.on_picture_displayed(now, timestamp, Some(marker))
            }
        }
    }
}

impl WebRtc {
    fn named(&self, frame: FrameId) -> Option<&Named> {
        self.named.iter().rev().find(|named| named.id == frame)
    }

    fn poll_frame(&mut self, now: Time) -> Option<Whole> {
        loop {
            let played = self.whole.pop_front()?;
            let Some(named) = self.named.iter_mut().rev().find(|named| named.timestamp == played.rtp_timestamp) else {
                continue;
            };
            let Named { id, key, .. } = *named;
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
            return Some(Whole::WebRtc { id, show: self.whole.is_empty(), bits: played.bits });
        }
    }

    fn request_key_frame(&mut self, now: Time) {
        if self.key_frame_asked_at.is_none_or(|at| now - at >= KEY_FRAME_RETRY) {
            self.key_frame_asked_at = Some(now);
            self.player.request_key_frame(player_clock(now));
        }
    }
}

/// RFC 7983, and RFC 5761 section 4 to tell RTCP apart.
fn is_rtp(bytes: &[u8]) -> bool {
    matches!(bytes, [128..=191, second, ..] if !(192..=223).contains(second))
}

fn player_clock(now: Time) -> Time {
    now + PLAYER_AHEAD
}

/// Lets the two find each other; the server's name of the channel, once it is open at both ends.
fn connect(peer: &mut Peer, player: &mut Player, (mut server, mut client): (Time, Time)) -> Option<ChannelId> {
    let end = server + CONNECTING;
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
                && label == CHANNEL
            {
                channel = Some(opened);
            }
        }
        if channel.is_some() && peer.is_connected() && player.is_open(CHANNEL) {
            return channel;
        }
        let until_peer = peer.poll_timeout().map_or(CONNECTING, |(at, _)| at - server);
        let until_player = player.poll_timeout().map_or(CONNECTING, |at| at - client);
        let step = until_peer.min(until_player).max(Span::from_micros(100));
        (server, client) = (server + step, client + step);
        peer.on_timeout(server);
        player.on_timeout(client);
    }
    None
}
