//! A run's summary as one object: what `nearlight view --json` prints and the page's `summary()` returns (docs/json.md).

use std::ops::AddAssign;

use nearlight_units::{Bitrate, Span, Time};
use serde::Serialize;

use crate::{Recovery, RecoveryCounts, STAGES, Stalls, Timeline};

/// Maximum number of samples stored. A longer run is thinned evenly, so memory stays constant.
const MAX_SAMPLES: usize = 16_384;

/// Samples of a duration, thinned evenly once there are too many.
#[derive(Clone, Debug)]
pub struct Samples {
    values: Vec<Span>,
    /// Every `stride`-th sample is stored.
    stride: u64,
    seen: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { values: Vec::new(), stride: 1, seen: 0 }
    }
}

impl Samples {
    pub fn push(&mut self, value: Span) {
        if self.seen.is_multiple_of(self.stride) {
            if self.values.len() == MAX_SAMPLES {
                let mut index = 0;
                self.values.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.values.push(value);
        }
        self.seen += 1;
    }

    /// The number of samples that were pushed.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.seen
    }

    /// The percentile by nearest rank. None without samples.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<Span> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

/// Percentiles in milliseconds and the number of samples. Without samples they are null in JSON, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub n: u64,
}

impl From<&Samples> for Distribution {
    fn from(samples: &Samples) -> Self {
        let percentile = |percent| samples.percentile(percent).map(milliseconds);
        Self { p50: percentile(50), p95: percentile(95), p99: percentile(99), n: samples.count() }
    }
}

/// The median of one stage in milliseconds. Null in JSON before any frame was displayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageMedian {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
}

/// The fate of the frames that the server sent while the client watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    pub sent: u64,
    /// Frames of which all symbols arrived.
    pub completed: u64,
    pub decoded: u64,
    pub displayed: u64,
    /// Frames displayed although a frame that they depend on was skipped. None in recovery modes that do not allow it.
    pub damaged: u64,
    /// Frames displayed after their deadline, or decoded only because later frames needed them.
    pub late: u64,
    /// Frames that were never decoded.
    pub lost: u64,
}

/// Rates in megabits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    pub target: f64,
    pub sent: f64,
    pub received: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossCounts {
    /// Media datagrams that never arrived.
    pub packets: u64,
    /// Symbols that arrived in a later datagram than their first.
    pub retransmitted: u64,
    /// Key frames after the first.
    pub key_frames: u64,
}

/// Counts of the sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SoundCounts {
    /// Datagrams that arrived, each with 10 ms of sound.
    pub packets: u64,
    /// Datagrams that never arrived.
    pub lost: u64,
    /// Blocks that only arrived as the copy in the next datagram.
    pub repeated: u64,
    /// Blocks of 10 ms that were concealed because they were not available in time.
    pub concealed: u64,
    /// Blocks that were decoded too late.
    pub late: u64,
}

impl AddAssign for SoundCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.concealed += other.concealed;
        self.late += other.late;
    }
}

/// The sound of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SoundSummary {
    #[serde(flatten)]
    pub counts: SoundCounts,
    /// Delay from a moment in the world to its playback, at the end of the run. Null if nothing was played.
    pub delay_ms: Option<f64>,
    /// Distance in time between sound and picture, for each displayed frame.
    pub apart_ms: Distribution,
}

impl SoundSummary {
    #[must_use]
    pub fn new(counts: SoundCounts, delay: Option<Span>, apart: &Samples) -> Self {
        Self { counts, delay_ms: delay.map(milliseconds), apart_ms: Distribution::from(apart) }
    }
}

/// Means of the rates that a server reports.
///
/// The sent rate refers to the second before each report. Reports of the first second refer to a time before the first frame and are
/// skipped, unless there are no others.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportedRates {
    first_at: Option<Time>,
    latest: [Bitrate; 2],
    sums: [u128; 2],
    reports: u64,
}

impl ReportedRates {
    /// The time that a report covers.
    const WINDOW: Span = Span::from_secs(1);

    /// Handles a report that arrived at `at`, with the controller's target and the sending rate.
    pub fn on_report(&mut self, at: Time, target: Bitrate, sent: Bitrate) {
        self.latest = [target, sent];
        if at - *self.first_at.get_or_insert(at) < Self::WINDOW {
            return;
        }
        self.reports += 1;
        for (sum, rate) in self.sums.iter_mut().zip(self.latest) {
            *sum += u128::from(rate.as_bps());
        }
    }

    /// The means of target and sending rate.
    #[must_use]
    pub fn means(&self) -> [Bitrate; 2] {
        match self.reports {
            0 => self.latest,
            reports => self.sums.map(|sum| Bitrate::from_bps((sum / u128::from(reports)) as u64)),
        }
    }
}

/// The stream's properties, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SummaryStream {
    pub codec: String,
    pub encoder: String,
    pub adapter: String,
    pub transport: String,
}

/// A run's summary. Field names are stable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub frames: FrameCounts,
    pub fps: f64,
    /// Longest time between two displayed pictures, or between the last one and the end.
    pub pause_ms_max: f64,
    /// Fraction of the time since the first picture in which the picture was frozen for more than [`STALL`](crate::STALL); null before any.
    pub stall_ratio: Option<f64>,
    pub stalls_per_minute: Option<f64>,
    /// For each displayed frame: the time since the newest input that it is the first to show.
    pub motion_to_photon_ms: Distribution,
    /// For each input, including those superseded by a newer one.
    pub input_to_photon_ms: Distribution,
    /// Distributions by stage name.
    pub stages_ms: serde_json::Map<String, serde_json::Value>,
    /// Largest difference between a frame's total and the sum of its stages.
    pub stage_sum_error_us_max: i64,
    pub rate_mbps: Rates,
    pub loss: LossCounts,
    pub recovery: Recovery,
    /// The sound. None if the session had none.
    pub sound: Option<SoundSummary>,
    #[serde(flatten)]
    pub stream: SummaryStream,
    /// Bound on the error of mapped server times at the end, in milliseconds.
    pub clock_error_ms: f64,
    /// Displayed frames without a readable marker below their picture.
    pub unreadable_markers: u64,
}

/// Collects timelines as they arrive.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    stages: [Samples; STAGES.len()],
    motion_to_photon: Samples,
    input_to_photon: Samples,
    stage_sum_error: Span,
    stalls: Stalls,
    ended_at: Option<Time>,
}

impl SummaryBuilder {
    /// Records that a picture is displayed, whether or not its timeline is known.
    pub fn on_picture(&mut self, at: Time) {
        self.stalls.on_picture(at);
    }

    /// Records the end of display: the time since the last picture counts as a pause.
    pub fn on_end(&mut self, at: Time) {
        self.ended_at = Some(at);
    }

    /// Records a displayed frame. `total` is its duration from input event to display, measured separately from the stages.
    pub fn on_displayed(&mut self, timeline: &Timeline, total: Span) {
        let mut sum = Span::ZERO;
        for (samples, stage) in self.stages.iter_mut().zip(STAGES) {
            let span = timeline.stage(stage);
            samples.push(span);
            sum += span;
        }
        self.stage_sum_error = self.stage_sum_error.max((sum - total).abs());
    }

    /// Records the inputs that a displayed frame was the first to show, by their age, the oldest first. The newest one's age is the frame's
    /// motion-to-photon time.
    pub fn on_inputs_displayed(&mut self, spans: impl IntoIterator<Item = Span>) {
        let mut newest = None;
        for span in spans {
            self.input_to_photon.push(span);
            newest = Some(span);
        }
        if let Some(span) = newest {
            self.motion_to_photon.push(span);
        }
    }

    /// The distribution of motion-to-photon so far.
    #[must_use]
    pub fn motion_to_photon(&self) -> Distribution {
        Distribution::from(&self.motion_to_photon)
    }

    /// The summary so far. `watched` is how long the client displayed frames.
    #[must_use]
    pub fn build(&self, frames: FrameCounts, watched: Span, rest: SummaryRest) -> Summary {
        let stages_ms = STAGES.iter().zip(&self.stages).map(|(stage, samples)| {
            let percentile = |percent| samples.percentile(percent).map(milliseconds);
            let shares = StageMedian { p50: percentile(50), p95: percentile(95) };
            (stage.name().to_owned(), serde_json::to_value(shares).expect("two numbers"))
        });
        let stalls = self.stalls.until(self.ended_at.unwrap_or(Time::ZERO));
        let fps = if watched > Span::ZERO { frames.displayed as f64 / watched.as_secs_f64() } else { 0.0 };
        Summary {
            frames,
            fps: round(fps, 100.0),
            pause_ms_max: milliseconds(stalls.longest),
            stall_ratio: stalls.ratio().map(|ratio| round(ratio, 1e4)),
            stalls_per_minute: stalls.per_minute().map(|count| round(count, 1e2)),
            motion_to_photon_ms: self.motion_to_photon(),
            input_to_photon_ms: Distribution::from(&self.input_to_photon),
            stages_ms: stages_ms.collect(),
            stage_sum_error_us_max: self.stage_sum_error.as_micros(),
            rate_mbps: rest.rates,
            loss: rest.loss,
            recovery: Recovery::new(rest.recovery, frames),
            sound: rest.sound,
            stream: rest.stream,
            clock_error_ms: milliseconds(rest.clock_error),
            unreadable_markers: rest.unreadable_markers,
        }
    }
}

/// The parts of a summary that do not come from timelines.
#[derive(Clone, Debug, Default)]
pub struct SummaryRest {
    pub rates: Rates,
    pub loss: LossCounts,
    pub recovery: RecoveryCounts,
    pub sound: Option<SoundSummary>,
    pub stream: SummaryStream,
    pub clock_error: Span,
    pub unreadable_markers: u64,
}

impl Rates {
    #[must_use]
    pub fn new(target: Bitrate, sent: Bitrate, received: Bitrate) -> Self {
        let mbps = |rate: Bitrate| round(rate.as_mbps_f64(), 1e3);
        Self { target: mbps(target), sent: mbps(sent), received: mbps(received) }
    }
}

fn milliseconds(span: Span) -> f64 {
    round(span.as_millis_f64(), 1e3)
}

fn round(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile(50), None);
        for value in 1..=100 {
            samples.push(Span::from_micros(value));
        }
        for percent in [50, 99, 100] {
            assert_eq!(samples.percentile(percent), Some(Span::from_micros(i64::from(percent))));
        }
    }

    #[test]
    fn a_frames_motion_to_photon_is_its_newest_inputs_and_every_input_has_its_own() {
        let mut builder = SummaryBuilder::default();
        for spans in [[40, 24].as_slice(), &[41, 25], &[26], &[]] {
            builder.on_inputs_displayed(spans.iter().map(|millis| Span::from_millis(*millis)));
        }
        let summary = builder.build(FrameCounts::default(), Span::from_secs(1), SummaryRest::default());
        let (frames, inputs) = (summary.motion_to_photon_ms, summary.input_to_photon_ms);
        assert_eq!((frames.p50, frames.p99, frames.n), (Some(25.0), Some(26.0), 3));
        assert_eq!((inputs.p50, inputs.p99, inputs.n), (Some(26.0), Some(41.0), 5));
    }

    #[test]
    fn without_samples_a_distribution_is_null() {
        let summary =
            SummaryBuilder::default().build(FrameCounts::default(), Span::from_secs(1), SummaryRest::default());
        let object = serde_json::to_value(&summary).expect("plain data");
        let none = serde_json::json!({ "p50": null, "p95": null, "p99": null, "n": 0 });
        assert_eq!([&object["motion_to_photon_ms"], &object["input_to_photon_ms"]], [&none, &none]);
        assert_eq!(object["stages_ms"]["network"], serde_json::json!({ "p50": null, "p95": null }));
    }

    #[test]
    fn reported_rates_leave_out_what_was_before_the_stream() {
        let mbps = Bitrate::from_mbps;
        let mut rates = ReportedRates::default();
        assert_eq!(rates.means(), [Bitrate::ZERO; 2]);
        for (milliseconds, sent) in [(500, 0), (900, 4), (1_600, 8), (2_600, 6)] {
            rates.on_report(Time::from_micros(milliseconds * 1_000), mbps(8), mbps(sent));
            if milliseconds == 900 {
                assert_eq!(rates.means(), [mbps(8), mbps(4)], "no others yet");
            }
        }
        assert_eq!(rates.means(), [mbps(8), mbps(7)]);
    }

    #[test]
    fn silence_at_the_end_is_a_pause() {
        let mut builder = SummaryBuilder::default();
        builder.on_picture(Time::from_secs(1));
        builder.on_picture(Time::from_secs(2));
        builder.on_end(Time::from_secs(5));
        let summary = builder.build(FrameCounts::default(), Span::from_secs(4), SummaryRest::default());
        assert!((summary.pause_ms_max - 3_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_summary_tells_how_much_of_the_time_its_picture_stood() {
        let mut builder = SummaryBuilder::default();
        let summary = |builder: &SummaryBuilder| {
            builder.build(FrameCounts::default(), Span::from_secs(10), SummaryRest::default())
        };
        assert_eq!(summary(&builder).stall_ratio, None, "no picture yet");
        for frame in 0..=50 {
            builder.on_picture(Time::from_millis(1_000 + frame * 100));
        }
        assert_eq!((summary(&builder).stall_ratio, summary(&builder).stalls_per_minute), (Some(0.0), Some(0.0)));
        builder.on_end(Time::from_secs(11));
        assert_eq!((summary(&builder).stall_ratio, summary(&builder).stalls_per_minute), (Some(0.5), Some(6.0)));
    }

    #[test]
    fn a_long_run_keeps_bounded_samples_and_its_median() {
        let mut samples = Samples::default();
        for value in 0..1_000_000 {
            samples.push(Span::from_nanos(value));
        }
        assert_eq!(samples.count(), 1_000_000);
        assert!(samples.values.len() <= MAX_SAMPLES);
        let median = samples.percentile(50).expect("samples").as_nanos();
        assert!((450_000..550_000).contains(&median), "median {median}");
    }
}
