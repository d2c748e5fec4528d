//! How much a link can carry, over time.

mod fine;
mod rates;
mod trace;

pub use fine::Fine;
pub use rates::{BadSteps, Rates};
pub use trace::Trace;

pub(crate) use fine::Slots;
pub(crate) use rates::{MOST_WORK, Meter, Work, work_of};
pub(crate) use trace::{HEADER, Reader};

/// Where a bottleneck's capacity comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Steps or a series, and what lies below the series' step.
    Rates(Rates, Fine),
    /// A packet-level trace; each opportunity's bytes are multiplied by the factor.
    Trace(Trace, f64),
}

impl Capacity {
    /// The same rate at all times.
    #[must_use]
    pub fn constant(rate: nearlight_units::Bitrate) -> Self {
        Self::Rates(Rates::constant(rate), Fine::Smooth)
    }
}
