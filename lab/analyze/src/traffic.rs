//! The contents of a capture: its conversations, their streams, and a short record of every packet.
//!
//! Memory: 32 bytes for each packet up to [`Limits::packets`], plus a few hundred for each stream; the file itself passes through a
//! buffer of 1 MiB. Beyond the limits packets are counted but otherwise skipped, and the analysis reports this.

mod doubled;
mod streams;

use std::io::Read;
use std::net::SocketAddr;

use nearlight_units::{Span, Time};
use serde::Serialize;

use crate::capture::{CaptureError, Damage, Format, Reader};
use crate::kind::{DatagramClass, Kind, Rtp, Stun, StunClass, classify};
use crate::packet::{Datagram, Encapsulation, Endpoint, UnusableReason, datagram};
use doubled::doubled;
use streams::Streams;
pub(crate) use streams::{Conversation, Direction, Stream, mark_repairs};

/// Limits of an analysis.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets that are kept for frames, batches and delays.
    pub packets: usize,
}

impl Default for Limits {
    /// 8 Mi packets, 256 MiB: 26 minutes of the study's 53 Mb/s.
    fn default() -> Self {
        Self { packets: 8 << 20 }
    }
}

/// Statistics of reading a capture file.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureSummary {
    pub format: Format,
    /// Packets of any kind.
    pub packets: u64,
    /// UDP datagrams among them.
    pub datagrams: u64,
    /// Bytes of the datagrams, as Ethernet frames.
    pub bytes: u64,
    /// Times of the earliest and the latest packet, since 1970.
    pub first: Time,
    pub last: Time,
    /// Where the file stopped making sense; everything before it was read.
    pub damage: Option<Damage>,
    /// IP fragments other than the first, which no stream can be told from.
    pub fragments: u64,
    pub fragment_bytes: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// `PPPoE` session (`0x8864`) and MPLS (`0x8847`) frames among them. Their IP packets are not read.
    pub pppoe: u64,
    pub mpls: u64,
    /// IP that is not UDP.
    pub not_udp: u64,
    pub tcp: u64,
    /// Headers damaged or cut off by the capture.
    pub cut_short: u64,
    /// Packets of an unsupported link layer.
    pub unknown_link: u64,
    /// The first few unsupported link layers (`LINKTYPE_` values of tcpdump.org).
    pub unknown_links: Vec<u16>,
    /// Stored without a time.
    pub untimed: u64,
    /// Skipped because of an impossible time or an undescribed interface; not among `packets`.
    pub unplaced: u64,
    /// Dropped by the capturing machine, as far as it reports this.
    pub dropped: u64,
    /// Longer than 1,500 bytes of IP: several datagrams in one, as network offload leaves them.
    pub oversized: u64,
    /// Earlier than the packet before.
    pub out_of_order: u64,
    /// The furthest that one of them lies before the packet before.
    pub step_back_ms: f64,
    /// Copies of a datagram of the same stream within a few milliseconds: the capture may hold every packet twice.
    pub doubled: u64,
    /// Packets of conversations or streams beyond the number that is tracked.
    pub untracked: u64,
    /// Counted in streams, but omitted from frames, batches and delays for lack of room.
    pub beyond_limit: u64,
}

/// A capture, read.
#[derive(Debug)]
pub struct Traffic {
    pub capture: CaptureSummary,
    pub(crate) conversations: Vec<Conversation>,
    pub(crate) streams: Vec<Stream>,
    /// Packets in order of time.
    pub(crate) packets: Vec<Packet>,
    pub(crate) round_trips: Vec<RoundTrip>,
}

/// The record of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub at: Time,
    /// Fingerprint that is the same in another capture of the datagram, whatever addresses and lengths were captured.
    pub fingerprint: u64,
    /// Bytes as an Ethernet frame.
    pub size: u32,
    /// RTP timestamp, otherwise 0.
    pub timestamp: u32,
    pub sequence: u16,
    /// Index into [`Traffic::streams`].
    pub stream: u16,
    pub marker: bool,
}

/// A request and its response, as captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    pub conversation: u16,
    pub by: MeasuredBy,
    /// The requester.
    pub asked: Direction,
    pub span: Span,
}

/// The source of a round-trip measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasuredBy {
    Stun,
    /// A sender's report and the block that answers it, less the time that the other end held it.
    Rtcp,
}

impl Traffic {
    /// Reads a capture to its end, or to where it is damaged.
    pub fn read(source: impl Read, limits: &Limits) -> Result<Self, CaptureError> {
        let mut reader = Reader::new(source)?;
        let mut intake = TrafficReader::new(reader.format(), *limits);
        while let Some(record) = reader.poll_record() {
            intake.on_packet(record.at);
            match datagram(&record) {
                Ok(datagram) => intake.on_datagram(record.at, &datagram),
                Err(why) => intake.on_unusable(why),
            }
        }
        let mut traffic = intake.finish();
        traffic.capture.damage = reader.damage().cloned();
        traffic.capture.untimed = reader.untimed();
        traffic.capture.unplaced = reader.unplaced();
        traffic.capture.dropped = reader.dropped();
        Ok(traffic)
    }

    /// Returns the duration of the capture.
    pub fn duration(&self) -> Span {
        self.capture.last.saturating_since(self.capture.first)
    }

    /// The conversation to look at and the direction of its sender: of those with `sender`, or else of all, the one with most bytes.
    pub(crate) fn main(&self, sender: Option<SocketAddr>) -> Option<(u16, Direction)> {
        let wanted = sender.map(|sender| Endpoint { address: sender.ip(), port: sender.port() });
        let usable =
            |conversation: &&(usize, &Conversation)| wanted.is_none_or(|wanted| conversation.1.ends.contains(&wanted));
        let (place, found) = self
            .conversations
            .iter()
            .enumerate()
            .filter(|conversation| usable(&conversation))
            // The first one of equal size.
            .rev()
            .max_by_key(|(_, conversation)| conversation.bytes[0].saturating_add(conversation.bytes[1]))?;
        let direction = match wanted {
            Some(wanted) => found.direction(wanted),
            None if found.bytes[1] > found.bytes[0] => Direction::Back,
            None => Direction::Forth,
        };
        Some((place as u16, direction))
    }
}

/// Takes packets as they are read.
struct TrafficReader {
    limits: Limits,
    capture: CaptureSummary,
    streams: Streams,
    packets: Vec<Packet>,
    round_trips: Vec<RoundTrip>,
    latest: Time,
}

/// Round trips that are kept. Guess: ten hours of a session that checks each second, both ways.
const MAX_ROUND_TRIPS: usize = 1 << 16;
/// Unknown link types that are named. Guess: a file has one.
const MAX_UNKNOWN_LINKS: usize = 4;
/// The most that Ethernet carries of IP.
const ETHERNET_MTU: u32 = 1_500;

impl TrafficReader {
    fn new(format: Format, limits: Limits) -> Self {
        let capture = CaptureSummary {
            format,
            packets: 0,
            datagrams: 0,
            bytes: 0,
            first: Time::FAR_FUTURE,
            last: Time::ZERO,
            damage: None,
            fragments: 0,
            fragment_bytes: 0,
            not_ip: 0,
            pppoe: 0,
            mpls: 0,
            not_udp: 0,
            tcp: 0,
            cut_short: 0,
            unknown_link: 0,
            unknown_links: Vec::new(),
            untimed: 0,
            unplaced: 0,
            dropped: 0,
            oversized: 0,
            out_of_order: 0,
            step_back_ms: 0.0,
            doubled: 0,
            untracked: 0,
            beyond_limit: 0,
        };
        let streams = Streams::default();
        Self { limits, capture, streams, packets: Vec::new(), round_trips: Vec::new(), latest: Time::ZERO }
    }

    fn on_packet(&mut self, at: Time) {
        let capture = &mut self.capture;
        capture.packets += 1;
        capture.out_of_order += u64::from(at < self.latest);
        capture.step_back_ms = capture.step_back_ms.max(self.latest.saturating_since(at).as_millis_f64());
        self.latest = at;
        capture.first = capture.first.min(at);
        capture.last = capture.last.max(at);
    }

    fn on_unusable(&mut self, why: UnusableReason) {
        let capture = &mut self.capture;
        match why {
            UnusableReason::NotIp(inside) => {
                capture.not_ip += 1;
                capture.pppoe += u64::from(inside == Some(Encapsulation::Pppoe));
                capture.mpls += u64::from(inside == Some(Encapsulation::Mpls));
            }
            UnusableReason::NotUdp { tcp } => {
                capture.not_udp += 1;
                capture.tcp += u64::from(tcp);
            }
            UnusableReason::Fragment { size } => {
                capture.fragments += 1;
                capture.fragment_bytes += u64::from(size);
            }
            UnusableReason::CutShort => capture.cut_short += 1,
            UnusableReason::UnknownLink(number) => {
                capture.unknown_link += 1;
                if capture.unknown_links.len() < MAX_UNKNOWN_LINKS && !capture.unknown_links.contains(&number) {
                    capture.unknown_links.push(number);
                }
            }
        }
    }

    fn on_datagram(&mut self, at: Time, datagram: &Datagram<'_>) {
        self.capture.datagrams += 1;
        self.capture.bytes += u64::from(datagram.size);
        self.capture.oversized += u64::from(datagram.size > ETHERNET_MTU + 14);
        let class = classify(datagram.payload, datagram.length);
        let Some(place) = self.streams.on_datagram(at, datagram, &class) else {
            self.capture.untracked += 1;
            return;
        };
        let round_trip = match class {
            DatagramClass::Stun(stun) => self.streams.on_stun(at, place, stun),
            DatagramClass::Rtcp(reports) => self.streams.on_reports(at, place, reports),
            _ => None,
        };
        if self.round_trips.len() < MAX_ROUND_TRIPS {
            self.round_trips.extend(round_trip);
        }
        if self.packets.len() >= self.limits.packets {
            self.capture.beyond_limit += 1;
            return;
        }
        let rtp = match class {
            DatagramClass::Rtp(rtp) => Some(rtp),
            _ => None,
        };
        self.packets.push(Packet {
            at,
            fingerprint: fingerprint(datagram, rtp),
            size: datagram.size,
            timestamp: rtp.map_or(0, |rtp| rtp.timestamp),
            sequence: rtp.map_or(0, |rtp| rtp.sequence),
            stream: place,
            marker: rtp.is_some_and(|rtp| rtp.marker),
        });
    }

    fn finish(mut self) -> Traffic {
        if self.capture.packets == 0 {
            self.capture.first = Time::ZERO;
        }
        // Several interfaces in one file are not synchronised.
        if self.capture.out_of_order > 0 {
            self.packets.sort_by_key(|packet| packet.at);
        }
        self.capture.doubled = doubled(&self.packets);
        let (conversations, streams) = self.streams.finish();
        Traffic { capture: self.capture, conversations, streams, packets: self.packets, round_trips: self.round_trips }
    }
}

/// Bytes of a payload that tell it from others: behind RTP's or QUIC's header encrypted ones, so no two are the same.
const COMPARED_BYTES: usize = 24;

/// The hash is FNV-1a's step over words of eight bytes, then mixed once more.
fn fingerprint(datagram: &Datagram<'_>, rtp: Option<Rtp>) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ u64::from(datagram.length);
    let mut add = |word: u64| {
        hash = (hash ^ word).wrapping_mul(PRIME);
        hash ^= hash >> 29;
    };
    if let Some(rtp) = rtp {
        // The clear header suffices, and is present even in truncated captures.
        add(u64::from(rtp.ssrc) << 32 | u64::from(rtp.timestamp));
        add(u64::from(rtp.sequence));
    } else {
        let reported = &datagram.payload[..datagram.payload.len().min(COMPARED_BYTES)];
        for chunk in reported.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            add(u64::from_le_bytes(word));
        }
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash >> 32
}

/// Returns whether a stream of this kind can carry the pictures.
pub(crate) fn may_be_video(kind: Kind) -> bool {
    matches!(kind, Kind::RtpVideo | Kind::QuicShort | Kind::Other | Kind::Rtp)
}

/// Returns whether a message is a request that expects a response.
fn asks(stun: Stun) -> bool {
    stun.class == StunClass::Request
}
