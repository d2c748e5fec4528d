//! A short fingerprint (FNV-1a, 64 bits): tells files apart, protects nothing.

/// Of everything that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Self(0xcbf2_9ce4_8422_2325);
        digest.add(bytes);
        digest
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
