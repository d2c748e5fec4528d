//! The user of a stock client: combines mouse, keys, fingers and gamepad into one camera, and reports its pose and the user's actions.
//!
//! The client sends complete states, so events are the differences from the previous state. Walking and deflected sticks continue between
//! messages: [`User::poll_timeout`] says when the next step is due. Views move as on the project's own page: mouse movement looks, WASD and
//! arrows walk. The meaning of other keys, buttons and fingers is up to the application, which receives them as from any other client.

mod camera;
mod gamepad;
mod mouse;
mod touch;
mod typed_key;

use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{Devices, Fov, InputEvent, InputSample, MAX_INPUT_EVENTS, MAX_KEYS, Pointer, Pose, View};

use crate::input::{Event, EventKind, InputError, KeyboardState, Message, Packet, State, key};
use camera::{Camera, Motion};
use gamepad::Gamepad;
use touch::Touch;
use typed_key::TypedKey;

/// Interval of samples while something moves: twice per frame at 60 frames a second.
const STEP_INTERVAL: Span = Span::from_millis(8);
/// Maximum step: a longer pause is not made up for, because a server that was delayed must not make its users jump.
const MAX_STEP: Span = Span::from_millis(100);
/// Height of the view in radians, as on the project's page.
const VIEW_HEIGHT: f32 = 65.0 / 180.0 * std::f32::consts::PI;
/// Maximum number of devices remembered. The web client has four at most.
const MAX_DEVICES: usize = 16;

/// Keys that walk, with their direction to the right, up and forward.
const WALK_KEYS: [(u8, [f32; 3]); 12] = [
    (key::W, [0.0, 0.0, 1.0]),
    (key::UP_ARROW, [0.0, 0.0, 1.0]),
    (key::S, [0.0, 0.0, -1.0]),
    (key::DOWN_ARROW, [0.0, 0.0, -1.0]),
    (key::D, [1.0, 0.0, 0.0]),
    (key::RIGHT_ARROW, [1.0, 0.0, 0.0]),
    (key::A, [-1.0, 0.0, 0.0]),
    (key::LEFT_ARROW, [-1.0, 0.0, 0.0]),
    (key::E, [0.0, 1.0, 0.0]),
    (key::SPACE, [0.0, 1.0, 0.0]),
    (key::Q, [0.0, -1.0, 0.0]),
    (key::C, [0.0, -1.0, 0.0]),
];

/// One client's user.
#[derive(Debug)]
pub struct User {
    camera: Camera,
    keys: KeyboardState,
    typed_key: TypedKey,
    /// The pointer's state. None before the client has reported a mouse.
    pointer: Option<Pointer>,
    touch: Touch,
    /// The gamepad's state. None before the client has reported one.
    gamepad: Option<Gamepad>,
    /// Number and layout of the devices that the client announced.
    devices: Vec<(i32, String)>,
    /// Size of the picture in pixels.
    picture: (u16, u16),
    newest: InputSeq,
    /// The devices' state after the newest event, and the events that led there, in order.
    reported: Devices,
    happened: Vec<InputEvent>,
    events: u32,
    /// The time of the newest change that no sample contains yet.
    unsent: Option<Time>,
    stepped_to: Time,
    refused: u64,
}

impl User {
    /// Makes a user at `start`, who looks at a picture of this many pixels.
    #[must_use]
    pub fn new(now: Time, start: Pose, picture: (u16, u16)) -> Self {
        Self {
            camera: Camera::at(start),
            keys: KeyboardState::default(),
            typed_key: TypedKey::default(),
            pointer: None,
            touch: Touch::default(),
            gamepad: None,
            devices: Vec::new(),
            picture,
            newest: InputSeq(0),
            reported: Devices::default(),
            happened: Vec::new(),
            events: 0,
            unsent: Some(now),
            stepped_to: now,
            refused: 0,
        }
    }

    /// Moves the user's head.
    pub fn set_head(&mut self, head: Pose) {
        self.camera = Camera::at(head);
    }

    /// Sets the size of the picture from now on.
    pub fn set_picture(&mut self, now: Time, picture: (u16, u16)) {
        self.picture = picture;
        self.unsent = Some(now);
    }

    /// Handles a message of the data channel. A message that is rejected changes nothing.
    pub fn on_message(&mut self, now: Time, bytes: &[u8]) -> Result<(), InputError> {
        self.step(now);
        let message = Packet::parse(bytes).inspect_err(|_| self.refused += 1)?.message;
        match message {
            Message::NewEvents(events) => {
                if let Some(error) = events.clone().find_map(Result::err) {
                    self.refused += 1;
                    return Err(error);
                }
                for event in events.flatten() {
                    self.on_event(now, &event);
                }
            }
            Message::NewDevice(device) => {
                self.devices.retain(|(id, _)| *id != device.device_id);
                if self.devices.len() == MAX_DEVICES {
                    self.devices.remove(0);
                }
                self.devices.push((device.device_id, device.layout.chars().take(64).collect()));
            }
            Message::RemoveDevice(id) => {
                self.devices.retain(|(known, _)| *known != id);
                self.release_all(now);
            }
            Message::Disconnect | Message::StopSending => self.release_all(now),
            Message::Connect
            | Message::StartSending
            | Message::NewLayout(_)
            | Message::RemoveLayout(_)
            | Message::ChangeUsages(_) => {}
        }
        Ok(())
    }

    /// Releases keys, buttons, fingers and sticks, because the input has ended.
    pub fn release_all(&mut self, now: Time) {
        self.keys = KeyboardState::default();
        if let Some(pointer) = &mut self.pointer {
            pointer.buttons = 0;
        }
        self.touch.release_all();
        self.gamepad = None;
        self.note();
        self.unsent = Some(now);
    }

    /// Layouts of the client's devices, oldest first.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|(_, layout)| layout.as_str())
    }

    /// Number of messages that every parser rejected.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Advances the walk to `now`. Returns the user's state if anything changed. Each event is handed out once.
    pub fn poll_sample(&mut self, now: Time) -> Option<InputSample> {
        self.step(now);
        let sampled_at = self.unsent.take()?;
        self.newest = self.newest.next();
        let seq = self.newest;
        let head = self.camera.pose();
        let aspect = f32::from(self.picture.0.max(1)) / f32::from(self.picture.1.max(1));
        let views = vec![View { pose: head, fov: Fov::symmetric(VIEW_HEIGHT, aspect) }];
        let events = std::mem::take(&mut self.happened);
        let first_event = self.events;
        self.events = self.events.wrapping_add(events.len() as u32);
        // These clients send no time, so the arrival of their message is used instead.
        let sample = InputSample::of_views(seq, sampled_at.for_peer(), head, views);
        Some(InputSample { devices: self.reported.clone(), first_event, events, ..sample })
    }

    /// Records what the newest event has changed.
    fn note(&mut self) {
        let devices = Devices {
            keys: self.keys.down().take(MAX_KEYS).collect(),
            pointer: self.pointer,
            touches: self.touch.touches(),
            gamepads: self.gamepad.iter().map(Gamepad::state).collect(),
            ..Devices::default()
        };
        self.push_events(devices.changes_from(&self.reported));
        self.reported = devices;
    }

    fn push_events(&mut self, events: impl IntoIterator<Item = InputEvent>) {
        let room = MAX_INPUT_EVENTS - self.happened.len();
        self.happened.extend(events.into_iter().take(room));
    }

    /// When to poll again even if no message arrives. Earlier is harmless; later makes a walking user jerk.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.unsent.is_some() {
            return Some(self.stepped_to);
        }
        let moves =
            self.camera.moves() || !self.motion().is_still() || self.gamepad.as_ref().is_some_and(Gamepad::turns);
        moves.then(|| self.stepped_to + STEP_INTERVAL)
    }

    fn motion(&self) -> Motion {
        let mut motion = Motion::default();
        for (key, [right, up, forward]) in WALK_KEYS {
            if self.keys.is_down(key) {
                motion.right += right;
                motion.up += up;
                motion.forward += forward;
            }
        }
        motion.run = self.keys.is_down(key::LEFT_SHIFT) || self.keys.is_down(key::RIGHT_SHIFT);
        self.touch.add_to(&mut motion);
        self.gamepad.iter().for_each(|gamepad| gamepad.add_to(&mut motion));
        motion
    }

    /// Advances everything that continues without a message.
    fn step(&mut self, now: Time) {
        let step = now.saturating_since(self.stepped_to).min(MAX_STEP);
        self.stepped_to = self.stepped_to.max(now);
        if step > Span::ZERO {
            let seconds = step.as_secs_f64() as f32;
            let turned = self.gamepad.as_ref().is_some_and(|gamepad| gamepad.turn(&mut self.camera, seconds));
            let walked = self.camera.walk(self.motion(), seconds);
            if turned || walked {
                self.unsent = Some(now);
            }
        }
    }

    fn on_event(&mut self, now: Time, event: &Event) {
        let state = match &event.kind {
            EventKind::State(state) => state,
            EventKind::Text(code) => {
                let repeated = self.typed_key.on_letter().map(|key| InputEvent::KeyRepeated { key });
                let letter = self.typed_key.letter(&self.keys, *code).map(|letter| InputEvent::Text(letter.into()));
                if repeated.is_some() || letter.is_some() {
                    self.push_events(repeated.into_iter().chain(letter));
                    self.unsent = Some(now);
                }
                return;
            }
            EventKind::Other(_) => return,
        };
        match state {
            // A browser reports a finger again as a mouse.
            State::Mouse(_) if self.touch.was_touched(now) => return,
            State::Mouse(state) => {
                mouse::on_state(self.pointer.get_or_insert_default(), state, self.picture, &mut self.camera);
            }
            State::Keyboard(state) => {
                self.typed_key.on_state(&self.keys, state);
                self.keys = *state;
            }
            State::Touch(state) => self.touch.on_state(now, state, self.picture, &mut self.camera),
            State::Gamepad(state) => self.gamepad.get_or_insert_default().on_state(state),
            State::Other(_) => return,
        }
        self.note();
        self.unsent = Some(now);
    }
}

#[cfg(test)]
mod tests;
