//! The library's cryptography with a hook on decrypted records, where a client's records can be rejected before the library reads
//! them.

use std::sync::Arc;

use rtc::crypto::{
    ActiveKeyExchange, AeadAlgorithm, AeadCipher, BlockCipherAlgorithm, CryptoAlgorithm, CryptoError, HashAlgorithm,
    HmacAlgorithm, KeyExchangeAlgorithm, Mac, PublicKey, RTCCrypto, RTCCryptoProvider, RTCRandom, SignatureScheme,
    SigningKey, StreamCipher, StreamCipherAlgorithm,
};

use crate::dtls::{APPLICATION_DATA, Fragments, HANDSHAKE};
use crate::sctp;

/// Bytes that DTLS authenticates with a record: epoch and number, type, version and length (RFC 5246 section 6.2.3.3). For SRTP it is whole
/// words (RFC 7714 section 8).
const RECORD_DATA: usize = 13;
const RECORD_TYPE: usize = 8;

/// Observes the records of one direction of a connection.
pub(crate) trait RecordObserver: Send {
    /// Handles a record that was opened. Returns whether the library may read it.
    fn on_opened(&mut self, kind: u8, content: &[u8]) -> bool;

    /// Handles a record that is about to be sealed.
    fn on_sealed(&mut self, _nonce: &[u8], _data: &[u8; RECORD_DATA], _content: &[u8]) {}
}

/// Rejects records that the library cannot handle.
#[derive(Default)]
struct Screen {
    fragments: Fragments,
    sctp: sctp::Screen,
}

impl RecordObserver for Screen {
    fn on_opened(&mut self, kind: u8, content: &[u8]) -> bool {
        match kind {
            HANDSHAKE => self.fragments.admit(content),
            APPLICATION_DATA => self.sctp.admits(content),
            _ => true,
        }
    }
}

type NewRecordObserver = dyn Fn(AeadAlgorithm, &[u8]) -> Box<dyn RecordObserver> + Send + Sync;

/// The library's own provider with an observer.
pub(crate) struct ObservedProvider {
    provider: Arc<dyn RTCCryptoProvider>,
    new_watch: Box<NewRecordObserver>,
}

impl ObservedProvider {
    /// Makes a provider that rejects records which the library cannot handle.
    pub(crate) fn screened() -> Result<Arc<dyn RTCCryptoProvider>, CryptoError> {
        Self::with(|_, _| Box::<Screen>::default())
    }

    /// Makes a provider with an observer for each direction of each connection, by algorithm and key.
    pub(crate) fn with(
        new_watch: impl Fn(AeadAlgorithm, &[u8]) -> Box<dyn RecordObserver> + Send + Sync + 'static,
    ) -> Result<Arc<dyn RTCCryptoProvider>, CryptoError> {
        Ok(Arc::new(Self { provider: rtc::crypto::default_provider()?, new_watch: Box::new(new_watch) }))
    }

    fn crypto(&self) -> &dyn RTCCrypto {
        self.provider.crypto()
    }
}

impl RTCCryptoProvider for ObservedProvider {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn crypto(&self) -> &dyn RTCCrypto {
        self
    }

    fn random(&self) -> &dyn RTCRandom {
        self.provider.random()
    }
}

/// Everything is passed through except AEAD ciphers, which are observed, and CBC ciphers, which are not offered: with those a record is
/// decrypted and authenticated separately. Every browser has AES-GCM.
impl RTCCrypto for ObservedProvider {
    fn supports(&self, algorithm: CryptoAlgorithm) -> bool {
        !matches!(algorithm, CryptoAlgorithm::Cbc(_)) && self.crypto().supports(algorithm)
    }

    fn new_aead(&self, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Box<dyn AeadCipher>, CryptoError> {
        let cipher = self.crypto().new_aead(algorithm, key)?;
        Ok(Box::new(ObservedCipher { cipher, watch: (self.new_watch)(algorithm, key) }))
    }

    fn hash(&self, algorithm: HashAlgorithm, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.crypto().hash(algorithm, data)
    }

    fn block_encrypt(&self, algorithm: BlockCipherAlgorithm, key: &[u8], block: &mut [u8]) -> Result<(), CryptoError> {
        self.crypto().block_encrypt(algorithm, key, block)
    }

    fn new_hmac(&self, algorithm: HmacAlgorithm, key: &[u8]) -> Result<Box<dyn Mac>, CryptoError> {
        self.crypto().new_hmac(algorithm, key)
    }

    fn new_stream_cipher(
        &self,
        algorithm: StreamCipherAlgorithm,
        key: &[u8],
    ) -> Result<Box<dyn StreamCipher>, CryptoError> {
        self.crypto().new_stream_cipher(algorithm, key)
    }

    fn start_key_exchange(&self, algorithm: KeyExchangeAlgorithm) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        self.crypto().start_key_exchange(algorithm)
    }

    fn generate_signing_key(&self, scheme: SignatureScheme) -> Result<Arc<dyn SigningKey>, CryptoError> {
        self.crypto().generate_signing_key(scheme)
    }

    fn import_signing_key(
        &self,
        scheme: SignatureScheme,
        pkcs8_der: &[u8],
    ) -> Result<Arc<dyn SigningKey>, CryptoError> {
        self.crypto().import_signing_key(scheme, pkcs8_der)
    }

    fn verify_signature(
        &self,
        scheme: SignatureScheme,
        public_key: PublicKey<'_>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        self.crypto().verify_signature(scheme, public_key, message, signature)
    }
}

struct ObservedCipher {
    cipher: Box<dyn AeadCipher>,
    watch: Box<dyn RecordObserver>,
}

impl AeadCipher for ObservedCipher {
    fn tag_len(&self) -> usize {
        self.cipher.tag_len()
    }

    fn seal_in_place(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        plaintext_and_ciphertext: &mut [u8],
        tag_out: &mut [u8],
    ) -> Result<(), CryptoError> {
        if let Ok(data) = <&[u8; RECORD_DATA]>::try_from(aad) {
            self.watch.on_sealed(nonce, data, plaintext_and_ciphertext);
        }
        self.cipher.seal_in_place(nonce, aad, plaintext_and_ciphertext, tag_out)
    }

    fn open_in_place(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        ciphertext_and_plaintext: &mut [u8],
        tag: &[u8],
    ) -> Result<(), CryptoError> {
        self.cipher.open_in_place(nonce, aad, ciphertext_and_plaintext, tag)?;
        if aad.len() == RECORD_DATA && !self.watch.on_opened(aad[RECORD_TYPE], ciphertext_and_plaintext) {
            // DTLS discards the record as forged (RFC 6347 section 4.1.2.7).
            return Err(CryptoError::AuthenticationFailed);
        }
        Ok(())
    }
}
