//! Frames as a sender makes them.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod session;

use nearlight_fec::{Code, Decoder, Encoder, Outcome, SymbolError};
use nearlight_units::{Bytes, FrameId};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Enough for every frame of these tests.
pub const LIMIT: Bytes = Bytes::new(8 << 20);

/// A frame and its repairs.
pub struct Sent {
    pub code: Code,
    pub frame: Vec<u8>,
    pub repairs: Vec<u8>,
}

impl Sent {
    pub fn new(frame: FrameId, bytes: u32, sources: u16, repairs: u16) -> Self {
        let code = Code::new(frame, bytes, sources).expect("a shape");
        let mut content = vec![0; bytes as usize];
        Pcg32::seed_from_u64(u64::from(frame.0) + 100).fill_bytes(&mut content);
        let mut coded = vec![0; usize::from(repairs) * code.symbol_bytes()];
        Encoder::default().repairs(&code, &content, 0..repairs, &mut coded).expect("encodes");
        Self { code, frame: content, repairs: coded }
    }

    /// Symbol `number`: a source, or from the number of sources on a repair.
    pub fn symbol(&self, number: u16) -> &[u8] {
        match number.checked_sub(self.code.sources()) {
            None => &self.frame[self.code.range(number)],
            Some(repair) => &self.repairs[usize::from(repair) * self.code.symbol_bytes()..][..self.code.symbol_bytes()],
        }
    }

    pub fn feed(&self, decoder: &mut Decoder, number: u16) -> Result<Outcome, SymbolError> {
        match number.checked_sub(self.code.sources()) {
            None => decoder.on_source(number, self.symbol(number)),
            Some(repair) => decoder.on_repair(repair, self.symbol(number)),
        }
    }
}

pub fn below(random: &mut Pcg32, bound: u32) -> u32 {
    ((u64::from(random.next_u32()) * u64::from(bound)) >> 32) as u32
}

pub fn shuffle(random: &mut Pcg32, items: &mut [u16]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(random, last as u32 + 1) as usize);
    }
}
