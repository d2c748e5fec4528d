//! A server's end of a WebRTC connection.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Instant;

use nearlight_rate::{Bounds, new_controller};
use nearlight_session::{Framing, Sender, SenderConfig};
use nearlight_units::{Bitrate, Time};
use nearlight_webrtc::{Certificate, Peer, PeerConfig};

static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| Certificate::generate().expect("a certificate"));
pub static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub fn server() -> SocketAddr {
    ([192, 0, 2, 1], 8_091).into()
}

pub fn client() -> SocketAddr {
    ([198, 51, 100, 7], 40_000).into()
}

pub fn config() -> PeerConfig {
    PeerConfig {
        origin: *ORIGIN,
        candidates: vec![server()],
        tcp_candidates: vec![([192, 0, 2, 1], 8_090).into()],
        certificate: CERTIFICATE.clone(),
        seed: 1,
        datagram: 1_200,
    }
}

pub fn sender(now: Time) -> Sender {
    let config =
        SenderConfig { framing: Framing::Rtp, max_datagram: Peer::MAX_DATAGRAM, ..SenderConfig::default() };
    let controller = new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(20))).expect("a preset");
    Sender::new(now, config, controller)
}
