//! What the world sounds like: impacts, throws and pushes, and the plaza's own moving things.

use std::f64::consts::TAU;

use glam::Vec3;
use nearlight_sound::{Cues, Hum, Strike, Struck, Timbre};

use super::World;
use super::body::{Body, Impact, Shape};
use super::decor;

/// Strikes that wait to be fetched: more in a frame are noise.
const MAX_STRIKES: usize = 32;
/// Metres a second of the slowest impact that is heard, and of one at full level. Guesses.
const SOFTEST: f32 = 0.35;
const LOUDEST: f32 = 6.0;
/// Amplitudes at one metre. Guesses by ear: a ball that lands in front of one's feet is clear, the plaza stays behind it.
const KNOCK: f32 = 0.9;
const THROW: f32 = 0.5;
const PUSH: f32 = 0.35;
const RING: f32 = 0.5;
const WATER: f32 = 0.45;
const PENDULUM: f32 = 0.42;
/// The sculpture's rings hum a chord, its pearls carry the tones around: A, E and C sharp, in hertz.
const CHORD: [f32; 3] = [110.0, 164.81, 277.18];
/// The pendulums ring a pentatonic scale, the long ones low.
const SCALE: [f32; 5] = [1.0, 1.125, 1.25, 1.5, 1.6875];
const LOWEST: f32 = 440.0;
/// A ball of this radius and a crate of this half width (metres) ring with these (hertz); larger ones lower.
const BALL: (f32, f32) = (0.2, 410.0);
const CRATE: (f32, f32) = (0.27, 165.0);

impl World {
    /// The sounds since the last call.
    pub fn cues(&mut self) -> Cues {
        let hums = if self.setting.decor { hums(self.age()) } else { Vec::new() };
        Cues { hums, strikes: std::mem::take(&mut self.strikes) }
    }

    pub(super) fn on_impacts(&mut self, impacts: &[Impact]) {
        for impact in impacts.iter().filter(|impact| impact.speed > SOFTEST) {
            let Some(body) = self.bodies.get(impact.body) else { continue };
            let level = KNOCK * (impact.speed / LOUDEST).min(1.0);
            self.sound(impact.point, rings(body), level);
        }
    }

    pub(super) fn on_thrown(&mut self, place: Vec3) {
        self.sound(place, Struck::Air, THROW);
    }

    pub(super) fn on_pushed(&mut self, body: usize) {
        let Some(body) = self.bodies.get(body) else { return };
        self.sound(body.position, rings(body), PUSH);
    }

    /// The pendulums that went through their lowest point since `before`, in seconds of the world's age.
    pub(super) fn on_swung(&mut self, before: f64) {
        let age = self.age();
        for index in 0..decor::PENDULUMS {
            let rate = decor::pendulum_rate(index);
            // Its angle is a cosine: zero at a quarter and at three quarters of each turn.
            let half_turns = |age: f64| (age * rate / (TAU / 2.0) - 0.5).floor();
            if half_turns(age) > half_turns(before) {
                let octave = (index as usize / SCALE.len()) as i32;
                let hertz = LOWEST * SCALE[index as usize % SCALE.len()] * 2.0_f32.powi(octave);
                let lowest = decor::pendulum(index, 0.0).2;
                self.sound(lowest, Struck::Chime { hertz }, PENDULUM);
            }
        }
    }

    fn sound(&mut self, place: Vec3, struck: Struck, level: f32) {
        if self.strikes.len() < MAX_STRIKES {
            self.strikes.push(Strike { place, struck, level });
        }
    }
}

fn rings(body: &Body) -> Struck {
    match body.shape {
        Shape::Ball { radius } => Struck::Ball { hertz: BALL.1 * BALL.0 / radius },
        Shape::Crate { half } => Struck::Crate { hertz: CRATE.1 * CRATE.0 / half },
    }
}

fn hums(age: f64) -> Vec<Hum> {
    let water = Hum { id: 0, place: decor::FOUNTAIN, timbre: Timbre::Water, level: WATER };
    let pearls = decor::pearls(age).into_iter().zip(CHORD).enumerate();
    let tones = pearls.map(|(index, (place, hertz))| Hum {
        id: 1 + index as u16,
        place,
        timbre: Timbre::Tone { hertz },
        level: RING,
    });
    std::iter::once(water).chain(tones).collect()
}
