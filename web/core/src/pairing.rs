//! The token's proof over WebTransport, as far as a browser can give it: it has no access to TLS exporters, so both ends prove the token
//! over their nonces and the certificate that the browser pins.

use nearlight_wire::{Binding, Bytes32, ControlReader, Role, ServerMessage, TokenProof, WireError};

/// The inputs of one session's proofs.
pub(crate) struct Pairing {
    token: String,
    nonce: Bytes32,
    binding: Binding,
    proven: bool,
}

/// Why no proof can be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PairingError {
    #[error("the server's challenge cannot be read: {0}")]
    Unreadable(#[from] WireError),
    #[error("the server's challenge is none: it speaks another version of the protocol")]
    NoChallenge,
    #[error("a nonce has 32 bytes")]
    Nonce,
    #[error("the certificate's hash has 64 hexadecimal digits")]
    Certificate,
}

impl Pairing {
    /// For the server's challenge, as received on its stream.
    pub(crate) fn new(
        token: String,
        challenge: &[u8],
        nonce: &[u8],
        certificate: Option<&str>,
    ) -> Result<Self, PairingError> {
        let mut reader = ControlReader::default();
        reader.on_bytes(challenge);
        let Some(ServerMessage::Challenge { nonce: server_nonce }) = reader.poll()? else {
            return Err(PairingError::NoChallenge);
        };
        let nonce = Bytes32(nonce.try_into().map_err(|_| PairingError::Nonce)?);
        let binding = match certificate {
            Some(hash) => {
                let certificate = hash.parse().map_err(|_| PairingError::Certificate)?;
                Binding::Certificate { server_nonce, client_nonce: nonce, certificate }
            }
            None => Binding::Nonces { server_nonce, client_nonce: nonce },
        };
        Ok(Self { token, nonce, binding, proven: false })
    }

    /// For the hello.
    pub(crate) fn proof(&self) -> TokenProof {
        let (nonce, mac) = (self.nonce, self.binding.prove(&self.token, Role::Client));
        match self.binding {
            Binding::Nonces { .. } => TokenProof::Nonces { nonce, mac },
            Binding::Certificate { .. } | Binding::Exporter(_) => TokenProof::Certificate { nonce, mac },
        }
    }

    /// The server welcomes the client, perhaps with its own proof.
    pub(crate) fn on_welcome(&mut self, proof: Option<&Bytes32>) {
        self.proven = proof.is_some_and(|proof| self.binding.verify(&self.token, Role::Server, proof));
    }

    /// The server knows the token.
    pub(crate) const fn is_proven(&self) -> bool {
        self.proven
    }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::write_control;

    use super::*;

    const TOKEN: &str = "a-token-of-the-owner-s";

    #[test]
    fn only_a_server_that_knows_the_token_is_taken_for_ours() {
        let (server_nonce, client_nonce, certificate) = (Bytes32([1; 32]), Bytes32([2; 32]), Bytes32([3; 32]));
        let challenge = write_control(&ServerMessage::Challenge { nonce: server_nonce });
        let pinned = Binding::Certificate { server_nonce, client_nonce, certificate };
        let vouched = Binding::Nonces { server_nonce, client_nonce };
        for (binding, hash) in [(pinned, Some(certificate.to_string())), (vouched, None)] {
            let mut pairing = Pairing::new(TOKEN.into(), &challenge, &[2; 32], hash.as_deref()).unwrap();
            let (TokenProof::Certificate { nonce, mac } | TokenProof::Nonces { nonce, mac }) = pairing.proof() else {
                panic!("a browser sees no exporter")
            };
            assert_eq!(nonce, client_nonce);
            assert!(binding.verify(TOKEN, Role::Client, &mac));
            // The page's own proof sent back to it, another token's, and none.
            let wrong = [Some(mac), Some(binding.prove("another-token-altogether", Role::Server)), None];
            for proof in wrong {
                pairing.on_welcome(proof.as_ref());
                assert!(!pairing.is_proven(), "{binding:?}: {proof:?}");
            }
            pairing.on_welcome(Some(&binding.prove(TOKEN, Role::Server)));
            assert!(pairing.is_proven());
        }
    }

    #[test]
    fn what_is_no_challenge_is_refused() {
        let challenge = write_control(&ServerMessage::Challenge { nonce: Bytes32([1; 32]) });
        let other = write_control(&ServerMessage::Goodbye { message: String::new() });
        for (challenge, nonce, certificate) in [
            (&challenge[..20], 32, None),
            (&other[..], 32, None),
            (&b"\0\0\0\x02{}"[..], 32, None),
            (&challenge[..], 31, None),
            (&challenge[..], 32, Some("12")),
        ] {
            assert!(Pairing::new(TOKEN.into(), challenge, &vec![0; nonce], certificate).is_err());
        }
    }
}
