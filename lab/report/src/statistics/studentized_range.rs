//! The distribution of the studentized range, which Tukey's test needs, by numeric integration.
//!
//! P(q; k, v) = integral over s of f(s; v) W(q s; k), where s is a sample's standard deviation with v degrees of freedom
//! over the true one, and W(w; k) = k integral over z of phi(z) [Phi(z) - Phi(z - w)]^(k - 1) is the chance that k normal
//! values span no more than w. (J. Tukey, 1953; H. Harter, Annals of Mathematical Statistics 31(4), 1960.)

use statrs::function::erf::erfc;

/// Nodes and weights of the 16-point Gauss-Legendre rule, positive half (Abramowitz and Stegun, table 25.4).
const NODES: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_88),
    (0.865_631_202_387_831_8, 0.095_158_511_682_492_79),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_894),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

/// Beyond this many standard deviations a normal density is below 1e-15 of its peak.
const NORMAL_REACH: f64 = 8.5;

/// The logarithm at which the density of s is given up, against its peak: 1e-14.
const MIN_LOG_DENSITY: f64 = -32.0;

/// The range of `groups` normal means over an independent estimate of their standard error.
#[derive(Clone, Debug)]
pub struct StudentizedRange {
    groups: u32,
    /// Nodes of z with phi(z) times weight, and Phi(z).
    normal: Vec<(f64, f64, f64)>,
    /// Nodes of s with f(s) times weight.
    scale: Vec<(f64, f64)>,
}

impl StudentizedRange {
    /// `None` for fewer than two groups, or less than one degree of freedom. Infinite degrees are the normal limit.
    pub fn new(groups: u32, degrees: f64) -> Option<Self> {
        if groups < 2 || degrees.is_nan() || degrees < 1.0 {
            return None;
        }
        let normal = rule(-NORMAL_REACH, NORMAL_REACH, 5)
            .into_iter()
            .map(|(z, weight)| {
                let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
                (z, density * weight, normal_cdf(z))
            })
            .collect();
        Some(Self { groups, normal, scale: scale_nodes(degrees) })
    }

    /// The chance of a range of at most `q`, 0 to 1.
    pub fn cdf(&self, q: f64) -> f64 {
        if q.is_nan() || q <= 0.0 {
            return 0.0;
        }
        let total: f64 = self.scale.iter().map(|(s, weight)| weight * self.range_cdf(q * s)).sum();
        total.clamp(0.0, 1.0)
    }

    /// The range that is exceeded with the chance 1 - `probability`; `probability` between 0 and 1.
    pub fn quantile(&self, probability: f64) -> Option<f64> {
        if !(probability > 0.0 && probability < 1.0) {
            return None;
        }
        let above = |q: f64| self.cdf(q) - probability;
        let (mut low, mut at_low) = (0.0, -probability);
        let (mut high, mut at_high) = (4.0, above(4.0));
        while at_high < 0.0 {
            (low, at_low) = (high, at_high);
            high *= 2.0;
            at_high = above(high);
            if high > 1e9 {
                return None;
            }
        }
        // Regula falsi; halving the stale end's value (Illinois) keeps both ends moving. Integration takes most of the time.
        let mut rose = None;
        for _ in 0..100 {
            let q = (low * at_high - high * at_low) / (at_high - at_low);
            let at_q = above(q);
            if at_q.abs() < 1e-13 || high - low < 1e-10 * high {
                return Some(q);
            }
            if at_q < 0.0 {
                (low, at_low) = (q, at_q);
                at_high *= if rose == Some(true) { 0.5 } else { 1.0 };
                rose = Some(true);
            } else {
                (high, at_high) = (q, at_q);
                at_low *= if rose == Some(false) { 0.5 } else { 1.0 };
                rose = Some(false);
            }
        }
        Some(0.5 * (low + high))
    }

    /// W(w; k).
    fn range_cdf(&self, width: f64) -> f64 {
        // The largest of k values lies at z, the others within `width` below it.
        let others = self.groups as i32 - 1;
        let sum: f64 = self
            .normal
            .iter()
            .map(|(z, weight, cdf)| weight * (cdf - normal_cdf(z - width)).max(0.0).powi(others))
            .sum();
        f64::from(self.groups) * sum
    }
}

/// Nodes and weights over s, taken evenly in ln s: near zero the density has a power's shape, which a polynomial in s
/// would miss.
fn scale_nodes(degrees: f64) -> Vec<(f64, f64)> {
    // s departs from 1 by about 1 / sqrt(2 v): less than the rule can tell.
    if degrees > 1e9 {
        return vec![(1.0, 1.0)];
    }
    // Of s f(s), f(s) = 2 (v/2)^(v/2) / Gamma(v/2) s^(v-1) exp(-v s^2 / 2), against its peak at s = 1.
    let log_density = |u: f64| degrees * (u - 0.5 * (2.0 * u).exp_m1());
    let edge = |direction: f64| {
        let (mut inside, mut outside) = (0.0, direction);
        while log_density(outside) > MIN_LOG_DENSITY {
            inside = outside;
            outside *= 2.0;
        }
        for _ in 0..40 {
            let middle = 0.5 * (inside + outside);
            if log_density(middle) > MIN_LOG_DENSITY {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        outside
    };
    // Few degrees give the density a long lower tail.
    let panels = if degrees < 10.0 { 16 } else { 4 };
    let nodes: Vec<(f64, f64)> = rule(edge(-1.0), edge(1.0), panels)
        .into_iter()
        .map(|(u, weight)| (u.exp(), weight * log_density(u).exp()))
        .collect();
    // f is a density: dividing by its own integral spares its constant, and the rounding of that constant's gamma function.
    let whole: f64 = nodes.iter().map(|(_, weight)| weight).sum();
    nodes.into_iter().map(|(s, weight)| (s, weight / whole)).collect()
}

/// The composite rule of `panels` equal panels.
fn rule(from: f64, to: f64, panels: usize) -> Vec<(f64, f64)> {
    let half = (to - from) / (2 * panels) as f64;
    (0..panels)
        .flat_map(|panel| {
            let centre = from + half * (2 * panel + 1) as f64;
            NODES.into_iter().flat_map(move |(node, weight)| {
                [(centre - half * node, half * weight), (centre + half * node, half * weight)]
            })
        })
        .collect()
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests;
