//! Maps an address to the subscriber to which limits apply.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::link_layer::HardwareAddress;
use nearlight_units::Time;

/// The address that represents one subscriber: IPv4 as it is (also when mapped into IPv6), IPv6 by its first 64 bits.
///
/// One subscriber usually holds a whole /64 (RFC 6177), so counting single IPv6 addresses would bound nothing.
#[must_use]
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

/// The IP address that represents a station with this hardware address, for limits by IP address: `fd00`, from the range
/// for private use (RFC 4193), and the hardware address. Each station is a subscriber of its own.
#[must_use]
pub fn station_address(station: HardwareAddress) -> IpAddr {
    let mut bytes = [0; 16];
    bytes[0] = 0xfd;
    bytes[2..8].copy_from_slice(&station.0);
    Ipv6Addr::from(bytes).into()
}

/// Makes room for one more subscriber if `most` are remembered: evicts those that are `over`, otherwise the one with the lowest `rank`.
pub(crate) fn make_room<T>(
    subscribers: &mut BTreeMap<IpAddr, T>,
    most: usize,
    over: impl Fn(&T) -> bool,
    rank: impl Fn(&T) -> Time,
) {
    if subscribers.len() < most {
        return;
    }
    subscribers.retain(|_, known| !over(known));
    if subscribers.len() < most {
        return;
    }
    let least = subscribers.iter().min_by_key(|(_, known)| rank(known)).map(|(subscriber, _)| *subscriber);
    if let Some(least) = least {
        subscribers.remove(&least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_subscriber_are_one() {
        let cases = [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ];
        for (address, expected) in cases {
            assert_eq!(subscriber(address.parse().unwrap()), expected.parse::<IpAddr>().unwrap(), "{address}");
        }
    }
}
