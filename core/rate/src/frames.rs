//! Whole frames as samples, for controllers that work on frames rather than packets.

use std::collections::VecDeque;

use nearlight_units::{Bytes, FrameId, RemoteTime, Time};

use crate::{PacketReport, SentPacket};

/// Frames that may be incomplete at once; older ones count as lost. Guess: a second at 60 frames a second.
const MAX_OPEN_FRAMES: usize = 64;

/// A frame that has arrived completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSample {
    pub frame: FrameId,
    /// Size on the wire, without retransmissions.
    pub size: Bytes,
    /// When its first packet was sent.
    pub sent_at: Time,
    /// When its last packet arrived.
    pub arrived_at: RemoteTime,
}

#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    sample: FrameSample,
    packets: u32,
    arrived: u32,
    /// Whether all of its packets have been sent.
    sent: bool,
}

/// Combines the records of packets into frames.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    open: VecDeque<OpenFrame>,
}

impl Frames {
    pub fn on_packet_sent(&mut self, packet: &SentPacket) {
        let Some(frame) = packet.frame else { return };
        if self.open.back().is_none_or(|newest| newest.sample.frame < frame) {
            self.begin(frame, packet.sent_at);
        }
        let Some(newest) = self.open.back_mut() else { return };
        // A retransmission of this frame or an older one replaces what was lost: the count stays.
        if newest.sample.frame == frame && !newest.sent {
            newest.packets += 1;
            newest.sample.size += packet.size;
            newest.sent = packet.app_limited;
        }
    }

    pub fn on_report(&mut self, report: &PacketReport) {
        let (Some(frame), Some(arrived_at)) = (report.packet.frame, report.arrived_at) else { return };
        if let Some(open) = self.open.iter_mut().rev().find(|open| open.sample.frame == frame) {
            open.sample.arrived_at =
                if open.arrived == 0 { arrived_at } else { open.sample.arrived_at.max(arrived_at) };
            open.arrived = open.arrived.saturating_add(1);
        }
    }

    /// Returns the next complete frame, in order. Incomplete frames before it are dropped.
    pub fn poll(&mut self) -> Option<FrameSample> {
        let whole = |open: &OpenFrame| open.sent && open.arrived >= open.packets;
        let place = self.open.iter().position(whole)?;
        let sample = self.open[place].sample;
        self.open.drain(..=place);
        Some(sample)
    }

    /// Number of frames in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.open.len()
    }

    fn begin(&mut self, frame: FrameId, sent_at: Time) {
        if let Some(newest) = self.open.back_mut() {
            newest.sent = true;
        }
        if self.open.len() == MAX_OPEN_FRAMES {
            self.open.pop_front();
        }
        let sample = FrameSample { frame, size: Bytes::ZERO, sent_at, arrived_at: RemoteTime::ZERO };
        self.open.push_back(OpenFrame { sample, packets: 0, arrived: 0, sent: false });
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{PacketSeq, Span};

    use super::*;

    /// Packet `index` of three, of a frame that is sent every 10 ms.
    fn packet(frame: u32, index: u32) -> SentPacket {
        SentPacket {
            seq: PacketSeq(frame * 3 + index),
            sent_at: Time::from_millis(u64::from(10 * frame + index)),
            size: Bytes::new(1_000),
            frame: Some(FrameId(frame)),
            probe: None,
            app_limited: index == 2,
        }
    }

    fn sent(frames: u32) -> Frames {
        let mut sent = Frames::default();
        for frame in 0..frames {
            (0..3).for_each(|index| sent.on_packet_sent(&packet(frame, index)));
        }
        sent
    }

    fn arrive(frames: &mut Frames, frame: u32, indexes: &[u32]) {
        for &index in indexes {
            let packet = packet(frame, index);
            let arrived_at = Some((packet.sent_at + Span::from_millis(100)).for_peer());
            frames.on_report(&PacketReport { packet, arrived_at, ce: false });
        }
    }

    fn whole(frames: &mut Frames) -> Vec<u32> {
        std::iter::from_fn(|| frames.poll()).map(|sample| sample.frame.0).collect()
    }

    #[test]
    fn a_frame_is_a_sample_from_its_first_packet_sent_to_its_last_arrived() {
        let mut frames = sent(1);
        arrive(&mut frames, 0, &[2, 0, 1]);
        let at = Time::from_millis;
        let sample =
            FrameSample { frame: FrameId(0), size: Bytes::new(3_000), sent_at: at(0), arrived_at: at(102).for_peer() };
        assert_eq!(frames.poll(), Some(sample));
        assert_eq!(frames.poll(), None);
    }

    #[test]
    fn frames_that_are_not_whole_are_given_up_when_a_later_one_is() {
        let mut frames = sent(4);
        arrive(&mut frames, 0, &[0, 1, 2]);
        arrive(&mut frames, 1, &[0, 2]);
        assert_eq!(whole(&mut frames), [0]);
        arrive(&mut frames, 2, &[0, 1, 2]);
        arrive(&mut frames, 1, &[1]);
        arrive(&mut frames, 3, &[0]);
        assert_eq!(whole(&mut frames), [1, 2], "a late packet is in time until then");
        let mut frames = sent(3);
        arrive(&mut frames, 1, &[0, 1, 2]);
        assert_eq!(whole(&mut frames), [1]);
        arrive(&mut frames, 0, &[0, 1, 2]);
        assert_eq!(whole(&mut frames), [0_u32; 0]);
    }

    #[test]
    fn a_packet_that_is_sent_again_completes_its_frame() {
        let mut frames = sent(2);
        frames.on_packet_sent(&packet(1, 1));
        arrive(&mut frames, 1, &[0, 2]);
        assert_eq!(whole(&mut frames), [0_u32; 0]);
        arrive(&mut frames, 1, &[1]);
        assert_eq!(frames.poll().expect("whole").size, Bytes::new(3_000));
    }

    #[test]
    fn a_frame_whose_last_packet_did_not_empty_the_queue_ends_with_the_next_one() {
        let mut frames = Frames::default();
        for index in 0..3 {
            frames.on_packet_sent(&SentPacket { app_limited: false, ..packet(0, index) });
        }
        arrive(&mut frames, 0, &[0, 1, 2]);
        assert_eq!(frames.poll(), None);
        frames.on_packet_sent(&packet(1, 0));
        assert_eq!(whole(&mut frames), [0]);
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(sent(10_000).held(), MAX_OPEN_FRAMES);
    }
}
