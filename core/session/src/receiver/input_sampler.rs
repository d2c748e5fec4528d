//! The user's movements and devices on their way to the server: the newest sample wins, and events are repeated until acknowledged.

use std::collections::VecDeque;

use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{
    Controller, Devices, Gamepad, Hand, HandJoints, HandSample, InputEvent, InputSample, Key, MAX_EVENT_BYTES,
    MAX_INPUT_EVENTS, MAX_KEYS, Pointer, Pose, Touch, View,
};

/// Number of samples whose time is remembered for motion-to-photon: 4 s at 240 a second.
const MAX_REMEMBERED_SAMPLES: usize = 1_024;
/// With [`InputSampler::set_sparse`], an unchanged presence is sent in this many samples in a row, in case they are lost, then at this
/// interval, so that the server knows that the client is alive. Guesses: a tenth of the second after which a server may give a silent
/// client's place away, and three losses in a row are rare.
const MAX_UNCHANGED_SAMPLES: u32 = 3;
const UNCHANGED_INTERVAL: Span = Span::from_millis(100);
/// Maximum number of unacknowledged events. Guess: a busy user's input of ten seconds. After a longer interruption it is obsolete, and the
/// state in every sample is still correct.
const MAX_WAITING: usize = 256;
/// Maximum number of unacknowledged presses and repeats of one key, beyond which its repeats are dropped: a user who holds a key over an
/// interrupted path wants no burst of repeats afterwards. Guess: a quarter of a second of a keyboard that repeats 30 times a second.
const MAX_WAITING_REPEATS: usize = 8;

/// The user's pose, and what the user points with.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    pub head: Pose,
    /// The views: one for a screen, two for a headset, left first.
    pub views: Vec<View>,
    /// The pose of the gaze, if the user allows it.
    pub gaze: Option<Pose>,
    /// The controllers, at most one for each hand.
    pub controllers: Vec<Controller>,
}

impl Presence {
    /// Makes the presence of a user without controllers.
    #[must_use]
    pub const fn of_views(head: Pose, views: Vec<View>) -> Self {
        Self { head, views, gaze: None, controllers: Vec::new() }
    }
}

/// Input from one of the user's devices.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceInput {
    Key {
        key: Key,
        pressed: bool,
    },
    /// The user's system repeats a key that is down, which types `text`. A key that was reported as released meanwhile, because its release
    /// will not be reported, is pressed and released.
    KeyRepeat {
        key: Key,
        text: String,
    },
    /// What the next press of a key means in the user's layout, for keys that are commands and type no text.
    KeyCharacter {
        key: Key,
        character: char,
    },
    /// Text typed by keys or an input method.
    Text(String),
    /// The pointer's state. None without a pointer.
    Pointer(Option<Pointer>),
    /// All fingers.
    Touches(Vec<Touch>),
    /// All gamepads.
    Gamepads(Vec<Gamepad>),
    /// A hand's joints.
    Joints(Box<HandJoints>),
    /// This hand is no longer tracked.
    JointsGone(Hand),
    /// The user's focus has moved elsewhere: everything held counts as released.
    ReleaseAll,
}

#[derive(Clone, Copy, Debug)]
struct SampleRecord {
    seq: InputSeq,
    at: Time,
    /// The number after the last event in the first datagram of this sample. None before it left.
    events: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct InputSampler {
    newest: InputSeq,
    presence: Option<(Pose, Vec<View>)>,
    devices: Devices,
    /// Whether samples without news are rare.
    sparse: bool,
    /// Number of samples without news in a row.
    unchanged: u32,
    unsent: Option<Time>,
    unsent_hands: [Option<Box<HandJoints>>; 2],
    /// Unacknowledged events.
    events: VecDeque<InputEvent>,
    /// Number of the first of them.
    first_event: u32,
    samples: VecDeque<SampleRecord>,
}

impl InputSampler {
    pub(crate) fn on_presence(&mut self, at: Time, presence: Presence) -> InputSeq {
        let Presence { head, views, gaze, controllers } = presence;
        let presence = Some((head, views));
        let devices = Devices { gaze, controllers, ..self.devices.clone() };
        let is_still = self.events.is_empty() && self.presence == presence && self.devices == devices;
        if is_still && self.unchanged >= MAX_UNCHANGED_SAMPLES && self.sparse {
            let newest = self.samples.back().map(|sample| sample.at);
            if newest.is_some_and(|newest| at - newest < UNCHANGED_INTERVAL) {
                return self.newest;
            }
        }
        self.unchanged = if is_still { self.unchanged.saturating_add(1) } else { 0 };
        self.presence = presence;
        self.set_devices(devices);
        self.number(at)
    }

    /// Makes samples without news rare, because the pictures are not rendered for the user's pose.
    pub(crate) fn set_sparse(&mut self) {
        self.sparse = true;
    }

    /// Handles a device's input. None before the first presence, because the server could not tell where the user acts.
    pub(crate) fn on_device(&mut self, at: Time, input: DeviceInput) -> Option<InputSeq> {
        self.presence.as_ref()?;
        let mut devices = self.devices.clone();
        match input {
            DeviceInput::Key { key, pressed } => {
                devices.keys.retain(|held| *held != key);
                if pressed {
                    devices.keys.truncate(MAX_KEYS - 1);
                    devices.keys.push(key);
                }
            }
            DeviceInput::KeyRepeat { key, text } => self.repeat_key(key, &text),
            DeviceInput::KeyCharacter { character, .. } if character.is_control() => {}
            DeviceInput::KeyCharacter { key, character } => {
                self.events.push_back(InputEvent::KeyCharacter { key, character });
            }
            DeviceInput::Text(text) => self.events.extend(InputEvent::typed(&text)),
            DeviceInput::Pointer(pointer) => devices.pointer = pointer,
            DeviceInput::Touches(touches) => devices.touches = touches,
            DeviceInput::Gamepads(gamepads) => devices.gamepads = gamepads,
            DeviceInput::Joints(joints) => {
                let place = place(joints.hand)?;
                devices.hands[place] = true;
                self.unsent_hands[place] = Some(joints);
            }
            DeviceInput::JointsGone(hand) => {
                let place = place(hand)?;
                devices.hands[place] = false;
                self.unsent_hands[place] = None;
            }
            DeviceInput::ReleaseAll => devices = released(&devices),
        }
        self.set_devices(devices);
        Some(self.number(at))
    }

    /// Modifiers do not repeat: they would only be pressed again.
    fn repeat_key(&mut self, key: Key, text: &str) {
        let is_press = |event: &&InputEvent| match event {
            InputEvent::Key { key: known, pressed: true } | InputEvent::KeyRepeated { key: known } => *known == key,
            _ => false,
        };
        if key.is_modifier() || self.events.iter().filter(is_press).count() >= MAX_WAITING_REPEATS {
            return;
        }
        if self.devices.keys.contains(&key) {
            self.events.push_back(InputEvent::KeyRepeated { key });
            self.events.extend(InputEvent::typed(text));
        } else {
            self.events.push_back(InputEvent::Key { key, pressed: true });
            self.events.extend(InputEvent::typed(text));
            self.events.push_back(InputEvent::Key { key, pressed: false });
        }
    }

    fn set_devices(&mut self, devices: Devices) {
        self.events.extend(devices.changes_from(&self.devices));
        self.devices = devices;
        while self.events.len() > MAX_WAITING {
            self.events.pop_front();
            self.first_event = self.first_event.wrapping_add(1);
        }
    }

    fn number(&mut self, at: Time) -> InputSeq {
        self.newest = self.newest.next();
        self.samples.push_back(SampleRecord { seq: self.newest, at, events: None });
        if self.samples.len() > MAX_REMEMBERED_SAMPLES {
            self.samples.pop_front();
        }
        self.unsent = Some(at);
        self.newest
    }

    pub(crate) fn poll_sample(&mut self) -> Option<InputSample> {
        let sampled_at = self.unsent.take()?;
        let (head, views) = self.presence.clone()?;
        let mut room = MAX_EVENT_BYTES;
        let mut fits = |event: &&InputEvent| {
            let left = room.checked_sub(event.bytes());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let mut events: Vec<_> =
            self.events.iter().take(MAX_INPUT_EVENTS).take_while(|event| fits(event)).cloned().collect();
        // A key and what it types belong together: without the text, the key would type the character of the server's layout.
        let types = |event: &InputEvent| {
            matches!(event, InputEvent::Key { pressed: true, .. } | InputEvent::KeyRepeated { .. })
        };
        if matches!(self.events.get(events.len()), Some(InputEvent::Text(_))) && events.last().is_some_and(types) {
            events.pop();
        }
        let end = self.first_event.wrapping_add(events.len() as u32);
        // A repeated sample that carries later events is another sample, because its acknowledgement means more and its state is newer.
        if self.samples.back().is_some_and(|newest| newest.events.is_some_and(|known| known != end)) {
            self.number(sampled_at);
            self.unsent = None;
        }
        if let Some(newest) = self.samples.back_mut() {
            newest.events = Some(end);
        }
        let first_event = self.first_event;
        // The state is the one after these events. A later one would release modifiers before the keys that they belong to.
        let mut devices = self.devices.clone();
        for event in self.events.range(events.len()..).rev() {
            devices.revert(event);
        }
        let sample = InputSample::of_views(self.newest, sampled_at.for_peer(), head, views);
        Some(InputSample { devices, first_event, events, ..sample })
    }

    /// Returns the joints of a hand that have not been sent yet.
    pub(crate) fn poll_hand(&mut self) -> Option<HandSample> {
        let joints = self.unsent_hands.iter_mut().find_map(Option::take)?;
        Some(HandSample { seq: self.newest, joints: *joints })
    }

    /// Records that the server has the sample `seq`, or that a frame shows it.
    pub(crate) fn on_acknowledged(&mut self, seq: InputSeq) {
        let Some(end) = self.remembered(seq).and_then(|sample| sample.events) else { return };
        let known = end.wrapping_sub(self.first_event) as usize;
        if known <= self.events.len() {
            self.events.drain(..known);
            self.first_event = end;
        }
    }

    /// Whether an event has been sent and not acknowledged, so that the sample is worth repeating.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether something is pressed, which is to be repeated to the server.
    pub(crate) fn holds_anything(&self) -> bool {
        self.devices.holds_anything()
    }

    /// Returns the state of all devices, which may be ahead of the samples.
    #[cfg(test)]
    pub(crate) const fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Makes the newest sample be sent again.
    pub(crate) fn set_repeat(&mut self) {
        if let Some(newest) = self.samples.back() {
            self.unsent = Some(newest.at);
        }
    }

    fn remembered(&self, seq: InputSeq) -> Option<&SampleRecord> {
        let index = self.samples.binary_search_by_key(&seq, |sample| sample.seq).ok()?;
        self.samples.get(index)
    }

    /// When the user made the input `seq`.
    pub(crate) fn sampled_at(&self, seq: InputSeq) -> Option<Time> {
        self.remembered(seq).map(|sample| sample.at)
    }

    /// Inputs after `after` up to and including `to`, with their times.
    pub(crate) fn between(&self, after: InputSeq, to: InputSeq) -> impl Iterator<Item = (InputSeq, Time)> + '_ {
        let place = |after: InputSeq| self.samples.partition_point(|sample| sample.seq <= after);
        let (first, end) = (place(after), place(to));
        self.samples.range(first.min(end)..end).map(|sample| (sample.seq, sample.at))
    }
}

/// The devices with everything released. Positions stay.
pub(crate) fn released(devices: &Devices) -> Devices {
    let mut devices = devices.clone();
    devices.keys.clear();
    devices.touches.clear();
    if let Some(pointer) = &mut devices.pointer {
        pointer.buttons = 0;
    }
    for gamepad in &mut devices.gamepads {
        gamepad.pressed = 0;
        gamepad.values.fill(0);
        gamepad.axes.fill(0);
    }
    for controller in &mut devices.controllers {
        controller.pressed = 0;
        controller.values.fill(0);
        controller.axes.fill(0);
    }
    devices
}

/// The array index of a hand.
pub(crate) const fn place(hand: Hand) -> Option<usize> {
    match hand {
        Hand::None => None,
        Hand::Left => Some(0),
        Hand::Right => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> Presence {
        Presence::of_views(Pose::default(), Vec::new())
    }

    fn key(pressed: bool) -> DeviceInput {
        DeviceInput::Key { key: Key::from_code("KeyF").expect("a key"), pressed }
    }

    #[test]
    fn a_still_user_is_sampled_ten_times_a_second_where_pictures_do_not_follow_the_head() {
        let samples = |sparse: bool, moves_at: u64| {
            let mut sampler = InputSampler::default();
            if sparse {
                sampler.set_sparse();
            }
            let sample = |sampler: &mut InputSampler, millis: u64| {
                let mut presence = presence();
                if millis >= moves_at {
                    presence.head.position = [0.0, 1.0, 0.0];
                }
                sampler.on_presence(Time::from_millis(millis), presence);
                sampler.poll_sample().map(|_| millis)
            };
            (0..1_000).step_by(10).filter_map(|millis| sample(&mut sampler, millis)).collect::<Vec<_>>()
        };
        assert_eq!(samples(false, 2_000).len(), 100);
        assert_eq!(samples(true, 2_000), [0, 10, 20, 30, 130, 230, 330, 430, 530, 630, 730, 830, 930]);
        // What changes is sent at once, and repeated.
        assert_eq!(samples(true, 450)[5..11], [230, 330, 430, 450, 460, 470]);
    }

    #[test]
    fn an_event_rides_on_every_sample_until_it_is_acknowledged() {
        let mut sampler = InputSampler::default();
        assert_eq!(sampler.on_device(Time::ZERO, key(true)), None);
        sampler.on_presence(Time::from_millis(1), presence());
        let seq = sampler.on_device(Time::from_millis(2), key(true)).expect("present");
        assert_eq!(sampler.poll_sample().expect("new").events.len(), 1);
        assert_eq!(sampler.poll_sample(), None);
        sampler.on_presence(Time::from_millis(3), presence());
        assert_eq!(sampler.poll_sample().expect("new").events.len(), 1);
        sampler.on_acknowledged(seq);
        sampler.on_presence(Time::from_millis(4), presence());
        let sample = sampler.poll_sample().expect("new");
        assert_eq!((sample.first_event, sample.events.len(), sample.devices.keys.len()), (1, 0, 1));
    }

    #[test]
    fn more_events_than_a_sample_takes_wait_for_their_turn() {
        let mut sampler = InputSampler::default();
        sampler.on_presence(Time::ZERO, presence());
        let text = "a long text that no single sample takes ".repeat(20);
        sampler.on_device(Time::ZERO, DeviceInput::Text(text.clone()));
        let mut typed = String::new();
        for round in 0.. {
            let sample = sampler.poll_sample().expect("repeated");
            for event in sample.events {
                let InputEvent::Text(part) = event else { panic!("{event:?}") };
                typed += &part;
            }
            sampler.on_acknowledged(sample.seq);
            if !sampler.has_unacknowledged() {
                assert!(round > 1, "several samples");
                break;
            }
            sampler.on_presence(Time::from_millis(round), presence());
        }
        assert_eq!(typed, text);
    }

    #[test]
    fn a_key_and_what_it_types_are_in_one_sample_with_the_state_after_them() {
        let mut sampler = InputSampler::default();
        sampler.on_presence(Time::ZERO, presence());
        let control = Key::from_code("ControlLeft").expect("a key");
        for _ in 0..40 {
            sampler.on_device(Time::ZERO, key(true));
            sampler.on_device(Time::ZERO, DeviceInput::Text("f".into()));
            sampler.on_device(Time::ZERO, key(false));
        }
        for (input, pressed) in [(control, true), (Key::from_code("KeyF").expect("a key"), true), (control, false)] {
            sampler.on_device(Time::ZERO, DeviceInput::Key { key: input, pressed });
        }
        let (mut server, mut presses) = (Devices::default(), 0);
        while sampler.has_unacknowledged() {
            sampler.on_presence(Time::ZERO, presence());
            let sample = sampler.poll_sample().expect("new");
            for (place, event) in sample.events.iter().enumerate() {
                server.apply(event);
                if matches!(event, InputEvent::Key { pressed: true, key } if *key != control) {
                    presses += 1;
                    let text = matches!(sample.events.get(place + 1), Some(InputEvent::Text(_)));
                    assert_eq!(text, presses <= 40, "press {presses}");
                }
            }
            assert_eq!(sample.devices.keys, server.keys, "no key is released before its events have arrived");
            sampler.on_acknowledged(sample.seq);
        }
        assert_eq!(presses, 41);
    }

    #[test]
    fn repeats_of_a_frozen_path_are_few_and_presses_and_releases_are_all_there() {
        let mut sampler = InputSampler::default();
        sampler.on_presence(Time::ZERO, presence());
        let held = Key::from_code("KeyF").expect("a key");
        let repeat = |sampler: &mut InputSampler, key, text: &str| {
            sampler.on_device(Time::ZERO, DeviceInput::KeyRepeat { key, text: text.into() });
        };
        sampler.on_device(Time::ZERO, key(true));
        for _ in 0..90 {
            repeat(&mut sampler, held, "f");
            repeat(&mut sampler, Key::from_code("ShiftLeft").expect("a key"), "");
        }
        sampler.on_device(Time::ZERO, key(false));
        let repeats = |sampler: &InputSampler| {
            sampler.events.iter().filter(|event| matches!(event, InputEvent::KeyRepeated { .. })).count()
        };
        assert_eq!(repeats(&sampler), MAX_WAITING_REPEATS - 1);
        let texts = sampler.events.iter().filter(|event| matches!(event, InputEvent::Text(_))).count();
        assert_eq!(texts, repeats(&sampler), "a repeat and its text are dropped together");
        assert_eq!(sampler.events.back(), Some(&InputEvent::Key { key: held, pressed: false }));
        // A key whose release is not reported, as with Cmd on macOS.
        let mut sampler = InputSampler::default();
        sampler.on_presence(Time::ZERO, presence());
        (0..90).for_each(|_| repeat(&mut sampler, held, ""));
        let pair = |_| [true, false].map(|pressed| InputEvent::Key { key: held, pressed });
        assert!(sampler.events.iter().cloned().eq((0..MAX_WAITING_REPEATS).flat_map(pair)), "{:?}", sampler.events);
    }

    #[test]
    fn memory_stays_bounded_without_acknowledgement() {
        let mut sampler = InputSampler::default();
        for step in 0..10_000 {
            sampler.on_presence(Time::from_millis(step), presence());
            sampler.on_device(Time::from_millis(step), key(step % 2 == 0));
        }
        assert!(sampler.samples.len() <= MAX_REMEMBERED_SAMPLES && sampler.events.len() <= MAX_WAITING);
    }

    #[test]
    fn whoever_looks_away_lets_go() {
        let mut sampler = InputSampler::default();
        sampler.on_presence(Time::ZERO, presence());
        sampler.on_device(Time::ZERO, key(true));
        sampler.on_device(Time::ZERO, DeviceInput::Pointer(Some(Pointer { buttons: 1, ..Pointer::default() })));
        assert!(sampler.holds_anything());
        sampler.on_device(Time::from_millis(1), DeviceInput::ReleaseAll);
        let sample = sampler.poll_sample().expect("new");
        assert!(!sample.devices.holds_anything() && sample.events.len() == 4, "{sample:?}");
    }
}
