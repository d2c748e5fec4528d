//! Gamepads, read on a thread of their own and reported in W3C's standard mapping, and their rumble.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use gilrs::ff::{BaseEffect, BaseEffectType, Effect, EffectBuilder, Repeat, Replay, Ticks};
use gilrs::{Axis, Button, EventType, GamepadId, Gilrs};
use nearlight_wire::{Gamepad, GamepadDescription, Haptics, HapticsTarget, MAX_GAMEPADS, SERVED_GAMEPAD};

use crate::ClientError;

/// How long a rumble may be delayed: less than half a frame at 60 a second.
const RUMBLE_WAIT: Duration = Duration::from_millis(8);
/// How long the thread sleeps while there is nothing that could rumble.
const IDLE_WAIT: Duration = Duration::from_millis(250);

/// Buttons of the standard mapping in order ("Gamepad", W3C, section 7).
const BUTTONS: [Button; 17] = [
    Button::South,
    Button::East,
    Button::West,
    Button::North,
    Button::LeftTrigger,
    Button::RightTrigger,
    Button::LeftTrigger2,
    Button::RightTrigger2,
    Button::Select,
    Button::Start,
    Button::LeftThumb,
    Button::RightThumb,
    Button::DPadUp,
    Button::DPadDown,
    Button::DPadLeft,
    Button::DPadRight,
    Button::Mode,
];
/// Its axes, and their sign: down is positive there.
const AXES: [(Axis, f32); 4] =
    [(Axis::LeftStickX, 1.0), (Axis::LeftStickY, -1.0), (Axis::RightStickX, 1.0), (Axis::RightStickY, -1.0)];

/// The thread's reports.
pub enum GamepadNews {
    /// One was connected or disconnected.
    Described(Vec<GamepadDescription>),
    /// The state of all of them.
    States(Vec<Gamepad>),
}

/// Reads gamepads, and makes them rumble, until the last clone of the returned sender is dropped.
pub fn start(tell: impl Fn(GamepadNews) + Send + 'static) -> Result<Sender<Haptics>, ClientError> {
    let (haptics, pulses) = channel();
    std::thread::Builder::new()
        .name("gamepads".into())
        .spawn(move || follow(&pulses, &tell))
        .map_err(|source| ClientError::system("thread for gamepads", source))?;
    Ok(haptics)
}

/// A gamepad in one of the protocol's slots.
struct Held {
    id: GamepadId,
    /// Ends when dropped.
    rumble: Option<Effect>,
}

fn follow(pulses: &Receiver<Haptics>, tell: &dyn Fn(GamepadNews)) {
    let mut gilrs = match Gilrs::new() {
        Ok(gilrs) => gilrs,
        Err(error) => {
            tracing::warn!(%error, "cannot access gamepads; they have no effect");
            return;
        }
    };
    let mut held: [Option<Held>; MAX_GAMEPADS] = Default::default();
    for (id, _) in gilrs.gamepads() {
        take(&gilrs, &mut held, id);
    }
    let mut described = Vec::new();
    let mut reported = Vec::new();
    loop {
        let now = descriptions(&gilrs, &held);
        if now != described {
            described.clone_from(&now);
            tell(GamepadNews::Described(now));
        }
        let states = states(&gilrs, &held);
        if states != reported {
            reported.clone_from(&states);
            tell(GamepadNews::States(states));
        }
        let wait = if described.iter().any(|gamepad| gamepad.haptics) { RUMBLE_WAIT } else { IDLE_WAIT };
        let mut event = gilrs.next_event_blocking(Some(wait));
        while let Some(happened) = event {
            match happened.event {
                EventType::Connected => take(&gilrs, &mut held, happened.id),
                EventType::Disconnected => {
                    held.iter_mut()
                        .filter(|place| place.as_ref().is_some_and(|held| held.id == happened.id))
                        .for_each(|place| *place = None);
                }
                _ => {}
            }
            event = gilrs.next_event();
        }
        loop {
            match pulses.try_recv() {
                Ok(haptics) => shake(&mut gilrs, &mut held, haptics),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// Assigns a gamepad of the user's the first free slot; those beyond the protocol's limit are ignored.
fn take(gilrs: &Gilrs, held: &mut [Option<Held>; MAX_GAMEPADS], id: GamepadId) {
    let known = held.iter().flatten().any(|held| held.id == id);
    // Those of a program that is served by this machine would move themselves.
    let served = gilrs.gamepad(id).os_name().contains(SERVED_GAMEPAD);
    if let Some(place) = held.iter_mut().find(|place| place.is_none()).filter(|_| !known && !served) {
        *place = Some(Held { id, rumble: None });
    }
}

fn descriptions(gilrs: &Gilrs, held: &[Option<Held>; MAX_GAMEPADS]) -> Vec<GamepadDescription> {
    let described = held.iter().zip(0..).filter_map(|(place, index)| {
        let gamepad = gilrs.connected_gamepad(place.as_ref()?.id)?;
        Some(GamepadDescription { index, name: gamepad.name().to_owned(), haptics: gamepad.is_ff_supported() })
    });
    described.collect()
}

fn states(gilrs: &Gilrs, held: &[Option<Held>; MAX_GAMEPADS]) -> Vec<Gamepad> {
    let states = held.iter().zip(0..).filter_map(|(place, index)| {
        let gamepad = gilrs.connected_gamepad(place.as_ref()?.id)?;
        let button =
            |button| gamepad.button_data(button).map_or((0.0, false), |data| (data.value(), data.is_pressed()));
        Some(standard(index, button, |axis| gamepad.value(axis)))
    });
    states.collect()
}

/// A gamepad in the standard mapping: how far each button is down, 0 to 1, and whether it counts as pressed; axes from -1 to 1, up positive.
fn standard(index: u8, button: impl Fn(Button) -> (f32, bool), axis: impl Fn(Axis) -> f32) -> Gamepad {
    let buttons = BUTTONS.map(button);
    let values = buttons.iter().map(|(value, _)| (value.clamp(0.0, 1.0) * f32::from(u8::MAX)).round() as u8).collect();
    let pressed = (0..).zip(buttons).fold(0, |set, (bit, (_, pressed))| set | u32::from(pressed) << bit);
    let fraction =
        |(way, sign): (Axis, f32)| ((axis(way) * sign).clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16;
    Gamepad { index, pressed, values, axes: AXES.map(fraction).to_vec() }
}

/// Replaces the motors' current effect.
fn shake(gilrs: &mut Gilrs, held: &mut [Option<Held>; MAX_GAMEPADS], haptics: Haptics) {
    let HapticsTarget::Gamepad(index) = haptics.target else { return };
    let Some(Some(held)) = held.get_mut(usize::from(index)) else { return };
    held.rumble = None;
    let effects = motors(haptics);
    if effects.is_empty() {
        return;
    }
    let mut builder = EffectBuilder::new();
    builder.gamepads(&[held.id]).repeat(Repeat::For(Ticks::from_ms(u32::from(haptics.milliseconds))));
    for effect in effects {
        builder.add_effect(effect);
    }
    match builder.finish(gilrs).and_then(|effect| effect.play().map(|()| effect)) {
        Ok(effect) => held.rumble = Some(effect),
        Err(error) => tracing::debug!(%error, index, "the gamepad does not rumble"),
    }
}

/// The motors' effect for a pulse; empty for one of no length or strength.
fn motors(Haptics { milliseconds, strong, weak, .. }: Haptics) -> Vec<BaseEffect> {
    let magnitude = |strength: f32| (strength.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16;
    let scheduling = Replay { play_for: Ticks::from_ms(u32::from(milliseconds)), ..Replay::default() };
    let kinds = [
        (strong, BaseEffectType::Strong { magnitude: magnitude(strong) }),
        (weak, BaseEffectType::Weak { magnitude: magnitude(weak) }),
    ];
    let running = kinds.into_iter().filter(|(strength, _)| milliseconds > 0 && *strength > 0.0);
    running.map(|(_, kind)| BaseEffect { kind, scheduling, ..BaseEffect::default() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gamepad_is_reported_in_the_standard_mapping() {
        let button = |button| match button {
            Button::South | Button::Mode => (1.0, true),
            Button::RightTrigger2 => (0.5, false),
            _ => (0.0, false),
        };
        let axis = |axis| match axis {
            Axis::LeftStickX => -1.0,
            Axis::LeftStickY => 1.0,
            Axis::RightStickY => -0.5,
            _ => 0.0,
        };
        let gamepad = standard(2, button, axis);
        assert_eq!((gamepad.index, gamepad.pressed), (2, 1 | 1 << 16));
        assert_eq!((gamepad.values[0], gamepad.values[7], gamepad.values.len()), (255, 128, 17));
        assert_eq!(gamepad.axes, [-i16::MAX, -i16::MAX, 0, 16_384], "up is negative");
    }

    #[test]
    fn a_pulse_runs_the_motors_that_have_a_strength() {
        let pulse = |milliseconds, strong, weak| {
            motors(Haptics { target: HapticsTarget::Gamepad(0), milliseconds, strong, weak })
        };
        assert_eq!(pulse(60, 0.5, 1.0).len(), 2);
        assert_eq!(pulse(60, 0.0, 1.0)[0].kind, BaseEffectType::Weak { magnitude: u16::MAX });
        assert_eq!(pulse(60, 0.5, 0.0)[0].scheduling.play_for, Ticks::from_ms(60));
        assert!(pulse(0, 1.0, 1.0).is_empty() && pulse(60, 0.0, 0.0).is_empty(), "the end of the pulse before");
    }
}
