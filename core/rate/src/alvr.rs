//! ALVR's adaptive bitrate: a share of the rate at which whole frames are delivered, as in the paper of MM '25 and as in ALVR today.
//!
//! Once a second the rate becomes `m` times the mean of frame size over network latency. Queues and losses are ignored. With one
//! burst per frame the fixed point is `C (m - F b)`, where `C` is the capacity, `F` the frame rate, and `b` the part of the latency that
//! is not the frame's own serialization time. With `b` = 13 ms at 72 frames a second, the fixed point is zero.
//!
//! Sources: "Congestion Control for VR Cloud Gaming" (MM '25) section 3.3, with ahmad-hl/GCC_NADA_ALVR, branch ALVR; and
//! alvr-org/ALVR of August 2026, `server_core/src/bitrate.rs`.
//!
//! # Departures
//! * The start is the user's, for the first second; ALVR takes its first means, 28.5 and 76 Mb/s, at once.
//! * Network latency is that of the frame's packets, from the first sent to the last arrived, plus the delay of the feedback path, which
//!   stands for that of the pose. ALVR subtracts all other stages from the latency of the whole pipeline. Sizes are those
//!   on the wire. Frames that lose packets are not samples, unless the session repairs them.
//! * The decoder's limit is a rate in both; today's ALVR compares bits per second with bytes per frame.
//! * The encoder's limit takes the measured frame interval for the nominal one. The limits of network latency and of rates by hand, which
//!   are off by default, are omitted; so is the frame rate, which is the session's.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::frames::{FrameSample, Frames};
use crate::{Bounds, ControllerWake, Decision, Feedback, FrameOutcome, Limit, RateController, SentFrame, SentPacket};

/// Frames in the means (ALVR `max_history_size`).
const WINDOW: usize = 256;
/// The time between updates (ALVR `UPDATE_INTERVAL`).
const UPDATE_INTERVAL: Span = Span::from_secs(1);
/// The share of the throughput that is used (ALVR `saturation_multiplier`; `m` above).
const THROUGHPUT_SHARE: f64 = 0.95;
/// The share of a frame interval that the encoder may take (ALVR `encoder_latency_limiter`).
const MAX_ENCODER_SHARE: f64 = 0.9;
/// A decoder that takes longer than [`SLOW_DECODE_TIME`] for [`SLOW_DECODE_FRAMES`] frames in a row lowers the limit by
/// [`DECODER_LIMIT_FACTOR`] (ALVR `decoder_latency_limiter`).
const SLOW_DECODE_TIME: Span = Span::from_millis(30);
const SLOW_DECODE_FRAMES: u32 = 90;
const DECODER_LIMIT_FACTOR: f64 = 0.99;
/// The means restart, but for the newest samples, when the interval changes by this factor (ALVR `framerate_reset_threshold_multiplier`,
/// `retain`).
const INTERVAL_RESET_FACTOR: f64 = 2.0;
const RETAINED_SAMPLES: usize = 5;
/// Initial values of the means, before the first sample (ALVR).
const INITIAL_INTERVAL: Span = Span::from_millis(16);
const INITIAL_ENCODE_TIME: Span = Span::from_millis(5);
const INITIAL_LATENCY: Span = Span::from_millis(5);

/// How the throughput is averaged over frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Averaging {
    /// The mean of each frame's size over latency: short frames count as much as long ones.
    OfRatios,
    /// Mean size over mean latency.
    OfTotals,
}

/// The parameters in which presets differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlvrOptions {
    pub name: &'static str,
    pub averaging: Averaging,
    /// Size of the frame that initialises the means, with a latency of 5 ms.
    pub first_size: Bytes,
}

impl AlvrOptions {
    /// The parameters of the paper. The first mean is 30 Mb/s.
    pub const MM25: Self =
        Self { name: "alvr-abr-mm25", averaging: Averaging::OfRatios, first_size: Bytes::new(18_750) };

    /// The parameters of ALVR today.
    pub const TODAY: Self =
        Self { name: "alvr-abr-2026", averaging: Averaging::OfTotals, first_size: Bytes::new(50_000) };

    /// The rate before the first sample: 0.95 of [`AlvrOptions::first_size`] over 5 ms.
    #[must_use]
    pub const fn first_rate(&self) -> Bitrate {
        Bitrate::from_bps(self.first_size.bits() * 190)
    }
}

/// The mean of the newest values, exact.
#[derive(Clone, Debug)]
struct SlidingMean {
    values: VecDeque<u64>,
    sum: u128,
}

impl SlidingMean {
    fn new(first: u64) -> Self {
        let mut values = VecDeque::with_capacity(WINDOW);
        values.push_back(first);
        Self { values, sum: u128::from(first) }
    }

    fn on_value(&mut self, value: u64) {
        if self.values.len() == WINDOW {
            self.forget(1);
        }
        self.values.push_back(value);
        self.sum += u128::from(value);
    }

    fn retain(&mut self, newest: usize) {
        self.forget(self.values.len().saturating_sub(newest));
    }

    fn forget(&mut self, oldest: usize) {
        for value in self.values.drain(..oldest) {
            self.sum -= u128::from(value);
        }
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.values.len().max(1) as f64
    }
}

fn nanos(span: Span) -> u64 {
    span.as_nanos().max(0) as u64
}

/// The controller.
#[derive(Debug)]
pub struct Alvr {
    options: AlvrOptions,
    bounds: Bounds,
    frames: Frames,
    /// Means of frame sizes in bytes, times in nanoseconds, and rates in bits per second.
    sizes: SlidingMean,
    latencies: SlidingMean,
    ratios: SlidingMean,
    encodes: SlidingMean,
    intervals: SlidingMean,
    frame_at: Option<Time>,
    /// Delay of the feedback path plus the clocks' offset: round trip minus one-way delay.
    feedback_delay: Option<Span>,
    slow_decodes: u32,
    decoder_limit: Option<Bitrate>,
    updated_at: Option<Time>,
    update_wanted: bool,
    /// All limits of the last update, the lowest first.
    limits: Vec<(Limit, Bitrate)>,
}

impl Alvr {
    #[must_use]
    pub fn new(bounds: Bounds, options: AlvrOptions) -> Self {
        let bounds = bounds.in_order();
        Self {
            options,
            bounds,
            frames: Frames::default(),
            sizes: SlidingMean::new(options.first_size.get()),
            latencies: SlidingMean::new(nanos(INITIAL_LATENCY)),
            ratios: SlidingMean::new(options.first_size.over(INITIAL_LATENCY).as_bps()),
            encodes: SlidingMean::new(nanos(INITIAL_ENCODE_TIME)),
            intervals: SlidingMean::new(nanos(INITIAL_INTERVAL)),
            frame_at: None,
            feedback_delay: None,
            slow_decodes: 0,
            decoder_limit: None,
            updated_at: None,
            update_wanted: false,
            limits: vec![(Limit::Throughput, bounds.start)],
        }
    }

    fn on_latency(&mut self, size: Bytes, latency: Span) {
        if latency <= Span::ZERO {
            return;
        }
        self.sizes.on_value(size.get());
        self.latencies.on_value(nanos(latency));
        self.ratios.on_value(size.over(latency).as_bps());
    }

    fn on_frame(&mut self, sample: &FrameSample) {
        if let Some(feedback_delay) = self.feedback_delay {
            self.on_latency(sample.size, sample.arrived_at.ahead_of(sample.sent_at) + feedback_delay);
        }
    }

    /// The mean rate at which frames were delivered.
    fn throughput(&self) -> Bitrate {
        let bits_per_second = match self.options.averaging {
            Averaging::OfRatios => self.ratios.mean(),
            Averaging::OfTotals => self.sizes.mean() * 8e9 / self.latencies.mean().max(1.0),
        };
        Bitrate::from_bps(1).mul_f64(bits_per_second)
    }

    fn update(&mut self, now: Time) {
        let since = *self.updated_at.get_or_insert(now);
        if !self.update_wanted && now.saturating_since(since) < UPDATE_INTERVAL {
            return;
        }
        self.updated_at = Some(now);
        self.update_wanted = false;
        let scaled = self.throughput().mul_f64(THROUGHPUT_SHARE);
        self.limits.clear();
        self.limits.push((Limit::Throughput, scaled));
        self.limits.extend(self.decoder_limit.map(|limit| (Limit::Decoder, limit)));
        let allowed = self.decoder_limit.map_or(scaled, |limit| limit.min(scaled));
        let saturation = self.encodes.mean() / self.intervals.mean().max(1.0);
        if saturation > MAX_ENCODER_SHARE {
            self.limits.push((Limit::Encoder, allowed.mul_f64(MAX_ENCODER_SHARE / saturation)));
        }
        self.limits.sort_by_key(|(_, rate)| *rate);
    }
}

impl RateController for Alvr {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.frames.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        let newest = feedback.packets.iter().rev().find_map(|report| Some((report.packet.sent_at, report.arrived_at?)));
        if let (Some(round_trip), Some((sent_at, arrived_at))) = (feedback.round_trip, newest) {
            self.feedback_delay = Some(round_trip - arrived_at.ahead_of(sent_at));
        }
        feedback.packets.iter().for_each(|report| self.frames.on_report(report));
        while let Some(sample) = self.frames.poll() {
            self.on_frame(&sample);
        }
        self.update(now);
    }

    fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        self.encodes.on_value(nanos(frame.encode));
        if let Some(before) = self.frame_at.replace(now) {
            let interval = nanos(now.saturating_since(before));
            let ratio = interval as f64 / self.intervals.mean().max(1.0);
            self.intervals.on_value(interval);
            if !(1.0 / INTERVAL_RESET_FACTOR..=INTERVAL_RESET_FACTOR).contains(&ratio) {
                self.intervals.retain(RETAINED_SAMPLES);
                self.update_wanted = true;
            }
        }
        self.update(now);
    }

    fn on_frame_outcome(&mut self, _now: Time, outcome: &FrameOutcome) {
        self.slow_decodes = if outcome.decode > SLOW_DECODE_TIME { self.slow_decodes + 1 } else { 0 };
        if self.slow_decodes == SLOW_DECODE_FRAMES {
            self.slow_decodes = 0;
            let throughput = self.throughput();
            let limit = self.decoder_limit.map_or(throughput, |limit| limit.min(throughput));
            self.decoder_limit = Some(limit.mul_f64(DECODER_LIMIT_FACTOR));
            self.update_wanted = true;
        }
    }

    fn on_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        None
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        Decision::unpaced(&self.bounds, &self.limits)
    }

    fn held(&self) -> usize {
        let means = [&self.sizes, &self.latencies, &self.ratios, &self.encodes, &self.intervals];
        self.frames.held() + self.limits.len() + means.iter().map(|mean| mean.values.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::FrameId;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_mbps(1), start: Bitrate::from_mbps(8), maximum: Bitrate::from_mbps(100) };
    /// 72 frames a second.
    const FRAME: Span = Span::from_nanos(13_888_889);

    fn sent(alvr: &mut Alvr, now: Time, encode: Span) {
        alvr.on_frame_sent(now, &SentFrame { frame: FrameId(0), size: Bytes::ZERO, key: false, encode });
    }

    fn outcome(decode: Span) -> FrameOutcome {
        FrameOutcome {
            frame: FrameId(0),
            network: Span::ZERO,
            reassemble: Span::ZERO,
            decode,
            motion_to_photon: None,
            late: false,
        }
    }

    /// Sends frames in one burst through a queue in front of 35 Mb/s, with this other latency. Returns the last minute's mean rate.
    fn closed_loop(options: AlvrOptions, other: Span) -> f64 {
        let capacity = Bitrate::from_mbps(35);
        let mut alvr = Alvr::new(BOUNDS, options);
        let (mut free_at, mut sum) = (Time::ZERO, 0.0);
        let frames = 72 * 180;
        for number in 0..frames {
            let now = Time::ZERO + FRAME * number;
            let rate = alvr.decision().target;
            let size = rate.bytes_in(FRAME);
            free_at = free_at.max(now) + capacity.time_to_send(size);
            alvr.on_latency(size, (free_at - now) + other);
            sent(&mut alvr, now, Span::from_millis(4));
            if number >= frames - 72 * 60 {
                sum += rate.as_mbps_f64() / (72.0 * 60.0);
            }
        }
        sum
    }

    #[test]
    fn the_fixed_point_is_capacity_times_share_minus_frames_times_other_latency() {
        for options in [AlvrOptions::MM25, AlvrOptions::TODAY] {
            for millis in [2, 4, 8] {
                let expected = 35.0 * (0.95 - 0.072 * millis as f64);
                let found = closed_loop(options, Span::from_millis(millis));
                assert!(
                    (found / expected - 1.0).abs() < 0.02,
                    "{}, {millis} ms: {found}, not {expected}",
                    options.name
                );
            }
            let found = closed_loop(options, Span::from_millis(14));
            assert!(found < 1.2, "nothing is left with 14 ms: {found}");
        }
    }

    #[test]
    fn ratios_and_totals_differ_where_frames_do() {
        // 40 kB in 6.4 ms are 50 Mb/s, 8 kB in 16 ms are 4 Mb/s: (50 + 4) / 2, and 48 kB in 22.4 ms.
        for (options, expected) in [(AlvrOptions::MM25, 27.0), (AlvrOptions::TODAY, 384.0 / 22.4)] {
            let mut alvr = Alvr::new(BOUNDS, options);
            for _ in 0..WINDOW / 2 {
                alvr.on_latency(Bytes::new(40_000), Span::from_micros(6_400));
                alvr.on_latency(Bytes::new(8_000), Span::from_millis(16));
            }
            assert!((alvr.throughput().as_mbps_f64() - expected).abs() < 1e-3, "{}", alvr.throughput());
        }
    }

    #[test]
    fn updates_come_once_a_second_and_the_users_start_holds_until_the_first() {
        let mut alvr = Alvr::new(BOUNDS, AlvrOptions::TODAY);
        for number in 0..72 {
            sent(&mut alvr, Time::ZERO + FRAME * number, Span::from_millis(4));
            assert_eq!(alvr.decision().target, BOUNDS.start);
        }
        sent(&mut alvr, Time::ZERO + FRAME * 72, Span::from_millis(4));
        assert_eq!(alvr.decision().target, Bitrate::from_mbps(76), "50 kB in 5 ms, times 0.95");
        assert_eq!(AlvrOptions::TODAY.first_rate(), Bitrate::from_mbps(76));
        assert_eq!(AlvrOptions::MM25.first_rate(), Bitrate::from_kbps(28_500));
    }

    #[test]
    fn a_slow_decoder_and_a_slow_encoder_lower_the_rate() {
        let mut alvr = Alvr::new(BOUNDS, AlvrOptions::TODAY);
        sent(&mut alvr, Time::ZERO, Span::from_millis(4));
        (0..89).for_each(|_| alvr.on_frame_outcome(Time::ZERO, &outcome(Span::from_millis(31))));
        alvr.on_frame_outcome(Time::ZERO, &outcome(Span::from_millis(30)));
        (0..90).for_each(|_| alvr.on_frame_outcome(Time::ZERO, &outcome(Span::from_millis(31))));
        alvr.update(Time::from_millis(1));
        assert_eq!(alvr.decoder_limit, Some(Bitrate::from_kbps(79_200)), "99 % of 80 Mb/s: still above 95 % of it");
        assert_eq!(alvr.decision().binding, Limit::Throughput);
        (0..450).for_each(|_| alvr.on_frame_outcome(Time::ZERO, &outcome(Span::from_millis(31))));
        alvr.update(Time::from_millis(2));
        let expected = 80e6 * 0.99_f64.powi(6);
        assert_eq!(alvr.decision().binding, Limit::Decoder);
        assert!((alvr.decision().target.as_bps() as f64 - expected).abs() < 10.0, "{}", alvr.decision().target);

        let mut alvr = Alvr::new(BOUNDS, AlvrOptions::TODAY);
        for number in 0..600 {
            sent(&mut alvr, Time::ZERO + FRAME * number, FRAME);
        }
        // The encoder takes the whole interval: 0.9 of 76 Mb/s.
        assert_eq!(alvr.decision().binding, Limit::Encoder);
        assert!((alvr.decision().target.as_mbps_f64() - 68.4).abs() < 0.1, "{}", alvr.decision().target);
    }
}
