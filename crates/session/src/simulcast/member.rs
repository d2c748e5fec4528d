//! One viewer of pictures that several get.

use nearlight_units::{Bitrate, Span, Time};

use crate::capture_schedule::SkipReason;

/// A rate counts upwards once it has lasted for one to two of these.
const LASTING: Span = Span::from_secs(1);
/// A pacer's queue that is too long for this long is not a key frame's, which leaves in less, but a path that does not carry the layer.
const QUEUE_PATIENCE: Span = Span::from_millis(250);
/// Key frames that one viewer asks for are so far apart at first, and twice as far each time that it asks again soon, up to the longest.
/// Guess: what others notice at most now and then.
const FIRST_DISTANCE: Span = Span::from_secs(1);
const LONGEST_DISTANCE: Span = Span::from_secs(8);
/// So long after its last request a viewer counts as healthy again.
const FORGIVEN: Span = Span::from_secs(15);
/// Of a layer's rate what a viewer is given whose decoder was behind, and of the picture's sides.
const RELIEF: f64 = 0.5;
/// How long that lasts. Guess: longer than what makes a phone's decoder stall.
const RELIEF_TIME: Span = Span::from_secs(10);

/// Names a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u32);

/// What a viewer's session says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberFacts {
    /// What its encoder would be given ([`crate::Sender::encoder_target`]).
    pub rate: Bitrate,
    /// Share of each side and of the frame rate that its controller's step allows; 1 where it has no steps.
    pub scale: f64,
    pub frame_rate: f64,
    /// It needs a key frame, and none has gone to it since it says so.
    pub key: bool,
    /// Why it would leave a frame out ([`crate::Sender::refusal`]).
    pub refusal: Option<SkipReason>,
    /// Nothing of an encoder of its own is on its way, so that a layer's frames can follow.
    pub is_ready: bool,
}

#[derive(Clone, Debug)]
pub(super) struct MemberState {
    pub(super) facts: MemberFacts,
    /// The layer that the layout gives it, since when, and the one that it gets.
    pub(super) wanted: Option<usize>,
    pub(super) wanted_at: Time,
    pub(super) joined: Option<usize>,
    /// The lowest rate of the interval before, of this one, and when this one began.
    lowest: [Bitrate; 2],
    interval_at: Time,
    /// Its decoder was behind: it gets no more than this until then.
    relief: Option<(Bitrate, Time)>,
    queued_since: Option<Time>,
    /// When it may ask for a key frame again, and how far apart its requests are now.
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
            distance: FIRST_DISTANCE,
        }
    }

    /// `layer` is the rate of the layer that it gets.
    pub(super) fn set_facts(&mut self, now: Time, facts: MemberFacts, layer: Option<Bitrate>) {
        self.facts = facts;
        if now - self.interval_at >= LASTING {
            self.lowest = [self.lowest[1], facts.rate];
            self.interval_at = now;
        }
        self.lowest[1] = self.lowest[1].min(facts.rate);
        let queued = facts.refusal == Some(SkipReason::PacerQueue);
        self.queued_since = queued.then(|| self.queued_since.unwrap_or(now));
        self.relief = self.relief.filter(|(_, until)| now < *until);
        if let (Some(SkipReason::DecoderBehind), Some(layer), None) = (facts.refusal, layer, self.relief) {
            self.relief = Some((layer.mul_f64(RELIEF), now + RELIEF_TIME));
        }
    }

    /// What it may be sent now.
    pub(super) fn rate(&self) -> Bitrate {
        self.relief.map_or(self.facts.rate, |(most, _)| most.min(self.facts.rate))
    }

    /// What it could be sent for some time.
    pub(super) fn lasting_rate(&self) -> Bitrate {
        self.lowest[0].min(self.lowest[1]).min(self.rate())
    }

    pub(super) fn largest_scale(&self) -> f64 {
        if self.relief.is_some() { self.facts.scale.min(RELIEF) } else { self.facts.scale }
    }

    pub(super) const fn is_waiting_for_its_encoder(&self) -> bool {
        self.joined.is_none() && !self.facts.is_ready
    }

    /// It can go on with a key frame of the layer that it is to get.
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
        // A change of layers is the layout's wish, not its own.
        let asked = self.joined.is_none();
        self.joined = Some(slot);
        self.on_key_frame(now, asked);
    }

    /// A key frame goes to it, which it may have asked for.
    pub(super) fn on_key_frame(&mut self, now: Time, asked: bool) {
        if !asked {
            return;
        }
        let healthy = now - self.ask_at >= FORGIVEN;
        self.distance = if healthy { FIRST_DISTANCE } else { (self.distance * 2).min(LONGEST_DISTANCE) };
        self.ask_at = now + self.distance;
    }

    /// Why it gets no frame now, if it gets none.
    pub(super) fn blocked(&self, now: Time) -> Option<SkipReason> {
        let reason = self.facts.refusal?;
        let blocked = match reason {
            SkipReason::PathBlocked => true,
            SkipReason::PacerQueue => self.queued_since.is_some_and(|since| now - since >= QUEUE_PATIENCE),
            _ => false,
        };
        blocked.then_some(reason)
    }
}
