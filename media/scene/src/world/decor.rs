//! The animated parts of the plaza that users cannot touch. All of them are functions of the world's age.

use std::f32::consts::TAU;

use glam::{Quat, Vec3, Vec4};

use super::draw_list::{DrawList, Instance, Model, Sprite};
use crate::plaza::build::{BEAM, BEAM_HALF, BEAM_TURN, RINGS, SCULPTURE, lantern_places};
use crate::plaza::light::{Lighting, smooth};
use crate::plaza::mesh::Layer;
use crate::plaza::texture::lattice;

const GOLD: Vec3 = Vec3::new(1.0, 0.74, 0.36);
pub const PENDULUMS: u32 = 11;
/// Centre of the fountain's water.
pub const FOUNTAIN: Vec3 = Vec3::new(SCULPTURE.x, SCULPTURE.y + 0.5, SCULPTURE.z);
/// Time in seconds after which all pendulums are in step again.
const PENDULUM_CYCLE: f64 = 48.0;
/// Swings of the longest pendulum in a cycle.
const FIRST_SWINGS: u32 = 24;
const SKY_LANTERNS: i32 = 26;
const JETS: i32 = 9;
const DROPS: i32 = 9;

pub fn add(age: f64, lighting: &Lighting, show: &mut DrawList) {
    rings(age, show);
    pendulums(age, lighting, show);
    lanterns(age, show);
    sky_lanterns(age, show);
    water(age, show);
    fireflies(age, show);
}

/// Returns an angle that grows by `rate` radians per second. It is kept small, so that single precision suffices.
fn angle(age: f64, rate: f64) -> f32 {
    (age * rate).rem_euclid(std::f64::consts::TAU) as f32
}

/// Returns a slow oscillation between -1 and 1.
fn sway(age: f64, rate: f64, shift: f32) -> f32 {
    (angle(age, rate) + shift).sin()
}

fn glow(centre: Vec3, radius: f32, colour: Vec3) -> Sprite {
    Sprite { centre, radius, flat: false, colour: colour.extend(0.0) }
}

/// Returns the orientation and radius of each of the sculpture's rings, the outermost first.
fn ring_frames(age: f64) -> [(Quat, f32); 3] {
    let spins = [(1.78, 0.23, 1.15), (1.44, -0.37, 0.62), (1.12, 0.53, -0.9)];
    let mut frame = Quat::from_rotation_y(angle(age, 0.11));
    let mut index = 0;
    spins.map(|(radius, rate, tilt)| {
        let axis = if index % 2 == 0 {
            Quat::from_rotation_x(angle(age, rate))
        } else {
            Quat::from_rotation_z(angle(age, rate))
        };
        frame = frame * Quat::from_rotation_z(tilt) * axis;
        index += 1;
        (frame, radius)
    })
}

/// Returns the position of one of a ring's two pearls.
fn pearl(age: f64, index: usize, (frame, radius): (Quat, f32), bead: usize) -> Vec3 {
    let (sin, cos) = (angle(age, 0.8 - 0.2 * index as f64) + bead as f32 * TAU / 2.0).sin_cos();
    RINGS + frame * Vec3::new(cos * radius, 0.0, sin * radius)
}

/// Returns the position of each ring's first pearl.
pub fn pearls(age: f64) -> [Vec3; 3] {
    let rings = ring_frames(age);
    [0, 1, 2].map(|index| pearl(age, index, rings[index], 0))
}

fn rings(age: f64, show: &mut DrawList) {
    let mut innermost = Quat::IDENTITY;
    for (index, (frame, radius)) in ring_frames(age).into_iter().enumerate() {
        innermost = frame;
        let mut ring = Instance::new(Model::Ring, RINGS, frame, Vec3::new(radius, radius * 1.5, radius));
        (ring.colour, ring.metal) = (GOLD, 0.86);
        show.instances.push(ring);
        for bead in 0..2 {
            let place = pearl(age, index, (frame, radius), bead);
            let mut pearl = Instance::new(Model::Pearl, place, Quat::IDENTITY, Vec3::splat(0.125));
            pearl.colour = [Vec3::new(0.45, 0.86, 1.0), Vec3::new(1.0, 0.52, 0.42), Vec3::new(0.72, 0.62, 1.0)][index];
            (pearl.metal, pearl.glow) = (0.3, 0.35);
            show.instances.push(pearl);
        }
    }
    let beat = 1.0 + 0.05 * sway(age, 1.7, 0.0);
    let mut core = Instance::new(Model::Ball, RINGS, innermost, Vec3::splat(0.40 * beat));
    (core.colour, core.glow) = (Vec3::new(1.0, 0.80, 0.50), 0.9);
    show.instances.push(core);
    show.sprites.push(glow(RINGS, 1.45 * beat, Vec3::new(0.52, 0.31, 0.13)));
}

/// Returns the angular frequency of a pendulum's swing, in radians per second.
pub fn pendulum_rate(index: u32) -> f64 {
    std::f64::consts::TAU * f64::from(FIRST_SWINGS + index) / PENDULUM_CYCLE
}

/// Returns a pendulum at this angle in radians: its rotation, the centres of its rod and its ball, and the rod's length.
pub fn pendulum(index: u32, swing: f32) -> (Quat, Vec3, Vec3, f32) {
    let turn = Quat::from_rotation_y(BEAM_TURN);
    let share = index as f32 / (PENDULUMS - 1) as f32;
    let rate = pendulum_rate(index);
    let swing = turn * Quat::from_rotation_x(swing);
    let top = BEAM + turn * Vec3::new((share * 2.0 - 1.0) * (BEAM_HALF - 0.2), -0.05, 0.0);
    // All rods are longer than the formula says by the same length, so that the balls hang at eye height.
    let length = (9.81 / (rate * rate)) as f32 + 0.55;
    let down = |metres: f32| top + swing * Vec3::NEG_Y * metres;
    (swing, down(length / 2.0), down(length), length)
}

fn pendulums(age: f64, lighting: &Lighting, show: &mut DrawList) {
    for index in 0..PENDULUMS {
        let share = index as f32 / (PENDULUMS - 1) as f32;
        let (turn, middle, place, length) = pendulum(index, 0.42 * angle(age, pendulum_rate(index)).cos());
        let mut rod = Instance::new(Model::Cube, middle, turn, Vec3::new(0.006, length / 2.0, 0.006));
        (rod.colour, rod.reach) = (Vec3::new(0.30, 0.26, 0.24), length);
        show.instances.push(rod);
        let mut ball = Instance::new(Model::Globe, place, turn, Vec3::splat(0.115));
        let (warm, cool) = (Vec3::new(1.0, 0.50, 0.26), Vec3::new(0.30, 0.72, 0.95));
        (ball.colour, ball.metal) = (warm.lerp(cool, share), 0.45);
        ball.sunlight = lighting.sunlight(ball.position());
        show.instances.push(ball);
    }
}

fn lanterns(age: f64, show: &mut DrawList) {
    for (index, place) in lantern_places().into_iter().enumerate() {
        let shift = index as f32 * 1.9;
        let place = place + Vec3::new(0.05 * sway(age, 0.9, shift), 0.04 * sway(age, 1.3, shift), 0.0);
        let turn = Quat::from_rotation_z(0.06 * sway(age, 0.9, shift));
        let mut lantern = Instance::new(Model::Lantern, place, turn, Vec3::new(0.20, 0.26, 0.20));
        (lantern.colour, lantern.layer) = (Vec3::new(1.0, 0.62, 0.28), Layer::Paper);
        lantern.glow = 0.78 + 0.06 * sway(age, 5.1, shift * 3.0);
        show.instances.push(lantern);
        let mut string =
            Instance::new(Model::Cube, place + Vec3::Y * 0.62, Quat::IDENTITY, Vec3::new(0.006, 0.38, 0.006));
        string.colour = Vec3::new(0.25, 0.18, 0.14);
        show.instances.push(string);
        show.sprites.push(glow(place, 0.72, Vec3::new(0.46, 0.24, 0.08)));
    }
}

/// Adds paper lanterns that rise over the trees and fade in the evening.
fn sky_lanterns(age: f64, show: &mut DrawList) {
    for index in 0..SKY_LANTERNS {
        let random = |salt: i32| lattice(index, salt, 77);
        let rise = ((age * 0.42) as f32 + random(0) * 40.0).rem_euclid(40.0);
        let bearing = (random(1) - 0.5) * 2.6 - std::f32::consts::FRAC_PI_2;
        let distance = 22.0 + 38.0 * random(2);
        let drift = 0.8 * sway(age, 0.21, random(3) * TAU);
        let place = SCULPTURE
            + Vec3::new(
                bearing.cos() * distance + drift,
                4.0 + rise * (0.45 + 0.3 * random(4)),
                bearing.sin() * distance,
            );
        let seen = smooth(rise / 5.0) * smooth((40.0 - rise) / 8.0);
        let mut lantern = Instance::new(Model::Speck, place, Quat::IDENTITY, Vec3::new(0.30, 0.40, 0.30) * seen);
        (lantern.colour, lantern.glow) = (Vec3::new(1.0, 0.66, 0.34), 0.85);
        show.instances.push(lantern);
        show.sprites.push(glow(place, 1.15, Vec3::new(0.36, 0.18, 0.06) * seen));
    }
}

fn water(age: f64, show: &mut DrawList) {
    let mut pool = Instance::new(Model::Water, SCULPTURE + Vec3::Y * 0.43, Quat::IDENTITY, Vec3::new(2.14, 1.0, 2.14));
    (pool.colour, pool.metal, pool.sunlight) = (Vec3::new(0.62, 0.76, 0.84), 0.82, 0.3);
    pool.ripple = angle(age, 1.0) + 0.001;
    show.instances.push(pool);
    for jet in 0..JETS {
        let (sin, cos) = ((jet as f32 + 0.5) / JETS as f32 * TAU).sin_cos();
        for drop in 0..DROPS {
            // Each drop flies for one second from the rim inwards.
            let offset = f64::from(drop) / f64::from(DROPS) + f64::from(lattice(jet, drop, 5)) * 0.06;
            let flight = (age * 0.95 + offset).rem_euclid(1.0) as f32;
            let height = 0.5 + 4.2 * flight * (1.0 - flight) * 0.62;
            let radius = 2.0 - 1.15 * flight;
            let place = SCULPTURE + Vec3::new(cos * radius, height, sin * radius);
            let fade = smooth(flight * 9.0) * smooth((1.0 - flight) * 9.0);
            show.sprites.push(Sprite {
                centre: place,
                radius: 0.05 + 0.03 * flight,
                flat: false,
                colour: Vec4::new(0.50, 0.44, 0.44, 0.30) * fade,
            });
        }
    }
}

fn fireflies(age: f64, show: &mut DrawList) {
    for index in 0..16 {
        let random = |salt: i32| lattice(index, salt, 55);
        let shift = random(0) * TAU;
        let home = Vec3::new((random(1) - 0.5) * 15.0, 0.6 + 1.4 * random(2), -4.0 - 9.0 * random(3));
        let wander =
            Vec3::new(sway(age, 0.31, shift), 0.4 * sway(age, 0.53, shift * 2.0), sway(age, 0.27, shift * 3.0));
        let blink = smooth(0.5 + 0.9 * sway(age, 0.9, shift * 5.0));
        show.sprites.push(glow(home + wander * 0.9, 0.07, Vec3::new(0.95, 0.85, 0.40) * blink));
    }
}
