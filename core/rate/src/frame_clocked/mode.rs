//! The modes as one type: which of them is asked what.

use nearlight_units::{Bitrate, Bytes, Time};

use super::competing::Competing;
use super::l4s::L4s;
use super::path::{FrameArrival, Path};
use super::sharing::Sharing;
use super::tracking::Tracking;
use crate::{Limit, PacketReport};

/// The control law in force. The diagram in [`super`] names the transitions.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a controller has one of them, and no list of them is kept")]
pub(super) enum Mode {
    Tracking(Tracking),
    Sharing(Sharing),
    Competing(Competing),
    L4s(L4s),
}

impl Mode {
    /// Handles a packet's report.
    pub(super) fn on_report(&mut self, now: Time, report: &PacketReport, path: &Path) {
        match self {
            Self::Competing(competing) => competing.on_report(now, report, path.newest_sent()),
            Self::L4s(l4s) if report.arrived_at.is_some() => l4s.on_arrival(report.ce),
            _ => {}
        }
    }

    /// Handles the arrival of a frame's first packet. Returns the next mode where that ends this one.
    pub(super) fn on_frame(&mut self, now: Time, frame: FrameArrival, path: &Path) -> Option<Self> {
        match self {
            Self::Tracking(tracking) => tracking.on_frame(now, frame, path),
            Self::Sharing(sharing) => sharing.on_frame(now, frame, path),
            Self::Competing(_) => None,
            Self::L4s(l4s) => l4s.on_frame(frame, path),
        }
    }

    /// Handles a feedback message, which acknowledges `acked`. Returns the next mode where that ends this one.
    pub(super) fn on_feedback(&mut self, now: Time, acked: Bytes, path: &mut Path) -> Option<Self> {
        match self {
            Self::Tracking(_) => Tracking::on_feedback(now, path),
            Self::Sharing(sharing) => sharing.on_feedback(now, path),
            Self::Competing(competing) => competing.on_feedback(now, acked, path),
            Self::L4s(l4s) => {
                l4s.on_feedback(now, path);
                None
            }
        }
    }

    /// Whether frames measure the capacity: they leave faster than the bottleneck serves them.
    pub(super) fn measures_capacity(&self) -> bool {
        matches!(self, Self::Tracking(_) | Self::Competing(_))
    }

    /// Whether the queue holds other flows' packets: the target does not fall with it, because that would not drain it.
    pub(super) fn is_beside_others(&self) -> bool {
        matches!(self, Self::Sharing(_) | Self::Competing(_))
    }

    /// What the rate would be without the limits of [`Mode::rate`].
    pub(super) fn unlimited_rate(&self, path: &Path) -> Bitrate {
        match self {
            Self::Tracking(_) | Self::Competing(_) => path.capacity_share(),
            Self::Sharing(sharing) => sharing.rate(),
            Self::L4s(l4s) => l4s.rate(path),
        }
    }

    /// The rate for the encoder, before a queue and missing feedback lower it.
    pub(super) fn rate(&self, path: &Path) -> Bitrate {
        match self {
            Self::Tracking(_) => Tracking::rate(path),
            Self::Competing(competing) => competing.rate().min(path.capacity_share()),
            Self::Sharing(_) | Self::L4s(_) => self.unlimited_rate(path),
        }
    }

    /// What limits the rate where no queue of our own and no missing feedback lowers it.
    pub(super) fn limit(&self, path: &Path) -> Limit {
        match self {
            Self::Tracking(_) if path.policer_limit().is_some_and(|limit| limit <= Tracking::rate(path)) => {
                Limit::Policer
            }
            Self::Competing(competing) if competing.rate() <= path.capacity_share() => Limit::Window,
            Self::Tracking(_) | Self::Competing(_) => Limit::Throughput,
            Self::Sharing(_) => Limit::CrossTraffic,
            Self::L4s(_) => Limit::Marks,
        }
    }

    /// The rate at which packets leave.
    pub(super) fn pacing(&self, target: Bitrate, path: &Path) -> Bitrate {
        match self {
            Self::Tracking(_) => Tracking::pacing(target, path),
            // Spread over the frame interval, so that bursts do not fill the others' queue. An encoder may not manage to produce as little
            // as it is asked for; what waits in the sender is not in time either.
            Self::Sharing(_) | Self::Competing(_) => {
                let frame = path.newest_frame_rate().min(path.capacity_share());
                target.max(frame).mul_f64(path.parameters.probe_gain)
            }
            Self::L4s(l4s) => l4s.pacing().max(target),
        }
    }
}
