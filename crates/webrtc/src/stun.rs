//! The little of STUN (RFC 8489) that is read beside the library that speaks it. Nothing here has been authenticated.

/// The magic cookie (section 5).
pub(crate) const COOKIE: [u8; 4] = [0x21, 0x12, 0xA4, 0x42];
pub(crate) const BINDING_REQUEST: [u8; 2] = [0, 1];
pub(crate) const BINDING_SUCCESS: [u8; 2] = [1, 1];
/// Attributes (section 14.3; RFC 8445 section 7.1.2).
pub(crate) const USERNAME: [u8; 2] = [0, 6];
pub(crate) const USE_CANDIDATE: [u8; 2] = [0, 0x25];
const HEADER: usize = 20;

/// A message whose header is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stun<'a> {
    pub(crate) kind: [u8; 2],
    pub(crate) transaction: [u8; 12],
    attributes: &'a [u8],
}

impl<'a> Stun<'a> {
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (header, attributes) = datagram.split_first_chunk::<HEADER>()?;
        if header[0] > 3 || header[4..8] != COOKIE {
            return None;
        }
        Some(Self { kind: [header[0], header[1]], transaction: header[8..].try_into().ok()?, attributes })
    }

    /// The first of this kind; none where the attributes before it are damaged.
    pub(crate) fn attribute(&self, wanted: [u8; 2]) -> Option<&'a [u8]> {
        let mut rest = self.attributes;
        loop {
            let ([kind @ .., high, low], values) = rest.split_first_chunk::<4>()?;
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let value = values.get(..length)?;
            if *kind == wanted {
                return Some(value);
            }
            rest = values.get(length.next_multiple_of(4)..)?;
        }
    }
}
