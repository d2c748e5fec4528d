//! The sender.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Span, Time};

use super::round_trip::RoundTrip;
use super::scoreboard::{Progress, Scoreboard};
use super::{Ack, Config, HEADERS, Segment};
use crate::FlowWake;
use crate::law::{AckSample, Cause, Congestion, CongestionLaw};
use crate::traffic::sooner;

/// Longest delay of a single segment's acknowledgement (RFC 8985, section 7.2, `TLP.max_ack_delay`: 200 ms).
const MAX_ACK_DELAY: Span = Span::from_millis(200);
/// Probe timeout before a round trip is known (RFC 8985, section 7.2).
const INITIAL_PROBE_TIMEOUT: Span = Span::from_secs(1);

/// A response to congestion that goes on until what was out when it began is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Episode {
    until: u64, // RecoveryPoint
    timeout: bool,
}

/// A probe of the flight's end that is out (RFC 8985, section 7.1).
#[derive(Clone, Copy, Debug)]
struct TailProbe {
    end: u64,
    number: u64,
    retransmission: bool,
}

/// When paced segments may leave.
#[derive(Clone, Copy, Debug, Default)]
struct Release {
    at: Time,
    /// Segments that may still leave at once.
    burst: u64,
}

/// Counters of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    pub segments: u64,
    pub retransmissions: u64,
    pub tail_probes: u64,
    pub timeouts: u64,
    /// Responses to congestion.
    pub reductions: u64,
}

/// Sends data as fast as its law allows and repairs what gets lost.
///
/// Facts come with non-decreasing `now`. After each, call [`Sender::poll_transmit`] until None.
pub struct Sender {
    config: Config,
    law: Box<dyn CongestionLaw>,
    board: Scoreboard,
    round_trip: RoundTrip,
    segments: u64,
    /// Segments of a stream that end a message short of a full one, with their sizes on IP.
    tails: VecDeque<(u64, Bytes)>,
    window: u64,
    episode: Option<Episode>,
    tail_probe: Option<TailProbe>,
    tail_probe_wanted: bool,
    look_again: Option<Time>,
    /// Start of the retransmission timeout.
    quiet_since: Time,
    last_sent: Time,
    release: Release,
    window_limited: bool,
    counters: SenderCounters,
}

impl Sender {
    #[must_use]
    pub fn new(config: Config, law: Box<dyn CongestionLaw>) -> Self {
        let config = config.in_order();
        Self {
            config,
            law,
            board: Scoreboard::default(),
            round_trip: RoundTrip::default(),
            segments: config.segments(),
            tails: VecDeque::new(),
            window: config.window(),
            episode: None,
            tail_probe: None,
            tail_probe_wanted: false,
            look_again: None,
            quiet_since: Time::ZERO,
            last_sent: Time::ZERO,
            release: Release::default(),
            window_limited: false,
            counters: SenderCounters::default(),
        }
    }

    /// A sender of messages that are written one after the other; until the first there is nothing to send.
    #[must_use]
    pub fn stream(config: Config, law: Box<dyn CongestionLaw>) -> Self {
        Self { segments: 0, ..Self::new(Config { length: None, ..config }, law) }
    }

    /// A message to send after all before it; its last segment may be short. Answers the number after its last segment. Only for
    /// senders made with [`Sender::stream`]: others have no end to write to.
    pub fn write(&mut self, message: Bytes) -> u64 {
        let full = self.config.payload();
        self.segments = self.segments.saturating_add(message.get().div_ceil(full));
        let tail = message.get() % full;
        if tail > 0 {
            self.tails.push_back((self.segments - 1, HEADERS + Bytes::new(tail)));
        }
        self.segments
    }

    /// An acknowledgement arrived. One that acknowledges what was never sent is ignored.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.next > self.board.next() {
            return;
        }
        let before = self.board.in_flight();
        let advanced = ack.next > self.board.first();
        let mut progress = Progress::default();
        self.board.on_cumulative(now, ack.next, &mut progress, &mut *self.law);
        for block in ack.blocks.iter().filter(|block| !block.is_empty()) {
            self.board.on_block(now, *block, &mut progress, &mut *self.law);
        }
        self.learn_round_trip(progress.round_trip);
        while self.tails.pop_front_if(|(number, _)| *number < ack.next).is_some() {}
        if advanced {
            self.round_trip.on_progress();
            self.quiet_since = now;
        }
        if ack.duplicate.is_some() {
            self.board.on_duplicate();
        }
        let delivery = self.board.delivery_rate(&progress);
        self.judge_tail_probe(now, ack);
        if self.episode.is_some_and(|episode| self.board.first() >= episode.until) {
            self.recover(now);
        }
        let (lost, look_again) = self.board.detect_losses(now, self.episode.is_some(), &mut *self.law);
        self.look_again = look_again;
        self.respond(now, lost, ack.marked);
        let sample = AckSample {
            acked: Bytes::new(progress.acked),
            lost: Bytes::new(lost),
            in_flight_before: Bytes::new(before),
            in_flight: Bytes::new(self.board.in_flight()),
            delivered: Bytes::new(self.board.delivered()),
            delivered_when_sent: Bytes::new(progress.delivered_when_sent),
            round_trip: progress.round_trip,
            delivery,
            window_limited: self.window_limited,
            marked: ack.marked,
        };
        self.law.on_ack(now, &sample);
    }

    fn learn_round_trip(&mut self, sample: Option<Span>) {
        let Some(sample) = sample else { return };
        self.round_trip.on_sample(sample);
        let lowest = self.round_trip.lowest().unwrap_or(sample);
        self.board.set_round_trips(lowest, self.round_trip.smoothed().unwrap_or(sample));
    }

    /// RFC 8985, section 7.4.2: a probe that repaired a loss stands for a response to congestion.
    fn judge_tail_probe(&mut self, now: Time, ack: &Ack) {
        let Some(probe) = self.tail_probe.filter(|probe| ack.next >= probe.end) else { return };
        let harmless = !probe.retransmission || ack.duplicate == Some(probe.number);
        if harmless {
            self.tail_probe = None;
        } else if ack.next > probe.end {
            self.tail_probe = None;
            if self.episode.is_none() {
                self.reduce(now, Cause::Loss, 0);
                self.law.on_recovered(now);
                self.episode = None;
            }
        }
    }

    fn recover(&mut self, now: Time) {
        self.episode = None;
        self.board.on_recovered();
        self.law.on_recovered(now);
    }

    fn respond(&mut self, now: Time, lost: u64, marked: bool) {
        if self.episode.is_some() {
            return;
        }
        if lost > 0 {
            self.reduce(now, Cause::Loss, lost);
        } else if marked {
            self.reduce(now, Cause::Mark, 0);
        }
    }

    fn reduce(&mut self, now: Time, cause: Cause, lost: u64) {
        self.counters.reductions += 1;
        self.episode = Some(Episode { until: self.board.next(), timeout: false });
        let in_flight = self.board.in_flight();
        let (flight, in_flight) = (Bytes::new(in_flight + lost), Bytes::new(in_flight));
        self.law.on_loss(now, &Congestion { cause, flight, in_flight });
    }

    /// The next segment to send, if one may leave now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.tail_probe_wanted {
            self.tail_probe_wanted = false;
            if let Some(segment) = self.probe_tail(now) {
                return Some(segment);
            }
        }
        let pacing = self.law.pacing();
        if pacing.is_some() && self.release.burst == 0 && now < self.release.at {
            return None;
        }
        let number = self.next_number()?;
        let size = self.size(number);
        if !self.fits(size) {
            self.window_limited = true;
            return None;
        }
        if let Some(rate) = pacing {
            self.release.account(now, size, rate.time_to_send(size), self.law.burst());
        }
        Some(self.transmit(now, number, size))
    }

    /// Returns the size of a segment on IP.
    fn size(&self, number: u64) -> Bytes {
        let tail = self.tails.binary_search_by_key(&number, |(tail, _)| *tail);
        tail.map_or_else(|_| self.config.size(number), |place| self.tails[place].1)
    }

    fn fits(&self, size: Bytes) -> bool {
        self.board.in_flight() + size.get() <= self.law.window().get()
    }

    /// Lost segments first, then new ones.
    fn next_number(&mut self) -> Option<u64> {
        if let Some(lost) = self.board.next_lost() {
            return Some(lost);
        }
        let next = self.board.next();
        if next < self.segments && next < self.board.first() + self.window {
            return Some(next);
        }
        self.window_limited = false;
        if next >= self.segments {
            self.board.on_app_limited();
        }
        None
    }

    fn transmit(&mut self, now: Time, number: u64, size: Bytes) -> Segment {
        let retransmission = number < self.board.next();
        if number == self.board.first() || self.board.in_flight() == 0 {
            self.quiet_since = now;
        }
        self.board.on_sent(now, number, size);
        self.law.on_sent(now, size, Bytes::new(self.board.in_flight()));
        self.last_sent = now;
        self.counters.segments += 1;
        self.counters.retransmissions += u64::from(retransmission);
        Segment { number, size, retransmission }
    }

    /// RFC 8985, section 7.3: new data if there is any, else the last segment again, whatever the window says.
    fn probe_tail(&mut self, now: Time) -> Option<Segment> {
        let next = self.board.next();
        let new = next < self.segments && next < self.board.first() + self.window;
        let number = if new { next } else { next.checked_sub(1).filter(|&last| last >= self.board.first())? };
        let segment = self.transmit(now, number, self.size(number));
        self.quiet_since = now;
        self.counters.tail_probes += 1;
        self.tail_probe = Some(TailProbe { end: self.board.next(), number, retransmission: !new });
        Some(segment)
    }

    /// A time that [`Sender::poll_timeout`] named has come.
    pub fn on_timeout(&mut self, now: Time) {
        if self.look_again.is_some_and(|at| at <= now) {
            let (lost, look_again) = self.board.detect_losses(now, self.episode.is_some(), &mut *self.law);
            self.look_again = look_again;
            self.respond(now, lost, false);
        }
        match self.silence() {
            Some((at, FlowWake::TailProbe)) if at <= now => self.tail_probe_wanted = true,
            Some((at, _)) if at <= now => self.give_up_flight(now),
            _ => {}
        }
    }

    fn give_up_flight(&mut self, now: Time) {
        let flight = self.board.in_flight();
        // A timeout of a retransmission after a timeout does not reduce the window again (RFC 5681, section 3.1).
        if self.round_trip.backoff() == 0 || self.episode.is_none_or(|episode| !episode.timeout) {
            self.law.on_timeout(now, Bytes::new(flight));
        }
        self.counters.timeouts += 1;
        self.round_trip.on_timeout();
        self.board.lose_all();
        self.episode = Some(Episode { until: self.board.next(), timeout: true });
        self.tail_probe = None;
        self.tail_probe_wanted = false;
        self.look_again = None;
        self.quiet_since = now;
        self.release = Release { at: now, burst: 0 };
    }

    /// When silence will have lasted for too long.
    fn silence(&self) -> Option<(Time, FlowWake)> {
        if self.board.in_flight() == 0 && !self.board.has_lost() {
            return None;
        }
        let timeout = self.quiet_since + self.round_trip.timeout();
        let undisturbed = self.episode.is_none() && !self.board.has_gaps() && self.tail_probe.is_none();
        if !undisturbed || self.tail_probe_wanted {
            return Some((timeout, FlowWake::Timeout));
        }
        let lone = self.board.next() == self.board.first() + 1;
        let wait = self
            .round_trip
            .smoothed()
            .map_or(INITIAL_PROBE_TIMEOUT, |smoothed| smoothed * 2 + if lone { MAX_ACK_DELAY } else { Span::ZERO });
        let probe = self.last_sent.max(self.quiet_since) + wait;
        // A time-out that would come first is a probe instead: it costs less if the silence is only a delay.
        Some((probe.min(timeout), FlowWake::TailProbe))
    }

    /// When to call next, unless an acknowledgement comes first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        let silence = self.silence();
        let look_again = self.look_again.map(|at| (at, FlowWake::Reordered));
        let pace = (self.law.pacing().is_some() && self.has_work()).then_some((self.release.at, FlowWake::Pace));
        sooner(sooner(silence, look_again), pace)
    }

    /// Something could leave if the pacing rate allowed it.
    fn has_work(&self) -> bool {
        let next = self.board.next();
        let new = next < self.segments && next < self.board.first() + self.window;
        (new || self.board.has_lost()) && self.fits(self.config.packet)
    }

    /// All data has been acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.board.first() >= self.segments
    }

    #[must_use]
    pub fn law(&self) -> &dyn CongestionLaw {
        &*self.law
    }

    #[must_use]
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    #[must_use]
    pub fn smoothed_round_trip(&self) -> Option<Span> {
        self.round_trip.smoothed()
    }

    /// Sent, neither acknowledged nor counted as lost.
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.board.in_flight())
    }

    /// The first segment that is not acknowledged.
    #[must_use]
    pub fn first_unacknowledged(&self) -> u64 {
        self.board.first()
    }

    /// Records in memory: bounded by the receive window, and for a stream by what its caller writes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.board.held() + self.tails.len()
    }
}

impl Release {
    /// A segment leaves: the next burst waits until this one is paid for at the pacing rate.
    fn account(&mut self, now: Time, size: Bytes, time: Span, burst: Bytes) {
        if self.burst == 0 {
            self.burst = burst.get().max(size.get());
            // Idle time earns no credit.
            self.at = self.at.max(now);
        }
        self.burst = self.burst.saturating_sub(size.get());
        self.at += time;
    }
}
