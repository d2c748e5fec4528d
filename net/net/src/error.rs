//! Errors between two machines, in words for the person who has to fix them.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::link_layer::HardwareAddress;

use crate::trust::CertificateHash;

/// Why a driver could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error(
        "port {port} is already in use on this machine: stop the other program or choose another port with `--port`, for WebRTC with \
         `--rtc-port`"
    )]
    PortInUse { port: u16 },
    #[error(
        "this user may not open port {port}: choose a port above 1023 with `--port`, or grant CAP_NET_BIND_SERVICE"
    )]
    PortForbidden { port: u16 },
    #[error(
        "{address} is not an address of this machine: pass one of its addresses to `--address`, or omit it to use all"
    )]
    AddressNotHere { address: IpAddr },
    #[error("no port is free for both UDP and TCP: choose one with `--port`")]
    NoFreePort,
    #[error("opening {what} failed: {source}")]
    Socket { what: String, source: io::Error },

    #[error("cannot read {what} from {path}: {reason}; specify a PEM file that this user may read")]
    CertificateFile { what: &'static str, path: PathBuf, reason: String },
    #[error(
        "the certificate and the key cannot be used together: {0}; specify the certificate chain and the private key that belongs to it"
    )]
    CertificateRefused(String),
    #[error("cannot generate a self-signed certificate: {0}; specify one with `--cert` and `--key`")]
    CertificateNotMade(String),

    #[error("{0} is not a link to a server: it needs http:// or https://, a host and a port")]
    Link(String),
    #[error("the name {host} was not found: check the link, or use the server's address instead of its name")]
    Name { host: String },
    #[error("{target} does not answer: check that the server runs and that nothing blocks its port (UDP and TCP)")]
    NoAnswer { target: String },
    #[error(
        "{target} refused the connection ({reason}): check that the server runs there, or try again when it is less busy"
    )]
    Refused { target: String, reason: String },
    #[error(
        "the server's certificate is not the one that the link names: expected SHA-256 {expected}, got {presented}. \
         Either the server was restarted (open its new link) or this is a man-in-the-middle attack"
    )]
    CertificateMismatch { expected: CertificateHash, presented: CertificateHash },
    #[error("{target} answered {status} instead of opening a session: check the link{}", https_hint(*status))]
    WrongPath { target: String, status: u16 },
    #[error("the connection to {target} failed: {reason}")]
    Protocol { target: String, reason: String },

    #[error(transparent)]
    Packet(#[from] crate::packet::PacketError),
    #[error(
        "{0} is not a link to a server: write ether:INTERFACE/ADDRESS#token=TOKEN, such as ether:eth0/02:00:5e:10:00:01#token=…"
    )]
    EthernetLink(String),
    #[error("{}", interface_hint(*server, interfaces))]
    WhichInterface { server: HardwareAddress, interfaces: Vec<String> },
    #[error(
        "{server} does not answer on {interface}: check that the server runs with `--ethernet` on the same network, that the link has the \
         token that it printed, and that its `--ethernet-allow`, if given, lists {client}. The server does not answer clients that are \
         not allowed or have another token"
    )]
    NoEthernetAnswer { server: HardwareAddress, client: HardwareAddress, interface: String },
    #[error("{server} speaks version {version} of the Ethernet transport: use the same release on both machines")]
    OtherEthernetVersion { server: HardwareAddress, version: u8 },

    #[error("the session ended: {0}")]
    Closed(crate::CloseReason),
    #[error("the peer ended the control stream")]
    ControlEnded,
    #[error("the peer's control message was refused: {0}")]
    Control(#[from] nearlight_wire::WireError),
}

/// A hint for redirects: plain HTTP is for the machine itself. Others are redirected to HTTPS on the same port, which pages follow and
/// sessions do not.
const fn https_hint(status: u16) -> &'static str {
    if status == 307 { "; from another machine it begins with https://" } else { "" }
}

fn interface_hint(server: HardwareAddress, interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        return "no Ethernet or Wi-Fi interface is up on this machine: bring one up with `ip link set dev NAME up`"
            .into();
    }
    let links: Vec<String> = interfaces.iter().map(|name| format!("ether:{name}/{server}#token=…")).collect();
    format!(
        "this machine has several interfaces: put the one that leads to the server into the link, {}",
        links.join(" or ")
    )
}

impl NetError {
    /// The error of opening `what` on `port`, with the two common causes explained.
    pub(crate) fn opening(what: &str, port: u16, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse { port },
            io::ErrorKind::PermissionDenied => Self::PortForbidden { port },
            _ => Self::Socket { what: what.to_owned(), source },
        }
    }
}
