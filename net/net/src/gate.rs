//! Limits how many unfinished or open resources strangers hold, in total and per address. Time is an argument.
//!
//! Idle holders never exclude a newcomer: when a limit is reached, the pass that has been idle longest of the address that holds the most
//! is revoked. An attacker that fills a gate from a few addresses therefore evicts its own passes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use nearlight_units::{Time, lock};
use tokio::sync::oneshot;

use crate::address::subscriber;

/// Hands out at most `total` passes, at most `per_address` of them to one subscriber (an IPv6 /64 counts as one).
#[derive(Debug)]
pub struct Gate {
    total: usize,
    per_address: usize,
    reserved: usize,
    holders: Mutex<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    total: usize,
    reserved: usize,
    next: u64,
    /// Passes by subscriber. No entry is empty.
    by_subscriber: BTreeMap<IpAddr, BTreeMap<u64, Holder>>,
}

#[derive(Debug)]
struct Holder {
    active_at: Arc<AtomicU64>,
    reserved: bool,
    /// Dropping it notifies the pass that it was revoked.
    _valid: oneshot::Sender<Infallible>,
}

/// The right to hold one resource, returned to the gate when dropped.
#[derive(Debug)]
pub struct Pass {
    reservation: Reservation,
    active_at: Arc<AtomicU64>,
    /// Signals revocation. None once the pass is known to be revoked.
    valid: Option<oneshot::Receiver<Infallible>>,
}

/// Reserves its pass for a session. It is cheap to clone, and has no effect once the pass is gone.
#[derive(Clone, Debug)]
pub struct Reservation {
    gate: Arc<Gate>,
    subscriber: IpAddr,
    number: u64,
}

impl Gate {
    /// Makes a gate. Up to `reserved` passes can be protected from revocation, a quarter of them by one subscriber.
    #[must_use]
    pub fn new(total: usize, per_address: usize, reserved: usize) -> Arc<Self> {
        Arc::new(Self { total, per_address, reserved, holders: Mutex::default() })
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        lock(&self.holders)
    }

    /// Number of passes handed out.
    #[must_use]
    pub fn held(&self) -> usize {
        self.holders().total
    }

    /// Returns a pass for `address`, if necessary in place of an idle one. None if all that could be revoked are reserved.
    #[must_use]
    pub fn enter(self: &Arc<Self>, now: Time, address: IpAddr) -> Option<Pass> {
        let subscriber = subscriber(address);
        let mut holders = self.holders();
        let of_subscriber = holders.by_subscriber.get(&subscriber).map_or(0, BTreeMap::len);
        let victim = if of_subscriber >= self.per_address {
            Some(holders.idlest_of(subscriber)?)
        } else if holders.total >= self.total {
            Some(holders.idlest_for(subscriber)?)
        } else {
            None
        };
        if let Some((subscriber, number)) = victim {
            holders.remove(subscriber, number);
        }
        let number = holders.next;
        holders.next += 1;
        holders.total += 1;
        let active_at = Arc::new(AtomicU64::new(now.as_nanos()));
        let (sender, valid) = oneshot::channel();
        let holder = Holder { active_at: Arc::clone(&active_at), reserved: false, _valid: sender };
        holders.by_subscriber.entry(subscriber).or_default().insert(number, holder);
        let reservation = Reservation { gate: Arc::clone(self), subscriber, number };
        Some(Pass { reservation, active_at, valid: Some(valid) })
    }
}

impl Holders {
    /// The subscriber's pass that has been idle for longest, of those that are not reserved.
    fn idlest_of(&self, subscriber: IpAddr) -> Option<(IpAddr, u64)> {
        let (number, _) =
            evictable(self.by_subscriber.get(&subscriber)?).min_by_key(|(_, holder)| holder.active_at())?;
        Some((subscriber, *number))
    }

    /// The idlest pass of the subscriber that would hold the most of those that are not reserved if `newcomer` had another one.
    fn idlest_for(&self, newcomer: IpAddr) -> Option<(IpAddr, u64)> {
        let candidates = self.by_subscriber.iter().filter_map(|(subscriber, passes)| {
            let (number, holder) = evictable(passes).min_by_key(|(_, holder)| holder.active_at())?;
            let holds = evictable(passes).count() + usize::from(*subscriber == newcomer);
            Some(((holds, Reverse(holder.active_at())), (*subscriber, *number)))
        });
        candidates.max().map(|(_, victim)| victim)
    }

    fn remove(&mut self, subscriber: IpAddr, number: u64) {
        let Some(passes) = self.by_subscriber.get_mut(&subscriber) else { return };
        if let Some(holder) = passes.remove(&number) {
            self.total -= 1;
            self.reserved -= usize::from(holder.reserved);
        }
        if passes.is_empty() {
            self.by_subscriber.remove(&subscriber);
        }
    }
}

impl Holder {
    fn active_at(&self) -> u64 {
        self.active_at.load(Ordering::Relaxed)
    }
}

fn evictable(passes: &BTreeMap<u64, Holder>) -> impl Iterator<Item = (&u64, &Holder)> {
    passes.iter().filter(|(_, holder)| !holder.reserved)
}

impl Pass {
    /// Records activity of the holder: the pass becomes the least idle one.
    pub fn on_activity(&self, now: Time) {
        self.active_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    #[must_use]
    pub fn reservation(&self) -> Reservation {
        self.reservation.clone()
    }

    /// Ready once the pass was revoked for a newcomer.
    pub fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(valid) = &mut self.valid else { return Poll::Ready(()) };
        Pin::new(valid).poll(context).map(|_| self.valid = None)
    }

    /// Waits until the pass is revoked for a newcomer, possibly for ever.
    pub async fn evicted(&mut self) {
        std::future::poll_fn(|context| self.poll_evicted(context)).await;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Reservation { gate, subscriber, number } = &self.reservation;
        gate.holders().remove(*subscriber, *number);
    }
}

impl Reservation {
    /// Protects the pass from revocation. Returns false if the maximum number of passes is already reserved, or the pass is gone.
    pub fn claim(&self) -> bool {
        let mut holders = self.gate.holders();
        let is_full = holders.reserved >= self.gate.reserved;
        let Some(passes) = holders.by_subscriber.get_mut(&self.subscriber) else { return false };
        let of_subscriber = passes.len() - evictable(passes).count();
        let Some(holder) = passes.get_mut(&self.number) else { return false };
        if holder.reserved {
            return true;
        }
        if is_full || of_subscriber >= self.gate.reserved.div_ceil(4) {
            return false;
        }
        holder.reserved = true;
        holders.reserved += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(second: u64) -> Time {
        Time::from_secs(second)
    }

    fn is_evicted(pass: &mut Pass) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        pass.poll_evicted(&mut context).is_ready()
    }

    #[test]
    fn both_bounds_hold_and_passes_come_back() {
        let gate = Gate::new(3, 2, 0);
        let mut first = gate.enter(at(0), address(1)).unwrap();
        let mut second = gate.enter(at(1), address(1)).unwrap();
        first.on_activity(at(2));
        let mut third = gate.enter(at(3), address(1)).unwrap();
        assert_eq!([&mut first, &mut second, &mut third].map(is_evicted), [false, true, false], "the idlest goes");
        let others = [2, 3].map(|last| gate.enter(at(4), address(last)).unwrap());
        assert_eq!([&mut first, &mut third].map(is_evicted), [true, false], "the address with most goes first");
        assert_eq!(gate.held(), 3);
        drop((first, second));
        assert_eq!(gate.held(), 3, "what was taken back is not given back again");
        drop((third, others));
        assert_eq!(gate.held(), 0);
        assert!(gate.holders().by_subscriber.is_empty(), "memory of past addresses was kept");
    }

    #[test]
    fn a_crowd_from_a_few_addresses_pushes_out_its_own() {
        let gate = Gate::new(512, 192, 128);
        let mut owner = gate.enter(at(0), address(1)).unwrap();
        let mut crowd = Vec::new();
        for number in 0_u64..1_500 {
            crowd.push(gate.enter(at(1 + number), address(2 + (number % 3) as u8)).expect("newcomers get in"));
            assert!(gate.held() <= 512);
            crowd.retain_mut(|pass| !is_evicted(pass));
        }
        assert!(!is_evicted(&mut owner), "the idlest of all, but its address holds the least");
        let second = gate.enter(at(2_000), address(1));
        assert!(second.is_some());
        assert!(!is_evicted(&mut owner));
    }

    #[test]
    fn with_an_address_each_the_idlest_makes_room_and_what_is_reserved_stays() {
        let gate = Gate::new(4, 4, 2);
        let mut passes: Vec<_> = (1..=4).map(|last| gate.enter(at(u64::from(last)), address(last)).unwrap()).collect();
        assert!(passes[0].reservation().claim() && passes[1].reservation().claim());
        assert!(passes[0].reservation().claim(), "again is no second one");
        assert!(!passes[2].reservation().claim(), "as many as may be are reserved");
        passes.push(gate.enter(at(5), address(5)).unwrap());
        assert_eq!(passes.iter_mut().map(is_evicted).collect::<Vec<_>>(), [false, false, true, false, false]);
        assert!(!passes[2].reservation().claim(), "it is gone");
        drop(passes.remove(0));
        assert!(passes[3].reservation().claim(), "a session that has ended leaves its reservation to another");
        let household = Gate::new(64, 64, 8);
        let claims: Vec<_> = (0..4).map(|_| household.enter(at(0), address(1)).unwrap()).collect();
        let claims: Vec<_> = claims.iter().map(|pass| pass.reservation().claim()).collect();
        assert_eq!(claims, [true, true, false, false], "one address leaves reservations to others");
        let small = Gate::new(1, 1, 1);
        let held = small.enter(at(0), address(1)).unwrap();
        assert!(held.reservation().claim());
        assert!(small.enter(at(1), address(1)).is_none() && small.enter(at(1), address(2)).is_none());
    }
}
