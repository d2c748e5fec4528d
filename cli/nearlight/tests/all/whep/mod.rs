//! WHEP against the real command, over loopback: a player with the library's defaults decodes the stream, on a clean and on a lossy path;
//! and what is refused.

use crate::support;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nearlight_codec::{Size, new_decoder};
use nearlight_units::{InputSeq, RemoteTime, Span, Time};
use nearlight_webrtc::Message;
use nearlight_webrtc::player::{PlayedFrame, Player};
use nearlight_wire::marker::Marker;
use nearlight_wire::{Fov, InputSample, PROTOCOL_VERSION, Ping, Pose, ToClient, ToServer, View};
use serde_json::Value;

mod floods;
mod packaged;
mod server;

use server::{Answer, Server};
use support::TOKEN;

/// How a client's datagrams travel.
enum Way {
    Udp(UdpSocket),
    /// Length-prefixed, and the bytes of the next datagram received so far.
    Tcp(TcpStream, Vec<u8>),
}

impl Way {
    fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        match self {
            Self::Udp(socket) => {
                let _ = socket.send_to(datagram, to);
            }
            Self::Tcp(stream, _) if stream.peer_addr().is_ok_and(|peer| peer == to) => {
                let length = (datagram.len() as u16).to_be_bytes();
                stream.write_all(&[&length[..], datagram].concat()).expect("the connection is open");
            }
            // Another of the server's addresses.
            Self::Tcp(..) => {}
        }
    }

    /// What has arrived within two milliseconds, and from where.
    fn receive(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut buffer = [0; 2_048];
        match self {
            Self::Udp(socket) => {
                let received = socket.recv_from(&mut buffer).ok();
                received.map(|(length, from)| (from, buffer[..length].to_vec())).into_iter().collect()
            }
            Self::Tcp(stream, held) => {
                let length = stream.read(&mut buffer).unwrap_or(0);
                held.extend_from_slice(&buffer[..length]);
                let from = stream.peer_addr().expect("connected");
                let mut datagrams = Vec::new();
                while let Some(length) = held.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)))
                    && held.len() >= 2 + length
                {
                    datagrams.push((from, held[2..2 + length].to_vec()));
                    held.drain(..2 + length);
                }
                datagrams
            }
        }
    }
}

/// What the server sends.
const SIZE: Size = Size { width: 320, height: 240 };
/// Where a client that wants the marker below its pictures makes its offer.
const CROPPING: &str = "/whep?marker=strip";

/// A player with a socket and a clock.
struct Client {
    player: Player,
    way: Way,
    origin: Instant,
    frames: Vec<PlayedFrame>,
    messages: Vec<(String, Message)>,
}

#[expect(clippy::disallowed_methods, reason = "a driver: the test's clock")]
fn clock() -> Instant {
    Instant::now()
}

impl Client {
    /// A client that crops its pictures.
    fn connect(server: &Server) -> (Self, Answer) {
        Self::connect_at(server, CROPPING)
    }

    fn connect_at(server: &Server, path: &str) -> (Self, Answer) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(2))).expect("a timeout");
        let origin = clock();
        let local = socket.local_addr().expect("bound");
        let player = Player::new(Time::ZERO, origin, local, true).expect("an offer");
        Self::meet((server, path), origin, player, Way::Udp(socket))
    }

    /// A client whose network lets no UDP through.
    fn connect_by_tcp(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the page's port is open");
        stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a timeout");
        let origin = clock();
        let player = Player::without_udp(Time::ZERO, origin, stream.local_addr().expect("connected"));
        Self::meet((server, CROPPING), origin, player.expect("an offer"), Way::Tcp(stream, Vec::new())).0
    }

    fn meet(
        (server, path): (&Server, &str),
        origin: Instant,
        (mut player, offer): (Player, String),
        way: Way,
    ) -> (Self, Answer) {
        let answer = server.offer_to(path, TOKEN, &offer);
        assert_eq!(answer.status, 201, "{}", answer.body);
        player.on_answer(Time::ZERO, &answer.body).expect("an answer");
        (Self { player, way, origin, frames: Vec::new(), messages: Vec::new() }, answer)
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// Until `done`, 30 s at most.
    fn run(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(self.now() < Time::from_secs(30), "not done after 30 s; {} frames", self.frames.len());
            self.turn();
        }
    }

    /// The client once it has a picture; none if that takes longer than 10 s.
    fn with_pictures(mut self) -> Option<Self> {
        let limit = self.now() + Span::from_secs(10);
        while self.frames.is_empty() && self.now() < limit {
            self.turn();
        }
        (!self.frames.is_empty()).then_some(self)
    }

    /// Sends what is due and processes what arrives within two milliseconds.
    fn turn(&mut self) {
        let now = self.now();
        self.player.on_timeout(now);
        while let Some(transmit) = self.player.poll_transmit() {
            self.way.send(transmit.to.address, &transmit.datagram);
        }
        for (from, datagram) in self.way.receive() {
            let now = self.now();
            self.player.on_datagram(now, from, &datagram);
        }
        self.frames.extend(std::iter::from_fn(|| self.player.poll_frame()));
        self.messages.extend(std::iter::from_fn(|| self.player.poll_message()));
    }

    fn say(&mut self, label: &str, message: Message) {
        self.run(|client| client.player.is_open(label));
        let now = self.now();
        assert!(self.player.send(now, label, message));
    }

    fn heard(&self, kind: &str) -> Option<Value> {
        let mut texts = self.messages.iter().filter_map(|(label, message)| match message {
            Message::Text(text) if label == "control" => serde_json::from_str::<Value>(text).ok(),
            _ => None,
        });
        texts.find(|value| value["type"] == kind)
    }

    /// Decodes all frames; the numbers in the markers below the pictures.
    fn decode(&self) -> Vec<Marker> {
        let mut decoder = new_decoder(self.player.codec()).expect("a decoder");
        let mut markers = Vec::new();
        for (index, frame) in self.frames.iter().enumerate() {
            let decoded = decoder.decode(&frame.bits).unwrap_or_else(|error| panic!("frame {index}: {error}"));
            let picture = decoded.unwrap_or_else(|| panic!("frame {index} has no picture"));
            let (picture, marker) = picture.without_strip(SIZE);
            assert_eq!(picture.size, SIZE);
            markers.push(marker.unwrap_or_else(|| panic!("frame {index} has no marker")));
        }
        markers
    }
}

fn hello(protocol: u8) -> Message {
    let hello = serde_json::json!({
        "type": "hello", "protocol": protocol, "client": "test", "display": "screen",
        "codecs": ["h264", "vp8"], "display_hz": 60,
    });
    Message::Text(hello.to_string())
}

fn input(number: u32) -> Message {
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.2, 4.0 / 3.0) };
    let sample = InputSample::of_views(InputSeq(number), RemoteTime::from_micros(5), Pose::default(), vec![view]);
    Message::Binary(ToServer::Input(sample).to_bytes())
}

#[test]
fn a_player_decodes_every_frame_of_both_codecs() {
    for codec in ["h264", "vp8"] {
        let server = Server::start(&["--codec", codec]);
        let (mut client, answer) = Client::connect(&server);
        assert!(answer.header("location").is_some_and(|location| location.starts_with("/whep/")), "{}", answer.head);
        client.run(|client| client.frames.len() >= 60);
        let numbers: Vec<u32> = client.decode().iter().map(|marker| marker.frame.0).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u32), "{codec}: {numbers:?}");
        assert!(client.frames.iter().all(|frame| frame.undelayed));
        assert_eq!(client.player.given_up(), 0);
    }
}

#[test]
fn a_player_that_does_not_ask_gets_the_picture_alone() {
    let server = Server::start(&["--codec", "vp8"]);
    let (mut client, _) = Client::connect_at(&server, "/whep?of=another&kind");
    client.run(|client| client.frames.len() >= 5);
    let mut decoder = new_decoder(client.player.codec()).expect("a decoder");
    for frame in &client.frames {
        assert_eq!(decoder.decode(&frame.bits).expect("a frame").map(|picture| picture.size), Some(SIZE));
    }
    let refused = server.offer_to("/whep?marker=corner", TOKEN, "v=0");
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("marker=strip"), "{}", refused.body);
}

#[test]
fn a_client_without_udp_is_served_on_the_page_s_port() {
    let server = Server::start(&[]);
    let mut client = Client::connect_by_tcp(&server);
    client.run(|client| client.frames.len() >= 40);
    assert!(client.decode().iter().map(|marker| marker.frame.0).eq(0..client.frames.len() as u32));
    client.say("control", hello(PROTOCOL_VERSION));
    client.run(|client| client.heard("welcome").is_some());
    // A datagram for no peer closes its connection, and the page is still served.
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port)).expect("the page's port is open");
    stranger.write_all(&[0, 4, 1, 2, 3, 4]).expect("a short datagram");
    assert_eq!(stranger.read(&mut [0; 16]).unwrap_or(0), 0, "the connection is closed");
    assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
}

#[test]
fn losses_are_recovered() {
    let server = Server::start(&["--drop", "2%", "--seed", "5"]);
    // Once in 25 times on a busy machine, a handshake does not recover from a loss. Clients then connect anew.
    let mut clients = std::iter::repeat_with(|| Client::connect(&server).0).take(3);
    let mut client = clients.find_map(Client::with_pictures).expect("one of three handshakes succeeds");
    client.run(|client| client.frames.len() >= 100);
    let numbers: Vec<u32> = client.decode().iter().map(|marker| marker.frame.0).collect();
    // If the machine stalls, the player may abandon a frame; then a key frame recovers the stream, and no undecodable frame arrives.
    assert!(numbers.is_sorted() && numbers.len() >= 100, "{numbers:?}");
    assert!(client.player.given_up() <= 2, "{} gaps", client.player.given_up());
}

#[test]
fn inputs_steer_the_picture_once_the_client_has_said_hello() {
    let server = Server::start(&[]);
    let (mut client, _) = Client::connect(&server);
    client.say(
        "session",
        Message::Binary(ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(7) }).to_bytes()),
    );
    client.run(|client| client.frames.len() >= 5);
    assert!(client.messages.is_empty(), "a stranger hears nothing: {:?}", client.messages);
    client.say("control", hello(PROTOCOL_VERSION));
    client.run(|client| client.heard("welcome").is_some());
    client.say("session", input(9));
    client.say(
        "session",
        Message::Binary(ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(8) }).to_bytes()),
    );
    let seen = client.frames.len();
    client.run(|client| client.frames.len() >= seen + 30 && client.heard("rate").is_some());
    assert_eq!(client.decode().last().map(|marker| marker.input), Some(InputSeq(9)), "the pictures show the input");
    let (mut notes, mut pongs) = (0, 0);
    for (_, message) in &client.messages {
        let Message::Binary(bytes) = message else { continue };
        match ToClient::parse(bytes) {
            Ok(ToClient::Note(note)) => {
                let named = client.frames.iter().any(|frame| frame.rtp_timestamp == note.rtp_timestamp);
                notes += usize::from(named && note.header.width == 320);
            }
            Ok(ToClient::Pong(pong)) => pongs += usize::from(pong.client_sent_at == RemoteTime::from_micros(8)),
            other => panic!("{other:?} has no business on this channel"),
        }
    }
    assert!(notes >= 30 && pongs == 1, "{notes} notes, {pongs} pongs");
    client.say("control", Message::Text(r#"{"type": "goodbye"}"#.into()));
    client.run(|client| client.player.has_ended());
}

#[test]
fn two_players_at_once_each_see_every_frame_and_their_own_input() {
    let server = Server::start(&[]);
    let mut clients = vec![Client::connect(&server).0, Client::connect(&server).0];
    let until = |what: &str, done: &dyn Fn(&Client) -> bool, clients: &mut [Client]| {
        while !clients.iter().all(done) {
            assert!(clients[0].now() < Time::from_secs(60), "never happened: {what}");
            clients.iter_mut().for_each(Client::turn);
        }
    };
    until("both connect", &|client| client.player.is_open("control") && client.player.is_open("session"), &mut clients);
    for (client, number) in clients.iter_mut().zip([9, 17]) {
        client.say("control", hello(PROTOCOL_VERSION));
        client.run(|client| client.heard("welcome").is_some());
        client.say("session", input(number));
    }
    until("both get frames", &|client| client.frames.len() >= 60, &mut clients);
    for (client, number) in clients.iter().zip([9, 17]) {
        let markers = client.decode();
        assert!(markers.iter().map(|marker| marker.frame.0).eq(0..markers.len() as u32), "each counts its own frames");
        assert_eq!(markers.last().map(|marker| marker.input), Some(InputSeq(number)));
        assert_eq!(client.player.given_up(), 0);
    }
}

#[test]
fn an_announced_address_is_the_first_candidate_and_the_others_stay() {
    let server = Server::start(&["--announce", "203.0.113.7"]);
    let (mut client, answer) = Client::connect(&server);
    let candidates: Vec<&str> = answer.body.lines().filter(|line| line.starts_with("a=candidate:")).collect();
    assert!(candidates[0].contains(" 203.0.113.7 ") && candidates.len() > 2, "{candidates:?}");
    client.run(|client| client.frames.len() >= 3);
}

#[test]
fn a_wrong_hello_ends_the_session_and_a_deleted_one_is_gone() {
    let server = Server::start(&[]);
    let (mut client, _) = Client::connect(&server);
    client.say("control", hello(PROTOCOL_VERSION - 1));
    client.run(|client| client.heard("refused").is_some_and(|refused| refused["reason"] == "protocol"));
    client.run(|client| client.player.has_ended());

    let (mut client, answer) = Client::connect(&server);
    client.run(|client| client.frames.len() >= 3);
    let location = answer.header("location").expect("a session has an address").to_owned();
    let authorization = format!("bearer {TOKEN}");
    let authorized = [("Authorization", authorization.as_str())];
    let fragment = [authorized[0], ("Content-Type", "application/trickle-ice-sdpfrag")];
    let candidate = "a=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host\r\n";
    assert_eq!(server.ask("PATCH", &location, &fragment, candidate).status, 204);
    assert_eq!(server.ask("PATCH", &location, &fragment, "nonsense").status, 400);
    assert_eq!(server.ask("PATCH", &location, &fragment, "a=candidate:zzz\r\n").status, 400);
    let anew = format!("a=ice-ufrag:anew\r\na=ice-pwd:0123456789012345678901\r\n{candidate}");
    assert_eq!(server.ask("PATCH", &location, &fragment, &anew).status, 422);
    assert_eq!(answer.header("etag"), Some("\"1\""));
    for (tag, status) in [("\"1\"", 204), ("*", 204), ("\"0\", \"1\"", 204), ("\"0\"", 412)] {
        let headers = [fragment[0], fragment[1], ("If-Match", tag)];
        assert_eq!(server.ask("PATCH", &location, &headers, candidate).status, status, "{tag}");
    }
    assert_eq!(server.ask("PATCH", &location, &authorized, candidate).status, 415);
    assert_eq!(server.ask("DELETE", &location, &[], "").status, 401);
    assert_eq!(server.ask("DELETE", "/whep/nothing", &authorized, "").status, 404);
    assert_eq!(server.ask("DELETE", &location, &authorized, "").status, 200);
    client.run(|client| client.player.has_ended());
    assert_eq!(server.ask("DELETE", &location, &authorized, "").status, 404);
}

#[test]
fn what_is_malformed_too_much_or_a_stranger_s_is_refused_at_little_cost() {
    let server = Server::start(&["--max-clients", "2"]);
    let local: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let offer = Player::new(Time::ZERO, clock(), local, false).expect("an offer").1;
    let authorization = format!("Bearer {TOKEN}");
    let token = ("Authorization", authorization.as_str());
    let sdp = ("Content-Type", "application/sdp");
    assert_eq!(server.ask("POST", "/whep", &[sdp], &offer).status, 401);
    assert_eq!(server.ask("POST", "/whep", &[token], &offer).status, 415);
    assert_eq!(server.ask("POST", "/whep", &[token, ("Content-Type", "application/json")], &offer).status, 415);
    assert_eq!(server.offer(TOKEN, &"v".repeat(100_000)).status, 413);
    for broken in ["", "hello", "v=0\r\n", &offer[..300], &offer.replace("ice-pwd", "ice-pass")] {
        assert_eq!(server.offer(TOKEN, broken).status, 400, "{broken}");
    }
    for (good, bad) in
        [("a=setup:actpass", "a=setup:zzz"), ("fingerprint:sha-256", "fingerprint:sha-999"), ("o=- ", "o=")]
    {
        assert!(offer.contains(good), "{offer}");
        let answer = server.offer(TOKEN, &offer.replace(good, bad));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.body);
    }
    let unwanted = server.offer(TOKEN, &offer.replace("recvonly", "inactive").replace("sendrecv", "inactive"));
    assert_eq!(unwanted.status, 406, "{}", unwanted.body);
    assert_eq!(server.offer(TOKEN, &offer.replace("H264/", "H263/").replace("VP8/", "VP7/")).status, 406);
    assert_eq!(server.ask("GET", "/whep", &[token], "").status, 405);
    let preflight = server.ask("OPTIONS", "/whep", &[("Origin", "https://player.example")], "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some("*")));
    // Five guesses are free, then the address has to wait; a stranger's offers are not even read.
    let guesses: Vec<u16> = (0..8).map(|_| server.offer("not-the-token-at-all", &offer).status).collect();
    assert_eq!(guesses[..5], [401; 5]);
    assert!(guesses[6..].iter().all(|status| *status == 429), "{guesses:?}");
    assert_eq!(server.offer(TOKEN, &offer).status, 201, "the right token is never made to wait");
}
