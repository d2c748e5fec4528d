//! A sorted set of numbers as ranges.

use super::Block;

/// Disjoint, not touching, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    all: Vec<Block>,
    count: u64,
}

impl Ranges {
    /// Numbers in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[Block] {
        &self.all
    }

    /// Adds a range; tells each part of it that is new.
    pub(super) fn insert(&mut self, range: Block, mut on_new: impl FnMut(Block)) {
        if range.is_empty() {
            return;
        }
        // Merges all ranges that overlap or touch.
        let from = self.all.partition_point(|other| other.end < range.start);
        // Acknowledgements repeat known ranges.
        if self.all.get(from).is_some_and(|other| other.start <= range.start && range.end <= other.end) {
            return;
        }
        let to = from + self.all[from..].partition_point(|other| other.start <= range.end);
        let mut at = range.start;
        let mut merged = range;
        for other in &self.all[from..to] {
            if at < other.start {
                self.count += other.start - at;
                on_new(Block { start: at, end: other.start });
            }
            at = at.max(other.end);
            merged.start = merged.start.min(other.start);
            merged.end = merged.end.max(other.end);
        }
        if at < range.end {
            self.count += range.end - at;
            on_new(Block { start: at, end: range.end });
        }
        if from == to {
            self.all.insert(from, merged);
        } else {
            self.all[from] = merged;
            self.all.drain(from + 1..to);
        }
    }

    /// The range that holds a number.
    pub(super) fn find(&self, number: u64) -> Option<Block> {
        let index = self.all.partition_point(|range| range.end <= number);
        self.all.get(index).copied().filter(|range| range.start <= number)
    }

    /// Forgets all numbers below.
    pub(super) fn remove_below(&mut self, number: u64) {
        let whole = self.all.iter().take_while(|range| range.end <= number).count();
        self.count -= self.all.drain(..whole).map(|range| range.end - range.start).sum::<u64>();
        if let Some(first) = self.all.first_mut()
            && first.start < number
        {
            self.count -= number - first.start;
            first.start = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(operations in prop::collection::vec((0..60_u64, 0..12_u64, any::<bool>()), 0..60)) {
            let mut ranges = Ranges::default();
            let mut plain = BTreeSet::new();
            for (start, length, insert) in operations {
                if insert {
                    let mut new = Vec::new();
                    ranges.insert(Block { start, end: start + length }, |part| new.extend(part.start..part.end));
                    let expected: Vec<u64> = (start..start + length).filter(|number| plain.insert(*number)).collect();
                    prop_assert_eq!(new, expected);
                } else {
                    ranges.remove_below(start);
                    plain.retain(|number| *number >= start);
                }
                let held: Vec<u64> = ranges.all().iter().flat_map(|range| range.start..range.end).collect();
                prop_assert!(held.iter().eq(plain.iter()));
                prop_assert_eq!(ranges.count(), plain.len() as u64);
                prop_assert!(ranges.all().windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert_eq!(ranges.find(start).is_some(), plain.contains(&start));
            }
        }
    }
}
