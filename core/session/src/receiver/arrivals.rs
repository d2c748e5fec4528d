//! Records the arrival of datagrams, and decides when to report them to the sender.

use std::collections::VecDeque;

use nearlight_units::{PacketSeq, Span, Time};
use nearlight_wire::{Feedback, MAX_FEEDBACK_PACKETS};

use crate::Wake;

/// The longest time until an arrival is reported. At 30 frames a second a frame may take 33 ms to arrive, and GCC wants reports at least
/// every 30 ms (draft-ietf-rmcat-gcc-02 section 3).
const MAX_HOLD: Span = Span::from_millis(10);
/// Number of sequence numbers of the previous report that a report repeats, so that a lost report costs nothing.
const REPEATED_PACKETS: u64 = 64;
/// A longer jump in sequence numbers is an outage: only the end of it is reported.
const MAX_GAP: u64 = 4_096;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    /// Whether a queue on the path had marked it (RFC 3168).
    ce: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ArrivalLog {
    /// Arrivals of `first`, `first + 1`, ... up to the newest seen. None for packets that have not arrived.
    window: VecDeque<Option<Arrival>>,
    first: u64,
    /// Everything before this number was reported at least once.
    reported_to: u64,
    /// The first packet that was reported missing and has arrived since: the next report starts there.
    revise_from: Option<u64>,
    oldest_unreported_at: Option<Time>,
    /// The interval between reports. None: a report is sent as soon as a frame is complete.
    interval: Option<Span>,
    reported_at: Option<Time>,
    /// Datagrams that arrived, each counted once.
    pub(crate) arrived: u64,
    flush: bool,
}

impl ArrivalLog {
    /// Records an arrival, marked "congestion experienced" or not. Returns false for a duplicate, and for one that is too old.
    pub(crate) fn on_arrival(&mut self, now: Time, seq: PacketSeq, ce: bool) -> bool {
        let seq = u64::from(seq.0);
        if seq < self.first {
            return false;
        }
        let end = self.first + self.window.len() as u64;
        if seq >= end {
            if seq - end > MAX_GAP {
                self.window.clear();
                (self.first, self.reported_to) = (seq, seq);
            }
            let length = (seq - self.first) as usize + 1;
            self.window.resize(length, None);
        }
        let slot = &mut self.window[(seq - self.first) as usize];
        if slot.is_some() {
            return false;
        }
        *slot = Some(Arrival { at: now, ce });
        self.arrived += 1;
        if seq < self.reported_to {
            self.revise_from = Some(self.revise_from.map_or(seq, |from| from.min(seq)));
        }
        self.oldest_unreported_at.get_or_insert(now);
        true
    }

    /// Sends reports at this interval, independent of frames, and earlier only if a report would not fit into a datagram.
    pub(crate) fn set_interval(&mut self, interval: Span) {
        self.interval = Some(interval);
    }

    /// Requests a report at the next opportunity, because a frame is complete.
    pub(crate) fn set_flush(&mut self) {
        self.flush = self.oldest_unreported_at.is_some() && self.interval.is_none();
    }

    /// When arrivals, of which the oldest is from `oldest`, are to be reported.
    fn due(&self, oldest: Time) -> Time {
        match (self.interval, self.reported_at) {
            _ if self.flush => oldest,
            (Some(interval), Some(reported_at)) => oldest.max(reported_at + interval),
            (Some(interval), None) => oldest + interval,
            (None, _) => oldest + MAX_HOLD,
        }
    }

    /// Returns the next report that is due, at most one datagram's worth. Call it until None.
    pub(crate) fn poll_report(&mut self, now: Time) -> Option<Feedback> {
        let oldest = self.oldest_unreported_at?;
        let end = self.first + self.window.len() as u64;
        let pending = end - self.reported_to.min(end);
        if now < self.due(oldest) && (pending as usize) < MAX_FEEDBACK_PACKETS - REPEATED_PACKETS as usize {
            return None;
        }
        self.reported_at = Some(now);
        let from = self
            .revise_from
            .take()
            .unwrap_or(end)
            .min(self.reported_to.saturating_sub(REPEATED_PACKETS))
            .max(self.first);
        let to = end.min(from + MAX_FEEDBACK_PACKETS as u64);
        let range = (from - self.first) as usize..(to - self.first) as usize;
        let seen = self.window.range(range);
        let marked =
            (0..).zip(seen.clone()).filter(|(_, seen)| seen.is_some_and(|seen| seen.ce)).map(|(place, _)| place);
        let (marked, arrivals) = (marked.collect(), seen.map(|seen| seen.map(|seen| seen.at.for_peer())).collect());
        self.reported_to = self.reported_to.max(to);
        if to == end {
            self.flush = false;
            self.oldest_unreported_at = None;
        } else {
            // The rest follows in the next call.
            self.flush = true;
        }
        let keep_from = self.reported_to.saturating_sub(MAX_FEEDBACK_PACKETS as u64 * 2);
        while self.first < keep_from && self.window.pop_front().is_some() {
            self.first += 1;
        }
        Some(Feedback { sent_at: now.for_peer(), first: PacketSeq(from as u32), arrivals, marked })
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Time, Wake)> {
        let oldest = self.oldest_unreported_at?;
        Some((self.due(oldest), Wake::Feedback))
    }

    /// Newest sequence number seen.
    pub(crate) fn highest(&self) -> Option<u64> {
        (!self.window.is_empty()).then(|| self.first + self.window.len() as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(feedback: &Feedback) -> Vec<(u32, bool)> {
        feedback.iter().map(|arrival| (arrival.seq.0, arrival.at.is_some())).collect()
    }

    #[test]
    fn a_whole_frame_is_reported_at_once_and_a_part_within_ten_milliseconds() {
        let mut log = ArrivalLog::default();
        let start = Time::from_secs(1);
        assert!(log.on_arrival(start, PacketSeq(0), false));
        assert_eq!(log.poll_report(start), None);
        assert_eq!(log.poll_timeout(), Some((start + MAX_HOLD, Wake::Feedback)));
        assert_eq!(fates(&log.poll_report(start + MAX_HOLD).expect("due")), [(0, true)]);
        assert!(log.on_arrival(start + MAX_HOLD, PacketSeq(2), false));
        log.set_flush();
        assert_eq!(fates(&log.poll_report(start + MAX_HOLD).expect("due")), [(0, true), (1, false), (2, true)]);
        assert_eq!(log.poll_report(start + MAX_HOLD), None);
    }

    #[test]
    fn reports_keep_an_interval_where_one_is_asked_for() {
        let mut log = ArrivalLog::default();
        log.set_interval(Span::from_millis(60));
        let mut reported = Vec::new();
        // A frame of two packets every 20 ms.
        for tick in 0..200_u64 {
            let now = Time::from_millis(1_000 + tick);
            if tick % 20 == 0 {
                for packet in 0..2 {
                    log.on_arrival(now, PacketSeq((tick / 20 * 2 + packet) as u32), false);
                }
                log.set_flush();
            }
            reported.extend(log.poll_report(now).map(|_| tick));
        }
        assert_eq!(reported, [60, 120, 180]);
    }

    #[test]
    fn a_late_arrival_corrects_the_report() {
        let mut log = ArrivalLog::default();
        let now = Time::from_secs(1);
        for seq in [0, 1, 3, 200] {
            log.on_arrival(now, PacketSeq(seq), false);
        }
        log.set_flush();
        while log.poll_report(now).is_some() {}
        assert!(log.on_arrival(now, PacketSeq(2), false));
        assert!(!log.on_arrival(now, PacketSeq(2), false), "a duplicate counts once");
        log.set_flush();
        let corrected = log.poll_report(now).expect("due");
        assert!(fates(&corrected).contains(&(2, true)));
        assert_eq!(log.arrived, 5);
    }

    #[test]
    fn marks_are_reported_with_their_packets() {
        let mut log = ArrivalLog::default();
        let now = Time::from_secs(1);
        for (seq, ce) in [(0, false), (1, true), (3, true)] {
            log.on_arrival(now, PacketSeq(seq), ce);
        }
        log.set_flush();
        let report = log.poll_report(now).expect("due");
        assert_eq!(report.marked, [1, 3]);
        assert_eq!(report.iter().filter(|arrival| arrival.ce).map(|arrival| arrival.seq.0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn an_outage_does_not_grow_memory() {
        let mut log = ArrivalLog::default();
        for step in 0..1_000u32 {
            log.on_arrival(Time::from_millis(u64::from(step)), PacketSeq(step.wrapping_mul(4_000_000)), false);
            while log.poll_report(Time::from_secs(3_600)).is_some() {}
            assert!(log.window.len() <= MAX_GAP as usize + MAX_FEEDBACK_PACKETS * 3);
        }
    }
}
