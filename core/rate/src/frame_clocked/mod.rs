//! Frame-clocked: each frame measures the bottleneck's capacity and takes most of the frame interval on it.
//!
//! # The signal
//! A frame is a train of packets, sent faster than the bottleneck serves them. Each frame gives four measurements:
//!
//! * *Dispersion*: how far apart its packets arrive, so the capacity ([`capacity`]). Unlike the delivery rate of GCC or BBR, it shows the
//!   capacity even while the flow is app-limited.
//! * *Queueing delay*: the one-way delay of its first packet above the base delay, so the queue that it found ([`path`]).
//! * *Whose queue*: in a queue of our own, frames arrive back to back. A gap holds cross traffic ([`frame_queue`]).
//! * *Overdue feedback*: a report that is late means a queue that is at least this much longer ([`feedback_clock`]).
//!
//! # The law
//! ```text
//! target = rate of the mode * (1 - queueing delay / frame interval)
//! ```
//!
//! So a queue is gone one frame interval later. Missing feedback lowers the target further ([`Silence`]). Losses count in `Competing`, and
//! where they are so many that a [`policer`] must have caused them; others are random.
//!
//! # The modes
//!
//! | mode | when | rate | packets leave |
//! |---|---|---|---|
//! | [`tracking`] | the bottleneck is ours | 0.94 of the measured capacity, below the last [`overload`] and a [`policer`] | in a burst, at twice the capacity |
//! | [`sharing`] | cross traffic yields to a queue, as our own kind | AIMD by the standing queue | spread over the interval |
//! | [`competing`] | cross traffic is loss-based | CUBIC's window | spread over the interval |
//! | [`l4s`] | the path marks packets (ECN) before its queue grows | DCTCP's law | one by one |
//!
//! ```text
//!                         20 frames meet cross traffic's queue, or 120 frames have
//!                       cross traffic between their packets (less frames that do not)
//!            +----------+ ----------------------------------------------------> +---------+
//!   start -> | Tracking |                                                       | Sharing |
//!            +----------+ <---------------------------------------------------- +---------+
//!              ^      ^      the rate reaches the highest recent capacity            |
//!              |      |                                                              | the queue stands for 5
//!              |      |      the queue is empty for 200 ms and two round trips,      | control intervals
//!              |      |      or holds only our own packets                           | although we back off
//!              |      |                                                              v
//!              |      +--------------------------------------------------------- +-----------+
//!              |                                                                 | Competing |
//!              | 20 frames in a row meet a queue                                 +-----------+
//!              | and no packet is marked
//!           +-----+
//!           | L4s | <--- a packet is marked, in any mode
//!           +-----+
//! ```
//!
//! There is no startup mode: the first frames measure the capacity. There is no draining mode: `Tracking` and `L4s` drain their queue by the
//! law. `Sharing` and `Competing` answer the queue by their rate, because it is not theirs alone.
//!
//! A policer or token bucket lets the beginning of a frame through at line rate. There a large frame's second half is the sample, and
//! [`overload`] shows the rate behind short frames.
//!
//! # Files
//! [`mode`] dispatches to the modes. [`path`] has the measurements that they share. [`parameters`] has all numbers.
//!
//! # Source
//! Our own, after ideas of Pudica (NSDI 2024: frames as probes of utilisation), Nebula (WWW 2022: dispersion of frames) and Copa (NSDI 2018:
//! compete where the queue does not empty). `docs/results/rate-control.md` has what each mechanism contributes.
//!
//! # Limits
//! * A delay that grows without a queue looks like cross traffic until the base delay is learnt anew, one to two minutes later. The rate
//!   first falls, then follows CUBIC's law.
//! * Beside flows that ignore marks in the same queue, `L4s` falls to the lowest rate. A path is expected to keep them apart (RFC 9332).
//! * Where service is bursty, as on Wi-Fi, a frame's dispersion is noisy. Only the mean of several frames raises the rate.

mod capacity;
mod competing;
mod feedback_clock;
mod frame_queue;
mod l4s;
mod mode;
mod overload;
mod parameters;
mod path;
mod policer;
mod sharing;
mod tracking;

pub use parameters::Parameters;

use nearlight_units::{Bitrate, Span, Time};

use self::l4s::L4s;
use self::mode::Mode;
use self::path::Path;
use self::tracking::Tracking;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentFrame, SentPacket};

/// A mechanism that an ablation leaves out, to measure what it contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The target falls as soon as feedback is late.
    Overdue,
    /// The delivery rate while a queue built up is a limit.
    Overload,
    /// The delivery rate while many packets were lost without a queue is a limit.
    Policing,
    /// The mode `Sharing`.
    Sharing,
    /// The way into `Sharing` beside flows that leave no queue.
    Interleaving,
    /// The mode `Competing`.
    Competition,
    /// The mode `L4s`.
    Marking,
}

/// The controller.
#[derive(Debug)]
pub struct FrameClocked {
    path: Path,
    mode: Mode,
    limit: Limit,
    silence: Silence,
    /// The factor on the target while feedback is missing, 1 otherwise.
    silence_factor: f64,
}

impl FrameClocked {
    /// Returns the controller with its published parameters.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self::with_parameters(bounds, Parameters::default())
    }

    /// Returns the controller with other parameters, to sweep them.
    #[must_use]
    pub fn with_parameters(bounds: Bounds, parameters: Parameters) -> Self {
        Self {
            path: Path::new(bounds.in_order(), parameters),
            mode: Mode::Tracking(Tracking::default()),
            limit: Limit::Throughput,
            silence: Silence::default(),
            silence_factor: 1.0,
        }
    }

    /// Returns the controller without one of its mechanisms.
    #[must_use]
    pub fn without(bounds: Bounds, mechanism: Mechanism) -> Self {
        let mut controller = Self::new(bounds);
        controller.path.without = Some(mechanism);
        controller
    }

    /// Changes the mode where a transition is due.
    fn enter(&mut self, next: Option<Mode>) {
        if let Some(mode) = next {
            self.mode = mode;
            self.path.capacity.set_frozen(!self.mode.measures_capacity());
        }
    }

    fn on_report(&mut self, now: Time, report: &PacketReport) {
        if report.ce && self.path.has(Mechanism::Marking) && !matches!(self.mode, Mode::L4s(_)) {
            let capacity = self.path.capacity_or_start();
            self.enter(Some(Mode::L4s(L4s::new(now, capacity, &self.path.parameters))));
        }
        self.mode.on_report(now, report, &self.path);
        self.path.policer.on_report(report.packet.sent_at, report.packet.size, report.arrived_at.is_none());
        let Some(frame) = report.packet.frame else { return };
        match report.arrived_at {
            Some(arrived_at) if self.path.capacity.is_newer(frame) => {
                let arrival = self.path.on_frame(now, report, arrived_at);
                let next = self.mode.on_frame(now, arrival, &self.path);
                self.enter(next);
                self.path.begin_frame(report, (frame, arrived_at), arrival.met_queue);
            }
            arrived_at => {
                if let Some(arrived_at) = arrived_at {
                    self.path.on_later_packet(now, report, arrived_at);
                }
                self.path.capacity.on_report(report, &self.path.parameters);
            }
        }
    }

    /// The share of the target that a queue leaves.
    fn room(&self) -> f64 {
        let overdue = self.path.feedback.overdue();
        self.path.room_beside(if self.mode.is_beside_others() { overdue } else { self.path.expected_queue() })
    }

    /// The target before the bounds.
    fn wanted(&self) -> Bitrate {
        self.mode.rate(&self.path).mul_f64(self.room() * self.silence_factor)
    }

    /// The time from a packet's departure to its report.
    fn report_delay(&self) -> Option<Span> {
        let shortest = self.path.feedback.min_report_delay()?;
        Some(if self.mode.is_beside_others() { self.path.round_trip?.max(shortest) } else { shortest })
    }

    fn overdue_at(&self) -> Option<Time> {
        let delay = self.report_delay().filter(|_| self.path.has(Mechanism::Overdue))?;
        self.path.feedback.overdue_at(delay, self.path.frame_interval)
    }
}

impl RateController for FrameClocked {
    fn name(&self) -> &'static str {
        "frame-clocked"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
        self.path.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        if feedback.packets.is_empty() {
            return;
        }
        if self.silence.on_feedback(feedback) {
            // What the path carried before the silence is not an estimate any more: the rate grows from where the silence has left it.
            let factor = std::mem::replace(&mut self.silence_factor, 1.0);
            self.path.capacity.scale(factor, self.path.start_capacity());
            if let Mode::L4s(l4s) = &mut self.mode {
                l4s.on_outage_end(factor);
            }
        }
        let acked = self.path.on_feedback(now, feedback);
        for report in feedback.packets {
            self.on_report(now, report);
        }
        self.path.capacity.look_early(self.path.frame_interval, &self.path.parameters);
        let next = self.mode.on_feedback(now, acked, &mut self.path);
        self.enter(next);
        self.limit = if self.room() < 1.0 { Limit::Delay } else { Limit::Throughput };
    }

    fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        self.path.on_frame_sent(now, frame);
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.overdue_at().is_some_and(|at| now >= at) {
            let delay = self.report_delay().unwrap_or(Span::ZERO);
            self.path.feedback.on_overdue(now, delay, self.path.frame_interval);
            self.limit = Limit::Delay;
        }
        if self.silence.on_time(now) {
            self.silence_factor *= Silence::FACTOR;
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let is_lowest = self.wanted() <= self.path.bounds.minimum;
        let silence = self.silence.due(is_lowest).map(|at| (at, ControllerWake::FeedbackTimeout));
        let overdue = self.overdue_at().map(|at| (at, ControllerWake::Step));
        silence.into_iter().chain(overdue).min_by_key(|(at, _)| *at)
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.path.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let limit = match self.mode.limit(&self.path) {
            Limit::Window => Limit::Window,
            of_mode if self.limit == Limit::Throughput => of_mode,
            _ => self.limit,
        };
        let unlimited = (Limit::Delivered, self.mode.unlimited_rate(&self.path));
        let decision = Decision::of(&self.path.bounds, &[(limit, self.wanted()), unlimited], 1.0);
        let pacing = self.mode.pacing(decision.target, &self.path);
        Decision { pacing, evenly: matches!(self.mode, Mode::L4s(_)), ..decision }
    }

    fn held(&self) -> usize {
        self.path.feedback.held()
    }
}

#[cfg(test)]
mod tests;
