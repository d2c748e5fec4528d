//! What a path costs per packet.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearlight_link::{FlowId, Hop, Packet, PathSpec};
use nearlight_units::{Bytes, Span, Time};

/// Packets per round: a frame of 50 Mb/s at 60 frames a second is 87.
const PACKETS: u64 = 1_000;

fn per_packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("path");
    group.throughput(Throughput::Elements(PACKETS));
    let cases = [
        ("delay", "delay=10ms"),
        ("rate", "rate=100mbit"),
        ("rate+queue+delay+loss", "rate=100mbit,queue=100ms,delay=10ms,loss=1%"),
        ("token bucket+codel", "rate=100mbit,burst=3kb,queue=100ms,aqm=codel"),
        ("slots", "rate=100mbit,fine=tdd"),
        ("jitter", "jitter=30ms"),
    ];
    for (name, spec) in cases {
        let mut path = spec.parse::<PathSpec>().expect(spec).build(1).expect(spec);
        let mut now = Time::ZERO;
        let mut id = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut arrived = 0_u64;
                for _ in 0..PACKETS {
                    // A little below the rate, with polls only as packets are offered: the way a busy simulator calls.
                    now += Span::from_micros(100);
                    while let Some(exit) = path.poll(now) {
                        arrived += exit.packet.size.get();
                    }
                    path.offer(now, Packet::new(id, FlowId(0), Bytes::new(1_200)));
                    id += 1;
                }
                arrived
            });
        });
    }
    group.finish();
}

criterion_group!(benches, per_packet);
criterion_main!(benches);
