//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00): sends at the measured delivery rate of the path and keeps
//! about two bandwidth-delay products in flight. It does not react to loss.
//!
//! # Departures
//! From the draft, towards Linux, whose BBR is the one deployed:
//! * pacing stays 1 % below the estimate, so that a queue built by noise drains;
//! * the phase of gain 0.75 ends as soon as one bandwidth-delay product is in flight.
//!
//! From both:
//! * there is no long-term model of policers and no allowance for aggregated acknowledgements (Linux only);
//! * packets sent while the round trip is probed count as limited by the application within the law; in the draft the sender
//!   marks them.

use nearlight_units::{Bitrate, Bytes, Span, Time};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::filter::MaxFilter;
use super::rounds::Rounds;
use super::{AckSample, Cause, Congestion, CongestionLaw, INITIAL_WINDOW};

/// Doubles the delivery rate each round (draft section 4.1.1: 2 / ln 2).
const STARTUP_GAIN: f64 = 2.885;
/// Drains in one round the queue that startup has built (draft section 4.1.1).
const DRAIN_GAIN: f64 = 1.0 / STARTUP_GAIN;
/// Bandwidth-delay products in flight while probing bandwidth: delayed acknowledgements must not stall the sender (section 4.2.3.2).
const WINDOW_GAIN: f64 = 2.0;
/// Gains of the eight phases (section 4.3.4.2).
const CYCLE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The path is full when the bandwidth has grown by less than this factor (section 4.3.2.2, `BBRStartupFullBwThreshold`)
const FULL_GROWTH: f64 = 1.25;
/// in this many rounds in a row.
const FULL_ROUNDS: u32 = 3;
/// Rounds over which the maximum delivery rate is taken (`BtlBwFilterLen`).
const BANDWIDTH_ROUNDS: usize = 10;
/// Time over which the minimum round trip is taken (`RTpropFilterLen`).
const MIN_ROUND_TRIP_WINDOW: Span = Span::from_secs(10);
/// Length of a probe of the path's round trip, during which little is in flight (`ProbeRTTDuration`).
const PROBE_LENGTH: Span = Span::from_millis(200);
/// Packets in flight during that probe, and the lowest window at any time (`BBRMinPipeCwnd`).
const MIN_PACKETS: u64 = 4;
/// Ratio of the pacing rate to the estimate (Linux, `bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
/// The round trip assumed for pacing before one was measured (section 4.2.1).
const INITIAL_ROUND_TRIP: Span = Span::from_millis(1);

/// The state of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BbrMode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRoundTrip,
}

/// Detection of a full path.
#[derive(Clone, Copy, Debug, Default)]
struct Fullness {
    reached: bool,
    bandwidth: Bitrate, // full_bw
    rounds: u32,
}

/// A place in [`CYCLE_GAINS`].
#[derive(Clone, Copy, Debug)]
struct Phase {
    index: usize,
    began: Time,
}

/// How the window behaves while losses are repaired (section 4.2.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// In the first round only the packets that arrive are replaced (`packet_conservation`).
    Conserving,
    Growing,
    /// No loss is being repaired.
    Over,
}

/// A probe of the round trip in progress.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTripProbe {
    /// When it ends. Known once the flight is small enough.
    ends: Option<Time>,
    round_passed: bool,
}

/// Bottleneck bandwidth and round-trip propagation time.
#[derive(Debug)]
pub struct BbrV1 {
    packet: Bytes,
    random: Pcg32,
    mode: BbrMode,
    bandwidth: MaxFilter<Bitrate, BANDWIDTH_ROUNDS>, // BtlBw
    round_trip: Option<Span>,                        // RTprop
    round_trip_seen: Time,                           // rtprop_stamp
    rounds: Rounds,
    round_began: bool,
    fullness: Fullness,
    phase: Phase,
    probe: RoundTripProbe,
    /// Packets sent before this many bytes were delivered count as limited by the application.
    limited_until: Bytes,
    restarted: bool, // idle_restart
    repair: Repair,
    window: u64,      // cwnd
    kept_window: u64, // prior_cwnd
    pacing: Bitrate,
    pacing_known: bool,
}

impl BbrV1 {
    /// Makes a new law. The seed decides in which phase the probing of bandwidth begins, so that flows do not probe in step.
    #[must_use]
    pub fn new(packet: Bytes, seed: u64) -> Self {
        let packet = packet.max(Bytes::new(1));
        let window = INITIAL_WINDOW * packet.get();
        Self {
            packet,
            random: Pcg32::seed_from_u64(seed),
            mode: BbrMode::Startup,
            bandwidth: MaxFilter::new(),
            round_trip: None,
            round_trip_seen: Time::ZERO,
            rounds: Rounds::default(),
            round_began: false,
            fullness: Fullness::default(),
            phase: Phase { index: 0, began: Time::ZERO },
            probe: RoundTripProbe::default(),
            limited_until: Bytes::ZERO,
            restarted: false,
            repair: Repair::Over,
            window,
            kept_window: 0,
            pacing: Bytes::new(window).over(INITIAL_ROUND_TRIP).mul_f64(STARTUP_GAIN),
            pacing_known: false,
        }
    }

    #[must_use]
    pub fn mode(&self) -> BbrMode {
        self.mode
    }

    /// The bottleneck's bandwidth as far as known.
    #[must_use]
    pub fn bandwidth(&self) -> Bitrate {
        self.bandwidth.maximum()
    }

    /// The path's own round trip as far as known.
    #[must_use]
    pub fn lowest_round_trip(&self) -> Option<Span> {
        self.round_trip
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            BbrMode::Startup => STARTUP_GAIN,
            BbrMode::Drain => DRAIN_GAIN,
            BbrMode::ProbeBandwidth => CYCLE_GAINS[self.phase.index],
            BbrMode::ProbeRoundTrip => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            BbrMode::Startup | BbrMode::Drain => STARTUP_GAIN,
            BbrMode::ProbeBandwidth => WINDOW_GAIN,
            BbrMode::ProbeRoundTrip => 1.0,
        }
    }

    /// The flight for `gain` bandwidth-delay products, with room for bursts (section 4.2.3.2).
    fn flight(&self, gain: f64) -> u64 {
        let Some(round_trip) = self.round_trip else { return INITIAL_WINDOW * self.packet.get() };
        let product = self.bandwidth.maximum().bytes_in(round_trip).get() as f64;
        let bursts = 3 * self.burst().get();
        ((product * gain) as u64).saturating_add(bursts)
    }

    fn update_bandwidth(&mut self, sample: &AckSample) {
        self.round_began = self.rounds.on_ack(sample.delivered, sample.delivered_when_sent);
        if self.round_began && self.repair == Repair::Conserving {
            self.repair = Repair::Growing;
        }
        let Some(delivery) = sample.delivery else { return };
        if !self.is_limited(sample) || delivery.rate >= self.bandwidth.maximum() {
            self.bandwidth.on_value(self.rounds.count(), delivery.rate);
        }
    }

    fn is_limited(&self, sample: &AckSample) -> bool {
        sample.delivery.is_some_and(|delivery| delivery.app_limited) || sample.delivered_when_sent < self.limited_until
    }

    fn update_phase(&mut self, now: Time, sample: &AckSample) {
        if self.mode != BbrMode::ProbeBandwidth {
            return;
        }
        let gain = self.pacing_gain();
        let whole = now.saturating_since(self.phase.began) > self.round_trip.unwrap_or(Span::ZERO);
        let before = sample.in_flight_before.get();
        let over = if gain > 1.0 {
            whole && (sample.lost > Bytes::ZERO || before >= self.flight(gain))
        } else if gain < 1.0 {
            whole || before <= self.flight(1.0)
        } else {
            whole
        };
        if over {
            self.phase = Phase { index: (self.phase.index + 1) % CYCLE_GAINS.len(), began: now };
        }
    }

    fn update_fullness(&mut self, sample: &AckSample) {
        if self.fullness.reached || !self.round_began || self.is_limited(sample) {
            return;
        }
        let bandwidth = self.bandwidth.maximum();
        if bandwidth >= self.fullness.bandwidth.mul_f64(FULL_GROWTH) {
            self.fullness = Fullness { reached: false, bandwidth, rounds: 0 };
            return;
        }
        self.fullness.rounds += 1;
        self.fullness.reached = self.fullness.rounds >= FULL_ROUNDS;
    }

    fn update_mode(&mut self, now: Time, in_flight: Bytes) {
        if self.mode == BbrMode::Startup && self.fullness.reached {
            self.mode = BbrMode::Drain;
        }
        if self.mode == BbrMode::Drain && in_flight.get() <= self.flight(1.0) {
            self.probe_bandwidth(now);
        }
    }

    /// Starts in any phase but the one that drains, because there is nothing to drain yet.
    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = BbrMode::ProbeBandwidth;
        let skipped = self.random.random_range(0..CYCLE_GAINS.len() - 1);
        self.phase = Phase { index: (skipped + 2) % CYCLE_GAINS.len(), began: now };
    }

    fn update_round_trip(&mut self, now: Time, sample: &AckSample) {
        let expired = self.round_trip.is_some() && now > self.round_trip_seen + MIN_ROUND_TRIP_WINDOW;
        if let Some(round_trip) = sample.round_trip
            && (expired || self.round_trip.is_none_or(|lowest| round_trip <= lowest))
        {
            self.round_trip = Some(round_trip.max(Span::from_nanos(1)));
            self.round_trip_seen = now;
        }
        if expired && !self.restarted && self.mode != BbrMode::ProbeRoundTrip {
            self.keep_window();
            self.mode = BbrMode::ProbeRoundTrip;
            self.probe = RoundTripProbe::default();
        }
        if self.mode == BbrMode::ProbeRoundTrip {
            self.on_probe_ack(now, sample);
        }
        self.restarted &= sample.acked == Bytes::ZERO;
    }

    fn on_probe_ack(&mut self, now: Time, sample: &AckSample) {
        self.limited_until = sample.delivered + sample.in_flight;
        match self.probe.ends {
            None if sample.in_flight.get() <= MIN_PACKETS * self.packet.get() => {
                self.probe.ends = Some(now + PROBE_LENGTH);
                self.rounds.restart(sample.delivered);
            }
            None => {}
            Some(ends) => {
                self.probe.round_passed |= self.round_began;
                if self.probe.round_passed && now > ends {
                    self.end_probe(now);
                }
            }
        }
    }

    fn end_probe(&mut self, now: Time) {
        self.round_trip_seen = now;
        self.window = self.window.max(self.kept_window);
        if self.fullness.reached {
            self.probe_bandwidth(now);
        } else {
            self.mode = BbrMode::Startup;
        }
    }

    fn keep_window(&mut self) {
        let fresh = self.repair == Repair::Over && self.mode != BbrMode::ProbeRoundTrip;
        self.kept_window = if fresh { self.window } else { self.kept_window.max(self.window) };
    }

    fn update_pacing(&mut self, gain: f64) {
        if !self.pacing_known
            && let Some(round_trip) = self.round_trip
        {
            self.pacing_known = true;
            self.pacing = Bytes::new(self.window).over(round_trip).mul_f64(STARTUP_GAIN * PACING_MARGIN);
        }
        let rate = self.bandwidth.maximum().mul_f64(gain * PACING_MARGIN);
        if rate > Bitrate::ZERO && (self.fullness.reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    fn update_window(&mut self, sample: &AckSample) {
        let acked = sample.acked.get();
        if sample.lost > Bytes::ZERO {
            self.window = self.window.saturating_sub(sample.lost.get()).max(self.packet.get());
        }
        if acked == 0 {
            return;
        }
        if self.repair == Repair::Conserving {
            self.window = self.window.max(sample.in_flight.get() + acked);
            return;
        }
        let goal = self.flight(self.window_gain());
        if self.fullness.reached {
            self.window = (self.window + acked).min(goal);
        } else if self.window < goal || sample.delivered.get() < INITIAL_WINDOW * self.packet.get() {
            self.window += acked;
        }
        self.window = self.window.max(MIN_PACKETS * self.packet.get());
    }
}

impl CongestionLaw for BbrV1 {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_sent(&mut self, now: Time, size: Bytes, in_flight: Bytes) {
        if in_flight > size {
            return;
        }
        // After an idle time the pipe is empty, so no gain is needed.
        self.restarted = self.round_trip.is_some();
        match self.mode {
            BbrMode::ProbeBandwidth => self.update_pacing(1.0),
            BbrMode::ProbeRoundTrip if self.probe.ends.is_some_and(|ends| now > ends) => self.end_probe(now),
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        self.update_bandwidth(sample);
        self.update_phase(now, sample);
        self.update_fullness(sample);
        self.update_mode(now, sample.in_flight);
        self.update_round_trip(now, sample);
        self.update_pacing(self.pacing_gain());
        self.update_window(sample);
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        if congestion.cause == Cause::Mark {
            return;
        }
        self.keep_window();
        self.repair = Repair::Conserving;
        self.window = congestion.in_flight.get() + self.packet.get();
    }

    fn on_recovered(&mut self, _now: Time) {
        if self.repair != Repair::Over {
            self.repair = Repair::Over;
            self.window = self.window.max(self.kept_window);
        }
    }

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.keep_window();
        self.repair = Repair::Growing;
        self.fullness.bandwidth = Bitrate::ZERO;
        self.fullness.rounds = 0;
        self.window = self.packet.get();
    }

    fn window(&self) -> Bytes {
        let least = MIN_PACKETS * self.packet.get();
        Bytes::new(if self.mode == BbrMode::ProbeRoundTrip { self.window.min(least) } else { self.window })
    }

    fn pacing(&self) -> Option<Bitrate> {
        Some(self.pacing)
    }

    /// The burst size `send_quantum` (section 4.2.2).
    fn burst(&self) -> Bytes {
        match self.pacing.as_bps() {
            0..1_200_000 => self.packet,
            1_200_000..24_000_000 => Bytes::new(2 * self.packet.get()),
            _ => self.pacing.bytes_in(Span::from_millis(1)).min(Bytes::new(64 * 1_024)),
        }
    }
}
