//! Detects that the path carries less than the lowest rate. Frames cannot be smaller then, so fewer have to leave, or the queue grows
//! without bound. If other flows fill the queue instead, sending less would only leave them more. So a path counts as overloaded when
//! packets arrive more slowly than they left, and only as long as fewer frames shorten its queue.

use std::collections::VecDeque;

use nearlight_rate::PacketReport;
use nearlight_units::{RemoteTime, Span, Time};

/// Maximum queueing delay of a path that is not overloaded. Of 30, 60, 100 and 150 ms, over two recorded LTE paths, 150 ms has the most
/// frames in time.
const MAX_QUEUE_DELAY: Span = Span::from_millis(150);
/// How long the target must have been the lowest rate. Next to a flow that fills a long queue, the controller takes half a second to detect
/// that yielding does not empty it, and would get a smaller share afterwards if it sent less meanwhile.
const MIN_TIME_AT_LOWEST: Span = Span::from_millis(500);
/// The path is overloaded when packets arrive at less than this share of the rate at which they left. Guess: more than frames vary.
const OVERLOAD_RATIO: f64 = 0.9;
/// The time over which that share is measured. Guess: a path that carries a tenth less lets its queue grow by 50 ms.
const WINDOW: Span = Span::from_millis(500);
/// Number of parts of that window.
const WINDOW_PARTS: i64 = 10;
/// After this time without reports, packets wait on an interrupted path. Guess: longer than a burst of other traffic delays a report, and
/// longer than the gap between two of the fewer frames.
const MAX_SILENCE: Span = Span::from_millis(150);
/// Fewer frames must shorten the queue within this time, or it is caused by other flows. Guess: twice the window.
const MAX_FUTILE_TIME: Span = Span::from_millis(1_000);
/// The queue becomes shorter when packets arrive at more than this share of the rate at which they left. Guess: by a tenth, as above.
const DRAIN_RATIO: f64 = 1.1;

#[derive(Debug, Default)]
pub(super) struct Overload {
    /// When packets left and arrived, one part of the window apart.
    arrivals: VecDeque<(Time, RemoteTime)>,
    newest: Option<(Time, RemoteTime)>,
    /// Since when the target has been the lowest rate.
    lowest_since: Option<Time>,
    /// Since when fewer frames leave, or when that was last found to help.
    since: Option<Time>,
}

impl Overload {
    pub(super) fn on_feedback(&mut self, reports: &[PacketReport]) {
        for report in reports {
            let Some(arrived_at) = report.arrived_at else { continue };
            let packet = (report.packet.sent_at, arrived_at);
            if self.newest.is_some_and(|newest| packet <= newest) {
                continue;
            }
            self.newest = Some(packet);
            if self.arrivals.back().is_none_or(|(_, last)| arrived_at - *last >= WINDOW / WINDOW_PARTS) {
                self.arrivals.push_back(packet);
            }
            while self.arrivals.get(1).is_some_and(|(_, second)| arrived_at - *second >= WINDOW) {
                self.arrivals.pop_front();
            }
        }
    }

    /// The ratio of the recent arrival rate to the sending rate of the same packets.
    fn arrival_ratio(&self) -> Option<f64> {
        let (oldest, newest) = self.arrivals.front().zip(self.newest.as_ref())?;
        let (left, arrived) = (newest.0 - oldest.0, newest.1 - oldest.1);
        (arrived >= WINDOW / 2).then(|| left.as_secs_f64() / arrived.as_secs_f64())
    }

    /// Updates the detection. Packets wait for `wait` beyond the shortest round trip; None if the lowest rate arrives. `is_lowest` says
    /// that the controller cannot lower the rate any further. Feedback last arrived at `last_feedback_at`.
    pub(super) fn update(&mut self, now: Time, wait: Option<Span>, is_lowest: bool, loss: f64, last_feedback_at: Time) {
        self.lowest_since = is_lowest.then(|| self.lowest_since.unwrap_or(now));
        let is_lowest = self.lowest_since.is_some_and(|since| now - since >= MIN_TIME_AT_LOWEST);
        let Some(wait) = wait.filter(|_| is_lowest) else {
            self.since = None;
            return;
        };
        let arrival_ratio = self.arrival_ratio().map(|arrival_ratio| arrival_ratio * (1.0 - loss));
        let grows = now - last_feedback_at > MAX_SILENCE
            || arrival_ratio.is_some_and(|arrival_ratio| arrival_ratio < OVERLOAD_RATIO);
        let drains = arrival_ratio.is_some_and(|arrival_ratio| arrival_ratio > DRAIN_RATIO);
        self.since = match self.since {
            None => (grows && wait > MAX_QUEUE_DELAY).then_some(now),
            // The queue was our own, or it would not have become short.
            Some(_) if wait <= MAX_QUEUE_DELAY => Some(now),
            Some(since) if now - since >= MAX_FUTILE_TIME => (grows || drains).then_some(now),
            since => since,
        };
    }

    /// Whether fewer frames are to leave.
    pub(super) const fn is_certain(&self) -> bool {
        self.since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_rate::SentPacket;
    use nearlight_units::{Bytes, PacketSeq};

    use super::*;

    const EVERY: Span = Span::from_millis(20);

    /// Packets leave every 20 ms and are reported at once, while the queue that they meet changes with each.
    struct Path {
        overload: Overload,
        now: Time,
        queue: Span,
    }

    impl Path {
        fn new(queue_ms: i64) -> Self {
            Self { overload: Overload::default(), now: Time::from_secs(1), queue: Span::from_millis(queue_ms) }
        }

        /// Sends this many packets. Returns whether fewer frames are to leave afterwards.
        fn run(&mut self, packets: u64, grows_us: i64) -> bool {
            for _ in 0..packets {
                self.queue += Span::from_micros(grows_us);
                let sent_at = self.now - self.queue;
                let packet = SentPacket {
                    seq: PacketSeq(0),
                    size: Bytes::new(1_200),
                    sent_at,
                    frame: None,
                    probe: None,
                    app_limited: false,
                };
                self.overload.on_feedback(&[PacketReport { packet, arrived_at: Some(self.now.for_peer()), ce: false }]);
                self.overload.update(self.now, Some(self.queue), true, 0.0, self.now);
                self.now += EVERY;
            }
            self.overload.is_certain()
        }
    }

    #[test]
    fn a_queue_that_grows_is_overload_and_one_that_others_keep_full_is_not() {
        let mut path = Path::new(400);
        assert!(!path.run(200, 0), "it stands");
        assert!(!path.run(200, 1_000), "it grows by 5 %, as beside CUBIC");
        assert!(path.run(40, 4_000), "packets arrive a fifth more slowly");
        assert!(!Path::new(0).run(40, 3_000), "the queue is short");
    }

    #[test]
    fn fewer_frames_leave_while_that_shortens_the_queue_and_no_longer_than_a_second_otherwise() {
        let mut path = Path::new(400);
        assert!(path.run(40, 4_000));
        assert!(path.run(150, -2_500), "it drains by an eighth");
        assert!(path.queue > MAX_QUEUE_DELAY - EVERY);
        assert!(path.run(400, -2_500), "a queue that became short was our own");
        assert!(path.run(400, 0), "and stays so");
        let mut stands = Path::new(400);
        assert!(stands.run(40, 4_000));
        assert!(!stands.run(100, 0), "after a second the queue is as long");
    }

    #[test]
    fn silence_on_a_long_queue_is_overload_once_the_rate_has_been_the_lowest_for_half_a_second() {
        let mut path = Path::new(200);
        assert!(!path.run(50, 0));
        let (heard, later) = (path.now, path.now + MAX_SILENCE + EVERY);
        path.overload.update(later, Some(Span::from_millis(400)), true, 0.0, heard);
        assert!(path.overload.is_certain());
        path.overload.update(later, Some(Span::from_millis(400)), false, 0.0, heard);
        assert!(!path.overload.is_certain(), "the controller can go lower");
        path.overload.update(later + EVERY, Some(Span::from_millis(400)), true, 0.0, heard);
        assert!(!path.overload.is_certain(), "that was a moment ago");
    }
}
