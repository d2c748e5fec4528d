//! The small part of STUN (RFC 8489) that is parsed here in addition to the library, and the check that a request is genuinely a client's.

use std::fmt;

use rtc::crypto::{HmacAlgorithm, Mac};

/// The magic cookie (section 5).
pub(crate) const COOKIE: [u8; 4] = [0x21, 0x12, 0xA4, 0x42];
pub(crate) const BINDING_REQUEST: [u8; 2] = [0, 1];
pub(crate) const BINDING_SUCCESS: [u8; 2] = [1, 1];
/// Attribute types (section 14.3 and 14.5; RFC 8445 section 7.1.2).
pub(crate) const USERNAME: [u8; 2] = [0, 6];
pub(crate) const MESSAGE_INTEGRITY: [u8; 2] = [0, 8];
pub(crate) const USE_CANDIDATE: [u8; 2] = [0, 0x25];
const HEADER: usize = 20;
const ATTRIBUTE_HEADER: usize = 4;
/// Bytes of MESSAGE-INTEGRITY's value, an HMAC-SHA1.
const TAG: usize = 20;

/// A message whose header is valid. Nothing in it has been authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stun<'a> {
    pub(crate) kind: [u8; 2],
    pub(crate) transaction: [u8; 12],
    attributes: &'a [u8],
}

impl<'a> Stun<'a> {
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (header, attributes) = datagram.split_first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] > 3 || header[4..8] != COOKIE || length != attributes.len() {
            return None;
        }
        Some(Self { kind: [header[0], header[1]], transaction: header[8..].try_into().ok()?, attributes })
    }

    /// The first attribute of this kind. None if the attributes before it are damaged, or end with the signature, which covers nothing
    /// after it.
    pub(crate) fn attribute(&self, wanted: [u8; 2]) -> Option<&'a [u8]> {
        self.find(wanted).map(|(_, value)| value)
    }

    /// Finds an attribute. Returns the number of bytes of attributes before it, and its value.
    fn find(&self, wanted: [u8; 2]) -> Option<(usize, &'a [u8])> {
        let mut rest = self.attributes;
        loop {
            let ([kind @ .., high, low], values) = rest.split_first_chunk::<ATTRIBUTE_HEADER>()?;
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let value = values.get(..length)?;
            if *kind == wanted {
                return Some((self.attributes.len() - rest.len(), value));
            }
            if *kind == MESSAGE_INTEGRITY {
                return None;
            }
            rest = values.get(length.next_multiple_of(4)..)?;
        }
    }
}

/// A peer's own ICE name and password (`ice-ufrag` and `ice-pwd`), which its clients know from its description.
#[derive(Clone, PartialEq, Eq)]
pub struct IceCredentials {
    pub name: String,
    pub password: String,
}

impl IceCredentials {
    /// Returns the first credentials in a description.
    #[must_use]
    pub fn in_description(sdp: &str) -> Option<Self> {
        let first =
            |name: &str| sdp.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_end().to_owned());
        Some(Self { name: first("a=ice-ufrag:")?, password: first("a=ice-pwd:")? })
    }
}

impl fmt::Debug for IceCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IceCredentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Verifies that a message's sender knows a password.
pub(crate) struct Verifier(Box<dyn Mac>);

impl Verifier {
    /// Makes a verifier. None if the library has no HMAC-SHA1.
    pub(crate) fn new(credentials: &IceCredentials) -> Option<Self> {
        let provider = rtc::crypto::default_provider().ok()?;
        provider.crypto().new_hmac(HmacAlgorithm::Sha1, credentials.password.as_bytes()).ok().map(Self)
    }

    /// Whether the message is signed with the password (section 9.1.3).
    pub(crate) fn verify(&mut self, message: &[u8]) -> bool {
        let Some((before, tag)) = Stun::parse(message).and_then(|stun| stun.find(MESSAGE_INTEGRITY)) else {
            return false;
        };
        // The message's length counts up to the end of the signature.
        let length = (before + ATTRIBUTE_HEADER + TAG) as u16;
        let signed = [&message[..2], &length.to_be_bytes(), &message[4..HEADER + before]];
        tag.len() == TAG && self.0.verify(&signed, tag).is_ok()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verifier")
    }
}

/// Makes a binding request of `name`'s client, after attributes of odd lengths, signed with its password.
#[cfg(any(test, feature = "player"))]
#[must_use]
pub fn signed_request(credentials: &IceCredentials, transaction: u8) -> Vec<u8> {
    let user = format!("{}:theirs", credentials.name);
    let mut attributes = vec![0x80, 0x22, 0, 3, 1, 2, 3, 0];
    attributes.extend(USERNAME);
    attributes.extend((user.len() as u16).to_be_bytes());
    attributes.extend(user.bytes());
    attributes.resize(attributes.len().next_multiple_of(4), 0);
    let length = ((attributes.len() + ATTRIBUTE_HEADER + TAG) as u16).to_be_bytes();
    let mut message = [&BINDING_REQUEST[..], &length, &COOKIE, &[transaction; 12], &attributes].concat();
    let mut tag = [0; TAG];
    let mut verifier = Verifier::new(credentials).expect("the library has HMAC-SHA1");
    verifier.0.sign(&[&message], &mut tag).expect("a tag of the right length");
    message.extend(MESSAGE_INTEGRITY);
    message.extend((TAG as u16).to_be_bytes());
    message.extend(tag);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(password: &str) -> IceCredentials {
        IceCredentials { name: "name".into(), password: password.into() }
    }

    /// The request of RFC 5769 section 2.1: an independent implementation's signature.
    const SAMPLE: &str = "000100582112a442b7e7a701bc34d686fa87dfae802200105354554e207465737420636c69656e74002400046e0001ff80290008\
                          932ff9b151263b36000600096576746a3a68367659202020000800149aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a280280004e57a3bcf";

    fn sample() -> Vec<u8> {
        let digits: Vec<u8> =
            SAMPLE.bytes().map(|digit| (digit as char).to_digit(16).expect("hexadecimal") as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn the_signature_of_the_standard_s_sample_is_accepted() {
        let password = "VOkJxbRl1RmTxUk/WvJxBt";
        let mut verifier = Verifier::new(&credentials(password)).expect("HMAC-SHA1");
        assert!(verifier.verify(&sample()));
        assert!(!Verifier::new(&credentials("another")).expect("HMAC-SHA1").verify(&sample()));
        for place in 0..sample().len() - 8 {
            let mut changed = sample();
            changed[place] ^= 1;
            assert!(!verifier.verify(&changed), "byte {place} is not covered");
        }
    }

    #[test]
    fn nothing_behind_the_signature_counts() {
        let mut message = signed_request(&credentials("password"), 1);
        message.extend([0, 0x25, 0, 0]);
        let length = (message.len() - HEADER) as u16;
        message[2..4].copy_from_slice(&length.to_be_bytes());
        assert!(Verifier::new(&credentials("password")).expect("HMAC-SHA1").verify(&message));
        assert!(Stun::parse(&message).expect("a message").attribute(USE_CANDIDATE).is_none());
    }
}
