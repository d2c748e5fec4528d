//! Recovers lost packets from FlexFEC repairs with the library's own decoder, as libwebrtc would: fields written into a packet only at
//! departure count as zeros, and retransmitted packets are ignored.
//!
//! The library's own interceptor comes before those that report arrivals, so no repair would ever be reported. This one comes after them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtc::interceptor::{FlexFec03Decoder, Packet, StreamInfo, TaggedPacket};
use rtc::shared::error::Error;

use crate::filter::Filter;

/// Its position in the chain: after everything that reports, before what buffers.
pub(super) const CHAIN_POSITION: usize = 12_500;

struct ProtectedStream {
    media: u32,
    repairs: u32,
    /// Identifier of the transport-wide number.
    transport_wide: Option<u8>,
    decoder: FlexFec03Decoder,
}

pub(super) struct FecRecovery {
    stream: Option<ProtectedStream>,
    recovered: Arc<AtomicU64>,
}

impl FecRecovery {
    /// Makes the filter, which counts the recovered packets in `recovered`.
    pub(super) const fn new(recovered: Arc<AtomicU64>) -> Self {
        Self { stream: None, recovered }
    }
}

impl Filter for FecRecovery {
    fn on_read(&mut self, message: TaggedPacket, onward: &mut VecDeque<TaggedPacket>) -> Result<(), Error> {
        let (now, transport) = (message.now, message.transport);
        let mut made = Vec::new();
        let mut is_repair = false;
        if let (Packet::Rtp(packet), Some(stream)) = (&message.message.packet, &mut self.stream) {
            is_repair = packet.header.ssrc == stream.repairs;
            let mut packet = packet.clone();
            if let Some(id) = stream.transport_wide.filter(|_| packet.header.ssrc == stream.media) {
                packet.header.set_extension(id, bytes::Bytes::from_static(&[0, 0]))?;
            }
            made = stream.decoder.decode(packet);
        }
        if !is_repair {
            onward.push_back(message);
        }
        self.recovered.fetch_add(made.len() as u64, Ordering::Relaxed);
        let message = |packet| TaggedPacket { now, transport, message: Packet::Rtp(packet).into() };
        onward.extend(made.into_iter().map(message));
        Ok(())
    }

    fn on_remote_stream(&mut self, stream: &StreamInfo) {
        let (Some(repairs), Some(_)) = (stream.ssrc_fec, stream.payload_type_fec) else { return };
        let wide = |uri: &str| uri.ends_with("transport-wide-cc-extensions-01");
        let transport_wide = stream.rtp_header_extensions.iter().find(|extension| wide(&extension.uri));
        self.stream = Some(ProtectedStream {
            media: stream.ssrc,
            repairs,
            transport_wide: transport_wide.and_then(|extension| u8::try_from(extension.id).ok()),
            decoder: FlexFec03Decoder::new(repairs, stream.ssrc),
        });
    }
}
