//! Loss recovery of a session.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What client and server do about a frame that was not received completely. Written as its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum RecoveryPolicy {
    /// The client requests the missing symbols again, then a key frame. The name `repair` is accepted for it as well.
    #[default]
    Retransmission,
    /// The client acknowledges what it has decoded. It requests the missing symbols, then a frame predicted from an acknowledged one, then a
    /// key frame.
    Reference,
    /// The client requests a key frame at once, and discards all frames before it, as ALVR's client does.
    Intra,
    /// The client skips what is incomplete, decodes the frames after it with their damage, and requests a key frame after each frame
    /// until one arrives, as OpenUVR does (RTAS 2021, section IV.B.3). After a key frame, the server ignores requests for this many
    /// frames.
    OpenUvr { ignored_frames: u16 },
}

impl RecoveryPolicy {
    /// Number of ignored frames of OpenUVR as released: its device sends 5 (`receiving/src/raw.c`), and its host ignores requests for one
    /// frame more (`sending/src/ffmpeg_cuda_encode.c` counts from `~5` to 0). 100 ms at its 60 frames a second.
    pub const OPENUVR_IGNORED_FRAMES: u16 = 6;
    /// Maximum number of ignored frames. Guess: ten seconds at 60 frames a second; nobody waits longer for a picture.
    const MAX_IGNORED_FRAMES: u16 = 600;
    /// OpenUVR as released.
    pub const OPENUVR: Self = Self::OpenUvr { ignored_frames: Self::OPENUVR_IGNORED_FRAMES };

    /// The name without parameters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retransmission => "retransmission",
            Self::Reference => "reference",
            Self::Intra => "intra",
            Self::OpenUvr { .. } => "openuvr",
        }
    }

    /// Whether the client requests lost symbols, so that the server may count on that.
    #[must_use]
    pub const fn requests_symbols(self) -> bool {
        match self {
            Self::Retransmission | Self::Reference => true,
            Self::Intra | Self::OpenUvr { .. } => false,
        }
    }
}

impl fmt::Display for RecoveryPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenUvr { ignored_frames } if *ignored_frames != Self::OPENUVR_IGNORED_FRAMES => {
                write!(formatter, "{}:{ignored_frames}", self.name())
            }
            _ => formatter.write_str(self.name()),
        }
    }
}

/// The error for a name that is not a recovery policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no recovery policy {name:?}; choose one of: retransmission, reference, intra, openuvr, openuvr:FRAMES (0 to 600)"
)]
pub struct UnknownRecovery {
    pub name: String,
}

impl FromStr for RecoveryPolicy {
    type Err = UnknownRecovery;

    fn from_str(text: &str) -> Result<Self, UnknownRecovery> {
        if text == "repair" {
            return Ok(Self::Retransmission);
        }
        let plain = [Self::Retransmission, Self::Reference, Self::Intra, Self::OPENUVR];
        if let Some(policy) = plain.into_iter().find(|policy| policy.name() == text) {
            return Ok(policy);
        }
        let frames = text.strip_prefix("openuvr:").and_then(|frames| frames.parse().ok());
        let ignored = frames.filter(|frames| *frames <= Self::MAX_IGNORED_FRAMES);
        let policy = ignored.map(|ignored_frames| Self::OpenUvr { ignored_frames });
        policy.ok_or_else(|| UnknownRecovery { name: text.to_owned() })
    }
}

impl From<RecoveryPolicy> for String {
    fn from(policy: RecoveryPolicy) -> Self {
        policy.to_string()
    }
}

impl TryFrom<String> for RecoveryPolicy {
    type Error = UnknownRecovery;

    fn try_from(name: String) -> Result<Self, UnknownRecovery> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in ["retransmission", "reference", "intra", "openuvr", "openuvr:0", "openuvr:600"] {
            let policy: RecoveryPolicy = name.parse().expect(name);
            assert_eq!(policy.to_string(), name);
            assert_eq!(serde_json::to_string(&policy).expect("a string"), format!("{name:?}"));
        }
        assert_eq!("openuvr:6".parse(), Ok(RecoveryPolicy::OPENUVR));
        assert_eq!("repair".parse(), Ok(RecoveryPolicy::Retransmission));
    }

    #[test]
    fn other_names_are_refused_in_words() {
        for name in ["", "OpenUVR", "openuvr:", "openuvr:601", "openuvr:-1", "intra:5", "none"] {
            let error = name.parse::<RecoveryPolicy>().expect_err(name).to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("openuvr:FRAMES"), "{error}");
        }
        assert!(serde_json::from_str::<RecoveryPolicy>("\"prayer\"").is_err());
    }
}
