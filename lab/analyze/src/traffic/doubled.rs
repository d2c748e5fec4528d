//! Packets that a capture holds more than once: taken on two interfaces that the stream crosses, as `any` does with a
//! bridge.

use nearlight_units::{Span, Time};

use super::Packet;

/// Longest time between copies of a packet at two interfaces. Guess: a bridge takes microseconds, a busy virtual machine milliseconds;
/// retransmissions take longer.
pub(super) const MAX_COPY_DELAY: Span = Span::from_millis(5);
/// Interfaces that a packet crosses. Guess: container, bridge, tunnel and network card. What comes more often is
/// content that repeats.
const MAX_COPIES: u8 = 3;
/// Packets that are remembered: more than 10 Gb/s bring within [`MAX_COPY_DELAY`], so few are forgotten before their copies.
const REMEMBERED_PACKETS: usize = 1 << 16;

#[derive(Clone, Copy)]
struct SeenPacket {
    at: Time,
    fingerprint: u64,
    stream: u16,
    copies: u8,
}

/// Counts the packets that are copies. `packets` are in order of time. A copy of a packet that the table has already dropped is not counted.
pub(super) fn doubled(packets: &[Packet]) -> u64 {
    let mut table: Vec<Option<SeenPacket>> = vec![None; REMEMBERED_PACKETS.min(packets.len().next_power_of_two())];
    let mut doubled = 0;
    for packet in packets {
        let Packet { at, fingerprint, stream, .. } = *packet;
        let place = (fingerprint as usize ^ usize::from(stream)) % table.len();
        let before = table[place].filter(|seen| {
            (seen.fingerprint, seen.stream) == (fingerprint, stream) && at.saturating_since(seen.at) <= MAX_COPY_DELAY
        });
        let copies = before.map_or(0, |seen| seen.copies.saturating_add(1));
        doubled += u64::from((1..=MAX_COPIES).contains(&copies));
        table[place] = Some(SeenPacket { at, fingerprint, stream, copies });
    }
    doubled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(count: u64, fingerprint: impl Fn(u64) -> u64, micros: impl Fn(u64) -> i64) -> Vec<Packet> {
        let packet = |number: u64| Packet {
            at: Time::ZERO + Span::from_micros(micros(number)),
            fingerprint: fingerprint(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            size: 1_200,
            timestamp: 0,
            sequence: 0,
            stream: 3,
            marker: false,
        };
        (0..count).map(packet).collect()
    }

    #[test]
    fn copies_are_distinguished_from_repetitions() {
        let each = |number: u64| number as i64 * 100;
        for (name, packets, expected) in [
            ("none", packets(0, |_| 0, each), 0),
            ("all differ", packets(1_000, |number| number, each), 0),
            ("twice", packets(1_000, |number| number / 2, each), 500),
            ("three times", packets(900, |number| number / 3, each), 600),
            ("twice, later", packets(1_000, |number| number / 2, |number| number as i64 * 6_000), 0),
            ("always the same content", packets(1_000, |_| 7, each), 3),
        ] {
            assert_eq!(doubled(&packets), expected, "{name}");
        }
    }
}
