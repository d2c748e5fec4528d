//! The connection of `nearlight serve --nats` and `nearlight front` to other servers.

use std::collections::VecDeque;
use std::path::PathBuf;

#[cfg(feature = "fleet")]
use anyhow::Context as _;
use clap::Args;
#[cfg(feature = "fleet")]
use nearlight_fleet::FleetKey;
use nearlight_fleet::nats::{Carrier, DirectoryEvent};
#[cfg(feature = "fleet")]
use nearlight_fleet::nats::{NatsError, NatsOptions};
use nearlight_fleet::{ANNOUNCEMENT_INTERVAL, Announcement, Places};
use nearlight_net::{Clock, Link, Token};
use nearlight_server::{BoundServer, Observer};
use nearlight_system::own as own_processor_time;
use nearlight_units::{Span, Time};
use tokio::sync::mpsc;

/// Whether this build can speak NATS.
pub(crate) const IS_BUILT: bool = cfg!(feature = "fleet");
pub(crate) const HOW_TO_BUILD: &str = "Build it with the feature `fleet`, which is on by default";
/// Number of announcements over which a server's load is averaged, so that one long frame does not send clients elsewhere.
const AVERAGED_ANNOUNCEMENTS: usize = 5;

/// Shortest and longest wait before another attempt to reach NATS at the start: NATS may start after the server, and a fleet that waits for
/// it must not be a burden to it.
#[cfg(feature = "fleet")]
const RETRY_INTERVALS: [Span; 2] = [Span::from_millis(250), Span::from_secs(5)];
/// Longest file of credentials or of a key, in bytes. Guess: many times the length of a user's JWT.
#[cfg(feature = "fleet")]
const MAX_SECRET_FILE_BYTES: u64 = 64 << 10;

/// How this server or front identifies itself to NATS, and to the other servers.
#[derive(Clone, Debug, Args)]
pub(crate) struct FleetSecurity {
    /// File with credentials for NATS: a user's JWT and seed (.creds), or the seed of a user's `NKey`
    #[arg(long, value_name = "FILE", env = "NEARLIGHT_NATS_CREDENTIALS")]
    nats_credentials: Option<PathBuf>,
    /// PEM file with the authority of NATS' certificate, for a URL with tls:// [default: the system's authorities]
    #[arg(long, value_name = "FILE", env = "NEARLIGHT_NATS_CA")]
    nats_ca: Option<PathBuf>,
    /// File with the key that servers and fronts of a fleet share, which seals what they send over NATS [default: derived from the token]
    #[arg(long, value_name = "FILE", env = "NEARLIGHT_FLEET_KEY")]
    fleet_key: Option<PathBuf>,
}

impl FleetSecurity {
    /// The files that are read after the sandbox has been entered.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.nats_credentials, &self.nats_ca, &self.fleet_key].into_iter().flatten().cloned()
    }

    #[cfg(feature = "fleet")]
    fn nats(&self, url: &str) -> anyhow::Result<NatsOptions> {
        let options = NatsOptions::new(url)?.with_authorities(self.nats_ca.clone());
        let Some(file) = &self.nats_credentials else { return Ok(options) };
        let contents = String::from_utf8(read_secret(file)?).unwrap_or_default();
        options.with_credentials(&contents).with_context(|| format!("cannot use {}", file.display()))
    }

    #[cfg(feature = "fleet")]
    fn key(&self, token: Option<&Token>) -> anyhow::Result<FleetKey> {
        match (&self.fleet_key, token) {
            (Some(file), _) => {
                FleetKey::new(&read_secret(file)?).with_context(|| format!("cannot use {}", file.display()))
            }
            (None, Some(token)) => Ok(FleetKey::new(token.to_string().as_bytes())?),
            (None, None) => anyhow::bail!(
                "servers that share rooms need a common secret: start all of them with the same --token (or NEARLIGHT_TOKEN), or with the same --fleet-key FILE"
            ),
        }
    }
}

#[cfg(feature = "fleet")]
fn read_secret(file: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut contents = Vec::new();
    let opened = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    opened
        .take(MAX_SECRET_FILE_BYTES)
        .read_to_end(&mut contents)
        .with_context(|| format!("cannot read {}", file.display()))?;
    Ok(contents)
}

/// Repeats an attempt to reach NATS, with a word in the log, until it succeeds or cannot succeed.
#[cfg(feature = "fleet")]
async fn until_reached<T>(clock: Clock, attempt: impl AsyncFn() -> Result<T, NatsError>) -> anyhow::Result<T> {
    let [mut wait, longest] = RETRY_INTERVALS;
    loop {
        match attempt().await {
            Ok(reached) => return Ok(reached),
            Err(error) if error.is_permanent() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "waits for NATS; tries again in {:.2} s", wait.as_secs_f64());
                // A line that is held back for the link would not be seen before NATS is there.
                crate::log::release();
            }
        }
        clock.sleep_until(clock.now() + wait).await;
        wait = longest.min(wait * 2);
    }
}

/// Connects to the other servers, as soon as NATS is there. `token` is the one that the user has chosen.
#[cfg(feature = "fleet")]
pub(crate) async fn join(
    url: &str,
    security: &FleetSecurity,
    token: Option<&Token>,
    clock: Clock,
) -> anyhow::Result<Carrier> {
    // A new one for each run, which does not own what an earlier run owned.
    let id = format!("{:016x}", u64::from_be_bytes(*nearlight_net::nonce()?.0.first_chunk().expect("32 bytes")));
    let (options, key, me) = (security.nats(url)?, security.key(token)?, nearlight_fleet::ServerId::new(&id)?);
    let fleet = until_reached(clock, async || nearlight_fleet::nats::connect(&options, &key, me.clone()).await).await?;
    tracing::info!(server = id, "shares its rooms with other servers");
    Ok(fleet)
}

#[cfg(not(feature = "fleet"))]
#[expect(clippy::unused_async, reason = "as with NATS")]
pub(crate) async fn join(_: &str, _: &FleetSecurity, _: Option<&Token>, _: Clock) -> anyhow::Result<Carrier> {
    anyhow::bail!("this build has no NATS support. {HOW_TO_BUILD}")
}

/// Reads the servers' announcements, as soon as NATS is there.
#[cfg(feature = "fleet")]
pub(crate) async fn watch(
    url: &str,
    security: &FleetSecurity,
    token: &Token,
    clock: Clock,
) -> anyhow::Result<mpsc::Receiver<DirectoryEvent>> {
    let (options, key) = (security.nats(url)?, security.key(Some(token))?);
    until_reached(clock, async || nearlight_fleet::nats::watch(&options, &key).await).await
}

#[cfg(not(feature = "fleet"))]
#[expect(clippy::unused_async, reason = "as with NATS")]
pub(crate) async fn watch(
    _: &str,
    _: &FleetSecurity,
    _: &Token,
    _: Clock,
) -> anyhow::Result<mpsc::Receiver<DirectoryEvent>> {
    anyhow::bail!("this build has no NATS support. {HOW_TO_BUILD}")
}

/// Tells fronts of this server.
pub(crate) struct Announcer {
    carrier: Carrier,
    clock: Clock,
    link: Link,
    check: String,
    /// Places for clients and for members.
    capacity: [usize; 2],
}

impl Announcer {
    pub(crate) fn new(carrier: Carrier, clock: Clock, server: &BoundServer, capacity: [usize; 2]) -> Self {
        let (link, check) = (server.public_link(), server.token_check());
        Self { carrier, clock, link, check, capacity }
    }

    /// Announces the server as it is, again and again.
    pub(crate) async fn run(&self, observer: &Observer) {
        let mut load = Load::default();
        loop {
            let now = self.clock.now();
            let link = self.link.to_string();
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
