//! The interval between batches, from the autocorrelation of their beginnings.

use std::f64::consts::TAU;

use nearlight_units::{Span, Time};

use super::Burst;
use crate::frames::StreamFrames;

/// Lags that count as a rhythm. Guess: shorter ones are single packets, longer ones slower than any video.
const MIN_LAG: Span = Span::from_micros(300);
const MAX_LAG: Span = Span::from_millis(60);
/// Beginnings behind each that are paired with it: enough for the longest lag at the usual intervals of milliseconds.
const NEIGHBOURS: usize = 16;
/// Ratio of neighbouring lags.
const LAG_RATIO: f64 = 1.01;
/// Relative tolerance within which lags are equal.
const LAG_TOLERANCE: f64 = 0.03;
/// Least number of pairs that make a rhythm. Guess.
const MIN_PAIRS: usize = 16;
/// A multiple of the interval may be as strong as the interval itself. The smallest lag with this share of the strongest is the
/// interval: two batches a frame give the frame's lag two pairs and the interval one.
const MIN_RELATIVE_STRENGTH: f64 = 0.45;

/// The rhythm in which a sender releases batches.
#[derive(Clone, Debug)]
pub(crate) struct Rhythm {
    pub interval: Span,
    /// See [`super::Batches::on_grid`].
    pub on_grid: Option<f64>,
}

impl Rhythm {
    /// `None` where there are too few batches, or none of a rhythm.
    pub fn of(bursts: &[Burst], frames: &StreamFrames) -> Option<Self> {
        let frame = |burst: &Burst| frames.of_packet.get(burst.packets.start).copied();
        let ends = |burst: &Burst| frames.of_packet.get(burst.packets.end - 1).copied();
        // Within a frame only the pacer determines the interval; between frames the source does, too.
        let mut lags = lags(bursts, |one, other| ends(one) == frame(other));
        if lags.len() < MIN_PAIRS.max(bursts.len() / 20) {
            lags = self::lags(bursts, |_, _| true);
        }
        let interval = autocorrelation(&lags, MIN_RELATIVE_STRENGTH)?.lag;
        let starts: Vec<Time> = bursts.iter().map(|burst| burst.at).collect();
        Some(Self { interval, on_grid: on_grid(&starts, interval) })
    }
}

/// Spans between beginnings, of pairs that `paired` lets pass.
fn lags(bursts: &[Burst], paired: impl Fn(&Burst, &Burst) -> bool) -> Vec<Span> {
    let mut lags = Vec::new();
    for (index, one) in bursts.iter().enumerate() {
        for other in bursts[index + 1..].iter().take(NEIGHBOURS) {
            let lag = other.at - one.at;
            if lag > MAX_LAG {
                break;
            }
            if lag >= MIN_LAG && paired(one, other) {
                lags.push(lag);
            }
        }
    }
    lags.sort_unstable();
    lags
}

/// The strongest lag and how many pairs have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak {
    pub lag: Span,
    pub pairs: usize,
}

/// Pairs of beginnings within the longest lag.
pub(crate) fn all_lags(bursts: &[Burst]) -> Vec<Span> {
    lags(bursts, |_, _| true)
}

/// The smallest lag that has `enough` of the pairs that the strongest lag has; `lags` in ascending order.
pub(crate) fn autocorrelation(lags: &[Span], enough: f64) -> Option<Peak> {
    let count = |lag: f64| {
        let upto = |factor: f64| lags.partition_point(|other| (other.as_nanos() as f64) < lag * factor);
        upto(1.0 - LAG_TOLERANCE)..upto(1.0 + LAG_TOLERANCE)
    };
    // Less the pairs expected by chance.
    let even = lags.len() as f64 / (MAX_LAG - MIN_LAG).as_nanos() as f64;
    let excess = |lag: f64| count(lag).len() as f64 - even * 2.0 * LAG_TOLERANCE * lag;
    let steps = ((MAX_LAG.as_nanos() as f64 / MIN_LAG.as_nanos() as f64).ln() / LAG_RATIO.ln()) as i32;
    let curve: Vec<(f64, f64)> = (0..=steps)
        .map(|step| {
            let lag = MIN_LAG.as_nanos() as f64 * LAG_RATIO.powi(step);
            (lag, excess(lag))
        })
        .collect();
    let strongest = curve.iter().map(|point| point.1).fold(0.0, f64::max);
    if strongest < MIN_PAIRS as f64 {
        return None;
    }
    let first = curve.iter().position(|point| point.1 >= enough * strongest)?;
    // From the peak's foot to its top.
    let top = (first..curve.len() - 1).find(|at| curve[at + 1].1 < curve[*at].1).unwrap_or(first);
    let around = &lags[count(curve[top].0)];
    let middle = around.get(around.len() / 2)?.as_nanos() as f64;
    let around = &lags[count(middle)];
    let mean = around.iter().map(|lag| lag.as_nanos() as f64).sum::<f64>() / around.len() as f64;
    Some(Peak { lag: Span::from_nanos(mean.round() as i64), pairs: around.len() })
}

/// The length of the mean of the beginnings' phases (Rayleigh's statistic), over stretches short enough for the interval's error not to
/// matter, at the best interval near `interval`.
fn on_grid(starts: &[Time], interval: Span) -> Option<f64> {
    const STRETCH_LENGTH: Span = Span::from_secs(1);
    /// Most stretches examined.
    const MAX_STRETCHES: usize = 64;
    let first = *starts.first()?;
    let stretches = starts.chunk_by(|one, other| {
        let stretch = |at: &Time| (*at - first).as_nanos() / STRETCH_LENGTH.as_nanos();
        stretch(one) == stretch(other)
    });
    let (mut sum, mut count) = (0.0, 0.0);
    for stretch in stretches.filter(|stretch| stretch.len() >= MIN_PAIRS).take(MAX_STRETCHES) {
        let length = |factor: f64| {
            let turn = TAU / (interval.as_nanos() as f64 * factor);
            let (sine, cosine) = stretch.iter().fold((0.0, 0.0), |(sine, cosine), at| {
                let (of, adjacent) = ((*at - stretch[0]).as_nanos() as f64 * turn).sin_cos();
                (sine + of, cosine + adjacent)
            });
            f64::hypot(sine, cosine) / stretch.len() as f64
        };
        sum += (-10..=10).map(|step| length(1.0 + f64::from(step) * 5e-4)).fold(0.0, f64::max);
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}
