//! How much a link can carry, over time.

mod fine_structure;
mod rates;
mod trace;

pub use fine_structure::FineStructure;
pub use rates::{Rates, StepsError};
pub use trace::Trace;

pub(crate) use fine_structure::Slots;
pub(crate) use rates::{MAX_WORK, Meter, Work, work_of};
pub(crate) use trace::{HEADER, Reader};

/// The capacity of a bottleneck over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Steps or a series, and what lies below the series' step.
    Rates(Rates, FineStructure),
    /// A packet-level trace; each opportunity's bytes are multiplied by the factor.
    Trace(Trace, f64),
}

impl Capacity {
    /// Returns a constant capacity.
    #[must_use]
    pub fn constant(rate: nearlight_units::Bitrate) -> Self {
        Self::Rates(Rates::constant(rate), FineStructure::Smooth)
    }
}
