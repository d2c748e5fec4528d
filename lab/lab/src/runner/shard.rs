//! A part of a plan's runs, for a machine of several.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One of several parts of a plan's runs. Parts differ by at most one run, and each covers the whole plan: run `p` belongs to shard `p mod count +
/// 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1 to `count`.
    index: u32,
    count: u32,
}

/// A text that is not a shard.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a shard: write I/N with I from 1 to N, such as 2/8, N at most {MAX_SHARDS}")]
pub struct ShardError(String);

/// Largest number of shards. Guess: more than the processors of any cluster.
const MAX_SHARDS: u32 = 1_000_000;

impl Shard {
    /// Returns shard `index` of `count`. None unless `index` is from 1 to `count`.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        ((1..=MAX_SHARDS).contains(&count) && (1..=count).contains(&index)).then_some(Self { index, count })
    }

    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    pub(super) fn of<T: Copy>(self, all: &[T]) -> Vec<T> {
        all.iter().skip(self.index as usize - 1).step_by(self.count as usize).copied().collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parts = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        parts.and_then(|(index, count)| Self::new(index, count)).ok_or_else(|| ShardError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_in_one_shard() {
        for (runs, count) in [(1, 1), (7, 3), (12, 4), (3, 5), (100, 7)] {
            let all: Vec<u32> = (0..runs).collect();
            let parts: Vec<Vec<u32>> =
                (1..=count).map(|index| Shard::new(index, count).expect("a shard").of(&all)).collect();
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
            let mut together: Vec<u32> = parts.into_iter().flatten().collect();
            together.sort_unstable();
            assert_eq!(together, all);
        }
    }

    #[test]
    fn a_shard_is_a_number_of_a_number() {
        assert_eq!("2/8".parse::<Shard>().map(|shard| shard.to_string()), Ok("2/8".to_owned()));
        for wrong in ["", "2", "0/4", "5/4", "1/0", "-1/2", "1/2/3", "a/b", "1/1000001"] {
            let error = wrong.parse::<Shard>().expect_err(wrong).to_string();
            assert!(error.contains("such as 2/8"), "{error}");
        }
    }
}
