//! Clients that a host has removed from a room.

use std::collections::VecDeque;
use std::net::IpAddr;

use nearlight_units::{Span, Time};

use crate::message::SeatKey;

/// Number of removed clients that a room remembers. Beyond that, the one that was removed first may come back. Guess: a host removes fewer by hand.
pub(crate) const MAX_REMOVED_CLIENTS: usize = 256;
/// Time for which no new member may join from the address of a client that was removed, because the client may come back with another key.
/// Others behind the same address wait with it, so it is short at first. Guess.
const FIRST_ADDRESS_HOLD: Span = Span::from_secs(60);
/// The factor by which each further removal at the address prolongs that time, and the longest time. Guess: a person who comes back after an
/// hour is removed again with one click.
const HOLD_GROWTH: i64 = 8;
const MAX_ADDRESS_HOLD: Span = Span::from_secs(12 * 3_600);

/// What is known of a client that a host has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovedClient {
    pub(crate) key: Option<SeatKey>,
    pub(crate) address: Option<IpAddr>,
}

/// The removed clients of a room, see [`Room::removed_clients`](crate::Room::removed_clients). They stay removed for as long as the room's
/// link can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedClients {
    /// With the time of the removal, or of the room's continuation; the one that was removed first comes first.
    clients: VecDeque<(RemovedClient, Time)>,
}

/// The reason why a client may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    Removed,
    /// Another client at the same address was removed. The client may try again after this time.
    AddressHold(Span),
}

impl RemovedClients {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &RemovedClient> {
        self.clients.iter().map(|(client, _)| client)
    }

    pub(crate) fn add(&mut self, now: Time, client: RemovedClient) {
        if self.clients.len() >= MAX_REMOVED_CLIENTS {
            self.clients.pop_front();
        }
        self.clients.push_back((client, now));
    }

    /// Returns whether this client stays away, and why. A client without a key is known by its address alone.
    pub(crate) fn exclusion(&self, now: Time, client: RemovedClient) -> Option<Exclusion> {
        let is_known = |removed: &RemovedClient| {
            if client.key.is_some() {
                removed.key == client.key
            } else {
                client.address.is_some() && *removed == client
            }
        };
        if self.iter().any(is_known) {
            return Some(Exclusion::Removed);
        }
        let address = client.address?;
        let removals: Vec<Time> =
            self.clients.iter().filter(|(removed, _)| removed.address == Some(address)).map(|(_, at)| *at).collect();
        let last = removals.last()?;
        let longer = |hold: Span, _: &Time| MAX_ADDRESS_HOLD.min(hold * HOLD_GROWTH);
        let until = *last + removals[1..].iter().fold(FIRST_ADDRESS_HOLD, longer);
        (now < until).then(|| Exclusion::AddressHold(until - now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(key: Option<u8>, address: u8) -> RemovedClient {
        RemovedClient { key: key.map(|key| SeatKey([key; 16])), address: Some(IpAddr::from([192, 0, 2, address])) }
    }

    #[test]
    fn an_address_is_held_for_longer_after_each_removal() {
        let mut removed = RemovedClients::default();
        let mut now = Time::from_secs(100);
        for (key, seconds) in [(1, 60), (2, 480), (3, 3_840), (4, 30_720), (5, 43_200), (6, 43_200)] {
            assert_eq!(removed.exclusion(now, client(Some(key), 1)), None);
            removed.add(now, client(Some(key), 1));
            let hold = Span::from_secs(seconds);
            assert_eq!(removed.exclusion(now, client(Some(99), 1)), Some(Exclusion::AddressHold(hold)));
            assert_eq!(removed.exclusion(now, client(Some(99), 2)), None, "others are not concerned");
            now += hold;
        }
        for key in 1..=6 {
            let elsewhere = removed.exclusion(now, client(Some(key), 3));
            assert_eq!(elsewhere, Some(Exclusion::Removed), "the key stays removed");
        }
    }

    #[test]
    fn a_client_without_a_key_is_known_by_its_address() {
        let mut removed = RemovedClients::default();
        removed.add(Time::ZERO, client(None, 1));
        let later = Time::ZERO + Span::from_secs(1_000_000);
        assert_eq!(removed.exclusion(later, client(None, 1)), Some(Exclusion::Removed));
        assert_eq!(removed.exclusion(later, client(None, 2)), None);
        assert_eq!(removed.exclusion(later, client(Some(1), 1)), None);
    }

    #[test]
    fn a_room_forgets_the_client_that_was_removed_first() {
        let mut removed = RemovedClients::default();
        for number in 0..=MAX_REMOVED_CLIENTS {
            let key = Some(SeatKey((number as u128).to_be_bytes()));
            removed.add(Time::ZERO, RemovedClient { key, address: None });
        }
        assert_eq!(removed.iter().len(), MAX_REMOVED_CLIENTS);
        let first = RemovedClient { key: Some(SeatKey([0; 16])), address: None };
        assert_eq!(removed.exclusion(Time::ZERO, first), None);
    }
}
