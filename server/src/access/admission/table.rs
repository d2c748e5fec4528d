//! Who holds which permit, and who gives way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use nearlight_rooms::Role;
use nearlight_units::Time;
use tokio::sync::Notify;

use super::{AdmissionError, Applicant, CONNECT_GRACE, Displacement, MAX_SILENCE, SUSPECT_SILENCE};

/// Number of permits from which on one is reserved for owners. With fewer, an owner finds a place by displacing others.
const MIN_RESERVING_PERMITS: usize = 4;
/// Share of the permits that spectators leave to others: a quarter. Guess: those who act are fewer than those who watch.
const RESERVED_FROM_SPECTATORS: usize = 4;

pub(super) struct Holder {
    /// The subscriber's address.
    pub(super) address: IpAddr,
    pub(super) trusted: bool,
    pub(super) role: Role,
    /// The number of the client's link, if it is one that can be revoked.
    pub(super) link: Option<u32>,
    pub(super) since: Time,
    /// When the client was last heard; none before it has connected.
    pub(super) heard: Option<Time>,
    /// When the user last did something, or connected.
    pub(super) active: Time,
    /// Notified when the permit is lost.
    pub(super) lost: Arc<Notify>,
}

impl Holder {
    /// Returns whether the next client that asks for a permit may take this one.
    fn is_forfeit(&self, now: Time) -> bool {
        let (from, patience) = self.heard.map_or((self.since, CONNECT_GRACE), |heard| (heard, MAX_SILENCE));
        now.saturating_since(from) >= patience
    }

    /// Clients that have not connected are the idlest; then those whose users have done nothing for longest.
    const fn idleness(&self) -> (bool, Time) {
        (self.heard.is_some(), self.active)
    }
}

/// Which limit keeps a client out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Unconnected clients without a token hold too many permits, from the applicant's address.
    Strangers,
    /// Clients with this role or a lower one hold all permits that they may.
    Role(Role),
    /// No permit is left.
    Full,
}

pub(super) struct PermitTable {
    max_clients: usize,
    next: u64,
    /// Holders by permit number, oldest first.
    holders: BTreeMap<u64, Holder>,
    /// Permits that others have taken and that have not been dropped yet.
    displaced: BTreeMap<u64, Displacement>,
}

/// Returns how many of `max_clients` permits clients with this role or a lower one hold at most.
pub(super) const fn max_holders(max_clients: usize, role: Role) -> usize {
    let reserved = match role {
        Role::Host => 0,
        Role::Guest => (max_clients >= MIN_RESERVING_PERMITS) as usize,
        Role::Spectator if max_clients < 2 => 0,
        Role::Spectator if max_clients < MIN_RESERVING_PERMITS => 1,
        Role::Spectator => max_clients.div_ceil(RESERVED_FROM_SPECTATORS) + 1,
    };
    max_clients.saturating_sub(reserved)
}

impl PermitTable {
    pub(super) const fn new(max_clients: usize) -> Self {
        Self { max_clients, next: 0, holders: BTreeMap::new(), displaced: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }

    pub(super) fn insert(&mut self, holder: Holder) -> u64 {
        let number = self.next;
        self.next += 1;
        self.holders.insert(number, holder);
        number
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.holders.remove(&number);
        self.displaced.remove(&number);
    }

    /// Changes a holder. Returns false if another client has taken its permit.
    pub(super) fn update(&mut self, number: u64, change: impl FnOnce(&mut Holder)) -> bool {
        self.holders.get_mut(&number).map(change).is_some()
    }

    pub(super) fn displace(&mut self, number: u64, why: Displacement) {
        if let Some(holder) = self.holders.remove(&number) {
            self.displaced.insert(number, why);
            holder.lost.notify_one();
        }
    }

    /// Returns the permits of clients that came with these links.
    pub(super) fn of_links(&self, links: &[u32]) -> Vec<u64> {
        let of_links = |holder: &Holder| holder.link.is_some_and(|link| links.contains(&link));
        self.holders.iter().filter(|(_, holder)| of_links(holder)).map(|(number, _)| *number).collect()
    }

    pub(super) fn displacement(&self, number: u64) -> Option<Displacement> {
        self.displaced.get(&number).copied()
    }

    /// The unconnected holders at an address, oldest first.
    fn unconnected(&self, address: IpAddr) -> impl Iterator<Item = &Holder> {
        self.holders.values().filter(move |holder| holder.heard.is_none() && holder.address == address)
    }

    /// Returns how many clients have this role or a lower one. Roles are ordered, the highest first.
    fn count(&self, role: Role) -> usize {
        self.holders.values().filter(|holder| holder.role >= role).count()
    }

    /// Returns what keeps a client out, or none.
    pub(super) fn obstacle(&self, applicant: &Applicant) -> Option<Obstacle> {
        let strangers = self.unconnected(applicant.address).filter(|holder| !holder.trusted).count();
        if !applicant.trusted && strangers >= (self.max_clients / 2).max(1) {
            return Some(Obstacle::Strangers);
        }
        if self.holders.len() >= self.max_clients {
            return Some(Obstacle::Full);
        }
        // A spectator counts among those who are not owners as well.
        let limited = [Role::Guest, Role::Spectator].into_iter().filter(|role| applicant.credential.role >= *role);
        let full = |role: &Role| self.count(*role) >= max_holders(self.max_clients, *role);
        limited.filter(full).max().map(Obstacle::Role)
    }

    /// Returns the permit that the client may take, and why.
    pub(super) fn gives_way(
        &self,
        now: Time,
        applicant: &Applicant,
        obstacle: Obstacle,
    ) -> Option<(u64, Displacement)> {
        let forfeits = |holder: &Holder| {
            let waits = holder.heard.is_none();
            let owes = holder.is_forfeit(now) || waits && applicant.trusted && !holder.trusted;
            let helps = match obstacle {
                Obstacle::Strangers => waits && holder.address == applicant.address,
                Obstacle::Role(role) => holder.role >= role,
                Obstacle::Full => true,
            };
            owes && helps
        };
        let forfeit = self.holders.iter().find(|(_, holder)| forfeits(holder));
        if let Some((number, _)) = forfeit {
            return Some((*number, Displacement::Forfeit));
        }
        match (applicant.credential.role, obstacle) {
            (_, Obstacle::Strangers) => None,
            (Role::Host, _) => self.idlest_for_an_owner().map(|number| (number, Displacement::Owner)),
            (role, _) => self.idlest_over_share(role, applicant.address).map(|number| (number, Displacement::Share)),
        }
    }

    fn idlest(&self, gives_way: impl Fn(&Holder) -> bool) -> Option<u64> {
        let found = self.holders.iter().filter(|(_, holder)| gives_way(holder));
        found.min_by_key(|(_, holder)| holder.idleness()).map(|(number, _)| *number)
    }

    fn idlest_for_an_owner(&self) -> Option<u64> {
        let has_owner = self.holders.values().any(|holder| holder.role == Role::Host);
        let guest = || self.idlest(|holder| holder.role == Role::Guest).filter(|_| !has_owner);
        self.idlest(|holder| holder.role == Role::Spectator).or_else(guest)
    }

    /// Returns the idlest client of the role at an address whose clients hold more than half of the role's permits.
    fn idlest_over_share(&self, role: Role, own: IpAddr) -> Option<u64> {
        let mut held: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for holder in self.holders.values().filter(|holder| holder.role == role) {
            *held.entry(holder.address).or_default() += 1;
        }
        let share = max_holders(self.max_clients, role) / 2;
        let (address, _) = held.into_iter().find(|(address, count)| *address != own && *count > share.max(1))?;
        self.idlest(|holder| holder.role == role && holder.address == address)
    }

    /// Returns why the client gets no permit.
    pub(super) fn refusal(&self, now: Time, applicant: &Applicant, obstacle: Obstacle) -> AdmissionError {
        let waits = self.unconnected(applicant.address).next().map(|holder| holder.since + CONNECT_GRACE - now);
        let silent = self.silent_until(now).filter(|_| applicant.trusted).map(|until| until - now);
        let otherwise = match obstacle {
            Obstacle::Role(_) => AdmissionError::Reserved,
            Obstacle::Strangers | Obstacle::Full => AdmissionError::Full,
        };
        waits.map(AdmissionError::AddressLimit).or(silent.map(AdmissionError::SilentClient)).unwrap_or(otherwise)
    }

    /// Returns when the first silent client forfeits its permit.
    fn silent_until(&self, now: Time) -> Option<Time> {
        let heard = self.holders.values().filter_map(|holder| holder.heard);
        heard.filter(|heard| now.saturating_since(*heard) >= SUSPECT_SILENCE).map(|heard| heard + MAX_SILENCE).min()
    }
}
