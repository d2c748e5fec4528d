//! What left under which transport-wide number, so that feedback alone tells which pieces a client waits for.
//!
//! A client asks for what it misses at once, but only once in 100 ms (libwebrtc's `NackRequester`, as long as it knows no round
//! trip): where its request or the answer to it gets lost, its picture stands still for that long. Feedback comes sooner and tells
//! of both.

use std::collections::VecDeque;

use nearlight_units::{FrameId, PacketSeq};
use nearlight_wire::{Feedback, MAX_NACK_ENTRIES, Missing, Nack};

/// What is remembered: two seconds at 10 Mb/s. Feedback is never that late.
const MAX_REMEMBERED: usize = 2_048;
/// A number is lost when so many later ones have been told of (RFC 9002 section 6.1.1).
const REORDER: u32 = 3;

type Piece = Option<(FrameId, u16)>;

#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// Number of the first of `pieces`.
    first: u32,
    pieces: VecDeque<Piece>,
    /// Every number below has been judged, and none is twice.
    judged: u32,
}

impl Departed {
    /// A piece, or something without one, left under this number: one more than the one before.
    pub(crate) fn on_sent(&mut self, seq: PacketSeq, piece: Piece) {
        if self.pieces.is_empty() || seq.0 != self.first + self.pieces.len() as u32 {
            self.pieces.clear();
            self.first = seq.0;
        }
        self.pieces.push_back(piece);
        if self.pieces.len() > MAX_REMEMBERED {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// Pieces that did not arrive and have not left again since.
    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) -> Nack {
        let mut missing: Vec<Missing> = Vec::new();
        let told = feedback.first.0.saturating_add(feedback.arrivals.len() as u32);
        for arrival in feedback.iter() {
            let number = arrival.seq.0;
            if number < self.judged || number.saturating_add(REORDER) >= told {
                continue;
            }
            self.judged = number + 1;
            let Some(place) = number.checked_sub(self.first) else { continue };
            let Some(piece) = self.pieces.get(place as usize).copied().flatten() else { continue };
            let left_again = || self.pieces.range(place as usize + 1..).any(|later| *later == Some(piece));
            if arrival.at.is_some() || missing.len() == MAX_NACK_ENTRIES || left_again() {
                continue;
            }
            let (frame, first) = piece;
            missing.push(Missing { frame, first, count: 1 });
        }
        Nack { missing }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Time;

    use super::*;

    fn feedback(first: u32, arrived: &[bool]) -> Feedback {
        let at = |arrived: &bool| arrived.then(|| Time::from_millis(5));
        let arrivals = arrived.iter().map(at).collect();
        Feedback { sent_at: Time::from_millis(9), first: PacketSeq(first), arrivals, marked: Vec::new() }
    }

    fn missed(departed: &mut Departed, feedback: &Feedback) -> Vec<(u32, u16)> {
        departed.on_feedback(feedback).missing.iter().map(|missing| (missing.frame.0, missing.first)).collect()
    }

    #[test]
    fn a_lost_piece_is_named_once_and_not_while_its_repetition_is_under_way() {
        let mut departed = Departed::default();
        (0..6).for_each(|index| departed.on_sent(PacketSeq(index), Some((FrameId(1), index as u16))));
        // Number 4 may only be late, 1 is lost.
        assert_eq!(missed(&mut departed, &feedback(0, &[true, false, true, true, false, true])), [(1, 1)]);
        assert!(missed(&mut departed, &feedback(0, &[true, false, true, true, false, true])).is_empty());
        // The client has asked for 4 meanwhile; its repetition is number 6.
        departed.on_sent(PacketSeq(6), Some((FrameId(1), 4)));
        (7..11).for_each(|seq| departed.on_sent(PacketSeq(seq), None));
        assert!(missed(&mut departed, &feedback(3, &[true, false, true, false, true])).is_empty());
        // The repetition is lost too.
        assert_eq!(missed(&mut departed, &feedback(4, &[false, true, false, true, true, true])), [(1, 4)]);
    }

    #[test]
    fn what_has_no_piece_and_what_is_forgotten_is_not_asked_for() {
        let mut departed = Departed::default();
        (0..5_000).for_each(|seq| departed.on_sent(PacketSeq(seq), (seq % 2 == 0).then_some((FrameId(seq), 0))));
        assert!(departed.pieces.len() <= MAX_REMEMBERED);
        assert!(missed(&mut departed, &feedback(0, &[false; 100])).is_empty());
        assert_eq!(missed(&mut departed, &feedback(4_980, &[false; 8])), [(4_980, 0), (4_982, 0), (4_984, 0)]);
        assert!(missed(&mut departed, &feedback(u32::MAX - 2, &[false; 8])).is_empty());
    }
}
