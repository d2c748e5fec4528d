//! When a member that the server asked to come again does so. Seeded, without IO.

use nearlight_link::Random;
use nearlight_units::Span;

/// The first wait at most, doubled with each further one up to `LONGEST`. Guesses: what some handshakes take on a busy server, and what nobody
/// minds in a run of tens of seconds.
const FIRST: Span = Span::from_millis(200);
const LONGEST: Span = Span::from_secs(3);
/// A member asks again at most so often: for 12 s on the average, which is longer than a server keeps a silent handshake (5 s).
const ATTEMPTS: u32 = 10;

/// Exponential back-off. Of each wait one half is random ("equal jitter"), so that members that were refused together do not come together again.
pub(crate) struct Backoff {
    random: Random,
    attempts: u32,
}

impl Backoff {
    pub(crate) fn new(seed: u64, member: usize) -> Self {
        Self { random: Random::of_hop(seed, member), attempts: 0 }
    }

    /// How long to wait before the next attempt; none after the last one.
    pub(crate) fn next(&mut self) -> Option<Span> {
        if self.attempts == ATTEMPTS {
            return None;
        }
        let most = FIRST.mul_f64(f64::from(1_u32 << self.attempts)).min(LONGEST);
        self.attempts += 1;
        Some(most.mul_f64(0.5 + 0.5 * self.random.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(seed: u64, member: usize) -> Vec<Span> {
        let mut backoff = Backoff::new(seed, member);
        std::iter::from_fn(|| backoff.next()).take(1_000).collect()
    }

    #[test]
    fn waits_grow_within_bounds_and_end() {
        for member in 0..200 {
            let waits = waits(7, member);
            assert_eq!(waits.len(), ATTEMPTS as usize);
            for (attempt, wait) in waits.iter().enumerate() {
                let most = FIRST.mul_f64(f64::from(1_u32 << attempt)).min(LONGEST);
                assert!((most / 2..=most).contains(wait), "wait {attempt} of member {member}: {wait:?}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_waits_and_members_have_different_ones() {
        assert_eq!(waits(7, 3), waits(7, 3));
        let mut firsts: Vec<Span> = (0..100).map(|member| waits(7, member)[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 95, "refused together, {} moments of coming again", firsts.len());
    }
}
