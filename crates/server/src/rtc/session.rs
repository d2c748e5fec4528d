//! One WebRTC client's session, from its offer to its end.

use std::sync::Arc;

use nearlight_net::Alarm;
use nearlight_units::{Span, Time};
use nearlight_webrtc::{ChannelId, Event, Message, Peer};
use nearlight_wire::{ClientMessage, ServerMessage, ToServer};
use tokio::sync::mpsc;

use super::socket::Line;
use crate::admission::{PERMIT_LOST, Permit};
use crate::mailbox::Delivery;
use crate::session_common::{SessionCommon, status_interval};
use crate::state::{Rejection, clean};

/// A client that has not connected by then never will: a browser gives up sooner.
pub(crate) const CONNECT_LIMIT: Span = Span::from_secs(20);
/// How a session ends whose client has found a fault of the WebRTC library's.
pub(crate) const LIBRARY_FAILED: &str = "the client sent what the WebRTC library failed on";
/// A request over WHEP that a session ends.
#[derive(Debug)]
pub(crate) struct End;

/// Where such a request is made.
pub(crate) type Ender = mpsc::Sender<End>;

/// A session that waits for its client to connect.
pub(crate) struct RtcSessionTask {
    common: SessionCommon,
    peer: Peer,
    line: Line,
    requests: mpsc::Receiver<End>,
    /// Given back at the end.
    permit: Permit,
    control: Option<ChannelId>,
    session: Option<ChannelId>,
    /// Ours towards the client; until it is open, the client's own serves both directions.
    notes: Option<ChannelId>,
    /// The client said hello. That it knows the token its offer has shown.
    greeted: bool,
    began: Time,
}

impl RtcSessionTask {
    pub(crate) fn new(common: SessionCommon, peer: Peer, line: Line, permit: Permit) -> (Box<Self>, Ender) {
        let (sender, requests) = mpsc::channel(1);
        let began = common.state.clock.now();
        let task = Self {
            common,
            peer,
            line,
            requests,
            permit,
            control: None,
            session: None,
            notes: None,
            greeted: false,
            began,
        };
        (Box::new(task), sender)
    }

    /// Serves until the client leaves, the server closes or something fails.
    pub(crate) async fn run(mut self: Box<Self>) {
        let (state, session) = (Arc::clone(&self.common.state), self.common.session);
        let open = state.metrics.open_session(session);
        let ended = self.serve().await;
        self.common.leave(self.peer.sender_mut());
        let now = state.clock.now();
        self.say(now, &ServerMessage::Goodbye { message: ended.clone() });
        self.transmit(now);
        self.peer.close();
        self.transmit(now);
        drop(open);
        tracing::info!(session, ended, "a WebRTC client left");
    }

    async fn serve(&mut self) -> String {
        let clock = self.common.state.clock;
        let mut closing = self.common.state.closing.clone();
        let (mut status, mut alarm) = (status_interval(), Alarm::new(clock));
        loop {
            let now = clock.now();
            let wake = self.peer.poll_timeout().unwrap_or(Time::FAR_FUTURE).min(now + Span::from_secs(1));
            tokio::select! {
                incoming = self.line.recv() => match incoming {
                    Some(incoming) => {
                        self.peer.on_datagram(incoming.at, incoming.from, incoming.to(), &incoming.datagram);
                        if self.peer.is_connected() {
                            self.permit.hear(incoming.at);
                        }
                    }
                    None => return "the server's socket is gone".into(),
                },
                delivery = self.common.deliveries.recv() => match delivery {
                    Some(Delivery::Frame(frame)) => self.peer.on_frame(clock.now(), frame),
                    Some(Delivery::Size(size, views)) => {
                        let stream = ServerMessage::Stream(self.common.resized(size, views));
                        self.say(clock.now(), &stream);
                    }
                    Some(Delivery::Failed(reason)) => return reason,
                    None => return "the renderer has stopped".into(),
                },
                Some(sound) = self.common.sounds.recv() => self.peer.on_sound(clock.now(), sound.made_at, sound.bytes),
                request = self.requests.recv() => match request {
                    Some(End) => return "the client ended the session".into(),
                    None => return "the session was forgotten".into(),
                },
                _ = status.tick(), if self.peer.is_connected() => {
                    let status = self.common.status(clock.now(), self.peer.sender());
                    self.say(clock.now(), &ServerMessage::Rate(status));
                }
                () = alarm.at(wake) => self.peer.on_timeout(clock.now()),
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    return "the server is shutting down".into();
                }
            }
            if let Some(ended) = self.drain() {
                return ended;
            }
        }
    }

    /// Everything that the peer has to hand out after new facts; says why where the session is over.
    fn drain(&mut self) -> Option<String> {
        let now = self.common.state.clock.now();
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::Connected => {
                    if !self.permit.hear(now) {
                        return Some(PERMIT_LOST.into());
                    }
                    if !self.common.begin() {
                        return Some("the renderer has stopped".into());
                    }
                }
                Event::Opened { channel, label } => match label.as_str() {
                    "control" if self.control.is_none() => self.control = Some(channel),
                    "session" if self.session.is_none() => {
                        self.session = Some(channel);
                        self.choose_note_channel();
                    }
                    "notes" if self.greeted && self.notes.is_none() => {
                        self.notes = Some(channel);
                        self.choose_note_channel();
                    }
                    _ => {}
                },
                Event::Message { channel, message } => {
                    if let Some(ended) = self.on_message(now, channel, &message) {
                        return Some(ended);
                    }
                }
                Event::Closed { channel } => {
                    self.control = self.control.filter(|other| *other != channel);
                    self.session = self.session.filter(|other| *other != channel);
                    self.notes = self.notes.filter(|other| *other != channel);
                    self.choose_note_channel();
                }
                Event::Ended => return Some("the client's connection ended".into()),
                Event::Failed => return Some(LIBRARY_FAILED.into()),
            }
        }
        if !self.peer.is_connected() && now.saturating_since(self.began) > CONNECT_LIMIT {
            return Some("the client did not connect".into());
        }
        if self.permit.is_lost() {
            return Some(PERMIT_LOST.into());
        }
        self.transmit(now);
        self.common.drain(now, self.peer.sender_mut());
        None
    }

    /// Where notes and pongs go.
    fn note_channel(&self) -> Option<ChannelId> {
        self.notes.or(self.session).filter(|_| self.greeted)
    }

    fn choose_note_channel(&mut self) {
        self.peer.set_note_channel(self.note_channel());
    }

    fn transmit(&mut self, now: Time) {
        if let Some(channel) = self.note_channel() {
            while let Some(pong) = self.peer.sender_mut().poll_pong(now) {
                let _ = self.peer.send(now, channel, Message::Binary(pong));
            }
        }
        while let Some(transmit) = self.peer.poll_transmit(now) {
            self.line.send(transmit.to, &transmit.datagram);
        }
    }

    fn on_message(&mut self, now: Time, channel: ChannelId, message: &Message) -> Option<String> {
        if Some(channel) == self.session {
            if let (Message::Binary(datagram), true) = (message, self.greeted) {
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
        match serde_json::from_slice(bytes) {
            Ok(ClientMessage::Hello(hello)) if !self.greeted => self.greet(now, &hello),
            Ok(ClientMessage::Hello(_)) => Some("the client greeted twice".into()),
            Ok(ClientMessage::Display { display, display_hz }) => {
                self.common.display = display;
                self.peer.sender_mut().set_display_hz(display_hz);
                None
            }
            Ok(ClientMessage::Goodbye) => Some("the client said goodbye".into()),
            Err(_) => Some("the client's control message is not the JSON that the protocol describes".into()),
        }
    }

    fn greet(&mut self, now: Time, hello: &nearlight_wire::Hello) -> Option<String> {
        let refused = self.common.state.check_version(hello);
        if let Err(Rejection { reason, message, .. }) = refused {
            self.say_always(now, &ServerMessage::Refused { reason, message: message.clone() });
            return Some(message);
        }
        self.greeted = true;
        self.common.display = hello.display;
        self.peer.sender_mut().set_display_hz(hello.display_hz);
        if let Err(error) = self.peer.open_unreliable("notes") {
            tracing::warn!(session = self.common.session, %error, "notes go over the client's channel, where losses hold them up");
        }
        self.choose_note_channel();
        tracing::info!(session = self.common.session, client = clean(&hello.client), "a WebRTC client said hello");
        let welcome = ServerMessage::Welcome(self.common.welcome(self.peer.sender()));
        self.say(now, &welcome);
        None
    }

    /// Only what the protocol lets over this channel.
    fn on_session(&mut self, now: Time, datagram: &[u8]) {
        match ToServer::parse(datagram) {
            Ok(ToServer::Input(_) | ToServer::Ping(_) | ToServer::Report(_)) | Err(_) => {
                self.peer.sender_mut().on_datagram(now, datagram);
            }
            Ok(_) => {}
        }
    }

    fn say(&mut self, now: Time, message: &ServerMessage) {
        if self.greeted {
            self.say_always(now, message);
        }
    }

    /// A client that does not take its messages loses them; its pictures go on.
    fn say_always(&mut self, now: Time, message: &ServerMessage) {
        if let Some(channel) = self.control
            && let Ok(text) = serde_json::to_string(message)
        {
            let _ = self.peer.send(now, channel, Message::Text(text));
        }
    }
}
