//! Recognition of messages that were sent before.

use std::collections::BTreeMap;

use crate::entry::ServerId;
use crate::seal::SealHeader;

/// Senders whose newest message is remembered. Guess: as many servers as a front remembers, far more than one NATS server carries.
const MAX_SENDERS: usize = 4_096;
/// Largest difference between an announcement's time and the reader's clock, in milliseconds. Machines that keep their clocks by NTP differ
/// by far less; a server that has been gone for longer cannot be announced again by a copy of its announcement.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 60_000;

/// The newest message of each sender.
#[derive(Debug, Default)]
pub(crate) struct NewestMessages {
    /// By sender: the newest message's number, and the count of messages before it.
    senders: BTreeMap<ServerId, (u64, u64)>,
    count: u64,
}

impl NewestMessages {
    /// Returns whether the message is newer than all others of its sender, which NATS delivers in order.
    pub(crate) fn accept(&mut self, header: &SealHeader) -> bool {
        if self.senders.get(&header.sender).is_some_and(|(newest, _)| header.number <= *newest) {
            return false;
        }
        if self.senders.len() >= MAX_SENDERS && !self.senders.contains_key(&header.sender) {
            let quietest = self.senders.iter().min_by_key(|(_, (_, at))| *at).map(|(sender, _)| sender.clone());
            quietest.and_then(|quietest| self.senders.remove(&quietest));
        }
        self.count += 1;
        self.senders.insert(header.sender.clone(), (header.number, self.count));
        true
    }
}

/// Returns whether an announcement was sealed recently. `now` is the time in milliseconds since 1970.
pub(crate) const fn is_recent(now: u64, header: &SealHeader) -> bool {
    now.abs_diff(header.sealed_at) <= MAX_CLOCK_DIFFERENCE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sender: &str, number: u64) -> SealHeader {
        SealHeader { sender: ServerId::new(sender).expect("an id"), number, sealed_at: 100_000 }
    }

    #[test]
    fn a_copied_message_is_accepted_once() {
        let mut newest = NewestMessages::default();
        assert!(newest.accept(&header("a", 1)) && newest.accept(&header("a", 5)) && newest.accept(&header("b", 1)));
        for copy in [header("a", 1), header("a", 5), header("a", 4), header("b", 1)] {
            assert!(!newest.accept(&copy), "{copy:?}");
        }
        assert!(newest.accept(&header("a", 6)));
        for other in 0..2 * MAX_SENDERS {
            assert!(newest.accept(&header(&format!("server-{other}"), 1)));
        }
        assert_eq!(newest.senders.len(), MAX_SENDERS);
    }

    #[test]
    fn an_announcement_is_believed_for_a_minute() {
        let header = header("a", 1);
        assert!(is_recent(100_000, &header) && is_recent(160_000, &header) && is_recent(40_000, &header));
        assert!(!is_recent(160_001, &header) && !is_recent(39_999, &header));
    }
}
