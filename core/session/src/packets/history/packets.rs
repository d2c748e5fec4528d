//! The content and the fate of each sent packet.

use std::collections::VecDeque;

use nearlight_fec::ParityGroups;
use nearlight_rate::{PacketReport, SentPacket};
use nearlight_units::{Bytes, FrameId, PacketSeq, RemoteTime, Span, Time};
use nearlight_wire::{Feedback, Nack};

use super::Content;
use super::pieces::PieceHistory;

/// How long a packet's state may still be reported. Guess: a queue that is sized for a path's mean rate and drains at a twentieth of it
/// takes seconds, and no session could work with a longer round trip.
pub const PACKET_RETENTION: Span = Span::from_secs(10);
/// How long a packet is stored once its state is known, because a late arrival may revoke a loss. Guess: longer than any reordering.
const KNOWN_PACKET_RETENTION: Span = Span::from_secs(2);
/// Maximum number of packets in memory, however fast they leave: [`PACKET_RETENTION`] at 100 Mb/s in datagrams of 1,000 bytes. What is
/// stored depends on what was sent and when, not on what the peer reports.
pub const MAX_PACKETS_KEPT: usize = 125_000;
/// A packet is lost when a report that omits it covers one sent this many later (RFC 9002 section 6.1.1).
pub(super) const REORDER_PACKETS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketState {
    Unknown,
    Lost,
    Arrived(RemoteTime),
}

/// A packet without any report counts as unreported once this many later ones were reported: its reports were lost. Guess.
const UNREPORTED_PACKETS: u32 = 256;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketRecord {
    pub(super) packet: SentPacket,
    pub(super) content: Content,
    pub(super) state: PacketState,
}

/// Matches feedback with what was sent. Each packet is reported as lost at most once and as arrived at most once.
#[derive(Debug, Default)]
pub(crate) struct PacketHistory {
    packets: VecDeque<PacketRecord>,
    reports: Vec<PacketReport>,
    pub(crate) lost: u64,
    /// The next packet whose state [`PacketHistory::poll_settled`] returns.
    settled_to: u32,
    newest_covered: u32,
    /// The newest packet that was forgotten before any report about it.
    forgotten: Option<u32>,
    /// History of the pieces. None if the receiver itself requests the pieces that it lacks.
    pieces: Option<Box<PieceHistory>>,
}

/// The news in one feedback message.
pub(crate) struct MatchedFeedback<'a> {
    pub(crate) reports: &'a mut [PacketReport],
    /// When the newest of them was sent and when it arrived.
    pub(crate) newest_arrival: Option<(Time, RemoteTime)>,
    /// Whether it reports only packets sent so long ago that they are forgotten.
    pub(crate) outdated: bool,
}

impl PacketHistory {
    /// Makes a history that tracks pieces, for receivers that request packets rather than pieces, where feedback reveals losses sooner than
    /// the requests do.
    pub(crate) fn tracking_pieces() -> Self {
        Self { pieces: Some(Box::default()), ..Self::default() }
    }

    /// Records a sent packet. Its number is one more than the previous one's.
    pub(crate) fn on_sent(&mut self, packet: SentPacket, content: Content) {
        self.packets.push_back(PacketRecord { packet, content, state: PacketState::Unknown });
        if let Some(pieces) = &mut self.pieces {
            pieces.on_sent(packet.seq, content);
        }
        while let Some(PacketRecord { packet: oldest, content, state }) = self.packets.front() {
            let kept = if *state == PacketState::Unknown { PACKET_RETENTION } else { KNOWN_PACKET_RETENTION };
            if packet.sent_at - oldest.sent_at <= kept && self.packets.len() <= MAX_PACKETS_KEPT {
                break;
            }
            if *state == PacketState::Unknown {
                self.forgotten = Some(oldest.seq.0);
            }
            if let Some(pieces) = &mut self.pieces {
                pieces.on_forgotten(*content);
            }
            self.packets.pop_front();
        }
    }

    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) -> MatchedFeedback<'_> {
        self.reports.clear();
        let mut newest_arrival = None;
        let Some(first) = self.first() else {
            return MatchedFeedback { reports: &mut [], newest_arrival, outdated: false };
        };
        let newest_covered = feedback.first.0.saturating_add(feedback.arrivals.len() as u32 - 1);
        let newest_sent = first + (self.packets.len() as u32 - 1);
        self.newest_covered = self.newest_covered.max(newest_covered.min(newest_sent));
        for arrival in feedback.iter() {
            let Some(index) = arrival.seq.0.checked_sub(first) else { continue };
            let Some(PacketRecord { packet, state, .. }) = self.packets.get_mut(index as usize) else { break };
            let known = *state;
            *state = match arrival.at {
                Some(_) if matches!(known, PacketState::Arrived(_)) => known,
                Some(at) => PacketState::Arrived(at),
                None if known == PacketState::Unknown && newest_covered - packet.seq.0 >= REORDER_PACKETS => {
                    PacketState::Lost
                }
                None => known,
            };
            if *state == known {
                continue;
            }
            match known {
                PacketState::Unknown if *state == PacketState::Lost => self.lost += 1,
                PacketState::Lost => self.lost -= 1,
                _ => {}
            }
            let arrived_at = arrival.at;
            self.reports.push(PacketReport { packet: *packet, arrived_at, ce: arrival.ce });
            if let Some(at) = arrived_at {
                newest_arrival = Some((packet.sent_at, at));
            }
        }
        let names_forgotten =
            |forgotten: u32| feedback.iter().any(|arrival| arrival.at.is_some() && arrival.seq.0 <= forgotten);
        let outdated = self.reports.is_empty() && self.forgotten.is_some_and(names_forgotten);
        MatchedFeedback { reports: &mut self.reports, newest_arrival, outdated }
    }

    /// Returns pieces that are lost according to feedback up to the newest packet covered, have not been retransmitted since and will not
    /// be recovered by a repair. `groups` are a frame's repairs. Empty if the receiver itself requests what it lacks.
    pub(crate) fn poll_lost(&mut self, feedback: &Feedback, groups: impl Fn(FrameId) -> Option<ParityGroups>) -> Nack {
        let Some(mut pieces) = self.pieces.take() else { return Nack { missing: Vec::new() } };
        let lost = pieces.on_feedback(self, feedback, groups);
        self.pieces = Some(pieces);
        lost
    }

    /// Returns the part of a receiver's request to answer now: a repair that the receiver did not know of may recover the rest.
    pub(crate) fn on_request(
        &mut self,
        now: Time,
        nack: &Nack,
        round_trip: Span,
        groups: impl Fn(FrameId) -> Option<ParityGroups>,
    ) -> Option<Nack> {
        let mut pieces = self.pieces.take()?;
        let missing = pieces.on_request(self, now, nack, round_trip, groups);
        self.pieces = Some(pieces);
        Some(missing)
    }

    fn first(&self) -> Option<u32> {
        self.packets.front().map(|kept| kept.packet.seq.0)
    }

    /// The packet with this number, while it is remembered.
    pub(super) fn get(&self, seq: u32) -> Option<&PacketRecord> {
        self.packets.get(seq.checked_sub(self.first()?)? as usize)
    }

    /// When the oldest packet left that is newer than everything feedback has covered.
    pub(crate) fn oldest_unreported(&self) -> Option<Time> {
        let next = (self.newest_covered + 1).saturating_sub(self.first()?);
        self.packets.get(next as usize).map(|kept| kept.packet.sent_at)
    }

    /// Bytes that have left since the newest packet that feedback has covered.
    pub(crate) fn unreported(&self) -> Bytes {
        let unreported = self.packets.iter().rev().take_while(|kept| kept.packet.seq.0 > self.newest_covered);
        unreported.fold(Bytes::ZERO, |sum, kept| sum + kept.packet.size)
    }

    /// The newest sent packet that feedback has covered. The first packet before any feedback.
    pub(crate) const fn newest_covered(&self) -> PacketSeq {
        PacketSeq(self.newest_covered)
    }

    /// Returns the next packet whose state is settled, in sending order, with its arrival time if it arrived.
    pub(crate) fn poll_settled(&mut self) -> Option<(SentPacket, Option<RemoteTime>)> {
        let first = self.first()?;
        self.settled_to = self.settled_to.max(first);
        loop {
            let PacketRecord { packet, state, .. } = self.packets.get((self.settled_to - first) as usize)?;
            let arrived_at = match *state {
                PacketState::Arrived(at) => Some(at),
                PacketState::Lost => None,
                PacketState::Unknown if self.newest_covered.saturating_sub(packet.seq.0) > UNREPORTED_PACKETS => {
                    self.settled_to += 1;
                    continue;
                }
                PacketState::Unknown => return None,
            };
            self.settled_to += 1;
            return Some((*packet, arrived_at));
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bytes;

    use super::*;

    fn sent(seq: u32) -> SentPacket {
        SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::from_millis(u64::from(seq)),
            size: Bytes::new(1_000),
            frame: None,
            probe: None,
            app_limited: false,
        }
    }

    #[test]
    fn reports_are_new_and_losses_may_be_taken_back() {
        let mut history = PacketHistory::default();
        (0..10).for_each(|seq| history.on_sent(sent(seq), Content::Other));
        let at = Some(RemoteTime::from_millis(50));
        let mut arrivals = vec![at, None, at, at, None];
        let feedback = |arrivals: &[Option<RemoteTime>]| Feedback {
            sent_at: RemoteTime::from_millis(60),
            first: PacketSeq(0),
            arrivals: arrivals.to_vec(),
            marked: Vec::new(),
        };
        let fates = |matched: MatchedFeedback<'_>| {
            matched.reports.iter().map(|report| (report.packet.seq.0, report.arrived_at.is_some())).collect::<Vec<_>>()
        };
        // Packet 4 is missing but may merely be late: nothing is known of later packets.
        assert_eq!(fates(history.on_feedback(&feedback(&arrivals))), [(0, true), (1, false), (2, true), (3, true)]);
        assert_eq!(history.lost, 1);
        arrivals[1] = at;
        assert_eq!(fates(history.on_feedback(&feedback(&arrivals))), [(1, true)]);
        assert_eq!(history.lost, 0);
        assert!(fates(history.on_feedback(&feedback(&arrivals))).is_empty());
    }

    #[test]
    fn packets_are_remembered_for_seconds_at_any_rate_and_then_outdated() {
        let mut history = PacketHistory::default();
        // 100 Mb/s in packets of 1,250 bytes.
        let send = |history: &mut PacketHistory, from: u32, to: u32| {
            (from..to).for_each(|seq| {
                let packet = SentPacket { sent_at: Time::from_micros(u64::from(seq) * 100), ..sent(seq) };
                history.on_sent(packet, Content::Other);
            });
        };
        let report = |seq: u32| Feedback {
            sent_at: RemoteTime::from_secs(20),
            first: PacketSeq(seq),
            arrivals: vec![Some(RemoteTime::from_secs(19))],
            marked: Vec::new(),
        };
        send(&mut history, 0, 80_000);
        assert_eq!(history.on_feedback(&report(0)).reports.len(), 1, "8 s later");
        send(&mut history, 80_000, 110_000);
        let matched = history.on_feedback(&report(500));
        assert!(matched.reports.is_empty() && matched.outdated, "11 s later");
        send(&mut history, 110_000, 300_000);
        assert!(history.held() <= MAX_PACKETS_KEPT);
        assert!(!history.on_feedback(&report(299_999)).outdated);
    }

    #[test]
    fn feedback_of_packets_that_were_never_sent_says_nothing() {
        let mut history = PacketHistory::default();
        history.on_sent(sent(0), Content::Other);
        let feedback = Feedback {
            sent_at: RemoteTime::ZERO,
            first: PacketSeq(u32::MAX - 1),
            arrivals: vec![Some(RemoteTime::ZERO), Some(RemoteTime::ZERO)],
            marked: vec![1],
        };
        assert!(history.on_feedback(&feedback).reports.is_empty());
    }
}
