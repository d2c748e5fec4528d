//! Marking for L4S (RFC 9331, RFC 9332): early and frequent, for packets that request it.
//!
//! Not modelled: the second queue of `DualQ` and its coupling. All flows share one queue, and only packets with ECT(1) or CE are
//! marked; the others are subject to the limit only.

use nearlight_units::Span;

use super::Verdict;
use crate::hop::{Ecn, Packet};
use crate::random::{Probability, Random};

/// Marks every packet that waited longer than a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub threshold: Span,
}

impl Default for Step {
    /// The usual step; RFC 9332 appendix A.1 centres its ramp on the same millisecond.
    fn default() -> Self {
        Self { threshold: Span::from_millis(1) }
    }
}

impl Step {
    pub(super) fn verdict(self, packet: &Packet, sojourn: Span) -> Verdict {
        if wants_marks(packet) && sojourn > self.threshold { Verdict::Signal } else { Verdict::Pass }
    }
}

/// Marks with a chance that rises from 0 to 1 between two waiting times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    pub from: Span,
    pub to: Span,
}

impl Default for Ramp {
    /// The ramp of `SCReAM`'s own simulations.
    fn default() -> Self {
        Self { from: Span::from_millis(8), to: Span::from_millis(12) }
    }
}

impl Ramp {
    pub(super) fn verdict(self, packet: &Packet, sojourn: Span, random: &mut Random) -> Verdict {
        let (above, width) = ((sojourn - self.from).as_secs_f64(), (self.to - self.from).as_secs_f64());
        // A ramp of zero width is a step.
        let share = if width > 0.0 { above / width } else { above.signum() };
        let chance = Probability::clamped(share);
        if random.happens(chance) && wants_marks(packet) { Verdict::Signal } else { Verdict::Pass }
    }
}

fn wants_marks(packet: &Packet) -> bool {
    matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce)
}
