//! Allegro: pairs of trials, and steps of growing size in the direction that won.

use nearlight_units::Bitrate;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::{Chooser, IntervalResult, clamp_rate};

/// Bounds of the difference between the rates of a pair and the base, as shares (section 3.2).
const MIN_STEP: f64 = 0.01;
const MAX_STEP: f64 = 0.05;
/// Share of losses above which the utility of throughput vanishes (section 2.2),
const LOSS_THRESHOLD: f64 = 0.05;
/// and the steepness of that sigmoid.
const SIGMOID_STEEPNESS: f64 = 100.0;
/// Maximum number of steps by which the step size grows in one direction. Guess: a tenth of the rate.
const MAX_STEPS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Doubles the rate until the utility falls. Holds the last utility.
    Starting { before: Option<f64> },
    /// Runs two pairs of trials.
    Deciding,
    /// Takes ever larger steps up or down.
    Moving { up: bool, steps: u32, before: f64, from: Bitrate },
}

/// Mark of a trial that is not part of a pair; only one of them is in progress at a time.
const SINGLE: u32 = 0;
/// Marks of the trials of two pairs: bit 0 says whether it is the higher rate, bit 1 which pair.
const PAIRS: u32 = 4;

/// The law: loss-based utility, and trials in pairs.
#[derive(Debug)]
pub struct Allegro {
    random: Pcg32,
    base: Bitrate,
    state: State,
    step: f64,
    waiting: Vec<(Bitrate, u32)>,
    results: [Option<f64>; 4],
}

impl Allegro {
    pub(super) fn new(base: Bitrate, seed: u64) -> Self {
        let mut allegro = Self {
            random: Pcg32::seed_from_u64(seed),
            base: clamp_rate(base),
            state: State::Starting { before: None },
            step: MIN_STEP,
            waiting: Vec::new(),
            results: [None; 4],
        };
        allegro.waiting.push((allegro.base, SINGLE));
        allegro
    }

    fn decide(&mut self) {
        self.state = State::Deciding;
        self.results = [None; 4];
        self.waiting.clear();
        // Trials are taken from the end.
        for pair in 0..2 {
            let first = u32::from(self.random.random::<bool>());
            for higher in [first, 1 - first] {
                self.waiting.push((self.rate_of(higher), PAIRS + 2 * pair + higher));
            }
        }
    }

    fn rate_of(&self, higher: u32) -> Bitrate {
        clamp_rate(self.base.mul_f64(if higher == 1 { 1.0 + self.step } else { 1.0 - self.step }))
    }

    fn on_pair(&mut self, index: usize, utility: f64) {
        self.results[index] = Some(utility);
        let [Some(lower), Some(higher), Some(lower_again), Some(higher_again)] = self.results else { return };
        match (higher > lower, higher_again > lower_again) {
            (true, true) => self.start_moving(true, higher.min(higher_again)),
            (false, false) => self.start_moving(false, lower.min(lower_again)),
            _ => {
                self.step = (self.step + MIN_STEP).min(MAX_STEP);
                self.decide();
            }
        }
    }

    fn start_moving(&mut self, up: bool, utility: f64) {
        let from = self.base;
        self.base = self.rate_of(u32::from(up));
        self.step = MIN_STEP;
        self.state = State::Moving { up, steps: 0, before: utility, from };
        self.move_on(up, 0, utility);
    }

    fn move_on(&mut self, up: bool, steps: u32, before: f64) {
        let from = self.base;
        let steps = (steps + 1).min(MAX_STEPS);
        let share = f64::from(steps) * MIN_STEP;
        self.base = clamp_rate(from.mul_f64(if up { 1.0 + share } else { 1.0 - share }));
        self.state = State::Moving { up, steps, before, from };
        self.waiting.clear();
        self.waiting.push((self.base, SINGLE));
    }

    fn on_single(&mut self, utility: f64) {
        match self.state {
            State::Starting { before } if before.is_none_or(|before| utility > before) => {
                self.state = State::Starting { before: Some(utility) };
                let next = clamp_rate(self.base.mul_f64(2.0));
                if next == self.base {
                    self.decide();
                } else {
                    self.base = next;
                    self.waiting.clear();
                    self.waiting.push((next, SINGLE));
                }
            }
            State::Starting { .. } => {
                self.base = clamp_rate(self.base.mul_f64(0.5));
                self.decide();
            }
            State::Moving { up, steps, before, .. } if utility > before => self.move_on(up, steps, utility),
            State::Moving { from, .. } => {
                self.base = from;
                self.decide();
            }
            State::Deciding => {}
        }
    }
}

impl Chooser for Allegro {
    fn name(&self) -> &'static str {
        "pcc-allegro"
    }

    fn poll_trial(&mut self) -> Option<(Bitrate, u32)> {
        self.waiting.pop()
    }

    fn base(&self) -> Bitrate {
        self.base
    }

    /// The utility (section 2.2): throughput times a sigmoid that falls with loss, minus the lost rate.
    fn utility(&self, result: &IntervalResult) -> f64 {
        let sigmoid = 1.0 / (1.0 + libm::exp(SIGMOID_STEEPNESS * (result.loss - LOSS_THRESHOLD)));
        let rate = result.mbps();
        rate * (1.0 - result.loss) * sigmoid - rate * result.loss
    }

    fn on_result(&mut self, mark: u32, result: &IntervalResult) {
        let utility = self.utility(result);
        if mark >= PAIRS {
            if self.state == State::Deciding {
                self.on_pair((mark - PAIRS) as usize % 4, utility);
            }
        } else {
            self.on_single(utility);
        }
    }

    fn on_void(&mut self, mark: u32) {
        let rate = if mark >= PAIRS { self.rate_of(mark & 1) } else { self.base };
        self.waiting.push((rate, mark));
    }

    fn on_timeout(&mut self) {
        self.base = clamp_rate(self.base.mul_f64(0.5));
        self.decide();
    }
}
