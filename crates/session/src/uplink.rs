//! The user's movements on their way to the server: the newest sample wins, actions are repeated until they are acknowledged.

use std::collections::VecDeque;

use nearlight_units::{InputSeq, Time};
use nearlight_wire::{Action, Hand, HandPose, InputEvent, InputSample, MAX_INPUT_EVENTS, Pose, View};

/// Samples whose time is remembered for motion-to-photon: 4 s at 240 a second.
const REMEMBERED: usize = 1_024;

/// Where the user is.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    pub head: Pose,
    /// One for a screen, two for a headset, left first.
    pub views: Vec<View>,
    /// At most two.
    pub hands: Vec<HandPose>,
}

#[derive(Debug, Default)]
pub(crate) struct Uplink {
    newest: InputSeq,
    presence: Option<Presence>,
    unsent: Option<Time>,
    unacknowledged: VecDeque<InputEvent>,
    sampled_at: VecDeque<(InputSeq, Time)>,
}

impl Uplink {
    pub(crate) fn on_presence(&mut self, at: Time, presence: Presence) -> InputSeq {
        self.presence = Some(presence);
        self.number(at)
    }

    /// None before the first presence, for the server could not say where the user acts.
    pub(crate) fn on_action(&mut self, at: Time, hand: Hand, action: Action) -> Option<InputSeq> {
        self.presence.as_ref()?;
        let seq = self.number(at);
        if self.unacknowledged.len() == MAX_INPUT_EVENTS {
            // Nothing has been acknowledged for so long that the oldest action no longer means what the user meant.
            self.unacknowledged.pop_front();
        }
        self.unacknowledged.push_back(InputEvent { seq, hand, action });
        Some(seq)
    }

    fn number(&mut self, at: Time) -> InputSeq {
        self.newest = self.newest.next();
        self.sampled_at.push_back((self.newest, at));
        if self.sampled_at.len() > REMEMBERED {
            self.sampled_at.pop_front();
        }
        self.unsent = Some(at);
        self.newest
    }

    pub(crate) fn poll_sample(&mut self) -> Option<InputSample> {
        let sampled_at = self.unsent.take()?;
        let presence = self.presence.clone()?;
        Some(InputSample {
            seq: self.newest,
            sampled_at,
            head: presence.head,
            views: presence.views,
            hands: presence.hands,
            events: self.unacknowledged.iter().copied().collect(),
        })
    }

    /// A frame shows everything up to `seq`.
    pub(crate) fn on_acknowledged(&mut self, seq: InputSeq) {
        while self.unacknowledged.front().is_some_and(|event| event.seq <= seq) {
            self.unacknowledged.pop_front();
        }
    }

    /// An action is on its way and not acknowledged: the sample is worth repeating.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        !self.unacknowledged.is_empty()
    }

    /// Makes the newest sample leave again.
    pub(crate) fn set_repeat(&mut self) {
        if let Some((_, at)) = self.sampled_at.back() {
            self.unsent = Some(*at);
        }
    }

    /// When the user made the input `seq`.
    pub(crate) fn sampled_at(&self, seq: InputSeq) -> Option<Time> {
        let index = self.sampled_at.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(self.sampled_at[index].1)
    }

    /// Inputs after `after` up to and including `to`, with their moments.
    pub(crate) fn between(&self, after: InputSeq, to: InputSeq) -> impl Iterator<Item = (InputSeq, Time)> + '_ {
        let place = |after: InputSeq| self.sampled_at.partition_point(|(seq, _)| *seq <= after);
        let (first, end) = (place(after), place(to));
        self.sampled_at.range(first.min(end)..end).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> Presence {
        Presence { head: Pose::default(), views: Vec::new(), hands: Vec::new() }
    }

    #[test]
    fn an_action_rides_on_every_sample_until_it_is_acknowledged() {
        let mut uplink = Uplink::default();
        assert_eq!(uplink.on_action(Time::ZERO, Hand::Gaze, Action::Push), None);
        uplink.on_presence(Time::from_millis(1), presence());
        let seq = uplink.on_action(Time::from_millis(2), Hand::Gaze, Action::Push).expect("present");
        assert_eq!(uplink.poll_sample().expect("new").events.len(), 1);
        assert_eq!(uplink.poll_sample(), None);
        uplink.on_presence(Time::from_millis(3), presence());
        assert_eq!(uplink.poll_sample().expect("new").events[0].seq, seq);
        uplink.on_acknowledged(seq);
        uplink.on_presence(Time::from_millis(4), presence());
        assert!(uplink.poll_sample().expect("new").events.is_empty());
    }

    #[test]
    fn memory_stays_bounded_without_acknowledgement() {
        let mut uplink = Uplink::default();
        for step in 0..10_000 {
            uplink.on_presence(Time::from_millis(step), presence());
            uplink.on_action(Time::from_millis(step), Hand::Gaze, Action::Push);
        }
        assert!(uplink.sampled_at.len() <= REMEMBERED && uplink.unacknowledged.len() <= MAX_INPUT_EVENTS);
    }
}
