//! A reliable byte stream in each direction for control messages. They are few and small, so a fixed window and a timer per segment
//! suffice.

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Span, Time};

/// Maximum number of segments in flight: as many as an acknowledgement can name.
pub(crate) const WINDOW: u32 = 32;
/// Maximum number of bytes that wait to be sent or acknowledged: four messages of the longest kind.
const MAX_UNACKNOWLEDGED_BYTES: usize = 256 << 10;
/// Maximum number of bytes that have arrived and have not been read. A user that reads nothing receives no more.
const MAX_UNREAD_BYTES: usize = 256 << 10;
/// A segment is retransmitted after two round trips plus this margin. Guess: the peer's scheduler sometimes takes that long.
const RETRANSMISSION_MARGIN: Span = Span::from_millis(5);
/// The round trip before the first measurement. Guess: a busy Wi-Fi.
const INITIAL_ROUND_TRIP: Span = Span::from_millis(25);
/// Maximum time between retransmissions, so that a restored path is noticed.
const MAX_TIMEOUT: Span = Span::from_millis(500);

struct Segment {
    bytes: Vec<u8>,
    /// When it was last sent, and how often.
    sent_at: Time,
    times: u32,
    acknowledged: bool,
}

/// The sending half.
pub(crate) struct StreamSender {
    unsent: VecDeque<u8>,
    under_way: VecDeque<Segment>,
    under_way_bytes: usize,
    /// The number of the first of `under_way`.
    first: u32,
    round_trip: Option<Span>,
    pub(crate) retransmissions: u64,
}

impl StreamSender {
    pub(crate) const fn new() -> Self {
        Self {
            unsent: VecDeque::new(),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            first: 0,
            round_trip: None,
            retransmissions: 0,
        }
    }

    /// Queues bytes. Returns false, and queues nothing, if too much is waiting.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        let room = MAX_UNACKNOWLEDGED_BYTES.saturating_sub(self.waiting());
        // A long message is accepted if nothing else waits.
        if bytes.len() > room && self.waiting() > 0 {
            return false;
        }
        self.unsent.extend(bytes);
        true
    }

    /// Bytes that the peer has not acknowledged.
    pub(crate) fn waiting(&self) -> usize {
        self.unsent.len() + self.under_way_bytes
    }

    pub(crate) const fn round_trip(&self) -> Option<Span> {
        self.round_trip
    }

    fn timeout(&self, times: u32) -> Span {
        let once = self.round_trip.unwrap_or(INITIAL_ROUND_TRIP) * 2 + RETRANSMISSION_MARGIN;
        (once * i64::from(1_u32 << times.saturating_sub(1).min(6))).min(MAX_TIMEOUT)
    }

    /// Returns the next segment to send, new or retransmitted. `longest` is what fits a frame.
    pub(crate) fn poll(&mut self, now: Time, longest: usize) -> Option<(u32, &[u8])> {
        let due = (0..self.under_way.len()).find(|place| {
            let segment = &self.under_way[*place];
            !segment.acknowledged && now >= segment.sent_at + self.timeout(segment.times)
        });
        let place = match due {
            Some(place) => {
                self.retransmissions += 1;
                place
            }
            None if self.unsent.is_empty() || self.under_way.len() >= WINDOW as usize => return None,
            None => {
                let bytes: Vec<u8> = self.unsent.drain(..longest.min(self.unsent.len())).collect();
                self.under_way_bytes += bytes.len();
                self.under_way.push_back(Segment { bytes, sent_at: now, times: 0, acknowledged: false });
                self.under_way.len() - 1
            }
        };
        let segment = &mut self.under_way[place];
        (segment.sent_at, segment.times) = (now, segment.times.saturating_add(1));
        Some((self.first.wrapping_add(place as u32), &segment.bytes))
    }

    /// When a segment is due for retransmission.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.under_way.iter().filter(|segment| !segment.acknowledged);
        waiting.map(|segment| segment.sent_at + self.timeout(segment.times)).min()
    }

    /// Handles an acknowledgement: the peer has everything before `next`, and of the following segments those whose bit is set. Segments
    /// that were never sent are ignored.
    pub(crate) fn on_acknowledgement(&mut self, now: Time, next: u32, further: u32) {
        let before = next.wrapping_sub(self.first) as usize;
        if before > self.under_way.len() {
            return;
        }
        for place in 0..self.under_way.len() {
            let after = place.checked_sub(before + 1);
            let acknowledged = place < before || after.is_some_and(|bit| bit < 32 && further >> bit & 1 == 1);
            let segment = &mut self.under_way[place];
            if !acknowledged || segment.acknowledged {
                continue;
            }
            segment.acknowledged = true;
            if segment.times == 1 {
                let sample = now.saturating_since(segment.sent_at);
                self.round_trip = Some(self.round_trip.map_or(sample, |known| (known * 7 + sample) / 8));
            }
        }
        while self.under_way.front().is_some_and(|segment| segment.acknowledged) {
            let segment = self.under_way.pop_front().expect("there is one");
            self.under_way_bytes -= segment.bytes.len();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// The receiving half.
pub(crate) struct StreamReceiver {
    /// The number of the segment that is handed out next.
    next: u32,
    /// Segments that arrived out of order.
    early: BTreeMap<u32, Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    unread: usize,
    acknowledgement_due: bool,
}

impl StreamReceiver {
    pub(crate) const fn new() -> Self {
        Self { next: 0, early: BTreeMap::new(), ready: VecDeque::new(), unread: 0, acknowledgement_due: false }
    }

    /// Handles a segment. If it is outside the window or would exceed the unread limit, it is dropped and will be retransmitted.
    pub(crate) fn on_segment(&mut self, sequence: u32, bytes: &[u8]) {
        let ahead = sequence.wrapping_sub(self.next);
        if ahead >= WINDOW {
            // An old one, whose acknowledgement was lost.
            self.acknowledgement_due |= self.next.wrapping_sub(sequence) <= WINDOW;
            return;
        }
        if self.unread >= MAX_UNREAD_BYTES {
            return;
        }
        self.acknowledgement_due = true;
        self.early.entry(sequence).or_insert_with(|| bytes.to_vec());
        while let Some(bytes) = self.early.remove(&self.next) {
            self.unread += bytes.len();
            self.ready.push_back(bytes);
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Returns the acknowledgement that is due.
    pub(crate) fn poll_acknowledgement(&mut self) -> Option<(u32, u32)> {
        if !std::mem::take(&mut self.acknowledgement_due) {
            return None;
        }
        let bit = |sequence: &u32| 1_u32 << sequence.wrapping_sub(self.next).wrapping_sub(1).min(31);
        Some((self.next, self.early.keys().map(bit).fold(0, |bits, bit| bits | bit)))
    }

    /// Returns the next bytes of the stream.
    pub(crate) fn poll(&mut self) -> Option<Vec<u8>> {
        let bytes = self.ready.pop_front()?;
        self.unread -= bytes.len();
        Some(bytes)
    }

    /// Bytes stored.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        self.unread + self.early.values().map(Vec::len).sum::<usize>()
    }
}
