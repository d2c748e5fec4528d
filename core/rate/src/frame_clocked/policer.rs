//! Policers: what exceeds a rate is dropped, and nothing queues.
//!
//! Losses without a queue are random, or those of a policer. Random losses do not depend on the rate; a policer's begin where the rate exceeds
//! its own. So many losses without a queue set a limit: the rate that was delivered meanwhile. A policer's bucket may have let more through for
//! a moment, so losses below the limit lower it. If they do not end, they are random, and the limit is dropped.

use nearlight_units::{Bytes, Span, Time};

use super::parameters::Parameters;

/// How often in a row losses below the limit lower it before they count as random. Guess: the first limit is too high by the bucket, the second
/// by what is left of it.
const MAX_CORRECTIONS: u32 = 2;

/// Follows the losses of frames, and the limit that a policer sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    window: Window,
    limit: Option<PolicedRate>,
    /// The share of bytes that is lost whatever the rate.
    random_loss: f64,
}

/// What was sent in successive frames.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since: Option<Time>,
    frames: u32,
    delivered: Bytes,
    lost: Bytes,
}

/// The rate that a policer lets through.
#[derive(Clone, Copy, Debug)]
struct PolicedRate {
    /// In bit/s.
    delivered: f64,
    known_at: Time,
    /// The time in which the limit doubles.
    doubling: Span,
    corrections: u32,
}

impl Policer {
    /// Handles the report of a packet. Packets that left before the newest limit was known say nothing about it.
    pub(super) fn on_report(&mut self, sent_at: Time, size: Bytes, is_lost: bool) {
        if self.limit.is_some_and(|limit| sent_at < limit.known_at) {
            return;
        }
        self.window.since.get_or_insert(sent_at);
        let bytes = if is_lost { &mut self.window.lost } else { &mut self.window.delivered };
        *bytes += size;
    }

    /// Handles the first packet of a frame, which left at `sent_at`. Losses beside a queue are its overflow.
    pub(super) fn on_frame(&mut self, now: Time, sent_at: Time, met_queue: bool, parameters: &Parameters) {
        self.limit.take_if(|limit| now.saturating_since(limit.known_at) >= limit.doubling * 2);
        if met_queue {
            self.window = Window::default();
            return;
        }
        let Some(since) = self.window.since else { return };
        self.window.frames += 1;
        let took = sent_at.saturating_since(since);
        if self.window.frames > parameters.evidence_frames && took > Span::ZERO {
            let window = std::mem::take(&mut self.window);
            self.judge(now, window, took, parameters);
        }
    }

    fn judge(&mut self, now: Time, window: Window, took: Span, parameters: &Parameters) {
        let sent = window.delivered + window.lost;
        let loss = window.lost.get() as f64 / sent.get().max(1) as f64;
        let rate = |bytes: Bytes| bytes.over(took).as_bps() as f64;
        let tolerated = if self.limit.is_some() { parameters.low_loss } else { parameters.many_lost() };
        // Twice the random losses, because they vary from window to window.
        let is_lossy = loss > self.random_loss * 2.0 + tolerated;
        let below = self.limit.filter(|limit| rate(sent) < limit.delivered);
        let found = |doubling, corrections| {
            Some(PolicedRate { delivered: rate(window.delivered), known_at: now, doubling, corrections })
        };
        self.limit = match (below, is_lossy) {
            (Some(limit), true) if limit.corrections < MAX_CORRECTIONS => found(limit.doubling, limit.corrections + 1),
            (Some(_), true) => {
                self.random_loss = loss;
                None
            }
            (Some(limit), false) => {
                self.random_loss = loss;
                Some(PolicedRate { corrections: 0, ..limit })
            }
            // The policer again: the limit grows more slowly from now on.
            (None, true) => {
                let doubling = self.limit.map_or(parameters.recovery_time, |limit| limit.doubling * 2);
                found(doubling.min(parameters.memory / 2), 0)
            }
            (None, false) => self.limit,
        };
    }

    /// The limit in bit/s. It grows as that of an overload, and more slowly each time that the policer is met again. It ends when it has grown
    /// for twice the time in which it doubles.
    pub(super) fn limit(&self, now: Time, parameters: &Parameters) -> Option<f64> {
        let limit = self.limit?;
        Some(limit.delivered * parameters.regrown_share(now.saturating_since(limit.known_at), limit.doubling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit in Mb/s after each second of frames at 60 a second that are sent at the limit, at most 100 Mb/s, and of which `lose` gives the
    /// lost share at a rate in Mb/s.
    fn limits(seconds: u64, lose: impl Fn(f64) -> f64) -> Vec<Option<u64>> {
        let parameters = Parameters::default();
        let mut policer = Policer::default();
        let mut limits = Vec::new();
        for frame in 0..seconds * 60 {
            let now = Time::from_secs(1) + Span::from_micros(frame as i64 * 16_667);
            let mbps = policer.limit(now, &parameters).map_or(100.0, |limit| (limit / 1e6).min(100.0));
            policer.on_frame(now, now, false, &parameters);
            let size = mbps * 1e6 / 8.0 / 60.0;
            let lost = size * lose(mbps);
            policer.on_report(now, Bytes::new((size - lost) as u64), false);
            policer.on_report(now, Bytes::new(lost as u64), true);
            if frame % 60 == 59 {
                limits.push(policer.limit(now, &parameters).map(|limit| (limit / 1e6) as u64));
            }
        }
        limits
    }

    #[test]
    fn a_policer_s_rate_is_found_and_tried_more_and_more_rarely() {
        let limits = limits(60, |mbps| (1.0 - 20.0 / mbps).max(0.0));
        assert!(limits.iter().all(|limit| limit.is_some_and(|limit| (17..=21).contains(&limit))), "{limits:?}");
        let tried = |limits: &[Option<u64>]| limits.iter().filter(|limit| **limit == Some(20)).count();
        assert!(tried(&limits[..30]) > tried(&limits[30..]) && tried(&limits[30..]) > 0, "{limits:?}");
    }

    #[test]
    fn random_losses_are_told_from_a_policer_s() {
        let few = limits(20, |_| 0.15);
        assert!(few.iter().all(Option::is_none), "{few:?}");
        let many = limits(20, |_| 0.25);
        assert!(many[2..].iter().all(Option::is_none), "{many:?}");
    }

    #[test]
    fn the_limit_ends_where_the_policer_is_gone() {
        let begun = std::cell::Cell::new(0);
        let limits = limits(10, |mbps| {
            begun.set(begun.get() + 1);
            if begun.get() < 60 { (1.0 - 20.0 / mbps).max(0.0) } else { 0.0 }
        });
        assert!(limits[0].is_some() && limits[9].is_none(), "{limits:?}");
    }
}
