//! Synthetic capacity of six scenes in which Hera's authors recorded theirs (Asim et al., figure 5): their traces are not published.
//!
//! Steps are 100 ms. The logarithm of the rate is the sum of a slow and a fast autoregression, as in [`generate`](crate::generate); a
//! chain of two states adds blockage (a building, a body, a hand) that leaves a share of the rate, drawn for each.
//!
//! All parameters are guesses from what the paper says of the scenes (driving and walking fluctuate most, standing least) and from what
//! is known of their kind: mid-band 5G downlinks vary by half to all of their mean (see [`generate`](crate::generate)), links at 28 GHz
//! lose 15 to 30 dB behind buildings, links at 60 GHz are interrupted by every body in their way. The means are round numbers between
//! 60 and 250 Mb/s. The coefficient of variation over 20 traces of ten minutes:
//!
//! | scene | mean, Mb/s | variation |
//! |---|---|---|
//! | city drive | 80 | 0.8 |
//! | beach, standing | 120 | 0.3 |
//! | urban macro cell, 28 GHz | 100 | 0.8 |
//! | rural macro cell, 28 GHz | 60 | 0.5 |
//! | indoors, walking, 60 GHz | 150 | 0.5 |
//! | indoors, standing, 60 GHz | 250 | 0.1 |

use nearlight_units::{Bitrate, Span};

use crate::capacity::Rates;
use crate::generate::{chance_per_step, steps_in, with_mean};
use crate::random::Random;
use crate::wander::{Autoregression, kept};

const STEP: Span = Span::from_millis(100);

/// One of the six scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    CityDrive,
    BeachStationary,
    UrbanMacro,
    RuralMacro,
    IndoorWalking,
    IndoorStationary,
}

/// Parameters of a scene.
struct Parameters {
    mean: Bitrate,
    /// Deviation of the logarithm's slow part, and the time in which its correlation falls to 1/e.
    slow: (f64, Span),
    /// Deviation of the logarithm's fast part, and the time in which its correlation falls to 1/e.
    fast: (f64, Span),
    /// Mean time between two blockages, and their mean length.
    clear: Span,
    blocked: Span,
    /// The remaining fraction of the rate: each blockage draws uniformly between the two.
    left: (f64, f64),
}

impl Scene {
    pub const ALL: [Self; 6] = [
        Self::CityDrive,
        Self::BeachStationary,
        Self::UrbanMacro,
        Self::RuralMacro,
        Self::IndoorWalking,
        Self::IndoorStationary,
    ];

    /// The name in paths, after `model=`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CityDrive => "city-drive",
            Self::BeachStationary => "beach-stationary",
            Self::UrbanMacro => "urban-macro",
            Self::RuralMacro => "rural-macro",
            Self::IndoorWalking => "indoor-walking",
            Self::IndoorStationary => "indoor-stationary",
        }
    }

    const fn parameters(self) -> Parameters {
        let ms = Span::from_millis;
        let (mean, slow, fast, clear, blocked, left) = match self {
            Self::CityDrive => (80, (0.60, ms(8_000)), (0.35, ms(500)), ms(6_000), ms(1_200), (0.05, 0.40)),
            Self::BeachStationary => (120, (0.20, ms(20_000)), (0.15, ms(400)), ms(30_000), ms(500), (0.30, 0.70)),
            Self::UrbanMacro => (100, (0.50, ms(4_000)), (0.30, ms(300)), ms(5_000), ms(2_000), (0.05, 0.30)),
            Self::RuralMacro => (60, (0.35, ms(10_000)), (0.25, ms(300)), ms(15_000), ms(1_000), (0.20, 0.60)),
            Self::IndoorWalking => (150, (0.30, ms(3_000)), (0.25, ms(200)), ms(3_000), ms(700), (0.0, 0.30)),
            Self::IndoorStationary => (250, (0.08, ms(10_000)), (0.08, ms(200)), ms(40_000), ms(300), (0.20, 0.60)),
        };
        Parameters { mean: Bitrate::from_mbps(mean), slow, fast, clear, blocked, left }
    }

    /// A trace of about `length`; if `mean` is None, with the scene's own mean.
    #[must_use]
    pub fn rates(self, mean: Option<Bitrate>, length: Span, seed: u64) -> Rates {
        let Parameters { mean: own, slow, fast, clear, blocked, left } = self.parameters();
        let mut random = Random::new(seed);
        let mut wandering =
            [slow, fast].map(|(deviation, memory)| (Autoregression::new(deviation, &mut random), kept(STEP, memory)));
        let (begins, ends) = (chance_per_step(STEP, clear), chance_per_step(STEP, blocked));
        let mut blockage = None;
        let rates: Vec<f64> = (0..steps_in(length, STEP))
            .map(|_| {
                let logarithm: f64 = wandering.iter_mut().map(|(part, kept)| part.next(*kept, &mut random)).sum();
                if random.happens(if blockage.is_some() { ends } else { begins }) {
                    let share = left.0 + (left.1 - left.0) * random.unit();
                    blockage = if blockage.is_some() { None } else { Some(share) };
                }
                libm::exp(logarithm) * blockage.unwrap_or(1.0)
            })
            .collect();
        with_mean(&rates, mean.unwrap_or(own), STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variation(scene: Scene) -> f64 {
        let of_seed = |seed| {
            let rates = scene.rates(None, Span::from_secs(600), seed);
            let all: Vec<f64> = rates.iter().map(|step| step.1.as_mbps_f64()).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            (all.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt() / mean
        };
        (1..=20).map(of_seed).sum::<f64>() / 20.0
    }

    #[test]
    fn scenes_vary_as_their_table_says() {
        let expected = [0.8, 0.3, 0.8, 0.5, 0.5, 0.1];
        for (scene, expected) in Scene::ALL.into_iter().zip(expected) {
            let found = variation(scene);
            assert!((found - expected).abs() < 0.1, "{}: {found:.2} rather than {expected}", scene.name());
        }
    }

    #[test]
    fn a_scene_has_its_mean_and_its_seed_makes_it() {
        for scene in Scene::ALL {
            let rates = |seed| scene.rates(Some(Bitrate::from_mbps(40)), Span::from_secs(60), seed);
            assert!((rates(1).mean().as_mbps_f64() - 40.0).abs() < 0.001);
            assert_eq!(rates(1), rates(1));
            assert_ne!(rates(1), rates(2));
        }
    }
}
