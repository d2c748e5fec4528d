//! The socket and queries about interfaces. All unsafe code of this crate is here.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::link_layer::{ETHERTYPE, HardwareAddress, MIN_MTU};

use crate::packet::{BATCH, Frames, HEADER_BYTES, PacketError};

/// The kernel's buffer in each direction, in bytes. The usual 208 KiB hold 150 frames with their bookkeeping, which one key frame exceeds.
/// The kernel grants as much as `net.core.rmem_max` and `wmem_max` allow, without an error.
const BUFFER_BYTES: libc::c_int = 4 << 20;

/// A socket for the frames of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    name: String,
    address: HardwareAddress,
}

impl PacketSocket {
    /// Opens a socket. Needs `CAP_NET_RAW`, which may be dropped afterwards.
    pub fn open(name: &str) -> Result<Self, PacketError> {
        // Nothing arrives before the socket is bound to its interface.
        // SAFETY: takes numbers only.
        #[expect(unsafe_code, reason = "a system call")]
        let opened =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if opened < 0 {
            let error = io::Error::last_os_error();
            let exists = interfaces_of_any_kind().iter().any(|known| known == name);
            return Err(match error.kind() {
                _ if !exists => PacketError::NoInterface(name.to_owned()),
                io::ErrorKind::PermissionDenied => PacketError::NoRight,
                _ => failed("opening a packet socket", name)(error),
            });
        }
        // SAFETY: the descriptor is new and has no other owner.
        #[expect(unsafe_code, reason = "takes over a descriptor")]
        let socket = unsafe { OwnedFd::from_raw_fd(opened) };
        let interface = Interface { socket: socket.as_fd(), name };
        if interface.flags()? & libc::IFF_UP == 0 {
            return Err(PacketError::Down(name.to_owned()));
        }
        let address = interface.address()?;
        interface.mtu()?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES)
            .map_err(failed("a receive buffer", name))?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER_BYTES).map_err(failed("a send buffer", name))?;
        // Frames go to the driver, not through a queueing discipline, where they would only be delayed.
        let bypass = set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
        bypass.map_err(failed("leaving out the queueing discipline", name))?;
        let opened = Self { socket, name: name.to_owned(), address };
        opened.rebind()?;
        Ok(opened)
    }

    /// Returns another descriptor of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, name: self.name.clone(), address: self.address })
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's address when the socket was opened.
    #[must_use]
    pub const fn address(&self) -> HardwareAddress {
        self.address
    }

    /// The longest payload that the interface carries now, in bytes.
    pub fn mtu(&self) -> Result<usize, PacketError> {
        self.interface().mtu()
    }

    fn interface(&self) -> Interface<'_> {
        Interface { socket: self.socket.as_fd(), name: &self.name }
    }

    /// Binds the socket again to the interface of its name, after it was removed and came back. Needs no capability.
    pub fn rebind(&self) -> Result<(), PacketError> {
        // SAFETY: all zeros are a valid value of the structure.
        #[expect(unsafe_code, reason = "a structure of the system's")]
        let mut to: libc::sockaddr_ll = unsafe { mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = ETHERTYPE.to_be();
        to.sll_ifindex = self.interface().index()?;
        let length = mem::size_of_val(&to) as libc::socklen_t;
        // SAFETY: the address is a `sockaddr_ll` of the length that is given, and lives through the call.
        #[expect(unsafe_code, reason = "a system call")]
        let bound = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const to).cast(), length) };
        if bound < 0 { Err(failed("binding a packet socket", &self.name)(io::Error::last_os_error())) } else { Ok(()) }
    }

    /// Sends the payloads to `destination`, in order. Returns how many the kernel accepted. `WouldBlock` if it accepts none now.
    pub fn send(&self, destination: HardwareAddress, payloads: &[Vec<u8>]) -> io::Result<usize> {
        self.send_from(self.address, destination, payloads)
    }

    /// Sends the payloads with another station's source address, as a bridge does.
    pub fn send_from(
        &self,
        source: HardwareAddress,
        destination: HardwareAddress,
        payloads: &[Vec<u8>],
    ) -> io::Result<usize> {
        let mut header = [0; HEADER_BYTES];
        header[..6].copy_from_slice(&destination.0);
        header[6..12].copy_from_slice(&source.0);
        header[12..].copy_from_slice(&ETHERTYPE.to_be_bytes());
        let mut sent = 0;
        while sent < payloads.len() {
            let some = &payloads[sent..payloads.len().min(sent + BATCH)];
            match self.send_batch(&mut header, some) {
                Ok(count) => sent += count,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    fn send_batch(&self, header: &mut [u8; HEADER_BYTES], payloads: &[Vec<u8>]) -> io::Result<usize> {
        let part = |bytes: *const u8, length| libc::iovec { iov_base: bytes.cast_mut().cast(), iov_len: length };
        let head = part(header.as_ptr(), HEADER_BYTES);
        let mut parts = [[head; 2]; BATCH];
        // SAFETY: all zeros are valid values of the structures: no addresses, no parts, no ancillary data.
        #[expect(unsafe_code, reason = "structures of the system's")]
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for ((payload, parts), message) in payloads.iter().zip(&mut parts).zip(&mut messages) {
            parts[1] = part(payload.as_ptr(), payload.len());
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = 2;
        }
        let count = payloads.len().min(BATCH) as libc::c_uint;
        // SAFETY: the first `count` messages point to two parts each, which point to the header and to a payload with their lengths. All
        // of them live through the call, which only reads them and writes the lengths in `messages`.
        #[expect(unsafe_code, reason = "a system call")]
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives what has arrived, at most a batch. `WouldBlock` if nothing has.
    pub fn recv(&self, frames: &mut Frames) -> io::Result<()> {
        frames.lengths.clear();
        // SAFETY: all zeros are valid values of the structures.
        #[expect(unsafe_code, reason = "structures of the system's")]
        let (mut parts, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let buffers = frames.bytes.chunks_mut(frames.stride);
        for ((buffer, part), message) in buffers.zip(&mut parts).zip(&mut messages) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (socket, count) = (self.socket.as_raw_fd(), BATCH as libc::c_uint);
        let no_limit = std::ptr::null_mut();
        // SAFETY: every message points to one part, which points to a buffer of its own with its length; there are `BATCH` of each, as
        // `Frames::new` makes them. All of them live through the call and are not borrowed elsewhere.
        #[expect(unsafe_code, reason = "a system call")]
        let received = unsafe { libc::recvmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT, no_limit) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let length = |message: &libc::mmsghdr| {
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            if whole { message.msg_len as usize } else { 0 }
        };
        frames.lengths.extend(messages[..received].iter().map(length));
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns the names of the Ethernet and Wi-Fi interfaces that are up.
#[must_use]
pub fn interfaces() -> Vec<String> {
    // Any socket can query interfaces, and this one needs no privilege.
    let Ok(socket) = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)) else {
        return Vec::new();
    };
    let usable = |name: &String| {
        let interface = Interface { socket: socket.as_fd(), name };
        interface.flags().is_ok_and(|flags| flags & libc::IFF_UP != 0) && interface.address().is_ok()
    };
    interfaces_of_any_kind().into_iter().filter(usable).collect()
}

fn interfaces_of_any_kind() -> Vec<String> {
    // SAFETY: takes nothing; null where there is no memory.
    #[expect(unsafe_code, reason = "a call of the C library")]
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Vec::new();
    }
    let mut names = Vec::new();
    for place in 0.. {
        // SAFETY: the list ends with an entry without a name, which the loop does not go beyond; names end with a zero.
        #[expect(unsafe_code, reason = "a list of the C library's")]
        let name = unsafe {
            let entry = list.add(place);
            if (*entry).if_name.is_null() { None } else { Some(CStr::from_ptr((*entry).if_name)) }
        };
        let Some(name) = name else { break };
        names.push(name.to_string_lossy().into_owned());
    }
    // SAFETY: the list is `if_nameindex`'s and is not used any more.
    #[expect(unsafe_code, reason = "a call of the C library")]
    unsafe {
        libc::if_freenameindex(list);
    };
    names
}

/// An interface to be queried.
struct Interface<'a> {
    socket: BorrowedFd<'a>,
    name: &'a str,
}

impl Interface<'_> {
    fn request(&self, what: libc::Ioctl) -> Result<libc::ifreq, PacketError> {
        let missing = || PacketError::NoInterface(self.name.to_owned());
        // SAFETY: all zeros are a valid value of the structure.
        #[expect(unsafe_code, reason = "a structure of the system's")]
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // The last byte stays zero.
        if self.name.is_empty() || self.name.len() >= request.ifr_name.len() {
            return Err(missing());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: each of the requests that this module makes reads the name and writes one field of the structure, which lives
        // through the call.
        #[expect(unsafe_code, reason = "a system call")]
        let answered = unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &raw mut request) };
        if answered < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENODEV) => missing(),
                _ => failed("asking about it", self.name)(error),
            });
        }
        Ok(request)
    }

    fn index(&self) -> Result<libc::c_int, PacketError> {
        let request = self.request(libc::SIOCGIFINDEX)?;
        // SAFETY: this is the field that the request has written.
        #[expect(unsafe_code, reason = "a union of the system's")]
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    fn flags(&self) -> Result<libc::c_int, PacketError> {
        let request = self.request(libc::SIOCGIFFLAGS)?;
        // SAFETY: this is the field that the request has written.
        #[expect(unsafe_code, reason = "a union of the system's")]
        Ok(unsafe { request.ifr_ifru.ifru_flags }.into())
    }

    fn mtu(&self) -> Result<usize, PacketError> {
        let request = self.request(libc::SIOCGIFMTU)?;
        // SAFETY: this is the field that the request has written.
        #[expect(unsafe_code, reason = "a union of the system's")]
        let mtu = usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0);
        if mtu < MIN_MTU {
            return Err(PacketError::SmallMtu { interface: self.name.to_owned(), mtu, least: MIN_MTU });
        }
        Ok(mtu.min(u16::MAX.into()))
    }

    fn address(&self) -> Result<HardwareAddress, PacketError> {
        let request = self.request(libc::SIOCGIFHWADDR)?;
        // SAFETY: this is the field that the request has written.
        #[expect(unsafe_code, reason = "a union of the system's")]
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(PacketError::NotEthernet(self.name.to_owned()));
        }
        let mut bytes = [0; 6];
        for (to, from) in bytes.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(HardwareAddress(bytes))
    }
}

fn set_option(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is an integer of the length that is given, and lives through the call.
    #[expect(unsafe_code, reason = "a system call")]
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn failed(what: &'static str, interface: &str) -> impl FnOnce(io::Error) -> PacketError {
    let interface = interface.to_owned();
    move |source| PacketError::System { what, interface, source }
}
