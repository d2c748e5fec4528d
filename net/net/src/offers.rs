//! Limits how often one address may make a costly request. Time is an argument.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearlight_units::{Span, Time};

use crate::address::{make_room, subscriber};

/// The number of requests that an address may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatePolicy {
    /// Number of requests at once after a rest.
    pub at_once: u32,
    /// Time after which one more request is allowed.
    pub interval: Span,
    /// Maximum number of addresses remembered. The one whose full budget returns first is evicted.
    pub addresses: usize,
}

impl Default for RatePolicy {
    /// Guess: a client makes one offer, and one for each change; a household reconnects all at once after an outage.
    fn default() -> Self {
        Self { at_once: 16, interval: Span::from_secs(1), addresses: 1_024 }
    }
}

/// Counts requests per address. An IPv6 /64 counts as one address.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    policy: RatePolicy,
    /// The time up to which each address has spent its budget.
    spent: BTreeMap<IpAddr, Time>,
}

impl RateLimiter {
    #[must_use]
    pub const fn new(policy: RatePolicy) -> Self {
        Self { policy, spent: BTreeMap::new() }
    }

    /// Counts a request from `address`. Returns how long it must wait first if there are too many.
    pub fn take(&mut self, now: Time, address: IpAddr) -> Result<(), Span> {
        let RatePolicy { at_once, interval, addresses } = self.policy;
        let subscriber = subscriber(address);
        let spent = self.spent.get(&subscriber).copied().unwrap_or(now).max(now) + interval;
        let most = now + interval * i64::from(at_once);
        if spent > most {
            return Err(spent - most);
        }
        if !self.spent.contains_key(&subscriber) {
            make_room(&mut self.spent, addresses, |spent| *spent <= now, |spent| *spent);
        }
        self.spent.insert(subscriber, spent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_burst_is_free_and_a_flood_is_not() {
        let mut limiter = RateLimiter::new(RatePolicy::default());
        let mut now = Time::from_secs(100);
        let mut take = |now| limiter.take(now, address(1));
        assert!((0..16).all(|_| take(now).is_ok()));
        assert_eq!(take(now), Err(Span::from_secs(1)));
        assert_eq!(take(now + Span::from_millis(400)), Err(Span::from_millis(600)));
        let granted = (0..1_000).filter(|_| {
            now += Span::from_millis(10);
            take(now).is_ok()
        });
        assert_eq!(granted.count(), 10, "one a second");
        assert!((0..16).all(|_| take(now + Span::from_secs(16)).is_ok()), "a rest gives all back");
        assert_eq!(limiter.take(now, address(2)), Ok(()), "others do not wait");
    }

    #[test]
    fn memory_is_bounded_and_the_rested_make_room() {
        let policy = RatePolicy { at_once: 2, addresses: 4, ..RatePolicy::default() };
        let mut limiter = RateLimiter::new(policy);
        for last in 0..100 {
            let now = Time::from_millis(u64::from(last));
            assert!(limiter.take(now, address(last)).is_ok() && limiter.take(now, address(last)).is_ok());
            assert!(limiter.spent.len() <= 4);
        }
        let now = Time::from_millis(100);
        assert!(limiter.take(now, address(99)).is_err());
        assert!(limiter.take(now, address(90)).is_ok());
    }
}
