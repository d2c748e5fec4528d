//! WebRTC parameters of each picture codec.

use nearlight_wire::CodecKind;
use rtc::peer_connection::configuration::media_engine::{MIME_TYPE_H264, MIME_TYPE_VP8};

use crate::OfferedCodec;

pub(crate) const fn mime_type(codec: CodecKind) -> &'static str {
    match codec {
        CodecKind::H264 => MIME_TYPE_H264,
        CodecKind::Vp8 => MIME_TYPE_VP8,
    }
}

pub(crate) fn from_mime_type(name: &str) -> Option<CodecKind> {
    CodecKind::ALL.into_iter().find(|codec| mime_type(*codec).eq_ignore_ascii_case(name))
}

/// The codec of an `rtpmap` attribute, such as `VP8/90000`.
pub(crate) fn from_rtpmap(map: &str) -> Option<CodecKind> {
    from_mime_type(&format!("video/{}", map.strip_suffix("/90000")?))
}

/// Distance of the client's format parameters from what we send. None if its packets cannot hold ours.
pub(crate) fn mismatch(codec: CodecKind, parameters: &str) -> Option<u8> {
    match codec {
        CodecKind::H264 => profile(parameters),
        CodecKind::Vp8 => Some(0),
    }
}

/// A codec under the payload types that browsers use, for offers of our own.
pub(crate) fn default_offer(codec: CodecKind) -> OfferedCodec {
    let (payload_type, parameters) = match codec {
        CodecKind::H264 => (102, "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"),
        CodecKind::Vp8 => (96, ""),
    };
    OfferedCodec { codec, payload_type, parameters: parameters.into(), retransmission: Some(payload_type + 1) }
}

/// Distance of H.264 with these parameters from what we send, constrained baseline. None if its packets cannot hold ours.
fn profile(parameters: &str) -> Option<u8> {
    let of = |name: &str| parameters.split(';').find_map(|word| word.trim().strip_prefix(name)?.strip_prefix('='));
    (of("packetization-mode") == Some("1")).then_some(())?;
    let profile = of("profile-level-id").unwrap_or("42000a").to_ascii_lowercase();
    Some(match profile.get(..4) {
        Some("42e0" | "42c0") => 0,
        Some(other) if other.starts_with("42") => 1,
        Some(other) if other.starts_with("4d") => 2,
        _ => 3,
    })
}
