//! Avoids bit rates from which playback dropped recently (`SwitchHistoryRule`, `SwitchRequestHistory`).

use std::collections::VecDeque;

/// Decisions that are remembered, and from which on the rule applies (`sampleSize`).
const SAMPLE_SIZE: usize = 8;
/// Drops per decision without a drop above which a bit rate counts as unstable (`switchPercentageThreshold`).
const MAX_DROP_RATIO: f64 = 0.075;

/// The last decisions.
#[derive(Clone, Debug, Default)]
pub struct SwitchHistory {
    /// The current bit rate, and whether a lower one was chosen.
    decisions: VecDeque<(usize, bool)>,
}

impl SwitchHistory {
    pub fn on_decision(&mut self, current: usize, chosen: usize) {
        self.decisions.push_back((current, chosen < current));
        if self.decisions.len() > SAMPLE_SIZE {
            self.decisions.pop_front();
        }
    }

    pub fn clear(&mut self) {
        self.decisions.clear();
    }

    /// Returns the highest bit rate that the rule allows. None if it has no objection.
    #[must_use]
    pub fn limit(&self, rungs: usize) -> Option<usize> {
        let (mut drops, mut others) = (0_usize, 0_usize);
        for rung in 0..rungs {
            let of_rung = || self.decisions.iter().filter(|(current, _)| *current == rung);
            let dropped = of_rung().filter(|(_, drop)| *drop).count();
            if of_rung().count() == 0 {
                continue;
            }
            drops += dropped;
            others += of_rung().count() - dropped;
            if drops + others >= SAMPLE_SIZE && drops as f64 > MAX_DROP_RATIO * others as f64 {
                return Some(if dropped > 0 { rung.saturating_sub(1) } else { rung });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(decisions: &[(usize, usize)]) -> Option<usize> {
        let mut history = SwitchHistory::default();
        for (current, chosen) in decisions {
            history.on_decision(*current, *chosen);
        }
        history.limit(5)
    }

    #[test]
    fn a_rate_that_was_left_once_in_eight_decisions_is_avoided() {
        assert_eq!(limit(&[(3, 2); 7]), None, "seven decisions are too few");
        assert_eq!(limit(&[(3, 3); 20]), None, "nothing was left");
        assert_eq!(limit(&[(3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 1)]), Some(2));
        // The drop is of the lower rate, which with those above it makes the eight.
        assert_eq!(limit(&[(1, 0), (2, 2), (2, 2), (2, 2), (2, 2), (2, 2), (2, 2), (2, 2)]), Some(2));
        // What is nine decisions old is forgotten.
        assert_eq!(limit(&[(3, 1), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3), (3, 3)]), None);
        assert_eq!(limit(&[(0, 0); 8]), None);
    }
}
