//! Addresses at the far end of a link in a user namespace, where the host's services are out of reach.
//!
//! Every port of the host is an address of the far namespace, and one pair of sockets listens on all of these: port 80 becomes
//! 10.80.1.65. So the namespace's own TCP is the far end of each connection, and the [gateway](crate::gateway) reads from the
//! address which of the host's ports is meant. No per-packet state is kept.

use std::net::Ipv4Addr;

use crate::ip::{update_checksum, word};

/// The port of both of the gateway's sockets.
pub(crate) const GATEWAY_PORT: u16 = 4;

/// The addresses that represent ports: 14 bits of network, 16 of port, and two that keep clear of network and broadcast addresses.
pub(crate) const PORTS_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 1);
pub(crate) const PORTS_MASK: Ipv4Addr = Ipv4Addr::new(255, 252, 0, 0);

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The address that represents a port of the host.
pub(crate) fn address_of(port: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(PORTS_NETWORK) + (u32::from(port) << 2))
}

/// The host's port that an address represents.
pub(crate) fn port_of(address: Ipv4Addr) -> Option<u16> {
    let offset = u32::from(address).checked_sub(u32::from(PORTS_NETWORK))?;
    if offset.is_multiple_of(4) { u16::try_from(offset >> 2).ok() } else { None }
}

/// Offsets of the address and port of one endpoint of a packet.
#[derive(Clone, Copy)]
struct EndpointOffsets {
    /// Offset of the address in the IP header.
    address: usize,
    /// Offset of the port in the transport header.
    port: usize,
}

const SOURCE: EndpointOffsets = EndpointOffsets { address: 12, port: 0 };
const DESTINATION: EndpointOffsets = EndpointOffsets { address: 16, port: 2 };

/// Redirects a packet for the host to the gateway; false if it cannot pass because it is a UDP fragment.
pub(crate) fn towards_gateway(packet: &mut [u8], host: Ipv4Addr) -> bool {
    let Some(transport) = transport(packet, host, DESTINATION) else { return true };
    let Transport::At(start) = transport else { return false };
    let port = word(packet, start + DESTINATION.port);
    rewrite(packet, start, DESTINATION, address_of(port), GATEWAY_PORT);
    true
}

/// Restores the host as the source of an answer from the gateway.
pub(crate) fn from_gateway(packet: &mut [u8], host: Ipv4Addr) {
    let Some(source) = packet.get(SOURCE.address..SOURCE.address + 4) else { return };
    let source = Ipv4Addr::new(source[0], source[1], source[2], source[3]);
    if let Some(port) = port_of(source)
        && let Some(Transport::At(start)) = transport(packet, source, SOURCE)
    {
        rewrite(packet, start, SOURCE, host, port);
    }
}

enum Transport {
    /// The offset of its header, which is complete.
    At(usize),
    Fragment,
}

/// The transport header of a TCP or UDP packet with `address` at this end; None for all other packets.
fn transport(packet: &[u8], address: Ipv4Addr, end: EndpointOffsets) -> Option<Transport> {
    let start = usize::from(*packet.first()? & 0xf) * 4;
    let protocol = *packet.get(9)?;
    let needed = match protocol {
        TCP => 20,
        UDP => 8,
        _ => return None,
    };
    if packet[0] >> 4 != 4 || start < 20 || packet.get(end.address..end.address + 4)? != address.octets() {
        return None;
    }
    // More fragments, or not the first one.
    if word(packet, 6) & 0x3fff != 0 {
        return Some(Transport::Fragment);
    }
    (packet.len() >= start + needed).then_some(Transport::At(start))
}

/// Writes an address and a port, and corrects both checksums.
fn rewrite(packet: &mut [u8], transport: usize, end: EndpointOffsets, address: Ipv4Addr, port: u16) {
    let checksum = transport + if packet[9] == TCP { 16 } else { 6 };
    // Zero means that UDP has no checksum.
    let has_checksum = packet[9] == TCP || word(packet, checksum) != 0;
    let octets = address.octets();
    let changes = [
        (end.address, u16::from_be_bytes([octets[0], octets[1]]), true),
        (end.address + 2, u16::from_be_bytes([octets[2], octets[3]]), true),
        (transport + end.port, port, false),
    ];
    for (at, after, in_header) in changes {
        let before = word(packet, at);
        packet[at..at + 2].copy_from_slice(&after.to_be_bytes());
        if in_header {
            update_checksum(packet, 10, before, after);
        }
        if has_checksum {
            update_checksum(packet, checksum, before, after);
        }
    }
    if packet[9] == UDP && has_checksum && word(packet, checksum) == 0 {
        packet[checksum..checksum + 2].copy_from_slice(&[0xff, 0xff]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    const INSIDE: ([u8; 4], u16) = ([10, 77, 0, 2], 40_000);

    #[test]
    fn every_port_has_an_address_of_its_own() {
        for port in 0..=u16::MAX {
            let address = address_of(port);
            assert_eq!(port_of(address), Some(port));
            assert_eq!(u32::from(address) & u32::from(PORTS_MASK), u32::from(Ipv4Addr::new(10, 80, 0, 0)));
        }
        for other in [[10, 80, 0, 0], [10, 80, 0, 2], [10, 84, 0, 1], [10, 77, 0, 1], [255, 255, 255, 255]] {
            assert_eq!(port_of(other.into()), None, "{other:?}");
        }
    }

    #[test]
    fn packets_reach_the_gateway_and_answers_come_from_the_host() {
        for protocol in [TCP, UDP] {
            for port in [1, 53, 80, 8_090, 65_535] {
                let mut packet = samples::packet(protocol, INSIDE, (HOST.octets(), port), b"hello there");
                assert!(samples::is_sound(&packet));
                assert!(towards_gateway(&mut packet, HOST));
                assert!(samples::is_sound(&packet), "{protocol} {port}");
                assert_eq!(port_of(<[u8; 4]>::try_from(&packet[16..20]).unwrap().into()), Some(port));
                assert_eq!(word(&packet, 22), GATEWAY_PORT);

                let gateway = (address_of(port).octets(), GATEWAY_PORT);
                let mut answer = samples::packet(protocol, gateway, INSIDE, b"hello yourself");
                from_gateway(&mut answer, HOST);
                assert!(samples::is_sound(&answer), "{protocol} {port}");
                assert_eq!((&answer[12..16], word(&answer, 20)), (&HOST.octets()[..], port));
            }
        }
    }

    #[test]
    fn what_cannot_be_distinguished_is_refused_and_the_rest_left_alone() {
        let mut fragment = samples::packet(UDP, INSIDE, (HOST.octets(), 53), b"first");
        fragment[6] = 0x20;
        assert!(!towards_gateway(&mut fragment, HOST));
        let mut ping = samples::packet(UDP, INSIDE, (HOST.octets(), 0), b"");
        ping[9] = 1;
        let elsewhere = samples::packet(TCP, INSIDE, ([192, 0, 2, 1], 80), b"");
        let cut = samples::packet(TCP, INSIDE, (HOST.octets(), 80), b"")[..30].to_vec();
        for untouched in [ping, elsewhere, cut, vec![], vec![0x4f; 20], vec![0x60; 60]] {
            let mut packet = untouched.clone();
            assert!(towards_gateway(&mut packet, HOST));
            from_gateway(&mut packet, HOST);
            assert_eq!(packet, untouched);
        }
    }
}
