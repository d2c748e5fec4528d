//! Fits one clock to another, from packets that both captures saw.
//!
//! The difference of a packet's times is the clocks' offset plus its delay; queues only add to it. So the offset's line touches the
//! differences of one direction from below and those of the other, whose delay counts backwards, from above. The line of a direction is the
//! one under all of its points with the least mean distance to them (S. Moon, P. Skelly, D. Towsley: Estimation and removal of clock skew
//! from network delay measurements, INFOCOM 1999): the edge of their convex hull below their mean time.

use serde::Serialize;

/// A packet on both clocks, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Time on the first clock, since its origin.
    pub at: f64,
    /// The second clock minus the first.
    pub difference: f64,
}

/// `difference = offset + drift * at` for a packet without delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockFit {
    offset: f64,
    pub drift: f64,
    /// The fastest way there and back, in seconds; only with packets both ways. Never less than the clocks can tell.
    pub round_trip: Option<f64>,
}

/// Why no line joins two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockError {
    /// No offset that changes evenly lets packets arrive after they left.
    SetDuringCapture,
    /// Packets arrive before they leave, in both directions and all the time.
    Swapped,
}

impl ClockError {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::SetDuringCapture => {
                "the clock of one machine was set during the capture, or runs unevenly; take both captures again \
                 without setting the clocks meanwhile"
            }
            Self::Swapped => {
                "packets arrive before they are sent, so the two captures are swapped; name the sender's capture first"
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    base: f64,
    slope: f64,
}

impl Line {
    fn at(self, at: f64) -> f64 {
        self.base + self.slope * at
    }
}

/// Least number of samples of a direction that determine a line. Guess: fewer may all have waited.
const MIN_SAMPLES: usize = 8;
/// Shortest capture in seconds that determines the drift. Guess: a millisecond of queueing over a shorter one would look like drift.
const MIN_CAPTURE_SECONDS: f64 = 1.0;
/// Crystals stay within 100 ppm, and NTP slews by 500 (RFC 5905): what drifts by more was set.
const MAX_DRIFT: f64 = 1_000e-6;
/// Most captures count in microseconds, and both times of a packet are cut off there.
const CLOCK_RESOLUTION: f64 = 2e-6;

impl ClockFit {
    /// `away` left on the first clock and arrived on the second, `back` the other way round. `None` for no samples.
    pub fn new(away: &[Sample], back: &[Sample]) -> Option<Result<Self, ClockError>> {
        let fit = Self::of_lines(away, back)?;
        let backwards = fit.round_trip.is_some_and(|trip| trip < -CLOCK_RESOLUTION);
        if !backwards && fit.drift.abs() <= MAX_DRIFT {
            let round_trip = fit.round_trip.map(|trip| trip.max(CLOCK_RESOLUTION));
            return Some(Ok(Self { round_trip, ..fit }));
        }
        let swapped = backwards && are_swapped(away, back);
        Some(Err(if swapped { ClockError::Swapped } else { ClockError::SetDuringCapture }))
    }

    fn of_lines(away: &[Sample], back: &[Sample]) -> Option<Self> {
        let below = envelope(away);
        let turned: Vec<Sample> = back.iter().map(|of| Sample { difference: -of.difference, ..*of }).collect();
        let above = envelope(&turned).map(|line| Line { base: -line.base, slope: -line.slope });
        let usable = |samples: &[Sample]| samples.len() >= MIN_SAMPLES;
        match (below, above) {
            (Some(below), Some(above)) if usable(away) && usable(back) => {
                // Within the time that both directions have packets, so that neither line is extrapolated. The longer one weighs more for the drift.
                let ([from, to], [since, until]) = (bounds(away), bounds(back));
                let middle = f64::midpoint(from.max(since), to.min(until));
                let [here, there] = [to - from, until - since].map(|span| (span * span).max(f64::MIN_POSITIVE));
                let drift = (below.slope * here + above.slope * there) / (here + there);
                let round_trip = below.at(middle) - above.at(middle);
                let offset = f64::midpoint(below.at(middle), above.at(middle)) - drift * middle;
                Some(Self { offset, drift, round_trip: Some(round_trip) })
            }
            (Some(line), _) | (None, Some(line)) => {
                Some(Self { offset: line.base, drift: line.slope, round_trip: None })
            }
            (None, None) => None,
        }
    }

    /// The second clock minus the first, at `at` on the first.
    pub fn offset(&self, at: f64) -> f64 {
        self.offset + self.drift * at
    }

    /// The first clock's time when the second one shows `there`, both relative to the first one's origin.
    pub fn first(&self, there: f64) -> f64 {
        (there - self.offset) / (1.0 + self.drift)
    }
}

/// Returns whether packets of both directions that crossed at about the same time had a negative round trip, more often than not. A clock that was
/// set causes this only between packets before and after the setting.
fn are_swapped(away: &[Sample], back: &[Sample]) -> bool {
    let sorted = |samples: &[Sample]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable_by(|one, other| one.at.total_cmp(&other.at));
        samples
    };
    let (away, back) = (sorted(away), sorted(back));
    let negative = away.iter().filter(|there| {
        let next = back.partition_point(|of| of.at < there.at).min(back.len() - 1);
        there.difference < back[next].difference
    });
    2 * negative.count() > away.len()
}

/// Returns the first and the last time of the samples.
fn bounds(samples: &[Sample]) -> [f64; 2] {
    let at = || samples.iter().map(|of| of.at);
    [at().fold(f64::INFINITY, f64::min), at().fold(f64::NEG_INFINITY, f64::max)]
}

/// The line under all samples that is closest to them.
fn envelope(samples: &[Sample]) -> Option<Line> {
    let mut points: Vec<(f64, f64)> = samples.iter().map(|of| (of.at, of.difference)).collect();
    points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let (first, last) = (points.first()?.0, points.last()?.0);
    if last - first < MIN_CAPTURE_SECONDS {
        let lowest = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        return Some(Line { base: lowest, slope: 0.0 });
    }
    let middle = mean(points.iter().map(|point| point.0));
    // The lower hull, from left to right (A. Andrew's monotone chain).
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., one, two] = hull.as_slice()
            && (two.0 - one.0) * (point.1 - one.1) <= (point.0 - one.0) * (two.1 - one.1)
        {
            hull.pop();
        }
        if hull.last().is_none_or(|newest| point.0 > newest.0) {
            hull.push(point);
        }
    }
    let edge = hull.windows(2).find(|edge| edge[1].0 >= middle)?;
    let slope = (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0);
    Some(Line { base: edge[0].1 - slope * edge[0].0, slope })
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_touches_from_below() {
        let line = |at: f64| 0.25 + 20e-6 * at;
        let delay = |index: u32| 0.001 * f64::from(index % 5);
        let samples: Vec<Sample> = (0..600)
            .map(|index| (f64::from(index) * 0.1, delay(index)))
            .map(|(at, delay)| Sample { at, difference: line(at) + 0.002 + delay })
            .collect();
        let found = ClockFit::new(&samples, &[]).unwrap().unwrap();
        assert!((found.drift - 20e-6).abs() < 1e-9 && (found.offset(0.0) - 0.252).abs() < 1e-7, "{found:?}");
        let back: Vec<Sample> = samples
            .iter()
            .map(|of| Sample { difference: line(of.at) - 0.002 - (of.difference - line(of.at) - 0.002), ..*of })
            .collect();
        let found = ClockFit::new(&samples, &back).unwrap().unwrap();
        assert!((found.drift - 20e-6).abs() < 1e-9 && (found.offset(0.0) - 0.25).abs() < 1e-7, "{found:?}");
        assert!((found.round_trip.unwrap() - 0.004).abs() < 1e-7);
        assert!((found.first(50.0 + found.offset(50.0)) - 50.0).abs() < 1e-9);
        assert!(ClockFit::new(&[], &[]).is_none());
    }

    /// A packet each 10 ms for 10 s, 2 ms each way and now and then more, on a clock that is as far ahead as `clock`
    /// says.
    fn crossed(clock: impl Fn(f64) -> f64, back_from: u32, back_to: u32) -> (Vec<Sample>, Vec<Sample>) {
        let way = |sign: f64, number: u32| {
            let at = f64::from(number) * 0.01;
            let delay = 0.002 + 0.001 * f64::from(number * 7 % 5);
            Sample { at, difference: clock(at) + sign * delay }
        };
        (
            (0..1_000).map(|number| way(1.0, number)).collect(),
            (back_from..back_to).map(|number| way(-1.0, number)).collect(),
        )
    }

    #[test]
    fn what_is_no_line_is_refused() {
        use ClockError::{SetDuringCapture, Swapped};
        let step = |from: f64, by: f64| move |at: f64| if at < from { 0.0 } else { by };
        let turned = |(away, back): (Vec<Sample>, Vec<Sample>)| {
            let turn = |samples: Vec<Sample>| -> Vec<Sample> {
                samples.iter().map(|of| Sample { difference: -of.difference, ..*of }).collect()
            };
            (turn(away), turn(back))
        };
        // By 5 ms in the second and a half that there are answers, which taken alone looks like a clock that runs away.
        let filling = |(away, mut back): (Vec<Sample>, Vec<Sample>)| {
            let from = back[0].at;
            for of in &mut back {
                of.difference -= 0.005 * (of.at - from) / 1.5;
            }
            (away, back)
        };
        for (name, (away, back), expected) in [
            ("even", crossed(|at| 0.3 + 50e-6 * at, 0, 1_000), None),
            ("answers for a short while only", crossed(|at| 0.3 + 50e-6 * at, 0, 150), None),
            ("answers at the end only", crossed(|at| 0.3 - 50e-6 * at, 850, 1_000), None),
            (
                "answers at the end only, through a queue that fills",
                filling(crossed(|at| 50e-6 * at, 850, 1_000)),
                None,
            ),
            ("set forward", crossed(step(5.0, 0.1), 0, 1_000), Some(SetDuringCapture)),
            ("set forward late", crossed(step(8.0, 0.1), 0, 1_000), Some(SetDuringCapture)),
            ("set back early", crossed(step(2.0, -3.0), 0, 1_000), Some(SetDuringCapture)),
            ("wanders", crossed(|at| 0.01 * at.sin(), 0, 1_000), Some(SetDuringCapture)),
            ("runs away", crossed(|at| 0.002 * at, 0, 1_000), Some(SetDuringCapture)),
            ("runs away, one way", crossed(|at| 0.002 * at, 0, 0), Some(SetDuringCapture)),
            ("swapped", turned(crossed(|at| 0.3 + 50e-6 * at, 0, 1_000)), Some(Swapped)),
        ] {
            let found = ClockFit::new(&away, &back).unwrap();
            assert_eq!(found.as_ref().err().copied(), expected, "{name}: {found:?}");
        }
    }

    /// A capture compared with itself has equal times on both clocks; only the clocks' own resolution remains.
    #[test]
    fn no_delay_at_all_is_known_as_well_as_clocks_tell() {
        let samples: Vec<Sample> = (0..100).map(|number| Sample { at: f64::from(number), difference: 0.1 }).collect();
        assert_eq!(ClockFit::new(&samples, &samples).unwrap().unwrap().round_trip, Some(CLOCK_RESOLUTION));
    }
}
