//! Attacks of a hostile client with the keys of its own connection: it sends arbitrary content in DTLS records that the server accepts as
//! genuine.

use std::sync::{Arc, Mutex};

use nearlight_units::lock;
use rtc::crypto::{AeadAlgorithm, RTCCryptoProvider};
use rtc::shared::error::Error;

use crate::crypto::{ObservedProvider, RecordObserver};
use crate::dtls::APPLICATION_DATA;

/// Bytes of AES-GCM's implicit nonce, explicit nonce and tag (RFC 5288 section 3).
const SALT: usize = 4;
const EXPLICIT: usize = 8;
const TAG: usize = 16;

/// The key that seals the client's records.
#[derive(Clone, Debug)]
struct Key {
    algorithm: AeadAlgorithm,
    bytes: Vec<u8>,
    salt: [u8; SALT],
    /// Epoch and number of the newest record.
    newest: u64,
    /// Ports and tag of its SCTP packets (RFC 9260 section 3.1).
    sctp: Option<[u8; 8]>,
}

/// The keys of a player's connection, as far as it has used them.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Arc<Mutex<Option<Key>>>);

struct Recorder {
    keys: Keys,
    algorithm: AeadAlgorithm,
    key: Vec<u8>,
}

impl RecordObserver for Recorder {
    fn on_opened(&mut self, _kind: u8, _content: &[u8]) -> bool {
        true
    }

    fn on_sealed(&mut self, nonce: &[u8], data: &[u8; 13], content: &[u8]) {
        let (Some(salt), Some(number)) = (nonce.first_chunk(), data.first_chunk()) else { return };
        let mut known = lock(&self.keys.0);
        let header = content.first_chunk().filter(|header| data[8] == APPLICATION_DATA && header[4..] != [0; 4]);
        let sctp = header.copied().or(known.as_ref().and_then(|key| key.sctp));
        let newest = u64::from_be_bytes(*number);
        *known = Some(Key { algorithm: self.algorithm, bytes: self.key.clone(), salt: *salt, newest, sctp });
    }
}

impl Keys {
    /// Makes a provider that captures the keys with which it seals.
    pub(super) fn provider(&self) -> Result<Arc<dyn RTCCryptoProvider>, Error> {
        let keys = self.clone();
        let recorder = move |algorithm, key: &[u8]| {
            Box::new(Recorder { keys: keys.clone(), algorithm, key: key.to_vec() }) as Box<dyn RecordObserver>
        };
        ObservedProvider::with(recorder).map_err(|error| Error::Other(error.to_string()))
    }

    /// Makes an SCTP packet of these chunks in such a record. None before the client has sent one.
    pub(super) fn seal_chunks(&self, chunks: &[u8]) -> Option<Vec<u8>> {
        let header = lock(&self.0).as_ref()?.sctp?;
        let mut packet = [&header[..], &[0; 4], chunks].concat();
        let checksum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&checksum);
        self.seal(APPLICATION_DATA, &packet)
    }

    /// Makes a record of this content type, numbered after all so far. None before the client has sealed one with AES-GCM.
    pub(super) fn seal(&self, kind: u8, content: &[u8]) -> Option<Vec<u8>> {
        let mut known = lock(&self.0);
        let key = known.as_mut().filter(|key| key.algorithm == AeadAlgorithm::Aes128Gcm)?;
        key.newest += 1;
        let number = key.newest.to_be_bytes();
        let length = u16::try_from(content.len()).ok()?;
        let data = [&number[..], &[kind, 254, 253], &length.to_be_bytes()].concat();
        let nonce = [&key.salt[..], &number].concat();
        let mut sealed = content.to_vec();
        let mut tag = [0; TAG];
        let provider = rtc::crypto::default_provider().ok()?;
        let mut cipher = provider.crypto().new_aead(key.algorithm, &key.bytes).ok()?;
        cipher.seal_in_place(&nonce, &data, &mut sealed, &mut tag).ok()?;
        let whole = (EXPLICIT + sealed.len() + TAG) as u16;
        Some([&[kind, 254, 253][..], &number, &whole.to_be_bytes(), &number, &sealed, &tag].concat())
    }
}

/// SCTP's checksum (RFC 9260 appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _: u32| (sum >> 1) ^ (0x82F6_3B78 * (sum & 1));
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_standard_s() {
        // RFC 3720 appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xff; 32]), 0x62A8_AB43);
    }
}
