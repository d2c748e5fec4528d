//! Hardware addresses (IEEE 802 MAC addresses).

use std::fmt;
use std::str::FromStr;

/// The 48-bit address of an Ethernet or Wi-Fi interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

/// The error for a text that is not a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hardware address: write six pairs of hexadecimal digits such as 02:00:5e:10:00:01")]
pub struct InvalidHardwareAddress(String);

impl HardwareAddress {
    /// Whether it is a group's (multicast or broadcast): the lowest bit of the first byte is set.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for HardwareAddress {
    type Err = InvalidHardwareAddress;

    /// Parses `02:00:5e:10:00:01`, also with hyphens. A group's address is rejected, because it belongs to no single interface.
    fn from_str(text: &str) -> Result<Self, InvalidHardwareAddress> {
        let refused = || InvalidHardwareAddress(text.chars().take(40).collect());
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()));
            *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(refused)?;
        }
        let address = Self(bytes);
        if parts.next().is_some() || address.is_group() { Err(refused()) } else { Ok(address) }
    }
}

impl fmt::Display for HardwareAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            write!(formatter, "{}{byte:02x}", if place == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for HardwareAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_printed() {
        for text in ["02:00:5e:10:00:01", "fe:dc:ba:98:76:54"] {
            assert_eq!(text.parse::<HardwareAddress>().unwrap().to_string(), text);
        }
        assert_eq!("02-00-5E-10-00-01".parse(), Ok(HardwareAddress([2, 0, 0x5e, 0x10, 0, 1])));
        for text in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "02:00:5e:10:00:+1", "ff:ff:ff:ff:ff:ff"]
        {
            assert!(text.parse::<HardwareAddress>().is_err(), "{text}");
        }
    }
}
