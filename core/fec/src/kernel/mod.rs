//! The operation that dominates the cost: rows of coefficients times source symbols.
//!
//! `outputs[r] = sum over j of coefficients[r][j] * sources[j]`, byte by byte in GF(2^8). The work is divided into tiles: a few rows
//! times a few vectors of columns are summed up in registers over all sources, so that a source is loaded once per tile and a sum
//! is stored once. All rows of a column tile follow each other while its sources are in the first-level cache.
//!
//! The fastest variant for the processor is chosen at run time. Every variant yields the same bytes as the plain one.

#![allow(clippy::inline_always, reason = "a vector operation that is not inlined loses the caller's instruction set")]
#![allow(unsafe_code, reason = "vector instructions and unchecked tile loops; nothing outside this module needs it")]

mod plain;
mod tile;
#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};

/// A variant of the operation that this processor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel(Variant);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "each processor has only some of them"))]
enum Variant {
    Avx512Gfni,
    Avx2Gfni,
    Avx512,
    Avx2,
    Ssse3,
    Neon,
    Simd128,
    Plain,
}

/// All variants, fastest first.
const VARIANTS: [Variant; 8] = [
    Variant::Avx512Gfni,
    Variant::Avx2Gfni,
    Variant::Avx512,
    Variant::Avx2,
    Variant::Ssse3,
    Variant::Neon,
    Variant::Simd128,
    Variant::Plain,
];

impl Variant {
    const fn name(self) -> &'static str {
        match self {
            Self::Avx512Gfni => "avx512-gfni",
            Self::Avx2Gfni => "avx2-gfni",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Ssse3 => "ssse3",
            Self::Neon => "neon",
            Self::Simd128 => "simd128",
            Self::Plain => "plain",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        let avx2 = || is_x86_feature_detected!("avx2");
        let avx512 = || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        match self {
            Self::Avx512Gfni => avx512() && is_x86_feature_detected!("gfni"),
            Self::Avx2Gfni => avx2() && is_x86_feature_detected!("gfni"),
            Self::Avx512 => avx512(),
            Self::Avx2 => avx2(),
            Self::Ssse3 => is_x86_feature_detected!("ssse3"),
            Self::Plain => true,
            Self::Neon | Self::Simd128 => false,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        match self {
            Self::Plain => true,
            // Every 64-bit Arm processor that runs Rust's standard library has it.
            Self::Neon => cfg!(target_arch = "aarch64"),
            // A browser rejects a whole module that it cannot run, so there is nothing to detect at run time.
            Self::Simd128 => cfg!(all(target_arch = "wasm32", target_feature = "simd128")),
            _ => false,
        }
    }
}

impl Kernel {
    /// The fastest kernel.
    #[must_use]
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self(Variant::Plain))
    }

    /// All kernels that this processor can run, fastest first. The plain one is always among them.
    pub fn available() -> impl Iterator<Item = Self> {
        VARIANTS.into_iter().filter(|variant| variant.is_available()).map(Self)
    }

    /// The kernel of this name, if this processor can run it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|kernel| kernel.name() == name)
    }

    /// The name in benchmarks and logs: the instruction set.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// Replaces `outputs` by the product. `coefficients` holds one row of `sources.len()` factors for each output.
    ///
    /// # Panics
    /// If the coefficients are not one row for each output, outputs differ in length, or a source is shorter than they are.
    pub fn multiply(self, coefficients: &[u8], sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.run(coefficients, sources, outputs, false);
    }

    /// Adds the product to the contents of `outputs`.
    ///
    /// # Panics
    /// As [`Kernel::multiply`].
    pub fn multiply_add(self, coefficients: &[u8], sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.run(coefficients, sources, outputs, true);
    }

    fn run(self, coefficients: &[u8], sources: &[&[u8]], outputs: &mut [&mut [u8]], add: bool) {
        let Some(length) = outputs.first().map(|output| output.len()) else { return };
        assert_eq!(coefficients.len(), sources.len() * outputs.len(), "a coefficient for each source and output");
        assert!(outputs.iter().all(|output| output.len() == length), "outputs of one length");
        assert!(sources.iter().all(|source| source.len() >= length), "sources as long as the outputs");
        let job = tile::Job { coefficients, sources, outputs, length, add };
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernel` is only made for variants that `is_available` found; the assertions above are what `Job` demands.
            Variant::Avx512Gfni | Variant::Avx2Gfni | Variant::Avx512 | Variant::Avx2 | Variant::Ssse3 => unsafe {
                x86::run(self.0, job);
            },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: NEON is part of the architecture; the assertions above are what `Job` demands.
            Variant::Neon => unsafe { neon::run(job) },
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            // SAFETY: the module is compiled for simd128; the assertions above are what `Job` demands.
            Variant::Simd128 => unsafe { wasm::run(job) },
            _ => plain::run(job),
        }
    }
}

impl Serialize for Kernel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
