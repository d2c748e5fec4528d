//! The policies that the planner is compared with.
//!
//! [`Nebula`] and [`EscotGop`] follow Alhilal et al., Nebula: reliable low-latency video transmission for mobile cloud
//! gaming, WWW 2022.
//!
//! Departures: the equations are missing in the published text, so the redundancy table is a reconstruction. It satisfies everything
//! that the text states: it grows with the loss ratio and with the distance to the end of the group, is the same for all frames when
//! its weight is neutral, and is at least one packet. With it the mean redundancy at 1 % loss is around the 9 % of the paper.
//! ESCOT is that paper's version of it (one block for each group of pictures), not the original, which runs on top of TCP. That the
//! receiver shows a group only when it is complete is the lab's `recovery = "group"`; the product shows every frame that it has. Both
//! assume losses that are unrelated to a full queue: the paper's loss ratio counts all, so on a path that is too
//! narrow redundancy increases the losses that it protects against.

use super::{Basis, FrameFacts, Plan, RedundancyPolicy};

/// No redundancy is added.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRedundancy;

impl RedundancyPolicy for NoRedundancy {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        Plan::simple(Basis::Nothing, 0, facts.rounds())
    }

    fn reach(&self) -> u8 {
        0
    }
}

/// A fixed share of redundancy for every frame, rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// The share in percent, 0 to 200.
    pub percent: u16,
}

impl RedundancyPolicy for Fixed {
    fn name(&self) -> String {
        format!("fixed:{}", self.percent)
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        let repairs = (u32::from(facts.sources) * u32::from(self.percent)).div_ceil(100);
        Plan::simple(Basis::Share, to_count(f64::from(repairs)), facts.rounds())
    }
}

/// Frames from one refresh to the next if none is scheduled (section 6.2).
pub const NEBULA_GROUP: u32 = 10;
/// The highest loss taken into account: beyond it, no capacity would remain for media. Guess.
const MAX_LOSS: f64 = 0.5;
/// The weight of a frame's place in its group, for each unit of loss. Guess: twice the protection for the first frame at 1 %.
const WEIGHT_PER_LOSS: f64 = 100.0;
/// The highest weight, reached at a loss of 4 %. Guess.
const MAX_WEIGHT: f64 = 4.0;
/// Excess of a group's block over its expected losses, as a share of them. Guess: that of [`Nebula`]'s frame in the middle of a group at
/// 1 % loss.
const GROUP_WEIGHT: f64 = 0.5;

/// Nebula's redundancy: the number of repairs of frame `index` of a group of `group`, divided into `sources` packets of which the share
/// `loss` is lost: `max(1, k p / (1 - p) (1 + w (G - i) / G))`, rounded up.
#[must_use]
pub fn nebula_repairs(sources: u16, loss: f64, index: u32, group: u32) -> u16 {
    let group = group.max(1);
    let loss = loss.clamp(0.0, MAX_LOSS);
    let left = f64::from(group - index % group) / f64::from(group);
    let weight = (WEIGHT_PER_LOSS * loss).min(MAX_WEIGHT);
    let expected = f64::from(sources) * loss / (1.0 - loss);
    to_count((expected * (1.0 + weight * left)).ceil()).max(1)
}

/// ESCOT's redundancy: repairs per packet of a block of which the share `loss` is lost.
#[must_use]
pub fn escot_repairs_per_packet(loss: f64) -> f64 {
    let loss = loss.clamp(0.0, MAX_LOSS);
    loss / (1.0 - loss) * (1.0 + GROUP_WEIGHT)
}

/// More repairs for frames on which more others depend, and at least one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nebula;

impl RedundancyPolicy for Nebula {
    fn name(&self) -> String {
        "nebula".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        let group = if facts.group == 0 { NEBULA_GROUP } else { facts.group };
        let repairs = nebula_repairs(facts.sources, facts.losses.beside_queues(), facts.index, group);
        Plan::simple(Basis::Distance, repairs, facts.rounds())
    }
}

/// One block for a whole group of pictures: its repairs follow the last frame, and the receiver waits for the block.
#[derive(Clone, Copy, Debug, Default)]
pub struct EscotGop {
    /// Symbols of the group so far.
    sources: u32,
    frames: u8,
}

impl RedundancyPolicy for EscotGop {
    fn name(&self) -> String {
        "escot-gop".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        if facts.key {
            *self = Self::default();
        }
        self.sources += u32::from(facts.sources);
        self.frames = self.frames.saturating_add(1);
        let group = if facts.group == 0 { NEBULA_GROUP } else { facts.group };
        // A group that is longer than a repair may cover is protected in parts.
        let longest = group.min(u32::from(facts.window.max(1)));
        let ends = facts.until_refresh() == Some(1) || u32::from(self.frames) >= longest;
        let mut repairs = 0;
        let cover = self.frames;
        if ends {
            repairs =
                to_count((f64::from(self.sources) * escot_repairs_per_packet(facts.losses.beside_queues())).ceil());
            *self = Self::default();
        }
        Plan { cover, ..Plan::simple(Basis::Group, repairs, facts.rounds()) }
    }

    fn reach(&self) -> u8 {
        NEBULA_GROUP as u8
    }
}

/// A number of repairs, limited by the range of repair numbers.
fn to_count(repairs: f64) -> u16 {
    repairs.clamp(0.0, f64::from(u16::MAX)) as u16
}
