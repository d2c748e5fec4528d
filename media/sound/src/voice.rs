//! Synthesis of single sounds from ringing modes, tones and noise.

use std::f32::consts::TAU;

use nearlight_wire::SOUND_RATE;

use crate::{BLOCK_FRAMES, StrikeKind, Timbre};

const RATE: f32 = SOUND_RATE as f32;
/// Amplitude at one metre below which a ringing sound ends: 66 dB below full scale.
const MIN_AUDIBLE_AMPLITUDE: f32 = 5e-4;
/// Rise and decay time in seconds of the sound of an object that flies through the air. Guess.
const RUSH_RISE_AND_DECAY: (f32, f32) = (0.03, 0.16);

/// The synthesis of one source, before it is spatialised.
#[derive(Clone, Debug)]
pub(crate) enum Voice {
    Ringing(StruckObject),
    Rush { noise: Noise, band: Band, level: f32, age: f32 },
    Tone { partials: [Partial; 3], swells: [Partial; 3] },
    Water { noise: Noise, band: Band, swell: Partial },
}

impl Voice {
    /// Creates the sound of a struck object. `seed` makes its noise differ from that of others.
    pub(crate) fn struck(struck: StrikeKind, level: f32, seed: u32) -> Self {
        // Ratios of the modes: a bar that is free at both ends (Fletcher and Rossing, The Physics of Musical Instruments, 2.11) for
        // balls; the others are guesses by ear.
        let ringing = |hertz: f32, modes: [(f32, f32, f32); 3]| {
            let modes = modes.map(|(ratio, decay, share)| Mode::new(hertz * ratio, decay, level * share));
            Self::Ringing(StruckObject {
                modes,
                longest: modes.map(|mode| mode.decay).into_iter().fold(0.0, f32::max),
                level,
                age: 0.0,
            })
        };
        match struck {
            StrikeKind::Ball { hertz } => {
                ringing(hertz, [(1.0, 0.13, 0.62), (2.756, 0.06, 0.26), (5.404, 0.025, 0.12)])
            }
            StrikeKind::Crate { hertz } => ringing(hertz, [(1.0, 0.05, 0.6), (1.58, 0.04, 0.28), (2.93, 0.015, 0.12)]),
            StrikeKind::Chime { hertz } => ringing(hertz, [(1.0, 0.3, 0.72), (2.0, 0.2, 0.2), (3.01, 0.1, 0.08)]),
            StrikeKind::Air => Self::Rush { noise: Noise::new(seed), band: Band::new(350.0, 1_800.0), level, age: 0.0 },
        }
    }

    /// Creates a continuous sound at full level.
    pub(crate) fn humming(timbre: Timbre, seed: u32) -> Self {
        let phase = seed as f32 * 1.7;
        match timbre {
            Timbre::Tone { hertz } => Self::Tone {
                partials: [1.0, 2.003, 2.997].map(|ratio| Partial::new(hertz * ratio, phase)),
                swells: [0.11, 0.17, 0.23].map(|swell| Partial::new(swell, phase)),
            },
            Timbre::Water => Self::Water {
                noise: Noise::new(seed),
                band: Band::new(500.0, 3_600.0),
                swell: Partial::new(0.7, phase),
            },
        }
    }

    /// Synthesises the next block.
    pub(crate) fn fill(&mut self, block: &mut [f32]) {
        match self {
            Self::Ringing(ringing) => {
                for sample in &mut *block {
                    *sample = ringing.modes.iter_mut().map(Mode::next).sum();
                }
                ringing.age += block.len() as f32 / RATE;
            }
            Self::Rush { noise, band, level, age } => {
                for sample in block {
                    let (swell, decay) = RUSH_RISE_AND_DECAY;
                    let envelope = if *age < swell { *age / swell } else { (-(*age - swell) / decay).exp() };
                    *sample = band.next(noise.next()) * envelope * *level;
                    *age += 1.0 / RATE;
                }
            }
            Self::Tone { partials, swells } => {
                let shares = swells.each_mut().map(|swell| 0.6 + 0.4 * swell.skip(BLOCK_FRAMES));
                for sample in block {
                    let [first, second, third] = partials.each_mut().map(Partial::next);
                    *sample = 0.62 * first * shares[0] + 0.26 * second * shares[1] + 0.12 * third * shares[2];
                }
                partials.iter_mut().for_each(Partial::settle);
            }
            Self::Water { noise, band, swell } => {
                let level = 0.8 + 0.2 * swell.skip(BLOCK_FRAMES);
                for sample in block {
                    *sample = band.next(noise.next()) * level;
                }
            }
        }
    }

    /// Returns whether the sound is no longer audible. A hum never ends by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.amplitude() < MIN_AUDIBLE_AMPLITUDE
    }

    /// Returns the remaining amplitude.
    pub(crate) fn amplitude(&self) -> f32 {
        match self {
            Self::Ringing(ringing) => ringing.level * (-ringing.age / ringing.longest).exp(),
            Self::Rush { level, age, .. } => {
                level * (-(age - RUSH_RISE_AND_DECAY.0).max(0.0) / RUSH_RISE_AND_DECAY.1).exp()
            }
            Self::Tone { .. } | Self::Water { .. } => 1.0,
        }
    }
}

/// A struck object with up to three modes.
#[derive(Clone, Debug)]
pub(crate) struct StruckObject {
    modes: [Mode; 3],
    /// Time constant of the slowest decay in seconds.
    longest: f32,
    level: f32,
    age: f32,
}

/// A decaying sine, computed by a recurrence with two multiplications per sample.
#[derive(Clone, Copy, Debug)]
struct Mode {
    first: f32,
    second: f32,
    newest: f32,
    older: f32,
    decay: f32,
}

impl Mode {
    /// Creates a mode that begins at zero and loses a factor of e in `decay` seconds.
    fn new(hertz: f32, decay: f32, amplitude: f32) -> Self {
        let turn = TAU * hertz.min(RATE * 0.45) / RATE;
        let shrink = (-1.0 / (decay * RATE)).exp();
        Self {
            first: 2.0 * shrink * turn.cos(),
            second: -shrink * shrink,
            newest: -amplitude * turn.sin() / shrink,
            older: -amplitude * (2.0 * turn).sin() / (shrink * shrink),
            decay,
        }
    }

    fn next(&mut self) -> f32 {
        let sample = self.first * self.newest + self.second * self.older;
        (self.older, self.newest) = (self.newest, sample);
        sample
    }
}

/// White noise from a seed (Marsaglia's xorshift32), from -1 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise(u32);

impl Noise {
    fn new(seed: u32) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9) | 1)
    }

    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0.cast_signed() as f32 / 2_147_483_648.0
    }
}

/// A band-pass between two cut-offs, from two first-order filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    low: f32,
    high: f32,
    low_share: f32,
    high_share: f32,
}

impl Band {
    fn new(low_hertz: f32, high_hertz: f32) -> Self {
        Self { low: 0.0, high: 0.0, low_share: low_pass(low_hertz), high_share: low_pass(high_hertz) }
    }

    fn next(&mut self, sample: f32) -> f32 {
        self.high += self.high_share * (sample - self.high);
        self.low += self.low_share * (self.high - self.low);
        self.high - self.low
    }
}

/// Returns the coefficient of a first-order low-pass: the share of the difference by which its output changes with each sample.
pub(crate) fn low_pass(cutoff_hertz: f32) -> f32 {
    1.0 - (-TAU * cutoff_hertz / RATE).exp()
}

/// A continuous sine, as a rotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    cos: f32,
    sin: f32,
    turn_cos: f32,
    turn_sin: f32,
    /// Radians per sample.
    turn: f32,
}

impl Partial {
    fn new(hertz: f32, phase: f32) -> Self {
        let turn = TAU * hertz / RATE;
        Self { cos: phase.cos(), sin: phase.sin(), turn_cos: turn.cos(), turn_sin: turn.sin(), turn }
    }

    fn next(&mut self) -> f32 {
        (self.cos, self.sin) =
            (self.cos * self.turn_cos - self.sin * self.turn_sin, self.cos * self.turn_sin + self.sin * self.turn_cos);
        self.sin
    }

    /// Advances by this many samples at once.
    fn skip(&mut self, samples: usize) -> f32 {
        let (sin, cos) = (self.turn * samples as f32).sin_cos();
        (self.cos, self.sin) = (self.cos * cos - self.sin * sin, self.cos * sin + self.sin * cos);
        self.settle();
        self.sin
    }

    /// Renormalises the rotation, whose radius drifts over hours by rounding.
    fn settle(&mut self) {
        let radius = self.cos.hypot(self.sin);
        (self.cos, self.sin) = (self.cos / radius, self.sin / radius);
    }
}
