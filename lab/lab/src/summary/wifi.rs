//! Figures of Wi-Fi cells.

use nearlight_wifi::{Distribution, Tally};

use super::{MILLISECONDS, Samples, Take};
use crate::histogram::Histogram;
use crate::record::{RunRecord, WifiRecord};

/// Largest network delay of a frame that does not disturb, in ms: our own goal, and that of the literature on VR over Wi-Fi.
pub(crate) const MAX_UNDISTURBED_MS: f64 = 10.0;

/// Converts a distribution to a histogram of microseconds.
pub(crate) fn histogram(delays: &Distribution) -> Histogram {
    let micros = delays.iter().map(|(delay, count)| (delay.as_micros() as u64, count));
    Histogram::of(micros, delays.sum().as_micros() as u64)
}

/// Returns the packets of each transmission.
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

/// Returns frame delays: from the first packet in the traffic model, or from the end of encoding in a session, until the frame is complete.
pub(crate) fn frame_delays(run: &RunRecord) -> Histogram {
    let mut all = merged(&run.wifi, |wifi| histogram(&wifi.record.video_frame_delay));
    for media in &run.media {
        all.merge(&media.frame_network_latency);
    }
    all
}

/// Returns the share of sent frames that arrive in time.
fn in_time(run: &RunRecord) -> f64 {
    let delays = frame_delays(run);
    let in_time: u64 =
        delays.iter().filter(|(micros, _)| *micros <= MAX_UNDISTURBED_MS * 1e3).map(|(_, count)| count).sum();
    let of_model = |wifi: &WifiRecord| wifi.record.video_frame_delay.count() + wifi.record.video_frames_lost;
    let of_sessions: u64 = run.media.iter().map(|media| media.sent_frames).sum();
    let sent = run.wifi.iter().map(of_model).sum::<u64>() + of_sessions;
    in_time as f64 / sent.max(1) as f64
}

/// Takes the metrics of a run with cells; several cells are pooled.
pub(crate) fn metrics(run: &RunRecord, take: Take<'_>) {
    if run.wifi.is_empty() {
        return;
    }
    let delays = |of: fn(&WifiRecord) -> &Distribution| merged(&run.wifi, |wifi| histogram(of(wifi)));
    take("dl_packet_delay_ms", Samples::Counted(delays(|wifi| &wifi.record.dl_packet_delay), MILLISECONDS));
    take("ul_packet_delay_ms", Samples::Counted(delays(|wifi| &wifi.record.ul_packet_delay), MILLISECONDS));
    take("video_frame_delay_ms", Samples::Counted(frame_delays(run), MILLISECONDS));
    take("frames_within_10ms_ratio", Samples::Values(vec![in_time(run)]));
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
