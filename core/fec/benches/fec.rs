//! The cost of protecting, planning and recovering a frame.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearlight_fec::bench::{SHAPES, SYMBOL_BYTES, shape_name};
use nearlight_fec::policy::{FrameFacts, RateDistortion, Shortage, new_policy};
use nearlight_fec::{Code, Encoder, Kernel, LossEstimate, LossProcess, LossSummary, PacketOutcome, digest};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (sources, repairs) in SHAPES {
        let frame = vec![7; usize::from(sources) * SYMBOL_BYTES];
        let code = Code::new(FrameId(0), frame.len() as u32, sources).expect("whole symbols");
        group.throughput(Throughput::Bytes(frame.len() as u64));
        let mut output = vec![0; usize::from(repairs) * SYMBOL_BYTES];
        for kernel in Kernel::available() {
            let mut encoder = Encoder::new(kernel);
            group.bench_function(BenchmarkId::new(kernel.name(), shape_name((sources, repairs))), |bencher| {
                bencher.iter(|| encoder.repairs(&code, &frame, 0..repairs, &mut output));
            });
        }
    }
    group.finish();
    let frame = vec![7; 120_000];
    criterion.bench_function("digest of 120 kB", |bencher| bencher.iter(|| digest(std::hint::black_box(&frame))));
}

fn facts(losses: LossProcess, round_trip: Span) -> FrameFacts {
    FrameFacts {
        sources: 50,
        packet: Bytes::new(1_200),
        key: false,
        index: 5,
        group: 0,
        interval: Span::from_micros(13_889),
        deadline: Span::from_millis(50),
        round_trip,
        jitter: Span::from_millis(1),
        losses: LossSummary::random(losses),
        rate: Bitrate::from_mbps(35),
        distortion: RateDistortion::TYPICAL,
        interleaved: false,
        window: 8,
    }
}

fn plan(criterion: &mut Criterion) {
    for (name, losses, round_trip) in [
        ("clean", LossProcess::CLEAN, 20),
        ("1 %, a round trip fits", LossProcess::new(0.01, 1.33), 20),
        ("5 %, none fits", LossProcess::new(0.05, 3.0), 100),
    ] {
        let facts = facts(losses, Span::from_millis(round_trip));
        let mut planner = new_policy("planner").expect("a policy");
        criterion.bench_function(&format!("plan a frame, {name}"), |bencher| bencher.iter(|| planner.plan(&facts)));
        let shortage = Shortage { needed: 3, underway: 0, facts };
        criterion.bench_function(&format!("answer, {name}"), |bencher| bencher.iter(|| planner.answer(&shortage)));
    }
    // The table of probabilities is made anew when the path has changed.
    let changes = [0.01, 0.02].map(|loss| facts(LossProcess::new(loss, 2.0), Span::from_millis(100)));
    let mut planner = new_policy("planner").expect("a policy");
    criterion.bench_function("plan two frames on changing paths", |bencher| {
        bencher.iter(|| changes.map(|facts| planner.plan(&facts)));
    });
}

fn estimate(criterion: &mut Criterion) {
    let mut estimate = LossEstimate::default();
    let mut number = 0;
    criterion.bench_function("a packet's fate", |bencher| {
        bencher.iter(|| {
            number += 1;
            let sent_at = Time::from_micros(300 * number);
            let arrived_at = (number % 97 > 0).then(|| (sent_at + Span::from_millis(9)).for_peer());
            estimate.on_outcome(&PacketOutcome { frame: FrameId(number as u32 / 50), sent_at, arrived_at });
        });
    });
}

criterion_group!(benches, encode, plan, estimate);
criterion_main!(benches);
