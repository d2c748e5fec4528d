//! Estimates the other machine's clock from pings, with an error bound that holds whatever the path does.
//!
//! Each exchange shows that the offset lies in an interval half a round trip wide on either side. Intervals widen with age by the
//! drift that two quartz clocks may have. The estimate is the middle of their intersection (Marzullo's algorithm without
//! falsetickers, on which RFC 5905 section 11.2.1 builds), and its error is half the intersection's width.

use std::collections::VecDeque;

use nearlight_units::{RemoteTime, Span, Time, smoothed};
use nearlight_wire::{Ping, Pong};

use crate::Wake;

/// Number of exchanges in quick succession at the start.
const INITIAL_EXCHANGES: usize = 10;
/// Interval of the first exchanges. Guess: ten within half a second give a first estimate before the user has looked around.
const INITIAL_INTERVAL: Span = Span::from_millis(50);
/// Interval of all further exchanges. Guess: at 50 ppm a clock drifts 12.5 µs in this time, less than the path's own asymmetry.
const PING_INTERVAL: Span = Span::from_millis(250);
/// Number of samples in the intersection: 32 s of steady exchanges.
const WINDOW_SAMPLES: usize = 128;
/// Maximum drift between two clocks: quartz is within 50 ppm each (RFC 5905 section 11.2 assumes 15 ppm disciplined).
const MAX_DRIFT_PPM: i64 = 100;
/// Times beyond this (136 years) come from no real clock. They are rejected, so that sums cannot overflow.
const MAX_TIME: RemoteTime = RemoteTime::from_secs(1 << 32);

/// The server's clock against the client's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockEstimate {
    /// The server's time minus the client's.
    pub offset: Span,
    /// The offset is wrong by at most this much.
    pub error: Span,
    /// The shortest round trip in the window.
    pub round_trip: Span,
    /// Parts per million by which the server's clock is faster than the client's. 0 until 10 s are covered.
    pub drift_ppm: f64,
}

impl ClockEstimate {
    /// Converts a time on the server's clock to the client's.
    #[must_use]
    pub fn to_client(&self, server: RemoteTime) -> Time {
        server.passed_by(-self.offset)
    }
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    at: Time,
    offset: Span,
    round_trip: Span,
}

#[derive(Debug, Default)]
pub(crate) struct ClockSync {
    exchanges: VecDeque<Exchange>,
    /// The best exchange of the first seconds, which is the start of the baseline for drift.
    anchor: Option<Exchange>,
    smoothed_round_trip: Option<Span>,
    uplink_delay: Option<Span>,
    next_ping_at: Time,
    answered: usize,
}

impl ClockSync {
    pub(crate) fn poll_ping(&mut self, now: Time) -> Option<Ping> {
        if now < self.next_ping_at {
            return None;
        }
        self.next_ping_at = now + if self.answered < INITIAL_EXCHANGES { INITIAL_INTERVAL } else { PING_INTERVAL };
        Some(Ping { client_sent_at: now.for_peer() })
    }

    pub(crate) const fn poll_timeout(&self) -> (Time, Wake) {
        (self.next_ping_at, Wake::Clock)
    }

    /// Handles an answer. Impossible answers (from the future, or quicker than the server's own hold) are ignored.
    pub(crate) fn on_pong(&mut self, now: Time, pong: &Pong) {
        let Pong { server_received_at, server_sent_at, .. } = *pong;
        let client_sent_at = pong.client_sent_at.echoed();
        if client_sent_at > now || server_sent_at < server_received_at || server_sent_at > MAX_TIME {
            return;
        }
        let round_trip = (now - client_sent_at) - (server_sent_at - server_received_at);
        if round_trip < Span::ZERO {
            return;
        }
        let offset = (server_received_at.ahead_of(client_sent_at) + server_sent_at.ahead_of(now)) / 2;
        let exchange = Exchange { at: now, offset, round_trip };
        self.answered += 1;
        self.uplink_delay = Some(server_received_at.ahead_of(client_sent_at));
        self.smoothed_round_trip = Some(smoothed(self.smoothed_round_trip, round_trip));
        match &mut self.anchor {
            Some(anchor) if anchor.round_trip <= round_trip || now - anchor.at > Span::from_secs(5) => {}
            anchor => *anchor = Some(exchange),
        }
        self.exchanges.push_back(exchange);
        if self.exchanges.len() > WINDOW_SAMPLES {
            self.exchanges.pop_front();
        }
        if self.intersection(now).is_none() {
            // A clock was set or a machine slept: earlier exchanges are void.
            self.exchanges.clear();
            self.exchanges.push_back(exchange);
            self.anchor = Some(exchange);
        }
    }

    pub(crate) const fn round_trip(&self) -> Option<Span> {
        self.smoothed_round_trip
    }

    /// The transit time to the server of the newest answered ping, including the offset of its clock.
    pub(crate) const fn uplink_delay(&self) -> Option<Span> {
        self.uplink_delay
    }

    pub(crate) fn estimate(&self, now: Time) -> Option<ClockEstimate> {
        let (low, high) = self.intersection(now)?;
        let best = self.exchanges.iter().min_by_key(|exchange| exchange.round_trip)?;
        Some(ClockEstimate {
            offset: low + (high - low) / 2,
            error: (high - low) / 2,
            round_trip: best.round_trip,
            drift_ppm: self.drift_ppm(best),
        })
    }

    fn intersection(&self, now: Time) -> Option<(Span, Span)> {
        let mut bounds: Option<(Span, Span)> = None;
        for exchange in &self.exchanges {
            let age = now.saturating_since(exchange.at);
            // A microsecond for each of the four timestamps' rounding on the wire.
            let error = exchange.round_trip / 2 + age / 1_000_000 * MAX_DRIFT_PPM + Span::from_micros(2);
            let (low, high) = (exchange.offset - error, exchange.offset + error);
            bounds = Some(bounds.map_or((low, high), |(below, above)| (below.max(low), above.min(high))));
        }
        bounds.filter(|(low, high)| low <= high)
    }

    fn drift_ppm(&self, best: &Exchange) -> f64 {
        let Some(anchor) = self.anchor else { return 0.0 };
        let baseline = best.at - anchor.at;
        if baseline < Span::from_secs(10) {
            return 0.0;
        }
        (best.offset - anchor.offset).as_nanos() as f64 / baseline.as_nanos() as f64 * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose clock is `offset` ahead and runs `ppm` fast, behind a path of `up` and `down`.
    fn exchange(sync: &mut ClockSync, now: Time, offset: Span, up: Span, down: Span) {
        let server = (now + up + offset).for_peer();
        let pong = Pong { client_sent_at: now.for_peer(), server_received_at: server, server_sent_at: server };
        sync.on_pong(now + up + down, &pong);
    }

    #[test]
    fn the_true_offset_is_within_the_bound_whatever_the_asymmetry() {
        let truth = Span::from_millis(7_777);
        for (up, down) in [(1, 1), (1, 30), (30, 1), (0, 0)] {
            let mut sync = ClockSync::default();
            for step in 0..200 {
                let jitter = Span::from_micros(step * 37 % 500);
                let (up, down) = (Span::from_millis(up) + jitter, Span::from_millis(down));
                exchange(&mut sync, Time::from_millis(step as u64 * 100), truth, up, down);
            }
            let estimate = sync.estimate(Time::from_secs(21)).expect("answered");
            assert!((estimate.offset - truth).abs() <= estimate.error, "{up}/{down}: {estimate:?}");
        }
    }

    #[test]
    fn drift_is_followed_and_measured() {
        let mut sync = ClockSync::default();
        let mut truth = Span::ZERO;
        for step in 0..600u64 {
            // 60 ppm: 6 µs every 100 ms.
            truth = Span::from_micros(6 * step as i64);
            exchange(&mut sync, Time::from_millis(step * 100), truth, Span::from_millis(2), Span::from_millis(2));
        }
        let estimate = sync.estimate(Time::from_millis(60_000)).expect("answered");
        assert!(
            (estimate.offset - truth).abs() <= estimate.error + Span::from_micros(10),
            "{estimate:?} against {truth}"
        );
        assert!((50.0..70.0).contains(&estimate.drift_ppm), "{estimate:?}");
    }

    #[test]
    fn a_clock_that_was_set_starts_anew() {
        let mut sync = ClockSync::default();
        let quick = Span::from_micros(100);
        for step in 0..20 {
            exchange(&mut sync, Time::from_millis(step * 100), Span::ZERO, quick, quick);
        }
        exchange(&mut sync, Time::from_secs(3), Span::from_secs(100), quick, quick);
        let estimate = sync.estimate(Time::from_secs(3)).expect("answered");
        assert!((estimate.offset - Span::from_secs(100)).abs() <= estimate.error);
    }

    #[test]
    fn impossible_answers_are_ignored() {
        let mut sync = ClockSync::default();
        let (now, there) = (Time::from_secs(1), RemoteTime::from_secs(1));
        let future =
            Pong { client_sent_at: RemoteTime::from_secs(2), server_received_at: there, server_sent_at: there };
        sync.on_pong(now, &future);
        let backwards = Pong {
            client_sent_at: now.for_peer(),
            server_received_at: RemoteTime::from_secs(9),
            server_sent_at: there,
        };
        sync.on_pong(now, &backwards);
        let hostile = Pong {
            client_sent_at: now.for_peer(),
            server_received_at: RemoteTime::FAR_FUTURE,
            server_sent_at: RemoteTime::FAR_FUTURE,
        };
        sync.on_pong(now, &hostile);
        assert_eq!(sync.estimate(now), None);
    }
}
