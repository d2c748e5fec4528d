//! Proofs of knowledge of the pairing token, for both ends of a session and without sending it: a MAC keyed with the token over data that
//! only the two ends of this connection share. `docs/wire.md` has test vectors.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{PROTOCOL_VERSION, hexadecimal};

/// The label for the TLS exporter (RFC 8446 section 7.5). The context is empty. "EXPERIMENTAL" marks labels for private use (RFC 5705
/// section 4).
pub const EXPORTER_LABEL: &[u8] = b"EXPERIMENTAL nearlight pairing";

/// Prefix of everything that the token authenticates, so that no MAC made for another purpose can be passed off as one of these.
const CONTEXT: &[u8] = b"nearlight pairing";

/// 32 bytes: a nonce, a hash, a MAC. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(type = "string"))]
#[serde(into = "String", try_from = "String")]
pub struct Bytes32(pub [u8; 32]);

impl Bytes32 {
    /// Returns the first 16 bytes as 32 hexadecimal digits: a MAC truncated to the length of a generated token.
    #[must_use]
    pub fn truncated_to_token(&self) -> String {
        let mut digits = self.to_string();
        digits.truncate(32);
        digits
    }
}

/// The error for a text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("32 bytes are written as 64 hexadecimal digits")]
pub struct NotBytes32;

impl fmt::Display for Bytes32 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal::write(&self.0, formatter)
    }
}

impl FromStr for Bytes32 {
    type Err = NotBytes32;

    fn from_str(text: &str) -> Result<Self, NotBytes32> {
        hexadecimal::read(text).map(Self).ok_or(NotBytes32)
    }
}

impl From<Bytes32> for String {
    fn from(bytes: Bytes32) -> Self {
        bytes.to_string()
    }
}

impl TryFrom<String> for Bytes32 {
    type Error = NotBytes32;

    fn try_from(text: String) -> Result<Self, NotBytes32> {
        text.parse()
    }
}

/// The end that made the proof, so that neither end's proof can be reflected as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client = 1,
    Server = 2,
}

/// The data that binds a proof to one connection, so that it is worthless on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Keying material that TLS exports for [`EXPORTER_LABEL`]: a man in the middle cannot have the same on both sides.
    Exporter(Bytes32),
    /// For browsers, which cannot see the exporter: both nonces, and the hash of the one certificate that the client accepts.
    Certificate { server_nonce: Bytes32, client_nonce: Bytes32, certificate: Bytes32 },
    /// For browsers if an authority vouches for the certificate, which browsers do not expose to the page. Only the browser's own check of
    /// that certificate prevents relaying.
    Nonces { server_nonce: Bytes32, client_nonce: Bytes32 },
}

impl Binding {
    /// Computes the proof of knowing `token`.
    #[must_use]
    pub fn prove(&self, token: &str, role: Role) -> Bytes32 {
        Bytes32(self.mac(token, role).finalize().into_bytes().into())
    }

    /// Whether `proof` was made with `token` for this role and binding. Takes as long for a wrong proof as for the right one.
    #[must_use]
    pub fn verify(&self, token: &str, role: Role, proof: &Bytes32) -> bool {
        self.mac(token, role).verify_slice(&proof.0).is_ok()
    }

    /// Computes the MAC. The first byte determines the fields' fixed lengths, so no two bindings serialise to the same bytes.
    fn mac(&self, token: &str, role: Role) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
        let (kind, fields): (u8, &[&Bytes32]) = match self {
            Self::Exporter(exported) => (1, &[exported]),
            Self::Certificate { server_nonce, client_nonce, certificate } => {
                (2, &[server_nonce, client_nonce, certificate])
            }
            Self::Nonces { server_nonce, client_nonce } => (3, &[server_nonce, client_nonce]),
        };
        mac.update(CONTEXT);
        mac.update(&[PROTOCOL_VERSION, role as u8, kind]);
        for field in fields {
            mac.update(&field.0);
        }
        mac
    }
}

/// A client's proof as its hello carries it: its binding, without what the server already knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "binding", rename_all = "snake_case")]
pub enum TokenProof {
    Exporter { mac: Bytes32 },
    Certificate { nonce: Bytes32, mac: Bytes32 },
    Nonces { nonce: Bytes32, mac: Bytes32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document that readers implement; its vectors were computed by another implementation (Python's `hmac`).
    const DOCUMENT: &str = include_str!("../../../docs/wire.md");

    const TOKEN: &str = "AAECAwQFBgcICQoLDA0ODw";

    fn filled(byte: u8) -> Bytes32 {
        Bytes32([byte; 32])
    }

    fn bindings() -> [(&'static str, Binding); 3] {
        let (server_nonce, client_nonce, certificate) = (filled(0x22), filled(0x33), filled(0x44));
        [
            ("exporter", Binding::Exporter(filled(0x11))),
            ("certificate", Binding::Certificate { server_nonce, client_nonce, certificate }),
            ("nonces", Binding::Nonces { server_nonce, client_nonce }),
        ]
    }

    #[test]
    fn proofs_are_the_documented_ones() {
        for (name, binding) in bindings() {
            for (whose, role) in [("client", Role::Client), ("server", Role::Server)] {
                let row = format!("| `{name}` | {whose} | `{}` |", binding.prove(TOKEN, role));
                assert!(DOCUMENT.contains(&row), "docs/wire.md lacks the row {row}");
            }
        }
        assert!(DOCUMENT.contains(TOKEN) && DOCUMENT.contains(std::str::from_utf8(EXPORTER_LABEL).unwrap()));
    }

    #[test]
    fn a_proof_is_good_for_one_token_role_and_connection_only() {
        let all = bindings();
        for (name, binding) in all {
            for role in [Role::Client, Role::Server] {
                let proof = binding.prove(TOKEN, role);
                let other_role = if role == Role::Client { Role::Server } else { Role::Client };
                assert!(binding.verify(TOKEN, role, &proof), "{name}");
                assert!(!binding.verify("AAECAwQFBgcICQoLDA0ODg", role, &proof), "{name}: another token");
                assert!(!binding.verify(TOKEN, other_role, &proof), "{name}: another role");
                for (other, binding) in all.iter().filter(|(other, _)| *other != name) {
                    assert!(!binding.verify(TOKEN, role, &proof), "{name} as {other}");
                }
                for bit in 0..256 {
                    let mut wrong = proof;
                    wrong.0[bit / 8] ^= 1 << (bit % 8);
                    assert!(!binding.verify(TOKEN, role, &wrong), "{name}: bit {bit}");
                }
            }
        }
        let Binding::Certificate { server_nonce, client_nonce, certificate } = all[1].1 else { unreachable!() };
        let proof = all[1].1.prove(TOKEN, Role::Client);
        for changed in [
            Binding::Certificate { server_nonce: filled(1), client_nonce, certificate },
            Binding::Certificate { server_nonce, client_nonce: filled(1), certificate },
            Binding::Certificate { server_nonce, client_nonce, certificate: filled(1) },
        ] {
            assert!(!changed.verify(TOKEN, Role::Client, &proof), "{changed:?}");
        }
    }

    #[test]
    fn thirty_two_bytes_are_read_back_and_nothing_else_is() {
        let bytes = Bytes32(std::array::from_fn(|index| (index as u8).wrapping_mul(9)));
        let text = bytes.to_string();
        assert_eq!((text.parse(), text.to_uppercase().parse()), (Ok(bytes), Ok(bytes)));
        for wrong in
            ["", &text[1..], &text[2..], &format!("{text}00"), &text.replace('0', "g"), &text.replacen("00", "é", 1)]
        {
            assert_eq!(wrong.parse::<Bytes32>(), Err(NotBytes32), "{wrong}");
        }
    }
}
