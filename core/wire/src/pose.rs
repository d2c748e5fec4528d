//! The pose of an eye, a head or a hand, and the view of an eye.
//!
//! Coordinates are right-handed metres with y up and -z forward, as in WebXR and OpenXR.

use serde::{Deserialize, Serialize};

use crate::WireError;
use crate::cursor::{Reader, write_f32s};

/// Maximum distance from the origin along an axis, in metres: beyond it single precision does not resolve a millimetre.
const MAX_COORDINATE: f32 = 10_000.0;
/// Maximum tangent of a view: no display exceeds it (an 85-degree half angle is 11.4).
const MAX_TANGENT: f32 = 20.0;

/// A position in metres and a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Pose {
    pub position: [f32; 3],
    /// Unit quaternion x, y, z, w.
    pub orientation: [f32; 4],
}

impl Default for Pose {
    fn default() -> Self {
        Self { position: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0] }
    }
}

/// Tangents of the angles between the view axis and the picture's edges. Left and down are negative in a usual view.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fov {
    pub left: f32,
    pub right: f32,
    pub down: f32,
    pub up: f32,
}

impl Fov {
    /// Makes a symmetric view `vertical` radians high (0 to pi) and `aspect` times as wide as high.
    #[must_use]
    pub fn symmetric(vertical: f32, aspect: f32) -> Self {
        let up = (vertical / 2.0).tan();
        Self { left: -up * aspect, right: up * aspect, down: -up, up }
    }

    fn check(&self) -> Result<(), WireError> {
        let Self { left, right, down, up } = *self;
        let possible = [left, right, down, up].iter().all(|tangent| tangent.abs() <= MAX_TANGENT);
        if possible && left < right && down < up { Ok(()) } else { Err(WireError::Field("fov")) }
    }

    /// The view widened on all sides by `margin` times its width and height (0.1 = a tenth on each side).
    #[must_use]
    pub fn widened(self, margin: f32) -> Self {
        let (across, along) = ((self.right - self.left) * margin, (self.up - self.down) * margin);
        Self { left: self.left - across, right: self.right + across, down: self.down - along, up: self.up + along }
    }
}

/// The view of one eye: its pose and its field of view.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub pose: Pose,
    pub fov: Fov,
}

impl Pose {
    pub(crate) const BYTES: usize = 28;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let position = read_position(reader)?;
        let mut orientation = [0.0; 4];
        for component in &mut orientation {
            *component = reader.f32("orientation")?;
        }
        check_orientation(&orientation)?;
        Ok(Self { position, orientation })
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        write_f32s(bytes, &self.position);
        write_f32s(bytes, &self.orientation);
    }
}

/// Reads three coordinates in metres.
pub(crate) fn read_position(reader: &mut Reader<'_>) -> Result<[f32; 3], WireError> {
    let mut position = [0.0; 3];
    for coordinate in &mut position {
        *coordinate = reader.f32("position")?;
        if coordinate.abs() > MAX_COORDINATE {
            return Err(WireError::Field("position"));
        }
    }
    Ok(position)
}

/// Checks that a quaternion has unit length. Those of browsers have single precision, so the norm deviates by rounding only.
pub(crate) fn check_orientation(orientation: &[f32; 4]) -> Result<(), WireError> {
    let norm = orientation.iter().map(|component| component * component).sum::<f32>();
    if (0.9..=1.1).contains(&norm) { Ok(()) } else { Err(WireError::Field("orientation")) }
}

impl View {
    pub(crate) const BYTES: usize = Pose::BYTES + 16;

    /// Checks whether the wire can carry it, for views made by a program. Views from a peer have already been checked.
    pub fn check(&self) -> Result<(), WireError> {
        let Self { pose: Pose { position, orientation }, fov } = self;
        if !position.iter().all(|coordinate| coordinate.abs() <= MAX_COORDINATE) {
            return Err(WireError::Field("position"));
        }
        check_orientation(orientation)?;
        fov.check()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let pose = Pose::read(reader)?;
        let mut tangent = || reader.f32("fov");
        let fov = Fov { left: tangent()?, right: tangent()?, down: tangent()?, up: tangent()? };
        fov.check()?;
        Ok(Self { pose, fov })
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        self.pose.write(bytes);
        write_f32s(bytes, &[self.fov.left, self.fov.right, self.fov.down, self.fov.up]);
    }

    /// Reads one view for a screen or two for a headset, after a count byte.
    pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let count = reader.u8()?;
        if !(1..=2).contains(&count) {
            return Err(WireError::Field("views"));
        }
        (0..count).map(|_| Self::read(reader)).collect()
    }

    pub(crate) fn write_list(views: &[Self], bytes: &mut Vec<u8>) {
        debug_assert!((1..=2).contains(&views.len()));
        bytes.push(views.len() as u8);
        for view in views {
            view.write(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_no_peer_would_take_is_found_where_it_is_made() {
        let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.5) };
        assert_eq!(view.check(), Ok(()));
        let poses = [
            Pose { position: [f32::NAN, 0.0, 0.0], ..Pose::default() },
            Pose { position: [0.0, 2e4, 0.0], ..Pose::default() },
            Pose { orientation: [0.0; 4], ..Pose::default() },
            Pose { orientation: [0.0, f32::INFINITY, 0.0, 1.0], ..Pose::default() },
        ];
        assert!(poses.into_iter().all(|pose| View { pose, ..view }.check().is_err()));
        let fovs = [
            Fov { up: f32::NAN, ..view.fov },
            Fov { left: 2.0, right: 1.0, ..view.fov },
            Fov { up: 21.0, ..view.fov },
            Fov { left: 0.0, right: 0.0, down: 0.0, up: 0.0 },
        ];
        assert!(fovs.into_iter().all(|fov| View { fov, ..view }.check().is_err()));
    }
}
