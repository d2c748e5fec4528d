//! The transit time of blocks: a high quantile.

use std::collections::VecDeque;

use nearlight_units::Span;

/// Blocks in the window: three seconds. A slower path is detected after [`MAX_SLOW_BLOCKS`] blocks, a faster one after this many.
const WINDOW_BLOCKS: usize = 300;
/// Number of blocks in the window that may take longer: 1 %, because one interruption is better than sound that is always late. Guess.
const MAX_SLOW_BLOCKS: usize = 3;
/// The quantile is recomputed after this many blocks.
const UPDATE_INTERVAL: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct DelayQuantile {
    spans: VecDeque<Span>,
    quantile: Span,
    until_renewal: u32,
}

impl DelayQuantile {
    /// Records a block that arrived this long after its moment.
    pub(super) fn on_arrival(&mut self, span: Span) {
        self.spans.push_back(span);
        if self.spans.len() > WINDOW_BLOCKS {
            self.spans.pop_front();
        }
        if self.until_renewal == 0 || self.spans.len() < MAX_SLOW_BLOCKS {
            let mut sorted: Vec<Span> = self.spans.iter().copied().collect();
            sorted.sort_unstable();
            let slowest = (MAX_SLOW_BLOCKS * sorted.len()) / WINDOW_BLOCKS;
            self.quantile = sorted[sorted.len() - 1 - slowest];
            self.until_renewal = UPDATE_INTERVAL;
        }
        self.until_renewal -= 1;
    }

    /// The transit time that only the slowest blocks exceed.
    pub(super) const fn quantile(&self) -> Span {
        self.quantile
    }
}
