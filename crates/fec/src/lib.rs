//! Forward error correction of whole frames: codes, redundancy policies, and the loss process that they pay for.

#![deny(unsafe_code)]

mod code;
mod coefficients;
mod decoder;
mod digest;
mod field;
mod kernel;
mod solve;
mod window;

pub use code::{Code, CodeError, Encoder, MAX_WINDOW_FRAMES};
pub use coefficients::CAUCHY_SYMBOLS;
pub use decoder::{Decoder, MAX_MISSING, Outcome, SymbolError, decoder_bytes};
pub use digest::digest;
pub use kernel::Kernel;
pub use window::{Coverage, Window};
