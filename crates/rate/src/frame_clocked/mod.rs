//! Frame-clocked: each frame is a probe of the path, and takes most of the frame interval on the wire.
//!
//! Frames leave faster than the bottleneck takes them, so that the gaps between their packets' arrivals tell its capacity, frame by
//! frame ([`capacity`]); the target is that capacity's [`SHARE`], which leaves the wire free before the next frame comes. The mechanisms:
//!
//! * *Queue*. Where the first packet of a frame still meets a queue, the target falls in proportion to what the queue takes of a frame
//!   interval, until it is gone.
//! * *Overdue feedback*. What has not been reported a frame interval after it should have been is in a queue that is at least this much
//!   longer, so the target falls before any packet tells: a path that stops is noticed while it stands.
//! * *Overload*. A token bucket lets short bursts through at line rate, so that the beginning of a frame says nothing of the rate behind it
//!   (the second half of a large frame does). Where a queue builds up although the gaps promise more, what arrives meanwhile is the
//!   capacity: the target stays below it, and tries more after some seconds.
//! * *Sharing*. In a queue of our own, frames arrive back to back. Where they do not, others are there ([`standing`]): packets spread over the
//!   frame interval, and the rate follows additive increase and multiplicative decrease ([`sharing`]), until it reaches the capacity's share.
//! * *Interleaving*. Where others' packets lie between ours although no queue is left behind, the shares that flows have found depend on the
//!   phases of their frames: they are shared anew.
//! * *Competition*. Where the queue stands although the rate has been given up, the others yield to losses only, and so does the rate, by
//!   CUBIC's law ([`competition`]), until the queue is empty or our own.
//! * *Marking*. Where packets are marked before a queue grows (L4S, RFC 9330), marks tell the capacity. Packets leave one by one, no faster than
//!   the path carries them, and the rate follows DCTCP's law ([`marking`]) instead of all these, until a queue is no longer marked.
//!
//! Losses change nothing except in competition.
//!
//! Source: our own, after ideas of Pudica (NSDI 2024: frames as probes of utilisation), Nebula (WWW 2022: dispersion of frames) and Copa
//! (NSDI 2018: compete where the queue does not empty). `docs/results/rate-control.md` has what each mechanism contributes.
//!
//! # Limits
//! * A delay that grows without a queue is taken for others' until the base delay is learnt anew, one to two minutes later: the rate first
//!   falls, then follows CUBIC's law.
//! * Beside flows that ignore marks in the same queue it falls to its lowest rate: a path is expected to keep them apart, as RFC 9332 does.
//! * Where service is bursty, as on Wi-Fi, a frame's dispersion is a noisy measure; only the mean of several frames raises the rate.

mod capacity;
mod competition;
mod marking;
mod sharing;
mod standing;

use nearlight_units::{Bitrate, Bytes, PacketSeq, Span, Time};

use self::capacity::Capacity;
use self::competition::Competition;
use self::marking::Marking;
use self::sharing::Sharing;
use self::standing::Standing;
use crate::backlog::Backlog;
use crate::base_delay::BaseDelay;
use crate::in_flight::InFlight;
use crate::silence::Silence;
use crate::smoothed::smoothed;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentFrame, SentPacket};

/// Of a frame interval, what a frame takes on the wire. Frames vary by some percent, and a queue that one leaves behind has to drain: of
/// 0.85, 0.92, 0.94 and 0.96 on recorded traces, 0.94 has the highest utility; the time on the wire is no matter of the deadline.
const SHARE: f64 = 0.94;
/// Packets leave at this multiple of the capacity: dispersion shows it, and a capacity that has doubled shows in one frame. Guess: a
/// frame then has left in a quarter of its interval.
const PACING: f64 = 2.0;
/// The same of the target, or of a frame that is larger, beside others, whose queue is not to be filled by bursts: a frame takes four fifths
/// of its interval. Guess.
const SPREAD: f64 = 1.25;
/// A queue below this is ignored. Guess: what interrupts and short bursts of others leave behind.
const QUEUE: Span = Span::from_millis(3);
/// What is left of the target at least while a queue drains. Guess: the smallest picture that still moves.
const LEAST: f64 = 0.1;
/// Base delays are remembered for one to two of these. Guess.
const STRETCH: Span = Span::from_secs(60);
/// Of what arrived while a queue built up, this may be sent without a queue building up again. Guess.
const CARRIED: f64 = 0.9;
/// After this, twice that may be sent. The exponent grows with the cube of the time, as CUBIC's window does: slowly near the rate that was
/// too much, quickly where the path has changed. Guess: within a second a queue builds up at most once.
const DOUBLING: Span = Span::from_millis(1_500);
/// The frame interval before two frames have been seen. Guess: 60 frames a second.
const INTERVAL: Span = Span::from_micros(16_667);
/// Frames that meet a queue of others, less those that do not, after which we are among others. Guess: a third of a second at 60 frames a
/// second.
const YIELDED: u32 = 20;
/// Frames between whose packets others' lie, less those between which none do, after which we are among others. Guess: two seconds at 60 frames a second.
const INTERLEAVED_FRAMES: u32 = 120;
/// A queue that has stood for so long whatever was given up is one that only losses limit. Guess.
const STOOD: Span = Span::from_millis(500);
/// The queue has been empty for this long and two round trips when the competition ends: BBR empties it for so long every ten seconds, and has
/// filled it again a round trip later (`ProbeRTT`, section 5.3.4.4 of draft-ietf-ccwg-bbr).
const EMPTY_FOR: Span = Span::from_millis(200);
/// Part of the rate before the queue, with which competition begins. One other flow, equal shares.
const BEGINNING: f64 = 0.5;
/// Feedback may be late by this multiple of the time between reports. Guess: more than its jitter.
const RARE: f64 = 1.25;
/// Reports further apart than this tell of an outage and not of their interval: libwebrtc's are at most 250 ms apart.
const MOST_BETWEEN: Span = Span::from_millis(250);

/// A mechanism that may be left out, to measure what it contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The target falls as soon as feedback is late.
    Overdue,
    /// The rate at which packets arrived while a queue built up is a limit.
    Overload,
    /// Additive increase and multiplicative decrease beside others.
    Sharing,
    /// Sharing with others that leave no queue.
    Interleaving,
    /// CUBIC's law beside others that fill the queue.
    Competition,
    /// DCTCP's law where packets are marked.
    Marking,
}

/// The newest packet that feedback has reported.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// When it left, or when the first packet after a pause did.
    sent_at: Time,
    /// The shortest round trip including the time to the report.
    shortest: Option<Span>,
    /// When the newest report came, and how far apart reports are.
    at: Option<Time>,
    every: Span,
    /// When missing feedback was last taken for a queue.
    judged_at: Time,
}

/// The controller.
#[derive(Debug)]
pub struct FrameClocked {
    without: Option<Part>,
    bounds: Bounds,
    base: BaseDelay,
    /// Times from departures to reports.
    report_delays: BaseDelay,
    capacity: Capacity,
    standing: Standing,
    backlog: Backlog,
    /// In bit/s, what arrived while a queue built up the last time, and when that was.
    overload: Option<(f64, Time)>,
    sharing: Option<Sharing>,
    competition: Option<Competition>,
    /// The path marks packets before its queue grows.
    marking: Option<Marking>,
    /// The target before the queue that we yield to.
    unyielding: Bitrate,
    in_flight: InFlight,
    newest: PacketSeq,
    heard: Heard,
    round_trip: Option<Span>,
    /// What feedback is late by: the queue is at least this long.
    overdue: Span,
    interval: Span,
    framed_at: Option<Time>,
    newest_frame: Bytes,
    /// Frames with others' packets between theirs, less those without.
    interleaved: u32,
    limit: Limit,
    silence: Silence,
    /// The factor on the target for missing feedback.
    trust: f64,
}

impl FrameClocked {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let bounds = bounds.in_order();
        Self {
            without: None,
            bounds,
            base: BaseDelay::new(STRETCH),
            report_delays: BaseDelay::new(STRETCH),
            capacity: Capacity::default(),
            standing: Standing::default(),
            backlog: Backlog::default(),
            overload: None,
            sharing: None,
            competition: None,
            marking: None,
            unyielding: bounds.start,
            in_flight: InFlight::default(),
            newest: PacketSeq(0),
            heard: Heard::default(),
            round_trip: None,
            overdue: Span::ZERO,
            interval: INTERVAL,
            framed_at: None,
            newest_frame: Bytes::ZERO,
            interleaved: 0,
            limit: Limit::Throughput,
            silence: Silence::default(),
            trust: 1.0,
        }
    }

    /// The same without one of its mechanisms.
    #[must_use]
    pub fn without(bounds: Bounds, part: Part) -> Self {
        Self { without: Some(part), ..Self::new(bounds) }
    }

    fn has(&self, part: Part) -> bool {
        self.without != Some(part)
    }

    /// The capacity before one is known.
    fn unknown(&self) -> f64 {
        self.bounds.start.as_bps() as f64 / SHARE
    }

    fn estimate(&self) -> f64 {
        self.capacity.estimate().unwrap_or_else(|| self.unknown())
    }

    fn on_report(&mut self, now: Time, report: &PacketReport) {
        if (report.arrived_at.is_none() || report.ce)
            && let Some(competition) = &mut self.competition
        {
            competition.on_congestion(now, report.packet.seq, self.newest);
        }
        self.on_mark(now, report);
        let Some(frame) = report.packet.frame else { return };
        let size = report.packet.size;
        let is_newer = self.capacity.is_newer(frame);
        let Some(arrived_at) = report.arrived_at.filter(|_| is_newer) else {
            if let Some(arrived_at) = report.arrived_at {
                self.backlog.on_arrival(size);
                if self.sharing.is_some() {
                    self.standing.on_packet(self.base.on_delay(now, arrived_at.ahead_of(report.packet.sent_at)));
                }
            }
            // What is sent again belongs to an older frame and says nothing of this one.
            self.capacity.on_report(report);
            return;
        };
        self.share_frame(now);
        let service = |rate: f64| Span::from_secs_f64(size.get() as f64 * 8.0 / rate.max(1.0));
        let packet = service(self.estimate());
        // A slow path takes longer for the packet itself than when it was fast, which is when the base was found.
        let slower = packet - self.capacity.peak().map_or(packet, service);
        let waited = self.base.on_delay(now, arrived_at.ahead_of(report.packet.sent_at));
        let queue = (waited - slower.min(self.interval / 2)).max(Span::ZERO);
        let packet = self.capacity.least_gap().map_or(packet, |gap| gap.max(packet));
        self.standing.on_frame(arrived_at, self.capacity.newest_arrival(), queue, (QUEUE, packet));
        if self.marking.as_mut().is_some_and(|marking| marking.on_frame(queue > QUEUE)) {
            self.leave_marking();
        }
        // A queue of an interval holds a whole frame: what varies less is jitter, or others' frames.
        if let Some(rate) = self.backlog.on_frame(arrived_at, queue, QUEUE, self.interval) {
            self.overload = Some((rate, now));
            if let Some(marking) = &mut self.marking {
                marking.limit_to(rate);
            }
        }
        self.backlog.on_arrival(size);
        self.note_interleaving(now, queue > QUEUE);
        self.capacity.on_frame(report, (frame, arrived_at), self.unknown(), queue > QUEUE);
    }

    /// The newest frame is complete: whether others' packets lay between its own.
    fn note_interleaving(&mut self, now: Time, has_queue: bool) {
        let is_off = self.is_among_others() || self.marking.is_some() || !self.has(Part::Sharing);
        if is_off || has_queue || !self.has(Part::Interleaving) {
            return;
        }
        let is_interleaved = self.capacity.is_interleaved();
        self.interleaved = if is_interleaved { self.interleaved + 1 } else { self.interleaved.saturating_sub(1) };
        if self.interleaved >= INTERLEAVED_FRAMES {
            self.interleaved = 0;
            self.enter_sharing(now);
        }
    }

    fn enter_sharing(&mut self, now: Time) {
        self.sharing = Some(Sharing::new(now, self.target().as_bps() as f64));
        self.capacity.freeze(true);
    }

    /// The queue that the next frame meets.
    fn queue(&self) -> Span {
        let met = (self.standing.queue() - QUEUE).max(Span::ZERO);
        met.max(self.overdue)
    }

    fn is_among_others(&self) -> bool {
        self.competition.is_some() || self.sharing.is_some()
    }

    /// What a queue leaves of the target: the less, the more of a frame interval it takes.
    fn room(&self) -> f64 {
        let over = if self.is_among_others() { self.overdue } else { self.queue() };
        (1.0 - over.as_secs_f64() / self.interval.as_secs_f64()).clamp(LEAST, 1.0)
    }

    fn share(&self) -> Bitrate {
        let marking = self.marking.as_ref().map(Marking::rate);
        marking
            .or_else(|| self.capacity.estimate())
            .map_or(self.bounds.start, |capacity| Bitrate::from_bps((capacity * SHARE) as u64))
    }

    /// What the path carries without a queue that builds up; more is tried as time goes by.
    fn carried(&self) -> Option<Bitrate> {
        let (rate, at) =
            self.overload.filter(|_| self.has(Part::Overload) && !self.is_among_others() && self.marking.is_none())?;
        let age = self.framed_at?.saturating_since(at).as_secs_f64() / DOUBLING.as_secs_f64();
        Some(Bitrate::from_bps((rate * CARRIED * age.powi(3).min(30.0).exp2()) as u64))
    }

    /// The newest frame has arrived; a newer one is about to.
    fn share_frame(&mut self, now: Time) {
        let most = self.capacity.peak().unwrap_or_else(|| self.unknown()) * SHARE;
        let least = self.bounds.minimum.as_bps() as f64;
        if let Some((sharing, round_trip)) = self.sharing.as_mut().zip(self.round_trip) {
            sharing.on_frame(now, self.standing.lowest(), round_trip, (least, most));
            if sharing.rate() >= most {
                self.leave_sharing();
            }
        }
    }

    fn on_mark(&mut self, now: Time, report: &PacketReport) {
        if report.ce && self.has(Part::Marking) && self.marking.is_none() {
            self.marking = Some(Marking::new(now, self.estimate()));
            (self.sharing, self.competition) = (None, None);
            self.capacity.freeze(true);
        }
        if let Some(marking) = self.marking.as_mut().filter(|_| report.arrived_at.is_some()) {
            marking.on_packet(report.ce);
        }
    }

    fn leave_marking(&mut self) {
        self.marking = None;
        self.capacity.freeze(false);
    }

    fn leave_sharing(&mut self) {
        self.sharing = None;
        self.capacity.freeze(false);
    }

    /// The reason for the rate, the rate before the bounds, and what would be without a queue.
    fn wanted(&self) -> (Limit, Bitrate, Bitrate) {
        let sharing = self.sharing.map(|sharing| Bitrate::from_bps(sharing.rate() as u64));
        let share = sharing.unwrap_or_else(|| self.share());
        let competing = self.competition.as_ref().map(Competition::rate);
        let rate = [self.carried(), competing].into_iter().flatten().fold(share, Bitrate::min);
        let limit = if competing == Some(rate) { Limit::Window } else { self.limit };
        let wanted = rate.mul_f64(self.room() * self.trust);
        (limit, wanted, share)
    }

    fn target(&self) -> Bitrate {
        self.bounds.clamp(self.wanted().1)
    }

    /// Goes among others and leaves them.
    fn mingle(&mut self, now: Time, acked: Bytes) {
        let Some(round_trip) = self.round_trip else { return };
        if let Some(marking) = &mut self.marking {
            let bound = |rate: Bitrate| rate.as_bps() as f64 / SHARE;
            marking.on_feedback(now, round_trip, (bound(self.bounds.minimum), bound(self.bounds.maximum)));
            return;
        }
        if let Some(competition) = &mut self.competition {
            competition.on_feedback(now, acked, round_trip);
            let empty = self.interval * i64::from(self.standing.empty());
            if empty >= EMPTY_FOR + round_trip * 2 || self.standing.is_own() {
                self.competition = None;
            }
            return;
        }
        let stood = match &self.sharing {
            Some(sharing) => sharing.stood_for(now) >= STOOD,
            None if self.standing.foreign() < YIELDED => {
                if self.room() >= 1.0 {
                    self.unyielding = self.target();
                }
                return;
            }
            None if self.has(Part::Sharing) => {
                self.enter_sharing(now);
                false
            }
            None => self.standing.queue() > self.interval,
        };
        if stood && self.has(Part::Competition) {
            self.leave_sharing();
            self.competition = Some(Competition::new(now, self.unyielding.mul_f64(BEGINNING), round_trip));
        }
    }

    /// The time from a packet's departure to its report.
    fn usual(&self) -> Option<Span> {
        let shortest = self.heard.shortest?;
        Some(if self.is_among_others() { self.round_trip?.max(shortest) } else { shortest })
    }

    /// How much later than usual a report may be: a frame interval, or where reports are rarer, what lies between two of them and some.
    fn patience(&self) -> Span {
        self.interval.max(self.heard.every.mul_f64(RARE))
    }

    /// When missing feedback will say that the queue is longer than a frame interval.
    fn overdue_at(&self) -> Option<Time> {
        let usual = self.usual().filter(|_| self.has(Part::Overdue) && self.in_flight.bytes() > Bytes::ZERO)?;
        if self.overdue > self.interval {
            return None;
        }
        let due = self.heard.sent_at + usual + self.patience() + self.interval;
        Some(due.max(self.heard.judged_at + self.interval))
    }
}

impl RateController for FrameClocked {
    fn name(&self) -> &'static str {
        "frame-clocked"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
        if self.in_flight.bytes() == Bytes::ZERO {
            self.heard.sent_at = self.heard.sent_at.max(packet.sent_at);
        }
        self.newest = packet.seq;
        self.in_flight.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        if feedback.packets.is_empty() {
            return;
        }
        if self.silence.on_feedback(feedback) {
            // What the path carried before the silence is no estimate any more: the rate grows from where the silence has left it.
            let trust = std::mem::replace(&mut self.trust, 1.0);
            self.capacity.scale(trust, self.unknown());
            if let Some(marking) = &mut self.marking {
                marking.scale(trust);
            }
        }
        if let Some(sample) = feedback.round_trip {
            let sample = sample.max(Span::from_nanos(1));
            self.round_trip = Some(smoothed(self.round_trip, sample));
        }
        let newest = feedback.packets.iter().map(|report| (report.packet.seq, report.packet.sent_at)).max();
        let acked = newest.map_or(Bytes::ZERO, |(seq, _)| self.in_flight.on_reported(seq));
        if let Some((_, sent_at)) = newest {
            self.heard.sent_at = self.heard.sent_at.max(sent_at);
            let took = now.saturating_since(sent_at);
            self.heard.shortest = Some(took - self.report_delays.on_delay(now, took));
            self.overdue = Span::ZERO;
        }
        if let Some(before) = self.heard.at.replace(now) {
            let since = now.saturating_since(before).min(MOST_BETWEEN);
            self.heard.every += (since - self.heard.every) / 8;
        }
        for report in feedback.packets {
            self.on_report(now, report);
        }
        self.capacity.look_early();
        self.mingle(now, acked);
        self.limit = if self.room() < 1.0 { Limit::Delay } else { Limit::Throughput };
    }

    fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        self.newest_frame = frame.size;
        if let Some(before) = self.framed_at.replace(now) {
            let since = now.saturating_since(before).clamp(Span::from_millis(2), Span::from_millis(100));
            self.interval += (since - self.interval) / 8;
        }
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.overdue_at().is_some_and(|at| now >= at) {
            let expected = self.heard.sent_at + self.usual().unwrap_or(Span::ZERO) + self.patience();
            self.overdue = now.saturating_since(expected);
            self.heard.judged_at = now;
            self.limit = Limit::Delay;
        }
        if self.silence.on_time(now) {
            self.trust *= Silence::FACTOR;
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let lowest = self.target() <= self.bounds.minimum;
        let silence = self.silence.due(lowest).map(|at| (at, ControllerWake::FeedbackTimeout));
        let overdue = self.overdue_at().map(|at| (at, ControllerWake::Step));
        silence.into_iter().chain(overdue).min_by_key(|(at, _)| *at)
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let (limit, wanted, share) = self.wanted();
        let decision = Decision::of(&self.bounds, &[(limit, wanted), (Limit::Delivered, share)], 1.0);
        let pacing = if let Some(marking) = &self.marking {
            Bitrate::from_bps(marking.rate() as u64).max(decision.target)
        } else if self.is_among_others() {
            // An encoder may not manage to produce as little as it is asked for: what waits in the sender is not in time either.
            let frame = self.newest_frame.over(self.interval).min(self.share());
            decision.target.max(frame).mul_f64(SPREAD)
        } else {
            Bitrate::from_bps((self.estimate() * PACING) as u64).max(decision.target.mul_f64(PACING))
        };
        Decision { pacing, evenly: self.marking.is_some(), ..decision }
    }

    fn held(&self) -> usize {
        self.in_flight.held()
    }
}

#[cfg(test)]
mod tests;
