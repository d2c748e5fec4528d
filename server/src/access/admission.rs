//! Admission control: how many clients the server admits, and which of them gives way when another one connects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_net::subscriber;
use nearlight_units::{Span, Time};
use nearlight_urs::signalling::Guest;

/// Time that a client has to connect before another client may take its permit. Guess: even with 10 % datagram loss, ICE and DTLS
/// complete in less.
const CONNECT_GRACE: Span = Span::from_secs(5);
/// Silence after which another client may take a client's permit: the client was probably killed. A live client is heard many times a
/// second, so an outage of two seconds costs no client its permit.
const MAX_SILENCE: Span = Span::from_secs(3);
/// Silence after which a client may be dead, so that a new client is asked to wait for its permit. A live client is heard after every
/// frame.
pub(crate) const SUSPECT_SILENCE: Span = Span::from_millis(250);

/// Why a session ends when its permit has been given to another client.
pub(crate) const PERMIT_LOST: &str =
    "its slot was given to another client, because this one had not connected or had gone silent";

/// Issues permits for at most `max_clients` clients.
pub(crate) struct Admission {
    max_clients: usize,
    permits: Mutex<PermitTable>,
}

#[derive(Default)]
struct PermitTable {
    next: u64,
    /// Holders by permit number, oldest first.
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    address: IpAddr,
    trusted: bool,
    since: Time,
    /// When the client was last heard; none before it has connected.
    heard: Option<Time>,
}

impl Holder {
    /// Returns whether the next client that asks for a permit may take this one.
    fn is_forfeit(&self, now: Time) -> bool {
        let (from, patience) = self.heard.map_or((self.since, CONNECT_GRACE), |heard| (heard, MAX_SILENCE));
        now.saturating_since(from) >= patience
    }
}

/// A client's permit, which is returned when it is dropped.
pub(crate) struct Permit {
    admission: Arc<Admission>,
    number: u64,
}

/// Why a client gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    Full,
    /// All permits are taken, but one of the clients has been silent for a while. If it stays silent, its permit becomes free after this
    /// time.
    SilentClient(Span),
    /// Clients from the same address hold permits and have not connected. The first of them must connect within this time.
    AddressLimit(Span),
}

impl PermitTable {
    /// Returns when the first silent client forfeits its permit.
    fn silent_until(&self, now: Time) -> Option<Time> {
        let heard = self.holders.values().filter_map(|holder| holder.heard);
        heard.filter(|heard| now.saturating_since(*heard) >= SUSPECT_SILENCE).map(|heard| heard + MAX_SILENCE).min()
    }
}

impl Admission {
    pub(crate) fn new(max_clients: usize) -> Arc<Self> {
        Arc::new(Self { max_clients, permits: Mutex::default() })
    }

    fn permits(&self) -> MutexGuard<'_, PermitTable> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Issues a permit for a client that is about to connect.
    ///
    /// If none is free, a client that has not connected gives way: to any client after [`CONNECT_GRACE`], and before that to a client with
    /// a token if it has none itself. A connected client gives way after [`MAX_SILENCE`]. Unconnected clients without a token from one
    /// address hold at most half of the permits.
    pub(crate) fn take(self: &Arc<Self>, now: Time, guest: Guest) -> Result<Permit, AdmissionError> {
        let address = subscriber(guest.address);
        let mut permits = self.permits();
        let own = || permits.holders.values().filter(|holder| holder.heard.is_none() && holder.address == address);
        let strangers = own().filter(|holder| !holder.trusted).count();
        let too_many = !guest.trusted && strangers >= (self.max_clients / 2).max(1);
        if too_many || permits.holders.len() >= self.max_clients {
            let gives_way = |holder: &Holder| {
                let waits = holder.heard.is_none();
                let owes = holder.is_forfeit(now) || waits && guest.trusted && !holder.trusted;
                owes && (!too_many || waits && holder.address == address)
            };
            let waits = own().next().map(|holder| holder.since + CONNECT_GRACE - now);
            let last = permits.holders.iter().find(|(_, holder)| gives_way(holder)).map(|(number, _)| *number);
            let Some(last) = last else {
                let silent = permits.silent_until(now).filter(|_| guest.trusted).map(|until| until - now);
                return Err(waits
                    .map(AdmissionError::AddressLimit)
                    .or(silent.map(AdmissionError::SilentClient))
                    .unwrap_or(AdmissionError::Full));
            };
            permits.holders.remove(&last);
        }
        let number = permits.next;
        permits.next += 1;
        permits.holders.insert(number, Holder { address, trusted: guest.trusted, since: now, heard: None });
        Ok(Permit { admission: Arc::clone(self), number })
    }
}

impl Permit {
    /// Records that the client was heard, so it has connected and is alive. Returns false if another client has taken its permit.
    pub(crate) fn on_heard(&self, now: Time) -> bool {
        let mut permits = self.admission.permits();
        let holder = permits.holders.get_mut(&self.number);
        holder.map(|holder| holder.heard = Some(now)).is_some()
    }

    /// Returns whether another client has taken this permit.
    pub(crate) fn is_lost(&self) -> bool {
        !self.admission.permits().holders.contains_key(&self.number)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.permits().holders.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);

    fn guest(last: u8, trusted: bool) -> Guest {
        Guest { address: IpAddr::from([192, 0, 2, last]), trusted }
    }

    fn wait(seconds: i64) -> AdmissionError {
        AdmissionError::AddressLimit(Span::from_secs(seconds))
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let admission = Admission::new(2);
        let held = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
        let later = NOW + Span::from_secs(3_600);
        assert!(held.iter().all(|permit| permit.on_heard(later)));
        assert_eq!(admission.take(later, guest(1, true)).err(), Some(AdmissionError::Full), "who is heard stays");
        let outage = later + Span::from_secs(2);
        assert!(admission.take(outage, guest(1, true)).is_err(), "an outage costs nobody the place");
        drop(held);
        assert!(admission.take(outage, guest(1, true)).is_ok());
        assert_eq!(Admission::new(0).take(NOW, guest(1, true)).err(), Some(AdmissionError::Full));
    }

    #[test]
    fn strangers_that_never_connect_keep_nobody_with_the_token_out() {
        let admission = Admission::new(4);
        let take = |last, trusted| admission.take(NOW, guest(last, trusted));
        let strangers = [1, 1, 2, 2].map(|last| take(last, false).expect("a place"));
        assert!(strangers[3].on_heard(NOW));
        let owner = [9, 9, 9].map(|last| take(last, true).expect("a place"));
        assert_eq!(strangers.each_ref().map(Permit::is_lost), [true, true, true, false]);
        assert!(!strangers[0].on_heard(NOW), "it is too late");
        assert_eq!(take(8, true).err(), Some(AdmissionError::Full));
        assert_eq!(take(9, true).err(), Some(wait(5)), "its own address is why");
        drop(strangers);
        assert!(owner.iter().all(|permit| permit.on_heard(NOW)), "what is lost is not given back twice");
        assert!(take(8, true).is_ok());
    }

    #[test]
    fn who_falls_silent_makes_room_for_whoever_wants_it() {
        let admission = Admission::new(2);
        let [killed, watching] = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
        let later = |seconds| NOW + Span::from_secs(seconds);
        assert!(killed.on_heard(NOW) && watching.on_heard(later(2)));
        assert_eq!(
            admission.take(later(2), guest(3, true)).err(),
            Some(AdmissionError::SilentClient(Span::from_secs(1)))
        );
        assert_eq!(
            admission.take(later(2), guest(3, false)).err(),
            Some(AdmissionError::Full),
            "strangers need not know"
        );
        let next = admission.take(later(3), guest(3, true)).expect("the killed one's");
        assert_eq!([&killed, &watching, &next].map(Permit::is_lost), [true, false, false]);
        assert!(!killed.on_heard(later(4)), "who comes back after that connects anew");
        assert!(watching.on_heard(later(4)));
    }

    #[test]
    fn one_address_without_a_token_waits_in_half_of_the_places() {
        let admission = Admission::new(4);
        let take = |after: i64, last| admission.take(NOW + Span::from_secs(after), guest(last, false));
        let held = [0, 1].map(|after| take(after, 1).expect("a place"));
        assert_eq!(take(2, 1).err(), Some(wait(3)));
        let others = [2, 3].map(|last| take(2, last).expect("a place"));
        assert_eq!(take(2, 4).err(), Some(AdmissionError::Full));
        let next = take(5, 1).expect("the first one's time is over");
        assert_eq!([held[0].is_lost(), held[1].is_lost()], [true, false]);
        let later = NOW + Span::from_secs(5);
        assert!([&held[1], &next].into_iter().chain(&others).all(|permit| permit.on_heard(later)));
        drop(others);
        let household = [6, 6].map(|after| take(after, 1).expect("those who connected do not count"));
        assert!(household.iter().all(|permit| permit.on_heard(later)));
    }
}
