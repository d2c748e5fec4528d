//! The sounds of the world: impacts, throws and pushes, and the plaza's animated parts.

use std::f64::consts::TAU;

use glam::Vec3;
use nearlight_sound::{Cues, Hum, Strike, StrikeKind, Timbre};

use super::World;
use super::body::{Body, Impact, Shape};
use super::decor;

/// Strikes that may wait to be fetched. More within a frame would be noise.
const MAX_STRIKES: usize = 32;
/// Speeds in metres per second of the slowest audible impact, and of an impact at full level. Guesses.
const MIN_AUDIBLE_SPEED: f32 = 0.35;
const FULL_LEVEL_SPEED: f32 = 6.0;
/// Amplitudes at one metre, 0 to 1. Guesses by ear: a ball that lands at one's feet is clear, and the plaza stays in the background.
const KNOCK_LEVEL: f32 = 0.9;
const THROW_LEVEL: f32 = 0.5;
const PUSH_LEVEL: f32 = 0.35;
const RING_LEVEL: f32 = 0.5;
const WATER_LEVEL: f32 = 0.45;
const PENDULUM_LEVEL: f32 = 0.42;
/// Tones of the sculpture's pearls in hertz: A, E and C sharp.
const CHORD: [f32; 3] = [110.0, 164.81, 277.18];
/// Ratios of the pendulums' pentatonic scale. Long pendulums are low.
const PENDULUM_SCALE: [f32; 5] = [1.0, 1.125, 1.25, 1.5, 1.6875];
const LOWEST_PENDULUM_HERTZ: f32 = 440.0;
/// Size in metres (radius of a ball, half width of a crate) and frequency in hertz of a reference object. Larger ones are lower.
const BALL: (f32, f32) = (0.2, 410.0);
const CRATE: (f32, f32) = (0.27, 165.0);

impl World {
    /// Returns the sounds since the last call.
    pub fn cues(&mut self) -> Cues {
        let hums = if self.setting.decor { hums(self.age()) } else { Vec::new() };
        Cues { hums, strikes: std::mem::take(&mut self.strikes) }
    }

    pub(super) fn on_impacts(&mut self, impacts: &[Impact]) {
        for impact in impacts.iter().filter(|impact| impact.speed > MIN_AUDIBLE_SPEED) {
            let Some(body) = self.bodies.get(impact.body) else { continue };
            let level = KNOCK_LEVEL * (impact.speed / FULL_LEVEL_SPEED).min(1.0);
            self.sound(impact.point, rings(body), level);
        }
    }

    pub(super) fn on_thrown(&mut self, place: Vec3) {
        self.sound(place, StrikeKind::Air, THROW_LEVEL);
    }

    pub(super) fn on_pushed(&mut self, body: usize) {
        let Some(body) = self.bodies.get(body) else { return };
        self.sound(body.position, rings(body), PUSH_LEVEL);
    }

    /// Adds the sounds of pendulums that passed their lowest point since `before`, in seconds of the world's age.
    pub(super) fn on_swung(&mut self, before: f64) {
        let age = self.age();
        for index in 0..decor::PENDULUMS {
            let rate = decor::pendulum_rate(index);
            // The angle is a cosine, which is zero at a quarter and at three quarters of each period.
            let half_turns = |age: f64| (age * rate / (TAU / 2.0) - 0.5).floor();
            if half_turns(age) > half_turns(before) {
                let octave = (index as usize / PENDULUM_SCALE.len()) as i32;
                let hertz = LOWEST_PENDULUM_HERTZ
                    * PENDULUM_SCALE[index as usize % PENDULUM_SCALE.len()]
                    * 2.0_f32.powi(octave);
                let lowest = decor::pendulum(index, 0.0).2;
                self.sound(lowest, StrikeKind::Chime { hertz }, PENDULUM_LEVEL);
            }
        }
    }

    fn sound(&mut self, place: Vec3, struck: StrikeKind, level: f32) {
        if self.strikes.len() < MAX_STRIKES {
            self.strikes.push(Strike { place, struck, level });
        }
    }
}

fn rings(body: &Body) -> StrikeKind {
    match body.shape {
        Shape::Ball { radius } => StrikeKind::Ball { hertz: BALL.1 * BALL.0 / radius },
        Shape::Crate { half } => StrikeKind::Crate { hertz: CRATE.1 * CRATE.0 / half },
    }
}

fn hums(age: f64) -> Vec<Hum> {
    let water = Hum { id: 0, place: decor::FOUNTAIN, timbre: Timbre::Water, level: WATER_LEVEL };
    let pearls = decor::pearls(age).into_iter().zip(CHORD).enumerate();
    let tones = pearls.map(|(index, (place, hertz))| Hum {
        id: 1 + index as u16,
        place,
        timbre: Timbre::Tone { hertz },
        level: RING_LEVEL,
    });
    std::iter::once(water).chain(tones).collect()
}
