//! Analysis of RTP sequence numbers and timestamps: losses, repetitions, order, jitter.

use serde::Serialize;

use super::Scope;
use crate::distribution::Distribution;
use crate::frames::VIDEO_CLOCK;
use crate::traffic::{Packet, Traffic};

/// Figures of one RTP stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sequence {
    /// Numbers between the first and the last that no packet has.
    pub missing: u64,
    /// Packets with a number that was there before.
    pub repeated: u64,
    /// Packets with a smaller number than one before them (RFC 4737).
    pub reordered: u64,
}

/// Returns the sequence figures of each RTP stream of the conversation.
pub(super) fn of_streams(traffic: &Traffic, scope: &Scope) -> Vec<(u16, Sequence)> {
    let rtp = scope.streams.iter().filter(|stream| stream.1.rtp.is_some());
    let mut numbers: Vec<(u16, Vec<i64>)> = rtp.map(|stream| (stream.0, Vec::new())).collect();
    for packet in &traffic.packets {
        if let Some((_, numbers)) = numbers.iter_mut().find(|stream| stream.0 == packet.stream) {
            let before = numbers.last().copied().unwrap_or(i64::from(packet.sequence));
            // Wraps every 65,536 packets: the nearest number that fits.
            numbers.push(before + i64::from(packet.sequence.wrapping_sub(before as u16) as i16));
        }
    }
    numbers.into_iter().map(|(stream, numbers)| (stream, Sequence::of(numbers))).collect()
}

impl Sequence {
    fn of(mut numbers: Vec<i64>) -> Self {
        let mut newest = i64::MIN;
        let mut reordered = 0;
        for number in &numbers {
            reordered += u64::from(*number < newest);
            newest = newest.max(*number);
        }
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        let span = numbers.first().zip(numbers.last()).map_or(0, |(first, last)| last - first + 1);
        let missing = span as u64 - numbers.len() as u64;
        Self { missing, repeated: (count - numbers.len()) as u64, reordered }
    }
}

/// RFC 3550 section 6.4.1 after each packet.
pub(super) fn jitter(packets: &[Packet]) -> Option<Distribution> {
    let mut jitter = 0.0;
    let estimates = packets.windows(2).map(|pair| {
        let passed = (pair[1].at - pair[0].at).as_millis_f64();
        let meant = f64::from(pair[1].timestamp.wrapping_sub(pair[0].timestamp) as i32) / VIDEO_CLOCK * 1e3;
        jitter += ((passed - meant).abs() - jitter) / 16.0;
        jitter
    });
    Distribution::of(estimates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_what_happened() {
        for (numbers, missing, repeated, reordered) in [
            (vec![], 0, 0, 0),
            (vec![5], 0, 0, 0),
            (vec![1, 2, 3, 4], 0, 0, 0),
            (vec![1, 2, 4, 3, 5], 0, 0, 1),
            (vec![1, 2, 5, 5, 6], 2, 1, 0),
            (vec![1, 2, 3, 2], 0, 1, 1),
        ] {
            assert_eq!(Sequence::of(numbers.clone()), Sequence { missing, repeated, reordered }, "{numbers:?}");
        }
    }
}
