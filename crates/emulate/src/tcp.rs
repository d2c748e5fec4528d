//! What the kernel lets a TCP connection choose and tells of it.

#![expect(unsafe_code, reason = "no crate reads TCP_INFO")]

use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use nearlight_units::Span;
use rustix::net::sockopt::set_tcp_congestion;

/// What a connection has sent so far, as the kernel counts it: kernels before 4.19 count no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments with data, those that left again included.
    pub segments: u64,
    /// Of data, the same.
    pub bytes: u64,
    /// Segments that left again.
    pub retransmissions: u64,
    /// Smoothed, as the kernel's own timers take it.
    pub round_trip: Span,
}

/// Chooses the law of congestion control, such as `cubic` or `bbr`.
///
/// # Errors
/// `NotFound` where the kernel has no such law, or its module is not loaded (`modprobe tcp_bbr`); others as the kernel gives them.
pub fn set_congestion_law(stream: &TcpStream, law: &str) -> io::Result<()> {
    Ok(set_tcp_congestion(stream, law)?)
}

/// What has left through `stream`.
///
/// # Errors
/// As the kernel gives them.
pub fn tcp_counts(stream: &TcpStream) -> io::Result<TcpCounts> {
    // SAFETY: a structure of integers, for which zeros are valid; a kernel that knows fewer of them leaves the rest.
    let mut information: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    let to = (&raw mut information).cast();
    // SAFETY: the socket is open, and the kernel writes at most `length` bytes to a structure of that size.
    let answer =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpCounts {
        segments: u64::from(information.tcpi_data_segs_out),
        bytes: information.tcpi_bytes_sent,
        retransmissions: u64::from(information.tcpi_total_retrans),
        round_trip: Span::from_micros(i64::from(information.tcpi_rtt)),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_connection_tells_what_it_sent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
        let (mut other, _) = listener.accept().expect("a connection");
        set_congestion_law(&stream, "reno").expect("every kernel has it");
        assert!(set_congestion_law(&stream, "no-such-law").is_err());
        stream.write_all(&[7; 10_000]).expect("room");
        other.read_exact(&mut [0; 10_000]).expect("data");
        let counts = tcp_counts(&stream).expect("a TCP socket");
        assert!(counts.bytes >= 10_000 && counts.segments >= 1, "{counts:?}");
    }
}
