//! The bottleneck's capacity, from the dispersion of frames. A frame's packets leave faster than the bottleneck serves them, so they arrive
//! as far apart as it serves them.

use nearlight_units::{Bytes, FrameId, RemoteTime, Span, Time};

use super::parameters::Parameters;
use crate::PacketReport;

/// How far apart packets were, of one frame or of several small ones.
#[derive(Clone, Copy, Debug, Default)]
struct Dispersion {
    /// Gaps between arrivals.
    gaps: u32,
    /// Bytes that arrived behind the first packet.
    bytes: Bytes,
    lost: Bytes,
    /// The time over which they were sent, and over which they arrived.
    sent: Span,
    arrived: Span,
}

impl Dispersion {
    fn and(self, other: Self) -> Self {
        Self {
            gaps: self.gaps + other.gaps,
            bytes: self.bytes + other.bytes,
            lost: self.lost + other.lost,
            sent: self.sent + other.sent,
            arrived: self.arrived + other.arrived,
        }
    }

    fn sample(self, parameters: &Parameters) -> Option<Sample> {
        if self.gaps < parameters.min_samples || self.arrived <= Span::ZERO {
            return None;
        }
        // Few lost packets were lost behind the bottleneck, or at random. Many were dropped by a full queue in front of it.
        let all = self.bytes + self.lost;
        let are_few = self.lost.get() as f64 <= all.get() as f64 * parameters.many_lost();
        let served = if are_few { all } else { self.bytes };
        let rate = served.over(self.arrived).as_bps() as f64;
        Some(Sample { rate, is_lower_bound: self.arrived <= self.sent.mul_f64(parameters.dispersed_ratio()) })
    }
}

/// What dispersion says of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    /// In bit/s.
    rate: f64,
    /// Packets arrived as far apart as they were sent, so the bottleneck may be faster.
    is_lower_bound: bool,
}

/// The state of a frame when one of its packets arrived.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    sent_at: Time,
    arrived_at: RemoteTime,
    gaps: u32,
    bytes: Bytes,
    lost: Bytes,
}

/// The packets of the frame that is arriving.
#[derive(Clone, Copy, Debug)]
struct Train {
    frame: FrameId,
    first: Checkpoint,
    /// Where the second half begins.
    middle: Checkpoint,
    last: Checkpoint,
    /// Lost since the newest arrival.
    lost: Bytes,
    min_gap: Option<Span>,
    /// Gaps of the second half, and those among them that show the highest recent capacity.
    late_gaps: u32,
    late_gaps_at_peak: u32,
}

impl Train {
    fn new(report: &PacketReport, frame: FrameId, arrived_at: RemoteTime) -> Self {
        let first =
            Checkpoint { sent_at: report.packet.sent_at, arrived_at, gaps: 0, bytes: Bytes::ZERO, lost: Bytes::ZERO };
        Self {
            frame,
            first,
            middle: first,
            last: first,
            lost: Bytes::ZERO,
            min_gap: None,
            late_gaps: 0,
            late_gaps_at_peak: 0,
        }
    }

    fn on_arrival(&mut self, report: &PacketReport, arrived_at: RemoteTime, peak: f64, parameters: &Parameters) {
        let gap = (arrived_at - self.last.arrived_at).max(Span::ZERO);
        self.min_gap = Some(self.min_gap.map_or(gap, |shortest| shortest.min(gap)));
        self.late_gaps += 1;
        let rate = report.packet.size.over(gap).as_bps() as f64;
        self.late_gaps_at_peak +=
            u32::from((peak * parameters.noise_floor()..peak * parameters.probe_gain).contains(&rate));
        let last = &mut self.last;
        last.gaps += 1;
        last.bytes += report.packet.size;
        last.lost += std::mem::take(&mut self.lost);
        last.sent_at = report.packet.sent_at;
        // Where a packet overtakes others, these were late by themselves, and the bottleneck has not served them so slowly.
        last.arrived_at = arrived_at;
    }

    fn since(&self, begin: &Checkpoint) -> Dispersion {
        Dispersion {
            gaps: self.last.gaps - begin.gaps,
            bytes: self.last.bytes.saturating_sub(begin.bytes),
            lost: self.last.lost.saturating_sub(begin.lost),
            sent: self.last.sent_at - begin.sent_at,
            arrived: self.last.arrived_at - begin.arrived_at,
        }
    }

    /// Only the second half of a large frame counts: a token bucket lets the beginning through at line rate.
    fn dispersion(&self, parameters: &Parameters) -> Dispersion {
        self.since(if self.last.gaps >= parameters.halved_gaps() { &self.middle } else { &self.first })
    }
}

/// What is known when a frame ends because the first packet of a newer one arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameEnd {
    /// That packet met a queue.
    pub(super) met_queue: bool,
    pub(super) frame_interval: Span,
    /// What stands for the estimate before the first sample, in bit/s.
    pub(super) start: f64,
}

/// Follows the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    train: Option<Train>,
    /// Gaps of the newest complete frame. Half of them are expected before the middle of the next.
    expected_gaps: u32,
    /// The dispersion of frames that were too small for a sample of their own.
    pooled: Dispersion,
    /// Frames since the last sample.
    unsampled_frames: u32,
    /// In bit/s; none before the first sample.
    estimate: Option<f64>,
    /// The highest recent sample, in bit/s. Other flows' packets between ours only make samples lower.
    peak: Option<f64>,
    /// Frames are no samples: they leave no faster than the path takes them.
    is_frozen: bool,
}

impl Capacity {
    /// In bit/s; none before the first sample.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.estimate
    }

    /// The highest recent sample, in bit/s.
    pub(super) fn peak(&self) -> Option<f64> {
        self.estimate.map(|estimate| self.peak.map_or(estimate, |peak| peak.max(estimate)))
    }

    /// Sets whether the estimate stays as it is, because frames leave no faster than the path takes them.
    pub(super) fn set_frozen(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
        self.pooled = Dispersion::default();
    }

    /// Multiplies the estimate. Before the first sample, `start` stands for it.
    pub(super) fn scale(&mut self, factor: f64, start: f64) {
        self.estimate = Some(self.estimate.unwrap_or(start) * factor);
    }

    /// Whether the frame is newer than all before.
    pub(super) fn is_newer(&self, frame: FrameId) -> bool {
        self.train.is_none_or(|train| train.frame < frame)
    }

    /// When the newest frame's newest packet arrived.
    pub(super) fn newest_arrival(&self) -> Option<RemoteTime> {
        self.train.map(|train| train.last.arrived_at)
    }

    /// The shortest gap between arrivals of the newest frame: the bottleneck serves a packet in no more than this.
    pub(super) fn min_gap(&self) -> Option<Span> {
        self.train.and_then(|train| train.min_gap)
    }

    /// Whether other flows' packets lay between those of the newest frame: the estimate is well below the recent peak, and yet many gaps of
    /// the second half show that peak. On a path that has become slower, as behind a token bucket, gaps are even, and where service comes in
    /// batches they are shorter.
    pub(super) fn is_interleaved(&self, parameters: &Parameters) -> bool {
        let Some(((estimate, peak), train)) = self.estimate.zip(self.peak()).zip(self.train) else { return false };
        let enough = (parameters.interleaved_share * f64::from(train.late_gaps)).max(1.0);
        estimate < peak * parameters.noise_floor() && f64::from(train.late_gaps_at_peak) >= enough
    }

    /// Handles a packet of the newest frame that is not its first. Others say nothing.
    pub(super) fn on_report(&mut self, report: &PacketReport, parameters: &Parameters) {
        let (expected, peak) = (self.expected_gaps, self.peak().unwrap_or(0.0));
        let Some(train) = self.train.as_mut().filter(|train| report.packet.frame == Some(train.frame)) else { return };
        match report.arrived_at {
            Some(arrived_at) => {
                train.on_arrival(report, arrived_at, peak, parameters);
                if train.last.gaps <= expected / 2 {
                    train.middle = train.last;
                    (train.late_gaps, train.late_gaps_at_peak) = (0, 0);
                }
            }
            None => train.lost += report.packet.size,
        }
    }

    /// Handles the first packet of a newer frame, which ends the frame before.
    pub(super) fn on_frame(
        &mut self,
        report: &PacketReport,
        (frame, arrived_at): (FrameId, RemoteTime),
        end: &FrameEnd,
        parameters: &Parameters,
    ) {
        self.end_train(end, parameters);
        self.train = Some(Train::new(report, frame, arrived_at));
    }

    fn end_train(&mut self, end: &FrameEnd, parameters: &Parameters) {
        let Some(train) = self.train.take() else { return };
        self.expected_gaps = train.last.gaps;
        if self.is_frozen {
            return;
        }
        let dispersion = train.dispersion(parameters);
        let is_enough = dispersion.gaps >= parameters.min_samples;
        self.pooled = if is_enough { dispersion } else { self.pooled.and(dispersion) };
        if let Some(sample) = self.pooled.sample(parameters) {
            (self.pooled, self.unsampled_frames) = (Dispersion::default(), 0);
            self.on_sample(sample, end, parameters);
        } else {
            self.on_unsampled(end, parameters);
        }
    }

    /// Handles a sample. A lower bound raises the estimate by one step at most. A sample far below it counts at once if the next frame meets the
    /// queue that a slower path leaves. Any other is averaged.
    fn on_sample(&mut self, Sample { rate, is_lower_bound }: Sample, end: &FrameEnd, parameters: &Parameters) {
        let before = self.estimate.unwrap_or(rate);
        let decay = 1.0 - end.frame_interval.as_secs_f64() / parameters.memory.as_secs_f64();
        self.peak = Some(self.peak.map_or(rate, |peak| (peak * decay).max(rate)));
        self.estimate = Some(if is_lower_bound {
            rate.clamp(before, before * parameters.probe_gain)
        } else if end.met_queue && rate < before * parameters.noise_floor() {
            rate
        } else {
            before + (rate - before) * parameters.capacity_gain()
        });
    }

    /// Handles a frame that is too small for a sample. On a path without a queue the estimate grows nevertheless.
    fn on_unsampled(&mut self, end: &FrameEnd, parameters: &Parameters) {
        self.unsampled_frames += 1;
        if self.unsampled_frames >= parameters.unsampled_frames() && !end.met_queue {
            self.unsampled_frames = 0;
            self.scale(parameters.probe_gain, end.start);
        }
    }

    /// Handles the end of a report: a frame that has been arriving for a frame interval shows that the path has become slower.
    pub(super) fn look_early(&mut self, frame_interval: Span, parameters: &Parameters) {
        let is_long = |train: &Train| train.last.arrived_at - train.first.arrived_at >= frame_interval;
        let sample = self.train.filter(is_long).and_then(|train| train.dispersion(parameters).sample(parameters));
        let Some((sample, estimate)) = sample.zip(self.estimate) else { return };
        if !sample.is_lower_bound && !self.is_frozen && sample.rate < estimate * parameters.noise_floor() {
            self.estimate = Some(sample.rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bitrate, PacketSeq};

    use super::*;
    use crate::SentPacket;

    const PACKET: Bytes = Bytes::new(1_250);

    /// The estimate in Mb/s after frames whose first packets pass at 1 Gb/s and the others at `mbps`, one in `loses` of these lost.
    fn sampled(packets: u64, fast: u64, mbps: u64, loses: u64) -> f64 {
        let parameters = Parameters::default();
        let mut capacity = Capacity::default();
        let mut seq = 0;
        for frame in 0..20_u32 {
            let sent_at = Time::from_millis(u64::from(frame) * 50);
            let mut arrived_at = sent_at + Span::from_millis(10);
            for index in 0..packets {
                seq += 1;
                let rate = if index < fast { Bitrate::from_mbps(1_000) } else { Bitrate::from_mbps(mbps) };
                arrived_at += rate.time_to_send(PACKET);
                let lost = index >= fast && index > 0 && loses > 0 && index % loses == 0;
                let packet = SentPacket {
                    seq: PacketSeq(seq),
                    sent_at,
                    size: PACKET,
                    frame: Some(FrameId(frame)),
                    probe: None,
                    app_limited: false,
                };
                let report = PacketReport { packet, arrived_at: (!lost).then_some(arrived_at.for_peer()), ce: false };
                if capacity.is_newer(FrameId(frame)) {
                    let end = FrameEnd { met_queue: false, frame_interval: Span::from_millis(50), start: 1e6 };
                    capacity.on_frame(&report, (FrameId(frame), arrived_at.for_peer()), &end, &parameters);
                } else {
                    capacity.on_report(&report, &parameters);
                }
            }
        }
        capacity.estimate().expect("sampled") / 1e6
    }

    #[test]
    fn the_second_half_of_a_frame_is_what_lies_behind_a_token_bucket() {
        for (packets, fast, expected) in [(40, 0, 30.0), (40, 15, 30.0), (12, 0, 30.0)] {
            let found = sampled(packets, fast, 30, 0);
            assert!((found / expected - 1.0).abs() < 0.05, "{packets} packets, {fast} of them fast: {found}");
        }
    }

    #[test]
    fn few_lost_packets_have_passed_and_many_have_not() {
        let (few, many) = (sampled(40, 0, 30, 10), sampled(40, 0, 30, 2));
        assert!((few / 30.0 - 1.0).abs() < 0.05, "{few}");
        assert!((many / 15.0 - 1.0).abs() < 0.1, "{many}");
    }
}
