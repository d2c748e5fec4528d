//! A frame's digest, to detect incorrect reassembly.

/// Number of lanes of eight bytes each: more than the multiplier's latency.
const LANES: usize = 4;
/// Factors of the lanes: odd, half of the bits set, no two alike. The fractional parts of the square roots of 2, 3, 5 and 7.
const FACTORS: [u64; LANES] =
    [0x6A09_E667_F3BC_C909, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B, 0xA54F_F53A_5F1D_36F1];

/// Returns a 32-bit digest of `bytes`. A wrong frame has the digest of the right one once in 2^32 times.
///
/// It guards against symbols that were damaged or made from another frame. It is not a signature: an attacker who can inject symbols can
/// inject digests too.
#[must_use]
pub fn digest(bytes: &[u8]) -> u32 {
    let mut lanes = FACTORS;
    let mut blocks = bytes.chunks_exact(8 * LANES);
    for block in &mut blocks {
        for ((lane, word), factor) in lanes.iter_mut().zip(block.chunks_exact(8)).zip(FACTORS) {
            *lane = fold(*lane ^ u64::from_le_bytes(word.try_into().expect("eight bytes")), factor);
        }
    }
    let mut tail = [0; 8 * LANES];
    let rest = blocks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    for ((lane, word), factor) in lanes.iter_mut().zip(tail.chunks_exact(8)).zip(FACTORS) {
        *lane = fold(*lane ^ u64::from_le_bytes(word.try_into().expect("eight bytes")), factor);
    }
    let mut sum = bytes.len() as u64;
    for (lane, factor) in lanes.into_iter().zip(FACTORS) {
        sum = fold(sum ^ lane, factor);
    }
    (sum ^ (sum >> 32)) as u32
}

/// Multiplies and adds the product's halves, plus the value itself so that a zero does not erase earlier input.
fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64) ^ ((product >> 64) as u64) ^ value.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flipped_bit_length_and_order_shows() {
        let bytes: Vec<u8> = (0..200).map(|index| (index * 7 % 31) as u8).collect();
        let mut seen = BTreeSet::from([digest(&bytes)]);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(digest(&changed)), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(seen.insert(digest(&bytes[..length])), "length {length}");
        }
        assert_ne!(digest(&[0; 32]), digest(&[0; 64]));
        let mut swapped = bytes.clone();
        swapped.swap(0, 32);
        assert_ne!(bytes[0], bytes[32]);
        assert!(seen.insert(digest(&swapped)));
    }
}
