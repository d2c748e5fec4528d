#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

use nearlight_rate::{Bounds, new_controller};
use nearlight_session::{Framing, Sender, SenderConfig};
use nearlight_units::{Bitrate, Time};
use nearlight_webrtc::player::Player;
use nearlight_webrtc::{Certificate, Offer, Peer, PeerConfig};

const NOW: Time = Time::from_millis(1_000);

static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| Certificate::generate().expect("a certificate"));
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// What a client would offer.
static WHOLE: LazyLock<String> = LazyLock::new(|| {
    let local = "198.51.100.7:40000".parse().expect("an address");
    Player::new(NOW, *ORIGIN, local, true).expect("an offer").1
});

// Either an offer as it is, or changes to a good one: each is a place (two bytes), how many bytes go there (one) and what comes in
// their stead (up to a zero). What parses goes through the library: as an offer, and as the answer to one of ours.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = if bytes.starts_with(b"v=") { bytes.to_vec() } else { changed(WHOLE.as_bytes(), bytes) };
    let Ok(offer) = Offer::parse(&String::from_utf8_lossy(&text)) else { return };
    let Ok(mut peer) = Peer::answering(NOW, config(), &offer, offer.video().first(), sender()) else { return };
    if let Ok(answer) = peer.on_offer(NOW, &offer) {
        assert!(Offer::name_in(&answer).is_some(), "an answer has an ICE name");
    }
    let codecs = [nearlight_webrtc::CodecKind::H264, nearlight_webrtc::CodecKind::Vp8];
    let mut peer = Peer::offering(NOW, config(), &codecs, true, sender()).expect("a peer of our own making");
    peer.offer(NOW, true).expect("an offer of our own");
    let _ = peer.on_answer(NOW, &offer);
});

fn changed(whole: &[u8], mut changes: &[u8]) -> Vec<u8> {
    let mut text = whole.to_vec();
    while let [high, low, gone, rest @ ..] = changes {
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let place = usize::from(u16::from_be_bytes([*high, *low])) % (text.len() + 1);
        let until = (place + usize::from(*gone)).min(text.len());
        text.splice(place..until, rest[..end].iter().copied());
        changes = rest.get(end + 1..).unwrap_or_default();
    }
    text
}

fn config() -> PeerConfig {
    let address = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
    PeerConfig {
        origin: *ORIGIN,
        candidates: vec![address(8_091)],
        tcp_candidates: vec![address(8_090)],
        certificate: CERTIFICATE.clone(),
        seed: 1,
        datagram: 1_200,
    }
}

fn sender() -> Sender {
    let config = SenderConfig { framing: Framing::Rtp, max_datagram: Peer::LARGEST_DATAGRAM, ..SenderConfig::default() };
    let controller = new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(20))).expect("a preset");
    Sender::new(NOW, config, controller)
}
