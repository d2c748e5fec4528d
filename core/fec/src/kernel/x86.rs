//! x86: bit matrices where the processor has GFNI, otherwise byte shuffles that look up each nibble's product.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi8, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};

use super::tile::{Job, Vector, product};
use super::{Variant, plain};
use crate::field::{MATRICES, NIBBLES};

/// Three-way exclusive or as a truth table.
const XOR3: i32 = 0x96;

/// Runs `job` with the widest vectors of `variant` that fit into a symbol.
///
/// # Safety
/// The processor has the variant's instructions, and `job` is as [`Job`] says.
pub(super) unsafe fn run(variant: Variant, job: Job<'_, '_>) {
    // SAFETY: the caller vouches for the instructions; each arm checks the length that its vectors need, and the features of a
    // wider variant include those of the narrower one that takes over for short symbols.
    unsafe {
        match variant {
            Variant::Avx512Gfni if job.length >= 64 => avx512_gfni(job),
            Variant::Avx512 if job.length >= 64 => avx512(job),
            Variant::Avx2Gfni if job.length >= 32 => avx2_gfni(job),
            Variant::Avx512Gfni | Variant::Avx512 | Variant::Avx2Gfni | Variant::Avx2 if job.length >= 32 => avx2(job),
            _ if job.length >= 16 => ssse3(job),
            _ => plain::run(job),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn avx512_gfni(job: Job<'_, '_>) {
    // SAFETY: the features above are those of the vector; the rest is the caller's promise.
    unsafe { product::<Affine512>(job) }
}

#[target_feature(enable = "avx2,gfni")]
unsafe fn avx2_gfni(job: Job<'_, '_>) {
    // SAFETY: as above.
    unsafe { product::<Affine256>(job) }
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn avx512(job: Job<'_, '_>) {
    // SAFETY: as above.
    unsafe { product::<Shuffle512>(job) }
}

#[target_feature(enable = "avx2")]
unsafe fn avx2(job: Job<'_, '_>) {
    // SAFETY: as above.
    unsafe { product::<Shuffle256>(job) }
}

#[target_feature(enable = "ssse3")]
unsafe fn ssse3(job: Job<'_, '_>) {
    // SAFETY: as above.
    unsafe { product::<Shuffle128>(job) }
}

#[derive(Clone, Copy)]
struct Affine512(__m512i);

// SAFETY: 64 bytes are read and written, with instructions of AVX-512 and GFNI only.
unsafe impl Vector for Affine512 {
    const BYTES: usize = 64;
    const COLUMNS: usize = 4;
    const BY_TWOS: bool = true;
    type Prepared = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's callers vouch for the instructions, here and below.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 64 readable bytes.
        Self(unsafe { _mm512_loadu_si512(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 64 writable bytes.
        unsafe { _mm512_storeu_si512(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> __m512i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> __m512i {
        // SAFETY: register operation.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(constant)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: __m512i, factor: __m512i) -> Self {
        // SAFETY: register operations.
        Self(unsafe { _mm512_xor_si512(self.0, _mm512_gf2p8affine_epi64_epi8::<0>(source, factor)) })
    }

    #[inline(always)]
    unsafe fn add_products(self, [one, other]: [__m512i; 2], factors: [__m512i; 2]) -> Self {
        // SAFETY: register operations.
        unsafe {
            let one = _mm512_gf2p8affine_epi64_epi8::<0>(one, factors[0]);
            let other = _mm512_gf2p8affine_epi64_epi8::<0>(other, factors[1]);
            Self(_mm512_ternarylogic_epi64::<XOR3>(self.0, one, other))
        }
    }
}

#[derive(Clone, Copy)]
struct Affine256(__m256i);

// SAFETY: 32 bytes are read and written, with instructions of AVX2 and GFNI only.
unsafe impl Vector for Affine256 {
    const BYTES: usize = 32;
    const COLUMNS: usize = 2;
    type Prepared = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's callers vouch for the instructions, here and below.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        Self(unsafe { _mm256_loadu_si256(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 32 writable bytes.
        unsafe { _mm256_storeu_si256(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> __m256i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> __m256i {
        // SAFETY: register operation.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(constant)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: __m256i, factor: __m256i) -> Self {
        // SAFETY: register operations.
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_gf2p8affine_epi64_epi8::<0>(source, factor)) })
    }
}

#[derive(Clone, Copy)]
struct Shuffle512(__m512i);

// SAFETY: 64 bytes are read and written, with instructions of AVX-512 F and BW only.
unsafe impl Vector for Shuffle512 {
    const BYTES: usize = 64;
    // Nibbles take two registers for each column, products two for each factor.
    const COLUMNS: usize = 3;
    type Prepared = [__m512i; 2];
    type Factor = [__m512i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's callers vouch for the instructions, here and below.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 64 readable bytes.
        Self(unsafe { _mm512_loadu_si512(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 64 writable bytes.
        unsafe { _mm512_storeu_si512(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> [__m512i; 2] {
        // SAFETY: register operations.
        unsafe {
            let nibble = _mm512_set1_epi8(15);
            [_mm512_and_si512(self.0, nibble), _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), nibble)]
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> [__m512i; 2] {
        let table = NIBBLES[usize::from(constant)].as_ptr();
        // SAFETY: a table is 32 bytes long.
        unsafe {
            let half = |at: *const u8| _mm512_broadcast_i32x4(_mm_loadu_si128(at.cast()));
            [half(table), half(table.add(16))]
        }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: [__m512i; 2], factor: [__m512i; 2]) -> Self {
        // SAFETY: register operations.
        unsafe {
            let low = _mm512_shuffle_epi8(factor[0], source[0]);
            let high = _mm512_shuffle_epi8(factor[1], source[1]);
            Self(_mm512_ternarylogic_epi64::<XOR3>(self.0, low, high))
        }
    }
}

#[derive(Clone, Copy)]
struct Shuffle256(__m256i);

// SAFETY: 32 bytes are read and written, with instructions of AVX2 only.
unsafe impl Vector for Shuffle256 {
    const BYTES: usize = 32;
    const COLUMNS: usize = 2;
    // Of 16 registers, nibbles take four, a factor two and a product one.
    const ROWS: usize = 4;
    type Prepared = [__m256i; 2];
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's callers vouch for the instructions, here and below.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        Self(unsafe { _mm256_loadu_si256(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 32 writable bytes.
        unsafe { _mm256_storeu_si256(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> [__m256i; 2] {
        // SAFETY: register operations.
        unsafe {
            let nibble = _mm256_set1_epi8(15);
            [_mm256_and_si256(self.0, nibble), _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), nibble)]
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> [__m256i; 2] {
        let table = NIBBLES[usize::from(constant)].as_ptr();
        // SAFETY: a table is 32 bytes long.
        unsafe {
            let half = |at: *const u8| _mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast()));
            [half(table), half(table.add(16))]
        }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: [__m256i; 2], factor: [__m256i; 2]) -> Self {
        // SAFETY: register operations.
        unsafe {
            let low = _mm256_shuffle_epi8(factor[0], source[0]);
            let high = _mm256_shuffle_epi8(factor[1], source[1]);
            Self(_mm256_xor_si256(_mm256_xor_si256(self.0, low), high))
        }
    }
}

#[derive(Clone, Copy)]
struct Shuffle128(__m128i);

// SAFETY: 16 bytes are read and written, with instructions of SSSE3 and its predecessors only.
unsafe impl Vector for Shuffle128 {
    const BYTES: usize = 16;
    const COLUMNS: usize = 2;
    const ROWS: usize = 4;
    type Prepared = [__m128i; 2];
    type Factor = [__m128i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's callers vouch for the instructions, here and below.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { _mm_loadu_si128(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { _mm_storeu_si128(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn prepare(self) -> [__m128i; 2] {
        // SAFETY: register operations.
        unsafe {
            let nibble = _mm_set1_epi8(15);
            [_mm_and_si128(self.0, nibble), _mm_and_si128(_mm_srli_epi64::<4>(self.0), nibble)]
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> [__m128i; 2] {
        let table = NIBBLES[usize::from(constant)].as_ptr();
        // SAFETY: a table is 32 bytes long.
        unsafe { [_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())] }
    }

    #[inline(always)]
    unsafe fn add_product(self, source: [__m128i; 2], factor: [__m128i; 2]) -> Self {
        // SAFETY: register operations.
        unsafe {
            let low = _mm_shuffle_epi8(factor[0], source[0]);
            let high = _mm_shuffle_epi8(factor[1], source[1]);
            Self(_mm_xor_si128(_mm_xor_si128(self.0, low), high))
        }
    }
}
