//! One outgoing RTP stream: writes a sender's releases as RTP packets, retransmissions (RFC 4588) and FlexFEC repairs, with their numbers,
//! timestamps and header extensions.

use std::collections::VecDeque;

use bytes::Bytes;
use nearlight_fec::ParityGroups;
use nearlight_session::{Payload, Release};
use nearlight_units::{FrameId, PacketSeq, Span, Time};
use nearlight_wire::{MAX_NACK_ENTRIES, MissingRun, Nack};
use rtc::rtcp::sender_report::SenderReport;
use rtc::rtp::Header;
use rtc::rtp::packet::Packet;
use rtc::shared::marshal::Marshal as _;

use crate::flexfec::{self, Block};

/// Maximum number of frames whose numbers are remembered: those that the sender stores for repairs.
const MAX_FRAMES: usize = 64;
/// Interval of sender reports (RFC 3550 section 6.2 allows 5 s; lip synchronisation and round trips need more).
const REPORT_INTERVAL: Span = Span::from_millis(500);
/// NTP counts 2^-32 s; its middle 32 bits, which identify reports, count 2^-16 s.
const NTP_SECOND: f64 = 4_294_967_296.0;
/// Maximum plausible round trip: a longer one means that the client answered a report that we have forgotten. Guess.
const MAX_ROUND_TRIP: Span = Span::from_secs(10);

/// Payload of the playout delay extension: minimum and maximum in units of 10 ms, twelve bits each.
const PLAYOUT_DELAY_ZERO: [u8; 3] = [0; 3];

/// The negotiated parameters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamConfig {
    pub(crate) ssrc: u32,
    pub(crate) payload_type: u8,
    /// Ticks of the timestamp per second.
    pub(crate) clock_rate: u32,
    /// Source and payload type of retransmissions.
    pub(crate) retransmission: Option<(u32, u8)>,
    /// Source and payload type of repairs.
    pub(crate) repair: Option<(u32, u8)>,
    /// Identifiers of header extensions that the client accepts.
    pub(crate) transport_wide: Option<u8>,
    /// Identifier of the departure time, only if the client reports no arrivals.
    pub(crate) send_time: Option<u8>,
    pub(crate) playout_delay: Option<u8>,
}

/// Initial numbers and timestamps: random, as RFC 3550 requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitialValues {
    pub(crate) number: u16,
    pub(crate) retransmission: u16,
    pub(crate) repair: u16,
    pub(crate) timestamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct NumberedFrame {
    frame: FrameId,
    /// RTP sequence number of its first packet, unwrapped.
    first: u32,
    groups: ParityGroups,
    timestamp: u32,
}

#[derive(Debug)]
pub(crate) struct Stream {
    config: StreamConfig,
    /// The next number, unwrapped. Frames get theirs when they are queued.
    next: u32,
    next_retransmission: u16,
    next_repair: u16,
    timestamp: u32,
    frames: VecDeque<NumberedFrame>,
    packets: u32,
    octets: u32,
    newest_timestamp: Option<(u32, Time)>,
    /// The largest packet of the newest frame that has left so far.
    largest: Option<Packet>,
    /// The repairs of the frame that is leaving.
    block: Option<(FrameId, Block)>,
    reported_at: Option<Time>,
}

impl Stream {
    pub(crate) fn new(config: StreamConfig, begin: InitialValues) -> Self {
        Self {
            config,
            // Room below, so that a number that the client takes for an older one does not underflow.
            next: 0x1_0000 + u32::from(begin.number),
            next_retransmission: begin.retransmission,
            next_repair: begin.repair,
            timestamp: begin.timestamp,
            frames: VecDeque::new(),
            packets: 0,
            octets: 0,
            newest_timestamp: None,
            largest: None,
            block: None,
            reported_at: None,
        }
    }

    pub(crate) const fn config(&self) -> &StreamConfig {
        &self.config
    }

    /// Bytes in addition to the payload: header, extensions and SRTP's tag (10 bytes for its usual profile, 16 for GCM).
    pub(crate) fn overhead(&self) -> u16 {
        12 + self.extensions() + 16
    }

    fn extensions(&self) -> u16 {
        let StreamConfig { transport_wide, send_time, playout_delay, .. } = self.config;
        block_of([transport_wide.map(|_| 3), send_time.map(|_| 4), playout_delay.map(|_| 4)])
    }

    /// Bytes of a repair in addition to the longest payload that it covers. None if the client accepts no repairs.
    pub(crate) fn repair_overhead(&self) -> Option<u16> {
        self.config.repair?;
        let own = 12 + block_of([self.config.transport_wide.map(|_| 3), self.config.send_time.map(|_| 4), None]) + 16;
        Some(own + flexfec::MAX_HEADER_BYTES + self.extensions())
    }

    /// The stream's timestamp for a time.
    pub(crate) fn timestamp_at(&self, at: Time) -> u32 {
        let ticks = u128::from(at.as_nanos()) * u128::from(self.config.clock_rate) / 1_000_000_000;
        (ticks as u32).wrapping_add(self.timestamp)
    }

    /// Numbers a frame's packets.
    pub(crate) fn on_frame(&mut self, frame: FrameId, groups: ParityGroups, timestamp: u32) {
        self.frames.push_back(NumberedFrame { frame, first: self.next, groups, timestamp });
        self.next += u32::from(groups.packets());
        if self.frames.len() > MAX_FRAMES {
            self.frames.pop_front();
        }
    }

    /// Returns the packet for a sender's release. None if the client accepts no such packet, or the frame is forgotten.
    pub(crate) fn packet(&mut self, release: &Release<'_>) -> Option<Packet> {
        let Release { seq, sent_at, ref payload } = *release;
        let mut packet = match *payload {
            Payload::Piece { frame, index, retransmission, bytes } => {
                let packet = self.piece(frame.id, index, seq, bytes)?;
                if retransmission {
                    self.again(packet)
                } else {
                    self.protect(frame.id, index, &packet);
                    packet
                }
            }
            Payload::Repair { frame, number, .. } => self.repair(frame, number, seq)?,
            Payload::Padding { .. } => self.filling(seq)?,
        };
        self.stamp(sent_at, &mut packet);
        Some(packet)
    }

    fn piece(&self, frame: FrameId, index: u16, seq: PacketSeq, bytes: &[u8]) -> Option<Packet> {
        let numbered = self.numbered(frame)?;
        let number = (numbered.first + u32::from(index)) as u16;
        let mut packet = self.with_header(number, numbered.timestamp, seq, Bytes::copy_from_slice(bytes));
        packet.header.marker = index + 1 == numbered.groups.packets();
        Some(packet)
    }

    /// Includes a packet that leaves for the first time in the repairs of its frame. A frame's packets leave in order, and all of them
    /// before its repairs.
    fn protect(&mut self, frame: FrameId, index: u16, packet: &Packet) {
        let Some(NumberedFrame { first, groups, .. }) =
            self.numbered(frame).copied().filter(|of| of.groups.repairs() > 0)
        else {
            return;
        };
        let mut unnumbered = packet.clone();
        if let Some(id) = self.config.transport_wide {
            let _ = unnumbered.header.set_extension(id, transport_wide_number(PacketSeq(0)));
        }
        self.stamp(Time::ZERO, &mut unnumbered);
        let Ok(bytes) = unnumbered.marshal() else { return };
        let fresh = || (frame, Block::new(packet.header.ssrc, first as u16, groups));
        let (_, block) = match self.block.take().filter(|(other, _)| *other == frame) {
            Some(block) => self.block.insert(block),
            None => self.block.insert(fresh()),
        };
        block.add(index, &bytes);
    }

    /// Makes a repair of a frame whose packets have left.
    fn repair(&mut self, frame: FrameId, number: u16, seq: PacketSeq) -> Option<Packet> {
        let (ssrc, payload_type) = self.config.repair?;
        let timestamp = self.numbered(frame)?.timestamp;
        let (_, block) = self.block.as_ref().filter(|(other, _)| *other == frame)?;
        let payload = block.payload(number)?;
        let sequence_number = self.next_repair;
        self.next_repair = sequence_number.wrapping_add(1);
        let header = Header { version: 2, payload_type, sequence_number, timestamp, ssrc, ..Header::default() };
        let mut packet = Packet { header, payload: Bytes::from(payload) };
        if let Some(id) = self.config.transport_wide {
            let _ = packet.header.set_extension(id, transport_wide_number(seq));
        }
        Some(packet)
    }

    /// Whether this is the frame's last packet.
    pub(crate) fn is_last(&self, frame: FrameId, index: u16) -> bool {
        self.numbered(frame).is_some_and(|numbered| index + 1 == numbered.groups.packets())
    }

    fn numbered(&self, frame: FrameId) -> Option<&NumberedFrame> {
        self.frames.iter().rev().find(|numbered| numbered.frame == frame)
    }

    /// Makes a standalone packet, such as one of sound.
    pub(crate) fn single(&mut self, timestamp: u32, seq: PacketSeq, payload: Vec<u8>) -> Packet {
        let number = self.next as u16;
        self.next += 1;
        self.with_header(number, timestamp, seq, Bytes::from(payload))
    }

    fn with_header(&self, sequence_number: u16, timestamp: u32, seq: PacketSeq, payload: Bytes) -> Packet {
        let StreamConfig { ssrc, payload_type, transport_wide, playout_delay, .. } = self.config;
        let header = Header { version: 2, payload_type, sequence_number, timestamp, ssrc, ..Header::default() };
        let mut packet = Packet { header, payload };
        let transport_wide = transport_wide.map(|id| (id, transport_wide_number(seq)));
        let playout_delay = playout_delay.map(|id| (id, Bytes::from_static(&PLAYOUT_DELAY_ZERO)));
        for (id, extension) in [transport_wide, playout_delay].into_iter().flatten() {
            // Fails only for identifiers beyond the one-byte form, which are not negotiated.
            let _ = packet.header.set_extension(id, extension);
        }
        packet
    }

    /// Makes a packet a retransmission (RFC 4588). It is unchanged if the client supports none.
    fn again(&mut self, mut packet: Packet) -> Packet {
        let Some((ssrc, payload_type)) = self.config.retransmission else { return packet };
        let original = packet.header.sequence_number.to_be_bytes();
        packet.payload = [&original[..], &packet.payload].concat().into();
        packet.header.ssrc = ssrc;
        packet.header.payload_type = payload_type;
        packet.header.sequence_number = self.next_retransmission;
        self.next_retransmission = self.next_retransmission.wrapping_add(1);
        packet
    }

    /// Makes a packet that only fills the path: the largest of the newest frame once more, as an unrequested retransmission. None if the
    /// client has no stream for those, because a duplicate in one stream is dropped before it is counted.
    fn filling(&mut self, seq: PacketSeq) -> Option<Packet> {
        self.config.retransmission?;
        let mut packet = self.largest.clone()?;
        if let Some(id) = self.config.transport_wide {
            let _ = packet.header.set_extension(id, transport_wide_number(seq));
        }
        Some(self.again(packet))
    }

    /// Writes the departure time into a packet that leaves now.
    fn stamp(&self, now: Time, packet: &mut Packet) {
        if let Some(id) = self.config.send_time {
            // Seconds in 24 bits, 18 of them after the binary point.
            let ticks = (u128::from(now.as_nanos()) << 18) / 1_000_000_000;
            let [.., high, middle, low] = (ticks as u32).to_be_bytes();
            let _ = packet.header.set_extension(id, Bytes::copy_from_slice(&[high, middle, low]));
        }
    }

    /// Counts a sent packet for reports.
    pub(crate) fn on_sent(&mut self, now: Time, packet: &Packet) {
        if packet.header.ssrc == self.config.ssrc {
            self.packets = self.packets.wrapping_add(1);
            self.octets = self.octets.wrapping_add(packet.payload.len() as u32);
            self.newest_timestamp = Some((packet.header.timestamp, now));
            let of_another = |largest: &Packet| largest.header.timestamp != packet.header.timestamp;
            if self
                .largest
                .as_ref()
                .is_none_or(|largest| of_another(largest) || largest.payload.len() < packet.payload.len())
            {
                self.largest = Some(packet.clone());
            }
        }
    }

    /// Converts numbers that a client misses to pieces of frames. Forgotten ones are omitted.
    pub(crate) fn missing(&self, numbers: impl Iterator<Item = u16>) -> Nack {
        let mut missing: Vec<MissingRun> = Vec::new();
        for number in numbers {
            // Numbers refer back by at most half the number space.
            let behind = (self.next as u16).wrapping_sub(number);
            let number = self.next - u32::from(behind);
            let place = |numbered: &&NumberedFrame| {
                (numbered.first..numbered.first + u32::from(numbered.groups.packets())).contains(&number)
            };
            let Some(numbered) = self.frames.iter().rev().find(place) else { continue };
            let index = (number - numbered.first) as u16;
            let full = missing.len() == MAX_NACK_ENTRIES;
            match missing.last_mut() {
                Some(run) if run.frame == numbered.frame && run.first + run.count == index => run.count += 1,
                _ if full => break,
                _ => missing.push(MissingRun { frame: numbered.frame, first: index, count: 1 }),
            }
        }
        Nack { missing }
    }

    /// When [`Stream::poll_report`] has a report.
    pub(crate) fn report_due(&self) -> Option<Time> {
        self.newest_timestamp.map(|(_, sent_at)| self.reported_at.map_or(sent_at, |at| at + REPORT_INTERVAL))
    }

    /// Returns a sender report, if one is due.
    pub(crate) fn poll_report(&mut self, now: Time) -> Option<SenderReport> {
        if self.report_due().is_none_or(|due| due > now) {
            return None;
        }
        let (timestamp, sent_at) = self.newest_timestamp?;
        self.reported_at = Some(now);
        let since = now.saturating_since(sent_at).as_secs_f64() * f64::from(self.config.clock_rate);
        Some(SenderReport {
            ssrc: self.config.ssrc,
            ntp_time: ntp(now),
            rtp_time: timestamp.wrapping_add(since as u32),
            packet_count: self.packets,
            octet_count: self.octets,
            ..SenderReport::default()
        })
    }
}

/// Size in bytes of a block of header extensions of these sizes.
fn block_of(extensions: [Option<u16>; 3]) -> u16 {
    let extensions: u16 = extensions.into_iter().flatten().sum();
    if extensions == 0 { 0 } else { 4 + extensions.next_multiple_of(4) }
}

fn transport_wide_number(seq: PacketSeq) -> Bytes {
    Bytes::copy_from_slice(&(seq.0 as u16).to_be_bytes())
}

/// Converts a time to NTP's fixed point. Its origin is this server's start, because clients only compare.
fn ntp(at: Time) -> u64 {
    // Never 0, which means that there was no report.
    let at = at + Span::from_secs(1);
    ((at.as_nanos() / 1_000_000_000) << 32) | ((at.as_nanos() % 1_000_000_000) as f64 / 1e9 * NTP_SECOND) as u64
}

/// The round trip from a reception report: `last` identifies our report, which the client held for `delay` (2^-16 s) before it replied.
pub(crate) fn round_trip(now: Time, last: u32, delay: u32) -> Option<Span> {
    if last == 0 {
        return None;
    }
    let elapsed = ((ntp(now) >> 16) as u32).wrapping_sub(last).wrapping_sub(delay);
    let span = Span::from_secs_f64(f64::from(elapsed) / 65_536.0);
    (span < MAX_ROUND_TRIP).then_some(span)
}

#[cfg(test)]
mod tests;
