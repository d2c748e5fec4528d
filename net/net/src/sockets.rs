//! One port number for UDP and TCP, on all addresses of the machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use crate::NetError;

/// Size of the kernel's buffer for bursts: 2 MiB are 160 ms at 100 Mb/s. The kernel may grant less (`net.core.rmem_max`).
const SOCKET_BUFFER: usize = 2 << 20;

/// Maximum number of connections that wait for `accept`: as many as may be open at once can arrive in one burst without a SYN
/// retransmission, which costs a second.
const TCP_BACKLOG: i32 = 1_024;

/// Number of ports tried before reporting that none is free for both.
const PORT_ATTEMPTS: usize = 32;

/// Both sockets of a server, on one port number.
pub(crate) struct Sockets {
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: std::net::TcpListener,
    /// The requested address, or the unspecified one, with the port that both sockets share.
    pub(crate) local: SocketAddr,
}

impl Sockets {
    /// Opens both on `address`, or on every address of the machine. Port 0 picks one that is free for both.
    pub(crate) fn open(address: Option<IpAddr>, port: u16) -> Result<Self, NetError> {
        let Some(address) = address else {
            return match Self::open_at(Ipv6Addr::UNSPECIFIED.into(), port) {
                Err(NetError::Socket { source, .. }) => {
                    tracing::warn!(%source, "this machine offers no IPv6; listening on IPv4 only");
                    Self::open_at(Ipv4Addr::UNSPECIFIED.into(), port)
                }
                other => other,
            };
        };
        Self::open_at(address, port).map_err(|error| match error {
            NetError::Socket { source, .. } if source.kind() == io::ErrorKind::AddrNotAvailable => {
                NetError::AddressNotHere { address }
            }
            other => other,
        })
    }

    fn open_at(address: IpAddr, port: u16) -> Result<Self, NetError> {
        if port != 0 {
            return Self::open_both(address, port);
        }
        for _ in 0..PORT_ATTEMPTS {
            match Self::open_both(address, 0) {
                Err(NetError::PortInUse { .. }) => {}
                other => return other,
            }
        }
        Err(NetError::NoFreePort)
    }

    fn open_both(address: IpAddr, port: u16) -> Result<Self, NetError> {
        let wanted = SocketAddr::new(address, port);
        let tcp = tcp_listener(wanted).map_err(|error| NetError::opening("a TCP socket", port, error))?;
        let local = tcp.local_addr().map_err(|error| NetError::opening("a TCP socket", port, error))?;
        let udp = udp_socket(local).map_err(|error| NetError::opening("a UDP socket", local.port(), error))?;
        Ok(Self { udp, tcp, local })
    }
}

/// Opens a server's UDP socket, on `address` or on every address of the machine. Port 0 picks a free one.
pub fn bind_udp(address: Option<IpAddr>, port: u16) -> Result<UdpSocket, NetError> {
    let any = |address: IpAddr| udp_socket(SocketAddr::new(address, port));
    let bound = match address {
        Some(address) => any(address),
        // Only if there is no IPv6 at all: a port that is in use is in use for both.
        None => any(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => any(Ipv4Addr::UNSPECIFIED.into()),
        }),
    };
    bound.map_err(|error| NetError::opening("a UDP socket", port, error))
}

fn tcp_listener(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Lets a restarted server rebind its port while old connections linger. On Windows the option means something else: that two servers
    // may share a port.
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(TCP_BACKLOG)?;
    Ok(socket.into())
}

/// Opens a UDP socket at `address`. An IPv6 one carries IPv4 too.
pub(crate) fn udp_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    for granted in [socket.set_recv_buffer_size(SOCKET_BUFFER), socket.set_send_buffer_size(SOCKET_BUFFER)] {
        if let Err(error) = granted {
            tracing::debug!(%error, "the kernel keeps its default size of socket buffer");
        }
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The local address from which a client reaches `remote`: any, with a free port.
pub(crate) fn local_for(remote: SocketAddr) -> SocketAddr {
    let address: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_free_for_both_and_then_taken() {
        let sockets = Sockets::open(None, 0).unwrap();
        let port = sockets.local.port();
        assert_eq!(sockets.udp.local_addr().unwrap().port(), port);
        let error = Sockets::open(None, port).err().unwrap();
        assert!(matches!(error, NetError::PortInUse { port: taken } if taken == port), "{error}");
        assert!(error.to_string().contains(&port.to_string()));
    }

    #[test]
    fn a_port_taken_for_udp_alone_is_taken() {
        let other = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = other.local_addr().unwrap().port();
        assert!(matches!(Sockets::open(None, port), Err(NetError::PortInUse { .. })));
    }
}
