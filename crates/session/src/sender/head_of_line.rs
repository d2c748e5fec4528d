//! Over TCP a lost segment holds back everything behind it until it has been retransmitted. What arrives then is late because of ordering,
//! not because a queue has grown, and a controller that watches delay must not confuse the two.
//!
//! TCP reports when it detected or retransmitted a loss; packets sent since a round trip before that may have been held back. For such
//! packets the controllers see the transit time of the last packet that was certainly not held back, plus the growth of TCP's own round
//! trip since: selective acknowledgements keep measuring the path while a segment is missing, so a queue that grows meanwhile is visible.
//! Packets that arrived sooner than that are reported unchanged. No packet is ever reported later than it arrived.
//! that grows meanwhile shows. Packets that came sooner than that are told as they came. Nothing is ever told later than it was.

use std::collections::VecDeque;

use nearlight_rate::{PacketReport, TcpInfo};
use nearlight_units::{RemoteTime, Span, Time};

/// Times of loss that are remembered. Guess: feedback covers packets of a few round trips, and each has one or two.
const MOST_HOLES: usize = 32;
/// Deviations by which a round trip may exceed its mean, as in the time-out of RFC 6298 section 2.
const DEVIATIONS: i64 = 4;

/// A packet that was not held back, and TCP's round trip when it was reported.
#[derive(Clone, Copy, Debug)]
struct Reference {
    transit: Span,
    round_trip: Span,
}

#[derive(Debug, Default)]
pub(super) struct HeadOfLine {
    info: Option<(Time, TcpInfo)>,
    /// Packets sent in these intervals may have been held back; ascending and disjoint.
    holes: VecDeque<(Time, Time)>,
    reference: Option<Reference>,
}

impl HeadOfLine {
    pub(super) fn on_tcp_info(&mut self, now: Time, info: &TcpInfo) {
        let Some((read_at, before)) = self.info.replace((now, *info)) else { return };
        if info.retransmissions == before.retransmissions && !info.is_incomplete() {
            return;
        }
        let reach = info.round_trip.max(before.round_trip) + info.round_trip_variation * DEVIATIONS;
        let from = read_at - reach;
        match self.holes.back_mut() {
            Some((_, to)) if *to >= from => *to = now,
            _ => self.holes.push_back((from, now)),
        }
        if self.holes.len() > MOST_HOLES {
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
    use nearlight_rate::{SentPacket, TcpRecovery};
    use nearlight_units::{Bytes, PacketSeq};

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
    fn told(line: &mut HeadOfLine, packets: &[(u64, u64)]) -> Vec<i64> {
        let mut reports: Vec<_> = packets.iter().map(|(sent, arrived)| report(*sent, *arrived)).collect();
        line.correct(&mut reports);
        let transit = |report: &PacketReport| report.arrived_at.map(|at| at.ahead_of(report.packet.sent_at) - OFFSET);
        reports.iter().filter_map(transit).map(|transit| transit.as_micros() / 1_000).collect()
    }

    #[test]
    fn what_a_lost_segment_holds_back_is_no_queue() {
        let mut line = HeadOfLine::default();
        line.on_tcp_info(Time::from_millis(100), &info(3, TcpRecovery::Open, 20));
        assert_eq!(told(&mut line, &[(80, 90), (90, 101)]), [10, 11]);
        // What left at 100 was lost; TCP has noticed by 130 and has recovered when it is queried again.
        line.on_tcp_info(Time::from_millis(120), &info(3, TcpRecovery::Open, 20));
        line.on_tcp_info(Time::from_millis(131), &info(4, TcpRecovery::Open, 20));
        assert_eq!(told(&mut line, &[(100, 135), (110, 135), (120, 135), (126, 135)]), [11, 11, 11, 9]);
        assert_eq!(told(&mut line, &[(140, 165)]), [25], "TCP knows of nothing missing: that is a queue");
    }

    #[test]
    fn a_queue_that_grows_meanwhile_shows_in_tcp_s_own_round_trip() {
        let mut line = HeadOfLine::default();
        line.on_tcp_info(Time::from_millis(100), &info(0, TcpRecovery::Open, 20));
        assert_eq!(told(&mut line, &[(90, 100)]), [10]);
        line.on_tcp_info(Time::from_millis(110), &info(0, TcpRecovery::Disorder, 25));
        assert_eq!(told(&mut line, &[(100, 140)]), [15]);
        line.on_tcp_info(Time::from_millis(120), &info(1, TcpRecovery::Recovery, 40));
        assert_eq!(told(&mut line, &[(110, 150), (115, 130)]), [30, 15]);
    }

    #[test]
    fn nothing_is_told_later_and_memory_is_bounded() {
        let mut line = HeadOfLine::default();
        for step in 0..10_000_u64 {
            line.on_tcp_info(Time::from_millis(step * 100), &info(step / 2, TcpRecovery::Open, (step % 90) as i64));
            let way = step * 7_919 % 50;
            let told = told(&mut line, &[(step * 100, step * 100 + way)]);
            assert!(told[0] <= way as i64, "{told:?} of {way}");
            assert!(line.holes.len() <= MOST_HOLES);
        }
    }
}
