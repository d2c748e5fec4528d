//! The metrics that a table may show, in the order of their columns.

use nearlight_events::STAGES;
use nearlight_report::Polarity;

use crate::summary::STAGE_METRICS;

/// A metric and its column in a table.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) polarity: Polarity,
    pub(super) decimals: usize,
    pub(super) wanted: ColumnRule,
    pub(super) of: Statistic,
    /// It counts every captured frame, so that skipping frames does not improve it.
    pub(super) counts_all: bool,
}

/// The statistic of a metric that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    Mean,
    /// The 95 % quantile of all samples.
    P95,
}

/// When a metric has a column. A metric with a published figure always has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnRule {
    /// Whenever a run has the metric.
    Always,
    /// In plans that compare systems with redundancy and recovery.
    Systems,
    /// Only next to a published figure.
    Published,
}

const fn metric(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    polarity: Polarity,
    decimals: usize,
) -> Metric {
    Metric { name, title, unit, polarity, decimals, wanted: ColumnRule::Always, of: Statistic::Mean, counts_all: false }
}

const fn stage(place: usize) -> Metric {
    metric(STAGE_METRICS[place], STAGES[place].name(), "ms", Polarity::Lower, 2).wanted(ColumnRule::Published)
}

impl Metric {
    const fn wanted(self, wanted: ColumnRule) -> Self {
        Self { wanted, ..self }
    }

    const fn counts_all(self) -> Self {
        Self { counts_all: true, ..self }
    }
}

/// All metrics. Those that matter to the user come first.
pub(super) const METRICS: [Metric; 62] = [
    metric("in_time_ratio", "shown in time", "of all captures", Polarity::Higher, 4).counts_all(),
    metric("utility", "utility", "−1 to 1", Polarity::Higher, 3).counts_all(),
    metric("oracle_share", "share of the oracle's", "of its utility", Polarity::Higher, 3).counts_all(),
    metric("stall_ratio", "time in stalls", "", Polarity::Lower, 4).counts_all(),
    metric("stalls_per_minute", "stalls", "per minute", Polarity::Lower, 2).counts_all(),
    Metric {
        of: Statistic::P95,
        ..metric("frame_latency_all_ms", "capture to display, all", "ms at 95 %", Polarity::Lower, 1).counts_all()
    },
    metric("target_mbps", "target", "Mb/s", Polarity::Neither, 1),
    metric("received_mbps", "received", "Mb/s", Polarity::Higher, 1),
    metric("target_gap_mbps", "target minus received", "Mb/s", Polarity::Lower, 2),
    metric("utilisation", "share of capacity", "", Polarity::Higher, 3),
    metric("frame_network_latency_ms", "frame network latency", "ms", Polarity::Lower, 1),
    metric("frame_assembly_ms", "assembly delay", "ms", Polarity::Lower, 1),
    metric("frame_latency_ms", "capture to display", "ms", Polarity::Lower, 1),
    metric("motion_to_photon_ms", "motion to photon", "ms", Polarity::Lower, 1).wanted(ColumnRule::Systems),
    metric("input_to_photon_ms", "input to photon", "ms", Polarity::Lower, 1).wanted(ColumnRule::Published),
    metric("network_latency_ms", "frame network latency", "ms", Polarity::Lower, 1).wanted(ColumnRule::Published),
    metric("one_way_delay_ms", "one-way delay", "ms", Polarity::Lower, 2).wanted(ColumnRule::Published),
    metric("queue_delay_ms", "queueing", "ms", Polarity::Lower, 1),
    metric("frame_drop_ratio", "frames dropped", "", Polarity::Lower, 4),
    metric("frame_skip_ratio", "frames left out", "", Polarity::Lower, 4),
    metric("late_frame_ratio", "frames late", "", Polarity::Lower, 4),
    metric("redundancy_ratio", "redundancy", "", Polarity::Lower, 4).wanted(ColumnRule::Systems),
    metric("residual_frame_loss", "frames not whole in time", "", Polarity::Lower, 4).wanted(ColumnRule::Systems),
    metric("bad_frame_ratio", "frames bad", "", Polarity::Lower, 4).wanted(ColumnRule::Systems),
    metric("damaged_frame_ratio", "pictures damaged", "of those displayed", Polarity::Lower, 4)
        .wanted(ColumnRule::Systems),
    metric("longest_damage_ms", "longest damage", "ms", Polarity::Lower, 0).wanted(ColumnRule::Systems),
    metric("recovery_frames", "bad frames in a row", "", Polarity::Lower, 1).wanted(ColumnRule::Systems),
    metric("key_frames", "key frames", "", Polarity::Lower, 1),
    metric("jain", "fairness (Jain)", "", Polarity::Higher, 3),
    metric("tcp_share", "share of TCP", "", Polarity::Neither, 3),
    metric("flows_mbps", "data of all flows", "Mb/s", Polarity::Higher, 1),
    metric("flows_utilisation", "share of capacity", "", Polarity::Higher, 3),
    metric("flows_delay_ms", "one-way delay", "ms", Polarity::Lower, 1),
    metric("flows_jain", "fairness (Jain), each second", "", Polarity::Higher, 3),
    metric("flows_jain_whole", "fairness (Jain), whole run", "", Polarity::Higher, 3),
    metric("playback_startup_s", "startup", "s", Polarity::Lower, 2),
    metric("playback_mbps", "bit rate played", "Mb/s", Polarity::Higher, 2),
    metric("playback_switches", "switches", "", Polarity::Lower, 1),
    metric("playback_stalls", "stalls", "", Polarity::Lower, 2),
    metric("playback_stalled_s", "time in stalls", "s", Polarity::Lower, 1),
    metric("playback_quality", "average quality", "0 to 100", Polarity::Higher, 1),
    metric("playback_jain", "fairness of bit rates (Jain)", "", Polarity::Higher, 3),
    metric("convergence_s", "convergence", "s", Polarity::Lower, 1),
    metric("psnr_db", "PSNR", "dB", Polarity::Higher, 2),
    metric("ssim", "SSIM", "", Polarity::Higher, 4),
    stage(0),
    stage(1),
    stage(2),
    stage(3),
    stage(4),
    stage(5),
    stage(6),
    stage(7),
    stage(8),
    stage(9),
    metric("dl_packet_delay_ms", "packet down", "ms", Polarity::Lower, 2),
    metric("ul_packet_delay_ms", "packet up", "ms", Polarity::Lower, 2),
    metric("video_frame_delay_ms", "frame", "ms", Polarity::Lower, 2),
    metric("frames_within_10ms_ratio", "frames within 10 ms", "", Polarity::Higher, 4),
    metric("ampdu_mpdus", "A-MPDU", "packets", Polarity::Neither, 1),
    metric("airtime_ratio", "airtime", "", Polarity::Lower, 3),
    metric("delivered_mbps", "delivered", "Mb/s", Polarity::Higher, 1),
];

/// Returns whether a page can show a published metric.
#[must_use]
pub fn can_show(metric: &str) -> bool {
    METRICS.iter().any(|known| known.name == metric)
}
