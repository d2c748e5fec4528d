use std::sync::atomic::{AtomicU32, Ordering};

use nearlight_codec::{CodecKind, Decoder, Encoders, Size, new_decoder};
use nearlight_net::Token;
use nearlight_rate::Bounds;
use nearlight_rooms::Role;
use nearlight_scene::{OpenedSource, PacedTestCard, TestCard};
use nearlight_session::{CaptureAlignment, Presence, Receiver, ReceiverConfig, Sender, ServerEnd};
use nearlight_units::Bitrate;
use nearlight_wire::marker::Marker;
use nearlight_wire::{Base64, DisplayKind, Fov, Pose, RecoveryPolicy, RefusalReason, View};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::*;
use crate::access::admission::{Admission, Applicant};
use crate::access::code_pairing::CodePairing;
use crate::access::link_register::Credential;
use crate::access::pairing::Pairing;
use crate::media::studio::{Format, Studio, StudioOptions};
use crate::metrics::Metrics;
use crate::rooms::SharedRoom;
use crate::state::{MediaTransport, OfferLimiter};

const CLIENT: Applicant =
    Applicant::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), Credential::of_role(Role::Host));
const NEVER: Duration = Duration::from_secs(20);

/// An item from the client to the server.
enum FromClient {
    Datagram(Vec<u8>),
    Event(CarrierEvent),
}

/// An item from the server to the client.
#[derive(Debug)]
enum ToClient {
    Datagram(Vec<u8>),
    Message(Box<ServerMessage>),
    /// The session has ended, for this reason.
    Closed(String),
}

/// A carrier in memory, without loss or delay.
struct Memory {
    clock: Clock,
    sender: Sender,
    from_client: UnboundedReceiver<FromClient>,
    to_client: UnboundedSender<ToClient>,
    events: Vec<CarrierEvent>,
}

impl ServerEnd for Memory {
    fn sender(&self) -> &Sender {
        &self.sender
    }

    fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn transmit(&mut self, now: Time) {
        while let Some(datagram) = self.sender.poll_transmit(now) {
            let _ = self.to_client.send(ToClient::Datagram(datagram));
        }
    }
}

impl Carrier for Memory {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        match self.from_client.recv().await.ok_or("the client is gone")? {
            FromClient::Datagram(datagram) => {
                let now = self.clock.now();
                self.sender.on_datagram(now, &datagram);
                Ok(Some(now))
            }
            FromClient::Event(event) => {
                self.events.push(event);
                Ok(None)
            }
        }
    }

    fn poll_event(&mut self, _: Time) -> Option<CarrierEvent> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    fn send(&mut self, _: Time, message: ServerMessage) -> Result<(), String> {
        let _ = self.to_client.send(ToClient::Message(message.into()));
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }

    async fn close(&mut self, _: Time, ended: &str) {
        let _ = self.to_client.send(ToClient::Closed(ended.into()));
    }
}

pub(crate) fn bounds() -> Bounds {
    Bounds::up_to(Bitrate::from_mbps(4))
}

/// A server without ports, whose source is a test card.
pub(crate) struct Server {
    pub(crate) state: Arc<ServerState>,
    closing: watch::Sender<bool>,
}

impl Server {
    fn start() -> Self {
        Self::controlled("fixed", bounds())
    }

    fn controlled(controller: &str, bounds: Bounds) -> Self {
        Self::with((controller, bounds), OpenedSource::OnDemand(Box::<TestCard>::default()), 1)
    }

    pub(crate) fn with((controller, bounds): (&str, Bounds), source: OpenedSource, clients: usize) -> Self {
        let clock = Clock::start();
        let format = Format { size: Size { width: 256, height: 144 }, fps: 30, stereo: false };
        let encoders = Encoders::default();
        let (objects, places) = match &source {
            OpenedSource::OnDemand(source) => (source.objects(), source.starting_places()),
            OpenedSource::SelfPaced(source) => (None, source.starting_places()),
        };
        let world = objects.map(|objects| Arc::new(SharedRoom::new(clock.now(), &objects).expect("poses")));
        let metrics = Arc::new(Metrics::new());
        let options = StudioOptions {
            format,
            sizes: Vec::new(),
            advice: "",
            clock,
            encoders: encoders.clone(),
            sound: None,
            room: world.clone(),
            captures: CaptureAlignment::Fitted,
            shared_encodes: true,
            placement: crate::media::encoding::EncoderPlacement::Thread,
            metrics: Arc::clone(&metrics),
        };
        let studio = Studio::start(source, options);
        let (closing, closing_seen) = watch::channel(false);
        let state = ServerState {
            clock,
            pairing: Pairing::new(&Token::generate().expect("random numbers"), Arc::default(), None),
            code_pairing: CodePairing::default(),
            offers: OfferLimiter::new(),
            handshakes: ServerState::new_handshakes(0),
            admission: Admission::new(clients),
            next_session: AtomicU32::new(1),
            studio: studio.expect("a thread"),
            sound: None,
            clipboard: true,
            adapter: "test card".into(),
            starts: crate::session::starts::StartingPlaces::new(places),
            demonstration: false,
            format,
            codec: CodecKind::Vp8,
            controller: controller.into(),
            fec: "none".into(),
            recovery: RecoveryPolicy::Retransmission,
            bounds,
            pacing: nearlight_session::pace::Mode::Compressed,
            tcp_control: None,
            emulated_paths: None,
            datagram: usize::MAX,
            encoders,
            metrics,
            event_log: None,
            rooms: crate::rooms::Rooms::new(8, world, None),
            closing: closing_seen,
        };
        Self { state: Arc::new(state), closing }
    }

    /// Starts a session and returns its client, with channels in both directions.
    fn connect(&self) -> Client {
        let (state, now) = (&self.state, self.state.clock.now());
        let permit = state.try_admit(now, CLIENT).expect("a place");
        #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
        let (up, from_client) = unbounded_channel();
        #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
        let (to_client, down) = unbounded_channel();
        let sender = state
            .new_sender(now, MediaTransport::Datagrams { largest: 1_200, recovery: RecoveryPolicy::Retransmission });
        let carrier = Memory { clock: state.clock, sender, from_client, to_client, events: Vec::new() };
        let number = state.next_session.fetch_add(1, Ordering::Relaxed);
        let task = tokio::spawn(Box::new(SessionTask::new(Arc::clone(state), number, permit, carrier, None)).run());
        let receiver = Receiver::new(ReceiverConfig { events: false });
        let decoder = new_decoder(CodecKind::Vp8).expect("a decoder");
        Client {
            clock: state.clock,
            up,
            down,
            receiver,
            task,
            decoder,
            displayed: 0,
            marked: 0,
            keys: 0,
            newest_input: None,
        }
    }
}

pub(crate) struct Client {
    pub(crate) clock: Clock,
    up: UnboundedSender<FromClient>,
    down: UnboundedReceiver<ToClient>,
    pub(crate) receiver: Receiver,
    task: JoinHandle<()>,
    decoder: Box<dyn Decoder>,
    displayed: u32,
    /// Number of pictures that had the marker below.
    marked: u32,
    keys: u32,
    pub(crate) newest_input: Option<nearlight_units::InputSeq>,
}

impl Client {
    fn say(&self, event: CarrierEvent) {
        assert!(self.up.send(FromClient::Event(event)).is_ok(), "the session runs");
    }

    fn hello(&self, protocol: u8) {
        self.say(CarrierEvent::Message(ClientMessage::Hello(Hello {
            protocol,
            display_hz: 60,
            codecs: vec![CodecKind::Vp8],
            clipboard: true,
            name: Some("Ada".into()),
            ..Hello::without_media("a test".into(), None)
        })));
    }

    /// Waits for the next event other than a datagram; the receiver processes datagrams.
    async fn next(&mut self) -> ToClient {
        loop {
            let came = tokio::time::timeout(NEVER, self.down.recv()).await.expect("something comes");
            match came.expect("the session says how it ends") {
                ToClient::Datagram(datagram) => self.on_datagram(&datagram),
                other => return other,
            }
        }
    }

    async fn message(&mut self) -> ServerMessage {
        match self.next().await {
            ToClient::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    fn on_datagram(&mut self, datagram: &[u8]) {
        let now = self.clock.now();
        self.receiver.on_datagram(now, datagram);
        while let Some(frame) = self.receiver.frames().poll(now) {
            self.receiver.frames().on_decoded(now, frame.id);
            let picture = self.decoder.decode(frame.bits()).expect("a frame that decodes").expect("its picture");
            let size = Size { width: frame.header.width, height: frame.header.height };
            let (picture, marker) = picture.without_strip(size);
            assert_eq!(picture.size, size, "a picture alone, or with the marker below");
            if let Some(marker) = marker {
                assert_eq!(marker, Marker { frame: frame.id, input: frame.header.input });
                self.marked += 1;
            }
            self.receiver.frames().on_displayed(now, frame.id, marker);
            self.displayed += 1;
            self.keys += u32::from(frame.key);
            self.newest_input = Some(frame.header.input);
            assert!(!frame.bits().is_empty());
        }
        self.receiver.on_timeout(now);
        while let Some(answer) = self.receiver.poll_transmit(now) {
            // The session may have ended meanwhile.
            let _ = self.up.send(FromClient::Datagram(answer));
        }
    }

    async fn ended(mut self) -> String {
        loop {
            if let ToClient::Closed(words) = self.next().await {
                self.task.await.expect("no panic");
                return words;
            }
        }
    }
}

impl Server {
    /// Starts a server whose source is a test card that paces itself.
    fn paced(clients: usize) -> Self {
        let card = PacedTestCard::new((256, 144), 30).expect("a size that encoders take");
        Self::with(("fixed", bounds()), OpenedSource::SelfPaced(Box::new(card)), clients)
    }

    /// Connects a client that displays pictures.
    pub(crate) fn watch(&self) -> Client {
        self.watch_as(negotiated())
    }

    /// Connects a client with a spectator's token that displays pictures.
    pub(crate) fn watch_as_spectator(&self) -> Client {
        self.watch_as(CarrierEvent::Negotiated(preferences(Role::Spectator)))
    }

    fn watch_as(&self, negotiated: CarrierEvent) -> Client {
        let client = self.connect();
        client.say(negotiated);
        client.hello(nearlight_wire::PROTOCOL_VERSION);
        client.say(CarrierEvent::Connected);
        client
    }

    /// Connects a client with this codec and this kind of display.
    fn watch_kind(&self, (codec, display): (CodecKind, DisplayKind)) -> Client {
        let mut client =
            self.watch_as(CarrierEvent::Negotiated(ClientPreferences { codec, display, ..preferences(Role::Guest) }));
        client.decoder = new_decoder(codec).expect("a decoder");
        client.say(CarrierEvent::Message(ClientMessage::Display { display, display_hz: 60 }));
        client
    }

    /// Returns a figure of the metrics.
    fn figure(&self, name: &str) -> u64 {
        let text = self.state.metrics.text(crate::metrics::Exposition::Plain);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("nearlight_{name} "))).map(str::to_owned);
        line.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }
}

impl Client {
    /// Processes what has arrived.
    pub(crate) fn take_waiting(&mut self) {
        while let Ok(came) = self.down.try_recv() {
            if let ToClient::Datagram(datagram) = came {
                self.on_datagram(&datagram);
            }
        }
    }

    /// Sends the application a message that must not be lost.
    pub(crate) fn message_to_application(&self, data: &[u8]) {
        self.say(CarrierEvent::Message(ClientMessage::Application { data: Base64(data.to_vec()) }));
    }

    /// Watches this many more pictures.
    pub(crate) async fn pictures(mut self, count: u32) -> Self {
        let wanted = self.displayed + count;
        while self.displayed < wanted {
            let came = tokio::time::timeout(NEVER, self.down.recv()).await.expect("pictures come");
            match came.expect("the session goes on") {
                ToClient::Datagram(datagram) => self.on_datagram(&datagram),
                ToClient::Message(_) => {}
                ToClient::Closed(words) => panic!("{words}"),
            }
        }
        self
    }
}

/// Lets all clients watch concurrently, as they would in processes of their own.
async fn all_watch(clients: Vec<Client>, pictures: u32) -> Vec<Client> {
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.pictures(pictures))).collect();
    let mut watched = Vec::new();
    for task in tasks {
        watched.push(task.await.expect("no panic"));
    }
    watched
}

#[tokio::test]
async fn several_viewers_of_one_picture_cost_one_encode() {
    let server = Server::paced(6);
    let clients = (0..5).map(|_| server.watch()).collect();
    let mut clients = all_watch(clients, 45).await;
    // A newcomer joins them, and its first picture is a key frame for all.
    let before: u32 = clients.iter().map(|client| client.keys).sum();
    clients.push(server.watch());
    let clients = all_watch(clients, 45).await;
    let (pictures, encodes) = (server.figure("shared_pictures_total"), server.figure("shared_encodes_total"));
    assert!(pictures >= 80 && encodes == pictures, "{encodes} encodes of {pictures} pictures: all have the same rate");
    assert_eq!((server.figure("layers"), server.figure("layer_viewers")), (1, 6));
    let after: u32 = clients.iter().map(|client| client.keys).sum();
    assert!(after > before && after <= before + 2 * 6, "{before}, then {after} key frames");
}

/// Clients that differ in codec or display cannot share frames.
#[tokio::test]
async fn viewers_with_other_codecs_and_displays_cost_one_encode_for_each_kind() {
    let kinds = [
        (CodecKind::Vp8, DisplayKind::Screen),
        (CodecKind::H264, DisplayKind::Screen),
        (CodecKind::Vp8, DisplayKind::Headset),
    ];
    let server = Server::paced(8);
    let clients = (0..6).map(|number| server.watch_kind(kinds[number % 3])).collect();
    let mut clients = all_watch(clients, 30).await;
    clients.extend(kinds[1..].iter().map(|kind| server.watch_kind(*kind)));
    let clients = all_watch(clients, 20).await;
    assert_eq!((server.figure("layers"), server.figure("layer_viewers")), (3, 8));
    let (pictures, encodes) = (server.figure("shared_pictures_total"), server.figure("shared_encodes_total"));
    assert!(pictures >= 40 && encodes <= 3 * pictures, "{encodes} encodes of {pictures} pictures");
    // Each client's first key frame, and those that a new client causes for the others of its kind.
    let keys: Vec<u32> = clients.iter().map(|client| client.keys).collect();
    assert!(keys.iter().all(|keys| (1..=3).contains(keys)), "{keys:?}");
}

#[tokio::test]
async fn a_viewer_goes_from_its_own_encoder_to_a_layer_and_back() {
    let server = Server::paced(2);
    let first = server.watch().pictures(20).await;
    assert_eq!((first.keys, server.figure("layers")), (1, 0), "alone, with an encoder of its own");
    assert_eq!(first.marked, first.displayed, "the marker is below each picture");
    let own = server.figure("own_encodes_total");
    // The newest picture is counted after it has been handed over.
    assert!(own >= 19, "{own}");
    let mut both = all_watch(vec![first, server.watch()], 30).await;
    assert_eq!(server.figure("layer_viewers"), 2);
    assert!(both.iter().all(|client| client.marked + 10 < client.displayed), "shared pictures have none");
    let second = both.pop().expect("two");
    second.say(CarrierEvent::Message(ClientMessage::Goodbye));
    assert_eq!(second.ended().await, "the client closed the session");
    let before = server.figure("own_encodes_total");
    let mut first = both.pop().expect("two");
    let marked = first.marked;
    while server.figure("own_encodes_total") < before + 20 || first.marked < marked + 10 {
        first = first.pictures(1).await;
    }
    assert_eq!(server.figure("layers"), 0);
    assert!((3..=4).contains(&first.keys), "its first, one to join, one to come back: {}", first.keys);
}

fn negotiated() -> CarrierEvent {
    CarrierEvent::Negotiated(preferences(Role::Guest))
}

fn preferences(role: Role) -> ClientPreferences {
    let (codec, display) = (CodecKind::Vp8, DisplayKind::Screen);
    ClientPreferences { role, codec, display, sound: false, marker: true }
}

#[tokio::test]
async fn a_client_that_crops_nothing_gets_the_picture_alone() {
    for server in [Server::start(), Server::paced(1)] {
        let preferences = ClientPreferences { marker: false, ..preferences(Role::Guest) };
        let client = server.watch_as(CarrierEvent::Negotiated(preferences)).pictures(10).await;
        assert_eq!(client.marked, 0);
    }
}

#[tokio::test]
async fn pictures_messages_and_inputs_cross_a_carrier_in_memory() {
    let server = Server::start();
    let mut client = server.connect();
    client.say(negotiated());
    client.hello(nearlight_wire::PROTOCOL_VERSION);
    let ServerMessage::Welcome(welcome) = client.message().await else { panic!("no welcome") };
    assert_eq!((welcome.stream.codec, welcome.stream.width, welcome.session), (CodecKind::Vp8, 256, 1));
    assert_eq!(client.displayed, 0, "nothing is drawn for a client that is not connected");
    client.say(CarrierEvent::Connected);
    let view =
        View { pose: Pose { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] }, fov: Fov::symmetric(1.2, 1.8) };
    let presence = Presence::of_views(view.pose, vec![view]);
    let input = client.receiver.uplink().on_presence(client.clock.now(), presence);
    let mut rates = 0;
    while client.displayed < 20 || client.newest_input < Some(input) || rates < 2 {
        let ServerMessage::Rate(status) = client.message().await else { panic!("rates alone are told now") };
        rates += 1;
        assert_eq!(status.packets_lost, 0);
    }
    assert_eq!(client.keys, 1, "one key frame, the first");
    client.say(CarrierEvent::Message(ClientMessage::Goodbye));
    assert_eq!(client.ended().await, "the client closed the session");
    assert!(server.state.try_admit(server.state.clock.now(), CLIENT).is_ok(), "its place is free again");
}

#[tokio::test]
async fn the_buffer_rule_goes_up_with_a_client_that_holds_what_it_is_told_to_hold() {
    let lowest = Bitrate::from_kbps(200);
    let bounds = Bounds { minimum: lowest, start: lowest, maximum: Bitrate::from_kbps(6_500) };
    let server = Server::controlled("buffer-occupancy", bounds);
    let mut client = server.connect();
    client.say(negotiated());
    client.hello(nearlight_wire::PROTOCOL_VERSION);
    let ServerMessage::Welcome(welcome) = client.message().await else { panic!("no welcome") };
    assert!(welcome.playback_buffer > 0, "the client is told to hold frames");
    client.receiver.frames().set_playback_buffer(welcome.playback_buffer, Span::from_secs(1) / 30);
    client.say(CarrierEvent::Connected);
    let mut targets = Vec::new();
    while targets.last() != Some(&bounds.maximum.as_bps()) {
        if let ServerMessage::Rate(status) = client.message().await {
            targets.push(status.target_bps);
        }
    }
    assert_eq!(targets[0], lowest.as_bps(), "{targets:?}");
}

#[tokio::test]
async fn every_end_is_reported_in_words() {
    type Does = fn(&Server, &Client);
    let cases: [(&str, Does); 3] = [
        ("the client's network is gone", |_, client| {
            client.say(CarrierEvent::Closed("the client's network is gone".into()));
        }),
        ("the client sent a second hello", |_, client| {
            client.hello(nearlight_wire::PROTOCOL_VERSION);
            client.hello(nearlight_wire::PROTOCOL_VERSION);
        }),
        ("the server is shutting down", |server, _| server.closing.send(true).expect("the session listens")),
    ];
    for (words, does) in cases {
        let server = Server::start();
        let client = server.connect();
        does(&server, &client);
        assert_eq!(client.ended().await, words);
    }
}

#[tokio::test]
async fn a_client_of_another_version_is_refused_in_words() {
    for version in [2, nearlight_wire::PROTOCOL_VERSION + 1] {
        let server = Server::start();
        let mut client = server.connect();
        client.say(negotiated());
        client.hello(version);
        let ServerMessage::Refused { reason, message } = client.message().await else { panic!("let in") };
        assert_eq!(reason, RefusalReason::Protocol);
        assert!(message.contains(&format!("version {version}")) && message.contains("Reload the page"), "{message}");
        assert_eq!(client.ended().await, message);
    }
}
