//! The demonstration's world as a room, with one client that is rendered for and one that speaks the rooms' own protocol, both in memory.

mod carriers;

use nearlight_net::Clock;
use nearlight_rooms::{Avatar, MemberId, Replica, Request, Role};
use nearlight_scene::{Backend, Conversion, OpenOptions, START, SourceKind, open};
use nearlight_session::{DeviceInput, Presence};
use nearlight_sound::{BLOCK_FRAMES, SoundDecoder, SoundEncoder};
use nearlight_wire::{Fov, Key, Pointer, View};

use super::peer::{Network, OutgoingReceiver};
use super::*;
use crate::session::tests::{Client, Server, bounds};

/// The ball on the left plinth of the plaza, and where it is.
const BALL: ObjectId = ObjectId(1);
const PLINTH: [f32; 3] = [-1.75, 1.12, -3.3];
/// Longest time that a step may take on a busy machine.
const NEVER: std::time::Duration = std::time::Duration::from_secs(30);

/// A member of the world's room, over a network without loss or delay.
struct Visitor {
    clock: Clock,
    room: mpsc::Sender<RoomInput>,
    connection: Connection,
    incoming: mpsc::Receiver<bytes::Bytes>,
    /// Completes when the membership has ended.
    _ended: oneshot::Receiver<std::convert::Infallible>,
    replica: Replica,
}

impl Visitor {
    async fn join(server: &Server) -> Self {
        Self::join_room(server, DEFAULT_ROOM).await
    }

    async fn join_room(server: &Server, name: &str) -> Self {
        let (sessions, mut begun) = mpsc::channel(4);
        tokio::spawn(async move {
            while let Some(session) = begun.recv().await {
                tokio::spawn(session);
            }
        });
        let clock = server.state.clock;
        let room = enter(&server.state, &sessions, name).await.expect("it is open");
        let join = Join { room: name.into(), role: Role::Guest, name: "Ada".into(), colour: [255, 120, 0], key: None };
        let (outgoing, OutgoingReceiver { stream: incoming, ended }) = OutgoingSender::new(Network::Tcp(None));
        let (answer, answered) = oneshot::channel();
        let connection = server.state.rooms.new_connection();
        let request = JoinRequest { connection, address: std::net::Ipv4Addr::LOCALHOST.into(), join, outgoing, answer };
        assert!(room.send(RoomInput::Join(Box::new(request))).await.is_ok(), "the room runs");
        answered.await.expect("an answer").expect("a place");
        let replica = Replica::new(clock.now(), Span::from_millis(50));
        Self { clock, room, connection, incoming, _ended: ended, replica }
    }

    /// Returns the member's id, 0 before the room has assigned one.
    fn id(&self) -> MemberId {
        self.replica.you().unwrap_or_default()
    }

    /// Sends what is due and handles the next message.
    async fn step(&mut self) {
        let mut out = Vec::new();
        while self.replica.poll_transmit(self.clock.now(), &mut out) {
            let bytes = std::mem::take(&mut out).into();
            assert!(
                self.room.send(RoomInput::Message { connection: self.connection, bytes }).await.is_ok(),
                "the room runs"
            );
        }
        let soon = std::time::Duration::from_millis(20);
        if let Ok(message) = tokio::time::timeout(soon, self.incoming.recv()).await {
            let bytes = message.expect("the membership lasts");
            self.replica.on_message(self.clock.now(), &bytes).expect("a message of the room's");
        }
    }
}

/// Runs client and visitor until the condition holds.
async fn until(client: &mut Client, visitor: &mut Visitor, what: &str, is_so: impl Fn(&Visitor) -> bool) {
    let going_on = async {
        while !is_so(visitor) {
            visitor.step().await;
            client.take_waiting();
        }
    };
    assert!(tokio::time::timeout(NEVER, going_on).await.is_ok(), "never: {what}");
}

/// Turns the client's view towards a place.
fn look(client: &mut Client, at: [f32; 3]) {
    let [x, y, z]: [f32; 3] = std::array::from_fn(|axis| at[axis] - START.position[axis]);
    let (yaw, pitch) = ((-x).atan2(-z) / 2.0, y.atan2(x.hypot(z)) / 2.0);
    let orientation =
        [yaw.cos() * pitch.sin(), yaw.sin() * pitch.cos(), -yaw.sin() * pitch.sin(), yaw.cos() * pitch.cos()];
    let pose = Pose { orientation, ..START };
    let presence = Presence::of_views(pose, vec![View { pose, fov: Fov::symmetric(1.2, 16.0 / 9.0) }]);
    client.receiver.uplink().on_presence(client.clock.now(), presence);
}

/// Starts a server that shows the plaza to one client.
fn plaza() -> Server {
    let opening = Clock::start();
    let backend = Backend::default().or_environment().expect("a backend");
    let options =
        OpenOptions { backend, conversion: Conversion::Auto, size: (256, 144), fps: 20, clock: &move || opening.now() };
    let source = open(&SourceKind::World { scene: None }, &options).expect("the plaza");
    Server::with(("fixed", bounds()), source, 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spectator_s_client_gets_pictures_and_does_nothing_in_the_world() {
    let server = plaza();
    let mut visitor = Visitor::join(&server).await;
    let mut client = server.watch_as_spectator().pictures(1).await;
    look(&mut client, PLINTH);
    let now = || server.state.clock.now();
    client
        .receiver
        .uplink()
        .on_device(now(), DeviceInput::Pointer(Some(Pointer { captured: true, buttons: 1, ..Pointer::default() })));
    let key = Key::from_code("KeyR").expect("a key");
    client.receiver.uplink().on_device(now(), DeviceInput::Key { key, pressed: true });
    for _ in 0..20 {
        client = client.pictures(1).await;
        visitor.step().await;
    }
    assert!(client.newest_input.is_some_and(|input| input.0 > 0), "pictures follow the spectator's view");
    let state = visitor.replica.state();
    assert_eq!(state.owner(BALL), None);
    let roles: Vec<_> =
        state.members().filter(|(id, _)| *id != visitor.id()).map(|(id, member)| (id, member.role)).collect();
    assert!(matches!(roles[..], [(id, Role::Spectator)] if visitor.replica.seen(id).is_none()), "{roles:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_rendered_for_and_a_member_see_each_other_and_hand_a_ball_over() {
    let server = plaza();
    let now = || server.state.clock.now();
    let mut visitor = Visitor::join(&server).await;
    let mut client = server.watch().pictures(1).await;
    look(&mut client, PLINTH);
    let others = |visitor: &Visitor| -> Vec<MemberId> {
        let members = visitor.replica.state().members().map(|(id, _)| id);
        members.filter(|id| *id != visitor.id() && visitor.replica.seen(*id).is_some()).collect()
    };
    until(&mut client, &mut visitor, "the visitor sees the client", |visitor| others(visitor).len() == 1).await;
    let viewer = others(&visitor)[0];
    let name = visitor.replica.state().member(viewer).map(|member| member.name.as_str());
    assert_eq!(name, Some("Ada (2)"), "as its hello says, and told apart from the other");
    let head = visitor.replica.seen(viewer).expect("seen").avatar.head;
    assert_eq!(head.position.map(f32::to_bits), START.position.map(f32::to_bits));
    // The left button takes what the view points at.
    let held = Pointer { captured: true, buttons: 1, ..Pointer::default() };
    client.receiver.uplink().on_device(now(), DeviceInput::Pointer(Some(held)));
    let owner = |visitor: &Visitor| visitor.replica.state().owner(BALL);
    until(&mut client, &mut visitor, "the client holds it", |visitor| owner(visitor) == Some(viewer)).await;
    // The visitor comes to where the client looks, and is given the ball.
    let there = Pose { position: [0.0, 1.6, -2.0], ..Pose::default() };
    visitor.replica.set_body(&Avatar { head: there, ..Avatar::default() }).expect("a pose");
    look(&mut client, there.position);
    let moved = |visitor: &Visitor| visitor.replica.object(BALL).is_some_and(|pose| pose.position[0].abs() < 0.3);
    until(&mut client, &mut visitor, "the ball moves with the view", moved).await;
    let key = Key::from_code("KeyG").expect("a key");
    for pressed in [true, false] {
        client.receiver.uplink().on_device(now(), DeviceInput::Key { key, pressed });
    }
    let own = visitor.id();
    until(&mut client, &mut visitor, "the visitor has it", |visitor| owner(visitor) == Some(own)).await;
    visitor.replica.set_object(BALL, &there).expect("held");
    visitor.replica.request(Request::HandOver { object: BALL, to: viewer }).expect("held");
    until(&mut client, &mut visitor, "the client has it again", |visitor| owner(visitor) == Some(viewer)).await;
    // Who leaves lets go.
    drop(client);
    let left = async {
        while owner(&visitor).is_some() || visitor.replica.state().members().len() > 1 {
            visitor.step().await;
        }
    };
    assert!(tokio::time::timeout(NEVER, left).await.is_ok(), "the client leaves");
}

/// The prefix of a voice among the messages between a client and the application, and the first byte of one among a room's.
const MIC: &[u8] = b"mic";
const VOICE: u8 = 0x18;
const TONE_HERTZ: f32 = 440.0;
/// Ten milliseconds.
const BLOCK: std::time::Duration = std::time::Duration::from_millis(10);

/// A member's voice: a tone in numbered packets of ten milliseconds.
struct Voice {
    encoder: SoundEncoder,
    blocks: u32,
}

impl Voice {
    fn new() -> Self {
        Self { encoder: SoundEncoder::new(nearlight_units::Bitrate::from_kbps(64)).expect("an encoder"), blocks: 0 }
    }

    fn next(&mut self) -> Vec<u8> {
        let mut block = [0.0; BLOCK_FRAMES * 2];
        for (index, both) in block.chunks_exact_mut(2).enumerate() {
            let at = (self.blocks as usize * BLOCK_FRAMES + index) as f32 / 48_000.0;
            both.fill(0.5 * (std::f32::consts::TAU * TONE_HERTZ * at).sin());
        }
        self.blocks += 1;
        let packet = self.encoder.encode(&block).expect("a block").expect("no pause");
        [&self.blocks.to_be_bytes(), &packet[..]].concat()
    }
}

/// Decodes what one member hears of another.
struct Ear {
    decoder: SoundDecoder,
    samples: Vec<f32>,
}

impl Ear {
    fn new() -> Self {
        Self { decoder: SoundDecoder::new().expect("a decoder"), samples: Vec::new() }
    }

    /// Takes what follows the first byte or the prefix: speaker, number, place and packet. Returns the speaker.
    fn hear(&mut self, message: &[u8]) -> MemberId {
        let block = self.decoder.decode(&message[20..]).expect("a packet that a member said");
        self.samples.extend(block.chunks_exact(2).map(|both| both[0]));
        MemberId(u32::from_be_bytes(*message.first_chunk().expect("a speaker")))
    }

    /// Returns the frequency by the zero crossings in the newest half second, or none before so much was heard.
    fn hertz(&self) -> Option<f32> {
        let newest = self.samples.len().checked_sub(24_000).map(|from| &self.samples[from..])?;
        let crossings = newest.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
        Some(crossings as f32 * 2.0)
    }
}

impl Visitor {
    fn say(&self, packet: &[u8]) {
        let bytes = [&[VOICE][..], packet].concat().into();
        let _ = self.room.try_send(RoomInput::Message { connection: self.connection, bytes });
    }

    /// Sends what is due, handles what has arrived, and returns the voice packets of others.
    fn voices(&mut self) -> Vec<bytes::Bytes> {
        let mut out = Vec::new();
        while self.replica.poll_transmit(self.clock.now(), &mut out) {
            let bytes = std::mem::take(&mut out).into();
            let _ = self.room.try_send(RoomInput::Message { connection: self.connection, bytes });
        }
        let mut voices = Vec::new();
        while let Ok(bytes) = self.incoming.try_recv() {
            if nearlight_rooms::is_voice(&bytes) {
                voices.push(bytes.slice(1..));
            } else {
                self.replica.on_message(self.clock.now(), &bytes).expect("a message of the room's");
            }
        }
        voices
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tone_that_somebody_says_is_heard_at_its_pitch_by_those_in_the_room_who_listen() {
    let server = plaza();
    let (mut speaker, mut listener) = (Visitor::join(&server).await, Visitor::join(&server).await);
    let (mut deaf, mut elsewhere) = (Visitor::join(&server).await, Visitor::join_room(&server, "elsewhere").await);
    let mut client = server.watch().pictures(1).await;
    look(&mut client, PLINTH);
    let silence = 0_u32.to_be_bytes();
    client.message_to_application(&[MIC, &silence].concat());
    for member in [&listener, &elsewhere] {
        member.say(&silence);
    }
    let body = Avatar { head: START, ..Avatar::default() };
    for member in [&mut speaker, &mut listener, &mut deaf, &mut elsewhere] {
        member.replica.set_body(&body).expect("a pose");
    }
    let (mut voice, mut own_voice) = (Voice::new(), Voice::new());
    // Two hear the speaker; both members hear the client for whom the server renders.
    let (mut by_listener, mut by_client, mut of_client) = (Ear::new(), Ear::new(), Ear::new());
    let good = |ear: &Ear| ear.hertz().is_some_and(|hertz| (hertz - TONE_HERTZ).abs() <= 8.0);
    let talking = async {
        while ![&by_listener, &by_client, &of_client].into_iter().all(good) {
            speaker.say(&voice.next());
            client.receiver.uplink().on_application_message([MIC, &own_voice.next()].concat());
            tokio::time::sleep(BLOCK).await;
            client.take_waiting();
            let own = speaker.id();
            while let Some(data) = client.receiver.poll_application_message() {
                let heard = data.strip_prefix(MIC).expect("a voice");
                assert_eq!(by_client.hear(heard), own, "nobody hears itself");
            }
            for heard in listener.voices() {
                let by_speaker = heard.starts_with(&own.0.to_be_bytes());
                let heard_from = if by_speaker { &mut by_listener } else { &mut of_client }.hear(&heard);
                assert_ne!(heard_from, listener.id());
            }
            speaker.voices();
            assert!(deaf.voices().is_empty(), "it has not asked to hear anybody");
            assert!(elsewhere.voices().is_empty(), "it is in another room");
        }
    };
    assert!(tokio::time::timeout(NEVER, talking).await.is_ok(), "the tone is heard");
    // What is not a voice is ignored, and those who send much more than a voice are cut off.
    for _ in 0..10 {
        client.message_to_application(MIC);
        client.message_to_application(&[MIC, &[7; 1_000]].concat());
    }
    let flood = voice.next();
    for _ in 0..4 {
        (0..300).for_each(|_| speaker.say(&flood));
        tokio::time::sleep(BLOCK * 10).await;
        drop((listener.voices(), deaf.voices(), speaker.voices()));
    }
    for _ in 0..50 {
        speaker.say(&voice.next());
        tokio::time::sleep(BLOCK).await;
        drop((deaf.voices(), speaker.voices()));
        let own = speaker.id().0.to_be_bytes();
        assert!(!listener.voices().iter().any(|heard| heard.starts_with(&own)), "who floods is cut off for 5 s");
    }
    let members = listener.replica.state().members().len();
    assert_eq!(members, 4, "nobody else has to go");
}
