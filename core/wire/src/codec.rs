//! Picture codecs, and the references from which their frames are predicted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// A codec of pictures, written as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum CodecKind {
    H264,
    Vp8,
}

impl CodecKind {
    pub const ALL: [Self; 2] = [Self::H264, Self::Vp8];

    /// The name on the wire, on a command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::Vp8 => "vp8",
        }
    }
}

impl fmt::Display for CodecKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for CodecKind {
    type Err = UnknownCodec;

    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownCodec { name: text.to_owned() })
    }
}

/// The reference from which a frame is to be predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// The previously encoded frame.
    #[default]
    Newest,
    /// A frame that the receiver is known to have decoded. A key frame if the encoder keeps none.
    Acknowledged,
    /// No reference: a key frame.
    Nothing,
}

/// The error for a codec that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no codec {name:?}; choose one of: {}", CodecKind::ALL.map(CodecKind::name).join(", "))]
pub struct UnknownCodec {
    pub name: String,
}

/// Keeps the known names of a list: a client may support codecs that are unknown to this server.
pub(crate) fn known_codecs<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<CodecKind>, D::Error> {
    let names = Vec::<String>::deserialize(names)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}
