//! Redundancy as an investment: compares a repair's cost with its benefit, by exact dynamic programming.
//!
//! All costs are in packets. A packet's price is the quality that the encoder loses with its bits ([`RateDistortion::price`]). The
//! damage of a frame that is incomplete at its deadline is the error on this frame and the following ones until the picture has recovered,
//! divided by that price. Probabilities are exact for the loss process ([`LossTable`]).
//!
//! - *Block*: R repairs are sent with the frame. The cost is R + P(more than R of K + R lost) times the damage until a late answer
//!   repairs it.
//! - *Demand*: if m round trips fit before the deadline, a frame that lacks x symbols is answered with x + r, and
//!   `V_m(x) = min over r of x + r + sum over j of P(j of x + r lost) V_(m-1)(max(0, j - r))`, with `V_m(0)` = 0 and the damage for
//!   x > 0 when no round is left. Rounds count as independent of each other.
//! - *Window*: repairs cover the previous frames as well, and may be sent with every n-th frame only. h frames later the frame is recovered
//!   if the losses of h + 1 frames do not exceed the repairs of that time, so each later frame's damage counts with
//!   P(more than e R of (h + 1) K + e R lost), where e of the h + 1 frames came with repairs.
//!
//! A frame that another loss would spoil anyway needs no protection: the saved cost of such frames is subtracted from the damage.

use super::{Basis, Candidate, DETECTION_TIME, FrameFacts, Plan, RateDistortion, RedundancyPolicy, Shortage};
use crate::estimate::LossSummary;
use crate::gilbert::{Interleaved, LossProcess, LossTable, MAX_LOSSES};

/// Maximum number of repairs considered: as many losses as the tables distinguish.
const MAX_REPAIRS: usize = MAX_LOSSES - 1;

/// Maximum number of missing symbols in a table of answers. More are answered in proportion. Guess: beyond
/// it the share that is lost again hardly varies.
const MAX_ANSWER: usize = 48;

/// Number of packets missing when a parity sum could not recover them: nearly always two of those it covers.
const MISSING_PER_FAILED_SUM: usize = 2;

/// Share of an error that remains one frame later, even without recovery, because prediction filters blur it. Guess: half after 35.
const LEAK: f64 = 0.98;

/// Maximum number of damaged frames, with or without refresh. Guess: after that a receiver has requested a key frame.
const MAX_DAMAGE: u32 = 120;

/// Number of previous frames that a window covers. Measured in simulation: more change the residual loss by less than 1 %.
const WINDOW_FRAMES: u8 = 4;

/// A window spends symbols that its newest frame could have used: at the frame's own deadline it fails this much more often than a
/// block. Measured in simulation: 0 to 20 %.
const WINDOW_FAILURE_RATIO: f64 = 1.1;

/// Window repairs accompany every frame, or one in this many, because small frames and expensive packets need less than one repair each.
const PERIODS: [u8; 3] = [1, 2, 4];

/// Prices and damages within this factor share a table of answers, and a window. Guess: the best answer changes by a symbol at most.
const MAX_PRICE_RATIO: f64 = 1.2;

/// Number of windows remembered, by the frame's number of symbols: frames of a stream have few sizes.
const MAX_WINDOWS: usize = 64;

/// The best window for a kind of frame, under one loss process.
#[derive(Clone, Copy, Debug)]
struct BestWindow {
    sources: u16,
    reach: u8,
    frames: u32,
    first: f64,
    candidate: Candidate,
    period: u8,
}

/// Answers for a frame that lacks symbols, for one loss process and damage.
#[derive(Clone, Debug)]
struct Answers {
    damage: f64,
    /// For each number of rounds left after the answer: cost and symbols to send, for each number of missing symbols.
    rounds: Vec<Vec<(f64, u16)>>,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Planner {
    losses: LossTable,
    interleaved: Interleaved,
    answers: Answers,
    windows: [Option<BestWindow>; MAX_WINDOWS],
    /// The average cost of the frames so far, in packets.
    mean_cost: f64,
    /// Frames since the last one that was sent with repairs.
    unprotected: u8,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            losses: LossTable::new(LossProcess::CLEAN),
            interleaved: Interleaved::new(LossProcess::CLEAN),
            answers: Answers { damage: 0.0, rounds: Vec::new() },
            windows: [None; MAX_WINDOWS],
            mean_cost: 0.0,
            unprotected: 0,
        }
    }
}

impl RedundancyPolicy for Planner {
    fn name(&self) -> String {
        "planner".to_owned()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        self.set_process(&facts.losses);
        let late = Damage::of(facts, late_answer(facts), self.mean_cost);
        let rounds = facts.rounds();
        let mut candidates = [None; 3];
        candidates[0] = Some(self.nothing(facts, &late));
        candidates[1] = Some(self.block(facts, &late));
        let mut period = 1;
        if rounds > 0 {
            candidates[2] = Some(self.demand(facts, &late, rounds));
        } else if facts.window > 1 && !facts.key {
            let (candidate, every) = self.window(facts, &late);
            candidates[2] = Some(candidate);
            period = every;
        }
        let best = candidates.into_iter().flatten().min_by(|left, right| left.cost.total_cmp(&right.cost));
        let best = best.unwrap_or(Candidate { basis: Basis::Nothing, repairs: 0, cost: 0.0 });
        // A frame's cost is remembered for about as long as an error lasts.
        self.mean_cost += (best.cost.min(f64::from(u16::MAX)) - self.mean_cost) / 32.0;
        let cover = if best.basis == Basis::Window { facts.window.min(WINDOW_FRAMES) } else { 1 };
        let repairs = self.due(&best, period);
        let expected_loss = self.expected_loss(facts, &Candidate { repairs, ..best }, rounds);
        Plan {
            basis: best.basis,
            repairs,
            cover,
            rounds,
            on_demand: true,
            expected_loss: Some(expected_loss),
            candidates,
        }
    }

    fn answer(&mut self, shortage: &Shortage) -> Option<u16> {
        let facts = &shortage.facts;
        self.set_process(&facts.losses);
        let late = Damage::of(facts, late_answer(facts), self.mean_cost);
        // This answer's own transit time is subtracted from the time left.
        let after = facts.rounds();
        let needed = usize::from(shortage.needed.saturating_sub(shortage.underway));
        if needed == 0 {
            return Some(0);
        }
        self.prepare_answers(late.total, after);
        let row = &self.answers.rounds[usize::from(after)];
        let symbols = match row.get(needed) {
            Some((_, symbols)) => u32::from(*symbols),
            None => needed as u32 * u32::from(row[MAX_ANSWER].1) / MAX_ANSWER as u32,
        };
        Some(symbols.min(u32::from(u16::MAX)) as u16)
    }

    fn reach(&self) -> u8 {
        WINDOW_FRAMES
    }
}

impl Planner {
    fn set_process(&mut self, losses: &LossSummary) {
        if !losses.random.is_near(self.losses.process()) {
            self.losses = LossTable::new(losses.random);
            self.interleaved = Interleaved::new(losses.random);
            self.answers.rounds.clear();
            self.windows = [None; MAX_WINDOWS];
        }
    }

    /// The candidate without repairs before a late answer: the reference for the other plans.
    fn nothing(&mut self, facts: &FrameFacts, late: &Damage) -> Candidate {
        let cost = self.losses.more_than(usize::from(facts.sources), 0) * late.total;
        Candidate { basis: Basis::Nothing, repairs: 0, cost }
    }

    fn block(&mut self, facts: &FrameFacts, late: &Damage) -> Candidate {
        let (repairs, cost) = cheapest(|repairs| self.fails(facts, repairs) * late.total);
        Candidate { basis: Basis::Block, repairs, cost }
    }

    /// P(the frame is incomplete) with this many repairs after it.
    fn fails(&mut self, facts: &FrameFacts, repairs: usize) -> f64 {
        let sources = usize::from(facts.sources);
        if facts.interleaved {
            return self.interleaved.fails(sources, repairs);
        }
        self.losses.more_than(sources + repairs, repairs)
    }

    /// The best number of repairs that cover several frames, and the share of frames that they accompany.
    fn window(&mut self, facts: &FrameFacts, late: &Damage) -> (Candidate, u8) {
        let reach = facts.window.min(WINDOW_FRAMES);
        let place = usize::from(facts.sources) % MAX_WINDOWS;
        let serves = |known: &BestWindow| {
            (known.sources, known.reach, known.frames) == (facts.sources, reach, late.frames)
                && is_same_price(late.first / known.first)
        };
        if let Some(known) = self.windows[place].filter(serves) {
            return (known.candidate, known.period);
        }
        let (candidate, period) = self.best_window(facts, late, reach);
        let Damage { first, frames, .. } = *late;
        self.windows[place] = Some(BestWindow { sources: facts.sources, reach, frames, first, candidate, period });
        (candidate, period)
    }

    fn best_window(&mut self, facts: &FrameFacts, late: &Damage, reach: u8) -> (Candidate, u8) {
        let mut best = (Candidate { basis: Basis::Window, repairs: 0, cost: f64::INFINITY }, 1);
        for period in PERIODS.into_iter().filter(|period| *period <= reach) {
            let cycle = f64::from(period);
            // The search counts packets: damages to all frames of the cycle against the cycle's repairs.
            let (repairs, cost) = cheapest(|repairs| {
                (0..period).map(|place| self.window_damage(facts, late, repairs, [place, period, reach])).sum()
            });
            if cost / cycle < best.0.cost {
                best = (Candidate { basis: Basis::Window, repairs, cost: cost / cycle }, period);
            }
        }
        best
    }

    /// Expected damage of losing the frame at `place` in a cycle of `period` frames, of which the last one is sent with repairs.
    fn window_damage(&mut self, facts: &FrameFacts, late: &Damage, repairs: usize, cycle: [u8; 3]) -> f64 {
        let [place, period, reach] = cycle.map(usize::from);
        let sources = usize::from(facts.sources);
        let mut damage = 0.0;
        for (later, share) in late.shares().enumerate() {
            let frames = later.min(reach - 1) + 1;
            let equations = (place + frames) / period * repairs;
            // Without any repair yet, only the frame's own losses count.
            let symbols = if equations == 0 { sources } else { frames * sources + equations };
            let missing = self.losses.more_than(symbols, equations);
            damage += share * missing * if later == 0 { WINDOW_FAILURE_RATIO } else { 1.0 };
        }
        damage
    }

    /// Number of the chosen repairs that are due with this frame.
    fn due(&mut self, chosen: &Candidate, period: u8) -> u16 {
        let due = chosen.basis != Basis::Window || self.unprotected + 1 >= period;
        self.unprotected = if due { 0 } else { self.unprotected + 1 };
        if due { chosen.repairs } else { 0 }
    }

    fn demand(&mut self, facts: &FrameFacts, late: &Damage, rounds: u8) -> Candidate {
        self.prepare_answers(late.total, rounds - 1);
        let Self { losses, interleaved, answers, .. } = self;
        let row = &answers.rounds[usize::from(rounds - 1)];
        let sources = usize::from(facts.sources);
        let mut sums = facts.interleaved.then_some(interleaved);
        let worth = |missing: usize| row[missing.min(MAX_ANSWER)].0;
        let (repairs, cost) = cheapest(|repairs| left(losses, sums.as_deref_mut(), sources, repairs, worth));
        Candidate { basis: Basis::Demand, repairs, cost }
    }

    /// Computes the tables of answers with up to `after` rounds left after them.
    fn prepare_answers(&mut self, damage: f64, after: u8) {
        let ratio = damage / self.answers.damage;
        if !is_same_price(ratio) {
            self.answers = Answers { damage, rounds: Vec::new() };
        }
        let Self { losses, answers, .. } = self;
        let damage = answers.damage;
        while answers.rounds.len() <= usize::from(after) {
            let before = answers.rounds.last();
            let worth = |missing: usize| match (before, missing) {
                (_, 0) => 0.0,
                (None, _) => damage,
                (Some(row), _) => row[missing.min(MAX_ANSWER)].0,
            };
            let mut row = vec![(0.0, 0)];
            for needed in 1..=MAX_ANSWER {
                let (extra, cost) = cheapest(|extra| expected(losses, needed + extra, extra, worth));
                row.push((needed as f64 + cost, needed as u16 + extra));
            }
            answers.rounds.push(row);
        }
    }

    /// Probability that the frame is incomplete at its deadline.
    fn expected_loss(&mut self, facts: &FrameFacts, chosen: &Candidate, rounds: u8) -> f64 {
        let (sources, repairs) = (usize::from(facts.sources), usize::from(chosen.repairs));
        if chosen.basis != Basis::Demand {
            return self.fails(facts, repairs);
        }
        let Self { losses, interleaved, answers, .. } = self;
        let mut fails: Vec<f64> = (0..=MAX_ANSWER).map(|missing| f64::from(u8::from(missing > 0))).collect();
        for row in &answers.rounds[..usize::from(rounds)] {
            let next = |needed: usize, losses: &mut LossTable| {
                let sent = usize::from(row[needed].1);
                expected(losses, sent, sent - needed, |missing| fails[missing.min(MAX_ANSWER)])
            };
            fails = (0..=MAX_ANSWER).map(|needed| if needed == 0 { 0.0 } else { next(needed, losses) }).collect();
        }
        let sums = facts.interleaved.then_some(interleaved);
        left(losses, sums, sources, repairs, |missing| fails[missing.min(MAX_ANSWER)])
    }
}

fn is_same_price(ratio: f64) -> bool {
    (1.0 / MAX_PRICE_RATIO..MAX_PRICE_RATIO).contains(&ratio)
}

/// Returns the number of repairs with the least cost, and that cost: their own, and the remaining `damage`.
///
/// The cost may rise before its minimum (a few repairs may not be enough for a burst), so the search continues until
/// repairs alone cost more than the best so far.
fn cheapest(mut damage: impl FnMut(usize) -> f64) -> (u16, f64) {
    let mut best = (0, f64::INFINITY);
    for repairs in 0..=MAX_REPAIRS {
        if repairs as f64 >= best.1 {
            break;
        }
        let cost = repairs as f64 + damage(repairs);
        if cost < best.1 {
            best = (repairs as u16, cost);
        }
    }
    best
}

/// Expectation of `worth` of the missing symbols of a frame sent with so many repairs, which are parity sums or recover any symbol.
fn left(
    losses: &mut LossTable,
    sums: Option<&mut Interleaved>,
    sources: usize,
    repairs: usize,
    worth: impl Fn(usize) -> f64,
) -> f64 {
    match sums {
        Some(sums) if repairs > 0 => sums.fails(sources, repairs) * worth(MISSING_PER_FAILED_SUM),
        _ => expected(losses, sources + repairs, repairs, worth),
    }
}

/// Expectation of `worth` of the missing symbols, when `sent` are sent and `spare` may be lost.
fn expected(losses: &mut LossTable, sent: usize, spare: usize, mut worth: impl FnMut(usize) -> f64) -> f64 {
    /// Rarer events do not change decisions: damages are below a million packets.
    const NEGLIGIBLE: f64 = 1e-9;
    let mut sum = 0.0;
    let mut more = losses.more_than(sent, spare);
    for lost in spare + 1..=sent {
        if more <= NEGLIGIBLE || lost >= MAX_LOSSES {
            break;
        }
        let beyond = losses.more_than(sent, lost);
        sum += (more - beyond).max(0.0) * worth(lost - spare);
        more = beyond;
    }
    sum
}

/// Number of frames from a loss until a late answer to it has restored the picture.
fn late_answer(facts: &FrameFacts) -> u32 {
    let interval = facts.interval.as_nanos().max(1);
    let frames = (facts.round_trip + DETECTION_TIME).as_nanos() / interval + 1;
    (frames.clamp(1, i64::from(MAX_DAMAGE)) as u32).min(facts.until_refresh().unwrap_or(MAX_DAMAGE))
}

/// The cost of a missing frame, in packets.
struct Damage {
    /// Damage on the frame itself. With each later frame it is multiplied by [`LEAK`].
    first: f64,
    frames: u32,
    total: f64,
}

impl Damage {
    /// The damage of a frame whose loss is recovered after `frames`. Frames that are spoiled with it save their own `mean_cost`.
    fn of(facts: &FrameFacts, frames: u32, mean_cost: f64) -> Self {
        let RateDistortion { freeze, .. } = facts.distortion;
        let first = freeze / facts.distortion.price(facts.rate, facts.interval, facts.packet).max(1e-9);
        let sum = first * (1.0 - LEAK.powi(frames as i32)) / (1.0 - LEAK);
        let saved = f64::from(frames.saturating_sub(1)) * mean_cost;
        // The damage includes at least the frame itself, and is capped.
        Self { first, frames, total: (sum - saved).max(first).min(1e6) }
    }

    /// The damage on the frame and on each later one.
    fn shares(&self) -> impl Iterator<Item = f64> {
        let first = self.first;
        (0..self.frames as i32).map(move |later| first * LEAK.powi(later))
    }
}
