//! The mode on a path of our own: the target is a share of the capacity that frames measure, less what a queue takes.
//!
//! A frame leaves faster than the bottleneck serves it, so it measures the capacity, and it takes [`Parameters::target_share`] of the frame
//! interval there, so the queue is empty when the next frame comes. Where a frame still meets a queue, the target falls in proportion to the
//! share of the frame interval that the queue takes: it is gone one interval later.
//!
//! [`Parameters::target_share`]: super::Parameters::target_share

use nearlight_units::{Bitrate, Time};

use super::Mechanism;
use super::competing::Competing;
use super::mode::Mode;
use super::path::{FrameArrival, Path};
use super::sharing::Sharing;

/// The state on a path of our own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tracking {
    /// Frames with other flows' packets between theirs, less those without.
    interleaved_frames: u32,
}

impl Tracking {
    /// The rate without a queue.
    pub(super) fn rate(path: &Path) -> Bitrate {
        path.overload_limit().into_iter().chain(path.policer_limit()).fold(path.capacity_share(), Bitrate::min)
    }

    fn target(path: &Path) -> Bitrate {
        path.bounds.clamp(Self::rate(path).mul_f64(path.room_beside(path.expected_queue())))
    }

    /// Frames leave faster than the bottleneck serves them: their dispersion shows its capacity, up to this multiple of the known one.
    pub(super) fn pacing(target: Bitrate, path: &Path) -> Bitrate {
        let gain = path.parameters.burst_gain;
        Bitrate::from_bps((path.capacity_or_start() * gain) as u64).max(target.mul_f64(gain))
    }

    /// Handles a frame. Other flows whose frames keep out of the way of ours leave no queue behind, but their packets lie between ours. The
    /// shares that such flows have found depend on the phases of their frames, so they are shared anew.
    pub(super) fn on_frame(&mut self, now: Time, frame: FrameArrival, path: &Path) -> Option<Mode> {
        if frame.met_queue || !path.has(Mechanism::Sharing) || !path.has(Mechanism::Interleaving) {
            return None;
        }
        let is_interleaved = path.capacity.is_interleaved(&path.parameters);
        self.interleaved_frames =
            if is_interleaved { self.interleaved_frames + 1 } else { self.interleaved_frames.saturating_sub(1) };
        (self.interleaved_frames >= path.parameters.interleaved_frames)
            .then(|| Mode::Sharing(Sharing::new(now, Self::target(path))))
    }

    /// Looks for cross traffic in the queue.
    pub(super) fn on_feedback(now: Time, path: &mut Path) -> Option<Mode> {
        let round_trip = path.round_trip?;
        if path.queue.foreign_frames() < path.parameters.evidence_frames {
            if path.room_beside(path.expected_queue()) >= 1.0 {
                path.solo_target = Self::target(path);
            }
            return None;
        }
        if path.has(Mechanism::Sharing) {
            return Some(Mode::Sharing(Sharing::new(now, Self::target(path))));
        }
        let stands = path.queue.newest() > path.frame_interval;
        (stands && path.has(Mechanism::Competition))
            .then(|| Mode::Competing(Competing::beside_one(now, round_trip, path)))
    }
}
