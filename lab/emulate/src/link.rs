//! A link: the creation of its ends, and its threads.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::{fmt, fs, io};

use nearlight_link::LoadedPath;
use nearlight_wifi::{Cells, ConfigError, Direction, Users};
use rustix::io::Errno;

use crate::gateway::{Gateway, Target};
use crate::namespaces::{self, CommandNamespace, NamespacePlan, Namespaces, no_interface};
use crate::pump::{Paths, Pump};
use crate::relay::Relay;
use crate::report::Report;
use crate::tun::{self, Layer, Tun};
use nearlight_system::end_with_this_thread;

/// The method by which a link is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMethod {
    /// A pair of interfaces: one on this machine, one in a network namespace with the command. Needs root.
    Root,
    /// Both interfaces in a user namespace, and a gateway from there to this machine's services (127.0.0.1).
    User,
    /// A relay for the datagrams of one service, without namespaces.
    Relay,
}

impl LinkMethod {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
            Self::Relay => "relay",
        }
    }
}

impl fmt::Display for LinkMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Root => "interfaces made by root",
            Self::User => "interfaces in a user namespace",
            Self::Relay => "a relay for UDP",
        })
    }
}

/// The methods that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodChoice {
    /// The first of root, user and, where the service is known, relay that works.
    #[default]
    Any,
    Only(LinkMethod),
}

/// The configuration of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The path from the command to the host.
    pub up: LoadedPath,
    /// The path from the host to the command.
    pub down: LoadedPath,
    /// Random seeds of the paths up and down.
    pub seeds: [u64; 2],
    pub layer: Layer,
    pub wanted: MethodChoice,
    /// The service behind a relay.
    pub service: Option<SocketAddr>,
}

/// A method that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodError {
    pub means: LinkMethod,
    pub reason: String,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no link could be set up:{}", listed(.0))]
    Refused(Vec<MethodError>),
    #[error(transparent)]
    Cell(#[from] ConfigError),
    #[error("cannot start the link's threads: {0}")]
    Thread(#[from] io::Error),
}

fn listed(refusals: &[MethodError]) -> String {
    refusals.iter().fold(String::new(), |list, MethodError { means, reason }| format!("{list}\n  {means}: {reason}"))
}

/// A running link; dropping it closes it.
pub struct Link {
    means: LinkMethod,
    refused: Vec<MethodError>,
    host: IpAddr,
    port: Option<u16>,
    inside: Option<Arc<CommandNamespace>>,
    pump: Pump,
    counters: Option<[Counters; 2]>,
    written: [String; 2],
    /// Serves the far end until it is dropped.
    _gateway: Option<Gateway>,
}

/// The kernel's counters of packets that an interface dropped.
struct Counters {
    table: OwnedFd,
    interface: String,
}

/// Links created as root take their addresses from 10.77.0.0/16, four each.
const MAX_NETWORKS: u8 = 250;

/// The host's address on link number `index`, and the command's.
fn addresses(index: u8) -> (Ipv4Addr, Ipv4Addr) {
    (Ipv4Addr::new(10, 77, index, 1), Ipv4Addr::new(10, 77, index, 2))
}

impl Link {
    /// Creates the ends and starts to move packets; time zero of the paths is now.
    pub fn open(options: &LinkOptions) -> Result<Self, OpenError> {
        let candidates: &[LinkMethod] = match &options.wanted {
            MethodChoice::Any => &[LinkMethod::Root, LinkMethod::User, LinkMethod::Relay],
            MethodChoice::Only(means) => std::slice::from_ref(means),
        };
        let mut refused = Vec::new();
        for &means in candidates {
            let made = match means {
                LinkMethod::Root => Self::as_root(options),
                LinkMethod::User => Self::as_user(options),
                LinkMethod::Relay => Self::as_relay(options),
            };
            match made {
                Ok(link) => return Ok(Self { refused, ..link }),
                Err(SetupError::Refused(reason)) => refused.push(MethodError { means, reason }),
                Err(SetupError::Cell(error)) => return Err(error.into()),
                Err(SetupError::Thread(error)) => return Err(error.into()),
            }
        }
        Err(OpenError::Refused(refused))
    }

    fn as_root(options: &LinkOptions) -> Result<Self, SetupError> {
        let (index, far) = host_interface(options.layer)?;
        let (host, inside) = addresses(index);
        let name = interface_name(index);
        if options.layer == Layer::Ethernet {
            // Otherwise the host's announcements would cross the link too. If it cannot be disabled, they do.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        let table = fs::File::open("/proc/thread-self/net/dev").map_err(SetupError::Thread)?.into();
        let plan = NamespacePlan { layer: options.layer, inside, host, user: false };
        let Namespaces { inside, near, .. } = namespaces::make(&plan).map_err(|failure| failure.to_string())?;
        let counters = [Counters::inside(near.counters), Counters { table, interface: name }];
        let (near, far) = (Tun::new(near.device, options.layer), Tun::new(far, options.layer));
        let pump = Pump::start(near, far, options.paths()?).map_err(SetupError::Thread)?;
        Ok(Self {
            inside: Some(Arc::new(inside)),
            counters: Some(counters),
            ..options.link(LinkMethod::Root, host, pump)
        })
    }

    fn as_user(options: &LinkOptions) -> Result<Self, SetupError> {
        let (host, inside) = addresses(0);
        let plan = NamespacePlan { layer: options.layer, inside, host, user: true };
        let Namespaces { inside, near, far } = namespaces::make(&plan).map_err(|failure| failure.to_string())?;
        let far = far.ok_or_else(|| "the far end is missing".to_owned())?;
        let gateway = Gateway::start(far.listener, Some(far.datagrams), Target::Ports).map_err(SetupError::Thread)?;
        let counters = [Counters::inside(near.counters), Counters::inside(far.counters)];
        let near = Tun::new(near.device, options.layer);
        let far = Tun::new(far.device, options.layer).with_gateway_for(host);
        let pump = Pump::start(near, far, options.paths()?).map_err(SetupError::Thread)?;
        Ok(Self {
            inside: Some(Arc::new(inside)),
            counters: Some(counters),
            _gateway: Some(gateway),
            ..options.link(LinkMethod::User, host, pump)
        })
    }

    fn as_relay(options: &LinkOptions) -> Result<Self, SetupError> {
        let service = options.service.ok_or_else(|| {
            "it forwards to one service, and none is specified; add --service, such as --service 127.0.0.1:8090"
                .to_owned()
        })?;
        let Relay { near, far, address, gateway } = Relay::open(service).map_err(|error| error.to_string())?;
        let pump = Pump::start(near, far, options.paths()?).map_err(SetupError::Thread)?;
        let link = options.link(LinkMethod::Relay, Ipv4Addr::LOCALHOST, pump);
        Ok(Self { port: Some(address.port()), _gateway: Some(gateway), ..link })
    }

    #[must_use]
    pub fn means(&self) -> LinkMethod {
        self.means
    }

    /// The means tried before, and why they failed.
    #[must_use]
    pub fn refused(&self) -> &[MethodError] {
        &self.refused
    }

    /// The host's address as seen by the command.
    #[must_use]
    pub fn host(&self) -> IpAddr {
        self.host
    }

    /// The only port there, for a relay.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns whether the link's thread has real-time priority, which keeps packets from being late on a busy machine.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.pump.is_real_time()
    }

    /// Makes `command` start behind the link, and end when the calling thread does.
    ///
    /// It finds the host's address in `NEARLIGHT_LINK_HOST` and a relay's port in `NEARLIGHT_LINK_PORT`.
    pub fn enter(&self, command: &mut Command) {
        command.env("NEARLIGHT_LINK_HOST", self.host.to_string());
        if let Some(port) = self.port {
            command.env("NEARLIGHT_LINK_PORT", port.to_string());
        }
        let inside = self.inside.clone();
        let enter = move || inside.as_ref().map_or(Ok(()), |inside| inside.enter().map_err(io::Error::from));
        // SAFETY: the closure makes system calls only, on descriptors that the link keeps open.
        #[expect(unsafe_code, reason = "entering a namespace happens between fork and exec")]
        unsafe {
            command.pre_exec(enter);
        }
        // The link ends with this process; the command would then wait for answers forever.
        end_with_this_thread(command);
    }

    /// The statistics so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let moved = self.pump.moved();
        let unread = self.counters.as_ref().map_or([0; 2], |both| both.each_ref().map(Counters::unread));
        Report {
            means: self.means.name(),
            host: self.host.to_string(),
            seconds: moved.seconds,
            cpu_seconds: moved.cpu_seconds,
            real_time: self.is_real_time(),
            up: moved.up.report(&self.written[0], unread[0]),
            down: moved.down.report(&self.written[1], unread[1]),
        }
    }
}

impl LinkOptions {
    /// Both directions belong to one session and share the same cells.
    fn paths(&self) -> Result<Paths, SetupError> {
        let [seed_up, seed_down] = self.seeds;
        let mut cells = Cells::new(1, seed_up);
        let mut way =
            |path, seed, direction| cells.path(path, seed, Users::One(0), direction).map_err(SetupError::Cell);
        let up = way(&self.up, seed_up, Direction::Uplink)?;
        let down = way(&self.down, seed_down, Direction::Downlink)?;
        Ok(Paths { up, down })
    }

    /// The parts that every link has; no command runs behind it yet.
    fn link(&self, means: LinkMethod, host: Ipv4Addr, pump: Pump) -> Link {
        Link {
            means,
            refused: Vec::new(),
            host: host.into(),
            port: None,
            inside: None,
            pump,
            counters: None,
            written: [self.up.spec().to_string(), self.down.spec().to_string()],
            _gateway: None,
        }
    }
}

/// Why a method failed.
enum SetupError {
    /// Another method may work.
    Refused(String),
    Cell(ConfigError),
    Thread(io::Error),
}

impl From<String> for SetupError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

impl Counters {
    fn inside(table: OwnedFd) -> Self {
        Self { table, interface: interface_name(0) }
    }

    fn unread(&self) -> u64 {
        namespaces::unread(&self.table, &self.interface)
    }
}

fn interface_name(index: u8) -> String {
    format!("nearlight{index}")
}

/// The first interface behind this process's last one whose name and network are unused on this machine.
///
/// Packets that a service still sends to a closed link, TCP for minutes, would reach the next link with the same address.
fn host_interface(layer: Layer) -> Result<(u8, OwnedFd), SetupError> {
    static OPENED: AtomicU8 = AtomicU8::new(0);
    let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    let first = OPENED.load(Ordering::Relaxed);
    for index in (first..MAX_NETWORKS).chain(0..first) {
        let (host, _) = addresses(index);
        if is_routed(&routes, host) {
            continue;
        }
        match tun::create(&interface_name(index), layer, host) {
            Ok(device) => {
                OPENED.store((index + 1) % MAX_NETWORKS, Ordering::Relaxed);
                return Ok((index, device));
            }
            Err(Errno::BUSY) => {}
            Err(error) => return Err(no_interface(error).into()),
        }
    }
    Err("every network of 10.77.0.0/16 is in use on this machine".to_owned().into())
}

/// Returns whether a route other than the default one leads to the address, by the kernel's table.
fn is_routed(table: &str, address: Ipv4Addr) -> bool {
    let number = |text: Option<&str>| u32::from_str_radix(text?, 16).ok().map(u32::from_be);
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace();
        let (network, mask) = (number(columns.nth(1)), number(columns.nth(5)));
        network.zip(mask).is_some_and(|(network, mask)| mask != 0 && u32::from(address) & mask == network)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_in_use_are_found_in_the_kernels_table() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     nearlight3\t00034D0A\t00000000\t0001\t0\t0\t0\tFCFFFFFF\t0\t0\t0\n\
                     vpn\t00404D0A\t00000000\t0001\t0\t0\t0\t00C0FFFF\t0\t0\t0\n";
        for (index, used) in [(0, false), (2, false), (3, true), (4, false), (64, true), (127, true), (128, false)] {
            assert_eq!(is_routed(table, addresses(index).0), used, "{index}");
        }
    }

    #[test]
    fn what_was_tried_is_listed() {
        let refusal = |means, reason: &str| MethodError { means, reason: reason.to_owned() };
        let error = OpenError::Refused(vec![refusal(LinkMethod::Root, "no"), refusal(LinkMethod::Relay, "neither")]);
        assert_eq!(
            error.to_string(),
            "no link could be set up:\n  interfaces made by root: no\n  a relay for UDP: neither"
        );
    }
}
