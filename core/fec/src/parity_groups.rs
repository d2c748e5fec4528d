//! Exclusive-or repairs of one frame's packets, as in FlexFEC (RFC 8627): which repair covers which packets.

/// Maximum distance from a repair's first packet to its last: the masks of draft-ietf-payload-flexible-fec-scheme-03
/// section 4.2 reach that far, 15, 31 and 63 bits in three words.
const MAX_SPAN: u16 = 109;

/// The packets of a frame that each of its repairs covers.
///
/// Every packet is covered once, and its neighbours are covered by other repairs: a burst of as many losses as there are repairs is
/// recovered, also one at the frame's end, because the repairs continue the packets' order. The first covers the packet that is farthest
/// back, and each is as far from its last packet as those from each other. A frame beyond the reach of a mask is divided into runs, each
/// with its share of the repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParityGroups {
    packets: u16,
    repairs: u16,
}

/// Packets and repairs that belong together: the first packet, and the number of each.
#[derive(Clone, Copy, Debug)]
struct Run {
    packets: (u16, u16),
    repairs: (u16, u16),
}

impl Run {
    /// Distance between packets that the same repair covers. Repairs beyond the number of packets are redundant.
    fn step(self) -> u16 {
        self.repairs.1.min(self.packets.1)
    }
}

impl ParityGroups {
    #[must_use]
    pub const fn new(packets: u16, repairs: u16) -> Self {
        Self { packets, repairs }
    }

    #[must_use]
    pub const fn packets(self) -> u16 {
        self.packets
    }

    #[must_use]
    pub const fn repairs(self) -> u16 {
        self.repairs
    }

    /// The repair that covers a packet.
    #[must_use]
    pub fn repair_of(self, index: u16) -> Option<u16> {
        let run = self.runs().find(|run| (run.packets.0..run.packets.0 + run.packets.1).contains(&index))?;
        let step = run.step();
        let place = (index - run.packets.0).checked_rem(step)?;
        Some(run.repairs.0 + (place + step - run.packets.1 % step) % step)
    }

    /// The packets that a repair covers, ascending; at least one.
    pub fn covered(self, repair: u16) -> impl Iterator<Item = u16> + use<> {
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

#[cfg(test)]
mod tests;
