//! Pairing of a device by a code of six digits.
//!
//! A person reads the code at the server and types it on the device. SPAKE2 (Abdalla and Pointcheval, 2005; on Ed25519 with the constants
//! and the transcript of python-spake2, which are not those of RFC 9382) turns it into a key that both ends share. Each exchange allows one
//! guess at the code: neither an eavesdropper nor an end that does not know the code can test guesses offline. Both ends then confirm that
//! they have the same key, the client first, and derive the device's token from it. The token itself is never sent. `docs/wire.md`
//! describes the messages.

#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use nearlight_wire::{Bytes32, hexadecimal};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::Sha256;
use spake2::{Ed25519Group, Identity, Password, Spake2};

/// Number of digits of a code.
const CODE_DIGITS: usize = 6;
/// Length of a share: one byte for the end that made it, then a point of the curve Ed25519.
const SHARE_BYTES: usize = 33;

const CLIENT: &[u8] = b"nearlight pairing client";
const SERVER: &[u8] = b"nearlight pairing server";
/// Inputs of the MACs whose key is the shared one.
const CLIENT_CONFIRMS: &[u8] = b"nearlight client confirms";
const SERVER_CONFIRMS: &[u8] = b"nearlight server confirms";
const DEVICE_TOKEN: &[u8] = b"nearlight device token";

/// A code of six decimal digits. Its `Debug` form does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; CODE_DIGITS]);

/// The error for a text that is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code has six digits, such as 123 456")]
pub struct CodeError;

impl Code {
    /// Makes a code of a random number. The number is reduced, which favours no code by more than 1 in 2^43.
    #[must_use]
    pub fn from_random(number: u64) -> Self {
        let mut rest = number;
        Self(std::array::from_fn(|_| {
            let digit = rest % 10;
            rest /= 10;
            b'0' + digit as u8
        }))
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// Reads six digits. Spaces and hyphens between them are ignored.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let mut digits = [0; CODE_DIGITS];
        let mut read = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-'));
        for digit in &mut digits {
            *digit = read.next().filter(u8::is_ascii_digit).ok_or(CodeError)?;
        }
        if read.next().is_some() { Err(CodeError) } else { Ok(Self(digits)) }
    }
}

/// Writes the digits in two groups of three, as people read them to each other.
impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, digit) in self.0.iter().enumerate() {
            if index == CODE_DIGITS / 2 {
                formatter.write_str(" ")?;
            }
            write!(formatter, "{}", char::from(*digit))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Code")
    }
}

/// What one end sends to the other. Written as 66 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share([u8; SHARE_BYTES]);

impl Share {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("a byte and a compressed point"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal::write(&self.0, formatter)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        hexadecimal::read(text).map(Self).ok_or(ShareError)
    }
}

/// A function of the library that starts the client's or the server's end.
type StartEnd = fn(&Password, &Identity, &Identity, ChaCha20Rng) -> (Spake2<Ed25519Group>, Vec<u8>);

/// One end of an exchange that has sent its share and waits for the other end's.
pub struct Exchange(Spake2<Ed25519Group>);

/// The error for a share that is no point of the curve, or that the same kind of end made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end's share is invalid")]
pub struct ShareError;

impl Exchange {
    /// Starts the client's end. `seed` must be random and used once. Returns the share to send too.
    #[must_use]
    pub fn client(code: &Code, seed: [u8; 32]) -> (Self, Share) {
        Self::start(Spake2::start_a_with_rng, code, seed)
    }

    /// Starts the server's end, like [`Self::client`].
    #[must_use]
    pub fn server(code: &Code, seed: [u8; 32]) -> (Self, Share) {
        Self::start(Spake2::start_b_with_rng, code, seed)
    }

    fn start(start_end: StartEnd, code: &Code, seed: [u8; 32]) -> (Self, Share) {
        let (client, server) = (Identity::new(CLIENT), Identity::new(SERVER));
        let (state, share) = start_end(&Password::new(code.0), &client, &server, ChaCha20Rng::from_seed(seed));
        (Self(state), Share::new(&share))
    }

    /// Computes the key from the other end's share. Both ends have the same key if both knew the code; only the confirmations tell.
    ///
    /// # Errors
    /// If the share is invalid.
    pub fn finish(self, share: &Share) -> Result<SharedKey, ShareError> {
        let key = self.0.finish(&share.0).map_err(|_| ShareError)?;
        Ok(SharedKey(key.try_into().map_err(|_| ShareError)?))
    }
}

/// The key of an exchange.
pub struct SharedKey([u8; 32]);

impl SharedKey {
    /// Returns what the client sends to show that it has the key.
    #[must_use]
    pub fn client_confirmation(&self) -> Bytes32 {
        self.output(CLIENT_CONFIRMS)
    }

    /// Returns what the server sends once the client has confirmed.
    #[must_use]
    pub fn server_confirmation(&self) -> Bytes32 {
        self.output(SERVER_CONFIRMS)
    }

    /// Whether the client has the same key. Takes as long for a wrong confirmation as for the right one.
    #[must_use]
    pub fn is_confirmed_by_client(&self, confirmation: &Bytes32) -> bool {
        self.mac(CLIENT_CONFIRMS).verify_slice(&confirmation.0).is_ok()
    }

    /// Whether the server has the same key, like [`Self::is_confirmed_by_client`].
    #[must_use]
    pub fn is_confirmed_by_server(&self, confirmation: &Bytes32) -> bool {
        self.mac(SERVER_CONFIRMS).verify_slice(&confirmation.0).is_ok()
    }

    /// Returns the device's token: 32 hexadecimal digits, 128 bits.
    #[must_use]
    pub fn device_token(&self) -> String {
        self.output(DEVICE_TOKEN).truncated_to_token()
    }

    fn mac(&self, purpose: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(purpose);
        mac
    }

    fn output(&self, purpose: &[u8]) -> Bytes32 {
        Bytes32(self.mac(purpose).finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(text: &str) -> Code {
        text.parse().expect("a code")
    }

    /// Runs an exchange. Returns the keys of the client and the server.
    fn exchange(typed: &str, shown: &str, seed: u8) -> (SharedKey, SharedKey) {
        let (client, from_client) = Exchange::client(&code(typed), [seed; 32]);
        let (server, from_server) = Exchange::server(&code(shown), [seed ^ 0xff; 32]);
        (client.finish(&from_server).expect("a share"), server.finish(&from_client).expect("a share"))
    }

    #[test]
    fn whoever_types_the_code_gets_a_token_and_nobody_else_does() {
        let (client, server) = exchange("123456", "123 456", 1);
        assert!(server.is_confirmed_by_client(&client.client_confirmation()));
        assert!(client.is_confirmed_by_server(&server.server_confirmation()));
        assert_eq!(client.device_token(), server.device_token());
        assert_eq!(client.device_token().len(), 32);
        let (wrong, server) = exchange("123457", "123456", 1);
        assert!(!server.is_confirmed_by_client(&wrong.client_confirmation()));
        assert!(!wrong.is_confirmed_by_server(&server.server_confirmation()));
        assert_ne!(wrong.device_token(), server.device_token());
    }

    /// The server's end of the vector is python-spake2's.
    #[test]
    fn the_exchange_is_the_documented_one() {
        const DOCUMENT: &str = include_str!("../../../docs/wire.md");
        let (client, share) = Exchange::client(&code("123456"), [1; 32]);
        let of_server = "4201ec92963795d4563e7a5e071185fb20b1b8b3e855d5c79cf0518e40797a80a3";
        let key = client.finish(&of_server.parse().expect("66 digits")).expect("a share");
        for (what, value) in [
            ("client's share", share.to_string()),
            ("server's share", of_server.into()),
            ("client's confirmation", key.client_confirmation().to_string()),
            ("server's confirmation", key.server_confirmation().to_string()),
            ("device's token", key.device_token()),
        ] {
            let row = format!("| {what} | `{value}` |");
            assert!(DOCUMENT.contains(&row), "docs/wire.md lacks the row {row}");
        }
    }

    #[test]
    fn a_confirmation_cannot_be_sent_back_or_used_again() {
        let (client, server) = exchange("000000", "000000", 1);
        assert!(!server.is_confirmed_by_client(&server.server_confirmation()));
        assert!(!client.is_confirmed_by_server(&client.client_confirmation()));
        let (later, _) = exchange("000000", "000000", 2);
        assert!(!later.is_confirmed_by_server(&server.server_confirmation()));
        assert_ne!(later.device_token(), client.device_token());
    }

    #[test]
    fn the_server_s_share_is_not_taken_for_a_client_s() {
        let (server, share) = Exchange::server(&code("111111"), [1; 32]);
        assert_eq!(server.finish(&share).err(), Some(ShareError));
    }

    #[test]
    fn codes_are_read_as_people_write_them() {
        for written in ["123456", "123 456", "123-456", " 1 2 3 4 5 6 "] {
            assert_eq!(code(written).to_string(), "123 456");
        }
        for wrong in ["", "12345", "1234567", "12345a", "١٢٣٤٥٦", "123.456"] {
            assert_eq!(wrong.parse::<Code>(), Err(CodeError), "{wrong}");
        }
        assert_eq!(format!("{:?}", code("123456")), "Code");
        assert_eq!(Code::from_random(654_321).to_string(), "123 456");
        assert_eq!(Code::from_random(7).to_string(), "700 000");
    }

    proptest! {
        #[test]
        fn no_share_makes_an_end_panic(bytes: [[u8; 11]; 3], text in ".{0,80}") {
            let share = Share::new(bytes.as_flattened());
            prop_assert_eq!(share.to_string().parse(), Ok(share));
            let _ = Exchange::server(&code("123456"), [3; 32]).0.finish(&share);
            let _ = Exchange::client(&code("123456"), [3; 32]).0.finish(&share);
            let _ = text.parse::<Share>();
        }
    }
}
