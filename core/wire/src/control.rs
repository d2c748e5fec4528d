//! The reliable stream: messages, each preceded by its length as a 32-bit big-endian number. All but those of rooms are JSON.

use serde::{Deserialize, Serialize};

use crate::codec::known_codecs;
use crate::{
    Base64, Bytes32, CodecKind, CursorShape, Hand, Haptics, PROTOCOL_VERSION, Pose, RecoveryPolicy, TokenProof,
    WireError,
};

/// Maximum length of a control message in bytes. A longer one is rejected before any of it is stored.
pub const MAX_CONTROL_BYTES: usize = 64 * 1024;

/// The kind of display that the user looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisplayKind {
    Screen,
    Headset,
}

/// What a user may do, by the token of the user's link. `docs/wire.md`, section "Roles".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum UserRole {
    Host,
    #[default]
    Guest,
    Spectator,
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u8,
    /// Proof that the client knows the token of the printed link; none over WebRTC, where the offer has already proved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<TokenProof>,
    /// The client's name for itself, for the server's log; at most 200 characters are kept.
    pub client: String,
    pub display: DisplayKind,
    /// Codecs that the client decodes, best first; unknown ones are skipped when it is parsed.
    #[serde(deserialize_with = "known_codecs")]
    pub codecs: Vec<CodecKind>,
    /// Refresh rate of the display in hertz; 0 where a picture is displayed the moment it is decoded.
    pub display_hz: u16,
    /// The client wants the world's sound, if the server has any.
    #[serde(default)]
    pub sound: bool,
    /// The user allows the application to write to the clipboard.
    #[serde(default)]
    pub clipboard: bool,
    /// The client wants the rows below the picture that hold the latency marker, and crops them. No effect over WebRTC, where the offer
    /// requests the marker.
    #[serde(default)]
    pub marker: bool,
    /// What others in a room call the user for whom the server renders; none: a name that the server makes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of the page's seat in rooms, 16 random bytes, by which a page that is in a room twice keeps its name; none: no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Base64>,
}

impl Hello {
    /// Makes the hello of a client without pictures and sound: a member of a room that draws by itself. Others set what they receive.
    #[must_use]
    pub const fn without_media(client: String, proof: Option<TokenProof>) -> Self {
        Self {
            protocol: PROTOCOL_VERSION,
            proof,
            client,
            display: DisplayKind::Screen,
            codecs: Vec::new(),
            display_hz: 0,
            sound: false,
            clipboard: false,
            marker: false,
            name: None,
            seat: None,
        }
    }
}

/// How the sound is coded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SoundDescription {
    /// `opus`.
    pub codec: String,
    /// Samples a second of each channel.
    pub sample_rate: u32,
    pub channels: u8,
}

/// How the pictures are coded from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StreamDescription {
    pub codec: CodecKind,
    /// The codec string of WebCodecs, such as `avc1.42E01F`.
    pub codec_string: String,
    /// The picture's width and height in pixels. Where the latency marker is below the picture, the decoded frame is higher.
    pub width: u16,
    pub height: u16,
    pub fps: u16,
    /// The encoder's name and version.
    pub encoder: String,
    /// The source of the pictures: renderer and graphics adapter, or the name of a file or program.
    pub adapter: String,
    /// 1 for a screen; 2 for two eyes side by side.
    pub views: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Welcome {
    pub session: u32,
    pub stream: StreamDescription,
    /// `nearlight` and its version.
    pub server: String,
    pub controller: String,
    /// The redundancy policy's name.
    #[serde(default)]
    pub fec: String,
    /// How both ends recover from losses. It has no effect over a transport that loses nothing.
    #[serde(default)]
    #[cfg_attr(test, ts(type = "string"))]
    pub recovery: RecoveryPolicy,
    /// How many frames the client buffers before it shows the first one; it reports how many are buffered. 0: frames are shown as soon as
    /// they are decoded.
    #[serde(default)]
    pub playback_buffer: u8,
    /// None: the application has no sound, or the client did not request it.
    #[serde(default)]
    pub sound: Option<SoundDescription>,
    pub pacing: String,
    pub max_rate_bps: u64,
    /// The user's initial head pose, midway between the eyes.
    pub start: Pose,
    /// Both the server's owner and the user allow the exchange of clipboard text.
    #[serde(default)]
    pub clipboard: bool,
    /// The pictures are the demonstration world's or a scene's, so that the page can explain how to walk, grab and throw in them.
    #[serde(default)]
    pub demonstration: bool,
    /// What the user's token permits.
    #[serde(default)]
    pub role: UserRole,
    /// The server's proof that it knows the token, over the same fields as the client's; none over WebRTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub proof: Option<Bytes32>,
}

/// The server's answer to the `hello` of somebody who wants to join a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "rooms")]
pub struct RoomsWelcome {
    /// `nearlight` and its version.
    pub server: String,
    /// The server's proof that it knows the token, over the same fields as the client's.
    pub proof: Bytes32,
}

/// Why a session was refused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    Token,
    TooManyAttempts,
    Full,
    Protocol,
    Codec,
    Internal,
}

/// The rate decision in force, for the client's display.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RateStatus {
    pub target_bps: u64,
    pub pacing_bps: u64,
    pub sent_bps: u64,
    /// Name of the limit that decided the target.
    pub binding: String,
    /// Every candidate: limit and rate.
    pub limits: Vec<(String, u64)>,
    pub rtt_us: Option<u64>,
    pub packets_lost: u64,
    pub key_frames: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// The only message on a unidirectional stream that the server opens at the start of a WebTransport session.
    Challenge {
        nonce: Bytes32,
    },
    Welcome(Welcome),
    Refused {
        reason: RefusalReason,
        message: String,
    },
    Stream(StreamDescription),
    Rate(RateStatus),
    /// A device of the user is to vibrate.
    Haptics(Haptics),
    /// How the user's pointer is to look and behave.
    Pointer {
        cursor: CursorShape,
        /// The application uses the pointer's movement rather than its position: the client captures the pointer when the user clicks.
        captured: bool,
    },
    /// A chunk of a text for the user's clipboard, of at most [`MAX_CLIPBOARD_CHUNK_BYTES`](crate::MAX_CLIPBOARD_CHUNK_BYTES).
    Clipboard {
        text: String,
        /// The text continues in the next message of this type.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(test, ts(skip))]
        more: bool,
    },
    /// A message of the application's own, at most [`MAX_RELIABLE_MESSAGE_BYTES`](crate::MAX_RELIABLE_MESSAGE_BYTES).
    Application {
        data: Base64,
    },
    /// The server ends the session in an orderly way. After a restart, a client that reconnects gets a new one.
    Goodbye {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    Hello(Hello),
    /// The user put the headset on or took it off, or the display's refresh rate differs from what was reported.
    Display {
        display: DisplayKind,
        display_hz: u16,
    },
    /// All gamepads and controllers of the user, whenever one is connected or disconnected.
    Devices(DevicesDescription),
    /// A chunk of the text of the user's clipboard, of at most [`MAX_CLIPBOARD_CHUNK_BYTES`](crate::MAX_CLIPBOARD_CHUNK_BYTES).
    Clipboard {
        text: String,
        /// The text continues in the next message of this type.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// A message of the application's own, at most [`MAX_RELIABLE_MESSAGE_BYTES`](crate::MAX_RELIABLE_MESSAGE_BYTES).
    Application {
        data: Base64,
    },
    Goodbye,
}

/// Descriptions of a user's gamepads and controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct DevicesDescription {
    pub gamepads: Vec<GamepadDescription>,
    pub controllers: Vec<ControllerDescription>,
}

/// A gamepad of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct GamepadDescription {
    /// The index by which input samples refer to it.
    pub index: u8,
    /// The name that the user's system gives it; at most 200 characters are kept.
    pub name: String,
    /// It can rumble.
    pub haptics: bool,
}

/// A tracked controller of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ControllerDescription {
    pub hand: Hand,
    /// WebXR's input profiles, most specific first, such as `oculus-touch-v3`; at most 16 of 200 characters are kept.
    pub profiles: Vec<String>,
    /// It can vibrate.
    pub haptics: bool,
}

/// Serialises one message for the stream.
pub fn write_control<M: Serialize>(message: &M) -> Vec<u8> {
    write_message(&serde_json::to_vec(message).expect("control messages are plain data"))
}

/// Returns a message's bytes on the stream, preceded by their length.
#[must_use]
pub fn write_message(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + message.len());
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Splits a byte stream into messages. Stores at most one message, and no more of it than has arrived.
#[derive(Debug, Default)]
pub struct ControlReader {
    buffered: Vec<u8>,
}

impl ControlReader {
    /// Appends bytes that the stream delivered.
    ///
    /// Call [`ControlReader::poll`] until it returns None before the next call, so that the buffer stays bounded.
    pub fn on_bytes(&mut self, bytes: &[u8]) {
        self.buffered.extend_from_slice(bytes);
    }

    /// Returns the next complete message. After an error the stream cannot be read any further.
    pub fn poll<M: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<M>, WireError> {
        let Some(json) = self.poll_bytes(MAX_CONTROL_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&json).map(Some).map_err(|_| WireError::ControlSyntax)
    }

    /// Returns the bytes of the next complete message, of at most `most` bytes. After an error the stream cannot be read any further.
    pub fn poll_bytes(&mut self, most: usize) -> Result<Option<Vec<u8>>, WireError> {
        let Some(prefix) = self.buffered.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > most {
            return Err(WireError::ControlTooLong(length));
        }
        let Some(message) = self.buffered.get(4..4 + length) else { return Ok(None) };
        let message = message.to_vec();
        self.buffered.drain(..4 + length);
        Ok(Some(message))
    }
}
