//! The maximum over the last rounds.

/// The maximum over the last `N` rounds. Old values leave only when a new one arrives: rounds without any value discard nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxFilter<T, const N: usize> {
    best: [T; N],
    round: u64,
    maximum: T,
}

impl<T: Copy + Default + Ord, const N: usize> MaxFilter<T, N> {
    pub(super) fn new() -> Self {
        Self { best: [T::default(); N], round: 0, maximum: T::default() }
    }

    /// Adds a value. `round` must not decrease.
    pub(super) fn on_value(&mut self, round: u64, value: T) {
        let slots = N as u64;
        if round > self.round {
            for passed in (self.round + 1..=round).rev().take(N) {
                self.best[(passed % slots) as usize] = T::default();
            }
            self.round = round;
            self.maximum = self.best.iter().copied().max().unwrap_or_default();
        }
        let slot = &mut self.best[(self.round % slots) as usize];
        *slot = (*slot).max(value);
        self.maximum = self.maximum.max(value);
    }

    pub(super) fn maximum(&self) -> T {
        self.maximum
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    #[test]
    fn the_maximum_leaves_after_its_rounds_and_only_for_another() {
        let mbps = Bitrate::from_mbps;
        let mut filter = MaxFilter::<Bitrate, 10>::new();
        filter.on_value(1, mbps(50));
        for (round, value, maximum) in [(2, 20, 50), (10, 30, 50), (11, 10, 30), (19, 5, 30), (20, 6, 10), (60, 1, 1)] {
            filter.on_value(round, mbps(value));
            assert_eq!(filter.maximum(), mbps(maximum), "round {round}");
        }
        filter.on_value(60, mbps(2));
        assert_eq!(filter.maximum(), mbps(2));
    }
}
