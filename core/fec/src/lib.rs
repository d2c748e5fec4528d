//! Forward error correction of whole frames: codes, redundancy policies, and the loss process that they pay for.

#![deny(unsafe_code)]

pub mod bench;
mod code;
mod coefficients;
mod decoder;
mod digest;
mod estimate;
mod field;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gilbert;
mod kernel;
mod parity_groups;
pub mod policy;
mod solve;
mod window;

pub use code::{Code, CodeError, Encoder, MAX_WINDOW_FRAMES};
pub use coefficients::CAUCHY_SYMBOLS;
pub use decoder::{Decoder, MAX_MISSING, Outcome, SymbolError, decoder_bytes};
pub use digest::digest;
pub use estimate::{LossEstimate, LossSummary, PacketOutcome};
pub use gilbert::{LossProcess, LossTable};
pub use kernel::Kernel;
pub use parity_groups::ParityGroups;
pub use window::{Coverage, Window};
