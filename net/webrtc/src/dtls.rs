//! Checks a client's DTLS records before the library reads them (RFC 6347).
//!
//! The library reassembles fragments of handshake messages recursively, one call per fragment, counts only the bytes that they carry, and
//! queues records of the next epoch without a limit as long as the handshake lasts.

/// Bytes of a record's header (RFC 6347 section 4.1).
const RECORD_HEADER: usize = 13;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;
/// Bytes of a handshake message's header (RFC 6347 section 4.2.2).
const MESSAGE_HEADER: usize = 12;
/// Maximum number of messages: a client's handshake has at most seven, and a server that requests a cookie continues their numbering.
const MAX_MESSAGES: usize = 16;
/// Maximum number of fragments per message, including retransmissions: a certificate of 4 KiB in pieces of 1 KiB, a dozen times.
const MAX_FRAGMENTS: u8 = 48;
/// Maximum length of a message in bytes: a browser's certificate has 300.
const MAX_MESSAGE_BYTES: u32 = 16_384;
/// Maximum number of records of the next epoch before the handshake has ended: its last message and the first data, a few times each.
const MAX_EARLY_RECORDS: u16 = 256;

/// Number of fragments of each handshake message so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments([u8; MAX_MESSAGES]);

impl Fragments {
    /// Whether the library may read a record's handshake messages.
    pub(crate) fn admit(&mut self, mut messages: &[u8]) -> bool {
        loop {
            let Some(header) = messages.first_chunk::<MESSAGE_HEADER>() else { return false };
            let three = |place: usize| u32::from_be_bytes([0, header[place], header[place + 1], header[place + 2]]);
            let (length, offset, fragment) = (three(1), three(6), three(9));
            let count = self.0.get_mut(usize::from(u16::from_be_bytes([header[4], header[5]])));
            let Some(count) = count.filter(|count| **count < MAX_FRAGMENTS) else { return false };
            let end = MESSAGE_HEADER + fragment as usize;
            if length > MAX_MESSAGE_BYTES || offset + fragment > length || end > messages.len() {
                return false;
            }
            // An empty fragment, or one that the library would join with what follows it.
            if (fragment == 0 && length > 0) || (fragment < length && end < messages.len()) {
                return false;
            }
            *count += 1;
            messages = &messages[end..];
            if messages.is_empty() {
                return true;
            }
        }
    }
}

/// Checks the records of one client's connection as they arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen {
    fragments: Fragments,
    early: u16,
}

impl Screen {
    /// Whether the library may read this datagram. `connected`: the handshake has ended.
    pub(crate) fn admits(&mut self, connected: bool, datagram: &[u8]) -> bool {
        let mut rest = datagram;
        while !rest.is_empty() {
            let Some(header) = rest.first_chunk::<RECORD_HEADER>() else { return false };
            let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
            let Some(record) = rest.get(RECORD_HEADER..RECORD_HEADER + length) else { return false };
            let admitted = match u16::from_be_bytes([header[3], header[4]]) {
                0 if header[0] == HANDSHAKE => self.fragments.admit(record),
                0 => true,
                1 if connected => true,
                1 => {
                    self.early += 1;
                    self.early <= MAX_EARLY_RECORDS
                }
                // No client renegotiates.
                _ => false,
            };
            if !admitted {
                return false;
            }
            rest = &rest[RECORD_HEADER + length..];
        }
        true
    }
}

#[cfg(test)]
mod tests;
