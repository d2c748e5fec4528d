//! A synthetic user that walks a smooth path, looks around, and presses keys and buttons, identically in every run.

use nearlight_session::DeviceInput;
use nearlight_units::Span;
use nearlight_viewer::point_at_offset;
use nearlight_wire::{Key, Pointer, PointerButton, Pose};

use crate::camera::{compose, orientation};

/// The user's actions and their times in milliseconds within each [`ACTION_PERIOD`]. Grab and release are 1.5 s apart, so that a held
/// object is seen moving.
const ACTIONS: [(i64, Action); 7] = [
    (1_000, Action::Button(Some(PointerButton::Secondary))),
    (1_050, Action::Button(None)),
    (2_500, Action::Button(Some(PointerButton::Primary))),
    (4_000, Action::Button(None)),
    (6_000, Action::Throw(true)),
    (6_050, Action::Throw(false)),
    (7_000, Action::Text),
];
/// Period after which the actions repeat.
const ACTION_PERIOD: Span = Span::from_secs(8);

/// An action with mouse or keyboard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Only this button of the mouse is down, or none.
    Button(Option<PointerButton>),
    /// The key F, which throws the held object, goes down or up.
    Throw(bool),
    /// The user types a text.
    Text,
}

impl Action {
    /// Converts the action to the session's input.
    pub fn input(self) -> DeviceInput {
        match self {
            Self::Button(button) => {
                let buttons = button.map_or(0, PointerButton::bit);
                DeviceInput::Pointer(Some(Pointer { captured: true, buttons, ..Pointer::default() }))
            }
            Self::Throw(pressed) => {
                DeviceInput::Key { key: Key::from_code("KeyF").expect("a code of the table"), pressed }
            }
            Self::Text => DeviceInput::Text("hello".into()),
        }
    }
}

/// Returns the head's pose at `since`, counted from the start of a walk around `start`.
///
/// The angular frequencies have no common period below minutes, so that a run does not repeat pictures. Guess: speeds of up to 40 degrees
/// and 0.7 m per second are those of a person who looks around at leisure.
pub fn head(start: &Pose, since: Span) -> Pose {
    let seconds = since.as_secs_f64();
    let swing = |amplitude: f64, speed: f64| (amplitude * (seconds * speed).sin()) as f32;
    let offset = [swing(1.8, 0.31), swing(0.03, 5.5), swing(1.2, 0.23)];
    let turn = orientation(swing(0.7, 0.83), swing(0.12, 0.53));
    Pose { position: point_at_offset(start, offset), orientation: compose(start.orientation, turn) }
}

/// Returns the user's actions after `from` and up to `to`, both counted from the start.
pub fn actions(from: Span, to: Span) -> impl Iterator<Item = Action> {
    let first = from.as_nanos().div_euclid(ACTION_PERIOD.as_nanos());
    let last = to.as_nanos().div_euclid(ACTION_PERIOD.as_nanos());
    (first..=last).flat_map(move |round| {
        ACTIONS.into_iter().filter_map(move |(at, action)| {
            let at = ACTION_PERIOD * round + Span::from_millis(at);
            (from < at && at <= to).then_some(action)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_is_smooth_bounded_and_always_moving() {
        let start = Pose { position: [0.0, 1.6, 3.0], ..Pose::default() };
        let step = Span::from_millis(16);
        for index in 0..10_000 {
            let (one, next) = (head(&start, step * index), head(&start, step * (index + 1)));
            let distance = |one: &[f32], other: &[f32]| {
                one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f32>().sqrt()
            };
            let (moved, turned) =
                (distance(&one.position, &next.position), distance(&one.orientation, &next.orientation));
            assert!(moved + turned > 0.0 && moved < 0.02 && turned < 0.01, "step {index}: {moved} m, {turned}");
            assert!(one.position.iter().all(|coordinate| coordinate.abs() < 8.0));
            let norm = one.orientation.iter().map(|part| part * part).sum::<f32>();
            assert!((norm - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn actions_come_once_however_time_is_cut() {
        let end = Span::from_secs(80);
        let all: Vec<Action> = actions(Span::ZERO, end).collect();
        assert_eq!(all.len(), 10 * ACTIONS.len());
        for step in [7, 16, 999, 20_000].map(Span::from_millis) {
            let mut cut = Vec::new();
            let mut from = Span::ZERO;
            while from < end {
                let to = (from + step).min(end);
                cut.extend(actions(from, to));
                from = to;
            }
            assert_eq!(cut, all, "steps of {step}");
        }
    }
}
