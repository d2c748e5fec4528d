//! FlexFEC as browsers implement it: RTP packets, each of which can recover any one lost packet of those that it covers.
//!
//! A repair is the exclusive or of its packets from their first bytes to their last, shorter ones padded with zeros. The fields that the
//! receiver knows anyway (version, number, source) are replaced by the lengths, followed by which packets are covered. This module does not
//! know frames, time or how many repairs there should be.
//!
//! Source: draft-ietf-payload-flexible-fec-scheme-03 section 4.2, as libwebrtc implements it (`Flexfec03HeaderReader`, `FlexfecReceiver`):
//! a flexible mask, one protected source, no retransmissions. RFC 8627, which the draft became, has another header under another name
//! (`flexfec`), which no browser speaks.
//!
//! Departures: a packet's transport-wide number, which the sender writes only at departure, counts as zeros
//! (`RtpPacket::ZeroMutableExtensions`). Both ends do so.

use nearlight_fec::ParityGroups;

/// Maximum bytes of a repair before the parity, with the longest mask.
pub(crate) const MAX_HEADER_BYTES: u16 = 32;
/// Bytes of an RTP packet that the repair's own header replaces.
const RTP_HEADER: usize = 12;
/// The version bits, which are not repaired: they signal that a mask follows and that this is not a retransmission.
const VERSION_BITS: u8 = 0xC0;
/// Flag that marks the last word of a mask.
const LAST_MASK_FLAG: u8 = 0x80;

/// The exclusive or of packets.
#[derive(Clone, Debug, Default)]
struct Parity {
    /// First two bytes, length and timestamp.
    header: [u8; 8],
    rest: Vec<u8>,
}

impl Parity {
    /// Adds a packet in transmitted form.
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

/// A frame's repairs, accumulated while its packets are sent.
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

    /// Adds a packet of the frame, in transmitted form except for fields that may change on the path.
    pub(crate) fn add(&mut self, index: u16, packet: &[u8]) {
        let repair = self.groups.repair_of(index);
        let parity = repair.and_then(|repair| self.parities.get_mut(usize::from(repair)));
        if let Some(parity) = parity {
            parity.add(packet);
        }
    }

    /// Returns the payload of a repair of the packets so far. None if there is no such repair.
    pub(crate) fn payload(&self, repair: u16) -> Option<Vec<u8>> {
        let parity = self.parities.get(usize::from(repair))?;
        let mut covered = self.groups.covered(repair).peekable();
        let base = *covered.peek()?;
        // Its top bit is the base itself.
        let mask = covered.fold(0, |mask, index| mask | (1 << (127 - u32::from(index - base))));
        let mut payload = Vec::with_capacity(usize::from(MAX_HEADER_BYTES) + parity.rest.len());
        payload.extend_from_slice(&parity.header);
        payload[0] &= !VERSION_BITS;
        // One source, and three reserved bytes.
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
    to[last] |= LAST_MASK_FLAG;
}

#[cfg(test)]
mod tests;
