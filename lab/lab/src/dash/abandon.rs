//! Abandons a download that would arrive too late, for a lower bit rate (`AbandonRequestsRule`).

use nearlight_units::{Bytes, Span, Time};

use crate::dash::Content;

/// Interval of progress events (`XMLHttpRequest`).
const PROGRESS_INTERVAL: Span = Span::from_millis(50);
/// Progress events needed (`minThroughputSamplesThreshold`), and the least time since the first byte.
const MIN_PROGRESS_EVENTS: usize = 6;
const MIN_ELAPSED: Span = Span::from_millis(500);
/// A download may take this many times the segment's playing time (`abandonDurationMultiplier`).
const ABANDON_DURATION_FACTOR: f64 = 1.8;
/// A buffer above this is not in danger (`bufferTimeDefault`).
const STABLE_BUFFER: Span = Span::from_secs(18);

/// Decides whether to abandon a download.
#[derive(Clone, Copy, Debug)]
pub struct AbandonRule {
    first: Option<(Time, Bytes)>,
    last: Time,
    events: usize,
    loaded: Bytes,
    /// Bytes received since the last event.
    pending: Bytes,
}

impl AbandonRule {
    #[must_use]
    pub fn new() -> Self {
        Self { first: None, last: Time::ZERO, events: 0, loaded: Bytes::ZERO, pending: Bytes::ZERO }
    }

    /// More bytes arrived. Returns the bit rate to switch to if the download is to be abandoned.
    pub fn on_bytes(
        &mut self,
        now: Time,
        bytes: Bytes,
        (size, rung): (Bytes, usize),
        content: &Content,
        buffer: Span,
    ) -> Option<usize> {
        self.pending += bytes;
        if self.events > 0 && now.saturating_since(self.last) < PROGRESS_INTERVAL {
            return None;
        }
        self.loaded += std::mem::take(&mut self.pending);
        let first = *self.first.get_or_insert((now, self.loaded));
        (self.last, self.events) = (now, self.events + 1);
        let elapsed = now.saturating_since(first.0);
        if self.events < MIN_PROGRESS_EVENTS
            || elapsed <= MIN_ELAPSED
            || self.loaded >= size
            || buffer > STABLE_BUFFER
            || rung == 0
        {
            return None;
        }
        // The first event has the latency in it.
        let kbps = libm::round(self.loaded.saturating_sub(first.1).bits() as f64 / elapsed.as_millis_f64());
        let estimated = size.bits() as f64 / kbps.max(1.0) / 1e3;
        if estimated < ABANDON_DURATION_FACTOR * content.segment().as_secs_f64() {
            return None;
        }
        let other = content.rung_for(kbps);
        let ladder = content.ladder();
        let instead = size.get() as f64 * ladder[other].as_bps() as f64 / ladder[rung].as_bps() as f64;
        let left = size.saturating_sub(self.loaded).get() as f64;
        (left > instead).then_some(other)
    }
}

impl Default for AbandonRule {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    /// Downloads a segment of 4 s at 4 Mb/s at this rate with this buffer. Returns when, and for which bit rate, it is abandoned.
    fn given_up(kbps: u64, buffer: Span, rung: usize) -> Option<(i64, usize)> {
        let ladder = [500, 1_000, 2_000, 4_000].map(Bitrate::from_kbps).to_vec();
        let content = Content::new(ladder, Span::from_secs(4), Span::from_secs(40)).expect("a ladder");
        let size = Bytes::new(2_000_000);
        let mut abandon = AbandonRule::new();
        (0..4_000).find_map(|millis| {
            let now = Time::from_secs(9) + Span::from_millis(millis);
            let found = abandon.on_bytes(now, Bytes::new(kbps / 8), (size, rung), &content, buffer);
            found.map(|other| (millis, other))
        })
    }

    #[test]
    fn a_download_of_1_8_segments_is_given_up_after_half_a_second_for_what_the_path_carries() {
        let low = Span::from_secs(6);
        // 4 s at 4 Mb/s take 7.2 s at 2.2 Mb/s.
        assert_eq!(given_up(2_400, low, 3), None);
        assert_eq!(given_up(2_080, low, 3), Some((550, 2)));
        assert_eq!(given_up(800, low, 3), Some((550, 0)));
        assert_eq!(given_up(800, Span::from_secs(19), 3), None, "the buffer is large");
        assert_eq!(given_up(80, low, 0), None, "there is nothing lower");
    }
}
