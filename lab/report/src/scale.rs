//! Axes: the mapping from values to pixels, and the positions of ticks.

use crate::text::number;

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, in words.
    pub name: String,
    /// Its unit; empty for shares and counts.
    pub unit: String,
    /// The range shown, where the samples should not decide it. Samples beyond are drawn at the edge.
    pub from: Option<f64>,
    /// See `from`.
    pub to: Option<f64>,
    /// Equal ratios take equal lengths. Values of zero and less are drawn at the lower edge.
    pub logarithmic: bool,
}

impl Axis {
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into(), ..Self::default() }
    }

    /// Shows `from` to `to`, regardless of the samples.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        (self.from, self.to) = (Some(from), Some(to));
        self
    }

    /// See [`Axis::logarithmic`].
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    pub(crate) fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }
}

/// How an axis chooses its range where the caller left it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisFit {
    /// The range of the samples.
    Tight,
    /// From zero to the next tick.
    FromZero,
    /// Extended to the next ticks.
    Loose,
}

/// A finite, non-empty range of values on a range of pixels.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub low: f64,
    pub high: f64,
    pub logarithmic: bool,
    /// Pixel of `low`.
    pub start: f64,
    /// Pixel of `high`.
    pub end: f64,
}

impl Scale {
    /// A scale for `values` on the pixels `start` to `end`, with about `ticks` ticks.
    pub fn fit(
        axis: &Axis,
        ends: AxisFit,
        values: impl Iterator<Item = f64>,
        (start, end): (f64, f64),
        ticks: usize,
    ) -> Self {
        let usable = |value: &f64| value.is_finite() && value.abs() < 1e15 && (!axis.logarithmic || *value > 1e-15);
        let (mut low, mut high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = if axis.logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if ends == AxisFit::FromZero && !axis.logarithmic {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let (from, to) = (axis.from.filter(usable), axis.to.filter(usable));
        (low, high) = (from.unwrap_or(low), to.unwrap_or(high));
        // One value, or an owner's end beyond all samples.
        if axis.logarithmic && high < 1.001 * low {
            (low, high) = if from.is_some() || to.is_none() { (low, 10.0 * low) } else { (high / 10.0, high) };
        } else if high - low <= 1e-9 * low.abs().max(high.abs()).max(1e-12) {
            // Of the size of the end that stays: less would be lost beside it.
            let room = |kept: f64| if kept.abs() < 1e-12 { 1.0 } else { kept.abs() * 0.5 };
            (low, high) = match (from, to) {
                (Some(_), _) => (low, low + room(low)),
                (None, Some(_)) => (high - room(high), high),
                (None, None) if ends == AxisFit::FromZero => (low, low + room(low)),
                (None, None) => (low - room(low) * 0.5, low + room(low) * 0.5),
            };
        }
        let mut scale = Self { low, high, logarithmic: axis.logarithmic, start, end };
        if ends != AxisFit::Tight && !axis.logarithmic {
            let step = scale.step(ticks);
            if from.is_none() {
                scale.low = (low / step + 1e-9).floor() * step;
            }
            if to.is_none() {
                scale.high = (high / step - 1e-9).ceil() * step;
            }
        }
        if ends == AxisFit::Tight && !axis.logarithmic {
            // A run of 299.95 s deserves its last tick.
            let step = scale.step(ticks);
            let near = |value: f64, tick: f64| (value - tick).abs() < 0.05 * step;
            let (below, above) = ((scale.low / step).floor() * step, (scale.high / step).ceil() * step);
            if from.is_none() && near(scale.low, below) {
                scale.low = below;
            }
            if to.is_none() && near(scale.high, above) {
                scale.high = above;
            }
        }
        scale
    }

    /// The pixel of `value`; values beyond the range stand at its edge. `None` for what is not a number.
    pub fn at(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let value = value.clamp(self.low, self.high);
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.start + (self.end - self.start) * share.clamp(0.0, 1.0))
    }

    /// About `count` values that read well, with their text.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if self.logarithmic {
            return self.logarithmic_ticks(count);
        }
        let step = self.step(count);
        let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
        let (first, last) = ((self.low / step - 1e-6).ceil(), (self.high / step + 1e-6).floor());
        (0..=(last - first).clamp(0.0, 100.0) as usize)
            .map(|index| (first + index as f64) * step)
            .map(|value| (value, number(value, decimals)))
            .collect()
    }

    fn logarithmic_ticks(&self, count: usize) -> Vec<(f64, String)> {
        let (low, high) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (high - low).max(1) as usize;
        let dense = (self.high / self.low).log10() * 3.0 <= count as f64 + 2.0;
        let within: &[f64] = if dense { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = decades.div_ceil(count.max(1)).max(1);
        (low..=high)
            .step_by(every)
            .flat_map(|power| {
                within.iter().map(move |digit| (digit * 10_f64.powi(power), (-power).clamp(0, 9) as usize))
            })
            .filter(|(value, _)| *value >= self.low * 0.999 && *value <= self.high * 1.001)
            .map(|(value, decimals)| (value, number(value, decimals)))
            .collect()
    }

    /// 1, 2 or 5 times a power of ten.
    fn step(&self, count: usize) -> f64 {
        let raw = (self.high - self.low) / count.max(1) as f64;
        let power = 10_f64.powf(raw.log10().floor());
        let digit = raw / power;
        power
            * if digit <= 1.2 {
                1.0
            } else if digit <= 2.8 {
                2.0
            } else if digit <= 6.5 {
                5.0
            } else {
                10.0
            }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(low: f64, high: f64, count: usize) -> Vec<String> {
        let axis = Axis::default().range(low, high);
        let scale = Scale::fit(&axis, AxisFit::Tight, [].into_iter(), (0.0, 100.0), count);
        scale.ticks(count).into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_read_well() {
        assert_eq!(texts(0.0, 300.0, 6), ["0", "50", "100", "150", "200", "250", "300"]);
        assert_eq!(texts(0.0, 1.0, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(-0.03, 0.03, 3), ["−0.02", "0.00", "0.02"]);
        assert_eq!(texts(2.1, 2.9, 4), ["2.2", "2.4", "2.6", "2.8"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades() {
        let axis = Axis::default().logarithmic();
        let scale = Scale::fit(&axis, AxisFit::Loose, [0.5, 2_000.0, -3.0, 0.0].into_iter(), (0.0, 100.0), 5);
        let found: Vec<String> = scale.ticks(5).into_iter().map(|tick| tick.1).collect();
        assert_eq!(found, ["1", "10", "100", "1000"]);
        assert_eq!(scale.at(-5.0), Some(0.0));
    }

    #[test]
    fn an_end_beyond_all_samples_leaves_room() {
        for (from, to) in [(None, Some(-6e14)), (Some(6e14), None), (None, Some(6e-7)), (Some(-6e-7), Some(-6e14))] {
            let axis = Axis { from, to, ..Axis::default() };
            let scale = Scale::fit(&axis, AxisFit::Tight, [-4.3e-7, 4.3e-7].into_iter(), (0.0, 100.0), 5);
            assert!(scale.low < scale.high, "{scale:?}");
        }
    }

    proptest! {
        #[test]
        fn every_value_lands_on_the_axis(values in prop::collection::vec(prop::num::f64::ANY, 0..20),
            probe in prop::num::f64::ANY, from in prop::option::of(prop::num::f64::ANY),
            to in prop::option::of(prop::num::f64::ANY), logarithmic in any::<bool>(), kind in 0..3_usize) {
            let axis = Axis { from, to, logarithmic, ..Axis::default() };
            let ends = [AxisFit::Tight, AxisFit::FromZero, AxisFit::Loose][kind];
            let scale = Scale::fit(&axis, ends, values.into_iter(), (200.0, 20.0), 5);
            prop_assert!(scale.low < scale.high, "{:?}", scale);
            prop_assert_eq!(scale.at(probe).is_none(), probe.is_nan());
            if let Some(pixel) = scale.at(probe) {
                prop_assert!((20.0..=200.0).contains(&pixel), "{} at {:?}", pixel, scale);
            }
            prop_assert!(scale.ticks(5).len() <= 30);
        }
    }
}
