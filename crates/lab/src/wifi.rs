//! Figures of Wi-Fi cells: what the plans about them print.

use nearlight_wifi::{Distribution, Tally};

use crate::histogram::Histogram;
use crate::record::{RunRecord, WifiRecord};
use crate::summary::{MILLISECONDS, Samples, Take};

/// In microseconds.
pub(crate) fn histogram(delays: &Distribution) -> Histogram {
    let micros = delays.iter().map(|(delay, count)| (delay.as_micros() as u64, count));
    Histogram::of(micros, delays.sum().as_micros() as u64)
}

/// Packets of each transmission.
fn aggregates(tally: &Tally) -> Histogram {
    let sizes = tally.aggregates.iter().zip(0..).map(|(count, packets)| (packets, *count));
    Histogram::of(sizes, tally.sent())
}

fn merged(records: &[WifiRecord], of: impl Fn(&WifiRecord) -> Histogram) -> Histogram {
    records.iter().map(of).fold(Histogram::default(), |mut all, one| {
        all.merge(&one);
        all
    })
}

/// From a frame's first packet in the traffic model, from the end of its encoding in a session, until all of it is there.
pub(crate) fn frame_delays(run: &RunRecord) -> Histogram {
    let mut all = merged(&run.wifi, |wifi| histogram(&wifi.record.video_frame_delay));
    for media in &run.media {
        all.merge(&media.frame_network_latency);
    }
    all
}

/// Metrics of a run with cells; several cells' are taken together.
pub(crate) fn metrics(run: &RunRecord, take: Take<'_>) {
    if run.wifi.is_empty() {
        return;
    }
    let delays = |of: fn(&WifiRecord) -> &Distribution| merged(&run.wifi, |wifi| histogram(of(wifi)));
    take("dl_packet_delay_ms", Samples::Counted(delays(|wifi| &wifi.record.dl_packet_delay), MILLISECONDS));
    take("ul_packet_delay_ms", Samples::Counted(delays(|wifi| &wifi.record.ul_packet_delay), MILLISECONDS));
    take("video_frame_delay_ms", Samples::Counted(frame_delays(run), MILLISECONDS));
    take("ampdu_mpdus", Samples::Counted(merged(&run.wifi, |wifi| aggregates(&wifi.record.downlink)), 1.0));
    let records = || run.wifi.iter().map(|wifi| &wifi.record);
    take("airtime_ratio", Samples::Values(records().map(nearlight_wifi::CellRecord::airtime_ratio).collect()));
    take("delivered_mbps", Samples::Values(records().map(nearlight_wifi::CellRecord::delivered_mbps).collect()));
    if run.media.is_empty() {
        let lost: u64 = records().map(|record| record.video_frames_lost).sum();
        let whole: u64 = records().map(|record| record.video_frame_delay.count()).sum();
        let ratio = lost as f64 / (lost + whole).max(1) as f64;
        take("frame_drop_ratio", Samples::Values(vec![ratio]));
    }
}
