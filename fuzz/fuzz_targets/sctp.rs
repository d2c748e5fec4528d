#![no_main]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nearlight_webrtc::sctp::Screen;
use rtc::sctp::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload, ServerConfig,
    StreamEvent,
};
use rtc::shared::TransportProtocol;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Chunk types that the library knows, and one that it does not.
const KINDS: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 130, 192, 64];
/// The library's TSNs wrap without a check in release builds; here that would be an overflow.
const NEAR_THE_END: u32 = u32::MAX - 0x10_0000;

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

/// One end, as the library's own peer connection drives it.
struct End {
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
}

impl End {
    fn new(port: u16, server: Option<Arc<ServerConfig>>) -> Self {
        let config = Arc::new(EndpointConfig::default());
        Self { endpoint: Endpoint::new(address(port), TransportProtocol::UDP, config, server), association: None }
    }

    fn on_packet(&mut self, now: Instant, packet: &[u8]) {
        let from = address(9);
        match self.endpoint.handle(now, from, None, packet.to_vec().into()) {
            Some((handle, DatagramEvent::NewAssociation(association))) => self.association = Some((handle, association)),
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            _ => {}
        }
        self.read();
    }

    /// Takes out whatever can be read.
    fn read(&mut self) {
        let Some((handle, association)) = &mut self.association else { return };
        while let Some(event) = association.poll() {
            if let Event::Stream(StreamEvent::Readable { id }) = event
                && let Ok(mut stream) = association.stream(id)
            {
                while let Ok(Some(chunks)) = stream.read_sctp() {
                    let _ = chunks.to_payload(65_536);
                }
            }
        }
        let mut gone = false;
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
            gone = true;
        }
        if gone {
            self.association = None;
        }
    }

    fn write(&mut self, now: Instant) -> VecDeque<Vec<u8>> {
        let mut packets = VecDeque::new();
        let Some((_, association)) = &mut self.association else { return packets };
        while let Some(transmit) = association.poll_transmit(now) {
            if let Payload::RawEncode(raw) = transmit.message {
                packets.extend(raw.into_iter().map(|packet| packet.to_vec()));
            }
        }
        packets
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        self.read();
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _: u32| (sum >> 1) ^ (0x82F6_3B78 * (sum & 1));
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// The input is chunks: a type, flags, how many bytes of value follow and what else is wrong with it. TSNs count from the client's
/// first one.
fn chunk(input: &mut &[u8], first: u32) -> Option<(Vec<u8>, bool)> {
    let (&[kind, flags, length, how], rest) = input.split_first_chunk()?;
    let (value, rest) = rest.split_at(usize::from(length).min(rest.len()));
    *input = rest;
    let kind = KINDS[usize::from(kind % 16)];
    let mut value = value.to_vec();
    let place = match kind {
        0 | 192 => Some(0),
        130 => Some(12),
        _ => None,
    };
    if let Some(tsn) = place.and_then(|place| value.get_mut(place..place + 4)) {
        let ahead = u32::from(u16::from_be_bytes([tsn[2], tsn[3]]) % 0x7000);
        tsn.copy_from_slice(&first.wrapping_add(ahead).to_be_bytes());
    }
    let claimed = if how & 1 == 0 { 4 + value.len() as u16 } else { u16::from_be_bytes([flags, how]) };
    let mut chunk = [&[kind, flags][..], &claimed.to_be_bytes(), &value].concat();
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    Some((chunk, how & 2 == 0))
}

// What a client sends over an association of its own, behind the screen that the server puts before the library.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut now = *ORIGIN;
    let mut screen = Screen::default();
    let mut client = End::new(9, None);
    let mut server = End::new(8, Some(Arc::new(ServerConfig::default())));
    client.association = client.endpoint.connect(now, ClientConfig::default(), address(8)).ok();
    let (mut header, mut first) = ([0; 8], 0);
    for _ in 0..4 {
        for packet in client.write(now) {
            assert!(screen.admits(&packet), "an honest packet was refused");
            if packet[12] == 1 {
                first = u32::from_be_bytes([packet[28], packet[29], packet[30], packet[31]]);
            } else {
                header.copy_from_slice(&packet[..8]);
            }
            server.on_packet(now, &packet);
        }
        for packet in server.write(now) {
            client.on_packet(now, &packet);
        }
    }
    if first > NEAR_THE_END {
        return;
    }
    // Something is under way to the client, so that it has something to acknowledge.
    if let Some((_, association)) = &mut server.association
        && let Ok(mut stream) = association.open_stream(1, rtc::sctp::PayloadProtocolIdentifier::Binary)
    {
        for _ in 0..4 {
            let _ = stream.write_chunk_with_ppi(now, &vec![7_u8; 3_000].into(), rtc::sctp::PayloadProtocolIdentifier::Binary);
        }
    }
    let mut input = bytes;
    let mut packet = [&header[..], &[0; 4]].concat();
    while let Some((chunk, more)) = chunk(&mut input, first) {
        packet.extend(chunk);
        if more && packet.len() < 1_200 {
            continue;
        }
        let checksum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&checksum);
        if screen.admits(&packet) {
            server.on_packet(now, &packet);
        }
        server.write(now);
        now += Duration::from_millis(50);
        server.on_timeout(now);
        packet = [&header[..], &[0; 4]].concat();
    }
});
