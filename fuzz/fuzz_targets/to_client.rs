#![no_main]

use nearlight_units::RemoteTime;
use nearlight_wire::ToClient;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut written = Vec::new();
    match ToClient::parse(bytes) {
        Ok(ToClient::Symbol(header, payload)) => {
            header.write(&mut written);
            written.extend_from_slice(payload);
        }
        Ok(ToClient::Repair(header, payload)) => {
            header.write(&mut written);
            written.extend_from_slice(payload);
        }
        Ok(ToClient::Pong(pong)) => written = pong.to_bytes(),
        Ok(ToClient::Note(note)) => written = note.map_times(RemoteTime::on_shared_clock).to_bytes(),
        Ok(ToClient::Sound(sound)) => written = sound.to_bytes(),
        Ok(ToClient::InputAcknowledgement(acknowledgement)) => written = acknowledgement.to_bytes(),
        Ok(ToClient::Application(message)) => written = message.to_bytes(),
        Err(_) => return,
    }
    assert_eq!(written, bytes);
});
