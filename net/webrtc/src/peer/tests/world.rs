//! A peer and a player on a path, and what passes between them.

use super::*;

pub(super) const INTERVAL: Span = Span::from_micros(33_333);

pub(super) fn server_address() -> SocketAddr {
    "192.0.2.1:8091".parse().expect("an address")
}

/// The server's address for TCP connections.
pub(super) fn tcp_address() -> SocketAddr {
    "192.0.2.1:8090".parse().expect("an address")
}

pub(super) fn player_address() -> SocketAddr {
    "198.51.100.7:40000".parse().expect("an address")
}

/// The path's behaviour, in each direction.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) delay: Span,
    /// Loss rate of datagrams once both are connected.
    pub(super) loss: f64,
    /// Towards the player.
    pub(super) rate: Bitrate,
}

pub(super) const CLEAN: Path = Path { delay: Span::from_millis(10), loss: 0.0, rate: Bitrate::MAX };

pub(super) struct World {
    pub(super) now: Time,
    pub(super) path: Path,
    pub(super) peer: Peer,
    pub(super) player: Player,
    pub(super) random: Pcg64Mcg,
    /// Datagrams in flight, to the player and to the peer.
    pub(super) flying: BTreeMap<(Time, u64, bool), Vec<u8>>,
    pub(super) flown: u64,
    pub(super) free_at: Time,
    pub(super) sent: Vec<(u32, Vec<u8>)>,
    pub(super) next_frame: FrameId,
    pub(super) frames: Vec<PlayedFrame>,
    pub(super) messages: Vec<(String, Message)>,
    /// When each of the messages arrived.
    pub(super) heard_at: Vec<Time>,
    pub(super) events: Vec<Event>,
    /// Largest datagram towards the player.
    pub(super) largest: usize,
    /// The player's address.
    pub(super) at: SocketAddr,
    /// Its last nomination.
    pub(super) nomination: Vec<u8>,
}

#[expect(clippy::disallowed_methods, reason = "the library's times have no other name; only differences matter")]
pub(super) fn origin() -> Instant {
    Instant::now()
}

pub(super) fn sender(now: Time, controller: &str, bounds: Bounds) -> Sender {
    protected_sender(now, controller, bounds, "none")
}

pub(super) fn protected_sender(now: Time, controller: &str, bounds: Bounds, policy: &str) -> Sender {
    let config = SenderConfig {
        framing: Framing::Rtp,
        max_datagram: Peer::MAX_DATAGRAM,
        pacing: Mode::Compressed,
        frame_interval: INTERVAL,
        events: false,
        ..SenderConfig::default()
    };
    let controller: Box<dyn RateController> = match controller {
        "gcc-remb" => Box::new(Remb::new(bounds)),
        preset => new_controller(preset, bounds).expect("a preset"),
    };
    let redundancy = Some(new_policy(policy).expect("a policy"));
    Sender::new(now, config, Algorithms { controller, redundancy })
}

pub(super) fn config(origin: Instant, seed: u64) -> PeerConfig {
    let certificate = Certificate::generate().expect("a certificate");
    PeerConfig {
        origin,
        candidates: vec![server_address()],
        tcp_candidates: vec![tcp_address()],
        certificate,
        seed,
        datagram: 1_200,
    }
}

impl World {
    /// Offer and answer are exchanged, nothing has been sent yet.
    pub(super) fn new(codec: CodecKind, path: Path, controller: &str, seed: u64) -> Self {
        let (now, origin) = (Time::from_secs(1), origin());
        let player = Player::new(now, origin, player_address(), true).expect("an offer");
        Self::negotiated(codec, path, controller, (now, origin), (player, seed)).0
    }

    /// Makes a world with a given player. Also returns the answer that it got.
    pub(super) fn negotiated(
        codec: CodecKind,
        path: Path,
        controller: &str,
        (now, origin): (Time, Instant),
        ((mut player, offer), seed): ((Player, String), u64),
    ) -> (Self, String) {
        let offer = Offer::parse(&offer).expect("the library's offer is one");
        let chosen = offer.video().iter().find(|offered| offered.codec == codec);
        let bounds = Bounds::up_to(Bitrate::from_mbps(20));
        let sender = sender(now, controller, bounds);
        let mut peer = Peer::answering(now, config(origin, seed), &offer, chosen, sender).expect("a peer");
        let answer = peer.on_offer(now, &offer).expect("an answer");
        assert_eq!(peer.codec(), Some(codec), "{answer}");
        assert!(crate::player::has_retransmissions(&answer), "{answer}");
        player.on_answer(now, &answer).expect("an answer that the library takes");
        assert_eq!(player.codec(), codec);
        (Self::of(now, path, peer, player, seed), answer)
    }

    pub(super) fn of(now: Time, path: Path, peer: Peer, player: Player, seed: u64) -> Self {
        Self {
            now,
            path,
            peer,
            player,
            random: Pcg64Mcg::seed_from_u64(seed),
            flying: BTreeMap::new(),
            flown: 0,
            free_at: now,
            sent: Vec::new(),
            next_frame: FrameId(0),
            frames: Vec::new(),
            messages: Vec::new(),
            heard_at: Vec::new(),
            events: Vec::new(),
            largest: 0,
            at: player_address(),
            nomination: Vec::new(),
        }
    }

    pub(super) fn connected(codec: CodecKind, path: Path, controller: &str, seed: u64) -> Self {
        let mut world = Self::new(codec, path, controller, seed);
        world.connect();
        world
    }

    pub(super) fn connect(&mut self) {
        let deadline = self.now + Span::from_secs(5);
        self.run_until(deadline, |world| world.peer.is_connected() && world.player.is_connected());
        assert!(self.peer.is_connected() && self.player.is_connected(), "not connected after 5 s");
    }

    /// Makes a world with a client that reports each stream by its own numbers (RFC 8888).
    pub(super) fn reporting_per_stream(path: Path, controller: &str, seed: u64) -> Self {
        let (now, origin) = (Time::from_secs(1), origin());
        let config = PlayerConfig { reporting: Reporting::PerStream(Span::from_millis(50)), ..PlayerConfig::default() };
        let player = Player::with_config(config, now, origin, player_address()).expect("an offer");
        assert!(player.1.contains(" ack ccfb") && !player.1.contains("transport-cc"), "{}", player.1);
        let (mut world, answer) = Self::negotiated(CodecKind::Vp8, path, controller, (now, origin), (player, seed));
        assert_eq!(answer.matches("a=rtcp-fb:* ack ccfb\r\n").count(), 2, "of picture and sound: {answer}");
        world.connect();
        world
    }

    /// Makes a world with a client that does not report packets' arrivals.
    pub(super) fn reporting_as_a_whole(path: Path, seed: u64) -> Self {
        let (now, origin) = (Time::from_secs(1), origin());
        let config = PlayerConfig { reporting: Reporting::ReceiverReports, ..PlayerConfig::default() };
        let player = Player::with_config(config, now, origin, player_address()).expect("an offer");
        assert!(!Offer::parse(&player.1).expect("an offer").reports_arrivals());
        let (mut world, answer) = Self::negotiated(CodecKind::Vp8, path, "gcc-remb", (now, origin), (player, seed));
        assert!(answer.contains(" goog-remb\r\n") && answer.contains("abs-send-time"), "{answer}");
        assert!(!answer.contains("transport-cc"), "{answer}");
        world.connect();
        world
    }

    /// The server's address, as the player knows it.
    pub(super) fn server_address(&self) -> SocketAddr {
        if self.player.carriage() == Carriage::Udp { server_address() } else { tcp_address() }
    }

    pub(super) fn fly(&mut self, to_player: bool, datagram: Vec<u8>) {
        let lossy = self.peer.is_connected() && self.player.is_connected();
        if lossy && self.random.random_bool(self.path.loss) {
            return;
        }
        let mut leaves = self.now;
        if to_player {
            self.largest = self.largest.max(datagram.len());
            self.free_at = self.free_at.max(self.now) + self.path.rate.time_to_send(Bytes::new(datagram.len() as u64));
            leaves = self.free_at;
            // A queue of 200 ms.
            if leaves - self.now > Span::from_millis(200) {
                self.free_at = self.now + Span::from_millis(200);
                return;
            }
        }
        self.flown += 1;
        self.flying.insert((leaves + self.path.delay, self.flown, to_player), datagram);
    }

    pub(super) fn drain(&mut self) {
        while let Some(event) = self.peer.poll_event() {
            self.events.push(event);
        }
        while let Some(transmit) = self.peer.poll_transmit(self.now) {
            let carriage = self.player.carriage();
            assert_eq!(transmit.from, self.server_address());
            if transmit.to == (Remote { carriage, address: self.at }) {
                self.fly(true, transmit.datagram);
            }
        }
        while let Some(transmit) = self.player.poll_transmit() {
            assert_eq!(transmit.to.address, self.server_address());
            if Stun::parse(&transmit.datagram).is_some_and(|stun| stun.attribute(USE_CANDIDATE).is_some()) {
                self.nomination.clone_from(&transmit.datagram);
            }
            self.fly(false, transmit.datagram);
        }
        while let Some(frame) = self.player.poll_frame() {
            self.frames.push(frame);
        }
        while let Some(message) = self.player.poll_message() {
            self.messages.push(message);
            self.heard_at.push(self.now);
        }
    }

    pub(super) fn run_until(&mut self, end: Time, done: impl Fn(&Self) -> bool) {
        self.drain();
        while self.now < end && !done(self) {
            let flying = self.flying.keys().next().map(|(at, ..)| *at);
            let timers = [self.peer.poll_timeout().map(|(at, _)| at), self.player.poll_timeout(), flying];
            let next = timers.into_iter().flatten().min().unwrap_or(end);
            self.now = self.now.max(next).min(end);
            while let Some(((at, _, to_player), _)) = self.flying.first_key_value()
                && *at <= self.now
            {
                let to_player = *to_player;
                let (_, datagram) = self.flying.pop_first().expect("one is there");
                if to_player {
                    self.player.on_datagram(self.now, self.server_address(), &datagram);
                } else {
                    let from = Remote { carriage: self.player.carriage(), address: self.at };
                    self.peer.on_datagram(self.now, from, self.server_address(), &datagram);
                }
                self.drain();
            }
            self.peer.on_timeout(self.now);
            self.player.on_timeout(self.now);
            self.drain();
        }
    }

    pub(super) fn run(&mut self, span: Span) {
        self.run_until(self.now + span, |_| false);
    }

    /// A frame as an encoder would produce it now: as large as the sender's target, a key frame where requested.
    pub(super) fn encode(&mut self) {
        let target = self.peer.sender().target().encoder;
        let size = (target.rate.bytes_in(INTERVAL).get() as usize * if target.key { 3 } else { 1 }).max(50);
        let id = self.next_frame;
        self.next_frame = id.next();
        // No byte is 0, so it contains no start code.
        let mut body = vec![0; size];
        self.random.fill(&mut body[..]);
        for byte in &mut body {
            *byte |= 1;
        }
        let bits = match self.peer.codec().expect("agreed") {
            CodecKind::Vp8 => body,
            CodecKind::H264 => {
                let (slice, rest) = body.split_at(size / 2);
                let kind = if target.key { 0x65 } else { 0x61 };
                let slices = [&[0, 0, 0, 1, kind][..], slice, &[0, 0, 0, 1, kind], rest].concat();
                let parameters = [0, 0, 0, 1, 0x67, 1, 2, 3, 0, 0, 0, 1, 0x68, 4, 5];
                if target.key { [&parameters[..], &slices].concat() } else { slices }
            }
        };
        let reference = if target.key { None } else { id.0.checked_sub(1).map(FrameId) };
        let now = self.now;
        let header = FrameHeader {
            width: 1_280,
            height: 720,
            input: InputSeq(0),
            input_received_at: now,
            render_started_at: now,
            rendered_at: now,
            converted_at: now,
            encoded_at: now,
            display_at: now,
            deadline: now + Span::from_millis(100),
            views: vec![],
        };
        let header = FrameHeader {
            views: vec![nearlight_wire::View {
                pose: nearlight_wire::Pose::default(),
                fov: nearlight_wire::Fov::symmetric(1.2, 1.0),
            }],
            ..header
        };
        self.sent.push((0, bits.clone()));
        self.peer.on_frame(
            now,
            EncodedFrame {
                id,
                reference,
                header,
                bits: bits.into(),
                distortion: Distortion::UNKNOWN,
                group_index: None,
            },
        );
    }

    /// Frames at the session's rate; a frame that the sender refuses is skipped.
    pub(super) fn play(&mut self, frames: usize) {
        for _ in 0..frames {
            if self.peer.sender().target().refusal.is_none() {
                self.encode();
            }
            self.run(INTERVAL);
        }
    }
}
