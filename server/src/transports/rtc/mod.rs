//! WebRTC clients: one UDP socket and one TCP port for all of them, WHEP beside the page, and a session for each.

mod carrier;
mod socket;
pub(crate) mod streams;
pub(crate) mod whep;

use nearlight_units::Time;
use nearlight_webrtc::PeerConfig;

use crate::state::ServerState;

pub(crate) use carrier::{ConnectedPeer, LIBRARY_FAILED, WebRtcCarrier};
pub(crate) use socket::RtcEndpoint;

/// Returns the configuration of a session's peer. `name` is random.
pub(crate) fn peer_config(state: &ServerState, endpoint: &RtcEndpoint, name: &str) -> PeerConfig {
    PeerConfig {
        origin: state.clock.instant(Time::ZERO).into_std(),
        candidates: endpoint.candidates.clone(),
        tcp_candidates: endpoint.tcp_candidates.clone(),
        certificate: endpoint.certificate.clone(),
        seed: name.bytes().fold(0, |seed, byte| seed.wrapping_mul(257).wrapping_add(u64::from(byte))),
        datagram: state.datagram,
    }
}
