//! Network namespaces with an end of the link in each, held by descriptors alone.
//!
//! A child process creates them, because only a process without threads may enter a new user namespace. It sends the descriptors back and exits. When
//! this process ends in any way, the interfaces are removed.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrV4, SocketFlags, SocketType,
};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::sys::{self, Interface};
use crate::translate::{GATEWAY_PORT, PORTS_MASK, PORTS_NETWORK};
use crate::tun::{self, Layer};

/// The interface's name inside.
const INSIDE_NAME: &str = "nearlight0";

/// The namespaces that the child creates.
pub(crate) struct NamespacePlan {
    pub(crate) layer: Layer,
    /// The command's address.
    pub(crate) inside: Ipv4Addr,
    /// The host's address.
    pub(crate) host: Ipv4Addr,
    /// Use a user namespace, with the far end in a separate network namespace.
    pub(crate) user: bool,
}

/// The namespace in which a command can be started.
pub(crate) struct CommandNamespace {
    user: Option<OwnedFd>,
    network: OwnedFd,
}

/// The near end.
pub(crate) struct NearInterface {
    pub(crate) device: OwnedFd,
    /// Counters of the namespace's interfaces, as the kernel prints them.
    pub(crate) counters: OwnedFd,
}

/// The far end in a user namespace, with the sockets of its gateway.
pub(crate) struct FarInterface {
    pub(crate) device: OwnedFd,
    pub(crate) counters: OwnedFd,
    pub(crate) listener: TcpListener,
    pub(crate) datagrams: UdpSocket,
}

/// Everything that the child created.
pub(crate) struct Namespaces {
    pub(crate) inside: CommandNamespace,
    pub(crate) near: NearInterface,
    pub(crate) far: Option<FarInterface>,
}

/// The step at which the child failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    User,
    Identity,
    Network,
    Interface,
    Route,
    Gateway,
    Describe,
    Send,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::User,
        Self::Identity,
        Self::Network,
        Self::Interface,
        Self::Route,
        Self::Gateway,
        Self::Describe,
        Self::Send,
    ];
}

/// Why there are no namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct NamespaceError {
    pub(crate) step: Step,
    pub(crate) error: Errno,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error;
        match (self.step, error) {
            (Step::User, Errno::PERM | Errno::NOSPC | Errno::USERS | Errno::INVAL) => write!(
                formatter,
                "this system does not let users create namespaces ({error}; see kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces in sysctl)"
            ),
            (Step::User, _) => write!(formatter, "a user namespace: {error}"),
            (Step::Identity, _) => write!(formatter, "keeping the user's identity in the namespace: {error}"),
            (Step::Network, Errno::PERM) => {
                write!(formatter, "a network namespace needs root's CAP_SYS_ADMIN ({error})")
            }
            (Step::Network, _) => write!(formatter, "a network namespace: {error}"),
            (Step::Interface, _) => formatter.write_str(&no_interface(error)),
            (Step::Route, _) => write!(formatter, "a route inside: {error}"),
            (Step::Gateway, _) => write!(formatter, "the gateway's sockets: {error}"),
            (Step::Describe, _) => write!(formatter, "reading what was made from /proc: {error}"),
            (Step::Send, _) => write!(formatter, "the child that makes namespaces: {error}"),
        }
    }
}

/// Why there is no interface, and what would help.
pub(crate) fn no_interface(error: Errno) -> String {
    match error {
        Errno::PERM => format!("creating a network interface needs CAP_NET_ADMIN ({error})"),
        Errno::ACCESS => format!("cannot open /dev/net/tun ({error}); as root: chmod 666 /dev/net/tun"),
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            format!("there is no /dev/net/tun ({error}); as root: modprobe tun")
        }
        other => format!("a network interface: {other}"),
    }
}

/// Creates the namespaces.
pub(crate) fn make(plan: &NamespacePlan) -> Result<Namespaces, NamespaceError> {
    let failed = |step| move |error| NamespaceError { step, error };
    let flags = SocketFlags::CLOEXEC;
    let (here, there) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed(Step::Send))?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let identity = Identity { users: format!("{user} {user} 1"), groups: format!("{group} {group} 1") };
    let work = || {
        if let Err(failure) = build(plan, &identity, there.as_fd()) {
            let step = Step::ALL.iter().position(|step| *step == failure.step).unwrap_or(0) as u8;
            let error = failure.error.raw_os_error().to_ne_bytes();
            let message = [step, error[0], error[1], error[2], error[3]];
            // If not even this works, the parent sees that the child has exited.
            let _ = rustix::net::send(&there, &message, SendFlags::NOSIGNAL);
        }
    };
    // SAFETY: the closure and what it calls use arrays and descriptors only; `build` says so too.
    #[expect(unsafe_code, reason = "the child makes system calls only")]
    let child = unsafe { sys::in_child(work) }.map_err(failed(Step::Send))?;
    drop(there);
    let answer = receive(here.as_fd());
    // It exits after its one message; only a signal to this process can interrupt the wait.
    while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
    let mut descriptors = answer?.into_iter();
    let mut next = || descriptors.next().ok_or(NamespaceError { step: Step::Send, error: Errno::PROTO });
    let near = NearInterface { device: next()?, counters: next()? };
    let network = next()?;
    if !plan.user {
        return Ok(Namespaces { inside: CommandNamespace { user: None, network }, near, far: None });
    }
    let inside = CommandNamespace { user: Some(next()?), network };
    let (device, counters, listener, datagrams) = (next()?, next()?, next()?.into(), next()?.into());
    Ok(Namespaces { inside, near, far: Some(FarInterface { device, counters, listener, datagrams }) })
}

/// Descriptors that pass from the child at most.
const MAX_DESCRIPTORS: usize = 8;

fn receive(socket: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, NamespaceError> {
    let failed = |error| NamespaceError { step: Step::Send, error };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8];
    let message = loop {
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other.map_err(failed)?,
        }
    };
    match bytes[..message.bytes] {
        [] => return Err(failed(Errno::PIPE)),
        [step, a, b, c, d] => {
            let step = Step::ALL.get(usize::from(step)).copied().unwrap_or(Step::Send);
            return Err(NamespaceError { step, error: Errno::from_raw_os_error(i32::from_ne_bytes([a, b, c, d])) });
        }
        _ => {}
    }
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(rights.flatten().collect())
}

/// Lines for the maps of a user namespace: users and groups keep their ids.
struct Identity {
    users: String,
    groups: String,
}

/// The child's part: system calls only, nothing on the heap.
fn build(plan: &NamespacePlan, identity: &Identity, channel: BorrowedFd<'_>) -> Result<(), NamespaceError> {
    let at = |step| move |error| NamespaceError { step, error };
    if plan.user {
        sys::leave_for_new(UnshareFlags::NEWUSER).map_err(at(Step::User))?;
        // Without this line the kernel refuses the map of groups.
        write(c"/proc/thread-self/setgroups", b"deny").map_err(at(Step::Identity))?;
        write(c"/proc/thread-self/uid_map", identity.users.as_bytes()).map_err(at(Step::Identity))?;
        write(c"/proc/thread-self/gid_map", identity.groups.as_bytes()).map_err(at(Step::Identity))?;
    }
    sys::leave_for_new(UnshareFlags::NEWNET).map_err(at(Step::Network))?;
    start_loopback().map_err(at(Step::Interface))?;
    let near = tun::create(INSIDE_NAME, plan.layer, plan.inside).map_err(at(Step::Interface))?;
    let route = Interface::named(INSIDE_NAME).and_then(|interface| interface.set_gateway(plan.host));
    route.map_err(at(Step::Route))?;
    let near_counters = read_only(c"/proc/thread-self/net/dev").map_err(at(Step::Describe))?;
    let network = read_only(c"/proc/thread-self/ns/net").map_err(at(Step::Describe))?;
    if !plan.user {
        return send(channel, &[near.as_fd(), near_counters.as_fd(), network.as_fd()]).map_err(at(Step::Send));
    }
    let user = read_only(c"/proc/thread-self/ns/user").map_err(at(Step::Describe))?;

    sys::leave_for_new(UnshareFlags::NEWNET).map_err(at(Step::Network))?;
    start_loopback().map_err(at(Step::Interface))?;
    // On the loopback interface all addresses of a network are local, not only the one that is set.
    let ports = Interface::named("lo:1").and_then(|alias| alias.set_address(PORTS_NETWORK, PORTS_MASK));
    ports.map_err(at(Step::Gateway))?;
    let far = tun::create(INSIDE_NAME, plan.layer, plan.host).map_err(at(Step::Interface))?;
    let far_counters = read_only(c"/proc/thread-self/net/dev").map_err(at(Step::Describe))?;
    let listener = gateway_socket(SocketType::STREAM).map_err(at(Step::Gateway))?;
    rustix::net::listen(&listener, 128).map_err(at(Step::Gateway))?;
    let datagrams = gateway_socket(SocketType::DGRAM).map_err(at(Step::Gateway))?;
    let made = [
        near.as_fd(),
        near_counters.as_fd(),
        network.as_fd(),
        user.as_fd(),
        far.as_fd(),
        far_counters.as_fd(),
        listener.as_fd(),
        datagrams.as_fd(),
    ];
    send(channel, &made).map_err(at(Step::Send))
}

fn start_loopback() -> Result<(), Errno> {
    Interface::named("lo")?.set_up()
}

fn read_only(file: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn write(file: &std::ffi::CStr, line: &[u8]) -> Result<(), Errno> {
    let file = open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, line).map(drop)
}

fn gateway_socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, GATEWAY_PORT))?;
    Ok(socket)
}

fn send(channel: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    rustix::net::sendmsg(channel, &[io::IoSlice::new(b"made")], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

impl CommandNamespace {
    /// Moves the calling process, which has no threads, into the namespace. System calls only.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))
    }
}

/// Packets that the interface `name` dropped before the link read them, from the counters of its namespace.
pub(crate) fn unread(counters: &OwnedFd, name: &str) -> u64 {
    let mut text = vec![0; 16_384];
    let length = rustix::io::pread(counters, &mut text, 0).unwrap_or(0);
    dropped_of(&String::from_utf8_lossy(&text[..length]), name)
}

/// The twelfth number of the interface's line in /proc/net/dev: packets to be sent that were dropped.
fn dropped_of(text: &str, name: &str) -> u64 {
    let line = text.lines().filter_map(|line| line.split_once(':')).find(|(interface, _)| interface.trim() == name);
    line.and_then(|(_, numbers)| numbers.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_packets_are_found_in_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls \
                    carrier compressed\n    lo:       0       0    0    0    0     0          0         0        0       0    0    \
                    9    0     0       0          0\nnearlight0:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!((dropped_of(text, "nearlight0"), dropped_of(text, "lo"), dropped_of(text, "eth0")), (12, 9, 0));
    }

    #[test]
    fn failures_say_what_would_help() {
        for (step, error, words) in [
            (Step::User, Errno::PERM, "user.max_user_namespaces"),
            (Step::Network, Errno::PERM, "CAP_SYS_ADMIN"),
            (Step::Interface, Errno::PERM, "CAP_NET_ADMIN"),
            (Step::Interface, Errno::ACCESS, "chmod 666"),
            (Step::Interface, Errno::NOENT, "modprobe tun"),
        ] {
            let text = NamespaceError { step, error }.to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
