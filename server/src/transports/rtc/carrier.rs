//! A WebRTC peer as a session's carrier: media as RTP, Nearlight's own messages on data channels where the client opens them.

use nearlight_session::{EncodedFrame, Sender, ServerEnd, SoundPacket, Wake};
use nearlight_units::Time;
use nearlight_webrtc::{ChannelId, Event, Message, Peer};
use nearlight_wire::{ClientMessage, ServerMessage, ToServer};
use tokio::sync::mpsc;

use super::socket::PeerSocket;
use crate::transports::carrier::{Carrier, CarrierEvent};

/// Why a session ends when its client has triggered a bug in the WebRTC library.
pub(crate) const LIBRARY_FAILED: &str = "the WebRTC library failed on the client's data";
/// Labels of the data channels.
const CONTROL: &str = "control";
const SESSION: &str = "session";
const NOTES: &str = "notes";

/// A request over WHEP to end a session.
#[derive(Debug)]
pub(crate) struct EndRequest;

/// Sends such a request to a session.
pub(crate) type EndSender = mpsc::Sender<EndRequest>;

/// A WebRTC peer with the socket that carries its datagrams.
pub(crate) struct ConnectedPeer {
    pub(crate) peer: Peer,
    line: PeerSocket,
}

impl ConnectedPeer {
    pub(crate) const fn new(peer: Peer, line: PeerSocket) -> Self {
        Self { peer, line }
    }

    /// Waits for a datagram and processes it. Returns the time of its arrival.
    pub(crate) async fn recv(&mut self) -> Result<Option<Time>, String> {
        let incoming = self.line.recv().await.ok_or("the server's socket is gone")?;
        self.peer.on_datagram(incoming.at, incoming.from, incoming.to(), &incoming.datagram);
        Ok(Some(incoming.at))
    }

    pub(crate) fn transmit(&mut self, now: Time) {
        while let Some(transmit) = self.peer.poll_transmit(now) {
            self.line.send(transmit.to, &transmit.datagram);
        }
    }

    pub(crate) fn close(&mut self, now: Time) {
        self.peer.close();
        self.transmit(now);
    }
}

pub(crate) struct WebRtcCarrier {
    connection: ConnectedPeer,
    requests: mpsc::Receiver<EndRequest>,
    control: Option<ChannelId>,
    session: Option<ChannelId>,
    /// The channel that the server opens for frame notes. Until it is open, the client's own channel serves both directions.
    notes: Option<ChannelId>,
    /// Whether the client has sent its hello. Its offer has already proved that it knows the token.
    hello_received: bool,
}

impl WebRtcCarrier {
    pub(crate) fn new(peer: Peer, line: PeerSocket) -> (Self, EndSender) {
        let (end_sender, requests) = mpsc::channel(1);
        let connection = ConnectedPeer::new(peer, line);
        (Self { connection, requests, control: None, session: None, notes: None, hello_received: false }, end_sender)
    }

    /// Returns the channel for frame notes and pongs.
    fn note_channel(&self) -> Option<ChannelId> {
        self.notes.or(self.session).filter(|_| self.hello_received)
    }

    fn choose_note_channel(&mut self) {
        self.connection.peer.set_note_channel(self.note_channel());
    }

    fn on_opened(&mut self, channel: ChannelId, label: &str) {
        match label {
            CONTROL if self.control.is_none() => self.control = Some(channel),
            SESSION if self.session.is_none() => self.session = Some(channel),
            NOTES if self.hello_received && self.notes.is_none() => self.notes = Some(channel),
            _ => {}
        }
        self.choose_note_channel();
    }

    fn on_closed(&mut self, channel: ChannelId) {
        for known in [&mut self.control, &mut self.session, &mut self.notes] {
            *known = known.filter(|other| *other != channel);
        }
        self.choose_note_channel();
    }

    fn on_message(&mut self, now: Time, channel: ChannelId, message: &Message) -> Option<CarrierEvent> {
        if Some(channel) == self.session {
            if let (Message::Binary(datagram), true) = (message, self.hello_received) {
                self.on_session(now, datagram);
            }
            return None;
        }
        if Some(channel) != self.control {
            return None;
        }
        let bytes = match message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
        };
        let Ok(message) = serde_json::from_slice(bytes) else {
            let reason = "the client's control message is not the JSON that the protocol describes";
            return Some(CarrierEvent::Closed(reason.into()));
        };
        if matches!(message, ClientMessage::Hello(_)) && !self.hello_received {
            self.hello_received = true;
            if let Err(error) = self.connection.peer.open_unreliable(NOTES) {
                tracing::warn!(%error, "cannot open the channel for frame notes; they use the client's channel");
            }
            self.choose_note_channel();
        }
        Some(CarrierEvent::Message(message))
    }

    /// Processes a message on the session channel, if the protocol allows it there.
    fn on_session(&mut self, now: Time, datagram: &[u8]) {
        match ToServer::parse(datagram) {
            Ok(message) => {
                let allowed = match message {
                    ToServer::Input(_)
                    | ToServer::Hand(_)
                    | ToServer::Application(_)
                    | ToServer::Ping(_)
                    | ToServer::Report(_) => true,
                    // Over WebRTC, RTCP carries these.
                    ToServer::Feedback(_)
                    | ToServer::Nack(_)
                    | ToServer::KeyFrameRequest(_)
                    | ToServer::Acknowledgement(_) => false,
                };
                if allowed {
                    self.sender_mut().on_message(now, message);
                } else {
                    tracing::debug!("ignored a datagram over WebRTC that only Nearlight's own transport uses");
                }
            }
            // The sender counts malformed datagrams.
            Err(_) => self.sender_mut().on_datagram(now, datagram),
        }
    }
}

impl ServerEnd for WebRtcCarrier {
    fn sender(&self) -> &Sender {
        self.connection.peer.sender()
    }

    fn sender_mut(&mut self) -> &mut Sender {
        self.connection.peer.sender_mut()
    }

    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        self.connection.peer.on_frame(now, frame);
    }

    fn on_sound(&mut self, now: Time, packet: SoundPacket) {
        self.connection.peer.on_sound(now, packet.made_at, packet.bytes);
    }

    fn transmit(&mut self, now: Time) {
        if let Some(channel) = self.note_channel() {
            while let Some(datagram) = self.sender_mut().poll_non_media(now) {
                let _ = self.connection.peer.send(now, channel, Message::Binary(datagram));
            }
        }
        self.connection.transmit(now);
    }

    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        self.connection.peer.poll_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.connection.peer.on_timeout(now);
    }
}

impl Carrier for WebRtcCarrier {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        tokio::select! {
            heard = self.connection.recv() => heard,
            request = self.requests.recv() => match request {
                Some(EndRequest) => Err("the client ended the session".into()),
                None => Err("the session was removed".into()),
            },
        }
    }

    fn poll_event(&mut self, now: Time) -> Option<CarrierEvent> {
        loop {
            match self.connection.peer.poll_event()? {
                Event::Connected => return Some(CarrierEvent::Connected),
                Event::Opened { channel, label } => self.on_opened(channel, &label),
                Event::Message { channel, message } => {
                    if let Some(event) = self.on_message(now, channel, &message) {
                        return Some(event);
                    }
                }
                Event::Closed { channel } => self.on_closed(channel),
                Event::Ended => return Some(CarrierEvent::Closed("the client's connection ended".into())),
                Event::Failed => return Some(CarrierEvent::Closed(LIBRARY_FAILED.into())),
            }
        }
    }

    /// Sends a control message. Messages that a client does not read are dropped, and its pictures continue.
    fn send(&mut self, now: Time, message: ServerMessage) -> Result<(), String> {
        if let Some(channel) = self.control.filter(|_| self.hello_received)
            && let Ok(text) = serde_json::to_string(&message)
        {
            let _ = self.connection.peer.send(now, channel, Message::Text(text));
        }
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        let control = self.control.filter(|_| self.hello_received);
        control.is_some_and(|channel| self.connection.peer.has_room(channel))
    }

    async fn close(&mut self, now: Time, ended: &str) {
        let _ = self.send(now, ServerMessage::Goodbye { message: ended.to_owned() });
        self.connection.transmit(now);
        self.connection.close(now);
    }
}
