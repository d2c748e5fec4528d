//! Classifies a datagram by its first bytes.
//!
//! RFC 7983 and RFC 9443 give each protocol of a WebRTC port its range of first bytes, RFC 5761 tells RTCP from RTP. Bytes that are
//! in range by chance are sorted out later, over whole streams (`traffic`).

mod rtcp;

use serde::Serialize;

pub(crate) use rtcp::{ReportEcho, RtcpReports};

/// The protocol or medium of a stream of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Stun,
    Dtls,
    /// RTP, encrypted or not, whose clock says that it is sound.
    RtpAudio,
    /// RTP, encrypted or not, whose clock says that it is video.
    RtpVideo,
    /// Video packets sent again, or redundant ones: the times of another stream under an SSRC of their own.
    RtpRepair,
    /// RTP that lasted too short to tell.
    Rtp,
    /// RTCP, encrypted or not.
    Rtcp,
    /// QUIC packets with long headers, of a handshake.
    QuicLong,
    QuicShort,
    Other,
}

impl Kind {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stun => "STUN",
            Self::Dtls => "DTLS",
            Self::RtpAudio => "SRTP audio",
            Self::RtpVideo => "SRTP video",
            Self::RtpRepair => "SRTP video repair",
            Self::Rtp => "SRTP",
            Self::Rtcp => "SRTCP",
            Self::QuicLong => "QUIC long header",
            Self::QuicShort => "QUIC short header",
            Self::Other => "other UDP",
        }
    }
}

/// The class of one datagram, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramClass {
    Stun(Stun),
    Dtls,
    Rtp(Rtp),
    Rtcp(RtcpReports),
    QuicLong,
    QuicShort,
    Other,
}

/// A STUN message (RFC 8489).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stun {
    pub class: StunClass,
    pub transaction: [u8; 12],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StunClass {
    Request,
    /// A success or error response.
    Response,
    Indication,
}

/// The clear part of an RTP packet (RFC 3550; SRTP leaves it as it is).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rtp {
    pub marker: bool,
    pub payload_type: u8,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
}

/// Classifies a datagram by its captured `payload`; `length` is the full length of the payload.
pub(crate) fn classify(payload: &[u8], length: u32) -> DatagramClass {
    // TURN's channels wrap the datagram in four bytes (RFC 8656 section 12.4).
    if matches!(payload.first(), Some(64..=79)) && is_channel(payload, length) {
        return bare(&payload[4..], length - 4);
    }
    bare(payload, length)
}

fn bare(payload: &[u8], length: u32) -> DatagramClass {
    let Some(first) = payload.first() else { return DatagramClass::Other };
    match first {
        0..=3 => stun(payload).map_or(DatagramClass::Other, DatagramClass::Stun),
        20..=63 if is_dtls(payload) => DatagramClass::Dtls,
        64..=127 if length >= MIN_QUIC_BYTES => DatagramClass::QuicShort,
        128..=191 => rtp(payload, length),
        192..=255 if is_long_header(payload) => DatagramClass::QuicLong,
        _ => DatagramClass::Other,
    }
}

/// A short header needs a first byte and 20 bytes to sample the header protection from (RFC 9001 section 5.4.2).
const MIN_QUIC_BYTES: u32 = 21;

fn stun(payload: &[u8]) -> Option<Stun> {
    let head = payload.get(..20)?;
    if head[4..8] != [0x21, 0x12, 0xa4, 0x42] {
        return None;
    }
    let class = match (head[0] & 1, head[1] & 0x10) {
        (0, 0) => StunClass::Request,
        (0, _) => StunClass::Indication,
        _ => StunClass::Response,
    };
    Some(Stun { class, transaction: head[8..20].try_into().ok()? })
}

/// A record of DTLS 1.0 to 1.2 names its version; one of 1.3 begins with the bits 001 (RFC 9147 section 4).
fn is_dtls(payload: &[u8]) -> bool {
    payload[0] >= 32 || matches!(payload.get(1..3), Some([254, 255 | 253] | [1, 0]))
}

fn is_channel(payload: &[u8], length: u32) -> bool {
    let Some(head) = payload.get(..4) else { return false };
    let inside = u32::from(u16::from_be_bytes([head[2], head[3]]));
    inside > 0 && length >= 4 + inside && length - 4 - inside < 4
}

fn rtp(payload: &[u8], length: u32) -> DatagramClass {
    // RFC 5761 section 4: these payload types are RTCP's.
    if length >= 8 && matches!(payload.get(1), Some(192..=223)) {
        return DatagramClass::Rtcp(rtcp::reports(payload));
    }
    let Some(head) = payload.get(..12) else { return DatagramClass::Other };
    if length < 12 + 4 * u32::from(head[0] & 0xf) {
        return DatagramClass::Other;
    }
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    DatagramClass::Rtp(Rtp {
        marker: head[1] & 0x80 != 0,
        payload_type: head[1] & 0x7f,
        sequence: u16::from_be_bytes([head[2], head[3]]),
        timestamp: word(4),
        ssrc: word(8),
    })
}

/// Versions 1 and 2, drafts, and version negotiation.
fn is_long_header(payload: &[u8]) -> bool {
    let Some(version) = payload.get(1..5) else { return false };
    matches!(version, [0, 0, 0, 0 | 1] | [0x6b, 0x33, 0x43, 0xcf] | [0xff, 0, 0, _])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_protocols_apart() {
        let stun = [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let transaction = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let request = DatagramClass::Stun(Stun { class: StunClass::Request, transaction });
        let response = DatagramClass::Stun(Stun { class: StunClass::Response, transaction });
        let mut answer = stun;
        answer[..2].copy_from_slice(&[1, 1]);
        let rtp = [0x80, 0xe0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3];
        let picture = DatagramClass::Rtp(Rtp { marker: true, payload_type: 96, sequence: 7, timestamp: 9, ssrc: 3 });
        let mut channel = vec![0x40, 0, 0, 12];
        channel.extend(rtp);
        let mut rtcp = rtp;
        rtcp[1] = 201;
        let cases: [(&[u8], u32, DatagramClass); 13] = [
            (&stun, 20, request),
            (&answer, 20, response),
            (&stun[..19], 20, DatagramClass::Other),
            (&[22, 254, 253, 0], 40, DatagramClass::Dtls),
            (&[22, 3, 3, 0], 40, DatagramClass::Other),
            (&[0x2f, 7], 40, DatagramClass::Dtls),
            (&rtp, 12, picture),
            (&channel, 16, picture),
            (&rtcp, 40, DatagramClass::Rtcp(RtcpReports::default())),
            (&[0xc3, 0, 0, 0, 1], 1200, DatagramClass::QuicLong),
            (&[0xc3, 9, 9, 9, 9], 1200, DatagramClass::Other),
            (&[0x41, 0], 1200, DatagramClass::QuicShort),
            (&[], 0, DatagramClass::Other),
        ];
        for (payload, length, expected) in cases {
            assert_eq!(classify(payload, length), expected, "{payload:?}");
        }
    }
}
