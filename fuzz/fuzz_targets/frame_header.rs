#![no_main]

use nearlight_units::RemoteTime;
use nearlight_wire::FrameHeader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, picture)) = FrameHeader::parse(bytes) {
        let mut written = Vec::new();
        header.map_times(RemoteTime::on_shared_clock).write(&mut written);
        written.extend_from_slice(picture);
        assert_eq!(written, bytes);
    }
});
