//! Groups packets that were sent together into one sample: the change of delay from group to group.

use nearlight_units::{RemoteTime, Span, Time};

/// Packets sent within this span form a group (libwebrtc `kSendTimeGroupLength`).
const GROUP_LENGTH: Span = Span::from_millis(5);
/// Packets that arrive this close together, and sooner than they were sent apart, join the group (`kBurstDeltaThreshold`).
const BURST_GAP: Span = Span::from_millis(5);
/// The longest time over which libwebrtc merges arrivals (`kMaxBurstDuration`).
pub const MAX_BURST: Span = Span::from_millis(100);
/// Groups that arrive before their predecessors until the state is reset (`kReorderedResetThreshold`).
const MAX_REORDERED_GROUPS: u8 = 3;

/// Time between two successive groups, at the sender and at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// From the last packet of one group to the last of the next, as sent.
    pub sent: Span,
    /// From the last packet of one group to the last of the next, as arrived.
    pub arrived: Span,
    /// When the newer group's last packet arrived.
    pub arrived_at: RemoteTime,
}

/// The packet from which a group's sending time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The first packet: a group lasts for 5 ms at most (libwebrtc, the draft).
    First,
    /// The last packet: a group lasts as long as packets follow each other within 5 ms (pion).
    Last,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    first_arrived: RemoteTime,
    last_arrived: RemoteTime,
}

impl Group {
    fn takes(&self, sent_at: Time, arrived_at: RemoteTime, anchor: Anchor, max_burst: Span) -> bool {
        let anchor = match anchor {
            Anchor::First => self.first_sent,
            Anchor::Last => self.last_sent,
        };
        sent_at - anchor <= GROUP_LENGTH || self.is_burst_with(sent_at, arrived_at, max_burst)
    }

    fn is_burst_with(&self, sent_at: Time, arrived_at: RemoteTime, longest: Span) -> bool {
        let arrival = arrived_at - self.last_arrived;
        let sending = sent_at - self.last_sent;
        sending == Span::ZERO
            || (arrival < sending && arrival <= BURST_GAP && (arrived_at - self.first_arrived).abs() < longest)
    }
}

/// Forms groups of packets: libwebrtc `InterArrivalDelta`.
#[derive(Clone, Debug)]
pub struct Groups {
    anchor: Anchor,
    max_burst: Span,
    current: Option<Group>,
    previous: Option<Group>,
    reordered: u8,
}

impl Groups {
    #[must_use]
    pub fn new(anchor: Anchor, max_burst: Span) -> Self {
        Self { anchor, max_burst, current: None, previous: None, reordered: 0 }
    }

    /// Resets the state, for example after a long silence of the stream.
    pub fn forget(&mut self) {
        *self = Self::new(self.anchor, self.max_burst);
    }

    /// Records a packet's arrival. When it begins a new group, returns the delta of the two groups before it.
    pub fn on_packet(&mut self, sent_at: Time, arrived_at: RemoteTime) -> Option<Delta> {
        let fresh =
            Group { first_sent: sent_at, last_sent: sent_at, first_arrived: arrived_at, last_arrived: arrived_at };
        let Some(current) = &mut self.current else {
            self.current = Some(fresh);
            return None;
        };
        if sent_at < current.first_sent {
            return None;
        }
        if current.takes(sent_at, arrived_at, self.anchor, self.max_burst) {
            current.last_sent = current.last_sent.max(sent_at);
            current.last_arrived = current.last_arrived.max(arrived_at);
            return None;
        }
        let complete = *current;
        self.current = Some(fresh);
        let previous = self.previous.replace(complete)?;
        self.delta(&previous, &complete)
    }

    fn delta(&mut self, previous: &Group, complete: &Group) -> Option<Delta> {
        let arrived = complete.last_arrived - previous.last_arrived;
        if arrived < Span::ZERO {
            self.reordered += 1;
            if self.reordered >= MAX_REORDERED_GROUPS {
                self.forget();
            }
            return None;
        }
        self.reordered = 0;
        let sent = complete.last_sent - previous.last_sent;
        Some(Delta { sent, arrived, arrived_at: complete.last_arrived })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(packets: &[(u64, u64)]) -> Vec<(i64, i64)> {
        feed_with(Anchor::First, packets)
    }

    fn feed_with(anchor: Anchor, packets: &[(u64, u64)]) -> Vec<(i64, i64)> {
        let mut groups = Groups::new(anchor, MAX_BURST);
        let (at, there) = (Time::from_millis, RemoteTime::from_millis);
        let deltas = packets.iter().filter_map(|&(sent, arrived)| groups.on_packet(at(sent), there(arrived)));
        deltas.map(|delta| (delta.sent.as_micros() / 1_000, delta.arrived.as_micros() / 1_000)).collect()
    }

    #[test]
    fn groups_by_sending_time_and_merges_bursts() {
        let cases = [
            ("single packets", vec![(0, 100), (10, 112), (20, 125), (30, 140)], vec![(10, 12), (10, 13)]),
            (
                "last packets count",
                vec![(0, 100), (4, 106), (10, 112), (14, 120), (30, 130), (50, 150)],
                vec![(10, 14), (16, 10)],
            ),
            (
                "a burst after a stall is one group",
                vec![(0, 100), (20, 200), (40, 201), (60, 202), (80, 220), (99, 239)],
                vec![(60, 102), (20, 18)],
            ),
            (
                "an older packet is ignored",
                vec![(0, 100), (20, 120), (10, 121), (40, 140), (60, 160)],
                vec![(20, 20), (20, 20)],
            ),
            ("nothing for one group", vec![(0, 100), (1, 101), (2, 102)], vec![]),
        ];
        for (what, packets, deltas) in cases {
            assert_eq!(feed(&packets), deltas, "{what}");
        }
    }

    #[test]
    fn a_chain_of_packets_is_one_group_or_several() {
        let packets: Vec<(u64, u64)> = (0..8).map(|number| (number * 4, 100 + number * 10)).collect();
        assert_eq!(feed_with(Anchor::First, &packets), [(8, 20), (8, 20)]);
        assert_eq!(feed_with(Anchor::Last, &packets), []);
    }

    #[test]
    fn a_receiver_whose_clock_jumps_back_is_learnt_anew() {
        let mut packets: Vec<(u64, u64)> = (0..10).map(|number| (number * 20, 10_000 + number * 20)).collect();
        packets.extend((10..20).map(|number| (number * 20, 100 + number * 20)));
        let deltas = feed(&packets);
        assert!(deltas.len() >= 12, "{deltas:?}");
        assert!(deltas.iter().all(|&delta| delta == (20, 20)), "{deltas:?}");
    }
}
