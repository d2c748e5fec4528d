//! Systems without these calls.

use std::io;

use nearlight_rate::TcpInfo;

const UNSUPPORTED: io::ErrorKind = io::ErrorKind::Unsupported;

/// Never known here.
///
/// # Errors
/// `Unsupported`.
pub fn available_congestion_control() -> io::Result<Vec<String>> {
    Err(UNSUPPORTED.into())
}

/// Never known here.
///
/// # Errors
/// `Unsupported`.
pub fn congestion_control<Socket>(_: Socket) -> io::Result<String> {
    Err(UNSUPPORTED.into())
}

/// Never possible here.
///
/// # Errors
/// `Unsupported`.
pub fn set_congestion_control<Socket>(_: Socket, _: &str) -> io::Result<()> {
    Err(UNSUPPORTED.into())
}

/// Never known here.
///
/// # Errors
/// `Unsupported`.
pub fn tcp_info<Socket>(_: Socket) -> io::Result<TcpInfo> {
    Err(UNSUPPORTED.into())
}
