//! Skips frames so that the queue of a slow decoder stays bounded.

use nearlight_units::{Span, Time};

/// A frame that takes this many intervals to decode was queued. Guess: twice the two frames that decoders hold.
const QUEUED_INTERVALS: f64 = 4.0;
/// Shorter times may be a decoder's own pipeline, whatever the interval. Guess: mobile hardware decoders hold a frame for 40 ms.
const MIN_QUEUED_TIME: Span = Span::from_millis(100);
/// Maximum stride: at least one of eight frames is encoded, whatever the reports say. Guess: still a moving picture at 30 frames a second.
const MAX_STRIDE: u32 = 8;
/// Minimum time between changes, in which the queue drains and a report arrives. Guess: a few frames and a report.
const SETTLE_TIME: Span = Span::from_millis(250);
/// Time without a queue after which more frames are tried again. Guess: longer than typical stalls of a phone's decoder.
const RETRY_INTERVAL: Span = Span::from_secs(2);

/// Decides which frames to skip before they are encoded, from the receiver's decoding times.
#[derive(Clone, Debug)]
pub(crate) struct DecoderLoad {
    high: Span,
    /// One of this many frames is encoded.
    stride: u32,
    since_coded: u32,
    newest: Span,
    changed_at: Time,
}

impl DecoderLoad {
    pub(crate) fn new(frame_interval: Span) -> Self {
        let high = frame_interval.mul_f64(QUEUED_INTERVALS).max(MIN_QUEUED_TIME);
        Self { high, stride: 1, since_coded: 0, newest: Span::ZERO, changed_at: Time::ZERO }
    }

    /// Whether the next frame is skipped to relieve the decoder.
    pub(crate) const fn is_behind(&self) -> bool {
        self.since_coded + 1 < self.stride
    }

    pub(crate) const fn on_frame(&mut self) {
        self.since_coded = 0;
    }

    pub(crate) const fn on_skipped(&mut self) {
        self.since_coded += 1;
    }

    /// Handles a report whose newest frame took `decode` from completion to its picture.
    pub(crate) fn on_report(&mut self, now: Time, decode: Span) {
        let grows = decode >= self.newest;
        self.newest = decode;
        let since = now.saturating_since(self.changed_at);
        let stride = if decode > self.high && grows && since >= SETTLE_TIME {
            (self.stride * 2).min(MAX_STRIDE)
        } else if decode < self.high / 2 && since >= RETRY_INTERVAL {
            (self.stride / 2).max(1)
        } else {
            return;
        };
        if stride != self.stride {
            (self.stride, self.changed_at) = (stride, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(33);

    /// Offers frames for ten seconds to a decoder that needs `service` for each. Returns the number of frames decoded and the longest wait
    /// of the last five seconds.
    fn run(service: Span) -> (u32, Span) {
        let mut load = DecoderLoad::new(INTERVAL);
        let (mut free_at, mut reported_at) = (Time::ZERO, Time::ZERO);
        let (mut decoded, mut longest) = (0, Span::ZERO);
        let mut queue: Vec<(Time, Time)> = Vec::new();
        for number in 0..300 {
            let now = Time::from_secs(1) + INTERVAL * number;
            if load.is_behind() {
                load.on_skipped();
            } else {
                load.on_frame();
                decoded += 1;
                free_at = free_at.max(now) + service;
                queue.push((now, free_at));
            }
            let done = queue.iter().take_while(|(_, done)| *done <= now).count();
            if let Some((sent, at)) = queue.drain(..done).next_back()
                && now - reported_at >= Span::from_millis(100)
            {
                reported_at = now;
                load.on_report(now, at - sent);
            }
            if number > 150 {
                longest = longest.max(free_at.saturating_since(now));
            }
        }
        (decoded, longest)
    }

    #[test]
    fn waits_stay_bounded_however_slow_the_decoder_is() {
        for (service, fewest) in [(40, 150), (60, 100), (120, 40), (200, 30)] {
            let (decoded, longest) = run(Span::from_millis(service));
            assert!(decoded >= fewest, "{service} ms: {decoded} of 300");
            assert!(longest < Span::from_millis(600 + service * 5), "{service} ms: {longest:?}");
        }
    }

    #[test]
    fn a_decoder_that_follows_gets_every_frame() {
        assert_eq!(run(Span::from_millis(30)).0, 300);
    }

    #[test]
    fn a_long_pipeline_is_no_queue() {
        let mut load = DecoderLoad::new(Span::from_millis(11));
        for number in 0..1_000 {
            load.on_report(Time::from_millis(1_000 + 11 * number), Span::from_millis(45));
            assert!(!load.is_behind());
            load.on_frame();
        }
    }
}
