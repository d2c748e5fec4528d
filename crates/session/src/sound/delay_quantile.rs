//! The transit time of blocks, and the one that nearly all of them stay below.

use std::collections::VecDeque;

use nearlight_units::Span;

/// Blocks in the window: three seconds. A path that has become slower is detected after [`SLOWEST`] blocks, a faster one after this many.
const WINDOW: usize = 300;
/// This many of them may take longer: 1 %, for sound interrupted once by a spike is better than sound that is always late. Guess.
const SLOWEST: usize = 3;
/// The quantile is recomputed after this many blocks.
const RENEWAL: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct DelayQuantile {
    spans: VecDeque<Span>,
    usual: Span,
    until_renewal: u32,
}

impl DelayQuantile {
    /// A block arrived this long after its moment.
    pub(super) fn on_arrival(&mut self, span: Span) {
        self.spans.push_back(span);
        if self.spans.len() > WINDOW {
            self.spans.pop_front();
        }
        if self.until_renewal == 0 || self.spans.len() < SLOWEST {
            let mut sorted: Vec<Span> = self.spans.iter().copied().collect();
            sorted.sort_unstable();
            let slowest = (SLOWEST * sorted.len()) / WINDOW;
            self.usual = sorted[sorted.len() - 1 - slowest];
            self.until_renewal = RENEWAL;
        }
        self.until_renewal -= 1;
    }

    /// The transit time that all but the slowest blocks stay below.
    pub(super) const fn usual(&self) -> Span {
        self.usual
    }
}
