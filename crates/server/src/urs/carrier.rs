//! One of Unity's clients as a session's carrier: a WebRTC peer that the signalling task controls, and a user driven by the data channel
//! "input".

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
use nearlight_wire::{DisplayKind, ServerMessage};
use tokio::sync::mpsc;

use super::signalling::{Fact, PeerOrder, Peers};
use crate::admission::Permit;
use crate::carrier::{Carrier, CarrierEvent};
use crate::rtc::{Exchange, LIBRARY_FAILED, PeerLine, peer_config};
use crate::session::SessionTask;
use crate::session_common::ClientPreferences;
use crate::state::{MediaTransport, ServerState};
use crate::transports::Sessions;

/// The channel that the web client opens.
const INPUT: &str = "input";

/// Makes session tasks, which run where the server's other sessions do.
pub(crate) struct UnityPeers {
    pub(crate) state: Arc<ServerState>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) sessions: Sessions,
}

impl Peers for UnityPeers {
    fn open(&self, peer: PeerId, from: Guest, orders: mpsc::Receiver<PeerOrder>, facts: mpsc::Sender<Fact>) {
        let (state, exchange) = (Arc::clone(&self.state), Arc::clone(&self.exchange));
        // A server that starts no more sessions drops it, and the signalling task notices that its orders have no receiver.
        let session = UnitySession { state, exchange, peer, from, orders, facts };
        let _ = self.sessions.try_send(Box::pin(session.run()));
    }
}

/// A client that has made its first offer.
struct UnitySession {
    state: Arc<ServerState>,
    exchange: Arc<Exchange>,
    peer: PeerId,
    from: Guest,
    orders: mpsc::Receiver<PeerOrder>,
    facts: mpsc::Sender<Fact>,
}

impl UnitySession {
    /// Serves until the signalling task or the client ends it, the server closes or something fails.
    async fn run(mut self) {
        let Some(PeerOrder::Answer(offer)) = self.orders.recv().await else { return };
        let (number, permit, line, answer) = match self.begin(&offer) {
            Ok(begun) => begun,
            Err(reason) => {
                tracing::info!(client = %self.from.address, reason, "a Unity client was not admitted");
                self.facts.send(Fact::Answer(self.peer, Err(reason))).await.ok();
                return;
            }
        };
        let Self { state, peer, orders, facts, .. } = self;
        let picture = (state.format.size.width, state.format.size.height);
        let carrier = UnityCarrier {
            clock: state.clock,
            at: line,
            id: peer,
            orders,
            facts,
            unsent: [Fact::Answer(peer, Ok(answer))].into(),
            user: User::new(state.clock.now(), START, picture),
            input: None,
            negotiated: false,
        };
        Box::new(SessionTask::new(state, number, permit, carrier, None)).run().await;
    }

    fn begin(&self, offer: &str) -> Result<(u32, Permit, PeerLine, String), String> {
        let offer = Offer::parse(offer).map_err(|error| error.to_string())?;
        let state = &self.state;
        let now = state.clock.now();
        let permit = state.try_admit(now, self.from).map_err(|rejection| rejection.message)?;
        let number = state.next_session.fetch_add(1, Ordering::Relaxed);
        let name = Token::generate().map_err(|error| error.to_string())?.to_string();
        let sender = state.new_sender(now, MediaTransport::Rtp { reports_arrivals: true });
        // The owner's codec first; the browser chooses among them when it answers.
        let mut kinds = vec![state.codec];
        kinds.extend(CodecKind::ALL.into_iter().filter(|kind| *kind != state.codec));
        let config = peer_config(state, &self.exchange, &name);
        let mut peer = Peer::offering(now, config, &kinds, true, sender).map_err(|error| words(&error))?;
        let answer = peer.on_offer(now, &offer).map_err(|error| words(&error))?;
        let line = peer.credentials().map(|own| self.exchange.connect(own, state.bad_path(number, now)));
        let line = line.ok_or("the answer has no ICE credentials")?;
        tracing::info!(session = number, client = %self.from.address, "a Unity client connected");
        Ok((number, permit, PeerLine::new(peer, line), answer))
    }
}

struct UnityCarrier {
    clock: Clock,
    at: PeerLine,
    id: PeerId,
    orders: mpsc::Receiver<PeerOrder>,
    facts: mpsc::Sender<Fact>,
    /// Replies to orders that the signalling task has not taken yet: no more than there were orders.
    unsent: VecDeque<Fact>,
    user: User,
    input: Option<ChannelId>,
    /// The session has been informed of the codec.
    negotiated: bool,
}

impl UnityCarrier {
    fn on_order(&mut self, order: Option<PeerOrder>) -> Result<(), String> {
        let now = self.clock.now();
        let peer = &mut self.at.peer;
        match order.ok_or("the client's signalling ended")? {
            PeerOrder::Answer(offer) => {
                let offer = Offer::parse(&offer).map_err(|error| error.to_string());
                let answer = offer.and_then(|offer| peer.on_offer(now, &offer).map_err(|error| words(&error)));
                self.unsent.push_back(Fact::Answer(self.id, answer));
            }
            PeerOrder::Offer => {
                let offer = peer.offer(now, true).map_err(|error| words(&error));
                self.unsent.push_back(Fact::Offer(self.id, offer));
            }
            PeerOrder::Accept(answer) => {
                let answer = Offer::parse_answer(&answer).map_err(|error| error.to_string())?;
                peer.on_answer(now, &answer).map_err(|error| words(&error))?;
            }
        }
        Ok(())
    }
}

impl ServerEnd for UnityCarrier {
    fn sender(&self) -> &Sender {
        self.at.peer.sender()
    }

    fn sender_mut(&mut self) -> &mut Sender {
        self.at.peer.sender_mut()
    }

    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        self.at.peer.on_frame(now, frame);
    }

    fn on_sound(&mut self, now: Time, packet: SoundPacket) {
        self.at.peer.on_sound(now, packet.made_at, packet.bytes);
    }

    fn transmit(&mut self, now: Time) {
        self.at.transmit(now);
    }

    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        let user = self.user.poll_timeout().filter(|_| self.negotiated).map(|at| (at, Wake::Transport));
        self.at.peer.poll_timeout().into_iter().chain(user).min_by_key(|(at, _)| *at)
    }

    fn on_timeout(&mut self, now: Time) {
        self.at.peer.on_timeout(now);
    }
}

impl Carrier for UnityCarrier {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        let Self { at, orders, facts, unsent, .. } = self;
        let order = tokio::select! {
            heard = at.recv() => return heard,
            order = orders.recv() => order,
            room = facts.reserve(), if !unsent.is_empty() => {
                let fact = unsent.pop_front();
                if let (Ok(room), Some(fact)) = (room, fact) {
                    room.send(fact);
                }
                return Ok(None);
            }
        };
        self.on_order(order).map(|()| None)
    }

    fn poll_event(&mut self, now: Time) -> Option<CarrierEvent> {
        if !self.negotiated
            && let Some(codec) = self.at.peer.codec()
        {
            self.negotiated = true;
            let sound = self.at.peer.takes_sound();
            // Unity's clients crop nothing, and spectators' tokens admit none.
            let role = Role::Guest;
            let preferences = ClientPreferences { role, codec, display: DisplayKind::Screen, sound, marker: false };
            return Some(CarrierEvent::Negotiated(preferences));
        }
        while let Some(event) = self.at.peer.poll_event() {
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
        // Before there is an encoder, no one would use the user's pose.
        let sample = self.negotiated.then(|| self.user.poll_sample(now)).flatten()?;
        let events = sample.events.clone();
        let (hands, messages) = (Default::default(), Vec::new());
        let input = ReceivedInput { sample, received_at: now, events, hands, messages };
        Some(CarrierEvent::Input(input.into()))
    }

    /// The web client knows none of these messages. A change of the picture's size matters for the user's pointer, though.
    fn send(&mut self, now: Time, message: ServerMessage) -> Result<(), String> {
        if let ServerMessage::Stream(stream) = message {
            self.user.set_picture(now, (stream.width, stream.height));
        }
        Ok(())
    }

    async fn close(&mut self, now: Time, _: &str) {
        self.at.close(now);
        for fact in self.unsent.drain(..).chain([Fact::Gone(self.id)]) {
            self.facts.send(fact).await.ok();
        }
    }
}

fn words(error: &PeerError) -> String {
    tracing::debug!(?error, "a description of a Unity client was refused");
    error.to_string()
}
