#![no_main]

use nearlight_units::Time;
use nearlight_webrtc::{Fragment, IceCredentials, PeerId, Remote, Routes, is_candidate, signed_request};

const NAME: &str = "name";
const KNOWN: PeerId = PeerId(7);
const NOW: Time = Time::from_secs(1);

// What comes before anybody has shown that he is a client: a datagram on the port that all peers share, and what is said of an offer
// afterwards.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut routes = Routes::default();
    let own = IceCredentials { name: NAME.into(), password: "a password of 22 bytes".into() };
    routes.add(KNOWN, &own);
    let [stranger, client] = [5_000, 5_001].map(|port| Remote::udp(([192, 0, 2, 1], port).into()));
    assert_eq!(routes.on_datagram(NOW, client, &signed_request(&own, 1)), Some(KNOWN));
    if routes.on_datagram(NOW, stranger, bytes).is_some() {
        let guess = signed_request(&own, bytes.get(8).copied().unwrap_or_default());
        assert_eq!(bytes, guess, "only a request that is signed with the password is for the peer");
    }
    assert_eq!(routes.on_datagram(NOW, client, &[0x80]), Some(KNOWN), "a stranger cut the client off");
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = is_candidate(text);
        if let Ok(fragment) = Fragment::parse(text) {
            let _ = fragment.restarts(NAME);
        }
    }
});
