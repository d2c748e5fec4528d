//! Translates the viewers' input into actions on the display, and decides which viewer has the controls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nearlight_scene::{Viewer, ViewerInput};
use nearlight_units::{Span, Time};
use nearlight_wire::{
    Devices, InputEvent, Key, MAX_GAMEPADS, Pointer, PointerButton, ScreenPoint, WHEEL_UNITS_PER_PIXEL,
};

use crate::input::gamepads::{Gamepads, PadChange};
use crate::input::keyboard::{Keyboard, Step};

/// Wheel units per notch: browsers report 100 CSS pixels for one.
const UNITS_PER_NOTCH: i32 = 100 * WHEEL_UNITS_PER_PIXEL;
/// Maximum number of notches of one input. Clients are untrusted and may send large numbers. Guess: a user does not turn a wheel further
/// between two inputs.
const MAX_NOTCHES: i32 = 20;
/// Time after which an idle driver loses the controls to a viewer who acts. Guess: a pause for thought.
const IDLE_TIMEOUT: Span = Span::from_millis(5_000);
/// A viewer whose input was refused may act once it has paused for this long: no half of a command may reach the program. It is as long as
/// the pause after which a driver counts as idle.
const REFUSAL_PAUSE: Span = IDLE_TIMEOUT;
/// The pause after which a viewer may act who got the controls in the middle of refused input. Guess: longer than between two keys, shorter
/// than it takes to read that one has the controls.
const GRANT_PAUSE: Span = Span::from_millis(1_000);
/// X's buttons for a notch up, down, left and right.
const WHEEL_BUTTONS: [u8; 4] = [4, 5, 6, 7];

/// An action on the display's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Keyboard(Step),
    Button {
        button: u8,
        pressed: bool,
    },
    MoveTo {
        x: i16,
        y: i16,
    },
    /// Relative movement in pixels, for a program that has captured the pointer.
    MoveBy {
        right: i16,
        down: i16,
    },
    Gamepad(PadChange),
}

/// Which viewer has the controls, and which ones have requested them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlState {
    /// The viewer who has the controls.
    pub(crate) driver: Option<Viewer>,
    /// Viewers who have requested the controls, in order. The driver is not among them.
    pub(crate) requests: Vec<Viewer>,
    /// For each of the program's gamepads, the index of the driver's gamepad that backs it.
    pub(crate) gamepads: [Option<u8>; MAX_GAMEPADS],
}

/// Input of a viewer that is refused as a whole, until the viewer pauses.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    acted: Time,
    pause: Span,
}

/// What a viewer does, as far as it matters for the controls.
#[derive(Clone, Copy, Debug)]
struct Activity {
    /// Something goes down, is typed or pasted: it takes free controls.
    begins: bool,
    /// Something goes up, repeats or stays down.
    continues: bool,
    /// The pointer to whose totals movement is relative, if the controls are taken.
    pointer: Option<Pointer>,
}

/// Combines the devices of all viewers into one keyboard, one pointer and the program's gamepads.
#[derive(Debug)]
pub(crate) struct Controls {
    size: (u16, u16),
    keyboard: Keyboard,
    driver: Option<(Viewer, Time)>,
    requests: Vec<Viewer>,
    /// Viewers whose input is being refused.
    refusals: BTreeMap<Viewer, Refusal>,
    /// Viewers whose input has begun to be refused, who have not been told.
    refused: Vec<Viewer>,
    /// Sizes of the viewers' windows, in CSS pixels.
    windows: BTreeMap<Viewer, (u16, u16)>,
    /// Viewers whose browsers have captured the pointer.
    capturing: BTreeSet<Viewer>,
    /// The driver's last pointer. Its movement and wheel are totals.
    pointer: Option<Pointer>,
    at: Option<(i16, i16)>,
    buttons: Vec<u8>,
    /// Wheel units that do not make up a notch yet.
    scrolled: [i32; 2],
    gamepads: Gamepads,
    touch: Option<u32>,
    /// Whether the program has captured the pointer and expects relative movement only.
    captured: bool,
}

impl Controls {
    pub(crate) fn new(size: (u16, u16), keyboard: Keyboard) -> Self {
        let (driver, pointer, at, touch) = (None, None, None, None);
        let (requests, buttons, scrolled, gamepads) = (Vec::new(), Vec::new(), [0; 2], Gamepads::default());
        let (windows, capturing, captured) = (BTreeMap::new(), BTreeSet::new(), false);
        let (refusals, refused) = (BTreeMap::new(), Vec::new());
        Self {
            size,
            keyboard,
            driver,
            requests,
            refusals,
            refused,
            windows,
            capturing,
            pointer,
            at,
            buttons,
            scrolled,
            gamepads,
            touch,
            captured,
        }
    }

    fn driver(&self) -> Option<Viewer> {
        self.driver.map(|(viewer, _)| viewer)
    }

    pub(crate) fn state(&self) -> ControlState {
        ControlState { driver: self.driver(), requests: self.requests.clone(), gamepads: self.gamepads.sources() }
    }

    /// Sets whether the program has captured the pointer.
    pub(crate) fn set_captured(&mut self, captured: bool) {
        self.captured = captured;
    }

    /// Sets the display's size.
    pub(crate) fn set_size(&mut self, size: (u16, u16)) {
        if self.size != size {
            (self.size, self.at) = (size, None);
        }
    }

    /// Sets how many gamepads the program can have.
    pub(crate) fn set_gamepads(&mut self, count: u8) {
        self.gamepads.set_count(count);
    }

    /// Sets the size of a viewer's window.
    pub(crate) fn on_window(&mut self, viewer: Viewer, size: (u16, u16)) {
        self.windows.insert(viewer, size);
    }

    /// Returns the size of the window that determines the display's size: the driver's or, without a driver, that of the first viewer.
    pub(crate) fn window(&self) -> Option<(u16, u16)> {
        match self.driver() {
            Some(driver) => self.windows.get(&driver).copied(),
            None => self.windows.values().next().copied(),
        }
    }

    /// Returns the viewers whose input has begun to be refused since the last call, because another viewer has the controls.
    pub(crate) fn take_refused(&mut self) -> Vec<Viewer> {
        std::mem::take(&mut self.refused)
    }

    /// Returns whether the text of this viewer's clipboard is the program's: only the driver's is. Pasting takes free controls.
    pub(crate) fn on_clipboard(&mut self, now: Time, viewer: Viewer, actions: &mut Vec<Action>) -> bool {
        let drives = self.driver() == Some(viewer);
        let has = self.claim(now, viewer, Activity { begins: true, continues: true, pointer: None }, actions);
        if let Some((_, acted)) = self.driver.as_mut().filter(|_| drives && has) {
            *acted = now;
        }
        has
    }

    pub(crate) fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput, actions: &mut Vec<Action>) {
        if !self.claim_by_input(now, viewer, input, actions) {
            return;
        }
        let gamepads = &input.devices.gamepads;
        self.gamepads(actions, |pads, changes| pads.keep_only(gamepads, changes));
        let mut events = input.events.iter().peekable();
        while let Some(event) = events.next() {
            // The text that a key types follows it.
            let types = matches!(event, InputEvent::Key { pressed: true, .. } | InputEvent::KeyRepeated { .. });
            let text = events
                .next_if(|next| types && matches!(next, InputEvent::Text(_)))
                .and_then(|text| if let InputEvent::Text(text) = text { Some(text.as_str()) } else { None });
            match event {
                InputEvent::Key { key, pressed: true } => {
                    self.keys(actions, |keyboard, steps| keyboard.press(*key, text, steps));
                }
                // A program that has captured the pointer is a game, to which a repeat would be a key that goes up.
                InputEvent::KeyRepeated { .. } if self.captured => {}
                InputEvent::KeyRepeated { key } => {
                    self.keys(actions, |keyboard, steps| keyboard.repeat(*key, text, steps));
                }
                InputEvent::KeyCharacter { key, character } => self.keyboard.on_character(*key, *character),
                InputEvent::Key { key, pressed: false } => {
                    self.keys(actions, |keyboard, steps| keyboard.release(*key, steps));
                }
                InputEvent::Text(text) => self.keys(actions, |keyboard, steps| keyboard.on_text(text, steps)),
                InputEvent::Button { button, pressed, at } => {
                    let moves = !input.devices.pointer.is_some_and(|pointer| pointer.captured);
                    if moves {
                        self.move_to(*at, actions);
                    }
                    self.press(button_number(*button), *pressed, actions);
                }
                InputEvent::GamepadButton { gamepad, button, pressed }
                    if gamepads.iter().any(|known| known.index == *gamepad) =>
                {
                    self.gamepads(actions, |pads, changes| pads.on_button(*gamepad, *button, *pressed, changes));
                }
                InputEvent::TouchBegan { id, at } if self.touch.is_none() => {
                    self.touch = Some(*id);
                    self.move_to(*at, actions);
                    self.press(1, true, actions);
                }
                InputEvent::TouchEnded { id, at, .. } if self.touch == Some(*id) => {
                    self.touch = None;
                    self.move_to(*at, actions);
                    self.press(1, false, actions);
                }
                _ => {}
            }
        }
        self.apply_state(input, actions);
    }

    /// Releases everything that the viewer holds, and passes the controls to the first viewer who has requested them.
    pub(crate) fn on_viewer_left(&mut self, now: Time, viewer: Viewer, actions: &mut Vec<Action>) {
        self.requests.retain(|other| *other != viewer);
        self.windows.remove(&viewer);
        self.capturing.remove(&viewer);
        self.refusals.remove(&viewer);
        self.on_released(now, viewer, actions);
    }

    /// Passes the driver's controls to the first viewer who has requested them. Without a request, the next viewer who acts takes them. For
    /// any other viewer, withdraws the request.
    pub(crate) fn on_released(&mut self, now: Time, viewer: Viewer, actions: &mut Vec<Action>) {
        if self.driver() != Some(viewer) {
            return self.requests.retain(|other| *other != viewer);
        }
        self.release_all(actions);
        self.driver = None;
        if let Some(next) = self.requests.first().copied() {
            self.grant(now, next, None);
            // The rest of what it is typing would be half a command.
            if let Some(refusal) = self.refusals.get_mut(&next) {
                refusal.pause = GRANT_PAUSE;
            }
        }
    }

    /// Handles a request for the controls. It is granted at once if nobody has them or the driver is idle.
    pub(crate) fn on_requested(&mut self, now: Time, viewer: Viewer, actions: &mut Vec<Action>) {
        // To ask, the viewer has stopped what was refused.
        self.refusals.remove(&viewer);
        match self.driver {
            Some((driver, _)) if driver == viewer => {}
            Some((_, acted)) if now.saturating_since(acted) < IDLE_TIMEOUT => {
                if !self.requests.contains(&viewer) {
                    self.requests.push(viewer);
                }
            }
            _ => {
                self.release_all(actions);
                self.grant(now, viewer, None);
            }
        }
    }

    /// Releases everything after events were lost. Then nobody has the controls, and only viewers for whom `is_present` holds are known.
    pub(crate) fn on_events_lost(&mut self, is_present: impl Fn(Viewer) -> bool, actions: &mut Vec<Action>) {
        self.release_all(actions);
        self.driver = None;
        self.requests.clear();
        self.refusals.clear();
        self.windows.retain(|viewer, _| is_present(*viewer));
        self.capturing.retain(|viewer| is_present(*viewer));
    }

    /// Releases everything and restores the display's keyboard map.
    pub(crate) fn close(&mut self, actions: &mut Vec<Action>) {
        self.release_all(actions);
        self.keys(actions, Keyboard::restore);
    }

    /// Returns whether the viewer of this input has the controls.
    fn claim_by_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput, actions: &mut Vec<Action>) -> bool {
        let begins = self.begins_to_capture(viewer, input) || input.events.iter().any(is_beginning);
        let continues = !input.events.is_empty() || holds_buttons(&input.devices);
        let pointer = input.devices.pointer;
        let drives = self.driver() == Some(viewer);
        let has = self.claim(now, viewer, Activity { begins, continues, pointer }, actions);
        let holds = !self.buttons.is_empty() || input.devices.holds_anything();
        let moves = self.pointer != pointer || self.gamepads.differ_from(&input.devices.gamepads);
        if let Some((_, acted)) = self.driver.as_mut().filter(|_| drives && (begins || continues || holds || moves)) {
            *acted = now;
        }
        has
    }

    /// Returns whether this viewer has the controls. A viewer who begins something takes them if nobody has them or the driver is idle. What
    /// is refused is refused from its first key to its last, whatever happens to the controls meanwhile.
    fn claim(&mut self, now: Time, viewer: Viewer, activity: Activity, actions: &mut Vec<Action>) -> bool {
        let Activity { begins, continues, pointer } = activity;
        if let Some(refusal) = self.refusals.get_mut(&viewer) {
            if now.saturating_since(refusal.acted) < refusal.pause {
                if begins || continues {
                    refusal.acted = now;
                }
                return false;
            }
            self.refusals.remove(&viewer);
        }
        match self.driver {
            Some((driver, _)) if driver == viewer => return true,
            _ if !begins => return false,
            Some((_, acted)) if now.saturating_since(acted) < IDLE_TIMEOUT => {
                self.refusals.insert(viewer, Refusal { acted: now, pause: REFUSAL_PAUSE });
                self.refused.push(viewer);
                return false;
            }
            Some(_) => self.release_all(actions),
            None => {}
        }
        self.grant(now, viewer, pointer);
        true
    }

    /// Returns whether this input captures the pointer. The click that captures it is not among the events, but counts as an action.
    fn begins_to_capture(&mut self, viewer: Viewer, input: &ViewerInput) -> bool {
        let captures = input.devices.pointer.is_some_and(|pointer| pointer.captured);
        if !captures {
            self.capturing.remove(&viewer);
        }
        captures && self.capturing.insert(viewer)
    }

    /// Gives a viewer the controls. Movement and wheel are relative to the totals of `pointer`, or of the next input if it is unknown.
    fn grant(&mut self, now: Time, viewer: Viewer, pointer: Option<Pointer>) {
        self.driver = Some((viewer, now));
        self.requests.retain(|other| *other != viewer);
        self.pointer = pointer;
        self.scrolled = [0; 2];
    }

    fn release_all(&mut self, actions: &mut Vec<Action>) {
        self.keys(actions, Keyboard::release_all);
        for button in std::mem::take(&mut self.buttons) {
            actions.push(Action::Button { button, pressed: false });
        }
        (self.touch, self.pointer) = (None, None);
        self.gamepads(actions, Gamepads::release);
    }

    fn gamepads(&mut self, actions: &mut Vec<Action>, act: impl FnOnce(&mut Gamepads, &mut Vec<PadChange>)) {
        let mut changes = Vec::new();
        act(&mut self.gamepads, &mut changes);
        actions.extend(changes.into_iter().map(Action::Gamepad));
    }

    fn keys(&mut self, actions: &mut Vec<Action>, act: impl FnOnce(&mut Keyboard, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        act(&mut self.keyboard, &mut steps);
        actions.extend(steps.into_iter().map(Action::Keyboard));
    }

    /// Applies the devices' state to the display: positions, movement, wheel, and releases for which there was no event.
    fn apply_state(&mut self, input: &ViewerInput, actions: &mut Vec<Action>) {
        let keys: &[Key] = &input.devices.keys;
        self.keys(actions, |keyboard, steps| keyboard.keep_only(keys, steps));
        if let Some(id) = self.touch {
            if let Some(touch) = input.devices.touches.iter().find(|touch| touch.id == id) {
                self.move_to(touch.at, actions);
            } else {
                self.touch = None;
                self.press(1, false, actions);
            }
        }
        self.gamepads(actions, |pads, changes| pads.apply_state(&input.devices.gamepads, changes));
        let Some(pointer) = input.devices.pointer else { return };
        let before = self.pointer.replace(pointer).unwrap_or(pointer);
        let difference = |now: [i32; 2], then: [i32; 2]| [0, 1].map(|axis: usize| now[axis].wrapping_sub(then[axis]));
        if pointer.captured {
            let [right, down] =
                difference(pointer.moved, before.moved).map(|pixels| pixels.clamp(-4_096, 4_096) as i16);
            if (right, down) != (0, 0) {
                actions.push(Action::MoveBy { right, down });
            }
        } else if pointer.at != before.at || self.at.is_none() {
            self.move_to(pointer.at, actions);
        }
        let scrolled = difference(pointer.scrolled, before.scrolled);
        for (axis, units) in scrolled.into_iter().enumerate() {
            self.scroll(axis, units, actions);
        }
        if self.touch.is_none() {
            let down = |button: &u8| {
                PointerButton::ALL
                    .iter()
                    .any(|known| button_number(*known) == *button && pointer.buttons & known.bit() != 0)
            };
            let gone: Vec<u8> = self.buttons.iter().filter(|button| !down(button)).copied().collect();
            for button in gone {
                self.press(button, false, actions);
            }
        }
    }

    fn scroll(&mut self, axis: usize, units: i32, actions: &mut Vec<Action>) {
        let total = self.scrolled[axis].saturating_add(units);
        let notches = (total / UNITS_PER_NOTCH).clamp(-MAX_NOTCHES, MAX_NOTCHES);
        self.scrolled[axis] = total % UNITS_PER_NOTCH;
        let button = match (axis, notches > 0) {
            (1, false) => WHEEL_BUTTONS[0],
            (1, true) => WHEEL_BUTTONS[1],
            (_, false) => WHEEL_BUTTONS[2],
            (_, true) => WHEEL_BUTTONS[3],
        };
        for _ in 0..notches.abs() {
            actions.extend([true, false].map(|pressed| Action::Button { button, pressed }));
        }
    }

    fn press(&mut self, button: u8, pressed: bool, actions: &mut Vec<Action>) {
        let held = self.buttons.contains(&button);
        if held == pressed {
            return;
        }
        if pressed {
            self.buttons.push(button);
        } else {
            self.buttons.retain(|held| *held != button);
        }
        actions.push(Action::Button { button, pressed });
    }

    fn move_to(&mut self, at: ScreenPoint, actions: &mut Vec<Action>) {
        let place = |fraction: u16, side: u16| (u32::from(fraction) * u32::from(side) / 65_536) as i16;
        let (x, y) = (place(at.x, self.size.0), place(at.y, self.size.1));
        if self.captured || self.at == Some((x, y)) {
            return;
        }
        self.at = Some((x, y));
        actions.push(Action::MoveTo { x, y });
    }
}

/// Returns whether a viewer who does this wants the controls. Releases and repeats belong to what began earlier.
const fn is_beginning(event: &InputEvent) -> bool {
    match event {
        InputEvent::Key { pressed, .. }
        | InputEvent::Button { pressed, .. }
        | InputEvent::GamepadButton { pressed, .. }
        | InputEvent::ControllerButton { pressed, .. } => *pressed,
        InputEvent::Text(_) | InputEvent::TouchBegan { .. } => true,
        InputEvent::TouchEnded { .. } | InputEvent::KeyRepeated { .. } | InputEvent::KeyCharacter { .. } => false,
    }
}

/// Returns whether a key, a button or a finger is down. Sticks do not count, because worn ones are never at rest.
fn holds_buttons(devices: &Devices) -> bool {
    !devices.keys.is_empty()
        || !devices.touches.is_empty()
        || devices.pointer.is_some_and(|pointer| pointer.buttons != 0)
        || devices.gamepads.iter().any(|gamepad| gamepad.pressed != 0)
        || devices.controllers.iter().any(|controller| controller.pressed != 0)
}

const fn button_number(button: PointerButton) -> u8 {
    match button {
        PointerButton::Primary => 1,
        PointerButton::Auxiliary => 2,
        PointerButton::Secondary => 3,
        PointerButton::Back => 8,
        PointerButton::Forward => 9,
    }
}

/// Shortest interval between two relative movements. Programs that read one per millisecond (SDL) lose closer ones.
pub(crate) const MIN_MOVE_INTERVAL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
