use nearlight_wire::{Gamepad, Touch};

use super::*;
use crate::input::gamepad::PadState;
use crate::input::keyboard::Keymap;

const ONE: Viewer = Viewer(1);
const TWO: Viewer = Viewer(2);

fn controls() -> Controls {
    let symbols: Vec<u32> = (8..=255).flat_map(|code| [code, 0]).collect();
    Controls::new((1_280, 720), Keyboard::new(Keymap::new(8, 2, &symbols)))
}

fn millis(at: u64) -> Time {
    Time::from_millis(at)
}

fn at(x: u16, y: u16) -> ScreenPoint {
    ScreenPoint { x, y }
}

fn input(pointer: Pointer, events: &[InputEvent]) -> ViewerInput {
    let keys = events
        .iter()
        .filter_map(|event| if let InputEvent::Key { key, pressed: true } = event { Some(*key) } else { None });
    let devices = Devices { pointer: Some(pointer), keys: keys.collect(), ..Devices::default() };
    ViewerInput { devices, events: events.to_vec(), ..ViewerInput::default() }
}

fn key(name: &str, pressed: bool) -> InputEvent {
    InputEvent::Key { key: Key::from_code(name).expect(name), pressed }
}

fn button(pressed: bool, place: ScreenPoint) -> InputEvent {
    InputEvent::Button { button: PointerButton::Primary, pressed, at: place }
}

fn act(controls: &mut Controls, now: u64, viewer: Viewer, input: &ViewerInput) -> Vec<Action> {
    let mut actions = Vec::new();
    controls.on_input(millis(now), viewer, input, &mut actions);
    actions
}

#[test]
fn the_first_who_acts_has_the_controls_until_gone_or_idle() {
    let mut controls = controls();
    let press = |place| input(Pointer { buttons: 1, at: place, ..Pointer::default() }, &[button(true, place)]);
    let look = |place| input(Pointer { at: place, ..Pointer::default() }, &[]);
    assert_eq!(act(&mut controls, 0, ONE, &look(at(9, 9))), [], "looking takes nothing");
    assert_eq!(act(&mut controls, 10, TWO, &press(at(32_768, 32_768))).len(), 2);
    assert_eq!(controls.driver(), Some(TWO));
    assert_eq!(act(&mut controls, 20, ONE, &press(at(0, 0))), [], "the other has them");
    let mut actions = Vec::new();
    controls.on_viewer_left(millis(25), TWO, &mut actions);
    assert_eq!(actions, [Action::Button { button: 1, pressed: false }], "what was held is let go");
    assert_eq!(act(&mut controls, 26, ONE, &look(at(0, 0))), []);
    assert!(!act(&mut controls, 5_030, ONE, &press(at(0, 0))).is_empty());
    // A viewer who does nothing for long loses them.
    act(&mut controls, 5_040, ONE, &look(at(0, 0)));
    assert_eq!(act(&mut controls, 9_000, TWO, &press(at(0, 0))), []);
    act(&mut controls, 9_010, TWO, &look(at(0, 0)));
    assert!(!act(&mut controls, 14_100, TWO, &press(at(9_000, 0))).is_empty());
    assert_eq!(controls.driver(), Some(TWO));
}

/// The presses among actions.
fn presses(actions: &[Action]) -> usize {
    let is_press = |action: &&Action| {
        matches!(action, Action::Keyboard(Step::Key { pressed: true, .. }) | Action::Button { pressed: true, .. })
    };
    actions.iter().filter(is_press).count()
}

/// Taps a key every 100 ms from `from` up to `to`. Returns how many reached the program.
fn type_for(controls: &mut Controls, viewer: Viewer, from: u64, to: u64) -> usize {
    let tap = input(Pointer::default(), &[key("KeyA", true), InputEvent::Text("a".into()), key("KeyA", false)]);
    let tap = ViewerInput { devices: nearlight_wire::Devices { keys: Vec::new(), ..tap.devices }, ..tap };
    (from..to).step_by(100).map(|at| presses(&act(controls, at, viewer, &tap))).sum()
}

#[test]
fn what_a_viewer_types_is_refused_as_a_whole_or_granted_at_its_first_key() {
    let mut controls = controls();
    assert_eq!(type_for(&mut controls, ONE, 0, 1_000), 10);
    // The driver becomes idle while the other types.
    assert_eq!(type_for(&mut controls, TWO, 2_000, 9_000), 0);
    assert_eq!(controls.take_refused(), [TWO], "told once");
    assert_eq!(controls.take_refused(), []);
    assert_eq!(type_for(&mut controls, TWO, 14_000, 15_000), 10, "after a pause, from the first key on");
    assert_eq!(controls.driver(), Some(TWO));
    // The driver leaves while the other types.
    assert_eq!(type_for(&mut controls, ONE, 16_000, 17_000), 0);
    controls.on_viewer_left(millis(17_000), TWO, &mut Vec::new());
    assert_eq!(type_for(&mut controls, ONE, 17_000, 18_000), 0);
    assert_eq!(controls.driver(), None);
    assert_eq!(type_for(&mut controls, ONE, 23_000, 24_000), 10);
}

#[test]
fn who_asks_for_the_controls_may_type_at_once_and_who_gets_them_while_typing_after_a_pause() {
    let mut controls = controls();
    assert_eq!(type_for(&mut controls, ONE, 0, 1_000), 10);
    assert_eq!(type_for(&mut controls, TWO, 1_000, 7_000), 0);
    controls.on_requested(millis(7_000), TWO, &mut Vec::new());
    assert_eq!(type_for(&mut controls, TWO, 7_000, 8_000), 10, "the driver is idle");
    controls.on_requested(millis(8_000), ONE, &mut Vec::new());
    assert_eq!(type_for(&mut controls, ONE, 8_000, 8_500), 0);
    controls.on_released(millis(8_500), TWO, &mut Vec::new());
    assert_eq!(controls.driver(), Some(ONE));
    assert_eq!(type_for(&mut controls, ONE, 8_500, 9_000), 0, "the rest of what was refused");
    assert_eq!(type_for(&mut controls, ONE, 10_000, 11_000), 10);
}

#[test]
fn a_drag_is_refused_to_its_end() {
    let mut controls = controls();
    assert_eq!(type_for(&mut controls, ONE, 0, 100), 1);
    let pointer = |buttons, x| Pointer { buttons, at: at(x, 0), ..Pointer::default() };
    assert_eq!(act(&mut controls, 1_000, TWO, &input(pointer(1, 0), &[button(true, at(0, 0))])), []);
    for moment in 10..70 {
        assert_eq!(act(&mut controls, moment * 100, TWO, &input(pointer(1, moment as u16), &[])), []);
    }
    assert_eq!(act(&mut controls, 7_000, TWO, &input(pointer(0, 70), &[button(false, at(70, 0))])), []);
    assert_eq!(controls.driver(), Some(ONE));
}

#[test]
fn only_the_drivers_clipboard_is_the_programs() {
    let mut controls = controls();
    let mut actions = Vec::new();
    assert!(controls.on_clipboard(millis(0), ONE, &mut actions), "pasting takes free controls");
    assert!(!controls.on_clipboard(millis(4_000), TWO, &mut actions));
    assert_eq!(controls.take_refused(), [TWO]);
    assert!(controls.on_clipboard(millis(4_500), ONE, &mut actions));
    assert_eq!(type_for(&mut controls, TWO, 4_100, 5_000), 0, "nor are the keys that paste it");
    assert!(controls.on_clipboard(millis(10_500), TWO, &mut actions), "the driver is idle");
}

#[test]
fn releases_and_repeats_take_nothing() {
    let mut controls = controls();
    let held = || input(Pointer::default(), &[key("KeyA", true)]);
    assert_eq!(presses(&act(&mut controls, 0, ONE, &held())), 1);
    controls.on_released(millis(10), ONE, &mut Vec::new());
    let key_a = Key::from_code("KeyA").expect("a key");
    let repeated = input(Pointer::default(), &[InputEvent::KeyRepeated { key: key_a }]);
    assert_eq!(act(&mut controls, 20, ONE, &repeated), []);
    assert_eq!(act(&mut controls, 30, ONE, &input(Pointer::default(), &[key("KeyA", false)])), []);
    assert_eq!(controls.driver(), None);
}

#[test]
fn keys_repeat_as_the_viewers_do_except_for_games() {
    let mut controls = controls();
    let key_a = Key::from_code("KeyA").expect("a key");
    let with = |events: &[InputEvent]| {
        let mut input = input(Pointer::default(), events);
        input.devices.keys = vec![key_a];
        input
    };
    let repeat = [InputEvent::KeyRepeated { key: key_a }, InputEvent::Text("a".into())];
    assert_eq!(presses(&act(&mut controls, 0, ONE, &with(&[key("KeyA", true), InputEvent::Text("a".into())]))), 1);
    assert_eq!(presses(&act(&mut controls, 3_000, ONE, &with(&[]))), 0, "however long it is held");
    assert_eq!(presses(&act(&mut controls, 3_010, ONE, &with(&repeat))), 1);
    controls.set_captured(true);
    assert_eq!(act(&mut controls, 3_020, ONE, &with(&repeat)), []);
}

#[test]
fn the_driver_hands_the_controls_to_whoever_asked_first() {
    const THREE: Viewer = Viewer(3);
    let mut controls = controls();
    let down = input(Pointer::default(), &[key("KeyA", true)]);
    let pressed = act(&mut controls, 0, ONE, &down);
    assert!(!pressed.is_empty());
    let mut actions = Vec::new();
    for viewer in [ONE, TWO, THREE, TWO] {
        controls.on_requested(millis(10), viewer, &mut actions);
    }
    assert_eq!(
        controls.state(),
        ControlState { driver: Some(ONE), requests: vec![TWO, THREE], ..ControlState::default() }
    );
    controls.on_released(millis(20), TWO, &mut actions);
    assert_eq!(
        controls.state(),
        ControlState { driver: Some(ONE), requests: vec![THREE], ..ControlState::default() },
        "a request is withdrawn"
    );
    assert_eq!(actions, [], "requests does nothing to the program");
    controls.on_released(millis(30), ONE, &mut actions);
    assert_eq!(controls.state(), ControlState { driver: Some(THREE), requests: vec![], ..ControlState::default() });
    assert!(matches!(actions[..], [Action::Keyboard(Step::Key { pressed: false, .. })]), "{actions:?}");
    assert_eq!(act(&mut controls, 40, ONE, &down), [], "the one who handed them on watches");
    // Handed on to nobody, they are free; who asks for free controls or for those of an idle viewer has them at once.
    controls.on_released(millis(50), THREE, &mut actions);
    assert_eq!(controls.state(), ControlState::default());
    controls.on_requested(millis(60), ONE, &mut actions);
    controls.on_requested(millis(60), TWO, &mut actions);
    assert_eq!(controls.state(), ControlState { driver: Some(ONE), requests: vec![TWO], ..ControlState::default() });
    controls.on_requested(millis(9_000), TWO, &mut actions);
    assert_eq!(controls.state(), ControlState { driver: Some(TWO), requests: vec![], ..ControlState::default() });
    controls.on_requested(millis(9_010), ONE, &mut actions);
    controls.on_viewer_left(millis(9_020), TWO, &mut actions);
    assert_eq!(controls.state().driver, Some(ONE), "who leaves hands them on as well");
}

#[test]
fn the_pointer_goes_to_its_place_before_a_button_does_anything() {
    let mut controls = controls();
    let place = at(32_768, 65_535);
    let pressed = act(
        &mut controls,
        0,
        ONE,
        &input(Pointer { at: place, buttons: 1, ..Pointer::default() }, &[button(true, place)]),
    );
    assert_eq!(pressed, [Action::MoveTo { x: 640, y: 719 }, Action::Button { button: 1, pressed: true }]);
    // The release was not reported as an event, as after a second of silence.
    let released = act(&mut controls, 9, ONE, &input(Pointer { at: place, ..Pointer::default() }, &[]));
    assert_eq!(released, [Action::Button { button: 1, pressed: false }]);
}

#[test]
fn movement_and_wheel_are_totals() {
    let mut controls = controls();
    let wrapped = Pointer { moved: [i32::MAX, 5], captured: true, ..Pointer::default() };
    act(&mut controls, 0, ONE, &input(wrapped, &[key("KeyA", true)]));
    let moved = Pointer { moved: [i32::MIN + 2, 2], scrolled: [0, UNITS_PER_NOTCH + 8], ..wrapped };
    let still_down = || input(moved, &[]);
    let mut wanted = vec![Action::MoveBy { right: 3, down: -3 }];
    wanted.extend([true, false].map(|pressed| Action::Button { button: 5, pressed }));
    let mut actions = act(&mut controls, 5, ONE, &still_down());
    actions.retain(|action| !matches!(action, Action::Keyboard(_)));
    assert_eq!(actions, wanted);
    assert_eq!(act(&mut controls, 6, ONE, &still_down()), [], "the same totals again");
    let up = Pointer { scrolled: [0, -UNITS_PER_NOTCH], ..moved };
    assert_eq!(act(&mut controls, 7, ONE, &input(up, &[])).len(), 4, "two notches up less what remained");
}

#[test]
fn positions_are_kept_from_a_program_that_has_captured_the_pointer() {
    let mut controls = controls();
    controls.set_captured(true);
    let place = at(9_999, 9_999);
    let pressed = act(
        &mut controls,
        0,
        ONE,
        &input(Pointer { at: place, buttons: 1, ..Pointer::default() }, &[button(true, place)]),
    );
    assert_eq!(pressed, [Action::Button { button: 1, pressed: true }]);
}

#[test]
fn who_captures_the_pointer_takes_the_controls_once() {
    let mut controls = controls();
    controls.set_captured(true);
    let look = |captured, right| input(Pointer { captured, moved: [right, 0], ..Pointer::default() }, &[]);
    assert_eq!(act(&mut controls, 0, ONE, &look(false, 0)), []);
    assert_eq!(controls.state().driver, None, "movement alone takes nothing");
    assert_eq!(act(&mut controls, 1, ONE, &look(true, 0)), []);
    assert_eq!(act(&mut controls, 2, ONE, &look(true, 7)), [Action::MoveBy { right: 7, down: 0 }]);
    controls.on_released(millis(3), ONE, &mut Vec::new());
    assert_eq!(act(&mut controls, 4, ONE, &look(true, 9)), [], "handed over, with the pointer still captured");
    assert_eq!(controls.state().driver, None);
}

#[test]
fn one_finger_is_the_pointer() {
    let mut controls = controls();
    let touched = |touches: &[Touch], events: &[InputEvent]| ViewerInput {
        devices: Devices { touches: touches.to_vec(), ..Devices::default() },
        events: events.to_vec(),
        ..ViewerInput::default()
    };
    let finger = |x| Touch { id: 4, at: at(x, 0), pressure: 9 };
    let began = InputEvent::TouchBegan { id: 4, at: at(0, 0) };
    let first =
        act(&mut controls, 0, ONE, &touched(&[finger(0)], &[began, InputEvent::TouchBegan { id: 5, at: at(9, 9) }]));
    assert_eq!(first, [Action::MoveTo { x: 0, y: 0 }, Action::Button { button: 1, pressed: true }]);
    assert_eq!(act(&mut controls, 1, ONE, &touched(&[finger(6_554)], &[])), [Action::MoveTo { x: 128, y: 0 }]);
    assert_eq!(act(&mut controls, 2, ONE, &touched(&[], &[])), [Action::Button { button: 1, pressed: false }]);
}

#[test]
fn a_key_and_what_it_types_are_one_press() {
    let mut controls = controls();
    let events = [key("KeyA", true), InputEvent::Text("q".into()), key("KeyA", false)];
    let actions = act(&mut controls, 0, ONE, &input(Pointer::default(), &events));
    let presses =
        actions.iter().filter(|action| matches!(action, Action::Keyboard(Step::Key { pressed: true, .. }))).count();
    assert_eq!(presses, 1, "{actions:?}");
}

/// Gamepads: number, pressed buttons, and how far the left stick is to the right.
fn gamepads(pads: &[(u8, u32, i16)], events: &[InputEvent]) -> ViewerInput {
    let gamepads = pads.iter().map(|(index, pressed, right)| Gamepad {
        index: *index,
        pressed: *pressed,
        values: Vec::new(),
        axes: vec![*right, 0, 0, 0],
    });
    ViewerInput {
        devices: Devices { gamepads: gamepads.collect(), ..Devices::default() },
        events: events.to_vec(),
        ..ViewerInput::default()
    }
}

const fn pad_button(gamepad: u8, pressed: bool) -> InputEvent {
    InputEvent::GamepadButton { gamepad, button: 0, pressed }
}

fn change(number: u8, state: PadState) -> Action {
    Action::Gamepad(PadChange { number, state })
}

#[test]
fn the_drivers_gamepad_is_the_programs_and_rests_when_it_is_gone() {
    let mut controls = controls();
    controls.set_gamepads(1);
    let moved = || gamepads(&[(2, 0, 30_000)], &[]);
    assert_eq!(act(&mut controls, 0, ONE, &moved()), [], "a stick takes nothing");
    // A short press: the state shows nothing of it.
    let events = [pad_button(2, true), pad_button(2, false), pad_button(3, true)];
    let actions = act(&mut controls, 10, ONE, &gamepads(&[(2, 0, 30_000)], &events));
    let state = PadState::from_gamepad(&moved().devices.gamepads[0]);
    let pressed = PadState::default().with_button(0, true);
    assert_eq!(actions, [pressed, PadState::default(), state].map(|state| change(0, state)));
    assert_eq!(controls.state().gamepads, [Some(2), None, None, None]);
    assert_eq!(act(&mut controls, 20, ONE, &moved()), [], "as it was");
    let mut actions = Vec::new();
    controls.on_viewer_left(millis(30), ONE, &mut actions);
    assert_eq!(actions, [change(0, PadState::default())]);
    assert_eq!(controls.state(), ControlState::default());
    let typed = act(&mut controls, 40, TWO, &input(Pointer::default(), &[key("KeyA", true), key("KeyA", false)]));
    assert!(typed.iter().all(|action| !matches!(action, Action::Gamepad(_))), "{typed:?}");
}

#[test]
fn all_gamepads_of_the_driver_rest_before_the_next_ones_are_the_programs() {
    let mut controls = controls();
    controls.set_gamepads(4);
    let held = gamepads(&[(0, 1, 0), (1, 2, 0)], &[pad_button(0, true)]);
    assert_eq!(act(&mut controls, 0, ONE, &held).len(), 2);
    assert_eq!(act(&mut controls, 10, TWO, &gamepads(&[(3, 1, 0)], &[pad_button(3, true)])), [], "the other has them");
    assert_eq!(controls.state().gamepads, [Some(0), Some(1), None, None]);
    // The first viewer is idle.
    act(&mut controls, 20, ONE, &gamepads(&[(0, 0, 0), (1, 2, 0)], &[]));
    act(&mut controls, 30, ONE, &gamepads(&[(0, 0, 0), (1, 0, 0)], &[]));
    let rest = PadState::default();
    let pressed = rest.with_button(0, true);
    let taken = act(&mut controls, 9_000, TWO, &gamepads(&[(3, 1, 0)], &[pad_button(3, true)]));
    assert_eq!(taken, [change(0, pressed)], "whoever plays alone is the first player");
    assert_eq!(controls.state().gamepads, [Some(3), None, None, None]);
    act(&mut controls, 9_010, TWO, &gamepads(&[(3, 1, 0), (0, 1, 0)], &[]));
    let mut actions = Vec::new();
    controls.on_released(millis(9_020), TWO, &mut actions);
    assert_eq!(actions, [change(0, rest), change(1, rest)]);
}

/// Whatever viewers do with their gamepads: one of them at most moves each of the program's, nobody moves more than there are, and all rest
/// once nobody has the controls.
#[test]
fn operations_with_gamepads_keep_their_invariants() {
    for seed in 0..300_u64 {
        let (mut controls, mut random, mut program) = (controls(), seed, [PadState::default(); 4]);
        let mut below = |bound: u64| {
            // A linear congruential generator (Knuth's MMIX).
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let count = below(5) as u8;
        controls.set_gamepads(count);
        let mut actions = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..200 {
            now += Span::from_millis(below(3) as i64 * 2_000);
            let viewer = Viewer(below(3) as u32);
            match below(10) {
                0 => controls.on_viewer_left(now, viewer, &mut actions),
                1 => controls.on_released(now, viewer, &mut actions),
                2 => controls.on_requested(now, viewer, &mut actions),
                _ => {
                    let plugged = below(16);
                    let pads: Vec<_> = (0..4_u8)
                        .filter(|index| plugged & 1 << index != 0)
                        .map(|index| (index, below(4) as u32, below(32_768) as i16))
                        .collect();
                    let events: Vec<_> = (0..below(3)).map(|_| pad_button(below(4) as u8, below(2) == 0)).collect();
                    controls.on_input(now, viewer, &gamepads(&pads, &events), &mut actions);
                }
            }
            for action in actions.drain(..) {
                let Action::Gamepad(PadChange { number, state }) = action else { panic!("{seed}: {action:?}") };
                assert!(number < count, "{seed}: there are {count}, and not {number}");
                assert_ne!(std::mem::replace(&mut program[usize::from(number)], state), state, "{seed}: nothing new");
            }
            let ControlState { driver, gamepads, .. } = controls.state();
            let mut sources: Vec<u8> = gamepads.into_iter().flatten().collect();
            assert!(driver.is_some() || sources.is_empty(), "{seed}: moved by nobody");
            sources.sort_unstable();
            assert!(sources.windows(2).all(|pair| pair[0] != pair[1]), "{seed}: one moves two");
            let rest = |(pad, source): (&PadState, &Option<u8>)| source.is_some() || *pad == PadState::default();
            assert!(program.iter().zip(&gamepads).all(rest), "{seed}: one is held by nobody");
        }
    }
}

#[test]
fn the_display_is_for_the_window_of_who_has_the_controls() {
    let mut controls = controls();
    assert_eq!(controls.window(), None, "nobody has told");
    controls.on_window(TWO, (900, 700));
    controls.on_window(ONE, (1_000, 600));
    assert_eq!(controls.window(), Some((1_000, 600)), "who came first");
    act(&mut controls, 0, TWO, &input(Pointer::default(), &[key("KeyA", true)]));
    assert_eq!(controls.window(), Some((900, 700)));
    controls.on_viewer_left(millis(10), TWO, &mut Vec::new());
    assert_eq!(controls.window(), Some((1_000, 600)));
    // The same place in the picture is another one on the display.
    let look = |x| input(Pointer { at: at(x, 32_768), ..Pointer::default() }, &[]);
    act(&mut controls, 20, ONE, &input(Pointer::default(), &[key("KeyB", true), key("KeyB", false)]));
    assert_eq!(act(&mut controls, 30, ONE, &look(32_768)), [Action::MoveTo { x: 640, y: 360 }]);
    assert_eq!(act(&mut controls, 40, ONE, &look(32_769)), [], "the same pixel");
    controls.set_size((1_000, 600));
    assert_eq!(act(&mut controls, 50, ONE, &look(32_770)), [Action::MoveTo { x: 500, y: 300 }]);
}
