//! A tracked hand, joint by joint.

use super::Hand;
use crate::WireError;
use crate::cursor::{Reader, write_f32s};
use crate::pose::{check_orientation, read_position};

/// Joints of a hand in WebXR's order (WebXR Hand Input, section 3): the wrist first, then thumb to little finger, each from the palm to
/// the tip. OpenXR has the palm before the wrist (`XR_EXT_hand_tracking`) and the same order otherwise.
pub const JOINTS: usize = 25;

/// Units per metre and per 1 of a quaternion's component, up to 1 either way: 31 micrometres and 0.002 degrees, below what trackers
/// resolve.
const UNITS: f32 = 32_767.0;
/// Units of radii: quarters of a millimetre.
const RADIUS_UNITS_PER_METRE: f32 = 4_000.0;

/// One joint. Values read from the wire are rounded as specified in `docs/wire.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// Offset from the wrist in metres, along the axes of the world: at most 1 along each.
    pub offset: [f32; 3],
    /// Orientation in the world, as a unit quaternion x, y, z, w.
    pub orientation: [f32; 4],
    /// Distance from the joint to the skin in metres, at most 64 mm.
    pub radius: f32,
}

impl Default for Joint {
    fn default() -> Self {
        Self { offset: [0.0; 3], orientation: [0.0, 0.0, 0.0, 1.0], radius: 0.0 }
    }
}

/// A hand.
#[derive(Clone, Debug, PartialEq)]
pub struct HandJoints {
    /// Left or right.
    pub hand: Hand,
    /// Position of the wrist in metres.
    pub wrist: [f32; 3],
    pub joints: [Joint; JOINTS],
}

impl HandJoints {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.hand.code());
        write_f32s(bytes, &self.wrist);
        for Joint { offset, orientation, radius } in self.joints {
            for value in offset.into_iter().chain(orientation) {
                let units = (value.clamp(-1.0, 1.0) * UNITS).round() as i16;
                bytes.extend_from_slice(&units.to_be_bytes());
            }
            bytes.push((radius * RADIUS_UNITS_PER_METRE).round().clamp(0.0, 255.0) as u8);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let hand = Hand::read(reader)?;
        if hand == Hand::None {
            return Err(WireError::Field("hand"));
        }
        let wrist = read_position(reader)?;
        let mut joints = [Joint::default(); JOINTS];
        for joint in &mut joints {
            for value in joint.offset.iter_mut().chain(&mut joint.orientation) {
                *value = f32::from(reader.fraction()?) / UNITS;
            }
            check_orientation(&joint.orientation)?;
            joint.radius = f32::from(reader.u8()?) / RADIUS_UNITS_PER_METRE;
        }
        Ok(Self { hand, wrist, joints })
    }
}
