//! Where the user is, as one list of numbers: cheaper across the border to JavaScript than objects.

use nearlight_session::Presence;
use nearlight_wire::{Fov, MAX_CONTROLLERS, Pose, View};

use crate::devices::controller;

/// What the page calls a number, and its place in a view.
type ViewNumber = (&'static str, fn(&mut View) -> &mut f32);

/// The numbers of a view in order.
pub(crate) const VIEW: [ViewNumber; 11] = [
    ("x", |view| &mut view.pose.position[0]),
    ("y", |view| &mut view.pose.position[1]),
    ("z", |view| &mut view.pose.position[2]),
    ("quaternionX", |view| &mut view.pose.orientation[0]),
    ("quaternionY", |view| &mut view.pose.orientation[1]),
    ("quaternionZ", |view| &mut view.pose.orientation[2]),
    ("quaternionW", |view| &mut view.pose.orientation[3]),
    ("left", |view| &mut view.fov.left),
    ("right", |view| &mut view.fov.right),
    ("down", |view| &mut view.fov.down),
    ("up", |view| &mut view.fov.up),
];
/// The first of them are those of a pose.
pub(crate) const POSE_NUMBERS: usize = 7;
pub(crate) const MAX_VIEWS: u8 = 2;
pub(crate) const MAX_HELD: u8 = MAX_CONTROLLERS as u8;

/// Takes numbers off the front of a list.
pub(crate) struct Numbers<'a>(pub(crate) &'a [f32]);

impl Numbers<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[f32; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// A count that is a whole number of at most `most`.
    pub(crate) fn count(&mut self, most: u8) -> Option<u8> {
        let [value] = self.take()?;
        (0..=most).find(|count| f32::from(*count).to_bits() == value.to_bits())
    }

    /// The first `N` numbers of a view.
    fn part<const N: usize>(&mut self) -> Option<View> {
        let fov = Fov { left: 0.0, right: 0.0, down: 0.0, up: 0.0 };
        let mut view = View { pose: Pose::default(), fov };
        for ((_, place), number) in VIEW.into_iter().zip(self.take::<N>()?) {
            *place(&mut view) = number;
        }
        Some(view)
    }

    pub(crate) fn pose(&mut self) -> Option<Pose> {
        self.part::<POSE_NUMBERS>().map(|view| view.pose)
    }
}

/// Reads head, count of views (1 or 2) and views, count of controllers and controllers. None where the list has another length or a count is out of range.
pub fn presence(values: &[f32]) -> Option<Presence> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut numbers = Numbers(values);
    let head = numbers.pose()?;
    let views = (0..numbers.count(MAX_VIEWS)?).map(|_| numbers.part::<{ VIEW.len() }>()).collect::<Option<Vec<_>>>()?;
    let controllers = (0..numbers.count(MAX_HELD)?).map(|_| controller(&mut numbers)).collect::<Option<Vec<_>>>()?;
    let whole = numbers.0.is_empty() && !views.is_empty();
    whole.then(|| Presence { controllers, ..Presence::of_views(head, views) })
}

/// The views of a frame, as [`presence`] takes them.
pub fn view_numbers(views: &[View]) -> Vec<f32> {
    views.iter().flat_map(|view| VIEW.map(|(_, place)| *place(&mut view.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Hand;

    use super::*;

    const VIEW: [f32; 11] = [1.0, 1.6, 6.0, 0.0, 0.0, 0.0, 1.0, -1.0, 1.5, -0.75, 0.5];

    #[test]
    fn a_presence_is_read_whole_or_not_at_all() {
        let mut values = VIEW[..7].to_vec();
        values.push(2.0);
        values.extend(VIEW);
        values.extend(VIEW);
        values.push(1.0);
        values.push(2.0);
        values.extend(&VIEW[..7]);
        values.push(1.0);
        values.extend(&VIEW[..7]);
        // A trigger that is half down, and a stick.
        values.extend([1.0, 0.5, 1.0, 0.0, 2.0, 0.0, -1.0]);
        let whole = presence(&values).expect("all parts are there");
        assert_eq!((whole.views.len(), whole.controllers.len()), (2, 1));
        let controller = &whole.controllers[0];
        assert_eq!((controller.hand, controller.grip), (Hand::Right, Some(controller.aim)));
        assert_eq!((controller.pressed, controller.touched, controller.values[0]), (1, 0, 32_768));
        assert_eq!(controller.axes, [0, -i16::MAX]);
        assert_eq!(view_numbers(&whole.views), [VIEW, VIEW].concat());
        for length in 0..values.len() {
            assert!(presence(&values[..length]).is_none(), "{length} numbers are no presence");
        }
        values.push(0.0);
        assert!(presence(&values).is_none(), "something is left over");
    }

    #[test]
    fn odd_numbers_are_refused() {
        let with_count = |count: f32| [&VIEW[..7], &[count], &VIEW, &[0.0]].concat();
        assert!(presence(&with_count(1.0)).is_some());
        for count in [0.0, 0.5, 3.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(presence(&with_count(count)).is_none(), "{count} views");
        }
    }
}
