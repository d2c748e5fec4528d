//! The connection of `nearlight serve --nats` and `nearlight front` to other servers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nearlight_fleet::nats::{Carrier, DirectoryEvent};
use nearlight_fleet::{ANNOUNCEMENT_INTERVAL, Announcement, Places};
use nearlight_net::{CertificateHash, Clock, Link};
use nearlight_server::{BoundServer, Observer};
use nearlight_system::own as own_processor_time;
use nearlight_units::{Span, Time};
use tokio::sync::mpsc;

/// Whether this build can speak NATS.
pub(crate) const IS_BUILT: bool = cfg!(feature = "fleet");
pub(crate) const HOW_TO_BUILD: &str = "Build it with the feature `fleet`, which is on by default";
/// Number of announcements over which a server's load is averaged, so that one long frame does not send clients elsewhere.
const AVERAGED_ANNOUNCEMENTS: usize = 5;

/// Connects to the other servers.
#[cfg(feature = "fleet")]
pub(crate) async fn join(url: &str) -> anyhow::Result<Carrier> {
    // A new one for each run, which does not own what an earlier run owned.
    let id = format!("{:016x}", u64::from_be_bytes(*nearlight_net::nonce()?.0.first_chunk().expect("32 bytes")));
    let fleet = nearlight_fleet::nats::connect(url, nearlight_fleet::ServerId::new(&id)?).await?;
    tracing::info!(server = id, "shares its rooms with other servers");
    Ok(fleet)
}

#[cfg(not(feature = "fleet"))]
#[expect(clippy::unused_async, reason = "as with NATS")]
pub(crate) async fn join(_: &str) -> anyhow::Result<Carrier> {
    anyhow::bail!("this build has no NATS support. {HOW_TO_BUILD}")
}

/// Reads the servers' announcements.
#[cfg(feature = "fleet")]
pub(crate) async fn watch(url: &str) -> anyhow::Result<mpsc::Receiver<DirectoryEvent>> {
    Ok(nearlight_fleet::nats::watch(url).await?)
}

#[cfg(not(feature = "fleet"))]
#[expect(clippy::unused_async, reason = "as with NATS")]
pub(crate) async fn watch(_: &str) -> anyhow::Result<mpsc::Receiver<DirectoryEvent>> {
    anyhow::bail!("this build has no NATS support. {HOW_TO_BUILD}")
}

/// Tells fronts of this server.
pub(crate) struct Announcer {
    carrier: Carrier,
    clock: Clock,
    link: Mutex<Link>,
    check: String,
    /// Places for clients and for members.
    capacity: [usize; 2],
}

impl Announcer {
    pub(crate) fn new(carrier: Carrier, clock: Clock, server: &BoundServer, capacity: [usize; 2]) -> Self {
        let (link, check) = (Mutex::new(server.public_link()), server.token_check());
        Self { carrier, clock, link, check, capacity }
    }

    pub(crate) fn on_renewal(&self, certificate: CertificateHash) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        *link = link.renewed(certificate);
    }

    /// Announces the server as it is, again and again.
    pub(crate) async fn run(&self, observer: &Observer) {
        let mut load = Load::default();
        loop {
            let now = self.clock.now();
            let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).to_string();
            let places = |taken: usize, capacity: usize| {
                let [taken, capacity] = [taken, capacity].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                Places { taken, capacity }
            };
            let [clients, members] = self.capacity;
            self.carrier.announce(Some(Announcement {
                clients: places(observer.clients(), clients),
                members: places(observer.members(), members),
                load: load.on_time(now, own_processor_time()),
                rooms: observer.rooms(),
                ..Announcement::new(link, self.check.clone())
            }));
            self.clock.sleep_until(now + ANNOUNCEMENT_INTERVAL).await;
        }
    }

    /// The server closes: nobody is to be sent here.
    pub(crate) fn withdraw(&self) {
        self.carrier.announce(None);
    }
}

/// The share of the machine's processors that this program used lately; 0 where the system does not tell.
#[derive(Default)]
struct Load {
    samples: VecDeque<(Time, Span)>,
}

impl Load {
    fn on_time(&mut self, now: Time, used: Option<Span>) -> f64 {
        let Some(used) = used else { return 0.0 };
        self.samples.push_back((now, used));
        if self.samples.len() > AVERAGED_ANNOUNCEMENTS + 1 {
            self.samples.pop_front();
        }
        let Some((since, before)) = self.samples.front() else { return 0.0 };
        let passed = (now - *since).as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        if passed > 0.0 { ((used - *before).as_secs_f64() / passed / processors).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_last_seconds() {
        let mut load = Load::default();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let mut last = 0.0;
        for second in 0..20 {
            // Busy with one processor for ten seconds, then idle.
            last = load.on_time(Time::from_secs(second), Some(Span::from_secs(second.min(10) as i64)));
            if second == 10 {
                assert!((last - 1.0 / processors).abs() < 1e-9, "{last}");
            }
        }
        assert!(last.abs() < 1e-9, "{last}");
        assert!(load.on_time(Time::from_secs(20), None).abs() < 1e-9);
    }
}
