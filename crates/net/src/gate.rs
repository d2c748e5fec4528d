//! Bounds how many unfinished or open things strangers hold, in all and per address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::party;

/// Hands out at most `total` passes, at most `per_address` of them to one party.
#[derive(Debug)]
pub(crate) struct Gate {
    total: usize,
    per_address: usize,
    holders: Mutex<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    total: usize,
    by_party: BTreeMap<IpAddr, usize>,
}

/// Returned to the gate when dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    party: IpAddr,
}

impl Gate {
    pub(crate) fn new(total: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { total, per_address, holders: Mutex::default() })
    }

    /// How many passes are out.
    pub(crate) fn held(&self) -> usize {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// A pass for `address`, or none where either bound is reached.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Pass> {
        let party = party(address);
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let of_party = holders.by_party.get(&party).copied().unwrap_or(0);
        if holders.total >= self.total || of_party >= self.per_address {
            return None;
        }
        holders.total += 1;
        holders.by_party.insert(party, of_party + 1);
        Some(Pass { gate: Arc::clone(self), party })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut holders = self.gate.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.total -= 1;
        if let Some(count) = holders.by_party.get_mut(&self.party) {
            *count -= 1;
            if *count == 0 {
                holders.by_party.remove(&self.party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_and_passes_come_back() {
        let gate = Gate::new(3, 2);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let first = gate.enter(one);
        let second = gate.enter(one);
        assert!(first.is_some() && second.is_some());
        assert!(gate.enter(one).is_none(), "one address took more than its share");
        let third = gate.enter(other);
        assert!(third.is_some());
        assert!(gate.enter(other).is_none(), "more than all passes went out");
        assert_eq!(gate.held(), 3);
        drop((first, second, third));
        assert_eq!(gate.held(), 0);
        assert!(gate.holders.lock().unwrap().by_party.is_empty(), "memory of past addresses was kept");
    }
}
