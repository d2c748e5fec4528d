//! How the page passes records as numbers, which is cheaper across the border to JavaScript than objects. The page packs by the same
//! layouts: its copy is generated from these (`typescript`).

use nearlight_wire::{
    Fov, JOINTS, MAX_CONTROLLER_AXES, MAX_CONTROLLER_BUTTONS, MAX_GAMEPAD_AXES, MAX_GAMEPAD_BUTTONS, Pose, View,
};
use serde::Serialize;

/// The page's name of a number, and its field in a view.
type ViewNumber = (&'static str, fn(&mut View) -> &mut f32);

/// The numbers of a view in order: the first [`POSE_NUMBERS`] are those of a pose.
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
pub(crate) const POSE_NUMBERS: usize = 7;
const JOINT_NUMBERS: usize = POSE_NUMBERS + 1;

/// The names of the first `N` numbers of a view.
const fn view_columns<const N: usize>() -> [&'static str; N] {
    let mut columns = [""; N];
    let mut index = 0;
    while index < N {
        columns[index] = VIEW[index].0;
        index += 1;
    }
    columns
}

pub(crate) const VIEW_COLUMNS: [&str; VIEW.len()] = view_columns();
pub(crate) const POSE_COLUMNS: [&str; POSE_NUMBERS] = view_columns();
const JOINT_COLUMNS: [&str; JOINT_NUMBERS] = {
    let mut columns = ["radius"; JOINT_NUMBERS];
    let mut index = 0;
    while index < POSE_NUMBERS {
        columns[index] = VIEW[index].0;
        index += 1;
    }
    columns
};

/// One part of a record: rows of the same columns. Where the number of rows varies, it precedes them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Part {
    name: &'static str,
    columns: &'static [&'static str],
    least: usize,
    most: usize,
}

impl Part {
    const fn rows(name: &'static str, columns: &'static [&'static str], least: usize, most: usize) -> Self {
        Self { name, columns, least, most }
    }

    const fn one(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self::rows(name, columns, 1, 1)
    }

    const fn optional(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self::rows(name, columns, 0, 1)
    }
}

/// Where the user is. The gaze is present where the user allows it and the browser provides it.
pub(crate) const PRESENCE: [Part; 3] =
    [Part::one("head", &POSE_COLUMNS), Part::rows("views", &VIEW_COLUMNS, 1, 2), Part::optional("gaze", &POSE_COLUMNS)];
/// A controller, after the presence; the hand by its code, buttons from 0 to 1, axes from -1 to 1.
pub(crate) const CONTROLLER: [Part; 5] = [
    Part::one("hand", &["code"]),
    Part::one("aim", &POSE_COLUMNS),
    Part::optional("grip", &POSE_COLUMNS),
    Part::rows("buttons", &["value", "pressed", "touched"], 0, MAX_CONTROLLER_BUTTONS),
    Part::rows("axes", &["value"], 0, MAX_CONTROLLER_AXES),
];
/// A gamepad.
pub(crate) const GAMEPAD: [Part; 3] = [
    Part::one("pad", &["index"]),
    Part::rows("buttons", &["value", "pressed"], 0, MAX_GAMEPAD_BUTTONS),
    Part::rows("axes", &["value"], 0, MAX_GAMEPAD_AXES),
];
/// A tracked hand in WebXR's order of joints.
pub(crate) const HAND: [Part; 1] = [Part::rows("joints", &JOINT_COLUMNS, JOINTS, JOINTS)];

/// Takes records off the front of a list.
pub(crate) struct Numbers<'a>(pub(crate) &'a [f32]);

impl<'a> Numbers<'a> {
    /// The rows of each part, in one slice; none where the list ends before or a count is out of range.
    pub(crate) fn record<const N: usize>(&mut self, layout: &[Part; N]) -> Option<[&'a [f32]; N]> {
        let mut parts = [&[][..]; N];
        for (part, rows) in layout.iter().zip(&mut parts) {
            let count = if part.least == part.most { part.most } else { self.count(part.least, part.most)? };
            (*rows, self.0) = self.0.split_at_checked(count * part.columns.len())?;
        }
        Some(parts)
    }

    /// A count that is a whole number in this range.
    fn count(&mut self, least: usize, most: usize) -> Option<usize> {
        let (value, rest) = self.0.split_first()?;
        self.0 = rest;
        whole(*value, most as u8).map(usize::from).filter(|count| *count >= least)
    }
}

/// A whole number of at most `most`.
pub(crate) fn whole(value: f32, most: u8) -> Option<u8> {
    (0..=most).find(|number| f32::from(*number).to_bits() == value.to_bits())
}

/// The pose or view given by these numbers, in the columns' order; a pose has no field of view.
pub(crate) fn view(numbers: &[f32]) -> View {
    let fov = Fov { left: 0.0, right: 0.0, down: 0.0, up: 0.0 };
    let mut view = View { pose: Pose::default(), fov };
    for ((_, place), number) in VIEW.into_iter().zip(numbers) {
        *place(&mut view) = *number;
    }
    view
}

pub(crate) fn pose(numbers: &[f32]) -> Pose {
    view(numbers).pose
}

/// A pose that may be absent.
pub(crate) fn optional_pose(numbers: &[f32]) -> Option<Pose> {
    (!numbers.is_empty()).then(|| pose(numbers))
}
