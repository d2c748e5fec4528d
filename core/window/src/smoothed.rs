//! The smoothed round trip (RFC 6298).

use nearlight_units::Span;

/// Weight of a new round trip (RFC 6298, alpha: 1/8), as a divisor.
const WEIGHT: i64 = 8;

/// A moving average of round trips. None until the first sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmoothedRoundTrip {
    value: Option<Span>,
}

impl SmoothedRoundTrip {
    pub(super) fn on_sample(&mut self, round_trip: Span) {
        self.value = Some(self.value.map_or(round_trip, |old| old + (round_trip - old) / WEIGHT));
    }

    pub(super) fn value(&self) -> Option<Span> {
        self.value
    }
}
