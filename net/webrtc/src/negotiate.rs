//! Writing to and reading from the library's session descriptions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rtc::ice::mdns::MulticastDnsMode;
use rtc::interceptor::{Registry, Slot};
use rtc::media_stream::MediaStreamTrack;
use rtc::peer_connection::certificate::{CertificateParams, RTCCertificate};
use rtc::peer_connection::configuration::RTCConfigurationBuilder;
use rtc::peer_connection::configuration::media_engine::{
    MIME_TYPE_FLEX_FEC03, MIME_TYPE_OPUS, MIME_TYPE_RTX, MediaEngine,
};
use rtc::peer_connection::configuration::setting_engine::{SctpMaxMessageSize, SettingEngineBuilder};
use rtc::peer_connection::transport::{RTCDtlsRole, RTCIceCandidateInit};
use rtc::peer_connection::{RTCPeerConnection, RTCPeerConnectionBuilder};
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::rtp_transceiver::rtp_sender::{
    RTCPFeedback, RTCRtpCodec, RTCRtpCodecParameters, RTCRtpCodingParameters, RTCRtpEncodingParameters,
    RTCRtpFecParameters, RTCRtpHeaderExtensionCapability, RTCRtpRtxParameters, RtpCodecKind,
};
use rtc::shared::error::Error;

use crate::codec;
use crate::crypto::ObservedProvider;
use crate::filter::FilterSlot;
use crate::peer::{Certificate, MAX_MESSAGE};
use crate::rtcp::{RtcpQueue, RtcpTap};
use crate::stream::StreamConfig;
use crate::{CodecKind, OfferedCodec};

/// The extension with a packet's departure time, for receivers that estimate the rate themselves.
const ABSOLUTE_SEND_TIME: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";
const TRANSPORT_WIDE: &str = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
const PLAYOUT_DELAY: &str = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay";
const VIDEO_CLOCK: u32 = 90_000;
const SOUND_CLOCK: u32 = 48_000;
/// Bytes of SCTP's buffer for a client's messages until they are fetched: control messages are short.
const SCTP_BUFFER_BYTES: u32 = 256 * 1_024;
/// One stream name for picture and sound, so that clients play them in sync.
const MEDIA_STREAM: &str = "nearlight";

/// The codecs of one connection under their payload types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codecs {
    pub(crate) video: Vec<OfferedCodec>,
    /// Opus' payload type and parameters.
    pub(crate) sound: Option<(u8, String)>,
    /// Payload type and parameters of repairs of the picture.
    pub(crate) repairs: Option<(u8, String)>,
    /// Whether the client reports each packet's arrival.
    pub(crate) reports_arrivals: bool,
}

/// SSRCs of the tracks that a connection may get, drawn in advance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    pub(crate) video: u32,
    pub(crate) retransmission: u32,
    pub(crate) repair: u32,
    pub(crate) sound: u32,
}

pub(crate) fn default_sound() -> (u8, String) {
    (111, "minptime=10;useinbandfec=1".into())
}

/// libwebrtc's own payload type, and its repair window of 10 s.
pub(crate) fn default_repairs() -> (u8, String) {
    (49, "repair-window=10000000".into())
}

pub(crate) fn certificate() -> Result<RTCCertificate, Error> {
    let failed = |reason: String| Error::Other(reason);
    let provider = rtc::crypto::default_provider().map_err(|error| failed(error.to_string()))?;
    let params = CertificateParams::new(vec!["nearlight".into()]).map_err(|error| failed(error.to_string()))?;
    RTCCertificate::generate(provider.crypto(), rtc::crypto::SignatureScheme::EcdsaP256Sha256, params)
}

pub(crate) fn connection(
    now: Instant,
    certificate: &Certificate,
    codecs: &Codecs,
    rtcp_queue: RtcpQueue,
) -> Result<RTCPeerConnection, Error> {
    let crypto = ObservedProvider::screened().map_err(|error| Error::Other(error.to_string()))?;
    let settings = SettingEngineBuilder::new()
        .with_crypto_provider(crypto)
        .with_lite(true)
        // Otherwise it would give up a client that has roamed to another path: `Ways` detects when a client is gone.
        .with_ice_timeouts(None, Some(Duration::ZERO), None)
        .with_multicast_dns_mode(MulticastDnsMode::Disabled)
        .with_answering_dtls_role(RTCDtlsRole::Server)
        .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(MAX_MESSAGE as u32))
        .with_sctp_max_receive_buffer_size(SCTP_BUFFER_BYTES)
        .build();
    let configuration = RTCConfigurationBuilder::new().with_certificates(vec![certificate.0.clone()]).build();
    RTCPeerConnectionBuilder::new()
        .with_configuration(configuration)
        .with_setting_engine(settings)
        .with_media_engine(engine(codecs)?)
        .with_interceptor_registry(Registry::new().with(Slot::CongestionControl, FilterSlot::new(RtcpTap(rtcp_queue))))
        .build(now)
}

fn engine(codecs: &Codecs) -> Result<MediaEngine, Error> {
    let mut engine = MediaEngine::default();
    let feedback = |typ: &str, parameter: &str| RTCPFeedback { typ: typ.into(), parameter: parameter.into() };
    let wide = feedback("transport-cc", "");
    let mut all = vec![wide.clone(), feedback("ccm", "fir"), feedback("nack", ""), feedback("nack", "pli")];
    if !codecs.reports_arrivals {
        all.push(feedback("goog-remb", ""));
    }
    let video = |mime: &str, parameters: String, feedback, payload_type| RTCRtpCodecParameters {
        rtp_codec: RTCRtpCodec {
            mime_type: mime.into(),
            clock_rate: VIDEO_CLOCK,
            channels: 0,
            sdp_fmtp_line: parameters,
            rtcp_feedback: feedback,
        },
        payload_type,
    };
    for offered in &codecs.video {
        let mime = codec::mime_type(offered.codec);
        engine.register_codec(
            video(mime, offered.parameters.clone(), all.clone(), offered.payload_type),
            RtpCodecKind::Video,
        )?;
        if let Some(repairs) = offered.retransmission {
            let parameters = format!("apt={}", offered.payload_type);
            engine.register_codec(video(MIME_TYPE_RTX, parameters, vec![], repairs), RtpCodecKind::Video)?;
        }
    }
    if let Some((payload_type, parameters)) = &codecs.repairs {
        let repairs = video(MIME_TYPE_FLEX_FEC03, parameters.clone(), vec![], *payload_type);
        engine.register_codec(repairs, RtpCodecKind::Video)?;
    }
    if let Some((payload_type, parameters)) = &codecs.sound {
        let rtp_codec = RTCRtpCodec {
            mime_type: MIME_TYPE_OPUS.into(),
            clock_rate: SOUND_CLOCK,
            channels: 2,
            sdp_fmtp_line: parameters.clone(),
            rtcp_feedback: vec![wide],
        };
        engine.register_codec(RTCRtpCodecParameters { rtp_codec, payload_type: *payload_type }, RtpCodecKind::Audio)?;
    }
    for (uri, kind) in [
        (TRANSPORT_WIDE, RtpCodecKind::Video),
        (TRANSPORT_WIDE, RtpCodecKind::Audio),
        (PLAYOUT_DELAY, RtpCodecKind::Video),
    ] {
        engine.register_header_extension(RTCRtpHeaderExtensionCapability { uri: uri.into() }, kind, None)?;
    }
    if !codecs.reports_arrivals {
        let capability = RTCRtpHeaderExtensionCapability { uri: ABSOLUTE_SEND_TIME.into() };
        engine.register_header_extension(capability, RtpCodecKind::Video, None)?;
    }
    Ok(engine)
}

/// Adds the picture's or the sound's track.
pub(crate) fn add_track(
    connection: &mut RTCPeerConnection,
    kind: RtpCodecKind,
    sources: &Sources,
) -> Result<RTCRtpSenderId, Error> {
    let is_picture = kind != RtpCodecKind::Audio;
    let (name, ssrc) = if is_picture { ("picture", sources.video) } else { ("sound", sources.sound) };
    let rtx = is_picture.then_some(RTCRtpRtxParameters { ssrc: sources.retransmission });
    let fec = is_picture.then_some(RTCRtpFecParameters { ssrc: sources.repair });
    let coding = RTCRtpCodingParameters { ssrc: Some(ssrc), rtx, fec, ..RTCRtpCodingParameters::default() };
    let encoding =
        RTCRtpEncodingParameters { rtp_coding_parameters: coding, active: true, ..RTCRtpEncodingParameters::default() };
    let track = MediaStreamTrack::new(MEDIA_STREAM.into(), name.into(), name.into(), kind, vec![encoding]);
    connection.add_track(track)
}

/// Adds the server's own addresses as host candidates, the preferred one first. Those for TCP connections come last.
pub(crate) fn add_candidates(
    connection: &mut RTCPeerConnection,
    candidates: &[SocketAddr],
    tcp_candidates: &[SocketAddr],
) -> Result<(), Error> {
    // RFC 8445 section 5.1.2.1: type preference 126 of a host, 90 if it is reached by TCP (RFC 6544 section 4.2 wants it lower).
    let udp = candidates.iter().map(|address| ("udp", 126_u32, address, ""));
    let tcp = tcp_candidates.iter().map(|address| ("tcp", 90, address, " tcptype passive"));
    for (index, (carriage, preference, address, end)) in udp.chain(tcp).enumerate() {
        // Then the local preference, component 1.
        let priority = (preference << 24) | ((65_535 - index as u32) << 8) | 255;
        let (ip, port) = (address.ip(), address.port());
        let candidate = format!("candidate:{} 1 {carriage} {priority} {ip} {port} typ host{end}", index + 1);
        connection.add_local_candidate(RTCIceCandidateInit { candidate, ..RTCIceCandidateInit::default() })?;
    }
    connection.add_local_candidate(RTCIceCandidateInit::default())
}

/// Returns the negotiated parameters of a track. None if the client does not accept it.
pub(crate) fn negotiated(
    connection: &mut RTCPeerConnection,
    id: RTCRtpSenderId,
    sources: &Sources,
) -> Option<(Option<CodecKind>, StreamConfig)> {
    let mut sender = connection.rtp_sender(id)?;
    let parameters = sender.get_parameters().clone();
    let codecs = &parameters.rtp_parameters.codecs;
    let named = |codec: &RTCRtpCodecParameters, mime: &str| codec.rtp_codec.mime_type.eq_ignore_ascii_case(mime);
    let beside = [MIME_TYPE_RTX, MIME_TYPE_FLEX_FEC03];
    let chosen = codecs.iter().find(|codec| !beside.iter().any(|mime| named(codec, mime)))?;
    let codec = codec::from_mime_type(&chosen.rtp_codec.mime_type);
    let repairs = format!("apt={}", chosen.payload_type);
    let retransmission =
        codecs.iter().find(|codec| named(codec, MIME_TYPE_RTX) && codec.rtp_codec.sdp_fmtp_line == repairs);
    let repair = codecs.iter().find(|other| codec.is_some() && named(other, MIME_TYPE_FLEX_FEC03));
    let extension = |uri: &str| {
        let found = parameters.rtp_parameters.header_extensions.iter().find(|extension| extension.uri == uri);
        // The one-byte form allows identifiers up to 14 (RFC 8285 section 4.2).
        found.and_then(|extension| u8::try_from(extension.id).ok()).filter(|id| (1..=14).contains(id))
    };
    let config = StreamConfig {
        ssrc: if codec.is_some() { sources.video } else { sources.sound },
        payload_type: chosen.payload_type,
        clock_rate: chosen.rtp_codec.clock_rate,
        retransmission: retransmission.map(|codec| (sources.retransmission, codec.payload_type)),
        repair: repair.map(|codec| (sources.repair, codec.payload_type)),
        transport_wide: extension(TRANSPORT_WIDE),
        send_time: if codec.is_some() { extension(ABSOLUTE_SEND_TIME) } else { None },
        playout_delay: if codec.is_some() { extension(PLAYOUT_DELAY) } else { None },
    };
    Some((codec, config))
}
