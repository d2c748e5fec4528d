//! Datagrams sorted into streams: one per conversation, direction and protocol, for RTP one per SSRC.

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Bytes, Span, Time};
use serde::Serialize;

use super::{MeasuredBy, Packet, RoundTrip, asks};
use crate::kind::{DatagramClass, Kind, ReportEcho, RtcpReports, Rtp, Stun, StunClass};
use crate::packet::{Datagram, Endpoint};

/// Conversations that are followed. Guess: a server with many viewers; a scan of ports has more.
const MAX_CONVERSATIONS: usize = 4_096;
/// Streams over all conversations, so that an index takes two bytes.
const MAX_STREAMS: usize = 1 << 15;
/// RTP streams of one direction of a conversation. Guess: pictures, sound, repairs and layers of a dozen tracks.
const MAX_SSRCS: usize = 32;
/// STUN requests, and senders' reports, that wait for an answer. Guess: they are seconds apart, answers milliseconds.
const MAX_WAITING_REQUESTS: usize = 64;
/// RFC 3550 appendix A.1: this many packets in sequence validate a source.
const MIN_SEQUENTIAL: u32 = 2;

/// The direction of a datagram between the two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Direction {
    /// From the first end to the second.
    Forth,
    Back,
}

impl Direction {
    pub fn other(self) -> Self {
        if self == Self::Forth { Self::Back } else { Self::Forth }
    }
}

/// Two ends that exchange datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    /// The first one sent the first datagram.
    pub ends: [Endpoint; 2],
    /// Packets by direction.
    pub packets: [u64; 2],
    pub bytes: [u64; 2],
    /// First bytes below 128 that were seen, and packets that began with another one.
    first_bytes: u128,
    beyond_first_bytes: u64,
    /// Index of the stream, by direction and [`slot`].
    plain: [[Option<u16>; SLOTS]; 2],
    rtp: [Vec<u16>; 2],
    waiting: VecDeque<(Direction, [u8; 12], Time)>,
    reported: VecDeque<(Direction, u32, Time)>,
}

impl Conversation {
    fn new(from: Endpoint, to: Endpoint) -> Self {
        Self {
            ends: [from, to],
            packets: [0; 2],
            bytes: [0; 2],
            first_bytes: 0,
            beyond_first_bytes: 0,
            plain: [[None; SLOTS]; 2],
            rtp: [Vec::new(), Vec::new()],
            waiting: VecDeque::new(),
            reported: VecDeque::new(),
        }
    }

    /// Returns the direction of what `from`, one of the ends, sends.
    pub fn direction(&self, from: Endpoint) -> Direction {
        if self.ends[0] == from { Direction::Forth } else { Direction::Back }
    }
}

/// Datagrams of one protocol in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub conversation: u16,
    pub direction: Direction,
    pub kind: Kind,
    pub rtp: Option<RtpStream>,
    pub packets: u64,
    pub bytes: Bytes,
    pub first: Time,
    pub last: Time,
}

/// Information from the clear headers of an RTP stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtpStream {
    pub ssrc: u32,
    /// Payload type of the last packet.
    pub payload_type: u8,
    sequence: u16,
    timestamp: u32,
    /// Packets that followed their predecessor in sequence.
    sequential: u32,
    /// The media clock's way from the first packet to the last.
    ticks: i64,
    /// Packets with another time than the one before.
    turns: u64,
}

impl RtpStream {
    fn new(rtp: Rtp) -> Self {
        let Rtp { payload_type, sequence, timestamp, ssrc, .. } = rtp;
        Self { ssrc, payload_type, sequence, timestamp, sequential: 0, ticks: 0, turns: 1 }
    }

    fn on_packet(&mut self, rtp: Rtp) {
        self.sequential += u32::from(rtp.sequence == self.sequence.wrapping_add(1));
        self.ticks += i64::from(rtp.timestamp.wrapping_sub(self.timestamp) as i32);
        self.turns += u64::from(rtp.timestamp != self.timestamp);
        self.payload_type = rtp.payload_type;
        (self.sequence, self.timestamp) = (rtp.sequence, rtp.timestamp);
    }

    /// Ticks of the media clock in a second of the capturing machine's, over `span`.
    fn clock(&self, span: Span) -> Option<f64> {
        // Shorter ones are unreliable: a frame's packets may be late by many milliseconds.
        (span >= Span::from_millis(500)).then(|| self.ticks as f64 / span.as_secs_f64())
    }

    fn kind(&self, packets: u64, span: Span) -> Kind {
        if self.sequential < MIN_SEQUENTIAL {
            return Kind::Other;
        }
        let near = |clock: f64, nominal: f64| (clock / nominal - 1.0).abs() < 0.05;
        match self.clock(span) {
            // RFC 3551 gives all video 90 kHz; sound has the rate of its samples, Opus always 48 kHz (RFC 7587).
            Some(clock) if near(clock, 90e3) => Kind::RtpVideo,
            Some(clock) if [8e3, 16e3, 32e3, 44.1e3, 48e3].iter().any(|rate| near(clock, *rate)) => Kind::RtpAudio,
            // A picture takes several packets of one time.
            _ if packets > 2 * self.turns => Kind::RtpVideo,
            _ => Kind::Rtp,
        }
    }
}

const SLOTS: usize = 6;

/// Place of a protocol other than RTP.
fn slot(class: &DatagramClass) -> (usize, Kind) {
    match class {
        DatagramClass::Stun(_) => (0, Kind::Stun),
        DatagramClass::Dtls => (1, Kind::Dtls),
        DatagramClass::Rtcp(_) => (2, Kind::Rtcp),
        DatagramClass::QuicLong => (3, Kind::QuicLong),
        DatagramClass::QuicShort => (4, Kind::QuicShort),
        DatagramClass::Rtp(_) | DatagramClass::Other => (5, Kind::Other),
    }
}

#[derive(Debug, Default)]
pub(super) struct Streams {
    places: BTreeMap<(Endpoint, Endpoint), u16>,
    conversations: Vec<Conversation>,
    all: Vec<Stream>,
    /// Conversation of the packet before: most packets go on with it.
    newest: usize,
}

impl Streams {
    /// The datagram's stream; `None` where there are too many.
    pub fn on_datagram(&mut self, at: Time, datagram: &Datagram<'_>, class: &DatagramClass) -> Option<u16> {
        let (place, direction) = self.conversation(datagram.from, datagram.to)?;
        let conversation = &mut self.conversations[usize::from(place)];
        conversation.packets[direction as usize] += 1;
        conversation.bytes[direction as usize] += u64::from(datagram.size);
        match datagram.payload.first() {
            Some(first) if *first < 128 => conversation.first_bytes |= 1 << first,
            _ => conversation.beyond_first_bytes += 1,
        }
        let stream = self.stream(place, direction, class, at)?;
        let found = &mut self.all[usize::from(stream)];
        found.packets += 1;
        found.bytes += Bytes::new(u64::from(datagram.size));
        found.first = found.first.min(at);
        found.last = found.last.max(at);
        if let (Some(known), DatagramClass::Rtp(rtp)) = (&mut found.rtp, class)
            && found.packets > 1
        {
            known.on_packet(*rtp);
        }
        Some(stream)
    }

    fn conversation(&mut self, from: Endpoint, to: Endpoint) -> Option<(u16, Direction)> {
        let is = |conversation: &Conversation, direction: Direction| match direction {
            Direction::Forth => conversation.ends == [from, to],
            Direction::Back => conversation.ends == [to, from],
        };
        if let Some(newest) = self.conversations.get(self.newest)
            && let Some(direction) =
                [Direction::Forth, Direction::Back].into_iter().find(|direction| is(newest, *direction))
        {
            return Some((self.newest as u16, direction));
        }
        let key = if from <= to { (from, to) } else { (to, from) };
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.conversations.len() < MAX_CONVERSATIONS => {
                let place = self.conversations.len() as u16;
                self.conversations.push(Conversation::new(from, to));
                self.places.insert(key, place);
                place
            }
            None => return None,
        };
        self.newest = usize::from(place);
        Some((place, self.conversations[self.newest].direction(from)))
    }

    fn stream(&mut self, place: u16, direction: Direction, class: &DatagramClass, at: Time) -> Option<u16> {
        let conversation = &mut self.conversations[usize::from(place)];
        let known = &mut conversation.rtp[direction as usize];
        let (slot, kind) = slot(class);
        let fresh = |kind: Kind, rtp: Option<RtpStream>| Stream {
            conversation: place,
            direction,
            kind,
            rtp,
            packets: 0,
            bytes: Bytes::ZERO,
            first: at,
            last: at,
        };
        if let DatagramClass::Rtp(rtp) = class {
            let streams = &mut self.all;
            let same = |of: &u16| streams[usize::from(*of)].rtp.is_some_and(|known| known.ssrc == rtp.ssrc);
            if let Some(found) = known.iter().copied().find(same) {
                return Some(found);
            }
            if known.len() < MAX_SSRCS && streams.len() < MAX_STREAMS {
                known.push(streams.len() as u16);
                streams.push(fresh(Kind::Rtp, Some(RtpStream::new(*rtp))));
                return known.last().copied();
            }
        }
        let plain = &mut conversation.plain[direction as usize][slot];
        if plain.is_none() && self.all.len() < MAX_STREAMS {
            *plain = Some(self.all.len() as u16);
            self.all.push(fresh(kind, None));
        }
        *plain
    }

    /// The round trip that an answer ends.
    pub fn on_stun(&mut self, at: Time, stream: u16, stun: Stun) -> Option<RoundTrip> {
        let Stream { conversation: place, direction, .. } = self.all[usize::from(stream)];
        let waiting = &mut self.conversations[usize::from(place)].waiting;
        if asks(stun) {
            match waiting.iter_mut().find(|request| request.1 == stun.transaction) {
                // An answer to a request that was sent again does not tell to which of the two (Karn and Partridge 1987).
                Some(request) if at.saturating_since(request.2) > super::doubled::MAX_COPY_DELAY => {
                    request.2 = Time::FAR_FUTURE;
                }
                Some(_) => {}
                None => remember(waiting, (direction, stun.transaction, at)),
            }
            return None;
        }
        if stun.class != StunClass::Response {
            return None;
        }
        let asked = direction.other();
        let answered = waiting.iter().position(|request| request.0 == asked && request.1 == stun.transaction)?;
        let (_, _, since) = waiting.remove(answered)?;
        let span = at.saturating_since(since);
        (since != Time::FAR_FUTURE).then_some(RoundTrip { conversation: place, by: MeasuredBy::Stun, asked, span })
    }

    /// The round trip that a report ends; one report may be answered several times.
    pub fn on_reports(&mut self, at: Time, stream: u16, reports: RtcpReports) -> Option<RoundTrip> {
        let Stream { conversation: place, direction, .. } = self.all[usize::from(stream)];
        let reported = &mut self.conversations[usize::from(place)].reported;
        if let Some(report) = reports.sent {
            remember(reported, (direction, report, at));
        }
        let ReportEcho { report, held } = reports.heard?;
        let asked = direction.other();
        let (_, _, since) = reported.iter().find(|sent| (sent.0, sent.1) == (asked, report))?;
        let held = Span::from_nanos(i64::from(held) * 1_000_000_000 / 65_536);
        let span = at.saturating_since(*since) - held;
        // Held for longer than the round trip: the clock runs fast, or it is a coincidence.
        (span >= Span::ZERO).then_some(RoundTrip { conversation: place, by: MeasuredBy::Rtcp, asked, span })
    }

    /// Streams with their final kinds.
    pub fn finish(mut self) -> (Vec<Conversation>, Vec<Stream>) {
        for stream in &mut self.all {
            if let Some(rtp) = stream.rtp {
                stream.kind = rtp.kind(stream.packets, stream.last.saturating_since(stream.first));
            }
        }
        for conversation in &self.conversations {
            let places: Vec<usize> = conversation.all().collect();
            settle_quic(&places, conversation, &mut self.all);
        }
        (self.conversations, self.all)
    }
}

impl Conversation {
    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let plain = self.plain.iter().flatten().copied().flatten();
        plain.chain(self.rtp.iter().flatten().copied()).map(usize::from)
    }

    /// Returns whether the first bytes are random, as in fully encrypted datagrams.
    fn is_shapeless(&self) -> bool {
        self.first_bytes.count_ones() >= MIN_SHAPELESS_BYTES
    }

    /// Returns whether the first bytes look drawn at random from those of short headers, with the "fixed" bit set or not (RFC 9287 lets hosts clear
    /// it). Other protocols begin with few different bytes.
    fn looks_like_quic(&self) -> bool {
        let packets = self.packets[0].saturating_add(self.packets[1]);
        self.beyond_first_bytes * 100 <= packets && (self.first_bytes >> 64).count_ones() >= 16
    }
}

/// Different first bytes below 128 from which on a protocol counts as shapeless: DTLS has 44, QUIC 64. Guess.
const MIN_SHAPELESS_BYTES: u32 = 80;

/// The oldest request is evicted for a new one.
fn remember<T>(waiting: &mut VecDeque<T>, question: T) {
    if waiting.len() == MAX_WAITING_REQUESTS {
        waiting.pop_front();
    }
    waiting.push_back(question);
}

/// A short header has hardly a shape of its own, and random bytes have all of them: other packets of the conversation decide.
fn settle_quic(places: &[usize], conversation: &Conversation, streams: &mut [Stream]) {
    let any = |kinds: &[Kind]| places.iter().any(|place| kinds.contains(&streams[*place].kind));
    let media = any(&[Kind::RtpVideo, Kind::RtpAudio, Kind::Rtp]);
    let quic = !media && (any(&[Kind::QuicLong]) || conversation.looks_like_quic());
    let shapeless = !media && !quic && conversation.is_shapeless();
    for place in places {
        let kind = &mut streams[*place].kind;
        *kind = match *kind {
            Kind::Dtls | Kind::Rtcp if shapeless => Kind::Other,
            Kind::Dtls | Kind::Other | Kind::Rtcp if quic => Kind::QuicShort,
            Kind::QuicShort if !quic => Kind::Other,
            kind => kind,
        };
    }
}

/// Video streams whose times are those of a larger one beside them carry its packets again, or repairs.
///
/// `streams` are those of one direction of one conversation, with their kinds.
pub(crate) fn mark_repairs(streams: &mut [(u16, Stream)], packets: &[Packet]) {
    let is_video = |stream: &&(u16, Stream)| stream.1.kind == Kind::RtpVideo;
    let mut videos: Vec<(u16, Bytes)> = streams.iter().filter(is_video).map(|(place, of)| (*place, of.bytes)).collect();
    // The largest first, the first of equals before others.
    videos.sort_by_key(|video| std::cmp::Reverse(video.1));
    if videos.len() < 2 {
        return;
    }
    let mut times = vec![Vec::new(); videos.len()];
    for packet in packets {
        if let Some(video) = videos.iter().position(|video| video.0 == packet.stream) {
            times[video].push(packet.timestamp);
        }
    }
    for times in &mut times {
        times.sort_unstable();
        times.dedup();
    }
    let (main, others) = times.split_first().expect("at least two");
    for ((place, _), own) in videos[1..].iter().zip(others) {
        let shared = own.iter().filter(|time| main.binary_search(time).is_ok()).count();
        // Guess: one in ten may repair a frame whose own packets are all lost.
        if shared > 0
            && shared * 10 >= own.len() * 9
            && let Some(stream) = streams.iter_mut().find(|stream| stream.0 == *place)
        {
            stream.1.kind = Kind::RtpRepair;
        }
    }
}
