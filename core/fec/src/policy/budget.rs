//! The planner on an allowance: the weight of a damaged frame is adjusted until the planner spends its allowance.
//!
//! With a share of the media as its allowance it protects the frames that gain most from it and leaves the others to requests. With
//! the redundancy of Nebula's rule as its allowance, it shows the effect of distributing that redundancy differently. An unspent allowance
//! may be spent later, and nothing is planned beyond it. Requests are answered in any case, at the expense of the plan: an allowance below
//! their cost is exceeded.
//! take is not kept.

use super::{FrameFacts, Nebula, Plan, Planner, RateDistortion, RedundancyPolicy, Shortage};

/// The source of the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    /// At most this percentage of each frame's symbols. The planner spends less if more does not pay off.
    Percent(u16),
    /// As much as Nebula's rule sends with the frames.
    Nebula,
}

/// Weight of a frame in the means of allowed and spent repairs. Guess: two seconds at 30 frames a second.
const FRAME_WEIGHT: f64 = 1.0 / 64.0;
/// Maximum change of the logarithm of the weight per frame. Guess: a factor of two in 7 frames.
const MAX_LOG_STEP: f64 = 0.1;
/// The weight stays within this factor of the planner's own: beyond it, an allowance left by a clean path would be spent at once
/// when losses occur. Guess.
const MAX_WORTH_FACTOR: f64 = 100.0;
/// If the full allowance is to be spent, this many frames' share of it is reserved for requests and for frames that gain more. Guess.
const RESERVED_FRAMES: f64 = 4.0;
/// A smaller allowance, in repairs per frame, is not compared with. Guess.
const MIN_ALLOWANCE: f64 = 0.05;

/// The policy.
#[derive(Clone, Debug)]
pub struct Budget {
    planner: Planner,
    allowance: Allowance,
    /// The weight of a damaged frame, relative to the planner's own.
    worth: f64,
    /// Allowed and unspent repairs.
    left: f64,
    /// Repairs allowed since the newest frame.
    allowed: f64,
    spent: f64,
    mean_allowed: f64,
    mean_spent: f64,
}

impl Budget {
    /// Makes a policy that spends at most this percentage, on average.
    #[must_use]
    pub fn percent(percent: u16) -> Self {
        Self::new(Allowance::Percent(percent))
    }

    /// Makes a policy that spends as many repairs as Nebula's rule.
    #[must_use]
    pub fn as_nebula() -> Self {
        Self::new(Allowance::Nebula)
    }

    fn new(allowance: Allowance) -> Self {
        let planner = Planner::default();
        Self { planner, allowance, worth: 1.0, left: 0.0, allowed: 0.0, spent: 0.0, mean_allowed: 0.0, mean_spent: 0.0 }
    }

    fn facts(&self, facts: &FrameFacts) -> FrameFacts {
        let distortion = RateDistortion { freeze: facts.distortion.freeze * self.worth, ..facts.distortion };
        FrameFacts { distortion, ..*facts }
    }

    /// Ends a frame by comparing its redundancy with its allowance.
    fn settle(&mut self) {
        let (allowed, spent) = (std::mem::take(&mut self.allowed), std::mem::take(&mut self.spent));
        self.mean_allowed += (allowed - self.mean_allowed) * FRAME_WEIGHT;
        self.mean_spent += (spent - self.mean_spent) * FRAME_WEIGHT;
        let scale = self.mean_allowed.max(MIN_ALLOWANCE);
        // An old surplus does not justify waste.
        let most = scale / FRAME_WEIGHT;
        self.left = (self.left + allowed - spent).clamp(-most, most);
        let pressure = (self.mean_allowed - self.mean_spent) / scale + self.left / most / 2.0;
        let highest = if self.allowance == Allowance::Nebula { MAX_WORTH_FACTOR } else { 1.0 };
        self.worth =
            (self.worth * libm::exp(MAX_LOG_STEP * pressure.clamp(-1.0, 1.0))).clamp(1.0 / MAX_WORTH_FACTOR, highest);
    }
}

impl RedundancyPolicy for Budget {
    fn name(&self) -> String {
        match self.allowance {
            Allowance::Percent(percent) => format!("planner:{percent}"),
            Allowance::Nebula => "planner-as-nebula".to_owned(),
        }
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        self.settle();
        self.allowed += match self.allowance {
            Allowance::Percent(percent) => f64::from(facts.sources) * f64::from(percent) / 100.0,
            Allowance::Nebula => f64::from(Nebula.plan(facts).repairs),
        };
        let plan = self.planner.plan(&self.facts(facts));
        let affordable = self.left + self.allowed;
        let due = match self.allowance {
            Allowance::Percent(_) => 0.0,
            Allowance::Nebula => affordable - RESERVED_FRAMES * self.mean_allowed,
        };
        let plan = plan.at_least(due.max(0.0) as u16).at_most(affordable.max(0.0) as u16);
        self.spent += f64::from(plan.repairs);
        plan
    }

    fn answer(&mut self, shortage: &Shortage) -> Option<u16> {
        let answer = self.planner.answer(&Shortage { facts: self.facts(&shortage.facts), ..*shortage })?;
        self.spent += f64::from(answer);
        Some(answer)
    }

    fn reach(&self) -> u8 {
        self.planner.reach()
    }
}
