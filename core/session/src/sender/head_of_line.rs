//! Over TCP a lost segment holds back everything behind it until it has been retransmitted. What arrives then is late because of ordering,
//! not because a queue has grown. A controller that observes delay must not confuse the two.
//!
//! TCP's statistics show when it detected a loss or retransmitted, and up to which byte the receiver has everything. Data sent after that
//! byte may have been held back. For such packets, controllers get the transit time of the last packet that was certainly not held back,
//! plus the growth of TCP's own round trip since: selective acknowledgements keep measuring the path while a segment is missing, so a queue
//! that grows meanwhile shows. Packets that arrived sooner than that are reported as they arrived. No packet is reported later than it was.

use std::collections::VecDeque;

use nearlight_rate::PacketReport;
use nearlight_units::{Bytes, RemoteTime, Span, Time};
use nearlight_wire::TcpInfo;

/// Maximum number of losses remembered. Guess: feedback covers packets of a few round trips, and each has one or two.
const MAX_HOLES: usize = 32;
/// Maximum number of moments at which the number of bytes is remembered: at least 2.5 s, for TCP's time-out after a loss at the end of
/// the data.
const MAX_WRITTEN: usize = 256;
const WRITTEN_INTERVAL: Span = Span::from_millis(10);
/// The longest time that a packet may wait between the sender and the kernel. Guess: one turn of the tasks on a busy machine.
const MAX_HANDOVER: Span = Span::from_millis(10);
/// The bytes by which the handshake increases the acknowledged count.
const HANDSHAKE: Bytes = Bytes::new(1);

/// A packet that was not held back, and TCP's round trip when it was reported.
#[derive(Clone, Copy, Debug)]
struct Reference {
    transit: Span,
    round_trip: Span,
}

#[derive(Debug, Default)]
pub(super) struct HeadOfLine {
    info: Option<(Time, TcpInfo)>,
    /// Number of bytes given to the kernel at each moment, ascending.
    written: VecDeque<(Time, Bytes)>,
    /// Periods whose packets may have been held back. Ascending and disjoint.
    holes: VecDeque<(Time, Time)>,
    reference: Option<Reference>,
}

impl HeadOfLine {
    pub(super) fn on_tcp_info(&mut self, now: Time, info: &TcpInfo) {
        if self.written.back().is_none_or(|(at, _)| now - *at >= WRITTEN_INTERVAL) {
            self.written.push_back((now, info.written));
            if self.written.len() > MAX_WRITTEN {
                self.written.pop_front();
            }
        }
        let Some((read_at, before)) = self.info.replace((now, *info)) else { return };
        if info.retransmissions == before.retransmissions && !info.is_incomplete() {
            return;
        }
        // The gap was still open when TCP was queried before.
        let known = |(_, written): &&(Time, Bytes)| *written <= before.acknowledged + HANDSHAKE;
        let gap_since = self.written.iter().rev().find(known).map_or(Time::ZERO, |(at, _)| *at);
        let from = gap_since.min(read_at - info.round_trip) - MAX_HANDOVER;
        match self.holes.back_mut() {
            Some((_, to)) if *to >= from => *to = now,
            _ => self.holes.push_back((from, now)),
        }
        if self.holes.len() > MAX_HOLES {
            self.holes.pop_front();
        }
    }

    /// Subtracts the ordering's share of the delay from the arrivals. Returns that share for the newest one.
    pub(super) fn correct(&mut self, reports: &mut [PacketReport]) -> Span {
        let Some((_, info)) = self.info else { return Span::ZERO };
        let mut newest = Span::ZERO;
        for report in reports {
            if let Some(arrived_at) = &mut report.arrived_at {
                newest = self.corrected(report.packet.sent_at, arrived_at, info.round_trip);
            }
        }
        newest
    }

    fn corrected(&mut self, sent_at: Time, arrived_at: &mut RemoteTime, round_trip: Span) -> Span {
        let transit = arrived_at.ahead_of(sent_at);
        let held_back = self.holes.iter().any(|(from, to)| (*from..=*to).contains(&sent_at));
        match self.reference {
            Some(reference) if held_back => {
                let usual = reference.transit + (round_trip - reference.round_trip).max(Span::ZERO);
                let order = (transit - usual).max(Span::ZERO);
                *arrived_at = *arrived_at - order;
                order
            }
            _ => {
                self.reference = (!held_back).then_some(Reference { transit, round_trip });
                Span::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_rate::SentPacket;
    use nearlight_units::PacketSeq;
    use nearlight_wire::TcpRecovery;

    use super::*;

    const OFFSET: Span = Span::from_secs(50);

    fn info(retransmissions: u64, recovery: TcpRecovery, round_trip: i64) -> TcpInfo {
        let round_trip = Span::from_millis(round_trip);
        TcpInfo { retransmissions, recovery, round_trip, ..TcpInfo::UNKNOWN }
    }

    /// A packet that left and arrived at these milliseconds, on a receiver whose clock is ahead.
    fn report(sent: u64, arrived: u64) -> PacketReport {
        let packet = SentPacket {
            seq: PacketSeq(sent as u32),
            sent_at: Time::from_millis(sent),
            size: Bytes::new(1_200),
            frame: None,
            probe: None,
            app_limited: false,
        };
        PacketReport { packet, arrived_at: Some((Time::from_millis(arrived) + OFFSET).for_peer()), ce: false }
    }

    /// Each packet's reported transit time in milliseconds.
    fn reported(line: &mut HeadOfLine, packets: &[(u64, u64)]) -> Vec<i64> {
        let mut reports: Vec<_> = packets.iter().map(|(sent, arrived)| report(*sent, *arrived)).collect();
        line.correct(&mut reports);
        let transit = |report: &PacketReport| report.arrived_at.map(|at| at.ahead_of(report.packet.sent_at) - OFFSET);
        reports.iter().filter_map(transit).map(|transit| transit.as_micros() / 1_000).collect()
    }

    #[test]
    fn what_a_lost_segment_holds_back_is_no_queue() {
        let mut line = HeadOfLine::default();
        line.on_tcp_info(Time::from_millis(80), &info(3, TcpRecovery::Open, 20));
        assert_eq!(reported(&mut line, &[(60, 70), (70, 81)]), [10, 11]);
        // The packet of 120 was lost. TCP has detected it by 150 and recovered when it is queried again.
        line.on_tcp_info(Time::from_millis(140), &info(3, TcpRecovery::Open, 20));
        line.on_tcp_info(Time::from_millis(151), &info(4, TcpRecovery::Open, 20));
        assert_eq!(reported(&mut line, &[(120, 155), (130, 155), (140, 155), (146, 155)]), [11, 11, 11, 9]);
        assert_eq!(reported(&mut line, &[(160, 185)]), [25], "TCP knows of nothing missing: that is a queue");
    }

    #[test]
    fn a_lost_end_of_a_frame_is_found_late_and_counts_from_its_own_time() {
        let mut line = HeadOfLine::default();
        let at = |written: u64, acknowledged: u64, retransmissions: u64| TcpInfo {
            written: Bytes::new(written),
            acknowledged: Bytes::new(acknowledged + 1),
            ..info(retransmissions, TcpRecovery::Open, 20)
        };
        line.on_tcp_info(Time::from_millis(1_000), &at(50_000, 50_000, 0));
        assert_eq!(reported(&mut line, &[(990, 1_000)]), [10]);
        // A frame leaves after 1,000, and its last packet is lost; nothing follows that would show it until 1,100.
        line.on_tcp_info(Time::from_millis(1_010), &at(60_000, 50_000, 0));
        line.on_tcp_info(Time::from_millis(1_030), &at(60_000, 59_000, 0));
        line.on_tcp_info(Time::from_millis(1_100), &at(60_000, 59_000, 0));
        line.on_tcp_info(Time::from_millis(1_130), &at(70_000, 59_000, 1));
        assert_eq!(reported(&mut line, &[(1_005, 1_140), (1_101, 1_140)]), [10, 10]);
    }

    #[test]
    fn a_queue_that_grows_meanwhile_shows_in_tcp_s_own_round_trip() {
        let mut line = HeadOfLine::default();
        line.on_tcp_info(Time::from_millis(100), &info(0, TcpRecovery::Open, 20));
        assert_eq!(reported(&mut line, &[(60, 70)]), [10]);
        line.on_tcp_info(Time::from_millis(110), &info(0, TcpRecovery::Disorder, 25));
        assert_eq!(reported(&mut line, &[(100, 140)]), [15]);
        line.on_tcp_info(Time::from_millis(120), &info(1, TcpRecovery::Recovery, 40));
        assert_eq!(reported(&mut line, &[(110, 150), (115, 130)]), [30, 15]);
    }

    #[test]
    fn nothing_is_reported_later_and_memory_is_bounded() {
        let mut line = HeadOfLine::default();
        for step in 0..10_000_u64 {
            line.on_tcp_info(Time::from_millis(step * 100), &info(step / 2, TcpRecovery::Open, (step % 90) as i64));
            let way = step * 7_919 % 50;
            let reported = reported(&mut line, &[(step * 100, step * 100 + way)]);
            assert!(reported[0] <= way as i64, "{reported:?} of {way}");
            assert!(line.holes.len() <= MAX_HOLES && line.written.len() <= MAX_WRITTEN);
        }
    }
}
