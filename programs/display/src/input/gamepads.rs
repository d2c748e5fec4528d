//! Assigns the driver's gamepads to the program's, and tracks their state.
//!
//! A gamepad is assigned to the program's first free one when it is first used, until it is unplugged or its viewer loses the controls. A
//! single player is therefore always the program's first one, whatever number the browser gives the gamepad, and unplugging another gamepad
//! does not change a player's number. The program's gamepads are never removed; free ones are at rest.

use nearlight_wire::{Gamepad, MAX_GAMEPADS};
use serde::{Deserialize, Serialize};

use crate::input::gamepad::PadState;

/// A new state of one of the program's gamepads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PadChange {
    /// Number of the program's gamepad, below [`MAX_GAMEPADS`].
    pub(crate) number: u8,
    pub(crate) state: PadState,
}

#[derive(Debug, Default)]
/// Assignment of the driver's gamepads to the program's.
pub(crate) struct Gamepads {
    /// How many gamepads the program can have.
    count: usize,
    pads: [Pad; MAX_GAMEPADS],
}

/// One of the program's gamepads.
#[derive(Clone, Copy, Debug, Default)]
struct Pad {
    /// Index of the driver's gamepad that backs it; `None` if it is free.
    source: Option<u8>,
    /// Its last state; `None` until it is first used.
    state: Option<PadState>,
}

impl Gamepads {
    pub(crate) fn set_count(&mut self, count: u8) {
        self.count = usize::from(count).min(MAX_GAMEPADS);
    }

    /// Returns for each of the program's gamepads the index of the driver's gamepad that backs it.
    pub(crate) fn sources(&self) -> [Option<u8>; MAX_GAMEPADS] {
        self.pads.map(|pad| pad.source)
    }

    /// Returns whether the driver's gamepads have changed.
    pub(crate) fn differ_from(&self, gamepads: &[Gamepad]) -> bool {
        gamepads.iter().any(|gamepad| {
            let state = PadState::from_gamepad(gamepad);
            match self.number_of(gamepad.index) {
                Some(number) => self.pads[number].state != Some(state),
                None => state.is_used(),
            }
        })
    }

    /// Frees gamepads that were unplugged, which are those that are not among `gamepads`.
    pub(crate) fn keep_only(&mut self, gamepads: &[Gamepad], changes: &mut Vec<PadChange>) {
        for number in 0..MAX_GAMEPADS {
            let source = self.pads[number].source;
            if source.is_some_and(|source| gamepads.iter().all(|gamepad| gamepad.index != source)) {
                self.free(number, changes);
            }
        }
    }

    /// Handles a button of the driver's gamepad `source` that was pressed or released.
    pub(crate) fn on_button(&mut self, source: u8, button: u8, pressed: bool, changes: &mut Vec<PadChange>) {
        if let Some(number) = self.number_for(source, pressed) {
            let state = self.pads[number].state.unwrap_or_default().with_button(button, pressed);
            self.set(number, state, changes);
        }
    }

    /// Applies the state of the driver's gamepads.
    pub(crate) fn apply_state(&mut self, gamepads: &[Gamepad], changes: &mut Vec<PadChange>) {
        for gamepad in gamepads {
            let state = PadState::from_gamepad(gamepad);
            if let Some(number) = self.number_for(gamepad.index, state.is_used()) {
                self.set(number, state, changes);
            }
        }
    }

    /// Frees all gamepads, because the driver has lost the controls.
    pub(crate) fn release(&mut self, changes: &mut Vec<PadChange>) {
        (0..MAX_GAMEPADS).for_each(|number| self.free(number, changes));
    }

    fn number_of(&self, source: u8) -> Option<usize> {
        self.pads.iter().position(|pad| pad.source == Some(source))
    }

    /// Returns the number of the program's gamepad for one of the driver's. If it is in use, the first free one is assigned to it.
    fn number_for(&mut self, source: u8, is_used: bool) -> Option<usize> {
        self.number_of(source).or_else(|| {
            let free = self.pads[..self.count].iter().position(|pad| pad.source.is_none()).filter(|_| is_used)?;
            self.pads[free].source = Some(source);
            Some(free)
        })
    }

    fn free(&mut self, number: usize, changes: &mut Vec<PadChange>) {
        self.pads[number].source = None;
        if self.pads[number].state.is_some() {
            self.set(number, PadState::default(), changes);
        }
    }

    fn set(&mut self, number: usize, state: PadState, changes: &mut Vec<PadChange>) {
        if self.pads[number].state.replace(state) != Some(state) {
            changes.push(PadChange { number: number as u8, state });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gamepad(index: u8, pressed: u32) -> Gamepad {
        Gamepad { index, pressed, values: Vec::new(), axes: vec![9, 0, 0, 0] }
    }

    /// What happens to the driver's gamepads.
    enum Step {
        /// The program can have so many.
        Count(u8),
        /// Number and pressed buttons of those that are plugged in.
        Are(&'static [(u8, u32)]),
        /// A press too short for any state to show it.
        Click(u8),
        Release,
    }
    use Step::{Are, Click, Count, Release};

    /// Words, what happens, whose each of the program's is then, and what the last step has changed: number, and whether it is used.
    type Case = (&'static str, &'static [Step], [Option<u8>; MAX_GAMEPADS], &'static [(u8, bool)]);

    /// Returns whose each of the program's is, and what the last step has changed.
    fn run(steps: &[Step]) -> ([Option<u8>; MAX_GAMEPADS], Vec<(u8, bool)>) {
        let mut gamepads = Gamepads::default();
        gamepads.set_count(4);
        let mut changes = Vec::new();
        for step in steps {
            changes.clear();
            match step {
                Count(count) => gamepads.set_count(*count),
                Are(pads) => {
                    let pads: Vec<_> = pads.iter().map(|(index, pressed)| gamepad(*index, *pressed)).collect();
                    gamepads.keep_only(&pads, &mut changes);
                    gamepads.apply_state(&pads, &mut changes);
                }
                Click(source) => {
                    gamepads.on_button(*source, 0, true, &mut changes);
                    gamepads.on_button(*source, 0, false, &mut changes);
                }
                Release => gamepads.release(&mut changes),
            }
        }
        (gamepads.sources(), changes.iter().map(|change| (change.number, change.state.is_used())).collect())
    }

    #[test]
    fn each_gamepad_is_the_programs_first_free_one_when_it_is_used() {
        const NONE: Option<u8> = None;
        let cases: [Case; 11] = [
            ("one that is not used is none of the program's", &[Are(&[(0, 0)])], [NONE; 4], &[]),
            ("whoever plays alone is the first player", &[Are(&[(2, 1)])], [Some(2), NONE, NONE, NONE], &[(0, true)]),
            (
                "in the order of their first use",
                &[Are(&[(0, 0), (1, 1)]), Are(&[(0, 1), (1, 1)])],
                [Some(1), Some(0), NONE, NONE],
                &[(1, true)],
            ),
            (
                "a short press is a use",
                &[Are(&[(0, 0), (1, 0)]), Click(1)],
                [Some(1), NONE, NONE, NONE],
                &[(0, true), (0, false)],
            ),
            (
                "at rest it stays the program's",
                &[Are(&[(3, 1)]), Are(&[(3, 0)])],
                [Some(3), NONE, NONE, NONE],
                &[(0, false)],
            ),
            (
                "the others stay when one is unplugged",
                &[Are(&[(0, 1), (1, 2)]), Are(&[(1, 2)])],
                [NONE, Some(1), NONE, NONE],
                &[(0, false)],
            ),
            (
                "the place of an unplugged one is the next one's",
                &[Are(&[(0, 1), (1, 2)]), Are(&[(1, 2)]), Are(&[(1, 2), (2, 1)])],
                [Some(2), Some(1), NONE, NONE],
                &[(0, true)],
            ),
            (
                "also at the same moment",
                &[Are(&[(0, 1)]), Are(&[(1, 4)])],
                [Some(1), NONE, NONE, NONE],
                &[(0, false), (0, true)],
            ),
            (
                "no more than the program can have",
                &[Count(1), Are(&[(1, 1)]), Are(&[(0, 1), (1, 1)]), Click(0)],
                [Some(1), NONE, NONE, NONE],
                &[],
            ),
            ("none where it can have none", &[Count(0), Are(&[(0, 1)]), Click(0)], [NONE; 4], &[]),
            (
                "all rest when the controls change hands",
                &[Are(&[(0, 1), (1, 2)]), Release],
                [NONE; 4],
                &[(0, false), (1, false)],
            ),
        ];
        for (words, steps, sources, changes) in cases {
            let (found, changed) = run(steps);
            assert_eq!((found, changed.as_slice()), (sources, changes), "{words}");
        }
    }

    #[test]
    fn whoever_moves_one_does_something() {
        let mut gamepads = Gamepads::default();
        gamepads.set_count(2);
        assert!(!gamepads.differ_from(&[gamepad(0, 0)]), "it rests");
        assert!(gamepads.differ_from(&[gamepad(0, 0), gamepad(1, 1)]), "one is used");
        gamepads.apply_state(&[gamepad(0, 0), gamepad(1, 1)], &mut Vec::new());
        assert!(!gamepads.differ_from(&[gamepad(0, 0), gamepad(1, 1)]), "as it was");
        assert!(gamepads.differ_from(&[gamepad(1, 0)]), "a button is let go");
    }
}
