//! From a captured frame to a UDP datagram: link layer, VLAN tags, IPv4 and IPv6, fragments.
//!
//! Lengths come from headers, so a truncated capture gives the same result.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::capture::{LinkType, Record};

/// Bytes that an Ethernet frame adds to an IP packet, without preamble, checksum and VLAN tags. Sizes are given as if every capture were of Ethernet,
/// as in the render-streaming study's Table 3.
const ETHERNET_HEADER: u32 = 14;
/// VLAN tags on one frame. Guess: two are common (802.1ad), more are not.
const MAX_VLAN_TAGS: usize = 4;
/// IPv6 extension headers of one packet. Guess: hosts send none or one.
const MAX_EXTENSION_HEADERS: usize = 8;

/// IP's numbers of protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// An address with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    pub address: IpAddr,
    pub port: u16,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub from: Endpoint,
    pub to: Endpoint,
    /// Bytes of the packet as an Ethernet frame.
    pub size: u32,
    /// Bytes that the payload had, of which `payload` are the first.
    pub length: u32,
    pub payload: &'a [u8],
}

/// Why a captured packet is not analysed as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusableReason {
    /// Neither IPv4 nor IPv6 (ARP, spanning tree, ...), or within something that is not read.
    NotIp(Option<Encapsulation>),
    /// TCP, ICMP, ...
    NotUdp { tcp: bool },
    /// Not the first fragment, which alone has ports; its bytes as an Ethernet frame.
    Fragment { size: u32 },
    /// A header is damaged, or was cut off by the capture.
    CutShort,
    /// A link layer that is not known here.
    UnknownLink(u16),
}

/// Formats that may contain IP but are not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encapsulation {
    Pppoe,
    Mpls,
}

pub(crate) fn datagram<'a>(record: &Record<'a>) -> Result<Datagram<'a>, UnusableReason> {
    let (above, header) = network_layer(record.link, record.bytes)?;
    let on_wire = record.length.saturating_sub(header as u32);
    match above.first().ok_or(UnusableReason::CutShort)? >> 4 {
        4 => ipv4(above, on_wire),
        6 => ipv6(above, on_wire),
        _ => Err(UnusableReason::NotIp(None)),
    }
}

/// The IP packet and the bytes before it.
fn network_layer(link: LinkType, bytes: &[u8]) -> Result<(&[u8], usize), UnusableReason> {
    let cut = UnusableReason::CutShort;
    let at = match link {
        LinkType::RawIp => 0,
        LinkType::Null | LinkType::Loop => 4,
        LinkType::Ethernet => return tagged(bytes, 12),
        LinkType::LinuxSll => return tagged(bytes, 14),
        LinkType::LinuxSll2 => {
            let kind = short(bytes, 0).ok_or(cut)?;
            return ip_after(bytes, 20, kind);
        }
        LinkType::Other(number) => return Err(UnusableReason::UnknownLink(number)),
    };
    Ok((bytes.get(at..).ok_or(cut)?, at))
}

/// Skips VLAN tags from the type field at `at`.
fn tagged(bytes: &[u8], mut at: usize) -> Result<(&[u8], usize), UnusableReason> {
    for _ in 0..=MAX_VLAN_TAGS {
        match short(bytes, at).ok_or(UnusableReason::CutShort)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            kind => return ip_after(bytes, at + 2, kind),
        }
    }
    Err(UnusableReason::NotIp(None))
}

fn ip_after(bytes: &[u8], at: usize, ether_type: u16) -> Result<(&[u8], usize), UnusableReason> {
    match ether_type {
        0x0800 | 0x86dd => Ok((bytes.get(at..).ok_or(UnusableReason::CutShort)?, at)),
        0x8863 | 0x8864 => Err(UnusableReason::NotIp(Some(Encapsulation::Pppoe))),
        0x8847 | 0x8848 => Err(UnusableReason::NotIp(Some(Encapsulation::Mpls))),
        _ => Err(UnusableReason::NotIp(None)),
    }
}

fn ipv4(bytes: &[u8], on_wire: u32) -> Result<Datagram<'_>, UnusableReason> {
    let header = bytes.get(..20).ok_or(UnusableReason::CutShort)?;
    let words = usize::from(header[0] & 0xf);
    if words < 5 {
        return Err(UnusableReason::CutShort);
    }
    if header[9] != UDP {
        return Err(UnusableReason::NotUdp { tcp: header[9] == TCP });
    }
    // Zero if the network card segments the packet later: its length is then the captured one.
    let total = match u32::from(u16::from_be_bytes([header[2], header[3]])) {
        0 => on_wire,
        total => total,
    };
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if fragment & 0x1fff != 0 {
        return Err(UnusableReason::Fragment { size: total.saturating_add(ETHERNET_HEADER) });
    }
    let address = |at: usize| {
        let octets: [u8; 4] = header[at..at + 4].try_into().expect("four bytes");
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    udp(&Ip { bytes, header: 4 * words, total, from: address(12), to: address(16) })
}

fn ipv6(bytes: &[u8], on_wire: u32) -> Result<Datagram<'_>, UnusableReason> {
    const HEADER: usize = 40;
    let header = bytes.get(..HEADER).ok_or(UnusableReason::CutShort)?;
    let total = match u32::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => on_wire,
        payload => HEADER as u32 + payload,
    };
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().expect("sixteen bytes");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (mut next, mut at) = (header[6], HEADER);
    for _ in 0..MAX_EXTENSION_HEADERS {
        match next {
            UDP => return udp(&Ip { bytes, header: at, total, from: address(8), to: address(24) }),
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => {
                let extension = bytes.get(at..at + 2).ok_or(UnusableReason::CutShort)?;
                next = extension[0];
                at += 8 + 8 * usize::from(extension[1]);
            }
            44 => {
                let extension = bytes.get(at..at + 8).ok_or(UnusableReason::CutShort)?;
                if u16::from_be_bytes([extension[2], extension[3]]) & 0xfff8 != 0 {
                    return Err(UnusableReason::Fragment { size: total.saturating_add(ETHERNET_HEADER) });
                }
                next = extension[0];
                at += 8;
            }
            other => return Err(UnusableReason::NotUdp { tcp: other == TCP }),
        }
    }
    Err(UnusableReason::NotUdp { tcp: false })
}

struct Ip<'a> {
    bytes: &'a [u8],
    header: usize,
    total: u32,
    from: IpAddr,
    to: IpAddr,
}

fn udp<'a>(ip: &Ip<'a>) -> Result<Datagram<'a>, UnusableReason> {
    let header = ip.bytes.get(ip.header..ip.header + 8).ok_or(UnusableReason::CutShort)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let before = ip.header as u32 + 8;
    let length = match u32::from(word(4)) {
        // Of a packet of more than 65,535 bytes.
        0 => ip.total.saturating_sub(before),
        length => length.saturating_sub(8),
    };
    let behind = &ip.bytes[ip.header + 8..];
    Ok(Datagram {
        from: Endpoint { address: ip.from, port: word(0) },
        to: Endpoint { address: ip.to, port: word(2) },
        // With segmentation offload only the record has the length, which may be arbitrary.
        size: ip.total.saturating_add(ETHERNET_HEADER),
        length,
        // Short frames are padded: bytes behind the datagram do not belong to it.
        payload: &behind[..behind.len().min(length as usize)],
    })
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearlight_units::Time;

    #[test]
    fn a_record_that_claims_any_length_is_counted_as_far_as_numbers_go() {
        // Version 4 and five words, no length of its own; UDP.
        let mut bytes = [0; 28];
        (bytes[0], bytes[9]) = (0x45, 17);
        for (length, size) in [(28, 42), (u32::MAX - 14, u32::MAX), (u32::MAX, u32::MAX)] {
            let record = Record { at: Time::ZERO, length, link: LinkType::RawIp, bytes: &bytes };
            assert_eq!(datagram(&record).map(|found| found.size), Ok(size), "{length}");
        }
    }
}
