//! The rate at which packets arrive, over a window of fixed length.

use nearlight_units::{Bitrate, Bytes, RemoteTime, Span};

/// Number of parts in which the window is kept: its edge is exact to 2 %, and memory does not grow with the rate.
const WINDOW_PARTS: usize = 50;
/// An arrival this much before its predecessor is a change of the receiver's clock rather than reordering. Guess, as for the
/// acknowledged rate.
const MIN_CLOCK_JUMP: Span = Span::from_secs(1);

/// Counts bytes of the last window.
#[derive(Clone, Debug)]
pub struct ArrivingRate {
    window: Span,
    parts: [Bytes; WINDOW_PARTS],
    sum: Bytes,
    first: Option<RemoteTime>,
    newest: RemoteTime,
}

impl ArrivingRate {
    #[must_use]
    pub fn new(window: Span) -> Self {
        Self { window, parts: [Bytes::ZERO; WINDOW_PARTS], sum: Bytes::ZERO, first: None, newest: RemoteTime::ZERO }
    }

    /// Records a packet's arrival, by the receiver's clock.
    pub fn on_packet(&mut self, at: RemoteTime, size: Bytes) {
        if self.first.is_some() && self.newest - at > MIN_CLOCK_JUMP {
            *self = Self::new(self.window);
        }
        if self.first.is_none() {
            self.first = Some(at);
            self.newest = at;
        }
        if at > self.newest {
            self.advance(at);
        }
        let part = self.part(self.newest);
        self.parts[(part % WINDOW_PARTS as u64) as usize] += size;
        self.sum += size;
    }

    /// The rate. None until a tenth of the window has passed.
    #[must_use]
    pub fn rate(&self) -> Option<Bitrate> {
        let covered = (self.newest - self.first?).min(self.covered());
        (covered >= self.window / 10).then(|| self.sum.over(covered))
    }

    /// The time from the beginning of the oldest part to the newest packet.
    fn covered(&self) -> Span {
        let length = self.length();
        let into = Span::from_nanos((self.newest.as_nanos() % length.as_nanos() as u64) as i64);
        length * (WINDOW_PARTS as i64 - 1) + into
    }

    fn length(&self) -> Span {
        self.window / WINDOW_PARTS as i64
    }

    fn part(&self, at: RemoteTime) -> u64 {
        at.as_nanos() / self.length().as_nanos() as u64
    }

    fn advance(&mut self, at: RemoteTime) {
        let (from, to) = (self.part(self.newest), self.part(at));
        self.newest = at;
        if to - from >= WINDOW_PARTS as u64 {
            // Silence does not mean a low rate: the sender may have had nothing to send.
            *self = Self { first: Some(at), newest: at, ..Self::new(self.window) };
            return;
        }
        for part in from + 1..=to {
            let slot = &mut self.parts[(part % WINDOW_PARTS as u64) as usize];
            self.sum = self.sum.saturating_sub(std::mem::take(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(rate: &mut ArrivingRate, from: RemoteTime, length: Span, mbps: u64) {
        let gap = Bitrate::from_mbps(mbps).time_to_send(Bytes::new(1_250));
        let mut at = from;
        while at < from + length {
            rate.on_packet(at, Bytes::new(1_250));
            at += gap;
        }
    }

    #[test]
    fn a_steady_rate_is_found_and_a_change_takes_one_window() {
        let mut rate = ArrivingRate::new(Span::from_millis(500));
        feed(&mut rate, RemoteTime::ZERO, Span::from_millis(40), 10);
        assert_eq!(rate.rate(), None);
        feed(&mut rate, RemoteTime::from_millis(40), Span::from_millis(960), 10);
        let near = |rate: &ArrivingRate, mbps: f64| {
            let found = rate.rate().expect("known").as_mbps_f64();
            assert!((found / mbps - 1.0).abs() < 0.02, "{found} {mbps}");
        };
        near(&rate, 10.0);
        feed(&mut rate, RemoteTime::from_secs(1), Span::from_millis(250), 30);
        near(&rate, 20.0);
        feed(&mut rate, RemoteTime::from_millis(1_250), Span::from_millis(250), 30);
        near(&rate, 30.0);
    }

    #[test]
    fn silence_and_jumps_of_the_clock_are_no_rates() {
        let mut rate = ArrivingRate::new(Span::from_millis(500));
        for from in [100, 160, 3] {
            feed(&mut rate, RemoteTime::from_secs(from), Span::from_millis(300), 10);
            let found = rate.rate().expect("known").as_mbps_f64();
            assert!((found / 10.0 - 1.0).abs() < 0.02, "{found}");
        }
    }
}
