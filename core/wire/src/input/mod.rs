//! The uplink: the user's pose and the state of the user's devices.

mod changes;
mod device;
mod event;
mod joints;
mod key;
pub mod key_codes;

use nearlight_units::{InputSeq, RemoteTime};

use crate::cursor::Reader;
use crate::{ExtendedKind, Kind, Pose, View, WireError};

pub use device::{
    Controller, Devices, Gamepad, MAX_CONTROLLER_AXES, MAX_CONTROLLER_BUTTONS, MAX_CONTROLLERS, MAX_GAMEPAD_AXES,
    MAX_GAMEPAD_BUTTONS, MAX_GAMEPADS, MAX_KEYS, MAX_TOUCHES, Pointer, PointerButton, SERVED_GAMEPAD, ScreenPoint,
    Touch, WHEEL_UNITS_PER_PIXEL,
};
pub use event::{InputEvent, MAX_EVENT_BYTES, MAX_INPUT_EVENTS, MAX_TEXT_BYTES};
pub use joints::{HandJoints, JOINTS, Joint};
pub use key::Key;

/// What a controller, a hand or its joints belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Hand {
    /// Neither: a device that does not say, or one for both.
    None,
    Left,
    Right,
}

impl Hand {
    /// In the order of their codes.
    pub const ALL: [Self; 3] = [Self::None, Self::Left, Self::Right];

    /// The hand of a code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::from_code(reader.u8()?).ok_or(WireError::Field("hand"))
    }
}

/// Everything that the server must know about the user at one moment. The newest sample supersedes all older ones.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSample {
    pub seq: InputSeq,
    /// When the user moved, on the client's clock.
    pub sampled_at: RemoteTime,
    pub head: Pose,
    /// The views: one for a screen, two for a headset, left first.
    pub views: Vec<View>,
    /// The state of all devices.
    pub devices: Devices,
    /// Number of the first of `events`. Events are counted from 0.
    pub first_event: u32,
    /// The oldest events that the server has not acknowledged, without a gap: at most [`MAX_INPUT_EVENTS`] in at most [`MAX_EVENT_BYTES`].
    pub events: Vec<InputEvent>,
}

impl InputSample {
    /// Makes the sample of a user without any device.
    #[must_use]
    pub fn of_views(seq: InputSeq, sampled_at: RemoteTime, head: Pose, views: Vec<View>) -> Self {
        Self { seq, sampled_at, head, views, devices: Devices::default(), first_event: 0, events: Vec::new() }
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.events.len() <= MAX_INPUT_EVENTS);
        bytes.push(Kind::Input.first_byte());
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        bytes.extend_from_slice(&self.sampled_at.as_micros().to_be_bytes());
        self.head.write(bytes);
        View::write_list(&self.views, bytes);
        let events = if self.events.is_empty() { 0 } else { device::EVENTS };
        self.devices.write(events, bytes);
        if !self.events.is_empty() {
            bytes.extend_from_slice(&self.first_event.to_be_bytes());
            bytes.push(self.events.len() as u8);
            for event in &self.events {
                event.write(bytes);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let seq = InputSeq(reader.u32()?);
        let sampled_at = reader.time()?;
        let head = Pose::read(reader)?;
        let views = View::read_list(reader)?;
        let (devices, has_events) = Devices::read(reader)?;
        let mut sample = Self { devices, ..Self::of_views(seq, sampled_at, head, views) };
        if has_events {
            sample.first_event = reader.u32()?;
            let count = reader.count(1, MAX_INPUT_EVENTS, "events")?;
            if sample.first_event.checked_add(count as u32).is_none() {
                return Err(WireError::Field("events"));
            }
            let from = reader.position();
            sample.events = (0..count).map(|_| InputEvent::read(reader)).collect::<Result<_, _>>()?;
            if reader.position() - from > MAX_EVENT_BYTES {
                return Err(WireError::Field("events"));
            }
        }
        Ok(sample)
    }
}

/// Acknowledges a sample, and with it all events that it carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputAcknowledgement {
    pub seq: InputSeq,
}

impl InputAcknowledgement {
    /// The acknowledgement as a datagram.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![Kind::InputAcknowledgement.first_byte()];
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        bytes
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { seq: InputSeq(reader.u32()?) })
    }
}

/// The joints of one hand.
#[derive(Clone, Debug, PartialEq)]
pub struct HandSample {
    /// The client's newest sample when the joints were captured. The newest joints of each hand win.
    pub seq: InputSeq,
    pub joints: HandJoints,
}

impl HandSample {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend([Kind::Extended.first_byte(), ExtendedKind::Hand as u8]);
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        self.joints.write(bytes);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { seq: InputSeq(reader.u32()?), joints: HandJoints::read(reader)? })
    }
}
