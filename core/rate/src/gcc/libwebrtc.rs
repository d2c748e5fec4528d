//! GCC as in libwebrtc today.
//!
//! Derived from two ports of libwebrtc (str0m at its revision 2bc24d4 of January 2026, and `AlphaRTC`) and
//! draft-ietf-rmcat-gcc-02. Parts and constants name their counterpart in libwebrtc. Decides from arrival times, losses and probes, never
//! from frames.
//!
//! # Departures
//! * The start rate, 8 Mb/s, is known from the first packet on, so libwebrtc's 5 s of initialisation are omitted.
//! * [`Options::SCALED`] only: loss-based constants are scaled to the path ([`Scale::Path`]). A stagnant rate is probed
//!   every 15 s (str0m's idea): near a known capacity, growth is 40 kb/s each second, which at these rates would take minutes.
//!   Arrivals are merged into bursts for 10 ms rather than 100 ms: with frames sent in one go, a standing queue makes one burst of
//!   six frames, and over-use was seen only once the queue was full. A cut goes to the last window's arriving rate, and a long
//!   queue is drained ([`super::drain`]).
//! * For 300 ms after a probe its result counts as the arriving rate, so that its own queue does not undo it.
//! * Without feedback for 500 ms the rate falls by a fifth, and again every 500 ms; libwebrtc waits for seconds. When feedback is
//!   back the path is probed, and packets lost in between are not counted: the fallen rate already accounts for them.
//! * Loss of packets that arrive later than reported is revoked within the block of 250 ms.
//! * There is no estimate from the network, no congestion window and no priority for audio: nothing here has them.

use nearlight_units::{Bitrate, RemoteTime, Span, Time, smoothed_to_nearest};
use nearlight_wire::TcpInfo;

use super::acked::AckedRate;
use super::aimd::{Aimd, ChangeReason, Observation};
use super::alr::AlrDetector;
use super::detector::Usage;
use super::drain::Drain;
use super::groups::{Anchor, Groups, MAX_BURST};
use super::loss::{LossBased, Scale, Update};
use super::probe_rate::ProbeRate;
use super::probing::{Probing, Situation};
use super::protection::Protection;
use super::trendline::Trendline;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, Probe, RateController, SentPacket};

/// Ratio of the pacing rate to the target (libwebrtc `kDefaultPaceMultiplier`).
const PACING_FACTOR: f64 = 2.5;
/// The delay estimate restarts after the receiver's packets have been silent for this long (`kStreamTimeOut`).
const STREAM_TIMEOUT: Span = Span::from_secs(2);
/// A probe's result counts as at least this share of the arriving rate (`kProbeDropThroughputFraction`).
const MIN_PROBE_SHARE: f64 = 0.85;
/// A probe's result counts as the arriving rate for this time. Guess: two windows of the acknowledged rate, which see little of a probe
/// of 15 ms. Without it, the queue that a probe leaves behind would cut the rate to that of before the probe.
const PROBE_VALIDITY: Span = Span::from_millis(300);

/// The parameters in which presets differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub name: &'static str,
    pub loss_scale: Scale,
    /// Time between probes of a rate that grows too slowly. None disables them, as in libwebrtc.
    pub stagnant_interval: Option<Span>,
    /// The longest time for which arrivals close together are merged into one sample of delay.
    pub max_burst: Span,
    /// Whether redundancy against losses is taken out of the rate, as for a call: see [`super::protection`].
    pub protects: bool,
    /// Whether over-use cuts to the last window's arriving rate when that is lower than the blend of windows, and a long queue is drained.
    pub quick_drops: bool,
}

impl Options {
    /// The parameters for remote rendering at 5 to 100 Mb/s. The interval is str0m's.
    pub const SCALED: Self = Self {
        name: "gcc-libwebrtc",
        loss_scale: Scale::Path,
        stagnant_interval: Some(Span::from_secs(15)),
        max_burst: Span::from_millis(10),
        protects: false,
        quick_drops: true,
    };

    /// The parameters of libwebrtc.
    pub const STOCK: Self = Self {
        name: "gcc-libwebrtc-stock",
        loss_scale: Scale::Call,
        stagnant_interval: None,
        max_burst: MAX_BURST,
        protects: false,
        quick_drops: false,
    };

    /// The parameters of libwebrtc with redundancy against losses, as in a call: the form of WebRTC with which Nebula is compared.
    pub const CALL: Self = Self { name: "webrtc-like", protects: true, ..Self::STOCK };
}

/// The controller.
#[derive(Debug)]
pub struct LibWebrtc {
    options: Options,
    bounds: Bounds,
    groups: Groups,
    trendline: Trendline,
    acked: AckedRate,
    aimd: Aimd,
    loss: LossBased,
    drain: Drain,
    protection: Protection,
    alr: AlrDetector,
    alr_ended_seen: Option<Time>,
    probe_rate: ProbeRate,
    probing: Probing,
    /// The last probe's result and when it came.
    probed: Option<(Time, Bitrate)>,
    probe_decides: bool,
    round_trip: Option<Span>,
    last_arrival: Option<RemoteTime>,
    silence: Silence,
    /// Sending times between which losses are not counted, because the rate has already fallen for want of feedback.
    forgiven: Option<(Time, Time)>,
    arrivals: Vec<PacketReport>,
    /// The limit of TCP, when it carries the media.
    transport: Option<Bitrate>,
}

impl LibWebrtc {
    #[must_use]
    pub fn new(bounds: Bounds, options: Options) -> Self {
        let bounds = bounds.in_order();
        Self {
            options,
            bounds,
            groups: Groups::new(Anchor::First, options.max_burst),
            trendline: Trendline::default(),
            acked: AckedRate::default(),
            aimd: Aimd::new(bounds.start, bounds.maximum),
            loss: LossBased::new(options.loss_scale),
            drain: Drain::default(),
            protection: Protection::default(),
            alr: AlrDetector::new(bounds.start),
            alr_ended_seen: None,
            probe_rate: ProbeRate::default(),
            probing: Probing::new(options.stagnant_interval),
            probed: None,
            probe_decides: false,
            round_trip: None,
            last_arrival: None,
            silence: Silence::default(),
            forgiven: None,
            arrivals: Vec::new(),
            transport: None,
        }
    }

    fn target(&self) -> Bitrate {
        let delay = self.delay_based();
        self.bounds.clamp(self.loss.limit().map_or(delay, |loss| loss.min(delay)))
    }

    /// The target within the transport's limit: probes and the ALR detector must not take TCP's limit for the application's choice.
    fn usable(&self) -> Bitrate {
        self.transport.map_or(self.target(), |transport| self.target().min(transport))
    }

    /// The rate that delay currently allows.
    fn delay_based(&self) -> Bitrate {
        let estimate = self.aimd.estimate();
        if self.drain.is_active() { estimate.mul_f64(Drain::FACTOR) } else { estimate }
    }

    fn situation(&self) -> Situation {
        Situation {
            estimate: self.usable(),
            maximum: self.transport.map_or(self.bounds.maximum, |transport| self.bounds.maximum.min(transport)),
            app_limited_since: self.alr.since(),
            app_limited_until: self.alr.ended(),
            congested: self.trendline.usage() == Usage::Over
                || self.loss.limit().is_some()
                || self.silence.is_blocked()
                || self.drain.is_active(),
        }
    }

    /// Sorts arrivals by the receiver's clock, and passes losses to the loss estimator.
    fn sort_out(&mut self, feedback: &Feedback<'_>) {
        let forgiven = self.forgiven;
        self.arrivals.clear();
        for report in feedback.packets {
            let packet = &report.packet;
            self.protection.on_report(report);
            if report.arrived_at.is_some() {
                self.loss.on_arrived(packet.seq, packet.sent_at, packet.size);
                self.arrivals.push(*report);
            } else if forgiven.is_none_or(|(from, to)| packet.sent_at < from || packet.sent_at > to) {
                self.loss.on_missing(packet.seq, packet.sent_at, packet.size);
            }
        }
        if !self.arrivals.is_sorted_by_key(|report| report.arrived_at) {
            self.arrivals.sort_by_key(|report| report.arrived_at);
        }
    }

    /// The lowest one-way delay of the new arrivals, including the unknown offset of the receiver's clock.
    fn lowest_delay(&self) -> Option<Span> {
        let delay = |report: &PacketReport| report.arrived_at.map(|arrived| arrived.ahead_of(report.packet.sent_at));
        self.arrivals.iter().filter_map(delay).min()
    }

    /// Passes arrivals to the estimators. Returns a probe's result, if there is one.
    fn on_arrivals(&mut self) -> Option<Bitrate> {
        let mut probed = None;
        let arrivals = std::mem::take(&mut self.arrivals);
        for report in &arrivals {
            let Some(arrived_at) = report.arrived_at else { continue };
            let packet = &report.packet;
            if self.last_arrival.is_some_and(|last| arrived_at - last > STREAM_TIMEOUT) {
                self.groups.forget();
                self.trendline = Trendline::default();
            }
            self.last_arrival = Some(arrived_at);
            if self.alr.ended() != self.alr_ended_seen && self.alr.ended().is_some_and(|ended| packet.sent_at > ended) {
                self.alr_ended_seen = self.alr.ended();
                self.acked.expect_change();
            }
            self.acked.on_packet(arrived_at, packet.size);
            if let Some(delta) = self.groups.on_packet(packet.sent_at, arrived_at) {
                self.trendline.on_delta(&delta);
            }
            probed = self.probe_rate.on_packet(report).or(probed);
        }
        self.arrivals = arrivals;
        self.arrivals.clear();
        probed
    }

    /// The arriving rate. For a while after a probe, its result is more accurate than windows that began before it.
    fn arriving(&self, now: Time) -> Option<Bitrate> {
        let recent = self.probed.filter(|(at, _)| now.saturating_since(*at) < PROBE_VALIDITY).map(|(_, rate)| rate);
        let cautious = self.options.quick_drops && self.trendline.usage() == Usage::Over;
        let acked = if cautious { self.acked.cautious_rate() } else { self.acked.rate() };
        acked.max(recent)
    }

    fn on_delay(&mut self, now: Time, probed: Option<Bitrate>) {
        let usage = self.trendline.usage();
        let arriving = self.arriving(now);
        if let Some(probed) = probed
            && usage != Usage::Over
        {
            // A probe that competed with other traffic must not lower the rate below the arriving rate.
            let floor = arriving.map_or(Bitrate::ZERO, |arriving| arriving.mul_f64(MIN_PROBE_SHARE));
            let believed = probed.max(floor.min(self.aimd.estimate()));
            self.probed = Some((now, believed));
            self.probe_decides = true;
            self.aimd.on_probe(believed);
            self.aimd.set_estimate(now, believed);
            return;
        }
        let app_limited = self.alr.since().is_some();
        self.aimd.on_observation(now, &Observation { usage, arriving, app_limited });
        if self.aimd.change_reason() != ChangeReason::External {
            self.probe_decides = false;
        }
    }

    /// Handles feedback that ends an outage.
    fn end_silence(&mut self, now: Time, feedback: &Feedback<'_>) {
        if self.silence.on_feedback(feedback) {
            if let Some((from, _)) = self.forgiven {
                self.forgiven = Some((from, now));
            }
            self.probing.on_unknown_path(now, &self.situation());
        }
    }

    fn on_silence(&mut self, now: Time, first: bool) {
        let Some(since) = self.silence.since() else { return };
        self.trendline.drop_hypothesis();
        self.aimd.set_estimate(now, self.target().mul_f64(Silence::FACTOR));
        self.probed = None;
        self.probe_decides = false;
        if first {
            self.forgiven = Some((since, Time::FAR_FUTURE));
        }
        self.alr.set_estimate(self.usable());
    }

    /// The limit that last changed the delay-based rate.
    fn delay_limit(&self) -> Limit {
        match self.aimd.change_reason() {
            _ if self.drain.is_active() => Limit::Delay,
            ChangeReason::External if self.probe_decides => Limit::Probe,
            ChangeReason::External => Limit::FeedbackTimeout,
            ChangeReason::Delivered if self.acked.rate().is_some() => Limit::Delivered,
            _ => Limit::Delay,
        }
    }

    fn binding(&self) -> Limit {
        let delay = self.delay_based();
        let (limit, wanted) = match self.loss.limit() {
            Some(loss) if loss < delay => (Limit::Loss, loss),
            _ => (self.delay_limit(), delay),
        };
        match wanted {
            _ if wanted >= self.bounds.maximum => Limit::Maximum,
            _ if wanted < self.bounds.minimum => Limit::Minimum,
            _ => limit,
        }
    }
}

impl RateController for LibWebrtc {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.alr.on_sent(packet.sent_at, packet.size);
        self.silence.on_sent(packet.sent_at);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.end_silence(now, feedback);
        if let Some(round_trip) = feedback.round_trip {
            let sample = round_trip.max(Span::ZERO);
            let smoothed = smoothed_to_nearest(self.round_trip, sample);
            self.round_trip = Some(smoothed);
            self.aimd.set_round_trip(smoothed);
        }
        let usage_before = self.trendline.usage();
        self.sort_out(feedback);
        if let Some(delay) = self.lowest_delay() {
            let before = self.aimd.estimate();
            let probed = self.on_arrivals();
            self.on_delay(now, probed);
            let cut = self.trendline.usage() == Usage::Over && self.aimd.estimate() < before;
            self.drain.on_delay(now, delay, cut && self.options.quick_drops);
        }
        let delay_based = self.aimd.estimate();
        let app_limited = self.alr.since().is_some();
        let (arriving, minimum) = (self.acked.rate(), self.bounds.minimum);
        self.loss.update(&Update { delay_based, arriving, app_limited, minimum });
        self.alr.set_estimate(self.usable());
        let situation = self.situation();
        self.probing.on_estimate(now, &situation);
        if usage_before == Usage::Under && self.trendline.usage() == Usage::Normal {
            self.probing.on_recovered(now, &situation);
        }
    }

    fn on_tcp_info(&mut self, _now: Time, _info: &TcpInfo, limit: Option<Bitrate>) {
        self.transport = limit;
        self.alr.set_estimate(self.usable());
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        let first = !self.silence.is_blocked();
        if self.silence.on_time(now) {
            self.on_silence(now, first);
        }
        self.probing.on_time(now, &self.situation());
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let lowest = self.target() <= self.bounds.minimum;
        let silence = self.silence.due(lowest).map(|at| (at, ControllerWake::FeedbackTimeout));
        let probe = self.probing.due(&self.situation()).map(|at| (at, ControllerWake::Probe));
        [silence, probe].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        let situation = self.situation();
        let probe = self.probing.poll(now, &situation)?;
        self.probe_rate.on_probe(&probe);
        Some(probe)
    }

    fn set_bounds(&mut self, now: Time, bounds: Bounds) {
        let was_at_maximum = self.target() >= self.bounds.maximum;
        let raised = bounds.maximum > self.bounds.maximum;
        self.bounds = bounds.in_order();
        self.aimd.set_maximum(self.bounds.maximum);
        self.alr.set_estimate(self.usable());
        if raised && was_at_maximum {
            self.probing.on_unknown_path(now, &self.situation());
        }
    }

    fn decision(&self) -> Decision {
        let target = self.target();
        let delay = self.delay_based();
        let mut limits = vec![(Limit::Delay, delay)];
        limits.extend(self.loss.limit().map(|rate| (Limit::Loss, rate)));
        limits.extend(self.acked.rate().map(|rate| (Limit::Delivered, Aimd::ceiling(rate))));
        limits.extend(self.probed.map(|(_, rate)| (Limit::Probe, rate)));
        if self.delay_limit() == Limit::FeedbackTimeout {
            limits.push((Limit::FeedbackTimeout, delay));
        }
        limits.push((Limit::Minimum, self.bounds.minimum));
        limits.push((Limit::Maximum, self.bounds.maximum));
        let redundancy = self.options.protects.then(|| self.protection.redundancy(self.round_trip));
        let share = redundancy.map_or(0.0, |redundancy| redundancy.share);
        Decision {
            target: self.bounds.clamp(target.mul_f64(1.0 - share)),
            pacing: target.mul_f64(PACING_FACTOR).max(target),
            evenly: false,
            window: None,
            step: None,
            redundancy,
            binding: self.binding(),
            limits,
        }
    }

    fn held(&self) -> usize {
        self.trendline.held() + self.loss.held() + self.probe_rate.held() + self.probing.held() + self.arrivals.len()
    }
}
