use rtc::rtcp::transport_feedbacks::transport_layer_cc::{RecvDelta, RunLengthChunk, StatusVectorChunk};

use super::*;

const NEWEST: PacketSeq = PacketSeq(70_000);

/// A report of these arrivals, in quarters of a millisecond since the previous arrival; None for missing packets.
fn report(base: u32, reference_time: u32, steps: &[Option<i64>]) -> TransportLayerCc {
    let status = |step: &Option<i64>| match step {
        Some(step) if (0..256).contains(step) => SymbolTypeTcc::PacketReceivedSmallDelta,
        Some(_) => SymbolTypeTcc::PacketReceivedLargeDelta,
        None => SymbolTypeTcc::PacketNotReceived,
    };
    let chunks = steps.chunks(7).map(|steps| {
        PacketStatusChunk::StatusVectorChunk(StatusVectorChunk {
            symbol_list: steps.iter().map(status).collect(),
            ..StatusVectorChunk::default()
        })
    });
    let deltas = steps.iter().filter_map(|step| {
        let delta = (*step)? * 250;
        Some(RecvDelta { type_tcc_packet: status(step), delta })
    });
    TransportLayerCc {
        base_sequence_number: base as u16,
        packet_status_count: steps.len() as u16,
        reference_time,
        packet_chunks: chunks.collect(),
        recv_deltas: deltas.collect(),
        ..TransportLayerCc::default()
    }
}

/// Microseconds after the first reference time.
fn reported(feedback: &Feedback) -> Vec<(u32, Option<i64>)> {
    let numbers = feedback.first.0..;
    let since = |at: RemoteTime| (at - RemoteTime::ZERO - ARRIVAL_ORIGIN).as_micros();
    numbers.zip(feedback.arrivals.iter().map(|at| at.map(since))).collect()
}

#[test]
fn arrivals_stand_on_the_reference_time_and_numbers_are_unwrapped() {
    let mut reports = Reports::default();
    let feedback =
        reports.on_report(&report(65_534, 1, &[Some(4), None, Some(8), Some(-2)]), NEWEST).expect("arrivals");
    assert_eq!(
        reported(&feedback),
        [(65_534, Some(65_000)), (65_535, None), (65_536, Some(67_000)), (65_537, Some(66_500))]
    );
    assert_eq!((feedback.sent_at - RemoteTime::ZERO - ARRIVAL_ORIGIN).as_micros(), 67_000, "the newest arrival");
}

#[test]
fn what_is_missing_at_the_end_is_reported_again_with_what_follows() {
    let mut reports = Reports::default();
    let newest = PacketSeq(1_000);
    reports.on_report(&report(100, 0, &[Some(1), None, Some(1), None]), newest);
    let feedback = reports.on_report(&report(104, 1, &[Some(0)]), newest).expect("an arrival");
    let reported = reported(&feedback);
    assert_eq!(
        reported.iter().map(|(number, at)| (*number, at.is_some())).collect::<Vec<_>>(),
        [(100, true), (101, false), (102, true), (103, false), (104, true)]
    );
    // It arrived late: libwebrtc reports from there again.
    let feedback = reports.on_report(&report(103, 1, &[Some(5), Some(1)]), newest).expect("arrivals");
    assert!(feedback.arrivals[3].is_some());
}

#[test]
fn a_report_that_got_lost_is_no_loss_of_packets() {
    let mut reports = Reports::default();
    let newest = PacketSeq(1_000);
    reports.on_report(&report(100, 0, &[Some(1), Some(1)]), newest);
    let feedback = reports.on_report(&report(110, 1, &[Some(1), Some(1)]), newest).expect("arrivals");
    assert_eq!(reported(&feedback).first().map(|(number, _)| *number), Some(110));
}

#[test]
fn a_reference_time_that_wraps_goes_on() {
    let mut reports = Reports::default();
    let at = |reports: &mut Reports, base, reference| {
        let feedback = reports.on_report(&report(base, reference, &[Some(0)]), NEWEST).expect("an arrival");
        reported(&feedback).last().and_then(|(_, at)| *at).expect("it arrived")
    };
    let before = at(&mut reports, 1, 0x00FF_FFFF);
    let after = at(&mut reports, 2, 0);
    assert_eq!(after - before, 64_000);
    assert_eq!(at(&mut reports, 3, 0x00FF_FFFF), before, "a report that was overtaken");
}

#[test]
fn memory_and_time_are_bounded_whatever_a_report_claims() {
    let mut reports = Reports::default();
    let run = |length| {
        PacketStatusChunk::RunLengthChunk(RunLengthChunk {
            packet_status_symbol: SymbolTypeTcc::PacketNotReceived,
            run_length: length,
            ..RunLengthChunk::default()
        })
    };
    let hostile = TransportLayerCc {
        packet_status_count: u16::MAX,
        packet_chunks: vec![run(8_191); 1_000],
        ..TransportLayerCc::default()
    };
    assert_eq!(reports.on_report(&hostile, NEWEST), None, "nothing has arrived");
    assert!(reports.known.len() <= REPEATED_PACKETS + MAX_PACKETS);
    assert_eq!(reports.on_report(&report(70_001, 0, &[Some(1)]), PacketSeq(3)), None, "never sent");
    let short = TransportLayerCc { recv_deltas: vec![], ..report(1, 0, &[Some(1)]) };
    assert_eq!(reports.on_report(&short, NEWEST), None, "an arrival without its time");
}
