//! The player on a TCP connection over a shared bottleneck.

use std::collections::VecDeque;

use nearlight_flows::law::LawSpec;
use nearlight_flows::{Arrival, Direction, FlowWake, Schedule, Statistics, Stream, StreamConfig, Traffic, Transmit};
use nearlight_units::{Bytes, Span, Time};

use crate::dash::{Content, Playback, Player};

/// Size of a request on IP. Guess: what a browser sends.
const REQUEST_SIZE: Bytes = Bytes::new(500);
/// Bytes of a response's headers. Guess: what nginx sends.
const RESPONSE_HEADER_BYTES: u64 = 300;
/// Size of a SYN segment with options, on IP.
const HANDSHAKE_SIZE: Bytes = Bytes::new(60);
/// First retransmission timeout of a request or handshake (RFC 6298).
const INITIAL_TIMEOUT: Span = Span::from_secs(1);
/// Most doublings of the timeout.
const MAX_DOUBLINGS: u32 = 5;
/// Send buffer of the server, larger than any segment.
const SEND_BUFFER: Bytes = Bytes::new(1 << 30);

/// Position of the kind in a packet's id, above the connection and the packet's number.
const KIND_SHIFT: u32 = 62;
const CONNECTION_SHIFT: u32 = 46;
const DATA_KIND: u64 = 0;
const OPEN_KIND: u64 = 1;
const REQUEST_KIND: u64 = 2;

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub law: LawSpec,
    pub content: Content,
    pub schedule: Schedule,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    number: u64,
    size: Bytes,
    /// Bytes of the response that the player knows of.
    seen: u64,
}

/// A player, its server and their TCP connection, without the path.
pub struct Client {
    player: Player,
    config: ClientConfig,
    stream: Stream,
    /// Number of the connection.
    connection: u64,
    is_open: bool,
    asked: Option<PendingRequest>,
    /// The last request that the server answered.
    answered: u64,
    /// Bytes of the stream that the player knows of.
    seen: u64,
    control: VecDeque<Transmit>,
    /// When to repeat the request, and how often that was done.
    resend: Option<(Time, u32)>,
    begun: bool,
    ended: bool,
    /// Statistics of earlier connections.
    before: Statistics,
}

impl Client {
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self {
            player: Player::new(config.content.clone()),
            stream: new_stream(&config, 0),
            config,
            connection: 0,
            is_open: false,
            asked: None,
            answered: 0,
            seen: 0,
            control: VecDeque::new(),
            resend: None,
            begun: false,
            ended: false,
            before: Statistics::default(),
        }
    }

    #[must_use]
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Advances playback to `now` and returns its statistics.
    pub fn playback(&mut self, now: Time) -> &Playback {
        self.player.on_time(now.min(self.config.schedule.ends));
        self.player.playback()
    }

    fn runs(&mut self, now: Time) -> bool {
        if !self.begun && now >= self.config.schedule.begins {
            self.begun = true;
            self.open(now);
        }
        self.ended |= now >= self.config.schedule.ends;
        self.begun && !self.ended
    }

    fn open(&mut self, now: Time) {
        self.send(OPEN_KIND, 0, Direction::Back, HANDSHAKE_SIZE);
        self.resend = Some((now + INITIAL_TIMEOUT, 0));
    }

    fn send(&mut self, kind: u64, number: u64, direction: Direction, size: Bytes) {
        let id = kind << KIND_SHIFT | (self.connection & 0xFFFF) << CONNECTION_SHIFT | number;
        self.control.push_back(Transmit { id, direction, size, ecn: false });
    }

    /// Closes the connection and opens another one.
    fn reconnect(&mut self, now: Time) {
        let old = self.stream.statistics();
        self.before.packets += old.packets;
        self.before.retransmissions += old.retransmissions;
        self.before.timeouts += old.timeouts;
        self.before.reductions += old.reductions;
        self.before.delivered += Bytes::new(self.seen);
        self.connection += 1;
        self.stream = new_stream(&self.config, self.connection);
        (self.is_open, self.asked, self.seen) = (false, None, 0);
        self.control.clear();
        self.open(now);
    }

    fn ask(&mut self, now: Time) {
        let Some(request) = self.player.poll_request(now) else { return };
        let size = request.size + Bytes::new(RESPONSE_HEADER_BYTES);
        self.asked = Some(PendingRequest { number: request.number, size, seen: 0 });
        self.send(REQUEST_KIND, request.number, Direction::Back, REQUEST_SIZE);
        self.resend = Some((now + INITIAL_TIMEOUT, 0));
    }

    /// Reports data that arrived in order to the player.
    fn note_progress(&mut self, now: Time) {
        let delivered = self.stream.connection().receiver().delivered().get();
        let new = delivered.saturating_sub(self.seen);
        self.seen = delivered;
        if let Some(asked) = &mut self.asked
            && new > 0
        {
            self.resend = None;
            let bytes = new.min(asked.size.get().saturating_sub(asked.seen));
            asked.seen += bytes;
            self.player.on_progress(now, Bytes::new(bytes));
        }
        while self.stream.poll_message().is_some() {
            if self.asked.take().is_some() {
                self.player.on_response(now);
            }
        }
        if self.player.poll_abort() {
            self.reconnect(now);
        }
    }

    fn on_control(&mut self, now: Time, kind: u64, number: u64, direction: Direction) {
        match (kind, direction) {
            (OPEN_KIND, Direction::Back) => self.send(OPEN_KIND, 0, Direction::Forward, HANDSHAKE_SIZE),
            (OPEN_KIND, Direction::Forward) if !self.is_open => {
                self.is_open = true;
                self.resend = None;
            }
            (REQUEST_KIND, Direction::Back) => {
                if let Some(asked) = self.asked.filter(|asked| asked.number == number && number > self.answered) {
                    self.answered = number;
                    // The buffer is larger than any answer.
                    let _ = self.stream.write(now, asked.size);
                }
            }
            _ => {}
        }
    }
}

fn new_stream(config: &ClientConfig, connection: u64) -> Stream {
    let seed = config.seed.wrapping_add(connection);
    Stream::new(StreamConfig { law: config.law, send_buffer: SEND_BUFFER, seed, ..StreamConfig::default() })
}

impl Traffic for Client {
    fn name(&self) -> &'static str {
        self.config.law.name()
    }

    fn on_delivered(&mut self, now: Time, arrival: Arrival) {
        let of_this = arrival.id >> CONNECTION_SHIFT & 0xFFFF == self.connection & 0xFFFF;
        if !self.runs(now) || !of_this {
            return;
        }
        let number = arrival.id & ((1 << CONNECTION_SHIFT) - 1);
        match arrival.id >> KIND_SHIFT {
            DATA_KIND => {
                self.stream.on_delivered(now, Arrival { id: number, ..arrival });
                if arrival.direction == Direction::Forward {
                    self.note_progress(now);
                }
            }
            kind => self.on_control(now, kind, number, arrival.direction),
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.runs(now) {
            return None;
        }
        if self.is_open && self.asked.is_none() {
            self.ask(now);
        }
        if let Some(packet) = self.control.pop_front() {
            return Some(packet);
        }
        let packet = self.stream.poll_transmit(now)?;
        let id = DATA_KIND << KIND_SHIFT | (self.connection & 0xFFFF) << CONNECTION_SHIFT | packet.id;
        Some(Transmit { id, ..packet })
    }

    fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        if !self.begun {
            return Some((self.config.schedule.begins, FlowWake::Begin));
        }
        if self.ended {
            return None;
        }
        let next = self.player.poll_timeout().filter(|_| self.is_open && self.asked.is_none());
        let next = next.map(|at| (at, FlowWake::NextFile));
        let resend = self.resend.map(|(at, _)| (at, FlowWake::Timeout));
        [next, resend, self.stream.poll_timeout()].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn on_timeout(&mut self, now: Time) {
        if !self.runs(now) {
            return;
        }
        if let Some((_, times)) = self.resend.filter(|(at, _)| *at <= now) {
            match self.asked {
                Some(asked) if self.is_open => self.send(REQUEST_KIND, asked.number, Direction::Back, REQUEST_SIZE),
                _ => self.send(OPEN_KIND, 0, Direction::Back, HANDSHAKE_SIZE),
            }
            let times = (times + 1).min(MAX_DOUBLINGS);
            self.resend = Some((now + INITIAL_TIMEOUT * (1 << times), times));
        }
        self.stream.on_timeout(now);
    }

    fn statistics(&self) -> Statistics {
        let now = self.stream.statistics();
        Statistics {
            delivered: self.before.delivered + Bytes::new(self.seen),
            packets: self.before.packets + now.packets,
            retransmissions: self.before.retransmissions + now.retransmissions,
            timeouts: self.before.timeouts + now.timeouts,
            reductions: self.before.reductions + now.reductions,
            ..now
        }
    }
}
