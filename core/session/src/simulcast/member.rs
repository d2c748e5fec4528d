//! One viewer of shared pictures.

use nearlight_units::{Bitrate, Span, Time};

use crate::capture::schedule::SkipReason;

/// A rate increase counts once it has lasted for one to two of these intervals.
const RATE_INTERVAL: Span = Span::from_secs(1);
/// A pacer's queue that is too long for this time is not due to a key frame, which leaves sooner, but to a path that does not carry the
/// layer.
const MAX_QUEUE_TIME: Span = Span::from_millis(250);
/// Minimum time between key frames that one viewer requests: the initial value, doubled each time that it soon requests again, and the
/// maximum. Guess: others notice it only now and then.
const INITIAL_REQUEST_DISTANCE: Span = Span::from_secs(1);
const MAX_REQUEST_DISTANCE: Span = Span::from_secs(8);
/// A viewer counts as healthy again this long after its last request.
const RECOVERY_TIME: Span = Span::from_secs(15);
/// The fraction of a layer's rate, and of the picture's sides, that a viewer gets after its decoder was behind.
const RELIEF_SHARE: f64 = 0.5;
/// How long that lasts. Guess: longer than typical stalls of a phone's decoder.
const RELIEF_TIME: Span = Span::from_secs(10);

/// Identifies a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u32);

/// The state of a viewer's session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberFacts {
    /// The rate of its encoder, if it had one of its own ([`crate::Sender::encoder_target`]).
    pub rate: Bitrate,
    /// Fraction of each side and of the frame rate that its controller's step allows. 1 if it has no steps.
    pub scale: f64,
    pub frame_rate: f64,
    /// Whether it needs a key frame, and none has been sent to it since it requested one.
    pub key: bool,
    /// Why it would skip a frame ([`crate::MediaTarget::refusal`]).
    pub refusal: Option<SkipReason>,
    /// Whether nothing of an encoder of its own is on its way, so that a layer's frames can follow.
    pub is_ready: bool,
}

#[derive(Clone, Debug)]
pub(super) struct MemberState {
    pub(super) facts: MemberFacts,
    /// The layer that the layout gives it, since when, and the layer that it gets.
    pub(super) wanted: Option<usize>,
    pub(super) wanted_at: Time,
    pub(super) joined: Option<usize>,
    /// The lowest rate of the previous interval and of this one, and when this one began.
    lowest: [Bitrate; 2],
    interval_at: Time,
    /// Its decoder was behind: it gets no more than this rate until this time.
    relief: Option<(Bitrate, Time)>,
    queued_since: Option<Time>,
    /// When it may request a key frame again, and the current distance between its requests.
    ask_at: Time,
    distance: Span,
}

impl MemberState {
    pub(super) fn new(now: Time, facts: MemberFacts) -> Self {
        Self {
            facts,
            wanted: None,
            wanted_at: now,
            joined: None,
            lowest: [facts.rate; 2],
            interval_at: now,
            relief: None,
            queued_since: None,
            ask_at: Time::ZERO,
            distance: INITIAL_REQUEST_DISTANCE,
        }
    }

    /// Updates its facts. `layer` is the rate of the layer that it gets.
    pub(super) fn set_facts(&mut self, now: Time, facts: MemberFacts, layer: Option<Bitrate>) {
        self.facts = facts;
        if now - self.interval_at >= RATE_INTERVAL {
            self.lowest = [self.lowest[1], facts.rate];
            self.interval_at = now;
        }
        self.lowest[1] = self.lowest[1].min(facts.rate);
        let queued = facts.refusal == Some(SkipReason::PacerQueue);
        self.queued_since = queued.then(|| self.queued_since.unwrap_or(now));
        self.relief = self.relief.filter(|(_, until)| now < *until);
        if let (Some(SkipReason::DecoderBehind), Some(layer), None) = (facts.refusal, layer, self.relief) {
            self.relief = Some((layer.mul_f64(RELIEF_SHARE), now + RELIEF_TIME));
        }
    }

    /// The rate at which it may be sent to now.
    pub(super) fn rate(&self) -> Bitrate {
        self.relief.map_or(self.facts.rate, |(most, _)| most.min(self.facts.rate))
    }

    /// The rate that it could sustain.
    pub(super) fn lasting_rate(&self) -> Bitrate {
        self.lowest[0].min(self.lowest[1]).min(self.rate())
    }

    pub(super) fn max_scale(&self) -> f64 {
        if self.relief.is_some() { self.facts.scale.min(RELIEF_SHARE) } else { self.facts.scale }
    }

    pub(super) const fn is_waiting_for_its_encoder(&self) -> bool {
        self.joined.is_none() && !self.facts.is_ready
    }

    /// Whether it can continue with a key frame of its assigned layer.
    pub(super) fn can_join(&self, now: Time) -> bool {
        (self.joined.is_some() || self.facts.is_ready) && self.blocked(now).is_none()
    }

    pub(super) fn may_ask(&self, now: Time) -> bool {
        now >= self.ask_at
    }

    pub(super) fn lose_chain(&mut self, now: Time) {
        if self.joined.take().is_some() {
            self.wanted_at = now;
        }
    }

    pub(super) fn join(&mut self, now: Time, slot: usize) {
        // A change of layers is the layout's decision, not its own request.
        let asked = self.joined.is_none();
        self.joined = Some(slot);
        self.on_key_frame(now, asked);
    }

    /// Records a key frame that is sent to it, which it may have requested.
    pub(super) fn on_key_frame(&mut self, now: Time, asked: bool) {
        if !asked {
            return;
        }
        let healthy = now - self.ask_at >= RECOVERY_TIME;
        self.distance = if healthy { INITIAL_REQUEST_DISTANCE } else { (self.distance * 2).min(MAX_REQUEST_DISTANCE) };
        self.ask_at = now + self.distance;
    }

    /// Why it gets no frame now, if it gets none.
    pub(super) fn blocked(&self, now: Time) -> Option<SkipReason> {
        let reason = self.facts.refusal?;
        let blocked = match reason {
            SkipReason::PathBlocked => true,
            SkipReason::PacerQueue => self.queued_since.is_some_and(|since| now - since >= MAX_QUEUE_TIME),
            _ => false,
        };
        blocked.then_some(reason)
    }
}
