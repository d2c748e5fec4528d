//! The user of a stock client: joins mouse, keys, fingers and gamepad into one camera and says where it is and what it does.
//!
//! The client sends whole states, so what happened is what differs from the state before. Walking and held sticks go on between
//! messages: [`User::poll_timeout`] says when the next step is due. The hands are those of the project's own page: movement looks,
//! WASD and arrows walk, left button grabs, right one pushes, middle one and F throw, R puts everything back.

mod camera;
mod gamepad;
mod mouse;
mod touch;

use nearlight_units::{InputSeq, Span, Time};
use nearlight_wire::{Action, Fov, Hand, InputEvent, InputSample, MAX_INPUT_EVENTS, Pose, View};

use crate::input::{Event, InputError, KeyboardState, Message, Packet, State, What, key};
use camera::{Camera, Motion};
use gamepad::Gamepad;
use mouse::Mouse;
use touch::Touch;

/// While something moves, a sample is due this often: twice for each frame at 60 frames a second.
const STEP: Span = Span::from_millis(8);
/// A longer pause is not walked through: a server that was held up must not make its users jump.
const LONGEST_STEP: Span = Span::from_millis(100);
/// Height of the view in radians, as on the project's page.
const VIEW_HEIGHT: f32 = 65.0 / 180.0 * std::f32::consts::PI;
/// Devices remembered; the web client has four at most.
const MAX_DEVICES: usize = 16;

/// Keys that walk: which, and how far to the right, up and forward.
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

/// What a device did to the world, in order.
#[derive(Debug, Default)]
struct Acts(Vec<Action>);

impl Acts {
    fn push(&mut self, action: Action) {
        if self.0.len() < MAX_INPUT_EVENTS {
            self.0.push(action);
        }
    }
}

/// One client's user.
#[derive(Debug)]
pub struct User {
    camera: Camera,
    keys: KeyboardState,
    mouse: Mouse,
    touch: Touch,
    gamepad: Gamepad,
    /// Number and layout of what the client said it has.
    devices: Vec<(i32, String)>,
    /// Size of the picture in pixels.
    picture: (u16, u16),
    newest: InputSeq,
    acts: Acts,
    /// The moment of the newest change that no sample tells of.
    unsent: Option<Time>,
    stepped_to: Time,
    refused: u64,
}

impl User {
    /// A user at `start`, who looks at a picture of so many pixels.
    #[must_use]
    pub fn new(now: Time, start: Pose, picture: (u16, u16)) -> Self {
        Self {
            camera: Camera::at(start),
            keys: KeyboardState::default(),
            mouse: Mouse::default(),
            touch: Touch::default(),
            gamepad: Gamepad::default(),
            devices: Vec::new(),
            picture,
            newest: InputSeq(0),
            acts: Acts::default(),
            unsent: Some(now),
            stepped_to: now,
            refused: 0,
        }
    }

    /// The picture has another size from now on.
    pub fn set_picture(&mut self, now: Time, picture: (u16, u16)) {
        self.picture = picture;
        self.unsent = Some(now);
    }

    /// A message of the data channel came. One that is refused changes nothing.
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
                self.let_go(now);
            }
            Message::Disconnect | Message::StopSending => self.let_go(now),
            Message::Connect
            | Message::StartSending
            | Message::NewLayout(_)
            | Message::RemoveLayout(_)
            | Message::ChangeUsages(_) => {}
        }
        Ok(())
    }

    /// Nothing more will come: keys, buttons, fingers and sticks are let go of.
    pub fn let_go(&mut self, now: Time) {
        self.keys = KeyboardState::default();
        self.mouse.let_go(&mut self.acts);
        self.touch.let_go(&mut self.acts);
        self.gamepad.let_go(&mut self.acts);
        self.unsent = Some(now);
    }

    /// Layouts of the devices that the client has, oldest first.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|(_, layout)| layout.as_str())
    }

    /// How many messages no parser accepted.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Walks on to `now`; where anything changed, the user as it is. Each action is handed out once.
    pub fn poll_sample(&mut self, now: Time) -> Option<InputSample> {
        self.step(now);
        let sampled_at = self.unsent.take()?;
        self.newest = self.newest.next();
        let seq = self.newest;
        let head = self.camera.pose();
        let aspect = f32::from(self.picture.0.max(1)) / f32::from(self.picture.1.max(1));
        let views = vec![View { pose: head, fov: Fov::symmetric(VIEW_HEIGHT, aspect) }];
        let events = std::mem::take(&mut self.acts).0;
        let events = events.into_iter().map(|action| InputEvent { seq, hand: Hand::Gaze, action }).collect();
        Some(InputSample { seq, sampled_at, head, views, hands: Vec::new(), events })
    }

    /// When to poll again though no message comes; earlier costs nothing, later makes a walking user jerk.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.unsent.is_some() {
            return Some(self.stepped_to);
        }
        let moves = self.camera.moves() || !self.motion().is_still() || self.gamepad.turns();
        let step = moves.then(|| self.stepped_to + STEP);
        step.into_iter().chain(self.touch.poll_timeout()).min()
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
        self.gamepad.add_to(&mut motion);
        motion
    }

    /// Everything that goes on without a message.
    fn step(&mut self, now: Time) {
        let step = now.saturating_since(self.stepped_to).min(LONGEST_STEP);
        self.stepped_to = self.stepped_to.max(now);
        if step > Span::ZERO {
            let seconds = step.as_secs_f64() as f32;
            let turned = self.gamepad.turn(&mut self.camera, seconds);
            let walked = self.camera.walk(self.motion(), seconds);
            if turned || walked {
                self.unsent = Some(now);
            }
        }
        if self.touch.on_time(now, &mut self.acts) {
            self.unsent = Some(now);
        }
    }

    fn on_event(&mut self, now: Time, event: &Event) {
        let What::State(state) = &event.what else { return };
        match state {
            // A browser tells of a finger once more as a mouse.
            State::Mouse(_) if self.touch.was_touched(now) => return,
            State::Mouse(state) => self.mouse.on_state(state, &mut self.camera, &mut self.acts),
            State::Keyboard(state) => {
                let went = |key| state.is_down(key) && !self.keys.is_down(key);
                if went(key::F) {
                    self.acts.push(Action::Throw);
                }
                if went(key::R) {
                    self.acts.push(Action::Reset);
                }
                self.keys = *state;
            }
            State::Touch(state) => self.touch.on_state(now, state, self.picture, &mut self.camera, &mut self.acts),
            State::Gamepad(state) => self.gamepad.on_state(state, &mut self.acts),
            State::Other(_) => return,
        }
        self.unsent = Some(now);
    }
}

#[cfg(test)]
mod tests;
