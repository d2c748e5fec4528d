//! Buffer occupancy: the rate follows from the frames in the receiver's playback buffer, and from nothing else.
//!
//! Below the reservoir the lowest rung is chosen, above reservoir and cushion the highest, and in between the rung follows a line. A rung
//! is left only when the line crosses the next one. A live source cannot fill a buffer beyond its own delay: at a receiver that displays
//! frames at once, the buffer never exceeds the reservoir, and the rate stays at the bottom whatever the path carries. So this controller
//! asks the receiver to play from a buffer ([`RateController::playback_buffer`]), which costs latency: eleven frames, 0.37 s at 30 frames
//! a second. Packets that are queued on the path are missing from the buffer, so the rate falls as queues grow.
//!
//! Source: Huang et al., A Buffer-Based Approach to Rate Adaptation (SIGCOMM 2014), BBA-0, in the live form of Alhilal et al., Nebula
//! (WWW 2022).
//!
//! # Departures
//! * The buffer is counted in frames, not in seconds of a stored film: a reservoir of 3 and a cushion of 7 frames, together one group of
//!   pictures, instead of BBA-0's 90 and 126 s. Nebula's text has no figures.
//! * Decisions are made per group of ten frames rather than per chunk, on Nebula's ladder ([`crate::ladder`]).
//! * The receiver reports its buffer; the original's client asks for a rate. After 500 ms without feedback the buffer counts as empty.

use nearlight_units::{Bitrate, Time};

use crate::ladder::Ladder;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, SentFrame, SentPacket};

/// Reservoir and cushion in frames. Guess: see the departures.
const RESERVOIR: u32 = 3;
const CUSHION: u32 = 7;
/// Frames that the receiver should buffer. One more than full: at the time of counting, one may just have been played.
const PLAYBACK_BUFFER_FRAMES: u8 = (RESERVOIR + CUSHION + 1) as u8;
/// Frames between decisions (Nebula, section 6.2: a group of pictures).
const GROUP_FRAMES: u32 = 10;

/// The controller.
#[derive(Debug)]
pub struct BufferOccupancy {
    bounds: Bounds,
    ladder: Ladder,
    buffered: u32,
    frames: u32,
    /// Index of the current rung. None until the first decision, when the user's start rate applies.
    rung: Option<usize>,
    limit: Limit,
    silence: Silence,
}

impl BufferOccupancy {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let bounds = bounds.in_order();
        let (ladder, silence) = (Ladder::up_to(bounds.maximum), Silence::default());
        Self { bounds, ladder, buffered: 0, frames: 0, rung: None, limit: Limit::Buffer, silence }
    }

    fn decide(&mut self) {
        self.limit = Limit::Buffer;
        let before = self.rung.unwrap_or_else(|| self.ladder.below(self.bounds.start));
        let mapped = self.mapped();
        let top = self.ladder.top();
        let next = (before < top).then(|| self.ladder.rate(before + 1));
        let last = before.checked_sub(1).map(|rung| self.ladder.rate(rung));
        let rung = match self.buffered {
            0..=RESERVOIR => 0,
            buffered if buffered >= RESERVOIR + CUSHION => top,
            _ if next.is_some_and(|next| mapped >= next) => self.ladder.below(mapped),
            _ if last.is_some_and(|last| mapped <= last) => (self.ladder.below(mapped) + 1).min(before),
            _ => before,
        };
        self.rung = Some(rung);
    }

    /// The rate for the buffer's occupancy: `f(B)`.
    fn mapped(&self) -> Bitrate {
        let (lowest, highest) = (self.ladder.rate(0), self.ladder.rate(self.ladder.top()));
        let share = f64::from(self.buffered.saturating_sub(RESERVOIR).min(CUSHION)) / f64::from(CUSHION);
        lowest + Bitrate::from_bps(highest.as_bps() - lowest.as_bps()).mul_f64(share)
    }
}

impl RateController for BufferOccupancy {
    fn name(&self) -> &'static str {
        "buffer-occupancy"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
    }

    fn on_feedback(&mut self, _now: Time, feedback: &Feedback<'_>) {
        self.silence.on_feedback(feedback);
    }

    fn on_frame_sent(&mut self, _now: Time, _frame: &SentFrame) {
        self.frames += 1;
        if self.frames == GROUP_FRAMES {
            self.frames = 0;
            self.decide();
        }
    }

    fn playback_buffer(&self) -> u8 {
        PLAYBACK_BUFFER_FRAMES
    }

    fn on_playback_buffer(&mut self, _now: Time, frames: u32) {
        self.buffered = frames;
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.buffered = 0;
            self.decide();
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        self.silence.due(self.rung == Some(0)).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.ladder = Ladder::up_to(self.bounds.maximum);
    }

    fn decision(&self) -> Decision {
        let wanted = self.rung.map_or(self.bounds.start, |rung| self.ladder.rate(rung));
        let rung = self.rung.unwrap_or_else(|| self.ladder.below(self.bounds.start));
        let step = Some(self.ladder.step(rung, 1.0));
        Decision { step, ..Decision::unpaced(&self.bounds, &[(self.limit, wanted), (Limit::Buffer, self.mapped())]) }
    }

    fn held(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bytes, FrameId, PacketSeq, Span};

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Ladder::RATES.0, start: Bitrate::from_kbps(1_800), maximum: Ladder::RATES.1 };

    /// Returns the rungs, in kb/s, that groups with these buffers lead to.
    fn rungs(buffers: &[u32]) -> Vec<u64> {
        let mut controller = BufferOccupancy::new(BOUNDS);
        let decide = |&frames: &u32| {
            controller.on_playback_buffer(Time::ZERO, frames);
            for frame in 0..GROUP_FRAMES {
                let sent = SentFrame { frame: FrameId(frame), size: Bytes::ZERO, key: false, encode: Span::ZERO };
                controller.on_frame_sent(Time::ZERO, &sent);
            }
            controller.decision().target.as_bps() / 1_000
        };
        buffers.iter().map(decide).collect()
    }

    #[test]
    fn the_buffer_maps_to_a_rung_in_a_line_from_reservoir_to_cushion() {
        // From the bottom up: f(4) = 200 + 900, f(6) = 200 + 2,700, f(9) = 200 + 5,400 kb/s.
        for (frames, kbps) in [(0, 200), (3, 200), (4, 1_000), (6, 2_000), (9, 4_500), (10, 6_500), (99, 6_500)] {
            assert_eq!(rungs(&[0, frames])[1], kbps, "{frames} frames");
        }
    }

    #[test]
    fn a_rung_is_left_only_when_the_line_crosses_the_next_one() {
        // At 4,500 (from 9 frames): f(8) = 4,700, f(7) = 3,800 lie between 3,000 and 6,500; f(6) = 2,900 does not.
        assert_eq!(rungs(&[0, 9, 8, 7, 6]), [200, 4_500, 4_500, 4_500, 3_000]);
        // At 2,000 (from 6 frames): f(5) = 2,000 lies between 1,800 and 3,000.
        assert_eq!(rungs(&[0, 6, 5, 4]), [200, 2_000, 2_000, 1_200]);
    }

    #[test]
    fn a_live_source_without_a_buffer_stays_at_the_bottom_whatever_the_path_carries() {
        assert_eq!(rungs(&[1, 0, 2, 3, 1, 2]), [200; 6]);
    }

    #[test]
    fn without_feedback_the_buffer_counts_as_empty() {
        let mut controller = BufferOccupancy::new(BOUNDS);
        controller.on_playback_buffer(Time::ZERO, 9);
        controller.on_packet_sent(&SentPacket {
            seq: PacketSeq(0),
            sent_at: Time::from_secs(1),
            size: Bytes::new(1_200),
            frame: None,
            probe: None,
            app_limited: true,
        });
        assert_eq!(controller.decision().target, BOUNDS.start, "the user's, until the first group is over");
        let (at, wake) = controller.poll_timeout().expect("feedback is missing");
        assert_eq!((at, wake), (Time::from_millis(1_500), ControllerWake::FeedbackTimeout));
        controller.on_timeout(at);
        assert_eq!((controller.decision().target, controller.poll_timeout()), (BOUNDS.minimum, None));
    }
}
