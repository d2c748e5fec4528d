//! Packet layouts: parse and write, no state. `docs/wire.md` is the normative description.
//!
//! Every parser reads untrusted bytes: it never panics, allocates no more than its bound and rejects trailing bytes.

#![forbid(unsafe_code)]

mod acknowledgement;
mod application;
mod clipboard;
mod clock;
mod codec;
mod control;
mod cursor;
mod feedback;
mod frame;
pub mod hexadecimal;
mod input;
pub mod marker;
mod nack;
mod note;
mod output;
mod pose;
mod proof;
mod recovery;
mod repair;
mod report;
mod sound;
mod symbol;
mod tcp;
#[cfg(test)]
mod typescript;

pub use acknowledgement::Acknowledgement;
pub use application::{
    ApplicationMessage, MAX_RELIABLE_MESSAGE_BYTES, MAX_UNRELIABLE_MESSAGE_BYTES, UnreliableMessage,
};
pub use clipboard::{ClipboardChunks, ClipboardText, MAX_CLIPBOARD_BYTES, MAX_CLIPBOARD_CHUNK_BYTES};
pub use clock::{Ping, Pong};
pub use codec::{CodecKind, Reference, UnknownCodec};
pub use control::{
    ClientMessage, ControlReader, ControllerDescription, DevicesDescription, DisplayKind, GamepadDescription, Hello,
    MAX_CONTROL_BYTES, RateStatus, RefusalReason, RoomsWelcome, ServerMessage, SoundDescription, StreamDescription,
    UserRole, Welcome, write_control, write_message,
};
pub use feedback::{Arrival, Feedback, MAX_FEEDBACK_PACKETS};
pub use frame::{FrameHeader, MAX_FRAME_HEADER_BYTES};
pub use input::key_codes;
pub use input::{
    Controller, Devices, Gamepad, Hand, HandJoints, HandSample, InputAcknowledgement, InputEvent, InputSample, JOINTS,
    Joint, Key, MAX_CONTROLLER_AXES, MAX_CONTROLLER_BUTTONS, MAX_CONTROLLERS, MAX_EVENT_BYTES, MAX_GAMEPAD_AXES,
    MAX_GAMEPAD_BUTTONS, MAX_GAMEPADS, MAX_INPUT_EVENTS, MAX_KEYS, MAX_TEXT_BYTES, MAX_TOUCHES, Pointer, PointerButton,
    SERVED_GAMEPAD, ScreenPoint, Touch, WHEEL_UNITS_PER_PIXEL,
};
pub use nack::{KeyFrameRequest, MAX_NACK_ENTRIES, MissingRun, Nack};
pub use note::FrameNote;
pub use output::{Base64, CursorShape, Haptics, HapticsTarget, MAX_CURSOR_SIDE, MAX_HAPTICS_MILLISECONDS};
pub use pose::{Fov, Pose, View};
pub use proof::{Binding, Bytes32, EXPORTER_LABEL, NotBytes32, Role, TokenProof};
pub use recovery::{RecoveryPolicy, UnknownRecovery};
pub use repair::{COVERED_FRAME_BYTES, CoveredFrame, MAX_COVERED_FRAMES, REPAIR_HEADER_BYTES, RepairHeader};
pub use report::{FrameReport, MAX_FRAME_REPORTS, Report};
pub use sound::{BLOCK, MAX_SOUND_PACKET_BYTES, SOUND_HEADER_BYTES, SOUND_PAUSE, SOUND_RATE, Sound, is_pause};
pub use symbol::{MAX_FRAME_BYTES, SYMBOL_HEADER_BYTES, SymbolFlags, SymbolHeader, symbol_range};
pub use tcp::{TcpInfo, TcpRecovery};

/// The protocol version that both ends must speak, in the high nibble of every datagram's first byte.
pub const PROTOCOL_VERSION: u8 = 3;

/// The application protocol's path in the WebTransport CONNECT request.
pub const WEBTRANSPORT_PATH: &str = "/nearlight";

/// The path at which rooms are joined, over WebTransport and over a WebSocket.
pub const ROOMS_PATH: &str = "/rooms";

/// The reason for rejecting bytes. All variants are the peer's fault. The receiver counts them and drops the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("datagram ends after {have} bytes where {need} are needed")]
    Truncated { need: usize, have: usize },
    #[error("{0} bytes are left after the end of the message")]
    Trailing(usize),
    #[error("protocol version {0} is not spoken here (this is version {PROTOCOL_VERSION})")]
    Version(u8),
    #[error("datagram kind {0} is unknown")]
    Kind(u8),
    #[error("field `{0}` is out of its range")]
    Field(&'static str),
    #[error("control message of {0} bytes exceeds the limit of {MAX_CONTROL_BYTES}")]
    ControlTooLong(usize),
    #[error("control message is not the JSON that the protocol describes")]
    ControlSyntax,
    #[error(
        "a text of the clipboard exceeds the limit of {MAX_CLIPBOARD_BYTES} bytes, or a chunk of it that of {MAX_CLIPBOARD_CHUNK_BYTES}"
    )]
    ClipboardTooLong,
}

/// The low nibble of a datagram's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Symbol = 1,
    Pong = 2,
    Input = 3,
    Feedback = 4,
    Nack = 5,
    KeyFrameRequest = 6,
    Ping = 7,
    Report = 8,
    Repair = 9,
    Acknowledgement = 10,
    FrameNote = 11,
    Sound = 12,
    /// As `Feedback`, followed by marks.
    MarkedFeedback = 13,
    InputAcknowledgement = 14,
    /// The next byte is an [`ExtendedKind`].
    Extended = 15,
}

/// Kinds beyond those that fit a nibble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExtendedKind {
    Application = 1,
    Hand = 2,
}

impl Kind {
    pub(crate) const fn first_byte(self) -> u8 {
        (PROTOCOL_VERSION << 4) | self as u8
    }
}

/// A datagram from a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ToClient<'a> {
    Symbol(SymbolHeader, &'a [u8]),
    Pong(Pong),
    Repair(RepairHeader, &'a [u8]),
    /// A note on a frame, only over WebRTC.
    Note(FrameNote<nearlight_units::RemoteTime>),
    Sound(Sound<'a>),
    InputAcknowledgement(InputAcknowledgement),
    Application(UnreliableMessage<'a>),
}

impl<'a> ToClient<'a> {
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = cursor::Reader::new(datagram);
        match reader.kind()? {
            kind if kind == Kind::Symbol as u8 => {
                let header = SymbolHeader::read(&mut reader)?;
                let payload = reader.rest();
                header.check_payload(payload.len())?;
                Ok(Self::Symbol(header, payload))
            }
            kind if kind == Kind::Pong as u8 => {
                let pong = Pong::read(&mut reader)?;
                reader.finish()?;
                Ok(Self::Pong(pong))
            }
            kind if kind == Kind::Repair as u8 => {
                let header = RepairHeader::read(&mut reader)?;
                let payload = reader.rest();
                if payload.len() != header.payload_bytes() {
                    return Err(WireError::Field("payload length"));
                }
                Ok(Self::Repair(header, payload))
            }
            kind if kind == Kind::FrameNote as u8 => FrameNote::read(&mut reader).map(Self::Note),
            kind if kind == Kind::Sound as u8 => Ok(Self::Sound(Sound::read(&mut reader)?)),
            kind if kind == Kind::InputAcknowledgement as u8 => {
                let acknowledgement = InputAcknowledgement::read(&mut reader)?;
                reader.finish()?;
                Ok(Self::InputAcknowledgement(acknowledgement))
            }
            kind if kind == Kind::Extended as u8 => match reader.u8()? {
                kind if kind == ExtendedKind::Application as u8 => {
                    UnreliableMessage::read(&mut reader).map(Self::Application)
                }
                _ => Err(WireError::Kind(kind)),
            },
            kind => Err(WireError::Kind(kind)),
        }
    }
}

/// A datagram from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ToServer {
    Input(InputSample),
    Feedback(Feedback),
    Nack(Nack),
    KeyFrameRequest(KeyFrameRequest),
    Ping(Ping),
    Report(Report),
    Acknowledgement(Acknowledgement),
    Hand(Box<HandSample>),
    Application(UnreliableMessage<'static>),
}

impl ToServer {
    pub fn parse(datagram: &[u8]) -> Result<Self, WireError> {
        let mut reader = cursor::Reader::new(datagram);
        let message = match reader.kind()? {
            kind if kind == Kind::Input as u8 => Self::Input(InputSample::read(&mut reader)?),
            kind if kind == Kind::Feedback as u8 => Self::Feedback(Feedback::read(&mut reader, false)?),
            kind if kind == Kind::MarkedFeedback as u8 => Self::Feedback(Feedback::read(&mut reader, true)?),
            kind if kind == Kind::Nack as u8 => Self::Nack(Nack::read(&mut reader)?),
            kind if kind == Kind::KeyFrameRequest as u8 => Self::KeyFrameRequest(KeyFrameRequest::read(&mut reader)?),
            kind if kind == Kind::Ping as u8 => Self::Ping(Ping::read(&mut reader)?),
            kind if kind == Kind::Report as u8 => Self::Report(Report::read(&mut reader)?),
            kind if kind == Kind::Acknowledgement as u8 => Self::Acknowledgement(Acknowledgement::read(&mut reader)?),
            kind if kind == Kind::Extended as u8 => match reader.u8()? {
                kind if kind == ExtendedKind::Application as u8 => {
                    Self::Application(UnreliableMessage::read(&mut reader)?.into_owned())
                }
                kind if kind == ExtendedKind::Hand as u8 => Self::Hand(HandSample::read(&mut reader)?.into()),
                _ => return Err(WireError::Kind(kind)),
            },
            kind => return Err(WireError::Kind(kind)),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Writes the datagram that [`ToServer::parse`] reads back as the same message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        match self {
            Self::Input(message) => message.write(&mut bytes),
            Self::Feedback(message) => message.write(&mut bytes),
            Self::Nack(message) => message.write(&mut bytes),
            Self::KeyFrameRequest(message) => message.write(&mut bytes),
            Self::Ping(message) => message.write(&mut bytes),
            Self::Report(message) => message.write(&mut bytes),
            Self::Acknowledgement(message) => message.write(&mut bytes),
            Self::Hand(message) => message.write(&mut bytes),
            Self::Application(message) => message.write(&mut bytes),
        }
        bytes
    }
}

#[cfg(test)]
mod tests;
