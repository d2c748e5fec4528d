//! Missing feedback: the rate falls by a fifth after half a second without it, and again every half second. Reports that name only
//! packets sent too long ago do not end a silence: they shorten its steps to a tenth of a second.
//!
//! Controllers whose source does not cover missing feedback share this: a sender without feedback must not continue forever.

use nearlight_units::{Span, Time};

use crate::Feedback;

/// Feedback missing for this long indicates that the path is blocked. Guess: fifteen feedback intervals at 30 frames a second.
const FEEDBACK_TIMEOUT: Span = Span::from_millis(500);

/// Time between steps while reports show that the path holds more than is remembered. Guess: a path for 10 Mb/s into which 100 Mb/s were
/// sent is relieved in a second.
const OUTDATED_STEP_INTERVAL: Span = Span::from_millis(100);

/// Tracks the time without feedback.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// When the oldest packet without feedback was sent.
    waiting_since: Option<Time>,
    next_step: Option<Time>,
    stepped_at: Option<Time>,
    blocked: bool,
}

impl Silence {
    /// The share of the rate that remains after each step (libwebrtc's, after a time-out of feedback).
    pub const FACTOR: f64 = 0.8;

    pub fn on_sent(&mut self, at: Time) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(at);
            self.next_step = Some(at + FEEDBACK_TIMEOUT);
        }
    }

    /// Handles feedback. Returns whether an outage is over. A report without packets says nothing of the path.
    pub fn on_feedback(&mut self, feedback: &Feedback<'_>) -> bool {
        !feedback.packets.is_empty() && std::mem::take(self).blocked
    }

    /// Handles a report that names only packets that are forgotten: the next step is due sooner.
    pub fn on_outdated(&mut self, now: Time) {
        let soonest = self.stepped_at.map_or(now, |at| at + OUTDATED_STEP_INTERVAL);
        self.next_step = self.next_step.map(|next| next.min(soonest));
    }

    /// Returns whether a step is due. If so, the caller must apply [`Silence::FACTOR`].
    pub fn on_time(&mut self, now: Time) -> bool {
        let due = self.next_step.is_some_and(|next| now >= next);
        if due {
            self.blocked = true;
            self.stepped_at = Some(now);
            self.next_step = Some(now + FEEDBACK_TIMEOUT);
        }
        due
    }

    /// When the next step is due. `lowest` says that the rate cannot fall further.
    #[must_use]
    pub fn due(&self, lowest: bool) -> Option<Time> {
        self.next_step.filter(|_| !lowest || !self.blocked)
    }

    /// Whether the path counts as blocked.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// When the packet that has waited longest for feedback was sent.
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.waiting_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_every_half_second_from_the_first_unanswered_packet_on() {
        let at = Time::from_millis;
        let mut silence = Silence::default();
        assert_eq!(silence.due(false), None);
        silence.on_sent(at(100));
        silence.on_sent(at(300));
        assert_eq!((silence.due(false), silence.on_time(at(599))), (Some(at(600)), false));
        assert!(silence.on_time(at(600)) && silence.is_blocked());
        assert_eq!((silence.due(false), silence.due(true)), (Some(at(1_100)), None));
        let empty = Feedback { packets: &[], round_trip: None };
        assert!(!silence.on_feedback(&empty) && silence.is_blocked(), "an empty report ends nothing");
        let reports = [report()];
        let feedback = Feedback { packets: &reports, round_trip: None };
        assert!(silence.on_feedback(&feedback) && !silence.on_feedback(&feedback));
        assert_eq!((silence.due(false), silence.is_blocked()), (None, false));
    }

    #[test]
    fn reports_of_what_is_forgotten_hasten_the_steps() {
        let at = Time::from_millis;
        let mut silence = Silence::default();
        silence.on_sent(at(0));
        let steps = (1..=50).filter(|tenth| {
            silence.on_outdated(at(tenth * 10));
            silence.on_time(at(tenth * 10))
        });
        assert_eq!(steps.count(), 5, "at once, then every tenth of a second");
        assert!(silence.is_blocked());
    }

    fn report() -> crate::PacketReport {
        let packet = crate::SentPacket {
            seq: nearlight_units::PacketSeq(0),
            sent_at: Time::ZERO,
            size: nearlight_units::Bytes::new(1_000),
            frame: None,
            probe: None,
            app_limited: false,
        };
        crate::PacketReport { packet, arrived_at: Some(nearlight_units::RemoteTime::ZERO), ce: false }
    }
}
