//! WebAssembly with 128-bit vectors: swizzles that look up each nibble's product.

#![cfg(target_feature = "simd128")]

use std::arch::wasm32::{u8x16_shr, u8x16_splat, u8x16_swizzle, v128, v128_and, v128_load, v128_store, v128_xor};

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
    // SAFETY: the length was checked, the rest is the caller's promise.
    unsafe { product::<Swizzle>(job) }
}

#[derive(Clone, Copy)]
struct Swizzle(v128);

// SAFETY: 16 bytes are read and written.
unsafe impl Vector for Swizzle {
    const BYTES: usize = 16;
    // Engines map them to the 16 registers of x86 or the 32 of Arm.
    const COLUMNS: usize = 2;
    const ROWS: usize = 4;
    type Prepared = [v128; 2];
    type Factor = [v128; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(u8x16_splat(0))
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { v128_load(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { v128_store(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> [v128; 2] {
        [v128_and(self.0, u8x16_splat(15)), u8x16_shr(self.0, 4)]
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> [v128; 2] {
        let table = NIBBLES[usize::from(constant)].as_ptr();
        // SAFETY: a table is 32 bytes long.
        unsafe { [v128_load(table.cast()), v128_load(table.add(16).cast())] }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: [v128; 2], factor: [v128; 2]) -> Self {
        let low = u8x16_swizzle(factor[0], source[0]);
        let high = u8x16_swizzle(factor[1], source[1]);
        Self(v128_xor(v128_xor(self.0, low), high))
    }
}
