//! What a path carries while a queue builds up: every packet that arrives from the first queued frame to the peak of the queue has left
//! a bottleneck that was busy all the time, so bytes over arrival time is its capacity, whatever short bursts it lets through at line
//! rate (a token bucket does) and however short the frames are.

use nearlight_units::{Bytes, RemoteTime, Span};

/// Frames from the first queued one to the peak: over fewer, a single late packet would pass for a queue. Guess.
const LEAST_FRAMES: u32 = 4;

/// The queue met by the first packets of successive frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    building: Option<Building>,
}

#[derive(Clone, Copy, Debug)]
struct Building {
    /// When the first packet of the first queued frame arrived, and how long it had waited.
    since: RemoteTime,
    at_first: Span,
    frames: u32,
    bytes: Bytes,
    peak: Span,
}

impl Backlog {
    /// Any packet arrived.
    pub fn on_arrival(&mut self, size: Bytes) {
        if let Some(building) = &mut self.building {
            building.bytes += size;
        }
    }

    /// The first packet of a frame arrived after waiting for `queue` in queues; one of less than `least` is none. Call it before the
    /// packet counts as arrived. Answers the path's rate in bit/s when the queue has grown by `grown` and has stopped to grow.
    pub fn on_frame(&mut self, arrived_at: RemoteTime, queue: Span, least: Span, grown: Span) -> Option<f64> {
        if queue <= least {
            self.building = None;
            return None;
        }
        let Some(building) = &mut self.building else {
            self.building =
                Some(Building { since: arrived_at, at_first: queue, frames: 0, bytes: Bytes::ZERO, peak: queue });
            return None;
        };
        building.frames += 1;
        building.peak = building.peak.max(queue);
        let long = building.frames >= LEAST_FRAMES && building.peak - building.at_first >= grown;
        let took = arrived_at - building.since;
        let rate = (long && took > Span::ZERO).then(|| building.bytes.over(took).as_bps() as f64);
        if rate.is_some() {
            self.building = None;
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Span = Span::from_millis(3);
    const GROWN: Span = Span::from_millis(8);

    /// Feedback for frames of 10,000 bytes every 16 ms that wait for this many milliseconds.
    fn reported(waits: &[i64]) -> Vec<Option<f64>> {
        let mut backlog = Backlog::default();
        let frame = |(index, wait): (u64, &i64)| {
            let wait = Span::from_millis(*wait);
            let rate = backlog.on_frame(RemoteTime::from_millis(index * 16) + wait, wait, LEAST, GROWN);
            backlog.on_arrival(Bytes::new(10_000));
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
}
