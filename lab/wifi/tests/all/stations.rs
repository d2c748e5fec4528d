//! A cell with several headsets against ns-3 3.44 (`oracle/ns3.cc`), in virtual time.
//!
//! Each headset has 50 Mb/s down at 60 frames a second in up to three batches, and 240 poses a second up; phases are random. Runs
//! are short and many, as ns-3's are.

use nearlight_units::{Bitrate, Span};
use nearlight_wifi::traffic::{PeriodicConfig, VideoConfig};
use nearlight_wifi::{CellSpec, DelaySummary, Report, Scenario};

/// Results are not tuned to this seed; any other would do.
const SEED: u64 = 77;
const MEANS: f64 = 0.05;
const QUANTILES: f64 = 0.10;

/// A row of docs/wifi.md: the output of ns-3 for this many stations and milliseconds per run.
struct Golden {
    stations: usize,
    length: i64,
    /// In the order of [`FIGURES`].
    figures: [f64; 7],
}

/// Virtual milliseconds of a row's runs together.
const TOTAL: i64 = 200_000;

/// Delays in milliseconds, packets of an A-MPDU, and the tolerance of each.
const FIGURES: [(&str, f64); 7] = [
    ("packet, mean", MEANS),
    ("packet, 99 %", QUANTILES),
    ("frame, mean", MEANS),
    ("frame, 99 %", QUANTILES),
    ("pose, mean", MEANS),
    ("pose, 99 %", QUANTILES),
    ("packets of an A-MPDU", MEANS),
];

fn run(cell: &str, stations: usize, length: i64, total: i64) -> Report {
    let spec: CellSpec = cell.parse().unwrap_or_else(|error| panic!("{cell}: {error}"));
    let video = VideoConfig { frame_rate: 60, ..VideoConfig::study(Bitrate::from_mbps(50)) };
    let scenario = Scenario {
        headsets: stations,
        poses: Some(PeriodicConfig::poses_at(240)),
        seed: SEED,
        runs: (total / length) as u32,
        duration: Span::from_millis(length),
        ..Scenario::study(spec.config(stations), video)
    };
    scenario.run().expect("a scenario that can run")
}

#[track_caller]
fn assert_agrees(cell: &str, golden: &Golden, total: i64) {
    let headsets = run(cell, golden.stations, golden.length, total).headsets;
    let both = |delays: DelaySummary| [delays.mean, delays.p99];
    let [packet, frame, pose] =
        [headsets.dl_packet_delay_ms, headsets.video_frame_delay_ms, headsets.ul_packet_delay_ms].map(both);
    let aggregate = headsets.downlink.ampdu_mpdus.mean;
    let ours = [packet[0], packet[1], frame[0], frame[1], pose[0], pose[1], aggregate];
    for (((what, tolerance), value), wanted) in FIGURES.into_iter().zip(ours).zip(golden.figures) {
        let error = value / wanted - 1.0;
        assert!(
            error.abs() <= tolerance,
            "{cell}, {} stations, {what}: {value:.3} is {:+.1} % off {wanted}",
            golden.stations,
            error * 100.0
        );
    }
}

/// ns-3 serves the oldest packet first, as the preset does.
#[test]
fn standard_cell_with_several_stations_agrees_with_ns3() {
    let golden = |stations, length, figures| {
        assert_agrees("standard-11ax", &Golden { stations, length, figures }, TOTAL);
    };
    golden(2, 2_000, [1.196, 3.239, 7.614, 14.405, 0.525, 2.728, 15.47]);
    golden(3, 500, [1.504, 4.307, 8.244, 15.606, 0.759, 4.110, 16.87]);
    golden(4, 500, [2.798, 8.197, 9.914, 19.562, 1.122, 6.885, 19.90]);
    golden(5, 500, [5.52, 13.3, 13.7, 25.2, 1.56, 9.52, 29.5]);
    golden(6, 500, [8.924, 23.216, 20.484, 35.850, 2.174, 14.251, 46.90]);
}

const DOWNLINK_OFDMA: &str = "standard-11ax/downlink-ofdma:4/downlink-ofdma-always:yes/order:least-served";

/// ns-3's `RrMultiUserScheduler`, downlink: few runs of ns-3, because they are slow.
#[test]
fn downlink_ofdma_agrees_with_ns3() {
    let golden = |stations, figures| {
        // Poses of six starve now and then, so that short samples of them differ by a third.
        let total = if stations == 6 { 4 * TOTAL } else { TOTAL };
        assert_agrees(DOWNLINK_OFDMA, &Golden { stations, length: 500, figures }, total);
    };
    golden(2, [1.17, 2.98, 7.79, 14.2, 0.559, 2.98, 15.3]);
    golden(3, [1.43, 4.18, 8.45, 15.3, 0.872, 4.81, 16.6]);
    golden(4, [2.05, 6.71, 9.96, 19.2, 1.58, 8.69, 18.6]);
    golden(5, [3.85, 11.8, 13.8, 27.4, 3.62, 22.3, 22.5]);
    // The poses' figures are those of 274 runs.
    golden(6, [6.14, 17.6, 18.9, 37.2, 6.55, 51.3, 30.4]);
}

#[test]
fn ofdma_both_ways_agrees_with_ns3() {
    let cell = format!("{DOWNLINK_OFDMA}/trigger:after-downlink/triggered-contend:yes");
    let golden = |stations, figures| {
        assert_agrees(&cell, &Golden { stations, length: 500, figures }, TOTAL);
    };
    golden(2, [1.44, 4.10, 8.85, 15.7, 0.538, 2.38, 19.5]);
    golden(3, [2.33, 7.89, 11.1, 20.7, 0.909, 4.35, 20.5]);
    golden(4, [4.216, 12.39, 15.23, 29.00, 1.548, 6.593, 25.14]);
    golden(5, [6.78, 18.6, 21.0, 38.3, 2.42, 11.0, 35.6]);
    golden(6, [9.799, 27.12, 28.50, 51.57, 3.065, 14.42, 51.77]);
}
