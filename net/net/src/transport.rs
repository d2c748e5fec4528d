//! QUIC settings of both ends: no congestion control unless enabled, bounded memory, tolerance of outages.

use std::sync::Arc;
use std::time::Duration;

use quinn::{EndpointConfig, IdleTimeout, TransportConfig, VarInt};

use crate::connection::Congestion;

/// Keep-alive interval of an idle end, so that neither NAT bindings nor the idle timeout end a quiet session.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Time of silence after which a session is over. It survives an outage of 2 s with the probes' back-off (RFC 9002 section 6.2.1
/// doubles them) and a move to another network, and frees a vanished client's memory soon.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Bytes of the queue of datagrams towards the network. 160 ms at 100 Mb/s: a key frame fits in one burst. A full queue means that the
/// session's own pacing is wrong.
pub(crate) const DATAGRAM_SEND_QUEUE: usize = 2 << 20;

/// Bytes of the queue of datagrams that have arrived and have not been read. Beyond this quinn drops the oldest. 80 ms at 100 Mb/s.
const DATAGRAM_RECEIVE_QUEUE: usize = 1 << 20;

/// Bidirectional streams that the peer may have open: CONNECT and control in both directions, and room for one that is closing.
const BIDIRECTIONAL_STREAMS: u32 = 4;

/// Unidirectional streams that the peer may have open: HTTP/3 control, two for QPACK, and browsers' deliberately unknown ones (RFC 9114
/// section 7.2.8).
const UNIDIRECTIONAL_STREAMS: u32 = 8;

/// Maximum number of unread bytes per stream: one control message of the largest size and the start of the next.
const STREAM_WINDOW: u32 = 128 << 10;

/// Maximum number of unread bytes of all streams of a connection.
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Maximum number of unacknowledged stream bytes, which a peer that does not read can make us store.
const SEND_WINDOW: u64 = 256 << 10;

/// Initial MTU: the smallest that QUIC guarantees (RFC 9000 section 14). Discovery raises it.
const INITIAL_MTU: u16 = 1_200;

/// Maximum UDP payload that we accept: Ethernet's 1,500 bytes minus IPv4 and UDP headers.
const MAX_UDP_PAYLOAD: u16 = 1_472;

/// The QUIC settings of both ends.
#[must_use]
pub fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(Congestion))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(IdleTimeout::try_from(IDLE_LIMIT).ok())
        .datagram_send_buffer_size(DATAGRAM_SEND_QUEUE)
        .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_QUEUE))
        .max_concurrent_bidi_streams(VarInt::from_u32(BIDIRECTIONAL_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .initial_mtu(INITIAL_MTU);
    config
}

/// Returns the limits of an endpoint's socket.
pub(crate) fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(MAX_UDP_PAYLOAD).expect("a payload of 1,200 to 65,527 bytes is allowed");
    config
}
