//! BBR version 3 (draft-ietf-ccwg-bbr-02): a model of the path's bandwidth, its own round trip, and the flight that causes few
//! losses.
//!
//! # Departures
//! * Congestion marks are not used: the draft leaves them to a later version.
//! * After a loss there is no round of packet conservation: the model's bounds reduce the flight instead. After a time-out the window is
//!   one packet more than the flight, and the recovery restores it.
//! * Pacing stays 1 % below the estimate (section 5.6.2), and bursts are those of version 1.
//! * Packets sent while the round trip is probed count as limited by the application within the law; in the draft the sender marks them.

mod congestion;

use nearlight_units::{Bitrate, Bytes, Span, Time};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use self::congestion::Bounds;
use super::filter::MaxFilter;
use super::rounds::Rounds;
use super::{AckSample, Cause, Congestion, CongestionLaw, INITIAL_WINDOW, SentPacket};

/// Pacing gain of startup, 4 ln 2: doubles the rate in a round (`BBR.StartupPacingGain`).
const STARTUP_GAIN: f64 = 2.77;
/// Pacing gain of the drain state (`BBR.DrainPacingGain`).
const DRAIN_GAIN: f64 = 0.5;
/// Window gain outside of probes (`BBR.DefaultCwndGain`).
const WINDOW_GAIN: f64 = 2.0;
/// Pacing and window gain while more bandwidth is probed (section 5.3.3).
const UP_GAIN: f64 = 1.25;
const UP_WINDOW_GAIN: f64 = 2.25;
/// Pacing gain after a probe of bandwidth (section 5.3.3).
const DOWN_GAIN: f64 = 0.90;
/// Share of the bandwidth-delay product in flight while the round trip is probed (`BBR.ProbeRTTCwndGain`).
const PROBE_WINDOW_GAIN: f64 = 0.5;
/// The path is full when the bandwidth has grown by less than this factor in so many rounds in a row (section 5.3.1.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Losses of a round, at different times, that end startup (section 5.3.1.3, `BBRStartupFullLossCnt`).
const STARTUP_LOSSES: u32 = 6;
/// Rounds after which the queue of startup counts as drained, whatever is in flight (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Time over which the minimum round trip is taken (`BBR.MinRTTFilterLen`), and the time between its probes (`BBR.ProbeRTTInterval`).
const MIN_ROUND_TRIP_WINDOW: Span = Span::from_secs(10);
const ROUND_TRIP_PROBE_INTERVAL: Span = Span::from_secs(5);
/// Length of a probe of the round trip (`BBR.ProbeRTTDuration`).
const PROBE_LENGTH: Span = Span::from_millis(200);
/// Bounds in seconds of the time between two probes of bandwidth, evenly distributed (section 5.3.3.5.3),
const PROBE_WAIT_BOUNDS: (f64, f64) = (2.0, 3.0);
/// and the maximum number of rounds between them, for paths on which Reno would have recovered sooner.
const MAX_PROBE_WAIT_ROUNDS: u64 = 63;
/// The lowest window in packets (`BBR.MinPipeCwnd`).
const MIN_PACKETS: u64 = 4;
const PACING_MARGIN: f64 = 0.99;
/// Cycles over which the maximum delivery rate is taken (`BBR.MaxBwFilterLen`).
const BANDWIDTH_CYCLES: usize = 2;
/// Rounds over which the maximum of aggregated acknowledgements is taken (`BBR.ExtraAckedFilterLen`).
const AGGREGATION_ROUNDS: usize = 10;
/// The round trip assumed for pacing before one was measured (section 5.6.2).
const INITIAL_ROUND_TRIP: Span = Span::from_millis(1);

/// The state of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bbr3Phase {
    Startup,
    Drain,
    /// `ProbeBW_DOWN`: sends less than the path carries, so that the queue drains.
    Down,
    /// `ProbeBW_CRUISE`.
    Cruise,
    /// `ProbeBW_REFILL`: sends a round at the estimate, without the short-term bounds.
    Refill,
    /// `ProbeBW_UP`.
    Up,
    ProbeRoundTrip,
}

impl Bbr3Phase {
    const fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// Which acknowledgements belong to packets that a probe of bandwidth sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Detection of a full path.
#[derive(Clone, Copy, Debug, Default)]
struct Fullness {
    reached: bool,
    /// Whether the path is full in the current probe.
    now: bool,
    bandwidth: Bitrate,
    rounds: u32,
}

/// A probe of the round trip in progress.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTripProbe {
    ends: Option<Time>,
    round_passed: bool,
}

/// The excess of acknowledged bytes over what the bandwidth explains.
#[derive(Clone, Debug)]
struct Aggregation {
    began: Time,
    acked: u64,
    extra: MaxFilter<u64, AGGREGATION_ROUNDS>,
}

/// The law.
#[derive(Debug)]
pub struct BbrV3 {
    packet: u64,
    random: Pcg32,
    phase: Bbr3Phase,
    acks: Acks,
    bandwidth: MaxFilter<Bitrate, BANDWIDTH_CYCLES>, // MaxBwFilter
    cycles: u64,
    bounds: Bounds,
    lowest: Option<Span>, // min_rtt
    lowest_seen: Time,
    probed: Option<Span>, // probe_rtt_min_delay
    probed_at: Time,
    rounds: Rounds,
    round_began: bool,
    fullness: Fullness,
    startup_losses: u32,
    drain_began: u64,
    cycle_began: Time,
    wait: Span,
    rounds_since_probe: u64,
    probe: RoundTripProbe,
    limited_until: Bytes,
    restarted: bool,
    aggregation: Aggregation,
    window: u64,
    kept_window: Option<u64>,
    pacing: Bitrate,
    pacing_known: bool,
}

impl BbrV3 {
    /// Makes a new law. The seed decides how long it waits between probes, so that flows do not probe in step.
    #[must_use]
    pub fn new(packet: Bytes, seed: u64) -> Self {
        let packet = packet.get().max(1);
        let window = INITIAL_WINDOW * packet;
        Self {
            packet,
            random: Pcg32::seed_from_u64(seed),
            phase: Bbr3Phase::Startup,
            acks: Acks::Init,
            bandwidth: MaxFilter::new(),
            cycles: 0,
            bounds: Bounds::new(packet),
            lowest: None,
            lowest_seen: Time::ZERO,
            probed: None,
            probed_at: Time::ZERO,
            rounds: Rounds::default(),
            round_began: false,
            fullness: Fullness::default(),
            startup_losses: 0,
            drain_began: 0,
            cycle_began: Time::ZERO,
            wait: Span::ZERO,
            rounds_since_probe: 0,
            probe: RoundTripProbe::default(),
            limited_until: Bytes::ZERO,
            restarted: false,
            aggregation: Aggregation { began: Time::ZERO, acked: 0, extra: MaxFilter::new() },
            window,
            kept_window: None,
            pacing: Bytes::new(window).over(INITIAL_ROUND_TRIP).mul_f64(STARTUP_GAIN),
            pacing_known: false,
        }
    }

    #[must_use]
    pub fn phase(&self) -> Bbr3Phase {
        self.phase
    }

    /// The path's bandwidth as far as known and as far as losses allow.
    #[must_use]
    pub fn bandwidth(&self) -> Bitrate {
        self.bandwidth.maximum().min(self.bounds.bandwidth)
    }

    /// The path's own round trip as far as known.
    #[must_use]
    pub fn lowest_round_trip(&self) -> Option<Span> {
        self.lowest
    }

    /// Ratio of the pacing rate to the estimated bandwidth.
    #[must_use]
    pub fn pacing_gain(&self) -> f64 {
        match self.phase {
            Bbr3Phase::Startup => STARTUP_GAIN,
            Bbr3Phase::Drain => DRAIN_GAIN,
            Bbr3Phase::Down => DOWN_GAIN,
            Bbr3Phase::Up => UP_GAIN,
            Bbr3Phase::Cruise | Bbr3Phase::Refill | Bbr3Phase::ProbeRoundTrip => 1.0,
        }
    }

    /// Ratio of the window to the bandwidth-delay product.
    #[must_use]
    pub fn window_gain(&self) -> f64 {
        match self.phase {
            Bbr3Phase::Up => UP_WINDOW_GAIN,
            Bbr3Phase::ProbeRoundTrip => PROBE_WINDOW_GAIN,
            _ => WINDOW_GAIN,
        }
    }

    /// The bandwidth-delay product times a gain, in bytes.
    fn product(&self, bandwidth: Bitrate, gain: f64) -> u64 {
        let Some(lowest) = self.lowest else { return INITIAL_WINDOW * self.packet };
        (bandwidth.bytes_in(lowest).get() as f64 * gain) as u64
    }

    /// The window for a gain, with room for bursts (section 5.6.4.2).
    fn flight(&self, gain: f64) -> u64 {
        let bursts = 3 * self.burst().get();
        let more = if self.phase == Bbr3Phase::Up { 2 * self.packet } else { 0 };
        let product = self.product(self.bandwidth(), gain);
        product.max(bursts).max(MIN_PACKETS * self.packet).saturating_add(more)
    }

    fn is_limited(&self, sample: &AckSample) -> bool {
        sample.delivery.is_some_and(|delivery| delivery.app_limited) || sample.delivered_when_sent < self.limited_until
    }

    /// Updates the model (sections 5.5.5 to 5.5.10).
    fn update_model(&mut self, now: Time, sample: &AckSample) {
        self.round_began = self.rounds.on_ack(sample.delivered, sample.delivered_when_sent);
        self.rounds_since_probe += u64::from(self.round_began);
        let limited = self.is_limited(sample);
        if let Some(delivery) = sample.delivery
            && (!limited || delivery.rate >= self.bandwidth.maximum())
        {
            self.bandwidth.on_value(self.cycles, delivery.rate);
        }
        let probing = matches!(self.phase, Bbr3Phase::Startup | Bbr3Phase::Refill | Bbr3Phase::Up);
        self.bounds.on_ack(sample, probing, self.bandwidth.maximum(), self.window);
        if self.round_began && self.acks == Acks::ProbeStarting {
            self.acks = Acks::ProbeFeedback;
        } else if self.round_began && self.acks == Acks::ProbeStopping {
            self.acks = Acks::Init;
            if self.phase.probes_bandwidth() && !limited {
                self.cycles += 1;
            }
        }
        let limit = sample.window_limited && self.window >= self.bounds.long_term;
        let raising = self.phase == Bbr3Phase::Up && limit;
        self.bounds.on_healthy(sample, raising, self.round_began, self.window);
        self.update_aggregation(now, sample.acked.get());
    }

    /// Updates the excess of acknowledged bytes (section 5.5.9).
    fn update_aggregation(&mut self, now: Time, acked: u64) {
        let expected = self.bandwidth().bytes_in(now.saturating_since(self.aggregation.began)).get();
        if self.aggregation.acked <= expected {
            (self.aggregation.began, self.aggregation.acked) = (now, 0);
        }
        let expected = self.bandwidth().bytes_in(now.saturating_since(self.aggregation.began)).get();
        self.aggregation.acked = self.aggregation.acked.saturating_add(acked);
        let extra = self.aggregation.acked.saturating_sub(expected).min(self.window);
        if self.fullness.reached {
            self.aggregation.extra.on_value(self.rounds.count(), extra);
        }
    }

    /// Updates the detection of a full path (section 5.3.1.2).
    fn update_fullness(&mut self, sample: &AckSample) {
        if self.fullness.now || !self.round_began || self.is_limited(sample) {
            return;
        }
        let bandwidth = self.bandwidth.maximum();
        if bandwidth >= self.fullness.bandwidth.mul_f64(FULL_GROWTH) {
            (self.fullness.bandwidth, self.fullness.rounds) = (bandwidth, 0);
            return;
        }
        self.fullness.rounds += 1;
        self.fullness.now = self.fullness.rounds >= FULL_ROUNDS;
        self.fullness.reached |= self.fullness.now;
    }

    fn reset_fullness(&mut self) {
        self.fullness = Fullness { reached: self.fullness.reached, ..Fullness::default() };
    }

    fn update_startup(&mut self) {
        if self.phase == Bbr3Phase::Startup {
            // Section 5.3.1.3: losses at six different times of a round that also lost too large a share.
            if self.startup_losses >= STARTUP_LOSSES && self.bounds.lost_too_much() {
                self.fullness.reached = true;
                self.bounds.long_term = self.product(self.bandwidth.maximum(), 1.0).max(self.bounds.latest_flight());
            }
            if self.round_began {
                self.startup_losses = 0;
            }
            if self.fullness.reached {
                self.phase = Bbr3Phase::Drain;
                self.drain_began = self.rounds.count();
            }
        }
    }

    fn update_drain(&mut self, now: Time, in_flight: u64) {
        if self.phase != Bbr3Phase::Drain {
            return;
        }
        if in_flight <= self.flight(1.0) || self.rounds.count() > self.drain_began + DRAIN_ROUNDS {
            self.start_down(now);
        }
    }

    fn start_down(&mut self, now: Time) {
        self.phase = Bbr3Phase::Down;
        self.bounds.restart_probing();
        self.acks = Acks::ProbeStopping;
        let share: f64 = self.random.random();
        self.wait = Span::from_secs_f64(PROBE_WAIT_BOUNDS.0 + share * (PROBE_WAIT_BOUNDS.1 - PROBE_WAIT_BOUNDS.0));
        self.rounds_since_probe = self.random.random_range(0..2);
        self.cycle_began = now;
    }

    fn start_refill(&mut self) {
        self.phase = Bbr3Phase::Refill;
        self.bounds.forget_short_term();
        self.acks = Acks::Refilling;
    }

    fn start_up(&mut self) {
        self.phase = Bbr3Phase::Up;
        self.acks = Acks::ProbeStarting;
        self.reset_fullness();
        self.fullness.bandwidth = self.bandwidth.maximum();
        self.bounds.begin_raising(self.window);
    }

    /// Whether the next probe of bandwidth is due: after two to three seconds, or earlier if Reno would grow (section 5.3.3.5.3).
    fn is_time_to_probe(&self, now: Time) -> bool {
        let product = self.product(self.bandwidth(), 1.0) / self.packet;
        now.saturating_since(self.cycle_began) > self.wait
            || self.rounds_since_probe >= product.clamp(1, MAX_PROBE_WAIT_ROUNDS)
    }

    /// Advances the cycle of bandwidth probes (section 5.3.3.6).
    fn update_cycle(&mut self, now: Time, sample: &AckSample) {
        match self.phase {
            Bbr3Phase::Down | Bbr3Phase::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            Bbr3Phase::Down => {
                let in_flight = sample.in_flight.get();
                if in_flight <= self.bounds.with_headroom() && in_flight <= self.product(self.bandwidth(), 1.0) {
                    self.phase = Bbr3Phase::Cruise;
                }
            }
            Bbr3Phase::Refill if self.round_began => {
                self.bounds.probing_samples = true;
                self.start_up();
            }
            Bbr3Phase::Up => {
                if sample.window_limited && self.window >= self.bounds.long_term {
                    self.reset_fullness();
                    self.fullness.bandwidth = self.bandwidth.maximum();
                } else if self.fullness.now {
                    self.start_down(now);
                }
            }
            _ => {}
        }
    }

    /// Updates the minimum round trip and its probe (section 5.3.4.3).
    fn update_round_trip(&mut self, now: Time, sample: &AckSample) {
        let probe_due = self.probed.is_some() && now > self.probed_at + ROUND_TRIP_PROBE_INTERVAL;
        if let Some(round_trip) = sample.round_trip.map(|round_trip| round_trip.max(Span::from_nanos(1)))
            && (probe_due || self.probed.is_none_or(|lowest| round_trip < lowest))
        {
            (self.probed, self.probed_at) = (Some(round_trip), now);
        }
        let expired = now > self.lowest_seen + MIN_ROUND_TRIP_WINDOW;
        if let Some(probed) = self.probed
            && (expired || self.lowest.is_none_or(|lowest| probed < lowest))
        {
            (self.lowest, self.lowest_seen) = (Some(probed), self.probed_at);
        }
        if probe_due && !self.restarted && self.phase != Bbr3Phase::ProbeRoundTrip {
            self.keep_window();
            self.phase = Bbr3Phase::ProbeRoundTrip;
            self.acks = Acks::ProbeStopping;
            self.probe = RoundTripProbe::default();
        }
        if self.phase == Bbr3Phase::ProbeRoundTrip {
            self.on_probe_ack(now, sample);
        }
        self.restarted &= sample.acked == Bytes::ZERO;
    }

    fn probe_window(&self) -> u64 {
        self.product(self.bandwidth(), PROBE_WINDOW_GAIN).max(MIN_PACKETS * self.packet)
    }

    fn on_probe_ack(&mut self, now: Time, sample: &AckSample) {
        self.limited_until = sample.delivered + sample.in_flight;
        match self.probe.ends {
            None if sample.in_flight.get() <= self.probe_window() => {
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
        self.probed_at = now;
        self.restore_window();
        self.bounds.forget_short_term();
        if self.fullness.reached {
            self.start_down(now);
            self.phase = Bbr3Phase::Cruise;
        } else {
            self.phase = Bbr3Phase::Startup;
        }
    }

    fn keep_window(&mut self) {
        self.kept_window = Some(self.kept_window.unwrap_or(0).max(self.window));
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.kept_window.take().unwrap_or(0));
    }

    fn update_pacing(&mut self, gain: f64) {
        if !self.pacing_known
            && let Some(lowest) = self.lowest
        {
            self.pacing_known = true;
            self.pacing = Bytes::new(self.window).over(lowest).mul_f64(STARTUP_GAIN * PACING_MARGIN);
        }
        let rate = self.bandwidth().mul_f64(gain * PACING_MARGIN);
        if rate > Bitrate::ZERO && (self.fullness.reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    /// Updates the congestion window (section 5.6.4.6).
    fn update_window(&mut self, sample: &AckSample) {
        let goal = self.flight(self.window_gain()).saturating_add(self.aggregation.extra.maximum());
        let acked = sample.acked.get();
        if self.fullness.reached {
            self.window = self.window.saturating_add(acked).min(goal);
        } else if self.window < goal || sample.delivered.get() < INITIAL_WINDOW * self.packet {
            self.window = self.window.saturating_add(acked);
        }
        let least = MIN_PACKETS * self.packet;
        self.window = self.window.max(least);
        if self.phase == Bbr3Phase::ProbeRoundTrip {
            self.window = self.window.min(self.probe_window());
        }
        let cap = match self.phase {
            Bbr3Phase::Down | Bbr3Phase::Refill | Bbr3Phase::Up => self.bounds.long_term,
            Bbr3Phase::Cruise | Bbr3Phase::ProbeRoundTrip => self.bounds.with_headroom(),
            Bbr3Phase::Startup | Bbr3Phase::Drain => u64::MAX,
        };
        self.window = self.window.min(cap.min(self.bounds.short_term).max(least));
    }
}

impl CongestionLaw for BbrV3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn on_sent(&mut self, now: Time, size: Bytes, in_flight: Bytes) {
        if in_flight > size {
            return;
        }
        // After an idle time the pipe is empty, so no gain is needed.
        self.restarted = self.lowest.is_some();
        if self.phase.probes_bandwidth() {
            self.update_pacing(1.0);
        } else if self.phase == Bbr3Phase::ProbeRoundTrip && self.probe.ends.is_some_and(|ends| now > ends) {
            self.end_probe(now);
        }
    }

    fn on_packet_acked(&mut self, _now: Time, packet: &SentPacket, _round_trip: Option<Span>) {
        self.bounds.on_packet_acked(packet);
    }

    /// Handles a lost packet (section 5.5.10.2).
    fn on_packet_lost(&mut self, now: Time, packet: &SentPacket) {
        let target = self.product(self.bandwidth(), 1.0).min(self.window);
        if self.bounds.on_packet_lost(packet, target) && self.phase == Bbr3Phase::Up {
            self.start_down(now);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        self.startup_losses += u32::from(sample.lost > Bytes::ZERO);
        self.update_model(now, sample);
        self.update_fullness(sample);
        self.update_startup();
        self.update_drain(now, sample.in_flight.get());
        self.update_cycle(now, sample);
        self.update_round_trip(now, sample);
        self.update_pacing(self.pacing_gain());
        self.update_window(sample);
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        if congestion.cause == Cause::Loss {
            self.keep_window();
        }
    }

    fn on_recovered(&mut self, _now: Time) {
        if self.phase != Bbr3Phase::ProbeRoundTrip {
            self.restore_window();
        }
    }

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.keep_window();
        self.reset_fullness();
        self.window = self.packet;
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window)
    }

    fn pacing(&self) -> Option<Bitrate> {
        Some(self.pacing)
    }

    /// The burst size `BBR.send_quantum` (section 5.6.3).
    fn burst(&self) -> Bytes {
        let burst = self.pacing.bytes_in(Span::from_millis(1)).get().min(64 * 1_024);
        Bytes::new(burst.max(2 * self.packet))
    }
}

#[cfg(test)]
#[path = "bbr3_tests.rs"]
mod tests;
