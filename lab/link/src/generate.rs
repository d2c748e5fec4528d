//! Synthetic capacity traces with the statistics of measured ones; the project ships these instead of the measurements.
//!
//! A trace is a slow series of rates; [`FineStructure`](crate::FineStructure) adds the structure below its step. Every trace has exactly the
//! requested mean and repeats after its length. Statistics below are of one step's rates divided by their mean; *r(k)* is
//! the autocorrelation at a lag of k steps; an outage is a rate under 3 % of the mean.
//!
//! **5G** ([`FiveG`]), steps of 1 s. The logarithm of the rate is the sum of two first-order autoregressions, a slow one
//! (distance, shadowing, load of the cell) and a fast one (fading, scheduling); a chain of two states adds outages (handover,
//! blockage). Compared with four mid-band downlinks recorded while moving: two walks with T-Mobile in Minneapolis, stand-alone and
//! not (Narayanan et al., SIGCOMM 2021, artefact), a drive of an Irish operator's network (Raca et al., `MMSys` 2020) and a low-rate
//! drive of `Lumos5G` (Narayanan et al., IMC 2020).
//!
//! | | measured, lowest to highest | generated, mean of 20 traces of 10 minutes |
//! |---|---|---|
//! | coefficient of variation | 0.44 to 0.84 | 0.58 |
//! | r(1) | 0.70 to 0.92 | 0.81 |
//! | r(5) | 0.24 to 0.80 | 0.52 |
//! | r(10) | 0.04 to 0.73 | 0.34 |
//! | share of outages | 0.5 % to 7.5 % | 3.0 % |
//! | mean length of an outage | 1.4 s to 8.8 s | 2.3 s |
//! | 5 %, 50 %, 95 % quantiles | 0.00-0.34, 0.88-1.17, 1.82-2.37 | 0.31, 0.88, 2.13 |
//!
//! **Wi-Fi** ([`WiFi`]), steps of 200 ms. A plateau with a little noise, interrupted by dips while other stations are busy and by
//! rare gaps: a chain of three states. Compared with two mostly clean recordings of Zhuge's authors (SIGCOMM 2022), in an office and
//! in a restaurant; their bad afternoon (half the time under 0.2 of the mean) is left to measured traces.
//!
//! | | measured | generated, mean of 20 traces of 5 minutes |
//! |---|---|---|
//! | coefficient of variation | 0.30, 0.36 | 0.32 |
//! | r(1) | 0.89, 0.81 | 0.89 |
//! | r(5) | 0.80, 0.60 | 0.62 |
//! | share of outages | 0.1 %, 0.5 % | 0.3 % |
//! | 5 %, 50 %, 95 % quantiles | 0.24-0.31, 1.04-1.14, 1.20-1.52 | 0.25, 1.07, 1.39 |
//!
//! [`Scene`](crate::Scene) has six more, of 5G at several bands. [`drawn`] resembles no measurement: it changes the rate periodically, as
//! in experiments that shape a link by a random list.
//! [`log_normal`] has a published mean and deviation, and a memory.

use nearlight_units::{Bitrate, Span};

use crate::capacity::Rates;
use crate::random::{Probability, Random};
use crate::wander::{Autoregression, kept, logarithm_deviation};

/// Parameters of a 5G-like trace. The defaults were fitted by hand to the table above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FiveG {
    /// The trace's mean, kept exactly.
    pub mean: Bitrate,
    /// Deviation of the logarithm's slow part, and the fraction of it retained from one second to the next.
    pub slow: (f64, f64),
    /// Deviation of the logarithm's fast part, and the fraction of it retained from one second to the next.
    pub fast: (f64, f64),
    /// Share of time without any capacity.
    pub outages: f64,
    /// Mean length of such a time, at least a second.
    pub outage_length: Span,
}

impl Default for FiveG {
    fn default() -> Self {
        Self {
            // Between the T-Mobile walk's 103 Mb/s and the drive's 112 Mb/s, rounded.
            mean: Bitrate::from_mbps(100),
            slow: (0.50, 0.94),
            fast: (0.18, 0.45),
            outages: 0.027,
            outage_length: Span::from_millis(2_200),
        }
    }
}

/// Parameters of a Wi-Fi-like trace. The defaults were fitted by hand to the table above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WiFi {
    /// The trace's mean, kept exactly.
    pub mean: Bitrate,
    /// Deviation of the logarithm on the plateau, and how much of it stays from one step to the next.
    pub noise: (f64, f64),
    /// Mean time between two dips.
    pub clear: Span,
    /// Mean length of a dip.
    pub dip: Span,
    /// Remaining fraction of the rate in a dip; each dip draws uniformly between the two.
    pub left: (f64, f64),
    /// Share of time without any capacity, in gaps of one step.
    pub gaps: f64,
}

impl Default for WiFi {
    fn default() -> Self {
        Self {
            // The office's and the restaurant's means, rounded.
            mean: Bitrate::from_mbps(26),
            noise: (0.14, 0.90),
            clear: Span::from_millis(16_000),
            dip: Span::from_millis(3_000),
            left: (0.10, 0.55),
            gaps: 0.003,
        }
    }
}

/// Steps of a 5G-like trace.
const FIVE_G_STEP: Span = Span::from_secs(1);
/// Steps of a Wi-Fi-like trace.
const WIFI_STEP: Span = Span::from_millis(200);

/// Steps within the memory of a log-normal trace, and its shortest step: what lies below is [`FineStructure`](crate::FineStructure)'s.
const STEPS_OF_MEMORY: i64 = 10;
const MIN_STEP: Span = Span::from_millis(10);

/// The longest trace: 2^20 steps.
const MAX_STEPS: i64 = 1 << 20;

/// A 5G-like trace of about `length`.
#[must_use]
pub fn five_g(parameters: &FiveG, length: Span, seed: u64) -> Rates {
    let mut random = Random::new(seed);
    let ((slow_deviation, slow_kept), (fast_deviation, fast_kept)) = (parameters.slow, parameters.fast);
    let mut slow = Autoregression::new(slow_deviation, &mut random);
    let mut fast = Autoregression::new(fast_deviation, &mut random);
    let mut outage = false;
    let ends = chance_per_step(FIVE_G_STEP, parameters.outage_length);
    let share = parameters.outages.clamp(0.0, 0.9);
    let begins = Probability::clamped(ends.fraction() * share / (1.0 - share));
    let rates = (0..steps_in(length, FIVE_G_STEP)).map(|_| {
        let logarithm = slow.next(slow_kept, &mut random) + fast.next(fast_kept, &mut random);
        outage ^= random.happens(if outage { ends } else { begins });
        if outage { 0.0 } else { libm::exp(logarithm) }
    });
    with_mean(&rates.collect::<Vec<_>>(), parameters.mean, FIVE_G_STEP)
}

/// A Wi-Fi-like trace of about `length`.
#[must_use]
pub fn wifi(parameters: &WiFi, length: Span, seed: u64) -> Rates {
    let mut random = Random::new(seed);
    let (deviation, noise_kept) = parameters.noise;
    let mut noise = Autoregression::new(deviation, &mut random);
    let begins = chance_per_step(WIFI_STEP, parameters.clear);
    let ends = chance_per_step(WIFI_STEP, parameters.dip);
    let gap = Probability::clamped(parameters.gaps);
    let (least, most) = parameters.left;
    let mut dip = None;
    let rates = (0..steps_in(length, WIFI_STEP)).map(|_| {
        let plateau = libm::exp(noise.next(noise_kept, &mut random));
        if random.happens(if dip.is_some() { ends } else { begins }) {
            let left = least + (most - least) * random.unit();
            dip = if dip.is_some() { None } else { Some(left) };
        }
        if random.happens(gap) { 0.0 } else { plateau * dip.unwrap_or(1.0) }
    });
    with_mean(&rates.collect::<Vec<_>>(), parameters.mean, WIFI_STEP)
}

/// Another rate every so often, drawn evenly from the lowest to the highest, for about `length`.
#[must_use]
pub fn drawn([lowest, highest]: [Bitrate; 2], every: Span, length: Span, seed: u64) -> Rates {
    let mut random = Random::new(seed);
    let span = highest.as_bps().saturating_sub(lowest.as_bps()) as f64;
    let rate = |random: &mut Random| Bitrate::from_bps(lowest.as_bps() + (span * random.unit()) as u64);
    let steps: Vec<(Span, Bitrate)> =
        (0..steps_in(length, every)).map(|index| (every * index, rate(&mut random))).collect();
    Rates::steps(&steps, Some(every * steps.len() as i64)).unwrap_or_else(|_| Rates::constant(highest))
}

/// A log-normal rate with this mean and deviation, whose logarithm's correlation falls to 1/e within `memory`, for about `length`.
///
/// For links of which a mean and a deviation are known and nothing else.
#[must_use]
pub fn log_normal([mean, deviation]: [Bitrate; 2], memory: Span, length: Span, seed: u64) -> Rates {
    let mut random = Random::new(seed);
    let step = (memory / STEPS_OF_MEMORY).max(MIN_STEP);
    let kept = kept(step, memory);
    let variation = deviation.as_bps() as f64 / mean.as_bps().max(1) as f64;
    let mut logarithm = Autoregression::new(logarithm_deviation(variation), &mut random);
    let rates: Vec<f64> = (0..steps_in(length, step)).map(|_| libm::exp(logarithm.next(kept, &mut random))).collect();
    with_mean(&rates, mean, step)
}

pub(crate) fn steps_in(length: Span, step: Span) -> i64 {
    (length.as_nanos() / step.as_nanos()).clamp(1, MAX_STEPS)
}

/// The chance of leaving a state within a step, for a stay of this mean length.
pub(crate) fn chance_per_step(step: Span, mean: Span) -> Probability {
    Probability::clamped(step.as_secs_f64() / mean.as_secs_f64().max(step.as_secs_f64()))
}

/// Relative rates scaled to the wanted mean. Where nothing but outages was drawn the capacity is constant.
pub(crate) fn with_mean(relative: &[f64], mean: Bitrate, step: Span) -> Rates {
    let sum: f64 = relative.iter().sum();
    let scale = relative.len() as f64 / sum;
    let start = |index: usize| step * index as i64;
    let steps: Vec<(Span, Bitrate)> =
        relative.iter().enumerate().map(|(index, rate)| (start(index), mean.mul_f64(rate * scale))).collect();
    Rates::steps(&steps, Some(start(steps.len()))).unwrap_or_else(|_| Rates::constant(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 20;

    #[derive(Debug, Default)]
    struct Statistics {
        variation: f64,
        correlation: [f64; 11],
        outages: f64,
        outage_length: f64,
        quantiles: [f64; 3],
    }

    fn statistics(rates: &Rates) -> Statistics {
        let rates: Vec<f64> = rates.iter().map(|step| step.1.as_mbps_f64()).collect();
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let relative: Vec<f64> = rates.iter().map(|rate| rate / mean).collect();
        let covariance =
            |lag: usize| relative.iter().zip(&relative[lag..]).map(|(a, b)| (a - 1.0) * (b - 1.0)).sum::<f64>() / count;
        let down = |rate: &f64| *rate < 0.03;
        let outages = relative.iter().filter(|rate| down(rate)).count() as f64;
        let begun = relative.windows(2).filter(|pair| !down(&pair[0]) && down(&pair[1])).count() as f64;
        let mut sorted = relative.clone();
        sorted.sort_by(f64::total_cmp);
        Statistics {
            variation: covariance(0).sqrt(),
            correlation: std::array::from_fn(|lag| covariance(lag) / covariance(0)),
            outages: outages / count,
            outage_length: outages / begun.max(1.0),
            quantiles: [5, 50, 95].map(|percent| sorted[sorted.len() * percent / 100]),
        }
    }

    fn average(trace: impl Fn(u64) -> Rates) -> Statistics {
        let mut average = Statistics::default();
        for seed in 1..=SEEDS {
            let one = statistics(&trace(seed));
            let share = 1.0 / SEEDS as f64;
            average.variation += one.variation * share;
            average.outages += one.outages * share;
            average.outage_length += one.outage_length * share;
            for (sum, value) in average.correlation.iter_mut().zip(one.correlation) {
                *sum += value * share;
            }
            for (sum, value) in average.quantiles.iter_mut().zip(one.quantiles) {
                *sum += value * share;
            }
        }
        average
    }

    fn assert_in(name: &str, value: f64, measured: std::ops::RangeInclusive<f64>) {
        assert!(measured.contains(&value), "{name} is {value:.3}, measured were {measured:?}");
    }

    #[test]
    fn five_g_resembles_what_was_measured() {
        let found = average(|seed| five_g(&FiveG::default(), Span::from_secs(600), seed));
        assert_in("variation", found.variation, 0.44..=0.84);
        assert_in("r(1)", found.correlation[1], 0.70..=0.92);
        assert_in("r(5)", found.correlation[5], 0.24..=0.80);
        assert_in("r(10)", found.correlation[10], 0.04..=0.73);
        assert_in("outages", found.outages, 0.005..=0.075);
        assert_in("length of an outage", found.outage_length, 1.4..=8.8);
        assert_in("5 %", found.quantiles[0], 0.0..=0.34);
        assert_in("50 %", found.quantiles[1], 0.88..=1.17);
        assert_in("95 %", found.quantiles[2], 1.82..=2.37);
    }

    #[test]
    fn wifi_resembles_what_was_measured() {
        let found = average(|seed| wifi(&WiFi::default(), Span::from_secs(300), seed));
        assert_in("variation", found.variation, 0.30..=0.36);
        assert_in("r(1)", found.correlation[1], 0.81..=0.89);
        assert_in("r(5)", found.correlation[5], 0.60..=0.80);
        assert_in("outages", found.outages, 0.001..=0.005);
        assert_in("5 %", found.quantiles[0], 0.24..=0.31);
        assert_in("50 %", found.quantiles[1], 1.04..=1.14);
        assert_in("95 %", found.quantiles[2], 1.20..=1.52);
    }

    #[test]
    fn drawn_rates_lie_evenly_between_their_bounds() {
        let bounds = [Bitrate::from_mbps(2), Bitrate::from_mbps(10)];
        let rates = |seed| drawn(bounds, Span::from_secs(5), Span::from_secs(600), seed);
        let found: Vec<f64> = (1..=SEEDS)
            .flat_map(|seed| rates(seed).iter().map(|step| step.1.as_mbps_f64()).collect::<Vec<_>>())
            .collect();
        assert_eq!(found.len(), 120 * SEEDS as usize);
        assert!(found.iter().all(|rate| (2.0..=10.0).contains(rate)));
        // Even draws between 2 and 10: a mean of 6, a deviation of 8 over the root of 12.
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let variance = found.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / found.len() as f64;
        assert!(
            (mean - 6.0).abs() < 0.15 && (variance.sqrt() - 8.0 / 12.0_f64.sqrt()).abs() < 0.1,
            "{mean} {variance}"
        );
        assert_eq!(rates(1), rates(1));
        assert_ne!(rates(1), rates(2));
    }

    #[test]
    fn log_normal_rates_have_their_mean_deviation_and_memory() {
        let published = [Bitrate::from_kbps(8_100), Bitrate::from_kbps(5_100)];
        let found = average(|seed| log_normal(published, Span::from_secs(2), Span::from_secs(600), seed));
        assert_in("variation", found.variation, 0.58..=0.66);
        // Ten steps are the memory; the correlation of the rates is a little below that of their logarithms, 1/e.
        assert_in("r(10)", found.correlation[10], 0.26..=0.37);
        assert_in("outages", found.outages, 0.0..=0.0001);
        let rates = |seed| log_normal(published, Span::from_secs(2), Span::from_secs(60), seed);
        assert!((rates(3).mean().as_mbps_f64() - 8.1).abs() < 0.001);
        assert_eq!(rates(3), rates(3));
        assert_ne!(rates(3), rates(4));
    }

    #[test]
    fn a_trace_has_its_mean_and_its_seed_makes_it() {
        let parameters = FiveG { mean: Bitrate::from_mbps(40), ..FiveG::default() };
        for seed in 1..=SEEDS {
            let trace = five_g(&parameters, Span::from_secs(100), seed);
            assert!((trace.mean().as_mbps_f64() - 40.0).abs() < 0.001, "seed {seed}: {}", trace.mean());
            assert_eq!(trace, five_g(&parameters, Span::from_secs(100), seed));
            assert_ne!(trace, five_g(&parameters, Span::from_secs(100), seed + 100));
        }
    }

    #[test]
    fn absurd_parameters_still_make_a_trace() {
        let dead = FiveG { outages: 1.0, outage_length: Span::ZERO, ..FiveG::default() };
        assert!(five_g(&dead, Span::ZERO, 1).mean() > Bitrate::ZERO);
        let wild = FiveG { slow: (1e9, 2.0), ..FiveG::default() };
        let _ = five_g(&wild, Span::from_secs(10), 1);
        let gaps = WiFi { gaps: 1.0, clear: Span::ZERO, dip: Span::ZERO, ..WiFi::default() };
        assert_eq!(wifi(&gaps, Span::from_secs(9), 1), Rates::constant(gaps.mean));
    }
}
