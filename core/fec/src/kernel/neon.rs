//! 64-bit Arm: table look-ups of each nibble's product.

use std::arch::aarch64::{uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8};

use super::plain;
use super::tile::{Job, Vector, product};
use crate::field::NIBBLES;

/// Runs `job`.
///
/// # Safety
/// `job` is as [`Job`] says.
pub(super) unsafe fn run(job: Job<'_, '_>) {
    if job.length < 16 {
        return plain::run(job);
    }
    // SAFETY: NEON is part of the architecture, the length was checked, the rest is the caller's promise.
    unsafe { product::<Lookup>(job) }
}

#[derive(Clone, Copy)]
struct Lookup(uint8x16_t);

// SAFETY: 16 bytes are read and written.
unsafe impl Vector for Lookup {
    const BYTES: usize = 16;
    // Of 32 registers: 18 sums, 6 nibbles, 2 for a factor.
    const COLUMNS: usize = 3;
    type Prepared = [uint8x16_t; 2];
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: NEON is part of the architecture, here and below.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { vld1q_u8(at) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { vst1q_u8(at, self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> [uint8x16_t; 2] {
        // SAFETY: register operations.
        unsafe { [vandq_u8(self.0, vdupq_n_u8(15)), vshrq_n_u8::<4>(self.0)] }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> [uint8x16_t; 2] {
        let table = NIBBLES[usize::from(constant)].as_ptr();
        // SAFETY: a table is 32 bytes long.
        unsafe { [vld1q_u8(table), vld1q_u8(table.add(16))] }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: [uint8x16_t; 2], factor: [uint8x16_t; 2]) -> Self {
        // SAFETY: register operations.
        unsafe {
            let low = vqtbl1q_u8(factor[0], source[0]);
            let high = vqtbl1q_u8(factor[1], source[1]);
            Self(veorq_u8(veorq_u8(self.0, low), high))
        }
    }
}
