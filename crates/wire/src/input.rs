//! The uplink: where the user is, and what the user does.

use nearlight_units::{InputSeq, Time};
use serde::{Deserialize, Serialize};

use crate::cursor::Reader;
use crate::{Kind, Pose, View, WireError};

/// A sample repeats at most this many events that the server has not acknowledged.
pub const MAX_INPUT_EVENTS: usize = 32;

/// What acts on the world: the view's centre (mouse, touch, gamepad) or a tracked hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Hand {
    Gaze,
    Left,
    Right,
}

/// What a user can do to the world. Walking and looking are poses, not actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Take hold of the object that the hand points at.
    Grab,
    /// Let go of what the hand holds.
    Release,
    /// Push the object that the hand points at away from the hand.
    Push,
    /// Throw a new ball from the hand.
    Throw,
    /// Put everything back to where it was at the start.
    Reset,
    /// Draw what the hand holds nearer by a step: a notch of a mouse's wheel.
    Nearer,
    /// Move it farther away by as much.
    Farther,
}

/// An action that must not be lost: repeated in every sample until a frame acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputEvent {
    /// The sample that first carried it.
    pub seq: InputSeq,
    pub hand: Hand,
    pub action: Action,
}

/// A tracked hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandPose {
    pub hand: Hand,
    pub pose: Pose,
}

/// Everything the server must know of the user at one moment: the newest sample makes all older ones worthless.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSample {
    pub seq: InputSeq,
    /// When the user moved, on the client's clock.
    pub sampled_at: Time,
    pub head: Pose,
    /// One view for a screen, two for a headset, left first.
    pub views: Vec<View>,
    /// At most the two tracked hands.
    pub hands: Vec<HandPose>,
    /// Unacknowledged events, oldest first, at most [`MAX_INPUT_EVENTS`].
    pub events: Vec<InputEvent>,
}

impl Hand {
    /// In the order of their codes.
    pub const ALL: [Self; 3] = [Self::Gaze, Self::Left, Self::Right];

    /// The hand of a code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    const fn code(self) -> u8 {
        self as u8
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::from_code(reader.u8()?).ok_or(WireError::Field("hand"))
    }
}

impl Action {
    /// In the order of their codes.
    pub const ALL: [Self; 7] =
        [Self::Grab, Self::Release, Self::Push, Self::Throw, Self::Reset, Self::Nearer, Self::Farther];

    /// The action of a code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    const fn code(self) -> u8 {
        self as u8
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::from_code(reader.u8()?).ok_or(WireError::Field("action"))
    }
}

impl InputSample {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.events.len() <= MAX_INPUT_EVENTS && self.hands.len() <= 2);
        bytes.push(Kind::Input.first_byte());
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        bytes.extend_from_slice(&self.sampled_at.as_micros().to_be_bytes());
        self.head.write(bytes);
        View::write_list(&self.views, bytes);
        bytes.push(self.hands.len() as u8);
        for hand in &self.hands {
            bytes.push(hand.hand.code());
            hand.pose.write(bytes);
        }
        bytes.push(self.events.len() as u8);
        for event in &self.events {
            bytes.extend_from_slice(&event.seq.0.to_be_bytes());
            bytes.push(event.hand.code());
            bytes.push(event.action.code());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let seq = InputSeq(reader.u32()?);
        let sampled_at = reader.time()?;
        let head = Pose::read(reader)?;
        let views = View::read_list(reader)?;
        let hand_count = reader.u8()?;
        if hand_count > 2 {
            return Err(WireError::Field("hands"));
        }
        let mut hands = Vec::with_capacity(2);
        for _ in 0..hand_count {
            let hand = Hand::read(reader)?;
            if hand == Hand::Gaze || hands.iter().any(|other: &HandPose| other.hand == hand) {
                return Err(WireError::Field("hands"));
            }
            hands.push(HandPose { hand, pose: Pose::read(reader)? });
        }
        let event_count = usize::from(reader.u8()?);
        if event_count > MAX_INPUT_EVENTS {
            return Err(WireError::Field("events"));
        }
        let mut events = Vec::with_capacity(event_count);
        for _ in 0..event_count {
            events.push(InputEvent {
                seq: InputSeq(reader.u32()?),
                hand: Hand::read(reader)?,
                action: Action::read(reader)?,
            });
        }
        Ok(Self { seq, sampled_at, head, views, hands, events })
    }
}
