//! The media side of one of Unity's clients: a WebRTC peer that the desk leads, and a user whom the data channel "input" moves.

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

use super::desk::{Fact, PeerOrder, Peers};
use crate::house::House;
use crate::places::{PLACE_LOST, Place};
use crate::rtc::{CONNECT_LIMIT, Exchange, LIBRARY_FAILED, Line, codec_of, kind_of, peer_config};
use crate::seat::Delivery;
use crate::stay::{Stay, Taste, status_interval};

/// The channel that the web client opens.
const INPUT: &str = "input";

/// Makes visits, which run where the server's other sessions do.
pub(crate) struct Media {
    pub(crate) house: Arc<House>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) visits: mpsc::Sender<UnityVisit>,
}

impl Peers for Media {
    fn open(&self, peer: PeerId, from: Guest, orders: mpsc::Receiver<PeerOrder>, facts: mpsc::Sender<Fact>) {
        let (house, exchange) = (Arc::clone(&self.house), Arc::clone(&self.exchange));
        // A server that starts no more sessions drops it, and the desk hears that nobody follows its orders.
        let _ = self.visits.try_send(UnityVisit { house, exchange, peer, from, orders, facts });
    }
}

/// A client that has made its first offer.
pub(crate) struct UnityVisit {
    house: Arc<House>,
    exchange: Arc<Exchange>,
    peer: PeerId,
    from: Guest,
    orders: mpsc::Receiver<PeerOrder>,
    facts: mpsc::Sender<Fact>,
}

impl UnityVisit {
    /// Serves until the desk or the client ends it, the server closes or something fails.
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
        let open = self.house.metrics.open_session(number);
        self.facts.send(Fact::Answer(self.peer, Ok(answer))).await.ok();
        let ended = session.serve(&mut self).await;
        session.finish();
        drop(open);
        tracing::info!(session = number, ended, "one of Unity's clients left");
        self.facts.send(Fact::Gone(self.peer)).await.ok();
    }

    fn begin(&self, offer: &str) -> Result<(Session, String), String> {
        let offer = Offer::parse(offer).map_err(|error| error.to_string())?;
        let house = &self.house;
        let now = house.clock.now();
        let place = house.take_place(now, self.from).map_err(|rejection| rejection.message)?;
        let number = house.next_session.fetch_add(1, Ordering::Relaxed);
        let name = Token::generate().map_err(|error| error.to_string())?.to_string();
        let sender = house.new_sender(now, Peer::LARGEST_DATAGRAM, true).with_fec(house.new_policy());
        // The owner's codec first; the browser chooses among them when it answers.
        let mut kinds = vec![house.codec];
        kinds.extend(CodecKind::ALL.into_iter().filter(|kind| *kind != house.codec));
        let codecs: Vec<_> = kinds.into_iter().map(codec_of).collect();
        let config = peer_config(house, &self.exchange, &name);
        let mut peer = Peer::offering(now, config, &codecs, true, sender).map_err(|error| words(&error))?;
        let answer = peer.on_offer(now, &offer).map_err(|error| words(&error))?;
        let line = peer.credentials().map(|own| self.exchange.connect(own, house.bad_path(number, now)));
        let line = line.ok_or("the answer has no ICE credentials")?;
        tracing::info!(session = number, client = %self.from.address, "one of Unity's clients came");
        let picture = (house.format.size.width, house.format.size.height);
        let (house, user) = (Arc::clone(house), User::new(now, START, picture));
        let mut session =
            Session { house, number, place, peer, line, user, stay: None, input: None, connected: false, began: now };
        session.settle()?;
        Ok((session, answer))
    }
}

struct Session {
    house: Arc<House>,
    number: u32,
    /// Given back at the end.
    place: Place,
    peer: Peer,
    line: Line,
    user: User,
    /// As soon as the codec is agreed on.
    stay: Option<Stay>,
    input: Option<ChannelId>,
    connected: bool,
    began: Time,
}

impl Session {
    async fn serve(&mut self, visit: &mut UnityVisit) -> String {
        let clock = self.house.clock;
        let mut closing = self.house.closing.clone();
        let (mut status, mut alarm) = (status_interval(), Alarm::new(clock));
        loop {
            let now = clock.now();
            // Without a seat there is nobody to tell where the user is.
            let user = self.stay.as_ref().and_then(|_| self.user.poll_timeout());
            let due = self.peer.poll_timeout().into_iter().chain(user).min();
            let wake = due.unwrap_or(Time::FAR_FUTURE).min(now + Span::from_secs(1));
            tokio::select! {
                incoming = self.line.recv() => match incoming {
                    Some(incoming) => {
                        self.peer.on_datagram(incoming.at, incoming.from, incoming.to(), &incoming.datagram);
                        if self.connected {
                            self.place.hear(incoming.at);
                        }
                    }
                    None => return "the server's socket is gone".into(),
                },
                made = next_made(&mut self.stay) => match made {
                    Made::Picture(Some(Delivery::Frame(frame))) => self.peer.on_frame(clock.now(), frame),
                    Made::Picture(Some(Delivery::Size(size, _))) => {
                        self.user.set_picture(clock.now(), (size.width, size.height));
                    }
                    Made::Picture(Some(Delivery::Failed(reason))) => return reason,
                    Made::Picture(None) => return "the renderer has stopped".into(),
                    Made::Sound(sound) => self.peer.on_sound(clock.now(), sound.made_at, sound.bytes),
                },
                order = visit.orders.recv() => match order {
                    Some(order) => if let Err(reason) = self.follow(order, visit).await {
                        return reason;
                    },
                    None => return "the client's signalling ended".into(),
                },
                _ = status.tick() => if let Some(stay) = &self.stay {
                    // For the server's own figures: the web client takes none.
                    stay.status(clock.now(), self.peer.sender());
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

    async fn follow(&mut self, order: PeerOrder, visit: &UnityVisit) -> Result<(), String> {
        let now = self.house.clock.now();
        let fact = match order {
            PeerOrder::Answer(offer) => {
                let offer = Offer::parse(&offer).map_err(|error| error.to_string());
                Fact::Answer(
                    visit.peer,
                    offer.and_then(|offer| self.peer.on_offer(now, &offer).map_err(|error| words(&error))),
                )
            }
            PeerOrder::Offer => Fact::Offer(visit.peer, self.peer.offer(now, true).map_err(|error| words(&error))),
            PeerOrder::Accept(answer) => {
                let answer = Offer::parse_answer(&answer).map_err(|error| error.to_string())?;
                self.peer.on_answer(now, &answer).map_err(|error| words(&error))?;
                return self.settle();
            }
        };
        visit.facts.send(fact).await.ok();
        self.settle()
    }

    /// Once a codec is agreed on, the client has a seat; once it is connected too, pictures come.
    fn settle(&mut self) -> Result<(), String> {
        if self.stay.is_some() {
            return Ok(());
        }
        let Some(codec) = self.peer.codec() else { return Ok(()) };
        let house = Arc::clone(&self.house);
        let taste = Taste { codec: kind_of(codec), display: DisplayKind::Screen, sound: self.peer.takes_sound() };
        let opened = Stay::open(house, self.number, taste, self.peer.sender());
        let (stay, _) = opened.map_err(|error| error.to_string())?;
        tracing::info!(session = self.number, codec = kind_of(codec).name(), "a codec is agreed on");
        if self.connected && !stay.begin() {
            return Err("the renderer has stopped".into());
        }
        self.stay = Some(stay);
        Ok(())
    }

    /// Everything that peer and user have to hand out after new facts; says why where the session is over.
    fn drain(&mut self) -> Option<String> {
        let now = self.house.clock.now();
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::Connected => {
                    if !self.place.hear(now) {
                        return Some(PLACE_LOST.into());
                    }
                    self.connected = true;
                    if self.stay.as_ref().is_some_and(|stay| !stay.begin()) {
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
        if self.place.is_lost() {
            return Some(PLACE_LOST.into());
        }
        self.transmit(now);
        if let Some(stay) = &self.stay {
            if let Some(sample) = self.user.poll_sample(now) {
                let actions = sample.events.clone();
                stay.on_input(ReceivedInput { sample, received_at: now, actions });
            }
            stay.drain(now, self.peer.sender_mut());
        }
        None
    }

    fn transmit(&mut self, now: Time) {
        while let Some(transmit) = self.peer.poll_transmit(now) {
            self.line.send(transmit.to, &transmit.datagram);
        }
    }

    fn finish(&mut self) {
        if let Some(stay) = &self.stay {
            stay.leave(self.peer.sender_mut());
        }
        self.peer.close();
        self.transmit(self.house.clock.now());
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

/// Waits for ever without a seat.
async fn next_made(stay: &mut Option<Stay>) -> Made {
    let Some(stay) = stay else { return std::future::pending().await };
    tokio::select! {
        delivery = stay.deliveries.recv() => Made::Picture(delivery),
        Some(sound) = stay.sounds.recv() => Made::Sound(sound),
    }
}
