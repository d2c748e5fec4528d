//! Whether the path carries less than the lowest rate. Frames cannot be smaller then, so that fewer have to leave, or the queue grows without
//! bound. Where others fill the queue instead, sending less would only leave them more: a path is taken for overloaded when packets arrive more
//! slowly than they left, and only for as long as fewer frames make its queue shorter.

use std::collections::VecDeque;

use nearlight_rate::PacketReport;
use nearlight_units::{RemoteTime, Span, Time};

/// Beyond the shortest round trip. Of 30, 60, 100 and 150 ms, over two recorded LTE paths, 150 ms has the most frames in time.
const PATIENCE: Span = Span::from_millis(150);
/// For so long the target has been the lowest rate: beside a flow that fills a long queue the controller takes half a second to find out that
/// yielding does not empty it, and would get a smaller share afterwards if it sent less meanwhile.
const LOWEST_FOR: Span = Span::from_millis(500);
/// The path carries less than is sent where packets arrive at less than this share of the rate at which they left. Guess: more than frames vary.
const CARRIED: f64 = 0.9;
/// That share is of the packets that arrived in this time. Guess: a path that carries a tenth less lets its queue grow by 50 ms.
const WINDOW: Span = Span::from_millis(500);
/// Of how many spans between two arrivals the window consists.
const SPANS: i64 = 10;
/// Nothing has been reported for this long: packets wait on an interrupted path. Guess: more than a burst of others delays one, and than lies
/// between two of the fewer frames.
const SILENCE: Span = Span::from_millis(150);
/// After this, fewer frames must be making the queue shorter, or it is another's. Guess: twice the window.
const FUTILE_AFTER: Span = Span::from_millis(1_000);
/// It becomes shorter where packets arrive at more than this share of the rate at which they left. Guess: by a tenth, as above.
const DRAINS: f64 = 1.1;

#[derive(Debug, Default)]
pub(super) struct Overload {
    /// When packets left and arrived, a span apart.
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
            if self.arrivals.back().is_none_or(|(_, last)| arrived_at - *last >= WINDOW / SPANS) {
                self.arrivals.push_back(packet);
            }
            while self.arrivals.get(1).is_some_and(|(_, second)| arrived_at - *second >= WINDOW) {
                self.arrivals.pop_front();
            }
        }
    }

    /// The rate at which packets lately arrived, over that at which they left.
    fn carried(&self) -> Option<f64> {
        let (oldest, newest) = self.arrivals.front().zip(self.newest.as_ref())?;
        let (left, arrived) = (newest.0 - oldest.0, newest.1 - oldest.1);
        (arrived >= WINDOW / 2).then(|| left.as_secs_f64() / arrived.as_secs_f64())
    }

    /// Packets `wait` for so long beyond the shortest round trip; none where the lowest rate arrives. `is_lowest`: the controller cannot lower
    /// the rate any further. Feedback last arrived at `heard_at`.
    pub(super) fn update(&mut self, now: Time, wait: Option<Span>, is_lowest: bool, loss: f64, heard_at: Time) {
        self.lowest_since = is_lowest.then(|| self.lowest_since.unwrap_or(now));
        let is_lowest = self.lowest_since.is_some_and(|since| now - since >= LOWEST_FOR);
        let Some(wait) = wait.filter(|_| is_lowest) else {
            self.since = None;
            return;
        };
        let carried = self.carried().map(|carried| carried * (1.0 - loss));
        let grows = now - heard_at > SILENCE || carried.is_some_and(|carried| carried < CARRIED);
        let drains = carried.is_some_and(|carried| carried > DRAINS);
        self.since = match self.since {
            None => (grows && wait > PATIENCE).then_some(now),
            // It was our own, or it would not have become short.
            Some(_) if wait <= PATIENCE => Some(now),
            Some(since) if now - since >= FUTILE_AFTER => (grows || drains).then_some(now),
            since => since,
        };
    }

    /// Fewer frames are to leave.
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

    /// Packets leave every 20 ms and are reported at once, while the queue that they meet grows by so much with each.
    struct Path {
        overload: Overload,
        now: Time,
        queue: Span,
    }

    impl Path {
        fn new(queue_ms: i64) -> Self {
            Self { overload: Overload::default(), now: Time::from_secs(1), queue: Span::from_millis(queue_ms) }
        }

        /// For so many packets; whether fewer frames are to leave afterwards.
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
        assert!(path.queue > PATIENCE - EVERY);
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
        let (heard, later) = (path.now, path.now + SILENCE + EVERY);
        path.overload.update(later, Some(Span::from_millis(400)), true, 0.0, heard);
        assert!(path.overload.is_certain());
        path.overload.update(later, Some(Span::from_millis(400)), false, 0.0, heard);
        assert!(!path.overload.is_certain(), "the controller can go lower");
        path.overload.update(later + EVERY, Some(Span::from_millis(400)), true, 0.0, heard);
        assert!(!path.overload.is_certain(), "that was a moment ago");
    }
}
