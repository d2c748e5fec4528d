//! The metrics that a table may show, in the order of their columns.

use nearlight_events::STAGES;
use nearlight_report::Better;

use crate::summary::STAGE_METRICS;

/// A metric and its column in a table.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
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
    better: Better,
    decimals: usize,
) -> Metric {
    Metric { name, title, unit, better, decimals, wanted: ColumnRule::Always, of: Statistic::Mean, counts_all: false }
}

const fn stage(place: usize) -> Metric {
    metric(STAGE_METRICS[place], STAGES[place].name(), "ms", Better::Lower, 2).wanted(ColumnRule::Published)
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
    metric("in_time_ratio", "shown in time", "of all captures", Better::Higher, 4).counts_all(),
    metric("utility", "utility", "−1 to 1", Better::Higher, 3).counts_all(),
    metric("oracle_share", "share of the oracle's", "of its utility", Better::Higher, 3).counts_all(),
    metric("stall_ratio", "time in stalls", "", Better::Lower, 4).counts_all(),
    metric("stalls_per_minute", "stalls", "per minute", Better::Lower, 2).counts_all(),
    Metric {
        of: Statistic::P95,
        ..metric("frame_latency_all_ms", "capture to display, all", "ms at 95 %", Better::Lower, 1).counts_all()
    },
    metric("target_mbps", "target", "Mb/s", Better::Neither, 1),
    metric("received_mbps", "received", "Mb/s", Better::Higher, 1),
    metric("target_gap_mbps", "target minus received", "Mb/s", Better::Lower, 2),
    metric("utilisation", "share of capacity", "", Better::Higher, 3),
    metric("frame_network_latency_ms", "frame network latency", "ms", Better::Lower, 1),
    metric("frame_assembly_ms", "assembly delay", "ms", Better::Lower, 1),
    metric("frame_latency_ms", "capture to display", "ms", Better::Lower, 1),
    metric("motion_to_photon_ms", "motion to photon", "ms", Better::Lower, 1).wanted(ColumnRule::Systems),
    metric("input_to_photon_ms", "input to photon", "ms", Better::Lower, 1).wanted(ColumnRule::Published),
    metric("network_latency_ms", "frame network latency", "ms", Better::Lower, 1).wanted(ColumnRule::Published),
    metric("one_way_delay_ms", "one-way delay", "ms", Better::Lower, 2).wanted(ColumnRule::Published),
    metric("queue_delay_ms", "queueing", "ms", Better::Lower, 1),
    metric("frame_drop_ratio", "frames dropped", "", Better::Lower, 4),
    metric("frame_skip_ratio", "frames left out", "", Better::Lower, 4),
    metric("late_frame_ratio", "frames late", "", Better::Lower, 4),
    metric("redundancy_ratio", "redundancy", "", Better::Lower, 4).wanted(ColumnRule::Systems),
    metric("residual_frame_loss", "frames not whole in time", "", Better::Lower, 4).wanted(ColumnRule::Systems),
    metric("bad_frame_ratio", "frames bad", "", Better::Lower, 4).wanted(ColumnRule::Systems),
    metric("damaged_frame_ratio", "pictures damaged", "of those displayed", Better::Lower, 4)
        .wanted(ColumnRule::Systems),
    metric("longest_damage_ms", "longest damage", "ms", Better::Lower, 0).wanted(ColumnRule::Systems),
    metric("recovery_frames", "bad frames in a row", "", Better::Lower, 1).wanted(ColumnRule::Systems),
    metric("key_frames", "key frames", "", Better::Lower, 1),
    metric("jain", "fairness (Jain)", "", Better::Higher, 3),
    metric("tcp_share", "share of TCP", "", Better::Neither, 3),
    metric("flows_mbps", "data of all flows", "Mb/s", Better::Higher, 1),
    metric("flows_utilisation", "share of capacity", "", Better::Higher, 3),
    metric("flows_delay_ms", "one-way delay", "ms", Better::Lower, 1),
    metric("flows_jain", "fairness (Jain), each second", "", Better::Higher, 3),
    metric("flows_jain_whole", "fairness (Jain), whole run", "", Better::Higher, 3),
    metric("playback_startup_s", "startup", "s", Better::Lower, 2),
    metric("playback_mbps", "bit rate played", "Mb/s", Better::Higher, 2),
    metric("playback_switches", "switches", "", Better::Lower, 1),
    metric("playback_stalls", "stalls", "", Better::Lower, 2),
    metric("playback_stalled_s", "time in stalls", "s", Better::Lower, 1),
    metric("playback_quality", "average quality", "0 to 100", Better::Higher, 1),
    metric("playback_jain", "fairness of bit rates (Jain)", "", Better::Higher, 3),
    metric("convergence_s", "convergence", "s", Better::Lower, 1),
    metric("psnr_db", "PSNR", "dB", Better::Higher, 2),
    metric("ssim", "SSIM", "", Better::Higher, 4),
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
    metric("dl_packet_delay_ms", "packet down", "ms", Better::Lower, 2),
    metric("ul_packet_delay_ms", "packet up", "ms", Better::Lower, 2),
    metric("video_frame_delay_ms", "frame", "ms", Better::Lower, 2),
    metric("frames_within_10ms_ratio", "frames within 10 ms", "", Better::Higher, 4),
    metric("ampdu_mpdus", "A-MPDU", "packets", Better::Neither, 1),
    metric("airtime_ratio", "airtime", "", Better::Lower, 3),
    metric("delivered_mbps", "delivered", "Mb/s", Better::Higher, 1),
];

/// Returns whether a page can show a published metric.
#[must_use]
pub fn can_show(metric: &str) -> bool {
    METRICS.iter().any(|known| known.name == metric)
}
