//! How many clients the server admits, and which of them loses its place when another one needs it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_net::subscriber;
use nearlight_units::{Span, Time};
use nearlight_urs::signalling::Guest;

/// A client that has not connected within this time loses its place as soon as another client wants it. Guess: even with 10 % datagram
/// loss, ICE and DTLS complete in less.
const GRACE: Span = Span::from_secs(5);
/// A client that has been silent this long was probably killed; it loses its place as soon as another client wants it. A live client is
/// heard many times a second, and an outage of two seconds costs no client its place.
const SILENCE: Span = Span::from_secs(3);
/// A client that has been silent this long may be dead: a newcomer is asked to wait for its place. A live client is heard after every
/// frame.
pub(crate) const QUIET: Span = Span::from_millis(250);

/// Why a session ends when its permit has been given to another client.
pub(crate) const PERMIT_LOST: &str =
    "its slot was given to another client, because this one had not connected or had gone silent";

/// Permits for as many clients as the server admits.
pub(crate) struct Admission {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next: u64,
    /// Oldest first.
    holders: BTreeMap<u64, Holder>,
}

struct Holder {
    address: IpAddr,
    trusted: bool,
    since: Time,
    /// When it was last heard since it connected; none before it connects.
    heard: Option<Time>,
}

impl Holder {
    /// The next client to request a permit may take this one.
    fn is_forfeit(&self, now: Time) -> bool {
        let (from, patience) = self.heard.map_or((self.since, GRACE), |heard| (heard, SILENCE));
        now.saturating_since(from) >= patience
    }
}

/// A client's permit; dropping it gives it back.
pub(crate) struct Permit {
    admission: Arc<Admission>,
    number: u64,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    Full,
    /// One of the clients has been silent for a while; if it stays silent, its place becomes free after this time.
    Silent(Span),
    /// Clients from the same address hold places without having connected; the first of them must connect within this time.
    Waits(Span),
}

impl Held {
    /// When the first silent client forfeits its place.
    fn silent_until(&self, now: Time) -> Option<Time> {
        let heard = self.holders.values().filter_map(|holder| holder.heard);
        heard.filter(|heard| now.saturating_since(*heard) >= QUIET).map(|heard| heard + SILENCE).min()
    }
}

impl Admission {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for a client that is about to connect.
    ///
    /// If none is free, a client that has not connected makes room: after [`GRACE`] for any newcomer; before that, if it showed no token,
    /// for newcomers that did. So does a client that connected and has been silent for [`SILENCE`]. Unconnected clients without a token
    /// from one address hold at most half of the places.
    pub(crate) fn take(self: &Arc<Self>, now: Time, guest: Guest) -> Result<Permit, NotAdmitted> {
        let address = subscriber(guest.address);
        let mut held = self.held();
        let own = || held.holders.values().filter(|holder| holder.heard.is_none() && holder.address == address);
        let strangers = own().filter(|holder| !holder.trusted).count();
        let too_many = !guest.trusted && strangers >= (self.most / 2).max(1);
        if too_many || held.holders.len() >= self.most {
            let gives_way = |holder: &Holder| {
                let waits = holder.heard.is_none();
                let owes = holder.is_forfeit(now) || waits && guest.trusted && !holder.trusted;
                owes && (!too_many || waits && holder.address == address)
            };
            let waits = own().next().map(|holder| holder.since + GRACE - now);
            let last = held.holders.iter().find(|(_, holder)| gives_way(holder)).map(|(number, _)| *number);
            let Some(last) = last else {
                let silent = held.silent_until(now).filter(|_| guest.trusted).map(|until| until - now);
                return Err(waits
                    .map(NotAdmitted::Waits)
                    .or(silent.map(NotAdmitted::Silent))
                    .unwrap_or(NotAdmitted::Full));
            };
            held.holders.remove(&last);
        }
        let number = held.next;
        held.next += 1;
        held.holders.insert(number, Holder { address, trusted: guest.trusted, since: now, heard: None });
        Ok(Permit { admission: Arc::clone(self), number })
    }
}

impl Permit {
    /// The client was heard: it has connected and is alive. False if its place has been given to another client.
    pub(crate) fn hear(&self, now: Time) -> bool {
        let mut held = self.admission.held();
        let holder = held.holders.get_mut(&self.number);
        holder.map(|holder| holder.heard = Some(now)).is_some()
    }

    /// Another client has taken it.
    pub(crate) fn is_lost(&self) -> bool {
        !self.admission.held().holders.contains_key(&self.number)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.held().holders.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);

    fn guest(last: u8, trusted: bool) -> Guest {
        Guest { address: IpAddr::from([192, 0, 2, last]), trusted }
    }

    fn wait(seconds: i64) -> NotAdmitted {
        NotAdmitted::Waits(Span::from_secs(seconds))
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let admission = Admission::new(2);
        let held = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
        let later = NOW + Span::from_secs(3_600);
        assert!(held.iter().all(|permit| permit.hear(later)));
        assert_eq!(admission.take(later, guest(1, true)).err(), Some(NotAdmitted::Full), "who is heard stays");
        let outage = later + Span::from_secs(2);
        assert!(admission.take(outage, guest(1, true)).is_err(), "an outage costs nobody the place");
        drop(held);
        assert!(admission.take(outage, guest(1, true)).is_ok());
        assert_eq!(Admission::new(0).take(NOW, guest(1, true)).err(), Some(NotAdmitted::Full));
    }

    #[test]
    fn strangers_that_never_connect_keep_nobody_with_the_token_out() {
        let admission = Admission::new(4);
        let take = |last, trusted| admission.take(NOW, guest(last, trusted));
        let strangers = [1, 1, 2, 2].map(|last| take(last, false).expect("a place"));
        assert!(strangers[3].hear(NOW));
        let owner = [9, 9, 9].map(|last| take(last, true).expect("a place"));
        assert_eq!(strangers.each_ref().map(Permit::is_lost), [true, true, true, false]);
        assert!(!strangers[0].hear(NOW), "it is too late");
        assert_eq!(take(8, true).err(), Some(NotAdmitted::Full));
        assert_eq!(take(9, true).err(), Some(wait(5)), "its own address is why");
        drop(strangers);
        assert!(owner.iter().all(|permit| permit.hear(NOW)), "what is lost is not given back twice");
        assert!(take(8, true).is_ok());
    }

    #[test]
    fn who_falls_silent_makes_room_for_whoever_wants_it() {
        let admission = Admission::new(2);
        let [killed, watching] = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
        let later = |seconds| NOW + Span::from_secs(seconds);
        assert!(killed.hear(NOW) && watching.hear(later(2)));
        assert_eq!(admission.take(later(2), guest(3, true)).err(), Some(NotAdmitted::Silent(Span::from_secs(1))));
        assert_eq!(admission.take(later(2), guest(3, false)).err(), Some(NotAdmitted::Full), "strangers need not know");
        let next = admission.take(later(3), guest(3, true)).expect("the killed one's");
        assert_eq!([&killed, &watching, &next].map(Permit::is_lost), [true, false, false]);
        assert!(!killed.hear(later(4)), "who comes back after that connects anew");
        assert!(watching.hear(later(4)));
    }

    #[test]
    fn one_address_without_a_token_waits_in_half_of_the_places() {
        let admission = Admission::new(4);
        let take = |after: i64, last| admission.take(NOW + Span::from_secs(after), guest(last, false));
        let held = [0, 1].map(|after| take(after, 1).expect("a place"));
        assert_eq!(take(2, 1).err(), Some(wait(3)));
        let others = [2, 3].map(|last| take(2, last).expect("a place"));
        assert_eq!(take(2, 4).err(), Some(NotAdmitted::Full));
        let next = take(5, 1).expect("the first one's time is over");
        assert_eq!([held[0].is_lost(), held[1].is_lost()], [true, false]);
        let later = NOW + Span::from_secs(5);
        assert!([&held[1], &next].into_iter().chain(&others).all(|permit| permit.hear(later)));
        drop(others);
        let household = [6, 6].map(|after| take(after, 1).expect("those who connected do not count"));
        assert!(household.iter().all(|permit| permit.hear(later)));
    }
}
