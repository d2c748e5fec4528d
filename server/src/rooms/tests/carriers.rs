//! A complete server on loopback, with members over a WebSocket and over WebTransport. No test asserts how soon something happens.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nearlight_net::{
    Clock, CloseReason, ConnectOptions, Connection, ControlReceiver, ControlSender, Link, SessionKind, Trust, connect,
};
use nearlight_rooms::{Avatar, EndReason, Join, MemberId, ObjectId, Replica, ReplicaEvent, Request, Role};
use nearlight_scene::SourceKind;
use nearlight_swarm::live::{self, DisconnectReason, MemberConnection, ReceivedMessage, SwarmError};
use nearlight_swarm::{Carrier, Profile};
use nearlight_units::Span;
use nearlight_wire::{Bytes32, ClientMessage, Hello, Pose, RefusalReason, Role as End, ServerMessage, TokenProof};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::{NEVER, VOICE};
use crate::options::{PictureSize, ServeOptions};
use crate::serve::BoundServer;
use crate::state::ServerState;

const OBJECT: ObjectId = ObjectId(1);

struct Server {
    link: Link,
    clock: Clock,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl Server {
    fn start() -> Self {
        let clock = Clock::start();
        let options = ServeOptions {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            size: PictureSize::Fixed { width: 256, height: 144 },
            fps: Some(10),
            ..ServeOptions::new(SourceKind::TestCard)
        };
        let bound = BoundServer::open(options, clock).expect("a free port");
        let link = Link { secure: true, host: "127.0.0.1".into(), ..bound.local_link() };
        let server = bound.start().expect("a test card");
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            server.run(stopped).await.expect("it runs");
        });
        Self { link, clock, stop: Some(stop), running }
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        within(&mut self.running).await.expect("it ends in order");
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, future).await.expect("this never ends")
}

fn join_of(name: &str) -> Join {
    Join { room: "lab".into(), role: Role::Guest, name: name.into(), colour: [1, 2, 3], key: None }
}

struct Member {
    clock: Clock,
    connection: MemberConnection,
    replica: Replica,
    /// Messages that came in datagrams.
    datagrams: usize,
    /// Voice packets of others, with their speakers.
    voices: Vec<(MemberId, Vec<u8>)>,
    said: u32,
}

impl Member {
    async fn join(server: &Server, carrier: Carrier, name: &str, x: f32) -> Self {
        let clock = server.clock;
        let link = within(live::with_certificate(&server.link)).await.expect("an answer");
        let opened = within(MemberConnection::open(&link, carrier, &join_of(name), clock)).await;
        let connection = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut replica = Replica::new(clock.now(), Span::from_millis(50));
        let head = Pose { position: [x, 1.5, 0.0], ..Pose::default() };
        replica.set_body(&Avatar { head, ..Avatar::default() }).expect("a pose");
        Self { clock, connection, replica, datagrams: 0, voices: Vec::new(), said: 0 }
    }

    fn id(&self) -> MemberId {
        self.replica.you().unwrap_or_default()
    }

    fn members(&self) -> usize {
        self.replica.state().members().len()
    }

    async fn say(&mut self, packet: &[u8]) {
        self.said += 1;
        let message = [&[VOICE][..], &self.said.to_be_bytes(), packet].concat();
        self.connection.send(vec![message]).await.expect("connected");
    }

    /// Returns whether the room says goodbye before the connection ends.
    async fn until_goodbye(&mut self) -> bool {
        loop {
            let went_on = self.step().await.is_ok();
            if std::iter::from_fn(|| self.replica.poll_event())
                .any(|event| matches!(event, ReplicaEvent::Goodbye { reason: EndReason::Closing }))
            {
                return true;
            }
            if !went_on {
                return false;
            }
        }
    }

    /// Sends what is due, and handles what arrives for a moment.
    async fn step(&mut self) -> Result<(), DisconnectReason> {
        let mut messages = Vec::new();
        let mut out = Vec::new();
        while self.replica.poll_transmit(self.clock.now(), &mut out) {
            messages.push(std::mem::take(&mut out));
        }
        self.connection.send(messages).await.map_err(DisconnectReason::Lost)?;
        let soon = Duration::from_millis(20);
        while let Ok(heard) = tokio::time::timeout(soon, self.connection.recv()).await {
            let ReceivedMessage { bytes, in_datagram } = heard?;
            self.datagrams += usize::from(in_datagram);
            if nearlight_rooms::is_voice(&bytes) {
                let speaker = MemberId(u32::from_be_bytes(*bytes[1..].first_chunk().expect("a speaker")));
                self.voices.push((speaker, bytes[21..].to_vec()));
            } else {
                self.replica.on_message(self.clock.now(), &bytes).expect("a message of the room's");
            }
        }
        Ok(())
    }
}

/// Runs all members until the condition holds.
async fn until<const N: usize>(mut members: [&mut Member; N], what: &str, is_so: impl Fn(&[&mut Member; N]) -> bool) {
    let going_on = async {
        while !is_so(&members) {
            for member in &mut members {
                member.step().await.expect("connected");
            }
        }
    };
    assert!(tokio::time::timeout(NEVER, going_on).await.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_over_different_carriers_see_and_hear_each_other() {
    let server = Server::start();
    let mut ada = Member::join(&server, Carrier::WebSocket, "Ada", 1.0).await;
    let mut bea = Member::join(&server, Carrier::WebTransport, "Bea", -1.0).await;
    let place = |of: &Member, seen_by: &Member| seen_by.replica.seen(of.id()).map(|seen| seen.avatar.head.position[0]);
    let see = |[ada, bea]: &[&mut Member; 2]| (place(ada, bea), place(bea, ada)) == (Some(1.0), Some(-1.0));
    until([&mut ada, &mut bea], "they see each other", see).await;
    assert!(ada.datagrams == 0 && bea.datagrams > 0, "{} and {} datagrams", ada.datagrams, bea.datagrams);
    for (one, other) in [(0, 1), (1, 0)] {
        let both = [&mut ada, &mut bea];
        both[one].replica.request(Request::Take { object: OBJECT }).expect("in the room");
        let you = both[one].id();
        let has = |both: &[&mut Member; 2]| both.iter().all(|member| member.replica.state().owner(OBJECT) == Some(you));
        until(both, "both know who has it", has).await;
        let both = [&mut ada, &mut bea];
        let to = both[other].id();
        both[one].replica.request(Request::HandOver { object: OBJECT, to }).expect("held");
        let has = |both: &[&mut Member; 2]| both.iter().all(|member| member.replica.state().owner(OBJECT) == Some(to));
        until(both, "both know who was given it", has).await;
        let both = [&mut ada, &mut bea];
        both[other].replica.request(Request::Release { object: OBJECT }).expect("held");
        let free = |both: &[&mut Member; 2]| both.iter().all(|member| member.replica.state().owner(OBJECT).is_none());
        until(both, "both know that it is free", free).await;
    }
    let heard = |by: &Member, of: MemberId| by.voices.contains(&(of, b"opus".to_vec()));
    while !heard(&ada, bea.id()) || !heard(&bea, ada.id()) {
        for member in [&mut ada, &mut bea] {
            member.say(b"opus").await;
            member.step().await.expect("connected");
        }
        assert!(ada.said < 500, "nobody hears the other");
    }
    let told = within(async { tokio::join!(ada.until_goodbye(), bea.until_goodbye(), server.stop()) }).await;
    assert_eq!((told.0, told.1), (true, true), "the server says that it closes");
}

/// A member without a replica, whose messages the test writes itself.
struct Raw {
    connection: Connection,
    to: ControlSender<ClientMessage>,
    from: ControlReceiver<ServerMessage>,
}

impl Raw {
    async fn join(server: &Server) -> Self {
        let options = ConnectOptions { kind: SessionKind::Room, ..ConnectOptions::new(&server.link, Trust::Any) };
        let connection = within(connect(&options, server.clock)).await.expect("a session");
        let (mut to, mut from) = connection.open_control().await.expect("a stream");
        let token = server.link.token.as_deref().expect("a token");
        let proof = TokenProof::Exporter { mac: connection.exporter().prove(token, End::Client) };
        let hello = Hello::without_media("a test".into(), Some(proof));
        to.send(&ClientMessage::Hello(hello)).await.expect("sent");
        let welcome = within(from.recv_bytes(1_000)).await.expect("a welcome");
        assert!(welcome.starts_with(br#"{"type":"rooms""#), "{}", String::from_utf8_lossy(&welcome));
        to.send_bytes(&join_of("raw").to_bytes()).await.expect("sent");
        let snapshot = within(from.recv_bytes(1_000)).await.expect("a snapshot");
        assert_eq!(snapshot.first(), Some(&0x13));
        Self { connection, to, from }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ends_the_stream_has_left() {
    let server = Server::start();
    let mut ada = Member::join(&server, Carrier::WebSocket, "Ada", 1.0).await;
    let Raw { connection, to, from } = Raw::join(&server).await;
    until([&mut ada], "two are there", |[ada]| ada.members() == 2).await;
    to.finish().await;
    until([&mut ada], "one has left", |[ada]| ada.members() == 1).await;
    within(connection.closed()).await;
    drop(from);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_floods_is_cut_off_whether_it_reads_or_not() {
    let server = Server::start();
    let mut ada = Member::join(&server, Carrier::WebSocket, "Ada", 1.0).await;
    for reads in [true, false] {
        let Raw { connection, mut to, mut from } = Raw::join(&server).await;
        until([&mut ada], "two are there", |[ada]| ada.members() == 2).await;
        let flood = async {
            // By datagrams too, of which most are lost.
            while to.send_bytes(&[VOICE, 0, 0, 0, 0]).await.is_ok() {
                let _ = connection.send_datagram(bytes::Bytes::from_static(&[VOICE, 0, 0, 0, 0]));
            }
        };
        let goodbye = async {
            if reads {
                while let Ok(message) = from.recv_bytes(10_000).await {
                    if message == [0x16, 4] {
                        return true;
                    }
                }
            }
            connection.closed().await;
            false
        };
        let (said, ()) = within(async { tokio::join!(goodbye, flood) }).await;
        assert_eq!(said, reads, "who reads is told why");
        until([&mut ada], "it is gone", |[ada]| ada.members() == 1).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_nothing_is_cut_off() {
    let server = Server::start();
    let Raw { connection, to, from } = Raw::join(&server).await;
    // It gives signs of life, and applies nothing of what it is sent.
    let mut replica = Replica::new(server.clock.now(), Span::from_millis(50));
    let lives = async {
        loop {
            let mut out = Vec::new();
            while replica.poll_transmit(server.clock.now(), &mut out) {
                let _ = connection.send_datagram(std::mem::take(&mut out).into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let reason = within(async {
        tokio::select! {
            reason = connection.closed() => reason,
            () = lives => unreachable!("it goes on"),
        }
    })
    .await;
    assert!(matches!(reason, CloseReason::Peer { code: 0, .. }), "{reason}");
    drop((to, from));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_message_of_a_room_ends_a_membership() {
    let server = Server::start();
    let mut ada = Member::join(&server, Carrier::WebSocket, "Ada", 1.0).await;
    // Far too long, and not a room's.
    for wrong in [vec![0xff; 20 << 10], vec![0x12; 100]] {
        let Raw { connection, mut to, from } = Raw::join(&server).await;
        until([&mut ada], "two are there", |[ada]| ada.members() == 2).await;
        within(async { while to.send_bytes(&wrong).await.is_ok() {} }).await;
        within(connection.closed()).await;
        until([&mut ada], "it is gone", |[ada]| ada.members() == 1).await;
        drop(from);
    }
    server.stop().await;
}

/// Returns a goodbye that a server sends instead of a welcome.
fn goodbye() -> ServerMessage {
    ServerMessage::Goodbye { message: "another client needed the slot".into() }
}

/// Starts a proxy that answers the first members with these messages after the challenge, and forwards all others to the server. Returns
/// its port.
async fn door(server: &Server, words: Vec<ServerMessage>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let (own, behind) = (listener.local_addr().expect("its port").port(), server.link.port);
    tokio::spawn(async move {
        let mut words = words.into_iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let said = words.next();
            tokio::spawn(async move {
                let Some(said) = said else {
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, behind)).await.expect("the server");
                    return drop(tokio::io::copy_bidirectional(&mut stream, &mut server).await);
                };
                let mut socket = tokio_tungstenite::accept_async(stream).await.expect("a WebSocket");
                for message in [ServerMessage::Challenge { nonce: Bytes32([1; 32]) }, said] {
                    let text = serde_json::to_string(&message).expect("plain data");
                    socket.send(Message::Text(text.into())).await.expect("sent");
                }
                let _ = socket.next().await;
                let _ = socket.close(None).await;
            });
        }
    });
    own
}

/// Runs a crowd through such a proxy for a short time.
async fn crowd(members: usize, words: Vec<ServerMessage>) -> Result<nearlight_swarm::Summary, SwarmError> {
    let server = Server::start();
    let port = door(&server, words).await;
    let link = within(live::with_certificate(&server.link)).await.expect("an answer");
    let profile = Profile { ramp_seconds: 0.0, active_seconds: 2.0, rest_seconds: 0.5, ..Profile::default() };
    let options = live::Options {
        profile: Arc::new(profile),
        links: vec![Link { secure: false, port, ..link }],
        carrier: Carrier::WebSocket,
        members,
        rooms: 1,
        room: "lab".into(),
        seed: 1,
        server_process: None,
        naive: false,
    };
    let result = within(live::run(options, std::future::pending(), |_| ())).await;
    server.stop().await;
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_comes_again_where_the_server_asks_and_only_there() {
    let summary = crowd(4, vec![goodbye(); 5]).await.expect("they join in the end");
    assert_eq!((summary.joined, summary.retries), (4, 5), "{:?}", summary.ended);
    assert!(summary.ended.is_empty(), "{:?}", summary.ended);
    let full = ServerMessage::Refused { reason: RefusalReason::Full, message: "All places are taken.".into() };
    let error = crowd(1, vec![goodbye(), full]).await.expect_err("it is refused, and the next attempt would succeed");
    assert!(matches!(&error, SwarmError::Refused(words) if words == "All places are taken."), "{error}");
}

#[test]
fn a_server_for_more_members_keeps_more_handshakes_from_one_address() {
    for (members, kept) in [(0, 32), (600, 182)] {
        let gate = ServerState::new_handshakes(members);
        let _passes: Vec<_> =
            (0..500).filter_map(|_| gate.enter(nearlight_units::Time::ZERO, Ipv4Addr::LOCALHOST.into())).collect();
        assert_eq!(gate.held(), kept);
    }
}
