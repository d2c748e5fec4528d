//! The congestion signal: queueing delay, warped when losses show that other flows fill the queue, plus penalties for loss and marks
//! (RFC 8698 sections 4.2 and 5.1).

use std::collections::VecDeque;

use nearlight_units::{Bitrate, FrameId, RemoteTime, Span, Time};

use super::loss_interval::LossIntervals;
use crate::arriving::ArrivingRate;
use crate::base_delay::BaseDelay;
use crate::{Feedback, PacketReport};

/// The time over which packets are observed (`LOGWIN`).
const WINDOW: Span = Span::from_millis(500);
/// Maximum number of feedback messages remembered. Guess: one each 5 ms, with a margin.
const MAX_MESSAGES: usize = 128;
/// The base delay is forgotten after this time ("tens of minutes").
const BASE_MEMORY: Span = Span::from_secs(600);
/// Delay is the lowest of this many packets, or of a whole frame if that is more (section 5.1.1), up to [`MAX_FILTER_PACKETS`].
/// Guess for the latter: three times a frame at 100 Mb/s and 60 frames a second.
const FILTER_PACKETS: u64 = 15;
const MAX_FILTER_PACKETS: u64 = 512;
/// Delay above which it is warped (`QTH`), and the exponent of warping (`LAMBDA`).
const WARP_THRESHOLD: Span = Span::from_millis(50);
const WARP_EXPONENT: f64 = 0.5;
/// Warping ends when this many mean loss intervals have passed without loss (`MULTILOSS`), and fades out over one more.
const WARP_LOSS_INTERVALS: f64 = 7.0;
/// No queue is building up while delay stays below this (`QEPS`).
const MAX_CALM_DELAY: Span = Span::from_millis(10);
/// Penalties (`DMARK`, `DLOSS`) at the reference ratios (`PMRREF`, `PLRREF`). They grow with the square of the ratio.
const MARK_PENALTY: Span = Span::from_millis(2);
const LOSS_PENALTY: Span = Span::from_millis(10);
const REFERENCE_RATIO: f64 = 0.01;
/// Weight of a new ratio (`ALPHA`).
const RATIO_WEIGHT: f64 = 0.1;
/// The signal's upper bound (ns3-rmcat; the RFC has none, but the square of 40 % loss is 16 s).
const MAX_SIGNAL: Span = Span::from_millis(500);

/// The signal and its components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    pub delay: Span,
    pub loss: Span,
    pub marks: Span,
    /// Whether there was neither loss nor a queue within the window, so that the path may carry more.
    pub calm: bool,
}

impl Congestion {
    /// The aggregate (`x_curr`).
    #[must_use]
    pub fn total(&self) -> Span {
        (self.delay + self.loss + self.marks).min(MAX_SIGNAL)
    }
}

/// The information of one feedback message.
#[derive(Clone, Copy, Debug)]
struct Message {
    at: Time,
    arrived: u32,
    lost: u32,
    marked: u32,
    highest_delay: Span,
}

/// Observes the path.
#[derive(Clone, Debug)]
pub struct Signal {
    base: BaseDelay,
    filter: SlidingMinimum,
    frame: Option<FrameId>,
    packets_of_frame: u64,
    packets_of_last_frame: u64,
    queue_delay: Span,
    messages: VecDeque<Message>,
    losses: LossIntervals,
    loss_ratio: f64,
    mark_ratio: f64,
    arriving: ArrivingRate,
}

impl Default for Signal {
    fn default() -> Self {
        Self {
            base: BaseDelay::new(BASE_MEMORY),
            filter: SlidingMinimum::default(),
            frame: None,
            packets_of_frame: 0,
            packets_of_last_frame: 0,
            queue_delay: Span::ZERO,
            messages: VecDeque::with_capacity(MAX_MESSAGES + 1),
            losses: LossIntervals::default(),
            loss_ratio: 0.0,
            mark_ratio: 0.0,
            arriving: ArrivingRate::new(WINDOW),
        }
    }
}

impl Signal {
    pub fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>, round_trip: Span) {
        let mut message = Message { at: now, arrived: 0, lost: 0, marked: 0, highest_delay: Span::ZERO };
        for report in feedback.packets {
            self.losses.on_packet(report.packet.sent_at, report.arrived_at.is_none(), round_trip);
            match report.arrived_at {
                Some(arrived_at) => {
                    message.arrived += 1;
                    message.marked += u32::from(report.ce);
                    let delay = self.on_arrival(now, report, arrived_at);
                    message.highest_delay = message.highest_delay.max(delay);
                }
                None => message.lost += 1,
            }
        }
        self.messages.push_back(message);
        let old = |message: &Message| now.saturating_since(message.at) > WINDOW;
        while self.messages.len() > MAX_MESSAGES || self.messages.front().is_some_and(old) {
            self.messages.pop_front();
        }
    }

    /// Returns the current signal. Call it once per update: each call blends in the newest ratios.
    pub fn update(&mut self) -> Congestion {
        let (mut arrived, mut lost, mut marked, mut highest) = (0.0, 0.0, 0.0, Span::ZERO);
        for message in &self.messages {
            arrived += f64::from(message.arrived);
            lost += f64::from(message.lost);
            marked += f64::from(message.marked);
            highest = highest.max(message.highest_delay);
        }
        let blend = |ratio: f64, part: f64, whole: f64| {
            let newest = if whole > 0.0 { part / whole } else { 0.0 };
            RATIO_WEIGHT * newest + (1.0 - RATIO_WEIGHT) * ratio
        };
        self.loss_ratio = blend(self.loss_ratio, lost, arrived + lost);
        self.mark_ratio = blend(self.mark_ratio, marked, arrived);
        Congestion {
            delay: self.warped_delay(),
            loss: penalty(LOSS_PENALTY, self.loss_ratio),
            marks: penalty(MARK_PENALTY, self.mark_ratio),
            calm: lost == 0.0 && highest < MAX_CALM_DELAY,
        }
    }

    /// The arriving rate (`r_recv`).
    #[must_use]
    pub fn arriving(&self) -> Option<Bitrate> {
        self.arriving.rate()
    }

    /// Number of records in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.messages.len() + self.filter.values.len() + self.losses.held()
    }

    /// Records an arrival. Returns the filtered queueing delay.
    fn on_arrival(&mut self, now: Time, report: &PacketReport, arrived_at: RemoteTime) -> Span {
        let packet = &report.packet;
        if packet.frame != self.frame {
            self.frame = packet.frame;
            self.packets_of_last_frame = std::mem::take(&mut self.packets_of_frame);
        }
        self.packets_of_frame += 1;
        self.arriving.on_packet(arrived_at, packet.size);
        let queueing = self.base.on_delay(now, arrived_at.ahead_of(packet.sent_at));
        let window = self.packets_of_last_frame.clamp(FILTER_PACKETS, MAX_FILTER_PACKETS);
        self.queue_delay = self.filter.on_value(queueing, window);
        self.queue_delay
    }

    /// The delay that counts (`d_tilde`), warped while losses are recent.
    fn warped_delay(&self) -> Span {
        let Some((since, mean)) = self.losses.since().zip(self.losses.mean()) else { return self.queue_delay };
        let warped = warped(self.queue_delay);
        let over = since as f64 - WARP_LOSS_INTERVALS * mean;
        if over <= 0.0 {
            return warped;
        }
        let straight = (over / mean.max(1.0)).min(1.0);
        warped + (self.queue_delay - warped).mul_f64(straight)
    }
}

fn warped(delay: Span) -> Span {
    if delay < WARP_THRESHOLD {
        return delay;
    }
    let excess = (delay - WARP_THRESHOLD).as_secs_f64() / WARP_THRESHOLD.as_secs_f64();
    WARP_THRESHOLD.mul_f64((-WARP_EXPONENT * excess).exp())
}

fn penalty(at_reference: Span, ratio: f64) -> Span {
    let share = ratio / REFERENCE_RATIO;
    at_reference.mul_f64(share * share)
}

/// A sliding minimum.
#[derive(Clone, Debug, Default)]
struct SlidingMinimum {
    /// Values that are lower than all after them, with their numbers.
    values: VecDeque<(u64, Span)>,
    count: u64,
}

impl SlidingMinimum {
    /// Adds a value. Returns the lowest of it and its predecessors, `window` values in all.
    fn on_value(&mut self, value: Span, window: u64) -> Span {
        while self.values.back().is_some_and(|(_, last)| *last >= value) {
            self.values.pop_back();
        }
        self.values.push_back((self.count, value));
        self.count += 1;
        while self.values.front().is_some_and(|(number, _)| number + window < self.count) {
            self.values.pop_front();
        }
        self.values.front().map_or(value, |(_, lowest)| *lowest)
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{Bytes, PacketSeq};

    use super::*;
    use crate::SentPacket;

    /// Applies one packet each millisecond, five in a message; delay in milliseconds by packet, None for a loss, marked when even.
    fn feed(signal: &mut Signal, from: u32, delays: &[Option<i64>]) {
        let reports: Vec<PacketReport> = delays
            .iter()
            .zip(from..)
            .map(|(delay, number)| {
                let sent_at = Time::from_secs(1_000) + Span::from_millis(i64::from(number));
                let packet = SentPacket {
                    seq: PacketSeq(number),
                    sent_at,
                    size: Bytes::new(1_250),
                    frame: Some(FrameId(number / 5)),
                    probe: None,
                    app_limited: false,
                };
                let arrived_at = delay.map(|delay| (sent_at + Span::from_millis(delay)).for_peer());
                PacketReport { packet, arrived_at, ce: delay.is_some_and(|delay| delay % 2 == 1) }
            })
            .collect();
        for message in reports.chunks(5) {
            let now = message[message.len() - 1].packet.sent_at + Span::from_millis(50);
            signal.on_feedback(now, &Feedback { packets: message, round_trip: None }, Span::from_millis(20));
        }
    }

    #[test]
    fn delay_is_bent_above_50_ms_by_the_exponential() {
        let millis = Span::from_millis;
        for (delay, expected) in
            [(10, 10.0), (49, 49.0), (50, 50.0), (100, 50.0 * (-0.5_f64).exp()), (200, 50.0 * (-1.5_f64).exp())]
        {
            let found = warped(millis(delay)).as_millis_f64();
            assert!((found - expected).abs() < 1e-5, "{delay}: {found}");
        }
    }

    #[test]
    fn delay_is_the_lowest_of_15_packets_or_a_frame_above_its_base() {
        let mut signal = Signal::default();
        feed(&mut signal, 0, &[Some(10); 20]);
        feed(&mut signal, 20, &[Some(40); 14]);
        assert_eq!(signal.update().delay, Span::ZERO, "15 packets include one of 10 ms");
        feed(&mut signal, 34, &[Some(40); 1]);
        assert_eq!(signal.update().delay, Span::from_millis(30));
        assert!(!signal.update().calm);
    }

    #[test]
    fn calm_needs_half_a_second_without_loss_and_without_a_queue() {
        let mut signal = Signal::default();
        feed(&mut signal, 0, &[Some(10); 100]);
        assert!(signal.update().calm);
        feed(&mut signal, 100, &[None]);
        feed(&mut signal, 101, &[Some(10); 490]);
        assert!(!signal.update().calm);
        feed(&mut signal, 591, &[Some(10); 20]);
        assert!(signal.update().calm);
    }

    #[test]
    fn bending_ends_after_seven_mean_loss_intervals_and_fades_over_one() {
        let mut signal = Signal::default();
        feed(&mut signal, 0, &[Some(0); 50]);
        // Losses each 50 packets, so a mean of 50.
        for stretch in 1..=10 {
            let mut delays = [Some(100); 50];
            delays[0] = None;
            feed(&mut signal, stretch * 50, &delays);
        }
        let warped = 50.0 * (-0.5_f64).exp();
        for (packets, expected) in
            [(0, warped), (301, warped), (25, f64::midpoint(warped, 100.0)), (25, 100.0), (500, 100.0)]
        {
            let number = signal.losses.since().expect("losses") as u32 + 501;
            feed(&mut signal, number, &vec![Some(100); packets]);
            let found = signal.warped_delay().as_millis_f64();
            assert!((found - expected).abs() < 1e-5, "after {packets} more packets: {found}, not {expected}");
        }
    }

    #[test]
    fn penalties_grow_with_the_square_of_smoothed_ratios() {
        assert_eq!(penalty(LOSS_PENALTY, 0.01), Span::from_millis(10));
        assert_eq!(penalty(LOSS_PENALTY, 0.02), Span::from_millis(40));
        assert_eq!(penalty(MARK_PENALTY, 0.02), Span::from_millis(8));
        let mut signal = Signal::default();
        let mut delays = [Some(10); 100];
        delays[0] = None;
        delays[99] = Some(11);
        feed(&mut signal, 0, &delays);
        // 1 % lost, weighed with 0.1: 0.1 %, a hundredth of 10 ms; 1 in 99 marked.
        let seen = signal.update();
        assert_eq!(seen.loss, Span::from_micros(100));
        assert!((seen.marks.as_millis_f64() - 2.0 * (100.0_f64 / 990.0).powi(2)).abs() < 1e-6, "{seen:?}");
        assert_eq!(Congestion { loss: Span::from_secs(9), ..seen }.total(), MAX_SIGNAL);
    }
}
