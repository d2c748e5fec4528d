//! Where the user is, as the page's numbers.

use nearlight_session::Presence;
use nearlight_wire::{MAX_CONTROLLERS, View};

use crate::devices::controller;
use crate::layout::{Numbers, PRESENCE, VIEW, VIEW_COLUMNS, optional_pose, pose, view};

/// Reads [`PRESENCE`] and the controllers after it. None where the list ends within a record or a count is out of range.
pub fn presence(values: &[f32]) -> Option<Presence> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut numbers = Numbers(values);
    let [head, views, gaze] = numbers.record(&PRESENCE)?;
    let views = views.chunks_exact(VIEW_COLUMNS.len()).map(view).collect();
    let mut controllers = Vec::new();
    while !numbers.0.is_empty() && controllers.len() < MAX_CONTROLLERS {
        controllers.push(controller(&mut numbers)?);
    }
    let presence = Presence { head: pose(head), views, gaze: optional_pose(gaze), controllers };
    numbers.0.is_empty().then_some(presence)
}

/// The views of a frame, as [`presence`] takes them.
pub fn view_numbers(views: &[View]) -> Vec<f32> {
    views.iter().flat_map(|view| VIEW.map(|(_, place)| *place(&mut view.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Hand;

    use super::*;

    const EYE: [f32; 11] = [1.0, 1.6, 6.0, 0.0, 0.0, 0.0, 1.0, -1.0, 1.5, -0.75, 0.5];

    #[test]
    fn a_presence_is_read_whole_or_not_at_all() {
        let mut values = EYE[..7].to_vec();
        values.push(2.0);
        values.extend(EYE);
        values.extend(EYE);
        // A gaze, then the right hand's controller with its grip.
        values.push(1.0);
        values.extend(&EYE[..7]);
        let without_controllers = values.len();
        values.push(2.0);
        values.extend(&EYE[..7]);
        values.push(1.0);
        values.extend(&EYE[..7]);
        // A trigger that is half down, and a stick.
        values.extend([1.0, 0.5, 1.0, 0.0, 2.0, 0.0, -1.0]);
        let whole = presence(&values).expect("all parts are there");
        assert_eq!((whole.views.len(), whole.controllers.len()), (2, 1));
        assert_eq!(whole.gaze, Some(whole.head));
        let controller = &whole.controllers[0];
        assert_eq!((controller.hand, controller.grip), (Hand::Right, Some(controller.aim)));
        assert_eq!((controller.pressed, controller.touched, controller.values[0]), (1, 0, 32_768));
        assert_eq!(controller.axes, [0, -i16::MAX]);
        assert_eq!(view_numbers(&whole.views), [EYE, EYE].concat());
        for length in 0..values.len() {
            let whole = length == without_controllers;
            assert_eq!(presence(&values[..length]).is_some(), whole, "{length} numbers");
        }
        values.push(0.0);
        assert!(presence(&values).is_none(), "something is left over");
    }

    #[test]
    fn odd_numbers_are_refused() {
        let with_count = |count: f32| [&EYE[..7], &[count], &EYE, &[0.0]].concat();
        assert!(presence(&with_count(1.0)).is_some());
        for count in [0.0, 0.5, 3.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(presence(&with_count(count)).is_none(), "{count} views");
        }
    }
}
