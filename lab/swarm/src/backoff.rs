//! Back-off of a member that the server asked to retry. Seeded, without IO.

use nearlight_link::Random;
use nearlight_units::Span;

/// Longest first wait, doubled with each further one up to `MAX_DELAY`. Guesses: what some handshakes take on a busy server, and what nobody minds in
/// a run of tens of seconds.
const FIRST_DELAY: Span = Span::from_millis(200);
const MAX_DELAY: Span = Span::from_secs(3);
/// Most attempts of a member: 12 s on average, longer than a server keeps a silent handshake (5 s).
const MAX_ATTEMPTS: u32 = 10;

/// Exponential back-off. Of each wait one half is random ("equal jitter"), so that members that were refused together do not come together again.
pub(crate) struct Backoff {
    random: Random,
    attempts: u32,
}

impl Backoff {
    pub(crate) fn new(seed: u64, member: usize) -> Self {
        Self { random: Random::of_hop(seed, member), attempts: 0 }
    }

    /// Returns the wait before the next attempt. None after the last one.
    pub(crate) fn next(&mut self) -> Option<Span> {
        if self.attempts == MAX_ATTEMPTS {
            return None;
        }
        let most = FIRST_DELAY.mul_f64(f64::from(1_u32 << self.attempts)).min(MAX_DELAY);
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
            assert_eq!(waits.len(), MAX_ATTEMPTS as usize);
            for (attempt, wait) in waits.iter().enumerate() {
                let most = FIRST_DELAY.mul_f64(f64::from(1_u32 << attempt)).min(MAX_DELAY);
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
