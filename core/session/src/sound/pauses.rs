//! Blocks that the server never sent, which were not lost. While there is silence, it sends one datagram in forty. A server that is late skips
//! blocks; the datagram after them repeats no block before its own.

/// Number of blocks that one announcement covers: two more announcements may be lost before silence counts as missing.
const BLOCKS_PER_ANNOUNCEMENT: u32 = 120;

/// The server's known pauses and omissions.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The silent blocks of the newest pause: the first, and the one after the last.
    silent: Option<(u32, u32)>,
    /// Whether the newest datagram announced silence.
    lasts: bool,
    unsent: u64,
}

impl Pauses {
    /// Handles a datagram newer than all others: `silent` if it announces a pause, `repeats` if it contains the previous block, too.
    pub(super) fn on_newest(&mut self, newest: Option<u32>, block: u32, silent: bool, repeats: bool) {
        if self.lasts {
            let between = newest.map_or(0, |newest| block.saturating_sub(newest.saturating_add(1)));
            if between < BLOCKS_PER_ANNOUNCEMENT {
                self.unsent += u64::from(between.saturating_sub(u32::from(repeats && !silent)));
            }
        } else if !repeats && let Some(newest) = newest {
            self.unsent += u64::from(block.saturating_sub(newest.saturating_add(1)));
        }
        self.silent = match (self.silent, self.lasts, silent) {
            (Some((from, _)), true, true) => Some((from, block.saturating_add(BLOCKS_PER_ANNOUNCEMENT))),
            (_, _, true) => Some((block, block.saturating_add(BLOCKS_PER_ANNOUNCEMENT))),
            (Some((from, until)), true, false) => Some((from, until.min(block))),
            (ended, false, false) | (ended @ None, _, false) => ended,
        };
        self.lasts = silent;
    }

    pub(super) fn is_silent(&self, block: u32) -> bool {
        self.silent.is_some_and(|(from, until)| (from..until).contains(&block))
    }

    /// Number of blocks that the server omitted.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }
}
