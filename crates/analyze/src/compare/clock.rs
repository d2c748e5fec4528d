//! One clock against another, from packets that were seen on both.
//!
//! The difference of a packet's times is the clocks' offset plus its delay; queues only add to it. So the offset's line touches the
//! differences of one direction from below and those of the other, whose delay counts backwards, from above. The line of a direction is the
//! one under all of its points with the least mean distance to them (S. Moon, P. Skelly, D. Towsley: Estimation and removal of clock skew
//! from network delay measurements, INFOCOM 1999): the edge of their convex hull below their mean time.

/// A packet on both clocks, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// On the first clock, since its origin.
    pub at: f64,
    /// The second clock minus the first.
    pub difference: f64,
}

/// `difference = offset + drift * at` for a packet without delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockFit {
    offset: f64,
    pub drift: f64,
    /// The fastest way there and back, in seconds; only with packets both ways.
    pub round_trip: Option<f64>,
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

/// Samples of a direction that can hold a line. Guess: fewer may all have waited.
const FEWEST: usize = 8;
/// A shorter capture says nothing about drift: a millisecond of queue over it would look like as much. Guess.
const SHORTEST: f64 = 1.0;

impl ClockFit {
    /// `away` left on the first clock and arrived on the second, `back` the other way round. `None` for no samples.
    pub fn new(away: &[Sample], back: &[Sample]) -> Option<Self> {
        let below = envelope(away);
        let turned: Vec<Sample> = back.iter().map(|of| Sample { difference: -of.difference, ..*of }).collect();
        let above = envelope(&turned).map(|line| Line { base: -line.base, slope: -line.slope });
        let usable = |samples: &[Sample]| samples.len() >= FEWEST;
        match (below, above) {
            (Some(below), Some(above)) if usable(away) && usable(back) => {
                let middle = mean(away.iter().map(|of| of.at));
                Some(Self {
                    offset: f64::midpoint(below.base, above.base),
                    drift: f64::midpoint(below.slope, above.slope),
                    round_trip: Some((below.at(middle) - above.at(middle)).max(0.0)),
                })
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

    /// What the first clock says when the second one says `there`, both since the first one's origin.
    pub fn first(&self, there: f64) -> f64 {
        (there - self.offset) / (1.0 + self.drift)
    }
}

/// The line under all samples that is closest to them.
fn envelope(samples: &[Sample]) -> Option<Line> {
    let mut points: Vec<(f64, f64)> = samples.iter().map(|of| (of.at, of.difference)).collect();
    points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let (first, last) = (points.first()?.0, points.last()?.0);
    if last - first < SHORTEST {
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
        let found = ClockFit::new(&samples, &[]).unwrap();
        assert!((found.drift - 20e-6).abs() < 1e-9 && (found.offset(0.0) - 0.252).abs() < 1e-7, "{found:?}");
        let back: Vec<Sample> = samples
            .iter()
            .map(|of| Sample { difference: line(of.at) - 0.002 - (of.difference - line(of.at) - 0.002), ..*of })
            .collect();
        let found = ClockFit::new(&samples, &back).unwrap();
        assert!((found.drift - 20e-6).abs() < 1e-9 && (found.offset(0.0) - 0.25).abs() < 1e-7, "{found:?}");
        assert!((found.round_trip.unwrap() - 0.004).abs() < 1e-7);
        assert!((found.first(50.0 + found.offset(50.0)) - 50.0).abs() < 1e-9);
        assert!(ClockFit::new(&[], &[]).is_none());
    }
}
