//! A client's verification of the server's certificate.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use nearlight_wire::Bytes32;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::NetError;

/// SHA-256 of a certificate's DER bytes, as in browsers' `serverCertificateHashes`. Written as 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CertificateHash(Bytes32);

/// The error for a text that is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 hash: it needs 64 hexadecimal digits, with or without colons")]
pub struct InvalidHash(String);

impl CertificateHash {
    /// Computes the hash of a certificate's DER bytes.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        Self(Bytes32(digest.as_ref().try_into().expect("SHA-256 has 32 bytes")))
    }

    #[must_use]
    pub const fn bytes(self) -> Bytes32 {
        self.0
    }
}

impl fmt::Display for CertificateHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for CertificateHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits: String = text.chars().filter(|character| *character != ':').take(65).collect();
        digits.parse().map(Self).map_err(|_| InvalidHash(text.chars().take(100).collect()))
    }
}

impl From<CertificateHash> for String {
    fn from(hash: CertificateHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for CertificateHash {
    type Error = InvalidHash;

    fn try_from(text: String) -> Result<Self, InvalidHash> {
        text.parse()
    }
}

/// The server certificates that a client accepts. The handshake's signature is verified in every case.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Exactly this certificate, whatever its names and dates.
    Certificate(CertificateHash),
    /// Any certificate: protects only against eavesdropping. The server must be authenticated otherwise, such as by a proof of the token
    /// that is bound to [`crate::Connection::exporter`].
    Any,
}

/// A client's TLS settings and, if one certificate is expected, the hash of the presented one.
pub(crate) struct ClientTls {
    pub(crate) config: ClientConfig,
    expected: Option<CertificateHash>,
    presented: Arc<OnceLock<CertificateHash>>,
}

impl ClientTls {
    /// Makes settings that accept what `trust` specifies and offer the application protocol `alpn`.
    pub(crate) fn new(trust: &Trust, alpn: &str) -> Self {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring's provider speaks TLS 1.3");
        let presented = Arc::new(OnceLock::new());
        let expected = match trust {
            Trust::Certificate(expected) => Some(*expected),
            Trust::Any => None,
        };
        let verifier = PinnedCertificateVerifier { expected, presented: Arc::clone(&presented), provider };
        let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Self { config, expected, presented }
    }

    /// The mismatch that ended a handshake with these settings, if there was one.
    pub(crate) fn mismatch(&self) -> Option<NetError> {
        let (expected, presented) = self.expected.zip(self.presented.get().copied())?;
        (expected != presented).then_some(NetError::CertificateMismatch { expected, presented })
    }
}

/// The cryptography provider of both ends.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts one certificate, or any if none is expected.
#[derive(Debug)]
struct PinnedCertificateVerifier {
    expected: Option<CertificateHash>,
    /// The hash of the certificate that was presented.
    presented: Arc<OnceLock<CertificateHash>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let presented = CertificateHash::of(end_entity);
        let _ = self.presented.set(presented);
        if self.expected.is_some_and(|expected| expected != presented) {
            return Err(rustls::CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_back_with_and_without_colons() {
        let hash = CertificateHash::of(b"abc");
        // The test vector of FIPS 180-2, appendix B.1.
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        let pairs: Vec<&str> = (0..32).map(|n| &text[2 * n..2 * n + 2]).collect();
        assert_eq!(pairs.join(":").to_uppercase().parse(), Ok(hash));
        for wrong in ["", "ba78", &text[1..], &format!("{text}0"), &text.replace('b', "g")] {
            assert!(wrong.parse::<CertificateHash>().is_err(), "{wrong}");
        }
    }
}
