//! The few fields of IP packets that a link reads and writes.

use nearlight_link::Ecn;

/// The ECN bits; a packet other than IP has none.
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    let bits = match packet {
        [first, class, ..] if first >> 4 == 4 => class & 3,
        [first, class, ..] if first >> 4 == 6 => (class >> 4) & 3,
        _ => 0,
    };
    [Ecn::NotCapable, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits)]
}

/// Writes the ECN bits of IP packets and updates the header checksum.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let bits = match ecn {
        Ecn::NotCapable => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let before = word(packet, 0);
            packet[1] = (packet[1] & !3) | bits;
            let after = word(packet, 0);
            update_checksum(packet, 10, before, after);
        }
        Some(6) if packet.len() >= 40 => packet[1] = (packet[1] & !0x30) | (bits << 4),
        _ => {}
    }
}

pub(crate) fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Corrects the checksum at `at` for a word that changed (RFC 1624, equation 3).
pub(crate) fn update_checksum(packet: &mut [u8], at: usize, before: u16, after: u16) {
    let mut sum = u32::from(!word(packet, at)) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// A packet for tests, with its checksums.
#[cfg(test)]
pub(crate) mod samples {
    /// Returns the folded one's complement sum of the words.
    pub(crate) fn sum(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Returns whether header and transport checksums are valid.
    pub(crate) fn is_sound(packet: &[u8]) -> bool {
        let pseudo = [&packet[12..20], &[0, packet[9]], &((packet.len() - 20) as u16).to_be_bytes(), &packet[20..]];
        sum(&packet[..20]) == 0xffff && sum(&pseudo.concat()) == 0xffff
    }

    /// TCP or UDP over IPv4.
    pub(crate) fn packet(protocol: u8, from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
        let (header, checksum) = if protocol == 6 { (20, 16) } else { (8, 6) };
        let mut transport = vec![0; header];
        transport[..2].copy_from_slice(&from.1.to_be_bytes());
        transport[2..4].copy_from_slice(&to.1.to_be_bytes());
        transport.extend_from_slice(payload);
        let length = transport.len() as u16;
        if protocol == 17 {
            transport[4..6].copy_from_slice(&length.to_be_bytes());
        }
        let pseudo = [&from.0[..], &to.0, &[0, protocol], &length.to_be_bytes(), &transport].concat();
        transport[checksum..checksum + 2].copy_from_slice(&(!sum(&pseudo)).to_be_bytes());
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0];
        packet.extend([from.0, to.0].concat());
        packet[2..4].copy_from_slice(&(20 + length).to_be_bytes());
        let header = !sum(&packet);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        packet.extend(transport);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_written_and_checksums_stay_right() {
        let mut packet = samples::packet(17, ([10, 77, 0, 2], 5_000), ([10, 77, 0, 1], 53), b"question");
        assert_eq!(ecn(&packet), Ecn::NotCapable);
        for mark in [Ecn::Ect1, Ecn::Ce, Ecn::Ect0, Ecn::NotCapable] {
            set_ecn(&mut packet, mark);
            assert_eq!(ecn(&packet), mark);
            assert!(samples::is_sound(&packet), "{mark:?}");
        }
        let mut six = [0_u8; 40];
        (six[0], six[1]) = (0x6a, 0xcb);
        set_ecn(&mut six, Ecn::Ce);
        assert_eq!((ecn(&six), six[0], six[1]), (Ecn::Ce, 0x6a, 0xfb));
    }

    #[test]
    fn anything_else_is_left_alone() {
        for bytes in [&b""[..], &[0x45], &[0x45, 1, 2], &[0x60; 39], &[0x10; 60]] {
            let mut changed = bytes.to_vec();
            set_ecn(&mut changed, Ecn::Ce);
            assert_eq!(changed, bytes);
        }
        assert_eq!(ecn(&[]), Ecn::NotCapable);
    }
}
