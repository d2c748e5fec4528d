//! The bottleneck's capacity, from how far apart a frame's packets arrive that left faster than the bottleneck takes them.

use nearlight_units::{Bytes, FrameId, RemoteTime, Span, Time};

use crate::PacketReport;

/// Number of packet gaps that form a sample. Guess: they average out what a single one is off. Smaller frames make one together.
const LEAST_GAPS: u32 = 4;
/// From so many gaps on, only the second half of a frame is the sample: a token bucket lets the beginning through at line rate. Guess: a
/// half is then still twice the smallest sample.
const HALVED_GAPS: u32 = 16;
/// A sample below this share of the estimate is a change of the path and counts at once. Guess: more than noise on a wire.
const DROP: f64 = 0.75;
/// Weight of any other sample. Guess: a mean of some frames.
const WEIGHT: f64 = 0.25;
/// Where packets arrive as they were sent the path is faster than they: the estimate grows by at most this with each frame.
/// Guess: it doubles in four frames.
const GROWTH: f64 = 1.25;
/// Arrivals spread this much more than departures are the bottleneck's work. Guess: ten packets' jitter of a packet time.
const SPREAD: f64 = 1.1;
/// What is left of the highest sample after a frame. Guess: it falls by a tenth in ten seconds.
const PEAK_DECAY: f64 = 0.9998;
/// After this many frames without a sample (frames of one packet give none), a path without a queue gets more. Guess: a quarter of a second
/// at 30 frames a second, so that the rate doubles within a second.
const UNSAMPLED: u32 = 8;
/// A rate is near the highest sample of late from this part of it on. Guess: more than frames vary.
const NEAR: f64 = 0.8;
/// Part of the gaps that are as short as that sample has them where others' packets lie between ours. Of 0.01, 0.25 and 0.4, over
/// `plans/vrcc-5g.toml`, 0.4 takes no path that varies for others; flows beside each other are noticed with all of them.
const INTERLEAVED: f64 = 0.4;
/// Lost packets count as having passed the bottleneck up to this share of a frame: more are what a full queue has dropped. Guess.
const PASSED_AND_LOST: f64 = 0.2;

/// How far apart packets were, of one frame or of several small ones.
#[derive(Clone, Copy, Debug, Default)]
struct Dispersion {
    gaps: u32,
    /// Behind the first packet.
    bytes: Bytes,
    lost: Bytes,
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

    fn sample(self) -> Option<Sample> {
        if self.gaps < LEAST_GAPS || self.arrived <= Span::ZERO {
            return None;
        }
        let whole = self.bytes + self.lost;
        let passed = if self.lost.get() as f64 <= PASSED_AND_LOST * whole.get() as f64 { whole } else { self.bytes };
        let rate = passed.over(self.arrived).as_bps() as f64;
        Some(Sample { rate, at_least: self.arrived <= self.sent.mul_f64(SPREAD) })
    }
}

/// Information about the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    rate: f64,
    /// The path may carry more: packets came as they were sent.
    at_least: bool,
}

/// The state of a train when one of its packets arrived.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent_at: Time,
    arrived_at: RemoteTime,
    gaps: u32,
    bytes: Bytes,
    lost: Bytes,
}

/// A frame whose packets arrive.
#[derive(Clone, Copy, Debug)]
struct Train {
    frame: FrameId,
    first: Mark,
    /// Where the second half begins.
    middle: Mark,
    last: Mark,
    /// Lost since the newest arrival.
    lost: Bytes,
    /// From one arrival to the next.
    least_gap: Option<Span>,
    /// From one arrival to the next in the second half: how many, and how many as short as the highest sample of late has them.
    late_gaps: u32,
    late_gaps_at_peak: u32,
}

impl Train {
    fn new(report: &PacketReport, frame: FrameId, arrived_at: RemoteTime) -> Self {
        let first = Mark { sent_at: report.packet.sent_at, arrived_at, gaps: 0, bytes: Bytes::ZERO, lost: Bytes::ZERO };
        Self {
            frame,
            first,
            middle: first,
            last: first,
            lost: Bytes::ZERO,
            least_gap: None,
            late_gaps: 0,
            late_gaps_at_peak: 0,
        }
    }

    fn on_arrival(&mut self, report: &PacketReport, arrived_at: RemoteTime, peak: f64) {
        let gap = (arrived_at - self.last.arrived_at).max(Span::ZERO);
        self.least_gap = Some(self.least_gap.map_or(gap, |least| least.min(gap)));
        self.late_gaps += 1;
        let rate = report.packet.size.over(gap).as_bps() as f64;
        self.late_gaps_at_peak += u32::from((peak * NEAR..peak / NEAR).contains(&rate));
        let last = &mut self.last;
        last.gaps += 1;
        last.bytes += report.packet.size;
        last.lost += std::mem::take(&mut self.lost);
        last.sent_at = report.packet.sent_at;
        last.arrived_at = last.arrived_at.max(arrived_at);
    }

    fn since(&self, mark: &Mark) -> Dispersion {
        Dispersion {
            gaps: self.last.gaps - mark.gaps,
            bytes: self.last.bytes.saturating_sub(mark.bytes),
            lost: self.last.lost.saturating_sub(mark.lost),
            sent: self.last.sent_at - mark.sent_at,
            arrived: self.last.arrived_at - mark.arrived_at,
        }
    }

    fn dispersion(&self) -> Dispersion {
        self.since(if self.last.gaps >= HALVED_GAPS { &self.middle } else { &self.first })
    }
}

/// Follows the capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    train: Option<Train>,
    /// Packets of the newest finished frame, of which the second half begins at a half of them.
    expected_gaps: u32,
    /// Of frames that were too small to be a sample.
    pooled: Dispersion,
    /// Frames since the last sample.
    unsampled: u32,
    /// In bit/s; none before the first sample.
    estimate: Option<f64>,
    /// The highest sample of late: others' packets between ours only make samples lower.
    peak: Option<f64>,
    /// Frames are no samples: they leave no faster than the path takes them.
    frozen: bool,
}

impl Capacity {
    /// In bit/s; none before the first sample.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.estimate
    }

    /// The highest sample of late, in bit/s.
    pub(super) fn peak(&self) -> Option<f64> {
        self.estimate.map(|estimate| self.peak.map_or(estimate, |peak| peak.max(estimate)))
    }

    /// Whether frames are no samples, because they leave no faster than the path takes them.
    pub(super) fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
        self.pooled = Dispersion::default();
    }

    /// Multiplies the estimate; `known` stands for it before the first sample.
    pub(super) fn scale(&mut self, factor: f64, known: f64) {
        self.estimate = Some(self.estimate.unwrap_or(known) * factor);
    }

    /// Whether the packet belongs to a frame newer than all before.
    pub(super) fn is_newer(&self, frame: FrameId) -> bool {
        self.train.is_none_or(|train| train.frame < frame)
    }

    /// When the newest frame's newest packet arrived.
    pub(super) fn newest_arrival(&self) -> Option<RemoteTime> {
        self.train.map(|train| train.last.arrived_at)
    }

    /// The shortest time between two arrivals of the newest frame: what the path needs for a packet, at most.
    pub(super) fn least_gap(&self) -> Option<Span> {
        self.train.and_then(|train| train.least_gap)
    }

    /// The estimate is well below the highest sample of late, and many packets of the newest frame's second half arrived about as fast as that
    /// sample: others' lay between the rest. On a path that has become slower, as behind a token bucket, they are evenly apart, and where
    /// service comes in batches closer.
    pub(super) fn is_interleaved(&self) -> bool {
        let Some(((estimate, peak), train)) = self.estimate.zip(self.peak()).zip(self.train) else { return false };
        let at_peak = f64::from(train.late_gaps_at_peak) >= (INTERLEAVED * f64::from(train.late_gaps)).max(1.0);
        estimate < peak * NEAR && at_peak
    }

    /// A packet of the newest frame, not its first; others say nothing.
    pub(super) fn on_report(&mut self, report: &PacketReport) {
        let (expected, peak) = (self.expected_gaps, self.peak().unwrap_or(0.0));
        let Some(train) = self.train.as_mut().filter(|train| report.packet.frame == Some(train.frame)) else { return };
        match report.arrived_at {
            Some(arrived_at) => {
                train.on_arrival(report, arrived_at, peak);
                if train.last.gaps <= expected / 2 {
                    train.middle = train.last;
                    (train.late_gaps, train.late_gaps_at_peak) = (0, 0);
                }
            }
            None => train.lost += report.packet.size,
        }
    }

    /// The first packet of a newer frame arrived; `has_queue` says whether it met a queue.
    pub(super) fn on_frame(
        &mut self,
        report: &PacketReport,
        (frame, arrived_at): (FrameId, RemoteTime),
        known: f64,
        has_queue: bool,
    ) {
        self.end_train(known, has_queue);
        self.train = Some(Train::new(report, frame, arrived_at));
    }

    /// The frame's packets have all been reported.
    fn end_train(&mut self, known: f64, has_queue: bool) {
        let Some(train) = self.train.take() else { return };
        self.expected_gaps = train.last.gaps;
        if self.frozen {
            return;
        }
        let dispersion = train.dispersion();
        let own = dispersion.gaps >= LEAST_GAPS;
        self.pooled = if own { dispersion } else { self.pooled.and(dispersion) };
        let Some(Sample { rate, at_least }) = self.pooled.sample() else {
            self.on_unsampled(known, has_queue);
            return;
        };
        (self.pooled, self.unsampled) = (Dispersion::default(), 0);
        let before = self.estimate.unwrap_or(rate);
        self.peak = Some(self.peak.map_or(rate, |peak| (peak * PEAK_DECAY).max(rate)));
        self.estimate = Some(match at_least {
            true => rate.clamp(before, before * GROWTH),
            false if rate < before * DROP => rate,
            false => before + (rate - before) * WEIGHT,
        });
    }

    fn on_unsampled(&mut self, known: f64, has_queue: bool) {
        self.unsampled += 1;
        if self.unsampled >= UNSAMPLED && !has_queue {
            self.unsampled = 0;
            self.scale(GROWTH, known);
        }
    }

    /// A frame that is still arriving may show already that the path has become slower.
    pub(super) fn look_early(&mut self) {
        let Some((sample, estimate)) = self.train.and_then(|train| train.dispersion().sample()).zip(self.estimate)
        else {
            return;
        };
        if !sample.at_least && !self.frozen && sample.rate < estimate * DROP {
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

    /// Frames whose first packets pass at 1 Gb/s and the others at `mbps`, one in `loses` of these lost.
    fn sampled(packets: u64, fast: u64, mbps: u64, loses: u64) -> f64 {
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
                    capacity.on_frame(&report, (FrameId(frame), arrived_at.for_peer()), 1e6, false);
                } else {
                    capacity.on_report(&report);
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
