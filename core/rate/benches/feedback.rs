//! The cost of a controller per packet: sending, and its share of feedback once per 60th of a second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearlight_rate::{Bounds, Feedback, PRESETS, PacketReport, SentPacket, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};

/// Packets per frame at 50 Mb/s and 60 frames a second.
const PACKETS_PER_FRAME: u32 = 87;

fn frame(number: u32) -> Vec<PacketReport> {
    let report = |index: u32| {
        let sent_at = Time::from_micros(u64::from(number) * 16_667 + u64::from(index) * 96);
        let packet = SentPacket {
            seq: PacketSeq(number.wrapping_mul(PACKETS_PER_FRAME) + index),
            sent_at,
            size: Bytes::new(1_200),
            frame: Some(FrameId(number)),
            probe: None,
            app_limited: index + 1 == PACKETS_PER_FRAME,
        };
        // One packet in 200 is lost; the path's delay wanders by up to 1.5 ms.
        let delay = Span::from_micros(10_000 + i64::from(number % 16) * 100);
        PacketReport {
            packet,
            arrived_at: (!packet.seq.0.is_multiple_of(200)).then_some((sent_at + delay).for_peer()),
            ce: false,
        }
    };
    (0..PACKETS_PER_FRAME).map(report).collect()
}

fn per_packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("feedback");
    group.throughput(Throughput::Elements(u64::from(PACKETS_PER_FRAME)));
    for preset in PRESETS {
        let mut controller = new_controller(preset.name, Bounds::up_to(Bitrate::from_mbps(100))).expect(preset.name);
        let mut number = 0;
        group.bench_function(preset.name, |bencher| {
            bencher.iter_batched(
                || {
                    number += 1;
                    frame(number)
                },
                |packets| {
                    for report in &packets {
                        controller.on_packet_sent(&report.packet);
                    }
                    let now = packets[packets.len() - 1].packet.sent_at + Span::from_millis(20);
                    let feedback = Feedback { packets: &packets, round_trip: Some(Span::from_millis(20)) };
                    controller.on_feedback(now, &feedback);
                    controller.decision()
                },
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, per_packet);
criterion_main!(benches);
