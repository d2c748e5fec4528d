//! The user's input at the server: the newest state of all devices, and each event once.

use nearlight_units::{Span, Time};
use nearlight_wire::{Devices, HandJoints, HandSample, InputAcknowledgement, InputEvent, InputSample};

use crate::receiver::input_sampler::{place, released};

/// Maximum number of events that are not fetched, more than a client stores. The oldest are dropped first.
const MAX_EVENTS: usize = 1_024;
/// Maximum number of unreliable messages that are not fetched. Further ones are dropped.
const MAX_MESSAGES: usize = 64;
/// A pressed key counts as released this long after the last sample from its client, which repeats it every 200 ms: a key must not outlive
/// the connection that reported it. Wireless links freeze for up to 3 s when they change cells; what is held then must stay held, or a
/// shortcut or a drag would break in two.
const RELEASE_TIMEOUT: Span = Span::from_secs(4);

/// The newest state, and the events since the last fetch.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedInput {
    /// The sample. Its new events are in `events` as well.
    pub sample: InputSample,
    /// When the sample arrived, on the server's clock.
    pub received_at: Time,
    /// New events in order, each handed out once.
    pub events: Vec<InputEvent>,
    /// The left and the right hand, if their joints are tracked.
    pub hands: [Option<HandJoints>; 2],
    /// Application messages, as they arrived: some may be missing or duplicated.
    pub messages: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    newest: Option<(Time, InputSample)>,
    heard_at: Time,
    hands: [Option<HandSample>; 2],
    /// Number of the first event that has not arrived.
    next_event: u32,
    events: Vec<InputEvent>,
    /// Whether something has arrived since the last fetch.
    changed: bool,
    /// What was held when a timeout released everything, until the client is heard again.
    held_before_silence: Option<Devices>,
    acknowledgement: Option<InputAcknowledgement>,
    messages: Vec<Vec<u8>>,
}

impl Inbox {
    /// Handles a sample. Returns whether it is newer than all before it.
    pub(crate) fn on_sample(&mut self, now: Time, mut sample: InputSample) -> bool {
        self.heard_at = now;
        let newer = self.newest.as_ref().is_none_or(|(_, newest)| sample.seq > newest.seq);
        let current = self.newest.as_ref().is_none_or(|(_, newest)| sample.seq >= newest.seq);
        let mut events = std::mem::take(&mut sample.events);
        if !events.is_empty() {
            // Samples repeat what has not been acknowledged: events below this range are known, and the client has given up events
            // in a gap.
            let end = sample.first_event.wrapping_add(events.len() as u32);
            let known = self.next_event.saturating_sub(sample.first_event) as usize;
            events.drain(..known.min(events.len()));
            self.next_event = self.next_event.max(end);
            self.acknowledgement = Some(InputAcknowledgement { seq: sample.seq });
        }
        self.changed |= !events.is_empty();
        let held_before = if current { self.held_before_silence.take() } else { None };
        let heard_again = held_before.is_some();
        self.events.extend(match held_before {
            Some(held) => resume(&held, events, &sample.devices),
            None => events,
        });
        let excess = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..excess);
        if newer || heard_again {
            for (hand, tracked) in self.hands.iter_mut().zip(sample.devices.hands) {
                if !tracked && hand.as_ref().is_some_and(|known| known.seq <= sample.seq) {
                    *hand = None;
                }
            }
            self.newest = Some((now, sample));
            self.changed = true;
        }
        newer
    }

    /// Stores the newest joints of each hand.
    pub(crate) fn on_hand(&mut self, now: Time, sample: HandSample) {
        self.heard_at = now;
        let Some(place) = place(sample.joints.hand) else { return };
        let gone =
            self.newest.as_ref().is_some_and(|(_, newest)| newest.seq > sample.seq && !newest.devices.hands[place]);
        let known = self.hands[place].as_ref();
        if !gone && known.is_none_or(|known| known.seq < sample.seq) {
            self.hands[place] = Some(sample);
            self.changed = true;
        }
    }

    /// Handles a message, which is delivered only once the first sample has arrived.
    pub(crate) fn on_message(&mut self, data: Vec<u8>) {
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(data);
            self.changed |= self.newest.is_some();
        }
    }

    /// Returns the state, if anything has arrived since the last call, or nothing for so long that everything counts as released.
    pub(crate) fn poll(&mut self, now: Time) -> Option<ReceivedInput> {
        let (received_at, sample) = self.newest.as_mut()?;
        if now.saturating_since(self.heard_at) > RELEASE_TIMEOUT && sample.devices.holds_anything() {
            let devices: Devices = released(&sample.devices);
            self.events.extend(devices.changes_from(&sample.devices));
            self.held_before_silence = Some(std::mem::replace(&mut sample.devices, devices));
            self.changed = true;
        }
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let hands = [0, 1].map(|place| self.hands[place].as_ref().map(|hand| hand.joints.clone()));
        let (received_at, sample) = (*received_at, sample.clone());
        let (events, messages) = (std::mem::take(&mut self.events), std::mem::take(&mut self.messages));
        Some(ReceivedInput { sample, received_at, events, hands, messages })
    }

    /// Returns the acknowledgement of received events for the client.
    pub(crate) fn poll_acknowledgement(&mut self) -> Option<InputAcknowledgement> {
        self.acknowledgement.take()
    }
}

/// Returns the events by which a client that is heard again gets back what the timeout released: `events` are its new ones, `devices` is its
/// state after them. Modifiers go down first if keys follow, because shortcuts depend on them. Other keys type, so they are pressed only
/// if they are still down.
fn resume(held: &Devices, events: Vec<InputEvent>, devices: &Devices) -> Vec<InputEvent> {
    let presses = events.iter().any(|event| matches!(event, InputEvent::Key { pressed: true, .. }));
    let modifiers = held.keys.iter().filter(|key| presses && key.is_modifier());
    let mut all: Vec<_> = modifiers.map(|key| InputEvent::Key { key: *key, pressed: true }).collect();
    all.extend(events);
    let mut state = released(held);
    for event in &all {
        state.apply(event);
    }
    all.extend(devices.changes_from(&state));
    all
}

#[cfg(test)]
mod tests;
