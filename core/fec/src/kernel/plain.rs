//! The operation without vector instructions: the reference for every other variant.

use super::tile::Job;
use crate::field::NIBBLES;

pub(super) fn run(job: Job<'_, '_>) {
    let Job { coefficients, sources, outputs, length, add } = job;
    for (row, output) in outputs.iter_mut().enumerate() {
        if !add {
            output.fill(0);
        }
        for (source, coefficient) in sources.iter().zip(&coefficients[row * sources.len()..]) {
            let (low, high) = NIBBLES[usize::from(*coefficient)].split_at(16);
            for (sum, byte) in output.iter_mut().zip(&source[..length]) {
                *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
            }
        }
    }
}
