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

/// Bytes of a repair that stand before the parity, with the longest mask.
pub(crate) const MAX_HEADER: u16 = 32;
/// Numbers that a mask reaches: 15, 31 and 63 bits in its three words.
const MAX_SPAN: u16 = 109;
/// Of an RTP packet, the part that the repair's own header stands for.
const RTP_HEADER: usize = 12;
/// Version, which is not repaired: its bits say that a mask follows and that this is no retransmission.
const NOT_REPAIRED: u8 = 0xC0;
/// The last word of a mask says that it is the last.
const LAST_MASK: u8 = 0x80;

/// Which packets of a frame each of its repairs covers.
///
/// Every packet is covered once, and the neighbours of a packet by other repairs: a burst of as many losses as there are repairs is
/// mended, also one at the frame's end, because the repairs go on in the packets' order: the first covers the packet that is farthest
/// back, and each is as far from its last packet as those from each other. A frame beyond what a mask reaches is cut into runs, each
/// with its share of the repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    packets: u16,
    repairs: u16,
}

/// Packets and repairs that belong together: from where on, and how many of each.
#[derive(Clone, Copy, Debug)]
struct Run {
    packets: (u16, u16),
    repairs: (u16, u16),
}

impl Run {
    /// From one packet to the next that the same repair covers: repairs beyond the packets say nothing new.
    fn step(self) -> u16 {
        self.repairs.1.min(self.packets.1)
    }
}

impl Groups {
    pub(crate) const fn new(packets: u16, repairs: u16) -> Self {
        Self { packets, repairs }
    }

    pub(crate) const fn packets(self) -> u16 {
        self.packets
    }

    pub(crate) const fn repairs(self) -> u16 {
        self.repairs
    }

    /// The repair that covers a packet.
    pub(crate) fn repair_of(self, index: u16) -> Option<u16> {
        let run = self.runs().find(|run| (run.packets.0..run.packets.0 + run.packets.1).contains(&index))?;
        let step = run.step();
        let place = (index - run.packets.0).checked_rem(step)?;
        Some(run.repairs.0 + (place + step - run.packets.1 % step) % step)
    }

    /// The packets that a repair covers, ascending; at least one.
    pub(crate) fn covered(self, repair: u16) -> impl Iterator<Item = u16> + use<> {
        let run = self.runs().find(|run| (run.repairs.0..run.repairs.0 + run.repairs.1).contains(&repair));
        run.into_iter().flat_map(move |run| {
            let (first, packets) = run.packets;
            let step = run.step().max(1);
            let place = (repair - run.repairs.0 + run.packets.1 % step) % step;
            (first + place..first + packets).step_by(usize::from(step))
        })
    }

    fn runs(self) -> impl Iterator<Item = Run> + use<> {
        let Self { packets, repairs } = self;
        let runs = u32::from(packets.div_ceil(MAX_SPAN));
        let part = move |of: u16, run: u32| (u32::from(of) * run / runs) as u16;
        let share = move |of: u16, run: u32| (part(of, run), part(of, run + 1) - part(of, run));
        (0..runs).map(move |run| Run { packets: share(packets, run), repairs: share(repairs, run) })
    }
}

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
    groups: Groups,
    parities: Vec<Parity>,
}

impl Block {
    pub(crate) fn new(ssrc: u32, first: u16, groups: Groups) -> Self {
        Self { ssrc, first, groups, parities: vec![Parity::default(); usize::from(groups.repairs)] }
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
