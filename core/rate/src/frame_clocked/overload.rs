//! Overload: the delivery rate while a queue of our own builds up.
//!
//! Every packet that arrives from the first queued frame to the peak of the queue has left a busy bottleneck, so bytes over arrival time is
//! its capacity. This holds even if the path lets short bursts through at line rate (as a token bucket does), and however short the frames
//! are. A frame's dispersion shows only the burst rate there.

use nearlight_units::{Bytes, RemoteTime, Span, Time};

use super::parameters::Parameters;

/// Follows the queue met by the first packets of successive frames, and remembers the newest overload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overload {
    building: Option<Buildup>,
    /// The delivery rate in bit/s, and when it was known.
    newest: Option<(f64, Time)>,
}

/// A queue that builds up.
#[derive(Clone, Copy, Debug)]
struct Buildup {
    /// When the first packet of the first queued frame arrived, and how long it had waited.
    since: RemoteTime,
    at_first: Span,
    frames: u32,
    bytes: Bytes,
    peak: Span,
}

impl Overload {
    /// Handles the arrival of any packet.
    pub(super) fn on_arrival(&mut self, size: Bytes) {
        if let Some(building) = &mut self.building {
            building.bytes += size;
        }
    }

    /// Handles the first packet of a frame, which waited for `queue`, before its [`Overload::on_arrival`]. Returns the delivery rate in bit/s
    /// when the queue has grown by a frame interval: it then holds a whole frame. What varies less is jitter, or other flows' frames.
    pub(super) fn on_frame(
        &mut self,
        now: Time,
        arrived_at: RemoteTime,
        queue: Span,
        frame_interval: Span,
        parameters: &Parameters,
    ) -> Option<f64> {
        if queue <= parameters.queue_noise {
            self.building = None;
            return None;
        }
        let Some(building) = &mut self.building else {
            let at_first = queue;
            self.building = Some(Buildup { since: arrived_at, at_first, frames: 0, bytes: Bytes::ZERO, peak: queue });
            return None;
        };
        building.frames += 1;
        building.peak = building.peak.max(queue);
        // Over fewer frames, a single late packet would look like a queue.
        let is_long = building.frames >= parameters.min_samples && building.peak - building.at_first >= frame_interval;
        let took = arrived_at - building.since;
        if !is_long || took <= Span::ZERO {
            return None;
        }
        let delivery_rate = building.bytes.over(took).as_bps() as f64;
        self.building = None;
        self.newest = Some((delivery_rate, now));
        Some(delivery_rate)
    }

    /// The limit in bit/s that the newest overload sets: the target's share of its delivery rate at first, then more.
    pub(super) fn limit(&self, now: Time, parameters: &Parameters) -> Option<f64> {
        let (delivery_rate, at) = self.newest?;
        Some(delivery_rate * parameters.regrown_share(now.saturating_since(at), parameters.recovery_time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results for frames of 10,000 bytes every 16 ms that wait for this many milliseconds. A queue is long at 8 ms.
    fn reported(waits: &[i64]) -> Vec<Option<f64>> {
        let mut overload = Overload::default();
        let frame = |(index, wait): (u64, &i64)| {
            let wait = Span::from_millis(*wait);
            let arrived_at = RemoteTime::from_millis(index * 16) + wait;
            let rate = overload.on_frame(Time::ZERO, arrived_at, wait, Span::from_millis(8), &Parameters::default());
            overload.on_arrival(Bytes::new(10_000));
            rate
        };
        (0..).zip(waits).map(frame).collect()
    }

    #[test]
    fn a_queue_that_builds_up_tells_the_rate_behind_it() {
        // 40,000 bytes in 4 * 16 + 16 ms.
        assert_eq!(reported(&[0, 0, 4, 8, 12, 16, 20, 24]), [None, None, None, None, None, None, Some(4e6), None]);
    }

    #[test]
    fn late_packets_and_standing_queues_are_no_overload() {
        let cases: [&[i64]; 4] =
            [&[0, 0, 40, 0, 0, 0], &[0, 4, 60, 1, 5, 9, 13, 2], &[9; 20], &[5, 6, 7, 8, 9, 8, 7, 6, 5, 6, 7, 8]];
        for waits in cases {
            assert!(reported(waits).iter().all(Option::is_none), "{waits:?}");
        }
    }

    #[test]
    fn the_limit_doubles_within_the_recovery_time() {
        let parameters = Parameters::default();
        let overload = Overload { building: None, newest: Some((10e6, Time::from_secs(1))) };
        let limit = |after: Span| overload.limit(Time::from_secs(1) + after, &parameters).expect("an overload");
        let at_first = 10e6 * parameters.target_share;
        assert!((limit(Span::ZERO) - at_first).abs() < 1.0);
        assert!(limit(parameters.recovery_time / 2) < at_first * 1.1);
        assert!((limit(parameters.recovery_time) - at_first * 2.0).abs() < 1.0);
        assert_eq!(Overload::default().limit(Time::ZERO, &parameters), None);
    }
}
