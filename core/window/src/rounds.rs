//! Round trips, counted by delivered data and not by a clock.

use nearlight_units::Bytes;

/// A round ends when a packet is acknowledged that was sent after the round began (BBR draft-00, section 3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    count: u64,
    ends_at: Bytes,
}

impl Rounds {
    /// Returns whether a new round begins with this acknowledgement.
    pub(super) fn on_ack(&mut self, delivered: Bytes, delivered_when_sent: Bytes) -> bool {
        if delivered_when_sent < self.ends_at {
            return false;
        }
        self.restart(delivered);
        self.count += 1;
        true
    }

    /// Restarts the current round: it ends when a packet sent from now on is acknowledged.
    pub(super) fn restart(&mut self, delivered: Bytes) {
        self.ends_at = delivered;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
