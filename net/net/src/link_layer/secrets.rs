//! Secrets that both ends derive from the pairing token, and the codes that they put on the frames of a handshake.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::link_layer::HardwareAddress;
use crate::link_layer::layout::{CODE_BYTES, Code, Cookie, Nonce};

/// Unpredictable bytes, for keys.
pub(crate) type Key = [u8; 32];

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

fn short(mac: Hmac<Sha256>) -> [u8; CODE_BYTES] {
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    *bytes.first_chunk().expect("32 bytes begin with 16")
}

/// Keys derived from the token.
#[derive(Clone)]
pub(crate) struct Secrets {
    /// The key of the codes on frames of a handshake.
    code: Key,
    /// Noise's pre-shared key.
    pub(crate) shared: Key,
}

impl Secrets {
    pub(crate) fn new(token: &str) -> Self {
        let derive = |label: &[u8]| hmac(token.as_bytes(), &[label]).finalize().into_bytes().into();
        Self { code: derive(b"nearlight ethernet 1 code"), shared: derive(b"nearlight ethernet 1 psk") }
    }

    fn mac(&self, addresses: AddressPair, signed: &[u8]) -> Hmac<Sha256> {
        hmac(&self.code, &[&addresses.destination.0, &addresses.source.0, signed])
    }

    /// Appends its code to a frame.
    pub(crate) fn sign(&self, addresses: AddressPair, mut frame: Vec<u8>) -> Vec<u8> {
        let code = short(self.mac(addresses, &frame));
        frame.extend_from_slice(&code);
        frame
    }

    /// Verifies a code. Takes as long for a wrong code as for the right one.
    pub(crate) fn verify(&self, addresses: AddressPair, signed: &[u8], code: &Code) -> bool {
        self.mac(addresses, signed).verify_truncated_left(code).is_ok()
    }
}

/// Source and destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressPair {
    pub(crate) destination: HardwareAddress,
    pub(crate) source: HardwareAddress,
}

/// The cookie for a client that has proved nothing but the token. It is recomputed instead of stored.
pub(crate) fn cookie(secret: &Key, period: u64, client: HardwareAddress, nonce: &Nonce) -> Cookie {
    short(hmac(secret, &[&period.to_be_bytes(), &client.0, nonce]))
}

/// Whether `offered` is the cookie. Takes as long for a wrong one as for the right one.
pub(crate) fn is_cookie(secret: &Key, period: u64, client: HardwareAddress, nonce: &Nonce, offered: &Cookie) -> bool {
    hmac(secret, &[&period.to_be_bytes(), &client.0, nonce]).verify_truncated_left(offered).is_ok()
}
