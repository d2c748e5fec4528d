//! An application's output to its user besides pictures and sound: rumble, the pointer's shape, text for the clipboard.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Hand;

/// Maximum length of a pulse in milliseconds. A longer effect must be requested again. W3C's Gamepad ends a `dual-rumble` effect at 5 s,
/// too.
pub const MAX_HAPTICS_MILLISECONDS: u16 = 5_000;
/// Maximum side of a cursor's image in pixels. Browsers show none larger than 128, and none larger than 32 that overlaps their own frame.
pub const MAX_CURSOR_SIDE: u8 = 64;

/// What shakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum HapticsTarget {
    /// The gamepad of this number.
    Gamepad(u8),
    /// The controller of this hand.
    Controller(Hand),
}

/// A pulse; one of no length or strength ends the one before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Haptics {
    pub target: HapticsTarget,
    /// At most [`MAX_HAPTICS_MILLISECONDS`].
    pub milliseconds: u16,
    /// Strength of the slow, strong motor, 0 to 1. A device with one motor uses the greater of both strengths.
    pub strong: f32,
    /// Strength of the fast, weak motor, 0 to 1.
    pub weak: f32,
}

/// How the pointer looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CursorShape {
    /// A keyword of CSS' `cursor` (CSS Basic User Interface, level 4), such as `default`, `grab` or `none`.
    Named(String),
    Image {
        /// In pixels, 1 to [`MAX_CURSOR_SIDE`].
        width: u8,
        height: u8,
        /// The pixel that points: column and row.
        hotspot: [u8; 2],
        /// Rows from the top, four bytes for each pixel: red, green, blue, opacity, not multiplied.
        rgba: Base64,
    },
}

/// Bytes that JSON has as base64 (RFC 4648 section 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(test, ts(type = "string"))]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}
