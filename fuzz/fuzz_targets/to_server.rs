#![no_main]

use nearlight_wire::ToServer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = ToServer::parse(bytes) {
        assert_eq!(ToServer::parse(&message.to_bytes()), Ok(message));
    }
});
