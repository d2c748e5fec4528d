//! Reads gamepads on their own thread, reports them in W3C's standard mapping, and makes them rumble.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use gilrs::ff::{BaseEffect, BaseEffectType, Effect, EffectBuilder, Repeat, Replay, Ticks};
use gilrs::{Axis, Button, EventType, GamepadId, Gilrs};
use nearlight_wire::{Gamepad, GamepadDescription, Haptics, HapticsTarget, MAX_GAMEPADS, SERVED_GAMEPAD};

use crate::ClientError;

/// Longest delay of a rumble: about half a frame at 60 Hz.
const MAX_RUMBLE_DELAY: Duration = Duration::from_millis(8);
/// Longest sleep of the thread while no gamepad can rumble. Guess: it also bounds how long the thread outlives its sender.
const IDLE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of effects that wait for the thread; of those beyond it, none is played. Guess: one for each motor and frame of its sleep.
const MAX_QUEUED_HAPTICS: usize = 64;

/// The standard mapping's buttons in order ("Gamepad", W3C, section 7).
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
/// The standard mapping's axes in order, and the sign that converts from gilrs: in the mapping, down is positive.
const AXES: [(Axis, f32); 4] =
    [(Axis::LeftStickX, 1.0), (Axis::LeftStickY, -1.0), (Axis::RightStickX, 1.0), (Axis::RightStickY, -1.0)];

/// A report of the gamepad thread.
pub enum GamepadReport {
    /// The connected gamepads, when one was connected or disconnected.
    Descriptions(Vec<GamepadDescription>),
    /// The state of all gamepads, when one has changed.
    States(Vec<Gamepad>),
}

/// Reads gamepads, and makes them rumble, until the last clone of the returned sender is dropped.
pub fn start(report: impl Fn(GamepadReport) + Send + 'static) -> Result<SyncSender<Haptics>, ClientError> {
    let (haptics, pulses) = sync_channel(MAX_QUEUED_HAPTICS);
    std::thread::Builder::new()
        .name("gamepads".into())
        .spawn(move || run(&pulses, &report))
        .map_err(|source| ClientError::system("thread for gamepads", source))?;
    Ok(haptics)
}

/// A gamepad that occupies one of the protocol's slots.
struct GamepadSlot {
    id: GamepadId,
    /// The current effect, which ends when it is dropped.
    rumble: Option<Effect>,
}

fn run(pulses: &Receiver<Haptics>, report: &dyn Fn(GamepadReport)) {
    let mut gilrs = match Gilrs::new() {
        Ok(gilrs) => gilrs,
        Err(error) => {
            tracing::warn!(%error, "cannot access gamepads; they have no effect");
            return;
        }
    };
    let mut slots: [Option<GamepadSlot>; MAX_GAMEPADS] = Default::default();
    for (id, _) in gilrs.gamepads() {
        assign_slot(&gilrs, &mut slots, id);
    }
    let mut described = Vec::new();
    let mut reported = Vec::new();
    loop {
        let now = descriptions(&gilrs, &slots);
        if now != described {
            described.clone_from(&now);
            report(GamepadReport::Descriptions(now));
        }
        let states = states(&gilrs, &slots);
        if states != reported {
            reported.clone_from(&states);
            report(GamepadReport::States(states));
        }
        let wait = if described.iter().any(|gamepad| gamepad.haptics) { MAX_RUMBLE_DELAY } else { IDLE_TIMEOUT };
        let mut event = gilrs.next_event_blocking(Some(wait));
        while let Some(happened) = event {
            match happened.event {
                EventType::Connected => assign_slot(&gilrs, &mut slots, happened.id),
                EventType::Disconnected => {
                    slots
                        .iter_mut()
                        .filter(|place| place.as_ref().is_some_and(|slot| slot.id == happened.id))
                        .for_each(|place| *place = None);
                }
                _ => {}
            }
            event = gilrs.next_event();
        }
        loop {
            match pulses.try_recv() {
                Ok(haptics) => play_haptics(&mut gilrs, &mut slots, haptics),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// Assigns the first free slot to a gamepad. Gamepads beyond the protocol's limit are ignored.
fn assign_slot(gilrs: &Gilrs, slots: &mut [Option<GamepadSlot>; MAX_GAMEPADS], id: GamepadId) {
    let known = slots.iter().flatten().any(|slot| slot.id == id);
    // The virtual gamepads of a program that this machine serves would control themselves.
    let served = gilrs.gamepad(id).os_name().contains(SERVED_GAMEPAD);
    if let Some(place) = slots.iter_mut().find(|place| place.is_none()).filter(|_| !known && !served) {
        *place = Some(GamepadSlot { id, rumble: None });
    }
}

fn descriptions(gilrs: &Gilrs, slots: &[Option<GamepadSlot>; MAX_GAMEPADS]) -> Vec<GamepadDescription> {
    let described = slots.iter().zip(0..).filter_map(|(place, index)| {
        let gamepad = gilrs.connected_gamepad(place.as_ref()?.id)?;
        Some(GamepadDescription { index, name: gamepad.name().to_owned(), haptics: gamepad.is_ff_supported() })
    });
    described.collect()
}

fn states(gilrs: &Gilrs, slots: &[Option<GamepadSlot>; MAX_GAMEPADS]) -> Vec<Gamepad> {
    let states = slots.iter().zip(0..).filter_map(|(place, index)| {
        let gamepad = gilrs.connected_gamepad(place.as_ref()?.id)?;
        let button =
            |button| gamepad.button_data(button).map_or((0.0, false), |data| (data.value(), data.is_pressed()));
        Some(standard_gamepad(index, button, |axis| gamepad.value(axis)))
    });
    states.collect()
}

/// Returns a gamepad's state in the standard mapping. `button` returns how far a button is down, from 0 to 1, and whether it counts as
/// pressed; `axis` returns -1 to 1, where up is positive.
fn standard_gamepad(index: u8, button: impl Fn(Button) -> (f32, bool), axis: impl Fn(Axis) -> f32) -> Gamepad {
    let buttons = BUTTONS.map(button);
    let values = buttons.iter().map(|(value, _)| (value.clamp(0.0, 1.0) * f32::from(u8::MAX)).round() as u8).collect();
    let pressed = (0..).zip(buttons).fold(0, |set, (bit, (_, pressed))| set | u32::from(pressed) << bit);
    let fraction =
        |(code, sign): (Axis, f32)| ((axis(code) * sign).clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16;
    Gamepad { index, pressed, values, axes: AXES.map(fraction).to_vec() }
}

/// Replaces the motors' current effect.
fn play_haptics(gilrs: &mut Gilrs, slots: &mut [Option<GamepadSlot>; MAX_GAMEPADS], haptics: Haptics) {
    let HapticsTarget::Gamepad(index) = haptics.target else { return };
    let Some(Some(slot)) = slots.get_mut(usize::from(index)) else { return };
    slot.rumble = None;
    let effects = motor_effects(haptics);
    if effects.is_empty() {
        return;
    }
    let mut builder = EffectBuilder::new();
    builder.gamepads(&[slot.id]).repeat(Repeat::For(Ticks::from_ms(u32::from(haptics.milliseconds))));
    for effect in effects {
        builder.add_effect(effect);
    }
    match builder.finish(gilrs).and_then(|effect| effect.play().map(|()| effect)) {
        Ok(effect) => slot.rumble = Some(effect),
        Err(error) => tracing::debug!(%error, index, "the gamepad does not rumble"),
    }
}

/// Returns the motors' effects for a pulse; none if it has no length or no strength.
fn motor_effects(Haptics { milliseconds, strong, weak, .. }: Haptics) -> Vec<BaseEffect> {
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
        let gamepad = standard_gamepad(2, button, axis);
        assert_eq!((gamepad.index, gamepad.pressed), (2, 1 | 1 << 16));
        assert_eq!((gamepad.values[0], gamepad.values[7], gamepad.values.len()), (255, 128, 17));
        assert_eq!(gamepad.axes, [-i16::MAX, -i16::MAX, 0, 16_384], "up is negative");
    }

    #[test]
    fn a_pulse_runs_the_motors_that_have_a_strength() {
        let pulse = |milliseconds, strong, weak| {
            motor_effects(Haptics { target: HapticsTarget::Gamepad(0), milliseconds, strong, weak })
        };
        assert_eq!(pulse(60, 0.5, 1.0).len(), 2);
        assert_eq!(pulse(60, 0.0, 1.0)[0].kind, BaseEffectType::Weak { magnitude: u16::MAX });
        assert_eq!(pulse(60, 0.5, 0.0)[0].scheduling.play_for, Ticks::from_ms(60));
        assert!(pulse(0, 1.0, 1.0).is_empty() && pulse(60, 0.0, 0.0).is_empty(), "the end of the pulse before");
    }
}
