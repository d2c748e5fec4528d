//! Selection of a TCP connection's congestion control, and the kernel's statistics on the connection (`TCP_INFO`).
//!
//! Both exist on Linux. Elsewhere every call returns `Unsupported`.

use std::io;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::{available_congestion_control, congestion_control, set_congestion_control, tcp_info};

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub use elsewhere::{available_congestion_control, congestion_control, set_congestion_control, tcp_info};

/// The reason why a congestion control is not available. Each message says what to do about it.
#[derive(Debug)]
pub enum CongestionControlError {
    /// The kernel has no such module, or has not loaded it.
    Unknown { name: String, available: Vec<String> },
    /// The kernel has it, but lets only privileged users select it.
    NotAllowed { name: String, available: Vec<String> },
    /// This system offers no such choice, or refuses it for another reason.
    System { name: String, source: io::Error },
}

impl std::fmt::Display for CongestionControlError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name, available } => write!(
                formatter,
                "the kernel has no TCP congestion control named `{name}`. It has {}; `modprobe tcp_{name}`, as root, loads one that is installed",
                available.join(", ")
            ),
            Self::NotAllowed { name, available } => write!(
                formatter,
                "the kernel has the TCP congestion control `{name}`, but unprivileged programs may not select it. Root can allow it: `sysctl \
                 net.ipv4.tcp_allowed_congestion_control=\"{}\"`",
                available.join(" ")
            ),
            Self::System { name, source } if source.kind() == io::ErrorKind::Unsupported => {
                write!(
                    formatter,
                    "this system does not let a program select TCP congestion control, so `{name}` is not available"
                )
            }
            Self::System { name, source } => {
                write!(formatter, "the system does not give a socket the TCP congestion control `{name}`: {source}")
            }
        }
    }
}

impl std::error::Error for CongestionControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Checks whether a new socket of this program can have the congestion control `name`.
///
/// # Errors
/// If it cannot, the reason and the available ones.
pub fn check_congestion_control(name: &str) -> Result<(), CongestionControlError> {
    let system = |source| CongestionControlError::System { name: name.into(), source };
    // A listening socket can be configured like a connection. It is closed again before anyone can connect.
    let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).map_err(system)?;
    let Err(error) = set_congestion_control(&socket, name) else { return Ok(()) };
    let available = || available_congestion_control().unwrap_or_default();
    Err(match error.kind() {
        io::ErrorKind::NotFound => CongestionControlError::Unknown { name: name.into(), available: available() },
        io::ErrorKind::PermissionDenied => {
            CongestionControlError::NotAllowed { name: name.into(), available: available() }
        }
        _ => system(error),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
