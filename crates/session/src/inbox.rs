//! What the user did, as the server takes it: only the newest sample, and each action once.

use nearlight_units::{InputSeq, Time};
use nearlight_wire::{InputEvent, InputSample, MAX_INPUT_EVENTS};

/// Actions that nobody fetches are dropped, oldest first: a second's worth of a very busy user.
const MAX_ACTIONS: usize = 4 * MAX_INPUT_EVENTS;

/// The newest sample and the actions since the last one that was fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedInput {
    pub sample: InputSample,
    /// When the sample came, on the server's clock.
    pub received_at: Time,
    /// New actions, each handed out once.
    pub actions: Vec<InputEvent>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    newest: InputSeq,
    waiting: Option<(Time, InputSample)>,
    actions: Vec<InputEvent>,
}

impl Inbox {
    /// Answers whether it is newer than all before it.
    pub(crate) fn on_sample(&mut self, now: Time, sample: InputSample) -> bool {
        // A sample carries all unacknowledged actions, so everything up to the newest sample has been seen with it.
        let new = sample.events.iter().filter(|event| event.seq > self.newest && event.seq <= sample.seq).copied();
        self.actions.extend(new);
        let excess = self.actions.len().saturating_sub(MAX_ACTIONS);
        self.actions.drain(..excess);
        let newer = sample.seq > self.newest;
        if newer {
            self.newest = sample.seq;
            self.waiting = Some((now, sample));
        }
        newer
    }

    pub(crate) fn poll(&mut self) -> Option<ReceivedInput> {
        let (received_at, sample) = self.waiting.take()?;
        Some(ReceivedInput { sample, received_at, actions: std::mem::take(&mut self.actions) })
    }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::{Action, Fov, Hand, Pose, View};

    use super::*;

    fn sample(seq: u32, events: &[u32]) -> InputSample {
        let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) };
        let event = |seq: &u32| InputEvent { seq: InputSeq(*seq), hand: Hand::Gaze, action: Action::Push };
        InputSample {
            seq: InputSeq(seq),
            sampled_at: Time::ZERO,
            head: Pose::default(),
            views: vec![view],
            hands: Vec::new(),
            events: events.iter().map(event).collect(),
        }
    }

    #[test]
    fn the_newest_pose_wins_and_each_action_is_handed_out_once() {
        let mut inbox = Inbox::default();
        inbox.on_sample(Time::from_millis(1), sample(3, &[2, 3]));
        inbox.on_sample(Time::from_millis(2), sample(1, &[]));
        inbox.on_sample(Time::from_millis(3), sample(5, &[2, 3, 4]));
        let input = inbox.poll().expect("waiting");
        assert_eq!((input.sample.seq, input.received_at), (InputSeq(5), Time::from_millis(3)));
        assert_eq!(input.actions.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [2, 3, 4]);
        inbox.on_sample(Time::from_millis(4), sample(6, &[4]));
        assert!(inbox.poll().expect("waiting").actions.is_empty());
        assert_eq!(inbox.poll(), None);
    }
}
