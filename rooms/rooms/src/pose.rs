//! Quantised poses: at most 1 mm and 0.1 degrees from the given ones, and equal at every end.

use std::sync::Arc;

use nearlight_wire::Pose;

use crate::MessageError;
use crate::cursor::{Reader, write_signed};

/// Largest coordinate in millimetres. Beyond it, single precision does not resolve a millimetre.
pub(crate) const MAX_COORDINATE: i32 = 10_000_000;
/// Joints of one hand, as WebXR numbers them.
pub const JOINTS_PER_HAND: usize = 25;
/// Largest distance of a joint from its hand, in millimetres per axis.
const MAX_JOINT_DISTANCE: i32 = 2_000;
/// Scale of the three smallest components of a rotation, whose unit is `1 / (sqrt(2) * ROTATION_SCALE)`. With 12 bits the error is at most
/// 0.07 degrees.
const ROTATION_SCALE: i16 = 2_047;

/// The body of a member. Positions are in metres, as in `wire::Pose`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Avatar {
    pub head: Pose,
    pub left: Option<Pose>,
    pub right: Option<Pose>,
    /// Joints relative to the position of their hand in metres, those of the left hand first. Those of an absent hand are ignored.
    pub joints: Option<Box<[[f32; 3]; 2 * JOINTS_PER_HAND]>>,
}

/// The error for numbers that are not a pose: they are not finite, too far from the origin, or not a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pose has finite coordinates within 10 km of the origin and a quaternion that is not zero")]
pub struct NotAPose;

/// A rotation as the three smallest components of its quaternion. The largest is positive and follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rotation {
    largest: u8,
    others: [i16; 3],
}

impl Default for Rotation {
    fn default() -> Self {
        Self { largest: 3, others: [0; 3] }
    }
}

impl Rotation {
    const BYTES: usize = 5;

    fn new(quaternion: [f32; 4]) -> Result<Self, NotAPose> {
        let norm = quaternion.iter().map(|component| component * component).sum::<f32>().sqrt();
        if !norm.is_finite() || norm < 1e-6 {
            return Err(NotAPose);
        }
        let mut largest = 0;
        for place in 1..4 {
            if quaternion[place].abs() > quaternion[largest].abs() {
                largest = place;
            }
        }
        let factor = std::f32::consts::SQRT_2 * f32::from(ROTATION_SCALE) / norm * quaternion[largest].signum();
        let mut others = [0; 3];
        let components = (0..4).filter(|place| *place != largest);
        for (other, place) in others.iter_mut().zip(components) {
            *other = (quaternion[place] * factor).round().clamp(-f32::from(ROTATION_SCALE), f32::from(ROTATION_SCALE))
                as i16;
        }
        Ok(Self { largest: largest as u8, others })
    }

    fn quaternion(self) -> [f32; 4] {
        let mut quaternion = [0.0; 4];
        let largest = usize::from(self.largest);
        let components = (0..4).filter(|place| *place != largest);
        for (other, place) in self.others.into_iter().zip(components) {
            quaternion[place] = f32::from(other) / (std::f32::consts::SQRT_2 * f32::from(ROTATION_SCALE));
        }
        let rest = 1.0 - quaternion.iter().map(|component| component * component).sum::<f32>();
        quaternion[largest] = rest.max(0.0).sqrt();
        // Numbers from a peer may describe a quaternion longer than one.
        let norm = quaternion.iter().map(|component| component * component).sum::<f32>().sqrt();
        quaternion.map(|component| component / norm)
    }

    fn write(self, out: &mut Vec<u8>) {
        let [first, second, third] = self.others.map(|other| u64::from((other + ROTATION_SCALE) as u16));
        let bits = u64::from(self.largest) << 36 | first << 24 | second << 12 | third;
        out.extend_from_slice(&bits.to_be_bytes()[8 - Self::BYTES..]);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let mut bytes = [0; 8];
        bytes[8 - Self::BYTES..].copy_from_slice(&reader.array::<{ Self::BYTES }>()?);
        let bits = u64::from_be_bytes(bytes);
        let other = |shift: u32| (bits >> shift & 0xfff) as i16 - ROTATION_SCALE;
        let (largest, others) = (bits >> 36, [other(24), other(12), other(0)]);
        if largest > 3 || others.iter().any(|other| *other > ROTATION_SCALE) {
            return Err(MessageError::Field("rotation"));
        }
        Ok(Self { largest: largest as u8, others })
    }
}

/// A pose in millimetres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct QuantisedPose {
    pub(crate) position: [i32; 3],
    rotation: Rotation,
}

impl QuantisedPose {
    pub(crate) fn new(pose: &Pose) -> Result<Self, NotAPose> {
        let mut position = [0; 3];
        for (whole, metres) in position.iter_mut().zip(pose.position) {
            let millimetres = (metres * 1e3).round();
            if millimetres.is_nan() || millimetres.abs() > MAX_COORDINATE as f32 {
                return Err(NotAPose);
            }
            *whole = millimetres as i32;
        }
        Ok(Self { position, rotation: Rotation::new(pose.orientation)? })
    }

    pub(crate) fn pose(&self) -> Pose {
        Pose {
            position: self.position.map(|millimetres| millimetres as f32 / 1e3),
            orientation: self.rotation.quaternion(),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for coordinate in self.position {
            write_signed(out, coordinate);
        }
        self.rotation.write(out);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let mut position = [0; 3];
        for coordinate in &mut position {
            *coordinate = check_coordinate(reader.signed("position")?)?;
        }
        Ok(Self { position, rotation: Rotation::read(reader)? })
    }

    /// Writes the difference from `base`, less the motion of the head. The largest components of both rotations must be the same.
    #[inline]
    fn write_difference(&self, base: &Self, motion: [i32; 3], out: &mut Vec<u8>) {
        for (axis, motion) in motion.into_iter().enumerate() {
            write_signed(out, self.position[axis] - base.position[axis] - motion);
        }
        for (here, there) in self.rotation.others.into_iter().zip(base.rotation.others) {
            write_signed(out, i32::from(here) - i32::from(there));
        }
    }

    #[inline]
    fn read_difference(base: &Self, motion: [i32; 3], reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let mut own = *base;
        for (coordinate, motion) in own.position.iter_mut().zip(motion) {
            let moved = coordinate.saturating_add(motion);
            *coordinate = check_coordinate(moved.saturating_add(reader.signed("position")?))?;
        }
        for other in &mut own.rotation.others {
            let sum = i32::from(*other).saturating_add(reader.signed("rotation")?);
            *other = if sum.abs() <= i32::from(ROTATION_SCALE) {
                sum as i16
            } else {
                return Err(MessageError::Field("rotation"));
            };
        }
        Ok(own)
    }
}

fn check_coordinate(coordinate: i32) -> Result<i32, MessageError> {
    if (-MAX_COORDINATE..=MAX_COORDINATE).contains(&coordinate) {
        Ok(coordinate)
    } else {
        Err(MessageError::Field("position"))
    }
}

/// Bits for the parts of a body.
pub(crate) mod part {
    /// The head, or the object itself, which is always present.
    pub(crate) const HEAD: u8 = 1;
    pub(crate) const LEFT: u8 = 2;
    pub(crate) const RIGHT: u8 = 4;
    pub(crate) const JOINTS: u8 = 8;
    pub(crate) const ALL: u8 = 15;
}

const HANDS: [(u8, usize); 2] = [(part::LEFT, 1), (part::RIGHT, 2)];

type Joints = [[i16; 3]; 2 * JOINTS_PER_HAND];

/// A body or an object at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The parts that are known here, as bits of [`part`].
    pub(crate) parts: u8,
    poses: [QuantisedPose; 3],
    joints: Option<Arc<Joints>>,
}

impl Sample {
    pub(crate) fn of_object(pose: QuantisedPose) -> Self {
        Self { parts: part::HEAD, poses: [pose, QuantisedPose::default(), QuantisedPose::default()], joints: None }
    }

    pub(crate) fn of_avatar(avatar: &Avatar) -> Result<Self, NotAPose> {
        let mut sample = Self::of_object(QuantisedPose::new(&avatar.head)?);
        for ((bit, place), hand) in HANDS.into_iter().zip([&avatar.left, &avatar.right]) {
            if let Some(hand) = hand {
                sample.poses[place] = QuantisedPose::new(hand)?;
                sample.parts |= bit;
            }
        }
        let hands = sample.parts & (part::LEFT | part::RIGHT);
        if let Some(metres) = avatar.joints.as_ref().filter(|_| hands != 0) {
            let mut joints = [[0; 3]; 2 * JOINTS_PER_HAND];
            for ((bit, _), range) in HANDS.into_iter().zip(hand_joints()) {
                for joint in range.filter(|_| hands & bit != 0) {
                    for axis in 0..3 {
                        let millimetres = (metres[joint][axis] * 1e3).round();
                        if millimetres.is_nan() || millimetres.abs() > MAX_JOINT_DISTANCE as f32 {
                            return Err(NotAPose);
                        }
                        joints[joint][axis] = millimetres as i16;
                    }
                }
            }
            sample.parts |= part::JOINTS;
            sample.joints = Some(Arc::new(joints));
        }
        Ok(sample)
    }

    pub(crate) fn avatar(&self) -> Avatar {
        let hand = |bit, place: usize| (self.parts & bit != 0).then(|| self.poses[place].pose());
        let metres = |joints: &Joints| Box::new(joints.map(|joint| joint.map(|axis| f32::from(axis) / 1e3)));
        Avatar {
            head: self.poses[0].pose(),
            left: hand(part::LEFT, 1),
            right: hand(part::RIGHT, 2),
            joints: self.joints.as_deref().map(metres),
        }
    }

    pub(crate) const fn head(&self) -> &QuantisedPose {
        &self.poses[0]
    }

    /// Adds the parts of another transmission of the same moment.
    pub(crate) fn merge(&mut self, other: Self) {
        for (bit, place) in HANDS {
            if other.parts & bit != 0 {
                self.poses[place] = other.poses[place];
            }
        }
        if other.joints.is_some() && (self.joints.is_none() || other.parts.count_ones() >= self.parts.count_ones()) {
            self.joints = other.joints;
        }
        self.parts |= other.parts;
    }

    /// Writes flags, then the given parts, as differences from `base` if it has them.
    pub(crate) fn write(&self, parts: u8, base: Option<(&Self, u8)>, out: &mut Vec<u8>) {
        let parts = (self.parts & parts) | part::HEAD;
        // Joints are sent only with the hands that they belong to.
        let parts = if parts & (part::LEFT | part::RIGHT) == 0 { parts & !part::JOINTS } else { parts };
        let mut absolute = parts;
        if let Some((base, known)) = base {
            let same_largest = |place: usize| self.poses[place].rotation.largest == base.poses[place].rotation.largest;
            for (bit, place) in [(part::HEAD, 0)].into_iter().chain(HANDS) {
                if parts & known & bit != 0 && same_largest(place) {
                    absolute &= !bit;
                }
            }
            let hands = parts & (part::LEFT | part::RIGHT);
            if parts & known & part::JOINTS != 0 && known & hands == hands && base.joints.is_some() {
                absolute &= !part::JOINTS;
            }
        }
        out.push(absolute << 4 | parts);
        let mut motion = [0; 3];
        match base {
            Some((base, _)) if absolute & part::HEAD == 0 => {
                self.poses[0].write_difference(&base.poses[0], [0; 3], out);
                motion = std::array::from_fn(|axis| self.poses[0].position[axis] - base.poses[0].position[axis]);
            }
            _ => self.poses[0].write(out),
        }
        for (bit, place) in HANDS {
            match base {
                _ if parts & bit == 0 => {}
                Some((base, _)) if absolute & bit == 0 => {
                    self.poses[place].write_difference(&base.poses[place], motion, out);
                }
                _ => self.poses[place].write(out),
            }
        }
        if let Some(joints) = self.joints.as_ref().filter(|_| parts & part::JOINTS != 0) {
            let base = base.and_then(|(base, _)| base.joints.as_ref()).filter(|_| absolute & part::JOINTS == 0);
            for ((bit, _), range) in HANDS.into_iter().zip(hand_joints()) {
                for joint in range.filter(|_| parts & bit != 0) {
                    for axis in 0..3 {
                        let from = base.map_or(0, |base| base[joint][axis]);
                        write_signed(out, i32::from(joints[joint][axis]) - i32::from(from));
                    }
                }
            }
        }
    }

    /// Reads the output of [`Sample::write`]. `base` is the sample that the message names, if it is known here.
    pub(crate) fn read(base: Option<&Self>, reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let flags = reader.u8()?;
        let (parts, absolute) = (flags & part::ALL, flags >> 4);
        let hands = parts & (part::LEFT | part::RIGHT);
        if parts & part::HEAD == 0 || absolute & !parts != 0 || parts & part::JOINTS != 0 && hands == 0 {
            return Err(MessageError::Field("parts"));
        }
        let relative = parts & !absolute;
        let base = match base {
            Some(base) if base.parts & relative == relative => base,
            _ if relative == 0 => &Self::default(),
            // The length does not depend on the base, so the entry is skipped and the following ones can be read.
            _ => return Self::skip(parts, absolute, reader),
        };
        let mut sample = Self { parts, ..Self::default() };
        let mut motion = [0; 3];
        sample.poses[0] = if relative & part::HEAD == 0 {
            QuantisedPose::read(reader)?
        } else {
            QuantisedPose::read_difference(&base.poses[0], [0; 3], reader)?
        };
        if relative & part::HEAD != 0 {
            motion = std::array::from_fn(|axis| sample.poses[0].position[axis] - base.poses[0].position[axis]);
        }
        for (bit, place) in HANDS {
            if parts & bit != 0 {
                sample.poses[place] = if relative & bit == 0 {
                    QuantisedPose::read(reader)?
                } else {
                    QuantisedPose::read_difference(&base.poses[place], motion, reader)?
                };
            }
        }
        if parts & part::JOINTS != 0 {
            let base = base.joints.as_ref().filter(|_| relative & part::JOINTS != 0);
            let mut joints = [[0; 3]; 2 * JOINTS_PER_HAND];
            for ((bit, _), range) in HANDS.into_iter().zip(hand_joints()) {
                for joint in range.filter(|_| parts & bit != 0) {
                    for axis in 0..3 {
                        let from = base.map_or(0, |base| i32::from(base[joint][axis]));
                        let sum = from.saturating_add(reader.signed("joint")?);
                        joints[joint][axis] = if sum.abs() <= MAX_JOINT_DISTANCE {
                            sum as i16
                        } else {
                            return Err(MessageError::Field("joint"));
                        };
                    }
                }
            }
            sample.joints = Some(Arc::new(joints));
        }
        Ok(sample)
    }

    /// Skips a sample whose base is not known. The result has no parts.
    fn skip(parts: u8, absolute: u8, reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        for (bit, _) in [(part::HEAD, 0)].into_iter().chain(HANDS) {
            if parts & absolute & bit != 0 {
                QuantisedPose::read(reader)?;
            } else if parts & bit != 0 {
                for _ in 0..6 {
                    reader.signed("pose")?;
                }
            }
        }
        if parts & part::JOINTS != 0 {
            let hands = (parts & (part::LEFT | part::RIGHT)).count_ones() as usize;
            for _ in 0..hands * JOINTS_PER_HAND * 3 {
                reader.signed("joint")?;
            }
        }
        Ok(Self::default())
    }

    /// Returns all numbers of the sample, for [`crate::digest::Digest`].
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i32> + '_ {
        let known = |bit: u8| self.parts & bit != 0;
        let poses = [(part::HEAD, 0)].into_iter().chain(HANDS).filter(move |(bit, _)| known(*bit));
        let pose = |place: usize| {
            let QuantisedPose { position, rotation } = self.poses[place];
            let others = rotation.others.map(i32::from);
            position.into_iter().chain([i32::from(rotation.largest)]).chain(others)
        };
        let joints = self.joints.iter().flat_map(|joints| joints.iter()).flatten().map(|axis| i32::from(*axis));
        [i32::from(self.parts)].into_iter().chain(poses.flat_map(move |(_, place)| pose(place))).chain(joints)
    }
}

fn hand_joints() -> [std::ops::Range<usize>; 2] {
    [0..JOINTS_PER_HAND, JOINTS_PER_HAND..2 * JOINTS_PER_HAND]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a_pose() -> impl Strategy<Value = Pose> {
        (prop::array::uniform3(-100.0_f32..100.0), prop::array::uniform4(-1.0_f32..1.0))
            .prop_filter("no rotation", |(_, quaternion)| quaternion.iter().map(|part| part * part).sum::<f32>() > 0.01)
            .prop_map(|(position, orientation)| Pose { position, orientation })
    }

    fn an_avatar() -> impl Strategy<Value = Avatar> {
        let joints = prop::option::of(prop::collection::vec(prop::array::uniform3(-0.2_f32..0.2), 50));
        (a_pose(), prop::option::of(a_pose()), prop::option::of(a_pose()), joints).prop_map(
            |(head, left, right, joints)| {
                let joints = joints.map(|joints| Box::new(joints.try_into().expect("50 joints")));
                Avatar { head, left, right, joints }
            },
        )
    }

    /// The angle between two rotations in degrees.
    fn degrees(a: [f32; 4], b: [f32; 4]) -> f64 {
        let norm = a.iter().map(|part| f64::from(*part).powi(2)).sum::<f64>().sqrt();
        let dot = a.iter().zip(b).map(|(a, b)| f64::from(*a) / norm * f64::from(b)).sum::<f64>().abs();
        (2.0 * dot.min(1.0).acos()).to_degrees()
    }

    proptest! {
        #[test]
        fn whole_numbers_are_within_a_millimetre_and_a_tenth_of_a_degree(pose in a_pose()) {
            let read = QuantisedPose::new(&pose).expect("a pose").pose();
            let squares = pose.position.iter().zip(read.position).map(|(a, b)| f64::from(a - b).powi(2));
            prop_assert!(squares.sum::<f64>().sqrt() <= 1e-3);
            prop_assert!(degrees(pose.orientation, read.orientation) <= 0.1, "{}", degrees(pose.orientation, read.orientation));
        }

        #[test]
        fn a_sample_survives_writing_with_and_without_a_base(avatar in an_avatar(), before in an_avatar(), known in 0_u8..16) {
            let sample = Sample::of_avatar(&avatar).expect("poses");
            let base = Sample::of_avatar(&before).expect("poses");
            for (written, read) in [(None, None), (Some((&base, base.parts & known)), Some(&base))] {
                let mut bytes = Vec::new();
                sample.write(part::ALL, written, &mut bytes);
                let mut reader = Reader::new(&bytes);
                prop_assert_eq!(&Sample::read(read, &mut reader).expect("its own writing"), &sample);
                prop_assert_eq!(reader.finish(), Ok(()));
                // Without the base, the reader skips the sample.
                let mut reader = Reader::new(&bytes);
                prop_assert!(Sample::read(None, &mut reader).is_ok());
                prop_assert_eq!(reader.finish(), Ok(()));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Sample::read(None, &mut Reader::new(&bytes));
            let base = Sample::of_avatar(&Avatar { left: Some(Pose::default()), ..Avatar::default() }).expect("poses");
            let _ = Sample::read(Some(&base), &mut Reader::new(&bytes));
        }
    }

    #[test]
    fn what_is_no_pose_is_refused() {
        let wrong = [
            Pose { position: [f32::NAN, 0.0, 0.0], ..Pose::default() },
            Pose { position: [0.0, 2e4, 0.0], ..Pose::default() },
            Pose { orientation: [0.0; 4], ..Pose::default() },
            Pose { orientation: [0.0, f32::INFINITY, 0.0, 1.0], ..Pose::default() },
        ];
        assert!(wrong.iter().all(|pose| QuantisedPose::new(pose) == Err(NotAPose)));
        let joints = Some(Box::new([[f32::NAN; 3]; 50]));
        let avatar = Avatar { left: Some(Pose::default()), joints, ..Avatar::default() };
        assert_eq!(Sample::of_avatar(&avatar), Err(NotAPose));
    }
}
