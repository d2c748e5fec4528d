#![no_main]

use nearlight_wire::ToClient;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(ToClient::Symbol(header, payload)) = ToClient::parse(bytes) {
        let mut written = Vec::new();
        header.write(&mut written);
        written.extend_from_slice(payload);
        assert_eq!(written, bytes);
    }
});
