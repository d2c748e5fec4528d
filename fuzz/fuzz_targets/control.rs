#![no_main]

use nearlight_wire::{ClientMessage, ControlReader, ServerMessage, write_control};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut reader = ControlReader::default();
    reader.on_bytes(bytes);
    while let Ok(Some(message)) = reader.poll::<ClientMessage>() {
        let mut again = ControlReader::default();
        again.on_bytes(&write_control(&message));
        assert_eq!(again.poll(), Ok(Some(message)));
    }
    let mut reader = ControlReader::default();
    reader.on_bytes(bytes);
    while let Ok(Some(_)) = reader.poll::<ServerMessage>() {}
});
