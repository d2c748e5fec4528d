//! A Unity client as a session's carrier: a WebRTC peer that the signalling task controls, and a user whose input arrives on the data
//! channel "input".

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearlight_codec::CodecKind;
use nearlight_net::{Clock, Token};
use nearlight_rooms::Role;
use nearlight_scene::START;
use nearlight_session::{EncodedFrame, ReceivedInput, Sender, ServerEnd, SoundPacket, Wake};
use nearlight_units::Time;
use nearlight_urs::User;
use nearlight_urs::signalling::{Guest, PeerId};
use nearlight_webrtc::{ChannelId, Event, Message, Offer, Peer, PeerError};
use nearlight_wire::{DisplayKind, Pose, ServerMessage};
use tokio::sync::mpsc;

use super::signalling::{PeerCommand, Peers, SignallingEvent};
use crate::access::admission::Permit;
use crate::session::SessionTask;
use crate::session::common::ClientPreferences;
use crate::state::{MediaTransport, ServerState};
use crate::transports::Sessions;
use crate::transports::carrier::{Carrier, CarrierEvent};
use crate::transports::rtc::{ConnectedPeer, LIBRARY_FAILED, RtcEndpoint, peer_config};

/// Label of the data channel that the web client opens.
const INPUT: &str = "input";

/// Starts session tasks, which run with the server's other sessions.
pub(crate) struct UnityPeers {
    pub(crate) state: Arc<ServerState>,
    pub(crate) endpoint: Arc<RtcEndpoint>,
    pub(crate) sessions: Sessions,
}

impl Peers for UnityPeers {
    fn open(
        &self,
        peer: PeerId,
        from: Guest,
        commands: mpsc::Receiver<PeerCommand>,
        events: mpsc::Sender<SignallingEvent>,
    ) {
        let (state, endpoint) = (Arc::clone(&self.state), Arc::clone(&self.endpoint));
        // A server that starts no more sessions drops the session, and the signalling task notices that its commands have no receiver.
        let session = UnitySession { state, endpoint, peer, from, commands, events };
        let _ = self.sessions.try_send(Box::pin(session.run()));
    }
}

/// A client that has made its first offer.
struct UnitySession {
    state: Arc<ServerState>,
    endpoint: Arc<RtcEndpoint>,
    peer: PeerId,
    from: Guest,
    commands: mpsc::Receiver<PeerCommand>,
    events: mpsc::Sender<SignallingEvent>,
}

impl UnitySession {
    /// Serves until the signalling task or the client ends it, the server closes or something fails.
    async fn run(mut self) {
        let Some(PeerCommand::Answer(offer)) = self.commands.recv().await else { return };
        let (number, permit, line, answer) = match self.begin(&offer) {
            Ok(begun) => begun,
            Err(reason) => {
                tracing::info!(client = %self.from.address, reason, "a Unity client was not admitted");
                self.events.send(SignallingEvent::Answer(self.peer, Err(reason))).await.ok();
                return;
            }
        };
        let Self { state, peer, commands, events, .. } = self;
        let picture = (state.format.size.width, state.format.size.height);
        let carrier = UnityCarrier {
            clock: state.clock,
            connection: line,
            id: peer,
            commands,
            events,
            unsent: [SignallingEvent::Answer(peer, Ok(answer))].into(),
            user: User::new(state.clock.now(), START, picture),
            input: None,
            negotiated: false,
        };
        Box::new(SessionTask::new(state, number, permit, carrier, None)).run().await;
    }

    fn begin(&self, offer: &str) -> Result<(u32, Permit, ConnectedPeer, String), String> {
        let offer = Offer::parse(offer).map_err(|error| error.to_string())?;
        let state = &self.state;
        let now = state.clock.now();
        let permit = state.try_admit(now, self.from.into()).map_err(|rejection| rejection.message)?;
        let number = state.next_session.fetch_add(1, Ordering::Relaxed);
        let name = Token::generate().map_err(|error| error.to_string())?.to_string();
        let sender = state.new_sender(now, MediaTransport::Rtp { reports_arrivals: true });
        // The owner's codec comes first. The browser chooses among them when it answers.
        let mut kinds = vec![state.codec];
        kinds.extend(CodecKind::ALL.into_iter().filter(|kind| *kind != state.codec));
        let config = peer_config(state, &self.endpoint, &name);
        let mut peer = Peer::offering(now, config, &kinds, true, sender).map_err(|error| error_message(&error))?;
        let answer = peer.on_offer(now, &offer).map_err(|error| error_message(&error))?;
        let line = peer.credentials().map(|own| self.endpoint.connect(own, state.emulated_path(number, now)));
        let line = line.ok_or("the answer has no ICE credentials")?;
        tracing::info!(session = number, client = %self.from.address, "a Unity client connected");
        Ok((number, permit, ConnectedPeer::new(peer, line), answer))
    }
}

struct UnityCarrier {
    clock: Clock,
    connection: ConnectedPeer,
    id: PeerId,
    commands: mpsc::Receiver<PeerCommand>,
    events: mpsc::Sender<SignallingEvent>,
    /// Replies to commands that the signalling task has not taken yet, at most as many as there were commands.
    unsent: VecDeque<SignallingEvent>,
    user: User,
    input: Option<ChannelId>,
    /// Whether the session was informed of the codec.
    negotiated: bool,
}

impl UnityCarrier {
    fn on_command(&mut self, command: Option<PeerCommand>) -> Result<(), String> {
        let now = self.clock.now();
        let peer = &mut self.connection.peer;
        match command.ok_or("the client's signalling ended")? {
            PeerCommand::Answer(offer) => {
                let offer = Offer::parse(&offer).map_err(|error| error.to_string());
                let answer = offer.and_then(|offer| peer.on_offer(now, &offer).map_err(|error| error_message(&error)));
                self.unsent.push_back(SignallingEvent::Answer(self.id, answer));
            }
            PeerCommand::Offer => {
                let offer = peer.offer(now, true).map_err(|error| error_message(&error));
                self.unsent.push_back(SignallingEvent::Offer(self.id, offer));
            }
            PeerCommand::Accept(answer) => {
                let answer = Offer::parse_answer(&answer).map_err(|error| error.to_string())?;
                peer.on_answer(now, &answer).map_err(|error| error_message(&error))?;
            }
        }
        Ok(())
    }
}

impl ServerEnd for UnityCarrier {
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
        self.connection.transmit(now);
    }

    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        let user = self.user.poll_timeout().filter(|_| self.negotiated).map(|at| (at, Wake::Transport));
        self.connection.peer.poll_timeout().into_iter().chain(user).min_by_key(|(at, _)| *at)
    }

    fn on_timeout(&mut self, now: Time) {
        self.connection.peer.on_timeout(now);
    }
}

impl Carrier for UnityCarrier {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        let Self { connection, commands, events, unsent, .. } = self;
        let command = tokio::select! {
            heard = connection.recv() => return heard,
            command = commands.recv() => command,
            room = events.reserve(), if !unsent.is_empty() => {
                let event = unsent.pop_front();
                if let (Ok(room), Some(event)) = (room, event) {
                    room.send(event);
                }
                return Ok(None);
            }
        };
        self.on_command(command).map(|()| None)
    }

    fn poll_event(&mut self, now: Time) -> Option<CarrierEvent> {
        if !self.negotiated
            && let Some(codec) = self.connection.peer.codec()
        {
            self.negotiated = true;
            let sound = self.connection.peer.takes_sound();
            // Unity's clients crop nothing, and spectators' tokens admit none.
            let role = Role::Guest;
            let preferences = ClientPreferences { role, codec, display: DisplayKind::Screen, sound, marker: false };
            return Some(CarrierEvent::Negotiated(preferences));
        }
        while let Some(event) = self.connection.peer.poll_event() {
            match event {
                Event::Connected => return Some(CarrierEvent::Connected),
                Event::Opened { channel, label } if label == INPUT && self.input.is_none() => {
                    self.input = Some(channel);
                }
                Event::Message { channel, message: Message::Binary(bytes) } if Some(channel) == self.input => {
                    if let Err(error) = self.user.on_message(now, &bytes) {
                        tracing::debug!(%error, "an input message was refused");
                    }
                }
                Event::Closed { channel } if Some(channel) == self.input => {
                    self.input = None;
                    self.user.release_all(now);
                }
                Event::Opened { .. } | Event::Message { .. } | Event::Closed { .. } => {}
                Event::Ended => return Some(CarrierEvent::Closed("the client's connection ended".into())),
                Event::Failed => return Some(CarrierEvent::Closed(LIBRARY_FAILED.into())),
            }
        }
        // Until there is an encoder, nothing uses the user's pose.
        let sample = self.negotiated.then(|| self.user.poll_sample(now)).flatten()?;
        let events = sample.events.clone();
        let (hands, messages) = (Default::default(), Vec::new());
        let input = ReceivedInput { sample, received_at: now, events, hands, messages };
        Some(CarrierEvent::Input(input.into()))
    }

    /// Applies a change of the picture's size to the user's pointer. The web client itself knows none of these messages.
    fn send(&mut self, now: Time, message: ServerMessage) -> Result<(), String> {
        if let ServerMessage::Stream(stream) = message {
            self.user.set_picture(now, (stream.width, stream.height));
        }
        Ok(())
    }

    fn set_start(&mut self, start: Pose) {
        self.user.set_head(start);
    }

    fn has_room(&mut self) -> bool {
        true
    }

    async fn close(&mut self, now: Time, _: &str) {
        self.connection.close(now);
        for event in self.unsent.drain(..).chain([SignallingEvent::Gone(self.id)]) {
            self.events.send(event).await.ok();
        }
    }
}

fn error_message(error: &PeerError) -> String {
    tracing::debug!(?error, "a description of a Unity client was refused");
    error.to_string()
}
