//! Replay detection by counters that have been seen (RFC 6479: a ring of words, shifted by whole words).

const WORDS: usize = 32;
const BITS: u64 = 64;
/// How far behind the newest a counter may be: whole words, of which the newest is only partly behind.
pub(crate) const WINDOW: u64 = (WORDS as u64 - 1) * BITS;

/// Accepts every counter once, unless it is older than the window.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// The newest accepted counter, plus one.
    next: u64,
    seen: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, seen: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// Whether `counter` is new. Changes nothing: a forged counter must not move the window.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        self.next - counter <= WINDOW && self.seen[word(counter)] & bit(counter) == 0
    }

    /// Records the counter of an authentic frame. Returns false if it was seen before.
    pub(crate) fn insert(&mut self, counter: u64) -> bool {
        if !self.is_new(counter) {
            return false;
        }
        if counter >= self.next {
            let (newest, now) = (self.next.saturating_sub(1) / BITS, counter / BITS);
            for fresh in newest + 1..=now.min(newest + WORDS as u64) {
                self.seen[(fresh % WORDS as u64) as usize] = 0;
            }
            self.next = counter.saturating_add(1);
        }
        self.seen[word(counter)] |= bit(counter);
        true
    }
}

const fn word(counter: u64) -> usize {
    (counter / BITS % WORDS as u64) as usize
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Compared with a set that forgets nothing.
        #[test]
        fn each_counter_passes_once(steps in prop::collection::vec((0_u64..6_000, any::<bool>()), 1..400)) {
            let (mut window, mut seen, mut newest) = (ReplayWindow::default(), BTreeSet::new(), 0_u64);
            for (step, far) in steps {
                let counter = if far { newest + step } else { newest.saturating_sub(step / 2) };
                let behind = (newest + 1).saturating_sub(counter);
                let expected = !seen.contains(&counter) && (behind <= WINDOW || seen.is_empty());
                prop_assert_eq!(window.is_new(counter), expected, "{} of {}", counter, newest);
                prop_assert_eq!(window.insert(counter), expected);
                if expected {
                    seen.insert(counter);
                    newest = newest.max(counter);
                }
            }
        }
    }

    #[test]
    fn the_last_counter_passes_once_too() {
        let mut window = ReplayWindow::default();
        assert!(window.insert(u64::MAX - 1));
        assert!(!window.insert(u64::MAX - 1) && !window.is_new(0));
    }
}
