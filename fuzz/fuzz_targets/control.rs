#![no_main]

use nearlight_wire::{Binding, Bytes32, ClientMessage, ControlReader, Role, ServerMessage, TokenProof, write_control};

const TOKEN: &str = "a-token-that-nobody-guesses";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut reader = ControlReader::default();
    reader.on_bytes(bytes);
    while let Ok(Some(message)) = reader.poll::<ClientMessage>() {
        let mut again = ControlReader::default();
        again.on_bytes(&write_control(&message));
        assert_eq!(again.poll(), Ok(Some(message.clone())));
        if let ClientMessage::Hello(hello) = message {
            hello.proof.iter().for_each(check_refused);
        }
    }
    let mut reader = ControlReader::default();
    reader.on_bytes(bytes);
    while let Ok(Some(_)) = reader.poll::<ServerMessage>() {}
    let mut reader = ControlReader::default();
    reader.on_bytes(bytes);
    while let Ok(Some(message)) = reader.poll_bytes(1_024) {
        assert!(message.len() <= 1_024);
    }
});

/// Whatever a stranger makes up, it is not a proof.
fn check_refused(proof: &TokenProof) {
    let own = Bytes32([7; 32]);
    let (binding, mac) = match *proof {
        TokenProof::Exporter { mac } => (Binding::Exporter(own), mac),
        TokenProof::Certificate { nonce, mac } => {
            (Binding::Certificate { server_nonce: own, client_nonce: nonce, certificate: own }, mac)
        }
        TokenProof::Nonces { nonce, mac } => (Binding::Nonces { server_nonce: own, client_nonce: nonce }, mac),
    };
    assert!(!binding.verify(TOKEN, Role::Client, &mac));
}
