//! The system calls that have no safe wrapper elsewhere: interfaces' settings, a child without a program, priorities.

#![expect(unsafe_code, reason = "system calls that no crate wraps; each block says why it is sound")]

use std::ffi::{c_char, c_int};
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::Pid;

use crate::tun::Layer;

/// Calls `ioctl` with an argument that is the structure at `argument`.
///
/// # Safety
/// `T` is the structure that `request` reads and writes.
unsafe fn control<T>(descriptor: BorrowedFd<'_>, request: libc::Ioctl, argument: &mut T) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and the caller guarantees a valid argument, which lives until the call returns.
    let answer = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if answer < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> Errno {
    // SAFETY: the address of this thread's `errno` is valid for as long as the thread runs.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// A request about the interface `name`.
fn about(name: &str) -> libc::ifreq {
    // SAFETY: a structure of integers, addresses and a union of such; zeros are valid for all of them.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request
}

/// Creates the interface `name`, which lives as long as the descriptor; `EBUSY` if there is one of that name.
pub(crate) fn create_interface(name: &str, layer: Layer) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(c"/dev/net/tun", flags, Mode::empty())?;
    let kind = match layer {
        Layer::Ip => libc::IFF_TUN,
        Layer::Ethernet => libc::IFF_TAP,
    };
    let mut request = about(name);
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as i16;
    // SAFETY: TUNSETIFF takes an `ifreq`.
    unsafe { control(device.as_fd(), libc::TUNSETIFF, &mut request) }?;
    Ok(device)
}

/// Settings of an interface in the network namespace of the calling thread.
pub(crate) struct Interface<'a> {
    name: &'a str,
    socket: OwnedFd,
}

impl<'a> Interface<'a> {
    pub(crate) fn named(name: &'a str) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(Self { name, socket })
    }

    fn set(&self, what: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> Result<(), Errno> {
        let mut request = about(self.name);
        fill(&mut request);
        // SAFETY: only called with requests of the SIOC[GS]IF family, which take an `ifreq`.
        unsafe { control(self.socket.as_fd(), what, &mut request) }
    }

    pub(crate) fn set_address(&self, address: Ipv4Addr, mask: Ipv4Addr) -> Result<(), Errno> {
        self.set(libc::SIOCSIFADDR, |request| request.ifr_ifru.ifru_addr = socket_address(address))?;
        self.set(libc::SIOCSIFNETMASK, |request| request.ifr_ifru.ifru_netmask = socket_address(mask))
    }

    pub(crate) fn set_longest_packet(&self, longest: u16) -> Result<(), Errno> {
        self.set(libc::SIOCSIFMTU, |request| request.ifr_ifru.ifru_mtu = c_int::from(longest))
    }

    /// Sets how many packets may wait for the link to read them. Uses netlink: the older call is refused in user namespaces.
    pub(crate) fn set_queue(&self, packets: u32) -> Result<(), Errno> {
        let mut request = about(self.name);
        // SAFETY: SIOCGIFINDEX takes an `ifreq`.
        unsafe { control(self.socket.as_fd(), libc::SIOCGIFINDEX, &mut request) }?;
        // SAFETY: the call has filled in the index, and any bytes are an integer.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        set_queue_length(index, packets)
    }

    pub(crate) fn set_up(&self) -> Result<(), Errno> {
        let flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        self.set(libc::SIOCSIFFLAGS, |request| request.ifr_ifru.ifru_flags = flags)
    }

    /// Sets `gateway` as the default route.
    pub(crate) fn set_gateway(&self, gateway: Ipv4Addr) -> Result<(), Errno> {
        // SAFETY: a structure of integers, addresses and a pointer to a name that may be null.
        let mut route: libc::rtentry = unsafe { mem::zeroed() };
        route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_gateway = socket_address(gateway);
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        // SAFETY: SIOCADDRT takes an `rtentry`.
        unsafe { control(self.socket.as_fd(), libc::SIOCADDRT, &mut route) }
    }
}

/// Sets the queue length of the interface with this index over netlink, in packets (rtnetlink(7)).
fn set_queue_length(index: c_int, packets: u32) -> Result<(), Errno> {
    const LENGTH: usize = 40;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let mut message = [0; LENGTH];
    // A header, an `ifinfomsg` with only the index set, and one attribute.
    message[..4].copy_from_slice(&(LENGTH as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_SETLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message[20..24].copy_from_slice(&index.to_ne_bytes());
    message[32..34].copy_from_slice(&8_u16.to_ne_bytes());
    message[34..36].copy_from_slice(&libc::IFLA_TXQLEN.to_ne_bytes());
    message[36..].copy_from_slice(&packets.to_ne_bytes());
    // Netlink's protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    let length = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?.0;
    // The answer's header is followed by the negated error number, or zero.
    let error = answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match error {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Err(Errno::PROTO),
    }
}

/// An address in the form that interface requests use.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

/// Runs `work` in a child that shares only open descriptors with this process, and ends with it.
///
/// # Safety
/// `work` makes system calls only: other threads may have held locks, the allocator's among them, which nothing in the child
/// releases.
pub(crate) unsafe fn in_child(work: impl FnOnce()) -> Result<Pid, Errno> {
    // SAFETY: the child only runs `work`, whose safety the caller guarantees, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            work();
            // SAFETY: ends the child at once, without this process's exit handlers.
            unsafe { libc::_exit(0) }
        }
        child => Pid::from_raw(child).filter(|_| child > 0).ok_or_else(last_error),
    }
}

/// Moves the calling process or thread into new namespaces.
pub(crate) fn leave_for_new(what: rustix::thread::UnshareFlags) -> Result<(), Errno> {
    // SAFETY: only user and network namespaces are requested; open files stay shared, so that no descriptor loses its
    // meaning.
    unsafe { rustix::thread::unshare_unsafe(what) }
}

/// Gives the calling thread priority over all ordinary ones.
pub(crate) fn set_real_time_priority(priority: c_int) -> Result<(), Errno> {
    // SAFETY: a structure of one integer on Linux; zeros are valid for whatever else a platform has.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = priority;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: process 0 is the calling thread, and the parameters live until the call returns.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } == 0 { Ok(()) } else { Err(last_error()) }
}
