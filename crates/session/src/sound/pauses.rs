//! Discontinuous transmission: while the server is silent, it sends one datagram in forty. What it left out was not lost.

/// Blocks that one announcement covers: two more announcements may be lost before silence counts as missing.
const COVERED: u32 = 120;

/// What is known of the server's pauses.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The silent blocks of the newest pause: the first, and the one after the last.
    silent: Option<(u32, u32)>,
    /// The newest datagram announced silence.
    lasts: bool,
    unsent: u64,
}

impl Pauses {
    /// A datagram arrived that is newer than all others: `silent` if it announces a pause, `repeats` if it has the block before it, too.
    pub(super) fn on_newest(&mut self, newest: Option<u32>, block: u32, silent: bool, repeats: bool) {
        if self.lasts {
            let between = newest.map_or(0, |newest| block.saturating_sub(newest.saturating_add(1)));
            if between < COVERED {
                self.unsent += u64::from(between.saturating_sub(u32::from(repeats && !silent)));
            }
        }
        self.silent = match (self.silent, self.lasts, silent) {
            (Some((from, _)), true, true) => Some((from, block.saturating_add(COVERED))),
            (_, _, true) => Some((block, block.saturating_add(COVERED))),
            (Some((from, until)), true, false) => Some((from, until.min(block))),
            (ended, false, false) | (ended @ None, _, false) => ended,
        };
        self.lasts = silent;
    }

    pub(super) fn is_silent(&self, block: u32) -> bool {
        self.silent.is_some_and(|(from, until)| (from..until).contains(&block))
    }

    /// Blocks that the server left out.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }
}
