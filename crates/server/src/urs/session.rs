//! The media side of one of Unity's clients: a WebRTC peer that the signalling task directs, and a user whom the data channel "input" moves.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearlight_codec::CodecKind;
use nearlight_net::{Alarm, Token};
use nearlight_scene::START;
use nearlight_session::{ReceivedInput, SoundPacket};
use nearlight_units::{Span, Time};
use nearlight_urs::User;
use nearlight_urs::signalling::{Guest, PeerId};
use nearlight_webrtc::{ChannelId, Event, Message, Offer, Peer, PeerError};
use nearlight_wire::DisplayKind;
use tokio::sync::mpsc;

use super::signalling::{Fact, PeerOrder, Peers};
use crate::admission::{PERMIT_LOST, Permit};
use crate::mailbox::Delivery;
use crate::rtc::{CONNECT_LIMIT, Exchange, LIBRARY_FAILED, Line, codec_of, kind_of, peer_config};
use crate::session_common::{ClientPreferences, SessionCommon, status_interval};
use crate::state::ServerState;

/// The channel that the web client opens.
const INPUT: &str = "input";

/// Makes session tasks, which run where the server's other sessions do.
pub(crate) struct Media {
    pub(crate) state: Arc<ServerState>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) session_tasks: mpsc::Sender<UnitySessionTask>,
}

impl Peers for Media {
    fn open(&self, peer: PeerId, from: Guest, orders: mpsc::Receiver<PeerOrder>, facts: mpsc::Sender<Fact>) {
        let (state, exchange) = (Arc::clone(&self.state), Arc::clone(&self.exchange));
        // A server that starts no more sessions drops it, and the signalling task hears that nobody follows its orders.
        let _ = self.session_tasks.try_send(UnitySessionTask { state, exchange, peer, from, orders, facts });
    }
}

/// A client that has made its first offer.
pub(crate) struct UnitySessionTask {
    state: Arc<ServerState>,
    exchange: Arc<Exchange>,
    peer: PeerId,
    from: Guest,
    orders: mpsc::Receiver<PeerOrder>,
    facts: mpsc::Sender<Fact>,
}

impl UnitySessionTask {
    /// Serves until the signalling task or the client ends it, the server closes or something fails.
    pub(crate) async fn run(mut self) {
        let Some(PeerOrder::Answer(offer)) = self.orders.recv().await else { return };
        let begun = self.begin(&offer);
        let (mut session, answer) = match begun {
            Ok(begun) => begun,
            Err(reason) => {
                tracing::info!(client = %self.from.address, reason, "one of Unity's clients was not let in");
                self.facts.send(Fact::Answer(self.peer, Err(reason))).await.ok();
                return;
            }
        };
        let number = session.number;
        let open = self.state.metrics.open_session(number);
        self.facts.send(Fact::Answer(self.peer, Ok(answer))).await.ok();
        let ended = session.serve(&mut self).await;
        session.finish();
        drop(open);
        tracing::info!(session = number, ended, "one of Unity's clients left");
        self.facts.send(Fact::Gone(self.peer)).await.ok();
    }

    fn begin(&self, offer: &str) -> Result<(Session, String), String> {
        let offer = Offer::parse(offer).map_err(|error| error.to_string())?;
        let state = &self.state;
        let now = state.clock.now();
        let permit = state.try_admit(now, self.from).map_err(|rejection| rejection.message)?;
        let number = state.next_session.fetch_add(1, Ordering::Relaxed);
        let name = Token::generate().map_err(|error| error.to_string())?.to_string();
        let sender = state.new_sender(now, Peer::LARGEST_DATAGRAM, true).with_fec(state.new_policy());
        // The owner's codec first; the browser chooses among them when it answers.
        let mut kinds = vec![state.codec];
        kinds.extend(CodecKind::ALL.into_iter().filter(|kind| *kind != state.codec));
        let codecs: Vec<_> = kinds.into_iter().map(codec_of).collect();
        let config = peer_config(state, &self.exchange, &name);
        let mut peer = Peer::offering(now, config, &codecs, true, sender).map_err(|error| words(&error))?;
        let answer = peer.on_offer(now, &offer).map_err(|error| words(&error))?;
        let line = peer.credentials().map(|own| self.exchange.connect(own, state.bad_path(number, now)));
        let line = line.ok_or("the answer has no ICE credentials")?;
        tracing::info!(session = number, client = %self.from.address, "one of Unity's clients came");
        let picture = (state.format.size.width, state.format.size.height);
        let (state, user) = (Arc::clone(state), User::new(now, START, picture));
        let mut session = Session {
            state,
            number,
            permit,
            peer,
            line,
            user,
            common: None,
            input: None,
            connected: false,
            began: now,
        };
        session.settle()?;
        Ok((session, answer))
    }
}

struct Session {
    state: Arc<ServerState>,
    number: u32,
    /// Given back at the end.
    permit: Permit,
    peer: Peer,
    line: Line,
    user: User,
    /// As soon as the codec is agreed on.
    common: Option<SessionCommon>,
    input: Option<ChannelId>,
    connected: bool,
    began: Time,
}

impl Session {
    async fn serve(&mut self, task: &mut UnitySessionTask) -> String {
        let clock = self.state.clock;
        let mut closing = self.state.closing.clone();
        let (mut status, mut alarm) = (status_interval(), Alarm::new(clock));
        loop {
            let now = clock.now();
            // Without a mailbox there is nobody to tell where the user is.
            let user = self.common.as_ref().and_then(|_| self.user.poll_timeout());
            let due = self.peer.poll_timeout().into_iter().chain(user).min();
            let wake = due.unwrap_or(Time::FAR_FUTURE).min(now + Span::from_secs(1));
            tokio::select! {
                incoming = self.line.recv() => match incoming {
                    Some(incoming) => {
                        self.peer.on_datagram(incoming.at, incoming.from, incoming.to(), &incoming.datagram);
                        if self.connected {
                            self.permit.hear(incoming.at);
                        }
                    }
                    None => return "the server's socket is gone".into(),
                },
                made = next_made(&mut self.common) => match made {
                    Made::Picture(Some(Delivery::Frame(frame))) => self.peer.on_frame(clock.now(), frame),
                    Made::Picture(Some(Delivery::Size(size, _))) => {
                        self.user.set_picture(clock.now(), (size.width, size.height));
                    }
                    Made::Picture(Some(Delivery::Failed(reason))) => return reason,
                    Made::Picture(None) => return "the renderer has stopped".into(),
                    Made::Sound(sound) => self.peer.on_sound(clock.now(), sound.made_at, sound.bytes),
                },
                order = task.orders.recv() => match order {
                    Some(order) => if let Err(reason) = self.follow(order, task).await {
                        return reason;
                    },
                    None => return "the client's signalling ended".into(),
                },
                _ = status.tick() => if let Some(common) = &self.common {
                    // For the server's own figures: the web client takes none.
                    common.status(clock.now(), self.peer.sender());
                },
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

    async fn follow(&mut self, order: PeerOrder, task: &UnitySessionTask) -> Result<(), String> {
        let now = self.state.clock.now();
        let fact = match order {
            PeerOrder::Answer(offer) => {
                let offer = Offer::parse(&offer).map_err(|error| error.to_string());
                Fact::Answer(
                    task.peer,
                    offer.and_then(|offer| self.peer.on_offer(now, &offer).map_err(|error| words(&error))),
                )
            }
            PeerOrder::Offer => Fact::Offer(task.peer, self.peer.offer(now, true).map_err(|error| words(&error))),
            PeerOrder::Accept(answer) => {
                let answer = Offer::parse_answer(&answer).map_err(|error| error.to_string())?;
                self.peer.on_answer(now, &answer).map_err(|error| words(&error))?;
                return self.settle();
            }
        };
        task.facts.send(fact).await.ok();
        self.settle()
    }

    /// Once a codec is agreed on, there is an encoder's mailbox; once the client is connected too, pictures come.
    fn settle(&mut self) -> Result<(), String> {
        if self.common.is_some() {
            return Ok(());
        }
        let Some(codec) = self.peer.codec() else { return Ok(()) };
        let state = Arc::clone(&self.state);
        let preferences =
            ClientPreferences { codec: kind_of(codec), display: DisplayKind::Screen, sound: self.peer.takes_sound() };
        let opened = SessionCommon::open(state, self.number, preferences, self.peer.sender());
        let (common, _) = opened.map_err(|error| error.to_string())?;
        tracing::info!(session = self.number, codec = kind_of(codec).name(), "a codec is agreed on");
        if self.connected && !common.begin() {
            return Err("the renderer has stopped".into());
        }
        self.common = Some(common);
        Ok(())
    }

    /// Everything that peer and user have to hand out after new facts; says why where the session is over.
    fn drain(&mut self) -> Option<String> {
        let now = self.state.clock.now();
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::Connected => {
                    if !self.permit.hear(now) {
                        return Some(PERMIT_LOST.into());
                    }
                    self.connected = true;
                    if self.common.as_ref().is_some_and(|common| !common.begin()) {
                        return Some("the renderer has stopped".into());
                    }
                }
                Event::Opened { channel, label } if label == INPUT && self.input.is_none() => {
                    self.input = Some(channel);
                }
                Event::Message { channel, message: Message::Binary(bytes) } if Some(channel) == self.input => {
                    if let Err(error) = self.user.on_message(now, &bytes) {
                        tracing::debug!(session = self.number, %error, "an input message was refused");
                    }
                }
                Event::Closed { channel } if Some(channel) == self.input => {
                    self.input = None;
                    self.user.let_go(now);
                }
                Event::Opened { .. } | Event::Message { .. } | Event::Closed { .. } => {}
                Event::Ended => return Some("the client's connection ended".into()),
                Event::Failed => return Some(LIBRARY_FAILED.into()),
            }
        }
        if !self.connected && now.saturating_since(self.began) > CONNECT_LIMIT {
            return Some("the client did not connect".into());
        }
        if self.permit.is_lost() {
            return Some(PERMIT_LOST.into());
        }
        self.transmit(now);
        if let Some(common) = &self.common {
            if let Some(sample) = self.user.poll_sample(now) {
                let actions = sample.events.clone();
                common.on_input(ReceivedInput { sample, received_at: now, actions });
            }
            common.drain(now, self.peer.sender_mut());
        }
        None
    }

    fn transmit(&mut self, now: Time) {
        while let Some(transmit) = self.peer.poll_transmit(now) {
            self.line.send(transmit.to, &transmit.datagram);
        }
    }

    fn finish(&mut self) {
        if let Some(common) = &self.common {
            common.leave(self.peer.sender_mut());
        }
        self.peer.close();
        self.transmit(self.state.clock.now());
    }
}

fn words(error: &PeerError) -> String {
    tracing::debug!(?error, "a description of one of Unity's clients was refused");
    error.to_string()
}

/// What the world makes for a client.
enum Made {
    /// None when the renderer has stopped.
    Picture(Option<Delivery>),
    Sound(SoundPacket),
}

/// Waits for ever without a mailbox.
async fn next_made(common: &mut Option<SessionCommon>) -> Made {
    let Some(common) = common else { return std::future::pending().await };
    tokio::select! {
        delivery = common.deliveries.recv() => Made::Picture(delivery),
        Some(sound) = common.sounds.recv() => Made::Sound(sound),
    }
}
