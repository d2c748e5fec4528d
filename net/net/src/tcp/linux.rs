//! Linux: socket options of `tcp(7)`.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wire::{TcpInfo, TcpRecovery};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

/// The kernel's list of loaded modules, separated by spaces.
const AVAILABLE_PATH: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// `TCP_INFINITE_SSTHRESH` of the kernel: no loss has set a threshold.
const INFINITE_THRESHOLD: u32 = 0x7fff_ffff;
/// Byte and bit of `tcpi_delivery_rate_app_limited`, the lowest bit of the eighth byte (linux/tcp.h), for which libc has no name.
const APP_LIMITED: (usize, u8) = (7, 1);
const TCP_INFO_BYTES: usize = size_of::<libc::tcp_info>();

/// Returns the loaded congestion controls.
///
/// # Errors
/// If the kernel's list cannot be read.
pub fn available_congestion_control() -> io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(AVAILABLE_PATH)?.split_whitespace().map(str::to_owned).collect())
}

/// Returns the congestion control of this socket.
///
/// # Errors
/// Fails as the kernel reports.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    Ok(tcp_congestion(socket)?)
}

/// Selects the congestion control of this socket alone, such as `cubic` or `bbr`.
///
/// # Errors
/// `NotFound` if the kernel has none of that name or its module is not loaded (`modprobe tcp_bbr`), `PermissionDenied` if only
/// privileged users may select it. Others as the kernel reports them.
pub fn set_congestion_control(socket: impl AsFd, name: &str) -> io::Result<()> {
    Ok(set_tcp_congestion(socket, name)?)
}

/// Returns the kernel's statistics of the connection, with one system call. Kernels before 4.19 count no bytes.
///
/// # Errors
/// Fails as the kernel reports.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    Ok(info(&read(socket.as_fd())?))
}

/// Reads `TCP_INFO`. Fields that an older kernel does not know remain zero.
#[expect(unsafe_code, reason = "no crate reads TCP_INFO")]
fn read(socket: BorrowedFd<'_>) -> io::Result<[u8; TCP_INFO_BYTES]> {
    let mut bytes = [0; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: the socket is borrowed and therefore open, and the kernel writes at most `length` bytes to as large an array.
    let answer =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes) }
}

macro_rules! field {
    ($bytes:expr, $number:ty, $name:ident) => {{
        let at = offset_of!(libc::tcp_info, $name);
        <$number>::from_ne_bytes($bytes[at..at + size_of::<$number>()].try_into().expect("as long as the number"))
    }};
}

fn info(bytes: &[u8; TCP_INFO_BYTES]) -> TcpInfo {
    let micros = |micros: u32| Span::from_micros(i64::from(micros));
    // The kernel's rates are in bytes per second.
    let rate = |bytes: u64| Bitrate::from_bps(bytes.saturating_mul(8));
    let segment = field!(bytes, u32, tcpi_snd_mss);
    let segments = |count: u32| Bytes::new(u64::from(count) * u64::from(segment));
    let threshold = field!(bytes, u32, tcpi_snd_ssthresh);
    let minimum = field!(bytes, u32, tcpi_min_rtt);
    let sent = field!(bytes, u64, tcpi_bytes_sent);
    let unsent = u64::from(field!(bytes, u32, tcpi_notsent_bytes));
    let written = (sent + unsent).saturating_sub(field!(bytes, u64, tcpi_bytes_retrans));
    let pacing = field!(bytes, u64, tcpi_pacing_rate);
    TcpInfo {
        recovery: recovery(field!(bytes, u8, tcpi_ca_state)),
        round_trip: micros(field!(bytes, u32, tcpi_rtt)),
        round_trip_variation: micros(field!(bytes, u32, tcpi_rttvar)),
        minimum_round_trip: (minimum != u32::MAX && minimum > 0).then(|| micros(minimum)),
        congestion_window: segments(field!(bytes, u32, tcpi_snd_cwnd)),
        slow_start_threshold: (threshold < INFINITE_THRESHOLD).then(|| segments(threshold)),
        unacknowledged: field!(bytes, u32, tcpi_unacked),
        lost: field!(bytes, u32, tcpi_lost),
        delivery_rate: rate(field!(bytes, u64, tcpi_delivery_rate)),
        app_limited: bytes[APP_LIMITED.0] & APP_LIMITED.1 != 0,
        pacing_rate: (pacing != u64::MAX).then(|| rate(pacing)),
        unsent: Bytes::new(unsent),
        written: Bytes::new(written),
        acknowledged: Bytes::new(field!(bytes, u64, tcpi_bytes_acked)),
        segments_sent: u64::from(field!(bytes, u32, tcpi_data_segs_out)),
        retransmissions: u64::from(field!(bytes, u32, tcpi_total_retrans)),
        bytes_sent: Bytes::new(sent),
    }
}

/// Converts `enum tcp_ca_state` of the kernel.
const fn recovery(state: u8) -> TcpRecovery {
    match state {
        0 => TcpRecovery::Open,
        1 => TcpRecovery::Disorder,
        2 => TcpRecovery::Reduced,
        3 => TcpRecovery::Recovery,
        _ => TcpRecovery::Loss,
    }
}
