//! The share of redundancy in the sent bytes.

use nearlight_units::Bytes;

/// Weight of the newest frame. Guess: half a second's memory at 60 frames a second.
const SMOOTHING: f64 = 1.0 / 32.0;

/// The share of redundancy, repairs and retransmitted symbols, in the sent bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RedundantShare {
    /// Redundant bytes since the newest frame.
    redundant: Bytes,
    /// Means per frame, of redundancy and of the frame's own bytes.
    mean_redundant: f64,
    mean_media: f64,
}

impl RedundantShare {
    /// Records repairs or retransmitted symbols that have left.
    pub(crate) fn on_redundant(&mut self, size: Bytes) {
        self.redundant += size;
    }

    pub(crate) fn on_frame(&mut self, size: Bytes) {
        let redundant = std::mem::take(&mut self.redundant).get() as f64;
        self.mean_redundant += (redundant - self.mean_redundant) * SMOOTHING;
        self.mean_media += (size.get() as f64 - self.mean_media) * SMOOTHING;
    }

    /// The share, from 0 to 1.
    pub(crate) fn get(&self) -> f64 {
        self.mean_redundant / (self.mean_redundant + self.mean_media).max(1.0)
    }
}
