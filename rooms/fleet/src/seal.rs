//! Encryption and authentication of everything that servers of a fleet write to NATS.
//!
//! NATS and its other users carry the bytes and can neither read nor change them, nor use them in another place: the authenticated context
//! names the kind of message and where it stands. Each sender has a key of its own, derived from the fleet's, and numbers its messages; the
//! number is the nonce. `docs/wire.md`, section "Rooms on several servers", is the normative description.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use crate::entry::{MAX_ID_BYTES, ServerId, VERSION};

/// Length of the header without the sender's id: version, length of the id, number, and time.
const FIXED_HEADER_BYTES: usize = 1 + 1 + 8 + 8;
/// Bytes that sealing adds at most: the header, and Poly1305's tag.
pub(crate) const MAX_SEAL_BYTES: usize = FIXED_HEADER_BYTES + MAX_ID_BYTES + 16;

/// The shortest secret from which a key is made, in bytes: as long as the shortest pairing token.
const MIN_SECRET_BYTES: usize = 16;

/// The key that all servers and fronts of a fleet share.
#[derive(Clone)]
pub struct FleetKey(hmac::Key);

/// The error for a secret that is too short for a [`FleetKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fleet's key has at least {MIN_SECRET_BYTES} characters; make one with: openssl rand -hex 32")]
pub struct ShortFleetKey;

/// What a sealed message is, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealContext<'a> {
    Announcement,
    /// A room's entry in the directory.
    Entry {
        room: &'a str,
    },
    Batch {
        to: &'a ServerId,
        room: &'a str,
    },
}

/// The authenticated header of a sealed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealHeader {
    pub(crate) sender: ServerId,
    /// Counts the sender's messages of all kinds, from 1.
    pub(crate) number: u64,
    /// Milliseconds since 1970 by the sender's clock.
    pub(crate) sealed_at: u64,
}

/// The error for bytes that no server with this fleet's key has sealed for this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not sealed with this fleet's key: another program wrote it, or servers and fronts differ in --fleet-key, --token or release"
)]
pub struct SealError;

/// Seals the messages of one run of a server.
pub(crate) struct Sealer {
    me: ServerId,
    key: LessSafeKey,
    number: u64,
}

impl std::fmt::Debug for FleetKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FleetKey")
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sealer").field("me", &self.me).field("number", &self.number).finish_non_exhaustive()
    }
}

impl FleetKey {
    /// Derives the key from a secret, such as the contents of a file without the white space around them.
    ///
    /// # Errors
    /// If the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, ShortFleetKey> {
        let secret = secret.trim_ascii();
        if secret.len() < MIN_SECRET_BYTES {
            return Err(ShortFleetKey);
        }
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"nearlight fleet key");
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())))
    }

    fn key_of(&self, sender: &ServerId) -> LessSafeKey {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"nearlight fleet sender ");
        context.update(sender.as_str().as_bytes());
        let derived = context.sign();
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, derived.as_ref()).expect("HMAC-SHA256 gives 32 bytes"))
    }

    /// Returns the header and the contents of a sealed message that stands in this place.
    ///
    /// # Errors
    /// If it was not sealed with this key for this place.
    pub(crate) fn open(&self, context: SealContext<'_>, sealed: &[u8]) -> Result<(SealHeader, Vec<u8>), SealError> {
        let (&[VERSION, length], rest) = sealed.split_first_chunk::<2>().ok_or(SealError)? else {
            return Err(SealError);
        };
        let (sender, rest) = rest.split_at_checked(usize::from(length)).ok_or(SealError)?;
        let sender = std::str::from_utf8(sender).ok().and_then(|text| ServerId::new(text).ok()).ok_or(SealError)?;
        let (number, rest) = rest.split_first_chunk().ok_or(SealError)?;
        let (sealed_at, contents) = rest.split_first_chunk().ok_or(SealError)?;
        let (number, sealed_at) = (u64::from_be_bytes(*number), u64::from_be_bytes(*sealed_at));
        let header = &sealed[..sealed.len() - contents.len()];
        let mut contents = contents.to_vec();
        let key = self.key_of(&sender);
        let opened =
            key.open_in_place(nonce(number), aad(context, header), &mut contents).map_err(|_| SealError)?.len();
        contents.truncate(opened);
        Ok((SealHeader { sender, number, sealed_at }, contents))
    }
}

impl Sealer {
    /// Starts with the first number. `me` must be the name of this run only, because numbers must not repeat.
    pub(crate) fn new(key: &FleetKey, me: ServerId) -> Self {
        Self { key: key.key_of(&me), me, number: 0 }
    }

    /// Returns the number of the latest message.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Seals a message for this place. `now` is the time in milliseconds since 1970.
    pub(crate) fn seal(&mut self, now: u64, context: SealContext<'_>, contents: &[u8]) -> Vec<u8> {
        self.number += 1;
        let sender = self.me.as_str().as_bytes();
        let mut sealed = Vec::with_capacity(contents.len() + MAX_SEAL_BYTES);
        sealed.extend_from_slice(&[VERSION, sender.len() as u8]);
        sealed.extend_from_slice(sender);
        sealed.extend_from_slice(&self.number.to_be_bytes());
        sealed.extend_from_slice(&now.to_be_bytes());
        let aad = aad(context, &sealed);
        let mut contents = contents.to_vec();
        let tag = self.key.seal_in_place_separate_tag(nonce(self.number), aad, &mut contents);
        sealed.append(&mut contents);
        sealed.extend_from_slice(tag.expect("a message is far shorter than the cipher's limit").as_ref());
        sealed
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Returns the authenticated data: kind, the place's names, each ended by a zero byte, and the header.
fn aad(context: SealContext<'_>, header: &[u8]) -> Aad<Vec<u8>> {
    let (kind, names) = match context {
        SealContext::Announcement => (0, ["", ""]),
        SealContext::Entry { room } => (1, [room, ""]),
        SealContext::Batch { to, room } => (2, [to.as_str(), room]),
    };
    let mut data = vec![kind];
    for name in names {
        data.extend_from_slice(name.as_bytes());
        data.push(0);
    }
    data.extend_from_slice(header);
    Aad::from(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ServerId {
        ServerId::new(text).expect("an id")
    }

    fn key(secret: &str) -> FleetKey {
        FleetKey::new(secret.as_bytes()).expect("long enough")
    }

    const SECRET: &str = "a secret of the fleet's servers";

    #[test]
    fn what_is_sealed_opens_with_the_same_key_in_the_same_place_only() {
        let [a, b] = ["a", "b"].map(id);
        let mut sealer = Sealer::new(&key(SECRET), a.clone());
        let contexts = [
            SealContext::Announcement,
            SealContext::Entry { room: "main" },
            SealContext::Entry { room: "lab" },
            SealContext::Batch { to: &b, room: "main" },
            SealContext::Batch { to: &a, room: "main" },
        ];
        for (number, context) in (1..).zip(contexts) {
            let sealed = sealer.seal(7, context, b"seat key");
            assert!(!sealed.windows(8).any(|bytes| bytes == b"seat key"), "nobody else reads it");
            let (header, contents) = key(SECRET).open(context, &sealed).expect("sealed with this key");
            assert_eq!(
                (header, &contents[..]),
                (SealHeader { sender: a.clone(), number, sealed_at: 7 }, &b"seat key"[..])
            );
            for other in contexts.into_iter().filter(|other| *other != context) {
                assert_eq!(key(SECRET).open(other, &sealed), Err(SealError), "{context:?} is not {other:?}");
            }
            assert_eq!(key("the secret of another fleet").open(context, &sealed), Err(SealError));
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(key(SECRET).open(context, &changed), Err(SealError), "byte {at}");
                assert_eq!(key(SECRET).open(context, &sealed[..at]), Err(SealError), "{at} bytes");
            }
        }
    }

    #[test]
    fn a_key_s_white_space_does_not_matter_and_its_length_does() {
        let sealed = Sealer::new(&key(SECRET), id("a")).seal(0, SealContext::Announcement, b"");
        assert!(key(&format!("{SECRET}\n")).open(SealContext::Announcement, &sealed).is_ok());
        assert_eq!(FleetKey::new(b" 0123456789abcde\n").err(), Some(ShortFleetKey));
    }

    #[test]
    fn seals_are_those_of_the_protocol() {
        let sealed =
            Sealer::new(&key("0123456789abcdef"), id("a")).seal(1, SealContext::Entry { room: "main" }, b"text");
        let hex = sealed.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        // Calculated independently, by a program of the RFCs 2104 and 8439.
        assert_eq!(hex, "020161000000000000000100000000000000015a46bae9b73dae88210164dadf5e2bc7edfcf217");
    }
}
