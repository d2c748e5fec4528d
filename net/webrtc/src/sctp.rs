//! Checks a client's SCTP packets before the library reads them (RFC 9260).
//!
//! The library trusts some lengths, iterates from one transmission sequence number (TSN) to another however far they are apart, and stores
//! what it receives without a limit. Packets that would make it fail, stall or grow are discarded here, as RFC 9260 prescribes for
//! damaged packets.

/// Bytes of headers (RFC 9260 section 3 and 3.2).
const COMMON_HEADER: usize = 12;
const CHUNK_HEADER: usize = 4;
/// Maximum number of TSNs by which a packet may be ahead of the newest so far: more than a full buffer of 256 KiB holds in messages of 64
/// bytes.
const MAX_AHEAD: u32 = 4_096;
/// Maximum number of streams: Chromium's data channels have 1,024, Firefox' 2,048.
const MAX_STREAMS: u16 = 2_048;
/// Maximum number of requests to reset streams that cannot be carried out yet. RFC 6525 section 5.1.1 allows a peer one at a time.
const MAX_EARLY_RESETS: u32 = 16;

/// Chunk types (RFC 9260 section 3.2, RFC 3758, RFC 6525).
mod chunk {
    pub(super) const DATA: u8 = 0;
    pub(super) const INIT: u8 = 1;
    pub(super) const INIT_ACK: u8 = 2;
    pub(super) const SACK: u8 = 3;
    pub(super) const HEARTBEAT: u8 = 4;
    pub(super) const HEARTBEAT_ACK: u8 = 5;
    pub(super) const ABORT: u8 = 6;
    pub(super) const SHUTDOWN: u8 = 7;
    pub(super) const SHUTDOWN_ACK: u8 = 8;
    pub(super) const ERROR: u8 = 9;
    pub(super) const COOKIE_ECHO: u8 = 10;
    pub(super) const COOKIE_ACK: u8 = 11;
    pub(super) const SHUTDOWN_COMPLETE: u8 = 14;
    pub(super) const RECONFIG: u8 = 130;
    pub(super) const FORWARD_TSN: u8 = 192;
}

/// Parameter types (RFC 6525, RFC 4895, RFC 3758).
mod parameter {
    pub(super) const OUTGOING_RESET: u16 = 13;
    pub(super) const RECONFIG_RESPONSE: u16 = 16;
    pub(super) const REQUESTED_HMAC: u16 = 0x8004;
    pub(super) const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
}

/// Checks the packets of one association, in one direction.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// The first TSN that the sender announced.
    initial: Option<u32>,
    /// The newest TSN that it has used or skipped.
    newest: u32,
    early_resets: u32,
}

impl Screen {
    /// Whether the library may read this packet.
    pub fn admits(&mut self, packet: &[u8]) -> bool {
        self.read(packet).is_some()
    }

    fn read(&mut self, packet: &[u8]) -> Option<()> {
        let mut rest = packet.get(COMMON_HEADER..)?;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let length = usize::from(number(rest, 2)?);
            let value = rest.get(CHUNK_HEADER..length)?;
            self.read_chunk(rest[0], value)?;
            // The last chunk's padding may be omitted.
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(())
    }

    fn read_chunk(&mut self, kind: u8, value: &[u8]) -> Option<()> {
        let length = value.len();
        match kind {
            // A chunk without user data is a violation (section 3.3.1), and uses none of the receiver's buffer: it could hold any number.
            chunk::DATA => {
                let stream = number(value, 4)?;
                (length > 12 && stream < MAX_STREAMS).then_some(())?;
                self.advance(long(value, 0)?)
            }
            chunk::INIT | chunk::INIT_ACK => {
                let first = long(value, 12)?;
                // WebRTC has no second association over the same DTLS connection (RFC 8841).
                if self.initial.is_none() {
                    (self.initial, self.newest) = (Some(first), first.wrapping_sub(1));
                }
                (self.initial == Some(first)).then_some(())?;
                parameters(value.get(16..)?, usize::MAX)
            }
            chunk::SACK => {
                let blocks = usize::from(number(value, 8)?) + usize::from(number(value, 10)?);
                (length == 12 + 4 * blocks).then_some(())
            }
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK => parameters(value, 1).filter(|()| !value.is_empty()),
            chunk::ABORT | chunk::ERROR => causes(value),
            chunk::SHUTDOWN => (length == 4).then_some(()),
            chunk::SHUTDOWN_ACK | chunk::COOKIE_ACK | chunk::SHUTDOWN_COMPLETE => (length == 0).then_some(()),
            chunk::COOKIE_ECHO => (length > 0).then_some(()),
            chunk::FORWARD_TSN => {
                (length >= 4 && length.is_multiple_of(4)).then_some(())?;
                self.advance(long(value, 0)?)
            }
            chunk::RECONFIG => {
                parameters(value, 2)?;
                self.read_resets(value)
            }
            // The library knows no others, and drops packets that contain one.
            _ => None,
        }
    }

    /// Records that a TSN was used, or everything up to it skipped.
    fn advance(&mut self, tsn: u32) -> Option<()> {
        self.initial?;
        let ahead = tsn.wrapping_sub(self.newest);
        // In the upper half it is behind (section 1.6).
        if ahead < 1 << 31 {
            (ahead <= MAX_AHEAD).then_some(())?;
            self.newest = tsn;
        }
        Some(())
    }

    /// Checks requests to reset streams. A request waits until the TSN that it names has arrived, and the library would store any number.
    fn read_resets(&mut self, value: &[u8]) -> Option<()> {
        let mut rest = value;
        while let Some(length) = number(rest, 2) {
            let length = usize::from(length);
            if number(rest, 0) == Some(parameter::OUTGOING_RESET) {
                let ahead = long(rest, 12)?.wrapping_sub(self.newest);
                if (1..1 << 31).contains(&ahead) {
                    (ahead <= MAX_AHEAD && self.early_resets < MAX_EARLY_RESETS).then_some(())?;
                    self.early_resets += 1;
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(())
    }
}

/// Checks that parameters fill a chunk, each padded (section 3.2.1).
///
/// The library finds the next chunk by what it has read of this one, not by this one's length. It reads the first parameter of a heartbeat
/// and two of a request to change streams (RFC 6525 section 3.1 allows no more), and of some only the parts that it uses. Everything that
/// followed would be read as an unchecked chunk.
fn parameters(mut rest: &[u8], most: usize) -> Option<()> {
    let mut count = 0;
    while !rest.is_empty() {
        let length = usize::from(number(rest, 2)?);
        (4..=rest.len()).contains(&length).then_some(())?;
        let is_read_whole = match number(rest, 0)? {
            // 20 with the optional fields, which answer a request that is never sent.
            parameter::RECONFIG_RESPONSE => length == 12,
            parameter::REQUESTED_HMAC => length.is_multiple_of(2),
            parameter::FORWARD_TSN_SUPPORTED => length == 4,
            _ => true,
        };
        count += 1;
        (is_read_whole && count <= most).then_some(())?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(())
}

/// Checks that error causes fill a chunk (section 3.3.10). The library moves from one to the next without padding.
fn causes(mut rest: &[u8]) -> Option<()> {
    while !rest.is_empty() {
        let length = usize::from(number(rest, 2)?);
        let is_last = length == rest.len();
        ((4..=rest.len()).contains(&length) && (is_last || length.is_multiple_of(4))).then_some(())?;
        rest = &rest[length..];
    }
    Some(())
}

fn number(bytes: &[u8], place: usize) -> Option<u16> {
    bytes.get(place..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn long(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
