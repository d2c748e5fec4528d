#![no_main]

use nearlight_webrtc::{Fragment, PeerId, Remote, Routes, is_candidate};

const NAME: &str = "name";
const KNOWN: PeerId = PeerId(7);

// What comes before anybody has shown that he is a client: a datagram on the port that all peers share, and what is said of an offer
// afterwards.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut routes = Routes::default();
    routes.add(KNOWN, NAME);
    let from = Remote::udp(([192, 0, 2, 1], 5_000).into());
    if routes.on_datagram(from, bytes).is_some() {
        assert!(bytes.windows(NAME.len()).any(|piece| piece == NAME.as_bytes()), "only a request that names the peer is for it");
        assert_eq!(routes.on_datagram(from, &[0x80]), Some(KNOWN), "what follows from there is for it as well");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = is_candidate(text);
        if let Ok(fragment) = Fragment::parse(text) {
            let _ = fragment.restarts(NAME);
        }
    }
});
