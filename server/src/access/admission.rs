//! Admission control: how many clients the server admits, and which of them gives way when another one connects.

mod table;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use nearlight_net::subscriber;
use nearlight_rooms::Role;
use nearlight_units::{Span, Time, lock};
use nearlight_urs::signalling::Guest;
use tokio::sync::Notify;

use crate::access::link_register::Credential;
use table::{Holder, PermitTable};

/// Time that a client has to connect before another client may take its permit. Guess: even with 10 % datagram loss, ICE and DTLS
/// complete in less.
const CONNECT_GRACE: Span = Span::from_secs(5);
/// Silence after which another client may take a client's permit: the client was probably killed. A live client is heard many times a
/// second, so an outage of two seconds costs no client its permit.
const MAX_SILENCE: Span = Span::from_secs(3);
/// Silence after which a client may be dead, so that a new client is asked to wait for its permit. A live client is heard after every
/// frame.
pub(crate) const SUSPECT_SILENCE: Span = Span::from_millis(250);

/// Why a client lost its permit to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Displacement {
    /// It had not connected, or was silent.
    Forfeit,
    /// An owner wanted to connect, and this client had been idle for longer than the others.
    Owner,
    /// Clients of its address had more than their share, and one of another address wanted to connect.
    Share,
    /// Its link was revoked, or has expired.
    LinkEnded,
}

impl Displacement {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Forfeit => {
                "its slot was given to another client, because this one had not connected or had gone silent"
            }
            Self::Owner => "its slot was given to an owner of the server; try again when somebody has left",
            Self::Share => {
                "its slot was given to a client at another address, because clients of this one had more than their share"
            }
            Self::LinkEnded => "its link was revoked or has expired; ask the owner for another one",
        }
    }
}

/// A client that asks for a permit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant {
    pub(crate) address: IpAddr,
    /// Whether the client has a token.
    pub(crate) trusted: bool,
    pub(crate) credential: Credential,
}

impl Applicant {
    /// Returns a client that has proved that it knows a token.
    pub(crate) const fn new(address: IpAddr, credential: Credential) -> Self {
        Self { address, trusted: true, credential }
    }
}

impl From<Guest> for Applicant {
    /// A client of Unity's protocol controls the scene, with a token or without.
    fn from(Guest { address, trusted }: Guest) -> Self {
        Self { address, trusted, credential: Credential::of_role(Role::Guest) }
    }
}

/// Issues permits for a bounded number of clients.
pub(crate) struct Admission {
    permits: Mutex<PermitTable>,
}

/// A client's permit, which is returned when it is dropped.
pub(crate) struct Permit {
    admission: Arc<Admission>,
    number: u64,
    lost: Arc<Notify>,
}

/// Why a client gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    Full,
    /// The remaining permits are reserved for clients of a higher role.
    Reserved,
    /// All permits are taken, but one of the clients has been silent for a while. If it stays silent, its permit becomes free after this
    /// time.
    SilentClient(Span),
    /// Clients from the same address hold permits and have not connected. The first of them must connect within this time.
    AddressLimit(Span),
}

impl Admission {
    /// Creates the admission of at most `max_clients` clients. Places are reserved for clients with higher roles, see
    /// [`table::max_holders`].
    pub(crate) fn new(max_clients: usize) -> Arc<Self> {
        Arc::new(Self { permits: Mutex::new(PermitTable::new(max_clients)) })
    }

    /// Ends the clients of these links.
    pub(crate) fn end_links(&self, links: &[u32]) {
        let mut permits = self.permits();
        for number in permits.of_links(links) {
            permits.displace(number, Displacement::LinkEnded);
        }
    }

    fn permits(&self) -> MutexGuard<'_, PermitTable> {
        lock(&self.permits)
    }

    /// Returns how many permits are held.
    pub(crate) fn held(&self) -> usize {
        self.permits().len()
    }

    /// Returns whether a client of this role at an address that holds no permit would get one now.
    pub(crate) fn has_place(&self, now: Time, role: Role) -> bool {
        let (permits, applicant) =
            (self.permits(), Applicant::new(Ipv6Addr::UNSPECIFIED.into(), Credential::of_role(role)));
        let obstacle = permits.obstacle(&applicant);
        obstacle.is_none_or(|obstacle| permits.gives_way(now, &applicant, obstacle).is_some())
    }

    /// Issues a permit for a client that is about to connect.
    ///
    /// If none is free, these give way, in this order:
    /// - a client that has not connected, to any client after [`CONNECT_GRACE`], and before that to a client with a token if it has none
    ///   itself; and a connected client after [`MAX_SILENCE`];
    /// - for an owner: the idlest spectator, and if no owner is there at all the idlest guest;
    /// - for others: the idlest client of the same role at another address, if clients there hold more than half of the role's permits.
    ///
    /// Unconnected clients without a token from one address hold at most half of the permits.
    pub(crate) fn take(self: &Arc<Self>, now: Time, applicant: Applicant) -> Result<Permit, AdmissionError> {
        let applicant = Applicant { address: subscriber(applicant.address), ..applicant };
        let mut permits = self.permits();
        if let Some(obstacle) = permits.obstacle(&applicant) {
            let Some((number, why)) = permits.gives_way(now, &applicant, obstacle) else {
                return Err(permits.refusal(now, &applicant, obstacle));
            };
            permits.displace(number, why);
        }
        let lost = Arc::new(Notify::new());
        let Applicant { address, trusted, credential: Credential { role, link } } = applicant;
        let holder =
            Holder { address, trusted, role, link, since: now, heard: None, active: now, lost: Arc::clone(&lost) };
        Ok(Permit { admission: Arc::clone(self), number: permits.insert(holder), lost })
    }
}

impl Permit {
    /// Records that the client was heard, so it has connected and is alive. Returns false if another client has taken its permit.
    pub(crate) fn on_heard(&self, now: Time) -> bool {
        self.admission.permits().update(self.number, |holder| holder.heard = Some(now))
    }

    /// Records that the user has done something.
    pub(crate) fn on_active(&self, now: Time) {
        self.admission.permits().update(self.number, |holder| holder.active = now);
    }

    /// Returns why another client has taken this permit, or none if it is still held.
    pub(crate) fn displacement(&self) -> Option<Displacement> {
        self.admission.permits().displacement(self.number)
    }

    /// Waits until another client has taken this permit.
    pub(crate) async fn displaced(&self) -> Displacement {
        loop {
            if let Some(why) = self.displacement() {
                return why;
            }
            self.lost.notified().await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.permits().remove(self.number);
    }
}

#[cfg(test)]
mod tests;
