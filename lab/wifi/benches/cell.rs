//! The cost of simulating a cell. One element is one simulated second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearlight_units::{Bitrate, Span};
use nearlight_wifi::traffic::{PeriodicConfig, VideoConfig};
use nearlight_wifi::{CellSpec, Scenario};

const SECONDS: i64 = 4;

fn second(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cell");
    group.throughput(Throughput::Elements(SECONDS as u64));
    group.sample_size(20);
    let cases = [
        ("1 headset", 1, 50, "standard-11ax"),
        ("1 headset, komondor-vr", 1, 50, "komondor-vr"),
        ("4 headsets", 4, 50, "standard-11ax"),
        ("8 headsets", 8, 25, "standard-11ax"),
        ("8 headsets, too much for the cell", 8, 50, "standard-11ax"),
        ("8 headsets, OFDMA", 8, 25, "standard-11ax/mcs:9/downlink-ofdma:4/trigger:2ms"),
        ("1 headset, Minstrel and a saturated station", 1, 50, "standard-11ax/snr:30~4@100ms/background:saturated-up"),
    ];
    for (name, headsets, mbps, cell) in cases {
        let cell: CellSpec = cell.parse().expect(cell);
        let video = VideoConfig::study(Bitrate::from_mbps(mbps));
        let scenario = Scenario {
            headsets,
            poses: Some(PeriodicConfig::POSES),
            runs: 1,
            duration: Span::from_secs(SECONDS),
            ..Scenario::study(cell.config(headsets), video)
        };
        group.bench_function(name, |bencher| bencher.iter(|| scenario.run().expect(name)));
    }
    group.finish();
}

criterion_group!(benches, second);
criterion_main!(benches);
