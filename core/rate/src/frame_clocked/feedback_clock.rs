//! When feedback is due. What has not been reported a frame interval after it should have been waits in a queue that is at least this
//! much longer, so the rate can fall before any packet shows it.

use nearlight_units::{Bytes, PacketSeq, Span, Time, smoothed_deviation, smoothed_to_nearest};

use super::parameters::Parameters;
use crate::base_delay::BaseDelay;
use crate::in_flight::InFlight;
use crate::{Feedback, SentPacket};

/// Follows packets in flight and the reports on them.
#[derive(Debug)]
pub(super) struct FeedbackClock {
    in_flight: InFlight,
    newest_sent: PacketSeq,
    /// When the newest reported packet was sent, or the first packet after a pause.
    reported_until: Time,
    /// Times from a packet's departure to its report.
    report_delays: BaseDelay,
    min_report_delay: Option<Span>,
    /// Times from a packet's arrival to its report: how much longer than the shortest they are, smoothed, and their mean deviation (RFC 6298).
    return_delays: BaseDelay,
    return_excess: Span,
    return_deviation: Span,
    newest_report: Option<Time>,
    /// The smoothed time between reports.
    report_interval: Span,
    /// When missing feedback last lengthened [`FeedbackClock::overdue`].
    judged_at: Time,
    overdue: Span,
}

impl FeedbackClock {
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            in_flight: InFlight::default(),
            newest_sent: PacketSeq(0),
            reported_until: Time::ZERO,
            report_delays: BaseDelay::new(parameters.memory),
            min_report_delay: None,
            return_delays: BaseDelay::new(parameters.memory),
            return_excess: Span::ZERO,
            return_deviation: Span::ZERO,
            newest_report: None,
            report_interval: Span::ZERO,
            judged_at: Time::ZERO,
            overdue: Span::ZERO,
        }
    }

    pub(super) fn on_packet_sent(&mut self, packet: &SentPacket) {
        if self.in_flight.bytes() == Bytes::ZERO {
            self.reported_until = self.reported_until.max(packet.sent_at);
        }
        self.newest_sent = packet.seq;
        self.in_flight.on_packet_sent(packet);
    }

    /// Handles a report. Returns the bytes that it acknowledges.
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>, parameters: &Parameters) -> Bytes {
        if let Some(before) = self.newest_report.replace(now) {
            let since = now.saturating_since(before).min(parameters.max_report_interval);
            self.report_interval = smoothed_to_nearest(self.report_interval, since);
        }
        let newest = feedback.packets.iter().map(|report| (report.packet.seq, report.packet.sent_at)).max();
        let Some((seq, sent_at)) = newest else { return Bytes::ZERO };
        self.reported_until = self.reported_until.max(sent_at);
        let delay = now.saturating_since(sent_at);
        self.min_report_delay = Some(delay - self.report_delays.on_delay(now, delay));
        self.overdue = Span::ZERO;
        self.on_return(now, feedback);
        self.in_flight.on_reported(seq)
    }

    /// Handles what a report says about its own way: the time since its newest packet has arrived.
    fn on_return(&mut self, now: Time, feedback: &Feedback<'_>) {
        let Some(arrived_at) = feedback.packets.iter().filter_map(|report| report.arrived_at).max() else { return };
        let excess = self.return_delays.on_delay(now, now.ahead_of(arrived_at));
        self.return_deviation = smoothed_deviation(self.return_deviation, self.return_excess, excess);
        self.return_excess = smoothed_to_nearest(self.return_excess, excess);
    }

    /// The shortest time from a departure to its report, of late.
    pub(super) fn min_report_delay(&self) -> Option<Span> {
        self.min_report_delay
    }

    /// The time by which feedback is late: the queue has grown by at least this.
    pub(super) fn overdue(&self) -> Span {
        self.overdue
    }

    /// When the next report is due, if packets take `delay` from their departure to their report. A report may be late by a frame interval,
    /// or by the time between reports where that is longer. It may also be as late as recent reports whose packets were not, because the way back
    /// has a queue of its own; that is estimated as a retransmission timeout is (RFC 6298).
    fn expected_at(&self, delay: Span, frame_interval: Span) -> Time {
        let on_return = self.return_excess + self.return_deviation * 4;
        self.reported_until + delay + on_return + frame_interval.max(self.report_interval)
    }

    /// When missing feedback will say that the queue has grown by a frame interval. A queue that is known to be longer needs no proof.
    pub(super) fn overdue_at(&self, delay: Span, frame_interval: Span) -> Option<Time> {
        if self.in_flight.bytes() == Bytes::ZERO || self.overdue > frame_interval {
            return None;
        }
        let due = self.expected_at(delay, frame_interval) + frame_interval;
        Some(due.max(self.judged_at + frame_interval))
    }

    /// Takes missing feedback for a queue.
    pub(super) fn on_overdue(&mut self, now: Time, delay: Span, frame_interval: Span) {
        self.overdue = now.saturating_since(self.expected_at(delay, frame_interval));
        self.judged_at = now;
    }

    pub(super) fn newest_sent(&self) -> PacketSeq {
        self.newest_sent
    }

    /// Packets in memory.
    pub(super) fn held(&self) -> usize {
        self.in_flight.held()
    }
}
