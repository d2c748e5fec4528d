//! Packet loss in bursts: Gilbert's two-state model, and the exact distribution of losses in a run of packets.
//!
//! E. N. Gilbert, Capacity of a burst-noise channel, 1960, with every packet lost in the bad state and none in the good one.

use serde::Serialize;

/// A process of losses of consecutive packets: their share, and their mean run length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossProcess {
    /// Share of packets that are lost, 0 to [`LossProcess::MAX_LOSS`].
    pub loss: f64,
    /// Mean length of a run of lost packets, from 1 (never two, beyond chance) to [`LossProcess::MAX_BURST`].
    pub burst: f64,
}

impl LossProcess {
    /// Maximum share of losses: above it, redundancy cannot make a path usable. Guess: half.
    pub const MAX_LOSS: f64 = 0.5;
    /// Maximum mean length of runs: longer ones are outages. Guess: more than a frame at most rates.
    pub const MAX_BURST: f64 = 64.0;
    /// No losses.
    pub const CLEAN: Self = Self { loss: 0.0, burst: 1.0 };

    /// The nearest process within the bounds. NaN counts as no loss.
    #[must_use]
    pub fn new(loss: f64, burst: f64) -> Self {
        let loss = if loss > 0.0 { loss.min(Self::MAX_LOSS) } else { 0.0 };
        // The mean run cannot be shorter than with independent losses, where it is 1 / (1 - loss).
        let shortest = 1.0 / (1.0 - loss);
        let burst = if burst > shortest { burst.min(Self::MAX_BURST) } else { shortest };
        Self { loss, burst }
    }

    /// A process of independent losses.
    #[must_use]
    pub fn independent(loss: f64) -> Self {
        Self::new(loss, 1.0)
    }

    /// Probability of a transition from the good state to the bad one, per packet.
    fn begins(self) -> f64 {
        self.loss * self.ends() / (1.0 - self.loss)
    }

    /// Probability of a transition from the bad state to the good one, per packet.
    fn ends(self) -> f64 {
        1.0 / self.burst
    }

    /// The process as seen by packets that leave `factor` times as far apart: pacing makes bursts shorter.
    #[must_use]
    pub fn spaced(self, factor: f64) -> Self {
        let memory = (1.0 - self.begins() - self.ends()).max(0.0).powf(factor.max(0.0));
        let ends = (1.0 - self.loss) * (1.0 - memory);
        Self::new(self.loss, 1.0 / ends.max(1.0 / Self::MAX_BURST))
    }

    /// Whether it is within a few percent of another, so that a table for that one still serves.
    #[must_use]
    pub(crate) fn is_near(self, other: Self) -> bool {
        /// Estimates change by this share between two reports of an unchanged path: with 50 losses in memory the standard
        /// deviation of their share is a seventh.
        const NEAR_TOLERANCE: f64 = 0.15;
        let near = |left: f64, right: f64| (left - right).abs() <= NEAR_TOLERANCE * right;
        near(self.loss, other.loss) && near(self.burst, other.burst)
    }
}

/// Maximum number of packets in a table. Longer frames are planned like ones of this length. Guess: 1.2 MB,
/// 300 Mb/s at 30 frames a second.
pub(crate) const MAX_PACKETS: usize = 1_024;
/// Maximum number of losses that a table distinguishes. Guess: an eighth of the longest frame.
pub(crate) const MAX_LOSSES: usize = 128;

/// P(more than j of n consecutive packets are lost), for every n and j, computed as far as requested.
///
/// The recursion takes the n packets one by one and tracks the number of losses so far together with the state. Packet n costs
/// [`MAX_LOSSES`] steps once. Then every query is a look-up.
#[derive(Clone, Debug)]
pub struct LossTable {
    process: LossProcess,
    good: Vec<f64>,
    bad: Vec<f64>,
    /// Row n holds P(lost > j) for j below [`MAX_LOSSES`].
    more_than: Vec<f32>,
}

impl LossTable {
    /// Makes a table for packets that meet the process at a random moment.
    #[must_use]
    pub fn new(process: LossProcess) -> Self {
        let mut good = vec![0.0; MAX_LOSSES];
        let mut bad = vec![0.0; MAX_LOSSES];
        good[0] = 1.0 - process.loss;
        bad[0] = process.loss;
        Self { process, good, bad, more_than: vec![0.0; MAX_LOSSES] }
    }

    #[must_use]
    pub fn process(&self) -> LossProcess {
        self.process
    }

    /// P(more than `allowed` of `packets` are lost): with `allowed` repairs among them, the probability that a frame cannot be recovered.
    pub fn more_than(&mut self, packets: usize, allowed: usize) -> f64 {
        let packets = packets.min(MAX_PACKETS);
        if allowed >= packets || allowed >= MAX_LOSSES {
            return 0.0;
        }
        while self.more_than.len() <= packets * MAX_LOSSES {
            self.extend();
        }
        f64::from(self.more_than[packets * MAX_LOSSES + allowed])
    }

    /// P(exactly `lost` of `packets` are lost).
    pub fn exactly(&mut self, packets: usize, lost: usize) -> f64 {
        let at_least = if lost == 0 { 1.0 } else { self.more_than(packets, lost - 1) };
        (at_least - self.more_than(packets, lost)).max(0.0)
    }

    /// Extends the table by one packet.
    fn extend(&mut self) {
        let (begins, ends) = (self.process.begins(), self.process.ends());
        let mut total = 0.0;
        let mut one_less = 0.0;
        for (good, bad) in self.good.iter_mut().zip(&mut self.bad) {
            // A packet sent in the good state arrives, in the bad state it is lost. Then the state changes.
            let (arrives, lost) = (*good, one_less);
            one_less = *bad;
            *good = arrives * (1.0 - begins) + lost * ends;
            *bad = arrives * begins + lost * (1.0 - ends);
            total += *good + *bad;
            self.more_than.push((1.0 - total).max(0.0) as f32);
        }
    }
}

/// P(a frame is incomplete) if each of n repairs is the exclusive or of every n-th packet, and recovers one loss among those.
///
/// The packets of one repair leave as far apart as there are repairs, so they meet the process [`LossProcess::spaced`]. Two bursts that
/// hit the same repair hit neighbours as well, `burst²/(2 burst - 1)` repairs at a time on average (two runs of geometric length at a
/// random offset, given that they overlap). So repairs fail together that much less often than if they were independent.
#[derive(Clone, Debug)]
pub struct Interleaved {
    process: LossProcess,
    /// Tables by the number of repairs, made as far as requested.
    spaced: Vec<LossTable>,
}

impl Interleaved {
    #[must_use]
    pub fn new(process: LossProcess) -> Self {
        Self { process, spaced: Vec::new() }
    }

    /// P(failure) with this many repairs after `sources` packets. At most one repair per packet counts.
    pub fn fails(&mut self, sources: usize, repairs: usize) -> f64 {
        let repairs = repairs.min(sources).min(MAX_LOSSES);
        if repairs == 0 {
            return self.spaced(1).more_than(sources, 0);
        }
        let (each, longer) = (sources / repairs, sources % repairs);
        let losses = self.spaced(repairs);
        let [short, long] = [each, each + 1].map(|covered| 1.0 - losses.more_than(covered + 1, 1));
        let burst = self.process.burst;
        let together = (burst * burst / (2.0 * burst - 1.0)).min(repairs as f64);
        1.0 - (short.powi((repairs - longer) as i32) * long.powi(longer as i32)).powf(1.0 / together)
    }

    fn spaced(&mut self, factor: usize) -> &mut LossTable {
        while self.spaced.len() < factor {
            let next = (self.spaced.len() + 1) as f64;
            self.spaced.push(LossTable::new(self.process.spaced(next)));
        }
        &mut self.spaced[factor - 1]
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg32;
    use rand_pcg::rand_core::{RngCore, SeedableRng};

    use super::*;

    /// A run of the two states; true for a lost packet.
    fn simulate(process: LossProcess, random: &mut Pcg32, packets: usize) -> Vec<bool> {
        let happens =
            |random: &mut Pcg32, probability: f64| f64::from(random.next_u32()) < probability * 4_294_967_296.0;
        let mut bad = happens(random, process.loss);
        (0..packets)
            .map(|_| {
                let lost = bad;
                bad = if bad { !happens(random, process.ends()) } else { happens(random, process.begins()) };
                lost
            })
            .collect()
    }

    #[test]
    fn independent_losses_are_binomial() {
        let mut losses = LossTable::new(LossProcess::independent(0.1));
        // 1 - 0.9^10 and 1 - 0.9^10 - 10 * 0.1 * 0.9^9
        assert!((losses.more_than(10, 0) - 0.651_321_6).abs() < 1e-6);
        assert!((losses.more_than(10, 1) - 0.263_901_1).abs() < 1e-6);
        assert!((losses.exactly(10, 1) - 0.387_420_5).abs() < 1e-6);
        assert!(losses.more_than(10, 10).abs() < f64::EPSILON);
        assert!((losses.exactly(3, 3) - 0.001).abs() < 1e-6);
    }

    /// The reference figures of R needed for a residual loss of 1e-2, 1e-3 and 1e-4, worked out independently.
    #[test]
    fn repairs_needed_match_the_published_table() {
        let table = [
            (0.01, 1.0, [[1, 1, 2], [1, 2, 3], [2, 3, 4], [4, 5, 7]]),
            (0.01, 4.0 / 3.0, [[1, 3, 5], [2, 4, 6], [4, 6, 8], [5, 8, 10]]),
            (0.01, 3.0, [[2, 8, 14], [4, 10, 16], [7, 14, 20], [11, 17, 24]]),
            (0.01, 8.0, [[3, 20, 37], [6, 24, 41], [14, 32, 50], [21, 39, 58]]),
            (0.05, 1.0, [[2, 3, 4], [3, 4, 5], [6, 8, 10], [11, 14, 16]]),
            (0.05, 3.0, [[6, 12, 18], [9, 15, 21], [14, 22, 29], [22, 31, 39]]),
            (0.05, 8.0, [[15, 33, 50], [19, 37, 55], [29, 49, 68], [41, 63, 84]]),
        ];
        for (loss, burst, rows) in table {
            let mut losses = LossTable::new(LossProcess::new(loss, burst));
            for (sources, expected) in [4, 10, 40, 100].into_iter().zip(rows) {
                let needed = [1e-2, 1e-3, 1e-4].map(|target| {
                    (0..MAX_LOSSES).find(|repairs| losses.more_than(sources + repairs, *repairs) <= target)
                });
                assert_eq!(needed, expected.map(Some), "{loss} {burst} {sources}");
            }
        }
    }

    #[test]
    fn the_table_agrees_with_simulation() {
        let trials = if cfg!(debug_assertions) { 20_000 } else { 300_000 };
        let mut random = Pcg32::seed_from_u64(11);
        for (loss, burst, packets, allowed) in
            [(0.01, 1.33, 12, 2), (0.03, 3.0, 48, 8), (0.05, 8.0, 30, 4), (0.2, 2.0, 5, 1)]
        {
            let process = LossProcess::new(loss, burst);
            let expected = LossTable::new(process).more_than(packets, allowed);
            let failed = (0..trials)
                .filter(|_| simulate(process, &mut random, packets).into_iter().filter(|lost| *lost).count() > allowed)
                .count();
            let deviation = (expected * (1.0 - expected) / f64::from(trials)).sqrt();
            let found = failed as f64 / f64::from(trials);
            assert!((found - expected).abs() < 4.0 * deviation, "{loss} {burst}: {found} {expected}");
        }
    }

    #[test]
    fn sums_of_every_so_manieth_packet_fail_as_often_as_in_simulation() {
        let trials = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
        let mut random = Pcg32::seed_from_u64(13);
        for (loss, burst, most) in [(0.02, 1.0, 1.1), (0.02, 1.33, 1.2), (0.05, 3.0, 1.35), (0.02, 8.0, 1.8)] {
            let process = LossProcess::new(loss, burst);
            for (sources, repairs) in [(12, 0), (12, 1), (12, 3), (13, 4), (30, 6), (4, 9)] {
                let expected = Interleaved::new(process).fails(sources, repairs);
                let repairs = repairs.min(sources);
                let fails = |lost: &[bool]| {
                    (0..repairs.max(1)).any(|repair| {
                        // The repairs go on with the packets' order: each is as far from its last one as those from each other.
                        let first = (sources + repair) % repairs.max(1);
                        let own = lost[..sources].iter().skip(first).step_by(repairs.max(1));
                        let own = own.filter(|lost| **lost).count();
                        own + usize::from(repairs > 0 && lost[sources + repair]) > usize::from(repairs > 0) && own > 0
                    })
                };
                let failed = (0..trials).filter(|_| fails(&simulate(process, &mut random, sources + repairs))).count();
                let found = failed as f64 / f64::from(trials);
                let noise = 4.0 * (found.max(1e-5) / f64::from(trials)).sqrt();
                assert!(
                    expected <= found * most + noise && expected >= found / most - noise,
                    "{loss} {burst}, {repairs} for {sources}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn runs_are_as_long_and_losses_as_frequent_as_asked_for() {
        let mut random = Pcg32::seed_from_u64(12);
        let process = LossProcess::new(0.02, 4.0);
        let run = simulate(process, &mut random, 2_000_000);
        let lost = run.iter().filter(|lost| **lost).count() as f64;
        let runs = run.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((lost / 2e6 - 0.02).abs() < 0.001, "{lost}");
        assert!((lost / runs - 4.0).abs() < 0.15, "{}", lost / runs);
    }

    #[test]
    fn packets_further_apart_meet_shorter_bursts() {
        let process = LossProcess::new(0.02, 8.0);
        let bursts = [0.5, 1.0, 2.0, 8.0, 1_000.0].map(|factor| process.spaced(factor).burst);
        assert!(bursts.is_sorted_by(|near, far| near > far), "{bursts:?}");
        assert!((bursts[1] - 8.0).abs() < 1e-9 && (bursts[4] - 1.0 / 0.98).abs() < 1e-9, "{bursts:?}");
    }

    #[test]
    fn bounds_hold_for_any_input() {
        for loss in [f64::NAN, -1.0, 0.0, 0.3, 2.0, f64::INFINITY] {
            for burst in [f64::NAN, -1.0, 0.0, 5.0, 1e9] {
                let process = LossProcess::new(loss, burst);
                assert!((0.0..=LossProcess::MAX_LOSS).contains(&process.loss), "{process:?}");
                assert!((1.0..=LossProcess::MAX_BURST).contains(&process.burst), "{process:?}");
                let mut losses = LossTable::new(process);
                assert!((0.0..=1.0).contains(&losses.more_than(5_000, 3)));
            }
        }
    }
}
