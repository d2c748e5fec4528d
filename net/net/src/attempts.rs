//! Rejects clients that keep offering wrong tokens. Only failures count: a client with the right token never has to wait. Time is an
//! argument.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearlight_units::{Span, Time};

use crate::address::{make_room, subscriber};

/// The number of failures that are tolerated, and the time for which further ones are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptPolicy {
    /// Number of failures before attempts are rejected.
    pub free_failures: u32,
    /// How long attempts are rejected after the first failure beyond those. Each further failure that is counted doubles it.
    pub first_wait: Span,
    pub longest_wait: Span,
    /// Time after which failures are forgotten if there is no other.
    pub memory: Span,
    /// Maximum number of addresses remembered. The one that failed longest ago is evicted.
    pub addresses: usize,
}

impl Default for AttemptPolicy {
    /// Guess: five typing mistakes are free; then at most one attempt a minute is checked.
    fn default() -> Self {
        Self {
            free_failures: 5,
            first_wait: Span::from_secs(1),
            longest_wait: Span::from_secs(60),
            memory: Span::from_secs(600),
            addresses: 1_024,
        }
    }
}

/// Counts failed attempts per address. An IPv6 /64 counts as one address.
#[derive(Clone, Debug)]
pub struct AttemptLimiter {
    policy: AttemptPolicy,
    failures: BTreeMap<IpAddr, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    latest: Time,
}

impl AttemptLimiter {
    #[must_use]
    pub fn new(policy: AttemptPolicy) -> Self {
        Self { policy, failures: BTreeMap::new() }
    }

    /// Records a wrong token from `address`. Returns how long it has to wait if it has failed too often. Failures while it should be
    /// waiting are not counted, so that the wait does not grow without bound.
    pub fn on_failure(&mut self, now: Time, address: IpAddr) -> Option<Span> {
        let wait = self.wait(now, address);
        if wait.is_none() {
            self.count(now, address);
        }
        wait
    }

    fn wait(&self, now: Time, address: IpAddr) -> Option<Span> {
        let failures = self.failures.get(&subscriber(address))?;
        let since = now.saturating_since(failures.latest);
        if since >= self.policy.memory {
            return None;
        }
        let wait = self.wait_after(failures.count) - since;
        (wait > Span::ZERO).then_some(wait)
    }

    fn count(&mut self, now: Time, address: IpAddr) {
        let subscriber = subscriber(address);
        if !self.failures.contains_key(&subscriber) {
            let AttemptPolicy { memory, addresses, .. } = self.policy;
            let is_over = |failures: &Failures| now.saturating_since(failures.latest) >= memory;
            make_room(&mut self.failures, addresses, is_over, |failures| failures.latest);
        }
        let failures = self.failures.entry(subscriber).or_insert(Failures { count: 0, latest: now });
        if now.saturating_since(failures.latest) >= self.policy.memory {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.latest = now;
    }

    fn wait_after(&self, count: u32) -> Span {
        let Some(doublings) = count.checked_sub(self.policy.free_failures + 1) else { return Span::ZERO };
        let factor = 1_i64.checked_shl(doublings).filter(|factor| *factor > 0).unwrap_or(i64::MAX);
        (self.policy.first_wait * factor).min(self.policy.longest_wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn mistakes_are_free_and_guessing_is_turned_away() {
        let mut limiter = AttemptLimiter::new(AttemptPolicy::default());
        let mut now = Time::from_secs(1);
        let mut waits = Vec::new();
        for _ in 0..13 {
            assert_eq!(limiter.on_failure(now, HOME), None, "the wait is over");
            let wait = limiter.wait(now, HOME).unwrap_or(Span::ZERO);
            waits.push(wait.as_nanos() / 1_000_000_000);
            // Attempts before the wait is over do not prolong it.
            for _ in 0..if wait > Span::ZERO { 100 } else { 0 } {
                assert_eq!(limiter.on_failure(now, HOME), Some(wait));
            }
            now += wait;
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(limiter.on_failure(now, IpAddr::from([192, 0, 2, 2])), None, "others do not wait");
    }

    #[test]
    fn failures_are_forgotten_in_time() {
        let mut limiter = AttemptLimiter::new(AttemptPolicy::default());
        let mut now = Time::from_secs(1);
        while limiter.wait(now, HOME) != Some(Span::from_secs(60)) {
            now += limiter.wait(now, HOME).unwrap_or(Span::ZERO);
            limiter.on_failure(now, HOME);
        }
        let later = now + Span::from_secs(600);
        assert_eq!(limiter.on_failure(later, HOME), None);
        assert_eq!(limiter.wait(later, HOME), None, "the count starts anew");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_and_memory_is_bounded() {
        let policy = AttemptPolicy { addresses: 4, free_failures: 0, ..AttemptPolicy::default() };
        let mut limiter = AttemptLimiter::new(policy);
        let [one, neighbour, other] =
            ["2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:3::1"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(limiter.on_failure(Time::ZERO, one), None);
        assert!(limiter.on_failure(Time::ZERO, neighbour).is_some());
        assert_eq!(limiter.on_failure(Time::ZERO, other), None);
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        for n in 0..100 {
            limiter.on_failure(Time::from_millis(u64::from(n)), address(n));
            assert!(limiter.failures.len() <= 4);
        }
        let now = Time::from_millis(100);
        assert!(limiter.wait(now, address(99)).is_some());
        assert!(limiter.wait(now, address(95)).is_none(), "the one that failed longest ago made room");
    }
}
