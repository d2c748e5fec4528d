//! The receiver: delivers in order and acknowledges.

use nearlight_units::{Bytes, Time};

use super::ranges::Ranges;
use super::{Ack, Block, Config, MAX_SACK_BLOCKS};
use crate::FlowWake;

/// Segments in order that are acknowledged at once (RFC 5681, section 4.2).
const SEGMENTS_PER_ACK: u32 = 2;

/// Receives segments, hands data on in order and says what arrived.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    window: u64,
    next: u64,
    /// Arrived beyond a gap.
    beyond: Ranges,
    /// The first numbers of what arrived last, the newest first: what acknowledgements report (RFC 2018, section 4).
    recent: [Option<u64>; MAX_SACK_BLOCKS],
    duplicate: Option<u64>,
    marked: bool,
    unacknowledged: u32,
    ack_now: bool,
    ack_due: Option<Time>,
}

impl Receiver {
    #[must_use]
    pub fn new(config: Config) -> Self {
        let config = config.in_order();
        Self {
            config,
            window: config.window(),
            next: 0,
            beyond: Ranges::default(),
            recent: [None; MAX_SACK_BLOCKS],
            duplicate: None,
            marked: false,
            unacknowledged: 0,
            ack_now: false,
            ack_due: None,
        }
    }

    /// A segment arrived, `marked` with congestion or not.
    pub fn on_segment(&mut self, now: Time, number: u64, marked: bool) {
        self.ack_now |= marked && !self.marked;
        self.marked |= marked;
        if number < self.next || self.beyond.find(number).is_some() {
            self.duplicate = Some(number);
            self.ack_now = true;
        } else if number == self.next {
            self.on_next();
        } else if number < self.next + self.window {
            self.beyond.insert(Block { start: number, end: number + 1 }, |_| {});
            self.remember(number);
            self.ack_now = true;
        } else {
            // Beyond the receive window: our senders never do this.
            return;
        }
        self.unacknowledged += 1;
        if self.unacknowledged >= SEGMENTS_PER_ACK {
            self.ack_now = true;
        } else if self.ack_due.is_none() {
            self.ack_due = Some(now + self.config.ack_delay);
        }
    }

    fn on_next(&mut self) {
        self.next += 1;
        if self.beyond.count() == 0 {
            return;
        }
        self.ack_now = true;
        if let Some(filled) = self.beyond.find(self.next) {
            self.next = filled.end;
            self.beyond.remove_below(self.next);
        }
    }

    fn remember(&mut self, number: u64) {
        let Some(block) = self.beyond.find(number) else { return };
        let is_other = |start: &u64| !(block.start..block.end).contains(start);
        let mut others = self.recent.into_iter().flatten().filter(is_other);
        self.recent = [Some(number), others.next(), others.next()];
    }

    /// The acknowledgement that is due, if one is.
    pub fn poll_ack(&mut self, now: Time) -> Option<Ack> {
        let waited = self.ack_due.is_some_and(|due| due <= now);
        if !self.ack_now && !waited {
            return None;
        }
        self.ack_now = false;
        self.ack_due = None;
        self.unacknowledged = 0;
        let mut blocks = [Block::default(); MAX_SACK_BLOCKS];
        if self.beyond.count() > 0 {
            let known = self.recent.iter().flatten().filter_map(|&number| self.beyond.find(number));
            for (block, range) in blocks.iter_mut().zip(known) {
                *block = range;
            }
        }
        let duplicate = self.duplicate.take();
        if duplicate.is_some() {
            // The duplicate takes a block's place (RFC 2883).
            blocks[MAX_SACK_BLOCKS - 1] = Block::default();
        }
        Some(Ack { next: self.next, blocks, duplicate, marked: std::mem::take(&mut self.marked) })
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        self.ack_due.map(|due| (due, FlowWake::DelayedAck))
    }

    /// The first segment that has not arrived.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Data handed on in order, without headers.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        self.config.data_before(self.next)
    }

    /// Segments that wait behind a gap: never more than the receive window.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.beyond.count()
    }
}
