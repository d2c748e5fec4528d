//! A cell with several headsets against ns-3 3.44 (`oracle/ns3.cc`), in virtual time.
//!
//! Each headset has 50 Mb/s down at 60 frames a second in up to three batches, and 240 poses a second up; phases are random. Runs
//! are short and many, as ns-3's are.

use nearlight_units::{Bitrate, Span};
use nearlight_wifi::traffic::{PeriodicConfig, VideoConfig};
use nearlight_wifi::{CellSpec, DelaySummary, Report, Scenario};

/// Nothing was tuned to it: any other will do.
const SEED: u64 = 77;
const MEANS: f64 = 0.05;
const QUANTILES: f64 = 0.10;

/// What ns-3 printed for so many stations and so many milliseconds a run: mean and 99 % quantile of delays in milliseconds.
struct Golden {
    stations: usize,
    length: i64,
    packet: [f64; 2],
    frame: [f64; 2],
    pose: [f64; 2],
    /// Packets of an A-MPDU.
    aggregate: f64,
}

fn run(cell: &str, stations: usize, length: i64) -> Report {
    let spec: CellSpec = cell.parse().unwrap_or_else(|error| panic!("{cell}: {error}"));
    let video = VideoConfig { frame_rate: 60, ..VideoConfig::study(Bitrate::from_mbps(50)) };
    let scenario = Scenario {
        headsets: stations,
        poses: Some(PeriodicConfig::poses_at(240)),
        seed: SEED,
        runs: (200_000 / length) as u32,
        duration: Span::from_millis(length),
        ..Scenario::study(spec.config(stations), video)
    };
    scenario.run().expect("a scenario that can run")
}

#[track_caller]
fn assert_agrees(cell: &str, golden: &Golden) {
    let headsets = run(cell, golden.stations, golden.length).headsets;
    let near = |what: &str, value: f64, golden_value: f64, tolerance: f64| {
        let error = value / golden_value - 1.0;
        let stations = golden.stations;
        assert!(
            error.abs() <= tolerance,
            "{cell}, {stations} stations, {what}: {value:.3} is {:+.1} % off {golden_value}",
            error * 100.0
        );
    };
    let delays = |what: &str, delays: DelaySummary, [mean, quantile]: [f64; 2]| {
        near(&format!("{what}, mean"), delays.mean, mean, MEANS);
        near(&format!("{what}, 99 %"), delays.p99, quantile, QUANTILES);
    };
    delays("packet", headsets.dl_packet_delay_ms, golden.packet);
    delays("frame", headsets.video_frame_delay_ms, golden.frame);
    delays("pose", headsets.ul_packet_delay_ms, golden.pose);
    near("packets of an A-MPDU", headsets.downlink.ampdu_mpdus.mean, golden.aggregate, MEANS);
}

/// ns-3 serves the oldest packet first, as the preset does.
#[test]
fn standard_cell_with_several_stations_agrees_with_ns3() {
    let golden = |stations, length, packet, frame, pose, aggregate| {
        assert_agrees("standard-11ax", &Golden { stations, length, packet, frame, pose, aggregate });
    };
    golden(2, 2_000, [1.196, 3.239], [7.614, 14.405], [0.525, 2.728], 15.47);
    golden(3, 500, [1.504, 4.307], [8.244, 15.606], [0.759, 4.110], 16.87);
    golden(4, 500, [2.798, 8.197], [9.914, 19.562], [1.122, 6.885], 19.90);
    golden(6, 500, [8.924, 23.216], [20.484, 35.850], [2.174, 14.251], 46.90);
}

/// ns-3's `RrMultiUserScheduler`: few runs, because they are slow.
#[test]
fn ofdma_agrees_with_ns3() {
    let down = "standard-11ax/downlink-ofdma:4/downlink-ofdma-always:yes/order:least-served";
    let (packet, frame, pose) = ([1.988, 6.437], [9.921, 19.075], [1.546, 7.845]);
    assert_agrees(down, &Golden { stations: 4, length: 500, packet, frame, pose, aggregate: 18.53 });
    let both = format!("{down}/trigger:after-downlink/triggered-contend:yes");
    let (packet, frame, pose) = ([4.287, 12.702], [15.512, 29.876], [1.517, 5.898]);
    assert_agrees(&both, &Golden { stations: 4, length: 500, packet, frame, pose, aggregate: 25.77 });
}
