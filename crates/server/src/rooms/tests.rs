//! The demonstration's world as a room, with one client that is rendered for and one that speaks the rooms' own protocol, both in memory.

use axum::extract::ws::Message;
use nearlight_net::Clock;
use nearlight_rooms::{Avatar, MemberId, Replica, Request, Role};
use nearlight_scene::{Backend, OpenOptions, START, SourceKind, open};
use nearlight_session::{DeviceInput, Presence};
use nearlight_wire::{Fov, Key, Pointer, View};

use super::*;
use crate::session::tests::{Client, Server, bounds};

/// The ball on the left plinth of the plaza, and where it is.
const BALL: ObjectId = ObjectId(1);
const PLINTH: [f32; 3] = [-1.75, 1.12, -3.3];
/// How long anything may take on a busy machine.
const NEVER: std::time::Duration = std::time::Duration::from_secs(30);

/// Somebody in the world's room, over a network without loss or delay.
struct Visitor {
    clock: Clock,
    room: mpsc::Sender<ToRoom>,
    connection: Connection,
    incoming: mpsc::Receiver<Message>,
    replica: Replica,
}

impl Visitor {
    async fn join(server: &Server) -> Self {
        let (sessions, mut begun) = mpsc::channel(4);
        tokio::spawn(async move {
            while let Some(session) = begun.recv().await {
                tokio::spawn(session);
            }
        });
        let clock = server.state.clock;
        let room = enter(&server.state, &sessions, DEFAULT_ROOM).await.expect("it is open");
        let join =
            Join { room: DEFAULT_ROOM.into(), role: Role::Guest, name: "Ada".into(), colour: [255, 120, 0], key: None };
        let (outgoing, incoming) = mpsc::channel(16);
        let (answer, answered) = oneshot::channel();
        let connection = server.state.rooms.new_connection();
        let newcomer = Newcomer { connection, join, tcp: None, outgoing, answer };
        assert!(room.send(ToRoom::Join(Box::new(newcomer))).await.is_ok(), "the room runs");
        answered.await.expect("an answer").expect("a place");
        Self { clock, room, connection, incoming, replica: Replica::new(clock.now(), Span::from_millis(50)) }
    }

    /// Nobody before the room has said so.
    fn id(&self) -> MemberId {
        self.replica.you().unwrap_or_default()
    }

    /// Takes the next message, and says what is due.
    async fn step(&mut self) {
        let mut out = Vec::new();
        while self.replica.poll_transmit(self.clock.now(), &mut out) {
            let bytes = std::mem::take(&mut out).into();
            assert!(
                self.room.send(ToRoom::Message { connection: self.connection, bytes }).await.is_ok(),
                "the room runs"
            );
        }
        let soon = std::time::Duration::from_millis(20);
        if let Ok(message) = tokio::time::timeout(soon, self.incoming.recv()).await {
            let Some(Message::Binary(bytes)) = message else { panic!("{message:?}") };
            self.replica.on_message(self.clock.now(), &bytes).expect("a message of the room's");
        }
    }
}

/// Both go on until this is so.
async fn until(client: &mut Client, visitor: &mut Visitor, what: &str, is_so: impl Fn(&Visitor) -> bool) {
    let going_on = async {
        while !is_so(visitor) {
            visitor.step().await;
            client.take_waiting();
        }
    };
    assert!(tokio::time::timeout(NEVER, going_on).await.is_ok(), "never: {what}");
}

/// The user of the picture turns towards a place.
fn look(client: &mut Client, at: [f32; 3]) {
    let [x, y, z]: [f32; 3] = std::array::from_fn(|axis| at[axis] - START.position[axis]);
    let (yaw, pitch) = ((-x).atan2(-z) / 2.0, y.atan2(x.hypot(z)) / 2.0);
    let orientation =
        [yaw.cos() * pitch.sin(), yaw.sin() * pitch.cos(), -yaw.sin() * pitch.sin(), yaw.cos() * pitch.cos()];
    let pose = Pose { orientation, ..START };
    let presence = Presence::of_views(pose, vec![View { pose, fov: Fov::symmetric(1.2, 16.0 / 9.0) }]);
    client.receiver.on_input(client.clock.now(), presence);
}

/// A server that shows the plaza to one client.
fn plaza() -> Server {
    let opening = Clock::start();
    let backend = Backend::default().or_environment().expect("a backend");
    let options = OpenOptions { backend, size: (256, 144), fps: 20, clock: &move || opening.now() };
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
        .on_device(now(), DeviceInput::Pointer(Some(Pointer { captured: true, buttons: 1, ..Pointer::default() })));
    let key = Key::from_code("KeyR").expect("a key");
    client.receiver.on_device(now(), DeviceInput::Key { key, pressed: true });
    for _ in 0..20 {
        client = client.pictures(1).await;
        visitor.step().await;
    }
    assert!(client.newest_input.is_some_and(|input| input.0 > 0), "pictures follow the spectator's view");
    let state = visitor.replica.state();
    assert_eq!((state.owner(BALL), state.members().len()), (None, 1));
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
    let head = visitor.replica.seen(viewer).expect("seen").avatar.head;
    assert_eq!(head.position.map(f32::to_bits), START.position.map(f32::to_bits));
    // The left button takes what the view points at.
    let held = Pointer { captured: true, buttons: 1, ..Pointer::default() };
    client.receiver.on_device(now(), DeviceInput::Pointer(Some(held)));
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
        client.receiver.on_device(now(), DeviceInput::Key { key, pressed });
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
