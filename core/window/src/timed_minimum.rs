//! A minimum over a window of time.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

/// Values that are closer together than this part of the window count as one, which bounds the memory.
const RESOLUTION: i64 = 16;

/// The lowest value within a window of time that may change from value to value. Stores at most a few more than `RESOLUTION` values. A
/// maximum is the lowest of the negated values.
#[derive(Clone, Debug, Default)]
pub(super) struct TimedMinimum {
    /// The values, rising, the oldest first.
    values: VecDeque<(Time, Span)>,
}

impl TimedMinimum {
    /// Adds a value. Returns the lowest one, including it.
    pub(super) fn on_value(&mut self, now: Time, value: Span, window: Span) -> Span {
        while self.values.pop_front_if(|(at, _)| now.saturating_since(*at) > window).is_some() {}
        while self.values.pop_back_if(|(_, other)| *other >= value).is_some() {}
        let apart = self.values.back().is_none_or(|(at, _)| now.saturating_since(*at) >= window / RESOLUTION);
        if apart && self.values.len() < 2 * RESOLUTION as usize {
            self.values.push_back((now, value));
        }
        self.values.front().map_or(value, |(_, lowest)| *lowest)
    }

    pub(super) fn value(&self) -> Option<Span> {
        self.values.front().map(|(_, lowest)| *lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_leaves_with_its_window_and_memory_is_bounded() {
        let mut lowest = TimedMinimum::default();
        let window = Span::from_millis(160);
        for (at, value, expected) in [(0, 30, 30), (50, 40, 30), (100, 35, 30), (161, 50, 35), (300, 60, 50)] {
            let found = lowest.on_value(Time::from_millis(at), Span::from_millis(value), window);
            assert_eq!(found, Span::from_millis(expected), "at {at} ms");
        }
        for micros in 0..100_000 {
            lowest.on_value(Time::from_micros(400_000 + micros), Span::from_micros(micros as i64), window);
            assert!(lowest.values.len() <= 2 * RESOLUTION as usize);
        }
    }
}
