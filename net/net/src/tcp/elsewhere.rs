//! Systems without these calls.

use std::io;

use nearlight_wire::TcpInfo;

const UNSUPPORTED: io::ErrorKind = io::ErrorKind::Unsupported;

/// Fails: this system has no such list.
///
/// # Errors
/// `Unsupported`.
pub fn available_congestion_control() -> io::Result<Vec<String>> {
    Err(UNSUPPORTED.into())
}

/// Fails: this system does not report it.
///
/// # Errors
/// `Unsupported`.
pub fn congestion_control<Socket>(_: Socket) -> io::Result<String> {
    Err(UNSUPPORTED.into())
}

/// Fails: this system offers no choice.
///
/// # Errors
/// `Unsupported`.
pub fn set_congestion_control<Socket>(_: Socket, _: &str) -> io::Result<()> {
    Err(UNSUPPORTED.into())
}

/// Fails: this system has no such statistics.
///
/// # Errors
/// `Unsupported`.
pub fn tcp_info<Socket>(_: Socket) -> io::Result<TcpInfo> {
    Err(UNSUPPORTED.into())
}
