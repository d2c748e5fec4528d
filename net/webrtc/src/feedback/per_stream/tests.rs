use bytes::Bytes;
use nearlight_units::Span;
use proptest::prelude::*;
use rtc::rtcp::transport_feedbacks::cc_feedback_report::{CcFeedbackReportBlock, Ecn};
use rtc::shared::marshal::{Marshal as _, Unmarshal as _};

use super::*;

const VIDEO: u32 = 7;
const SOUND: u32 = 9;

/// Offsets in 2^-10 s before the report; None for missing packets.
fn block(ssrc: u32, begin: u16, offsets: &[Option<u16>]) -> CcFeedbackReportBlock {
    let metric = |offset: &Option<u16>| CcFeedbackMetricBlock {
        received: offset.is_some(),
        ecn: Ecn::NotEct,
        arrival_time_offset: offset.unwrap_or(0),
    };
    CcFeedbackReportBlock {
        media_ssrc: ssrc,
        begin_sequence: begin,
        metric_blocks: offsets.iter().map(metric).collect(),
    }
}

/// `at` in seconds on the client's clock.
fn report(at: u32, blocks: Vec<CcFeedbackReportBlock>) -> CcFeedbackReport {
    CcFeedbackReport { sender_ssrc: 1, report_blocks: blocks, report_timestamp: at << 16 }
}

/// Milliseconds before the report.
fn reported(feedback: &Feedback) -> (u32, Vec<Option<i64>>) {
    (
        feedback.first.0,
        feedback.arrivals.iter().map(|at| at.map(|at| (feedback.sent_at - at).as_micros() / 1_000)).collect(),
    )
}

#[test]
fn streams_numbers_become_the_sender_s_own() {
    let mut reports = StreamReports::default();
    let streams = [(VIDEO, 65_534), (SOUND, 10), (VIDEO, 65_535), (VIDEO, 0), (SOUND, 11), (VIDEO, 1)];
    for (seq, (ssrc, number)) in (100..).zip(streams) {
        reports.on_sent(Time::ZERO, PacketSeq(seq), ssrc, number);
    }
    let video = block(VIDEO, 65_534, &[Some(1_024), None, Some(512)]);
    let feedback = reports.on_report(&report(50, vec![video, block(SOUND, 10, &[Some(768), Some(256)])]));
    let [feedback] = &feedback[..] else { panic!("{feedback:?}") };
    // The last video packet had not arrived when the report left.
    assert_eq!(reported(feedback), (100, vec![Some(1_000), Some(750), None, Some(500), Some(250)]));
    assert_eq!(feedback.sent_at, RemoteTime::ZERO + ARRIVAL_ORIGIN + Span::from_secs(50));
}

#[test]
fn what_is_awaited_is_missing_once_a_later_packet_has_come() {
    let mut reports = StreamReports::default();
    for seq in 0..4_u16 {
        reports.on_sent(Time::ZERO, PacketSeq(u32::from(seq)), if seq == 3 { SOUND } else { VIDEO }, seq);
    }
    let both = vec![block(VIDEO, 0, &[Some(9)]), block(SOUND, 3, &[Some(1)])];
    let feedback = reports.on_report(&report(1, both));
    assert_eq!(feedback.iter().map(|run| reported(run).1.len()).collect::<Vec<_>>(), [4]);
    assert_eq!(feedback[0].arrivals.iter().filter(|at| at.is_none()).count(), 2);
    // One of them arrives late.
    let feedback = reports.on_report(&report(2, vec![block(VIDEO, 1, &[Some(3), None])]));
    assert!(feedback[0].arrivals[1].is_some() && feedback[0].arrivals[0].is_some());
}

#[test]
fn nothing_is_said_of_a_stream_that_the_client_does_not_report() {
    let mut reports = StreamReports::default();
    for (seq, ssrc) in [VIDEO, 1, VIDEO, VIDEO].into_iter().enumerate() {
        reports.on_sent(Time::ZERO, PacketSeq(seq as u32), ssrc, seq as u16);
    }
    reports.on_sent(Time::ZERO, PacketSeq(9), VIDEO, 4);
    let feedback = reports.on_report(&report(1, vec![block(VIDEO, 0, &[Some(9), None, Some(8), Some(7), Some(6)])]));
    let runs: Vec<(u32, usize)> = feedback.iter().map(|run| (run.first.0, run.arrivals.len())).collect();
    assert_eq!(runs, [(0, 1), (2, 2), (9, 1)]);
}

#[test]
fn arrivals_without_a_time_and_a_timestamp_that_wraps_are_understood() {
    let mut reports = StreamReports::default();
    for seq in 0..4_u16 {
        reports.on_sent(Time::ZERO, PacketSeq(u32::from(seq)), VIDEO, seq);
    }
    let at = |timestamp, number| CcFeedbackReport {
        report_timestamp: timestamp,
        ..report(0, vec![block(VIDEO, number, &[Some(if number == 0 { NO_OFFSET } else { 0 })])])
    };
    let before = reports.on_report(&at(u32::MAX - 0x7FFF, 0));
    let after = reports.on_report(&at(0x8000, 1));
    assert_eq!(reported(&before[0]), (0, vec![Some(0)]));
    assert_eq!((after[0].sent_at - before[0].sent_at).as_micros() / 1_000, 1_000);
    assert!(reports.on_report(&at(0x9000, 1)).is_empty(), "told before");
}

#[test]
fn after_a_long_outage_at_a_high_rate_reports_tell_of_packets_sent_seconds_before() {
    let mut reports = StreamReports::default();
    // 100 Mb/s in packets of 1,250 bytes, for 8 s: the stream's numbers wrap meanwhile.
    let sent_at = |seq: u32| Time::from_micros(u64::from(seq) * 100);
    for seq in 0..80_000_u32 {
        reports.on_sent(sent_at(seq), PacketSeq(seq), VIDEO, seq as u16);
    }
    let arrives = |reports: &mut StreamReports, seconds: u32, seq: u32| {
        let feedback = reports.on_report(&report(seconds, vec![block(VIDEO, seq as u16, &[Some(1)])]));
        feedback
            .iter()
            .flat_map(|run| run.first.0..)
            .zip(feedback.iter().flat_map(|run| &run.arrivals))
            .find_map(|(number, at)| at.is_some().then_some(number))
    };
    assert_eq!(arrives(&mut reports, 8, 20_000), Some(20_000), "6 s after it left");
    assert_eq!(arrives(&mut reports, 9, 79_999 - 65_536), Some(79_999), "the newest that has this number");
    for seq in 80_000..200_000_u32 {
        reports.on_sent(sent_at(seq), PacketSeq(seq), VIDEO, seq as u16);
    }
    let memory = 1 + (PACKET_RETENTION.as_micros() / 100) as usize;
    assert_eq!((reports.sent.len(), reports.names.len()), (memory, 65_536));
}

#[test]
fn memory_is_bounded_whatever_is_sent_and_claimed() {
    let mut reports = StreamReports::default();
    for seq in 0..MAX_PACKETS_KEPT as u32 + 20_000 {
        reports.on_sent(Time::ZERO, PacketSeq(seq), VIDEO, seq as u16);
    }
    assert_eq!((reports.sent.len(), reports.names.len()), (MAX_PACKETS_KEPT, 65_536));
    let long = report(1, vec![block(VIDEO, 0, &vec![Some(1); 16_384]); 30]);
    let feedback = reports.on_report(&long);
    assert!(feedback.iter().map(|run| run.arrivals.len()).sum::<usize>() <= MAX_PACKETS_KEPT);
    reports.on_sent(Time::ZERO, PacketSeq(5_000_000), VIDEO, 1);
    assert_eq!((reports.sent.len(), reports.names.len()), (1, 1));
}

proptest! {
    /// No client input breaks it, and every packet that it reports was sent.
    #[test]
    fn any_bytes_are_survived(
        sent in prop::collection::vec((0_u32..4, any::<u16>(), 0_u32..3), 0..200),
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
    ) {
        let mut reports = StreamReports::default();
        let mut seq = 0;
        for (ssrc, number, skip) in &sent {
            seq += skip;
            reports.on_sent(Time::ZERO, PacketSeq(seq), *ssrc, *number);
            seq += 1;
        }
        for body in &messages {
            let mut message = vec![0x8B, 205, 0, (body.len() / 4) as u8];
            message.extend_from_slice(&body[..body.len() / 4 * 4]);
            let Ok(report) = CcFeedbackReport::unmarshal(&mut Bytes::from(message)) else { continue };
            for run in reports.on_report(&report) {
                prop_assert!(run.first.0 + run.arrivals.len() as u32 <= seq);
            }
        }
    }

    /// The sender gets exactly what a report states about a stream.
    #[test]
    fn a_report_survives_its_bytes(
        fates in prop::collection::vec(prop::option::of(0_u16..0x1FFE), 1..300),
        begin in any::<u16>(),
    ) {
        let mut reports = StreamReports::default();
        for (place, _) in fates.iter().enumerate() {
            reports.on_sent(Time::ZERO, PacketSeq(place as u32), VIDEO, begin.wrapping_add(place as u16));
        }
        let report = report(60, vec![block(VIDEO, begin, &fates)]);
        let mut bytes = report.marshal().expect("it fits").freeze();
        let again = CcFeedbackReport::unmarshal(&mut bytes).expect("our own bytes");
        let heard: Vec<Feedback> = reports.on_report(&again);
        let Some(last) = fates.iter().rposition(Option::is_some) else {
            prop_assert!(heard.is_empty());
            return Ok(());
        };
        prop_assert_eq!(heard.len(), 1);
        let first = fates.iter().position(Option::is_some).expect("one came").saturating_sub(REPEATED_PACKETS);
        prop_assert_eq!(heard[0].first.0 as usize, first);
        let expected: Vec<bool> = fates[first..=last].iter().map(Option::is_some).collect();
        let arrived: Vec<bool> = heard[0].arrivals.iter().map(Option::is_some).collect();
        prop_assert_eq!(arrived, expected);
    }
}
