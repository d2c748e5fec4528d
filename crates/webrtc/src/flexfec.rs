//! FlexFEC as browsers speak it: RTP packets, each of which stands in for any one lost packet of those that it covers.
//!
//! A repair is the exclusive or of its packets from their first bytes to their last, shorter ones filled up with zeros; in the place
//! of what the receiver knows anyway (version, number, source) stand the lengths, and behind them which packets are covered. Nothing
//! here knows of frames' meaning, of time or of how many repairs there should be.
//!
//! Source: draft-ietf-payload-flexible-fec-scheme-03 section 4.2, as libwebrtc reads it (`Flexfec03HeaderReader`, `FlexfecReceiver`):
//! a flexible mask, one protected source, no retransmissions. RFC 8627, which the draft became, has another header under another name
//! (`flexfec`), which no browser speaks.
//!
//! Departures: what a sender writes into a packet only when it leaves, its transport-wide number, counts as zeros
//! (`RtpPacket::ZeroMutableExtensions`); both ends do so.

use nearlight_fec::ParityGroups;

/// Bytes of a repair that stand before the parity, with the longest mask.
pub(crate) const MAX_HEADER: u16 = 32;
/// Of an RTP packet, the part that the repair's own header stands for.
const RTP_HEADER: usize = 12;
/// Version, which is not repaired: its bits say that a mask follows and that this is no retransmission.
const NOT_REPAIRED: u8 = 0xC0;
/// The last word of a mask says that it is the last.
const LAST_MASK: u8 = 0x80;

/// The exclusive or of packets.
#[derive(Clone, Debug, Default)]
struct Parity {
    /// First two bytes, length and timestamp.
    header: [u8; 8],
    rest: Vec<u8>,
}

impl Parity {
    /// Adds a packet as it travels.
    fn add(&mut self, packet: &[u8]) {
        let Some((header, rest)) = packet.split_at_checked(RTP_HEADER) else { return };
        let length = (rest.len() as u16).to_be_bytes();
        let fields = [header[0], header[1], length[0], length[1], header[4], header[5], header[6], header[7]];
        for (sum, byte) in self.header.iter_mut().zip(fields) {
            *sum ^= byte;
        }
        if self.rest.len() < rest.len() {
            self.rest.resize(rest.len(), 0);
        }
        for (sum, byte) in self.rest.iter_mut().zip(rest) {
            *sum ^= byte;
        }
    }
}

/// A frame's repairs, while its packets go by.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The packets' source.
    ssrc: u32,
    /// Number of the frame's first packet.
    first: u16,
    groups: ParityGroups,
    parities: Vec<Parity>,
}

impl Block {
    pub(crate) fn new(ssrc: u32, first: u16, groups: ParityGroups) -> Self {
        Self { ssrc, first, groups, parities: vec![Parity::default(); usize::from(groups.repairs())] }
    }

    /// Adds a packet of the frame, as it travels but for what may change on the way.
    pub(crate) fn add(&mut self, index: u16, packet: &[u8]) {
        let repair = self.groups.repair_of(index);
        let parity = repair.and_then(|repair| self.parities.get_mut(usize::from(repair)));
        if let Some(parity) = parity {
            parity.add(packet);
        }
    }

    /// Payload of a repair of the packets so far; none of what is no repair.
    pub(crate) fn payload(&self, repair: u16) -> Option<Vec<u8>> {
        let parity = self.parities.get(usize::from(repair))?;
        let mut covered = self.groups.covered(repair).peekable();
        let base = *covered.peek()?;
        // Its uppermost bit is the base itself.
        let mask = covered.fold(0, |mask, index| mask | (1 << (127 - u32::from(index - base))));
        let mut payload = Vec::with_capacity(usize::from(MAX_HEADER) + parity.rest.len());
        payload.extend_from_slice(&parity.header);
        payload[0] &= !NOT_REPAIRED;
        // One source, and three bytes for later.
        payload.extend_from_slice(&[1, 0, 0, 0]);
        payload.extend_from_slice(&self.ssrc.to_be_bytes());
        payload.extend_from_slice(&self.first.wrapping_add(base).to_be_bytes());
        write_mask(mask, &mut payload);
        payload.extend_from_slice(&parity.rest);
        Some(payload)
    }
}

/// Writes the upper 109 bits, in as few words as they need.
fn write_mask(mask: u128, to: &mut Vec<u8>) {
    let mut last = to.len();
    to.extend_from_slice(&((mask >> 113) as u16).to_be_bytes());
    if mask << 15 != 0 {
        last = to.len();
        to.extend_from_slice(&((mask >> 82) as u32 & (u32::MAX >> 1)).to_be_bytes());
    }
    if mask << 46 != 0 {
        last = to.len();
        to.extend_from_slice(&((mask >> 19) as u64 & (u64::MAX >> 1)).to_be_bytes());
    }
    to[last] |= LAST_MASK;
}

#[cfg(test)]
mod tests;
