//! Reassembles frames from RTP packets in order, with requests for missing packets, and gives up frames whose packets do not arrive.

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Span, Time};
use rtc::rtp::packet::Packet;

use super::PlayedFrame;
use crate::CodecKind;
use crate::payload::depacketizer;

/// A gap is given up after this time, and a key frame requested. Guess.
const MAX_GAP_TIME: Span = Span::from_millis(500);
/// Interval of requests for missing packets: libwebrtc's round trip as long as it knows none (`NackRequester`).
const NACK_RETRY: Span = Span::from_millis(100);
/// Maximum number of requests per packet (libwebrtc).
const NACK_TRIES: u32 = 10;
/// More missing packets than this are an outage, which a key frame ends.
const MAX_MISSING: usize = 1_000;
/// Maximum number of key frames in flight at once.
const MAX_KEY_FRAMES: usize = 64;

pub(super) struct Assembly {
    pub(super) codec: CodecKind,
    /// The header extension that signals pictures not to wait.
    pub(super) playout_delay: Option<u8>,
    packets: BTreeMap<u64, Packet>,
    /// The number with which the next frame begins, unwrapped.
    next: Option<u64>,
    newest: Option<u64>,
    /// Missing numbers: when to request them next, and how often they were requested.
    missing: BTreeMap<u64, (Time, u32)>,
    waits_since: Option<Time>,
    /// RTP timestamps of key frames.
    key_frames: VecDeque<u32>,
    frames: VecDeque<PlayedFrame>,
    given_up: u64,
    requests: u64,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            codec: CodecKind::H264,
            playout_delay: None,
            packets: BTreeMap::new(),
            next: None,
            newest: None,
            missing: BTreeMap::new(),
            waits_since: None,
            key_frames: VecDeque::new(),
            frames: VecDeque::new(),
            given_up: 0,
            requests: 0,
        }
    }
}

impl Assembly {
    pub(super) fn on_packet(&mut self, now: Time, packet: Packet) {
        let near = self.next.unwrap_or(0x1_0000 + u64::from(packet.header.sequence_number));
        let ahead = packet.header.sequence_number.wrapping_sub(near as u16);
        // In the lower half it is ahead of what is expected, in the upper half behind it.
        let number = if ahead < 0x8000 { near + u64::from(ahead) } else { near - u64::from(ahead.wrapping_neg()) };
        self.next.get_or_insert(number);
        self.missing.remove(&number);
        let newest = self.newest.map_or(number, |newest| newest.max(number));
        self.missing.extend((self.newest.unwrap_or(number) + 1..newest).map(|number| (number, (now, 0))));
        self.newest = Some(newest);
        if self.next.is_some_and(|next| number >= next) {
            self.packets.insert(number, packet);
        }
    }

    pub(super) fn expect_key_frame(&mut self, rtp_timestamp: u32) {
        if self.key_frames.len() == MAX_KEY_FRAMES {
            self.key_frames.pop_front();
        }
        self.key_frames.push_back(rtp_timestamp);
    }

    /// Returns the sequence numbers to request now.
    pub(super) fn poll_missing(&mut self, now: Time, asks: bool) -> Vec<u16> {
        let next = self.next.unwrap_or(0);
        self.missing.retain(|number, (_, tries)| *number >= next && *tries < NACK_TRIES);
        if !asks {
            self.missing.clear();
        }
        while self.missing.len() > MAX_MISSING {
            self.missing.pop_first();
        }
        let due = self.missing.iter_mut().filter(|(_, (at, _))| *at <= now);
        let numbers: Vec<u16> = due
            .map(|(number, (at, tries))| {
                (*at, *tries) = (now + NACK_RETRY, *tries + 1);
                *number as u16
            })
            .collect();
        self.requests += numbers.len() as u64;
        numbers
    }

    /// Extracts complete frames, in order.
    pub(super) fn assemble(&mut self, now: Time) {
        while let Some(next) = self.next {
            let run: Vec<&Packet> = (next..).map_while(|number| self.packets.get(&number)).collect();
            let Some(last) = run.iter().position(|packet| packet.header.marker) else {
                let waits = self.packets.keys().next_back().is_some_and(|newest| *newest >= next + run.len() as u64);
                self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
                if waits && self.skip_to_key_frame() {
                    continue;
                }
                return;
            };
            self.waits_since = None;
            let frame = self.frame(&run[..=last], now);
            self.frames.push_back(frame);
            self.go_on_at(next + last as u64 + 1);
        }
    }

    fn frame(&self, packets: &[&Packet], arrived_at: Time) -> PlayedFrame {
        let mut bits = Vec::new();
        let mut depacketizer = depacketizer(self.codec);
        for packet in packets {
            bits.extend_from_slice(&depacketizer.depacketize(&packet.payload).unwrap_or_default());
        }
        let undelayed = |packet: &&Packet| {
            let extension = self.playout_delay.and_then(|id| packet.header.get_extension(id));
            extension.is_some_and(|bytes| bytes[..] == [0, 0, 0])
        };
        PlayedFrame {
            rtp_timestamp: packets[0].header.timestamp,
            bits,
            packets: packets.len(),
            arrived_at,
            undelayed: packets.iter().all(undelayed),
        }
    }

    /// Continues with a complete key frame behind a gap, which needs none of the missing packets.
    fn skip_to_key_frame(&mut self) -> bool {
        let begins = |packet: &Packet| depacketizer(self.codec).is_partition_head(&packet.payload);
        let is_whole = |first: u64, timestamp: u32| {
            let packets = (first..).map_while(|number| self.packets.get(&number));
            let mut packets = packets.take_while(|packet| packet.header.timestamp == timestamp);
            packets.any(|packet| packet.header.marker)
        };
        let mut before = None;
        let found = self.packets.iter().find(|(number, packet)| {
            let timestamp = packet.header.timestamp;
            let is_first = before.replace(timestamp) != Some(timestamp);
            is_first && self.key_frames.contains(&timestamp) && begins(packet) && is_whole(**number, timestamp)
        });
        let Some(first) = found.map(|(number, _)| *number) else { return false };
        self.given_up += 1;
        self.waits_since = None;
        self.go_on_at(first);
        true
    }

    /// Gives up a gap that has lasted too long. Returns whether the player continues behind it, at the next frame, which lacks its
    /// reference.
    pub(super) fn give_up(&mut self, now: Time) -> bool {
        if self.waits_since.is_none_or(|since| now.saturating_since(since) <= MAX_GAP_TIME) {
            return false;
        }
        self.given_up += 1;
        self.waits_since = None;
        let mut behind = self.packets.iter().skip_while(|(number, _)| Some(**number) == self.next);
        let end = behind.find(|(_, packet)| packet.header.marker).map(|(number, _)| *number);
        if let Some(end) = end {
            self.go_on_at(end + 1);
        }
        end.is_some()
    }

    fn go_on_at(&mut self, next: u64) {
        self.packets.retain(|number, _| *number >= next);
        self.next = Some(next);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let patience = self.waits_since.map(|since| since + MAX_GAP_TIME + Span::from_millis(1));
        let requests = self.missing.values().map(|(at, _)| *at).min();
        patience.into_iter().chain(requests).min()
    }

    pub(super) fn poll_frame(&mut self) -> Option<PlayedFrame> {
        self.frames.pop_front()
    }

    pub(super) const fn given_up(&self) -> u64 {
        self.given_up
    }

    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }
}
