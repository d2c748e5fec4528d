//! Layouts of the payloads of Ethernet frames, and of the contents of the encrypted ones.

/// IEEE 802's Local Experimental EtherType 1: for protocols without a number of their own, within one network (IEEE 802-2014, 9.2.4).
pub const ETHERTYPE: u16 = 0x88B5;

/// The version of this transport. The Nearlight protocol inside has a version of its own.
pub(crate) const TRANSPORT_VERSION: u8 = 1;

/// Maximum payload that Ethernet carries everywhere (IEEE 802.3). Larger ones are sent once a probe of their size has been answered.
pub(crate) const ETHERNET_MTU: usize = 1_500;
/// Minimum MTU of an interface: the smallest datagrams into which a session splits frames have 640 bytes.
pub const MIN_MTU: usize = 640 + super::DATAGRAM_OVERHEAD;

pub(crate) const NONCE_BYTES: usize = 16;
pub(crate) const CODE_BYTES: usize = 16;
pub(crate) type Nonce = [u8; NONCE_BYTES];
pub(crate) type Cookie = [u8; CODE_BYTES];
pub(crate) type Code = [u8; CODE_BYTES];

/// First bytes of payloads.
pub(crate) const SOLICITATION: u8 = 1;
pub(crate) const COOKIE: u8 = 2;
pub(crate) const INITIATION: u8 = 3;
pub(crate) const RESPONSE: u8 = 4;
pub(crate) const TRANSPORT: u8 = 5;

/// Bytes of kind, index, counter and length of a transport frame.
pub(crate) const TRANSPORT_HEADER: usize = 1 + 4 + 8 + 2;
/// Bytes of the tag of ChaCha20-Poly1305.
pub(crate) const TAG_BYTES: usize = 16;
/// Maximum length of a Noise message.
pub(crate) const MAX_HANDSHAKE_BYTES: usize = 256;

/// A parsed payload. Slices end where their length field says, because Ethernet pads short frames with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    Solicitation { version: u8, nonce: Nonce, signed: &'a [u8], code: Code },
    Cookie { version: u8, nonce: Nonce, cookie: Cookie, signed: &'a [u8], code: Code },
    Initiation { nonce: Nonce, cookie: Cookie, noise: &'a [u8], signed: &'a [u8], code: Code },
    Response { index: u32, noise: &'a [u8] },
    Transport { index: u32, counter: u64, sealed: &'a [u8] },
}

/// Reads fields from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn counted(&mut self, most: usize) -> Option<&'a [u8]> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        let (field, rest) = self.0.split_at_checked(length).filter(|_| length <= most)?;
        self.0 = rest;
        Some(field)
    }
}

impl<'a> Payload<'a> {
    /// Parses a payload. None for payloads that are not ours.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [kind] = fields.array()?;
        let signed = |fields: &Fields<'_>| &bytes[..bytes.len() - fields.0.len()];
        match kind {
            SOLICITATION => {
                let ([version], nonce) = (fields.array()?, fields.array()?);
                let signed = signed(&fields);
                Some(Self::Solicitation { version, nonce, signed, code: fields.array()? })
            }
            COOKIE => {
                let ([version], nonce, cookie) = (fields.array()?, fields.array()?, fields.array()?);
                let signed = signed(&fields);
                Some(Self::Cookie { version, nonce, cookie, signed, code: fields.array()? })
            }
            INITIATION => {
                let (nonce, cookie, noise) = (fields.array()?, fields.array()?, fields.counted(MAX_HANDSHAKE_BYTES)?);
                let signed = signed(&fields);
                Some(Self::Initiation { nonce, cookie, noise, signed, code: fields.array()? })
            }
            RESPONSE => {
                let index = u32::from_be_bytes(fields.array()?);
                Some(Self::Response { index, noise: fields.counted(MAX_HANDSHAKE_BYTES)? })
            }
            TRANSPORT => {
                let (index, counter) = (u32::from_be_bytes(fields.array()?), u64::from_be_bytes(fields.array()?));
                Some(Self::Transport { index, counter, sealed: fields.counted(usize::from(u16::MAX))? })
            }
            _ => None,
        }
    }
}

/// The session that a transport frame is for, by the number that its receiver chose. None for other frames.
#[must_use]
pub fn session_index(payload: &[u8]) -> Option<u32> {
    match Payload::parse(payload)? {
        Payload::Transport { index, .. } => Some(index),
        _ => None,
    }
}

pub(crate) fn solicitation(nonce: &Nonce) -> Vec<u8> {
    [&[SOLICITATION, TRANSPORT_VERSION][..], nonce].concat()
}

pub(crate) fn cookie(nonce: &Nonce, cookie: &Cookie) -> Vec<u8> {
    [&[COOKIE, TRANSPORT_VERSION][..], nonce, cookie].concat()
}

pub(crate) fn initiation(nonce: &Nonce, cookie: &Cookie, noise: &[u8]) -> Vec<u8> {
    let length = (noise.len() as u16).to_be_bytes();
    [&[INITIATION][..], nonce, cookie, &length, noise].concat()
}

pub(crate) fn response(index: u32, noise: &[u8]) -> Vec<u8> {
    let length = (noise.len() as u16).to_be_bytes();
    [&[RESPONSE][..], &index.to_be_bytes(), &length, noise].concat()
}

/// The contents of a transport frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner<'a> {
    KeepAlive,
    Datagram(&'a [u8]),
    Segment {
        sequence: u32,
        bytes: &'a [u8],
    },
    /// Everything before `next` has arrived, and of the following segments those whose bit is set, the lowest bit first.
    Acknowledgement {
        next: u32,
        further: u32,
    },
    Close {
        reason: &'a str,
    },
    Probe,
    ProbeAnswer {
        size: u16,
    },
}

pub(crate) const KEEP_ALIVE: u8 = 0;
pub(crate) const DATAGRAM: u8 = 1;
pub(crate) const SEGMENT: u8 = 2;
pub(crate) const ACKNOWLEDGEMENT: u8 = 3;
pub(crate) const CLOSE: u8 = 4;
pub(crate) const PROBE: u8 = 5;
pub(crate) const PROBE_ANSWER: u8 = 6;

/// Bytes of the sequence number before a segment's bytes.
pub(crate) const SEGMENT_HEADER: usize = 4;
/// Maximum length of the reason for the end of a session, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 400;

impl<'a> Inner<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&kind, body) = bytes.split_first()?;
        match kind {
            KEEP_ALIVE => body.is_empty().then_some(Self::KeepAlive),
            DATAGRAM => Some(Self::Datagram(body)),
            SEGMENT => {
                let (sequence, bytes) = body.split_first_chunk()?;
                (!bytes.is_empty()).then_some(Self::Segment { sequence: u32::from_be_bytes(*sequence), bytes })
            }
            ACKNOWLEDGEMENT => {
                let (next, further) = body.split_first_chunk()?;
                let further = u32::from_be_bytes(further.try_into().ok()?);
                Some(Self::Acknowledgement { next: u32::from_be_bytes(*next), further })
            }
            CLOSE if body.len() <= MAX_REASON_BYTES => Some(Self::Close { reason: std::str::from_utf8(body).ok()? }),
            PROBE => Some(Self::Probe),
            PROBE_ANSWER => Some(Self::ProbeAnswer { size: u16::from_be_bytes(body.try_into().ok()?) }),
            _ => None,
        }
    }
}
