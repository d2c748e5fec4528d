//! The starting places of users: circles around what there is to see, so that newcomers neither share a place nor miss each other.

use nearlight_wire::Pose;

use crate::START;
use crate::plaza::build::SCULPTURE;

/// Angles of the places on a circle, in degrees to the left of [`START`] as seen from above. The first three see each other; few things
/// stand in front of those that come next.
const ORDER: [f32; 11] = [120.0, 240.0, 90.0, 270.0, 150.0, 210.0, 330.0, 30.0, 300.0, 60.0, 180.0];
/// Radii of the circles around the fountain, in metres. Its basin has 2.45 m, and the columns stand at 9 m.
const FOUNTAIN_RADII: [f32; 2] = [6.5, 4.2];
/// Radii of the circles ahead of the start in a scene from a file, whose walls are unknown, in metres. Guess: people talk at this distance.
const SCENE_RADII: [f32; 2] = [1.5, 3.0];

/// Returns the places around the plaza's fountain. The first one is [`START`], between the ends of the colonnade.
pub fn around_fountain() -> Vec<Pose> {
    let middle = [SCULPTURE.x, SCULPTURE.z];
    circles(middle, FOUNTAIN_RADII)
}

/// Returns the places in a scene from a file. The first one is [`START`], which is on the inner circle.
pub fn ahead_of_start() -> Vec<Pose> {
    let [x, _, z] = START.position;
    circles([x, z - SCENE_RADII[0]], SCENE_RADII)
}

/// Returns [`START`], and the places on two circles, all of which face the middle.
fn circles(middle: [f32; 2], radii: [f32; 2]) -> Vec<Pose> {
    let on_circles =
        radii.into_iter().flat_map(|radius| ORDER.map(|angle| on_circle(middle, radius, angle.to_radians())));
    let nearest = on_circle(middle, radii[1], 0.0);
    [START].into_iter().chain(on_circles).chain([nearest]).collect()
}

fn on_circle([x, z]: [f32; 2], radius: f32, angle: f32) -> Pose {
    let (sin, cos) = angle.sin_cos();
    let (turn_sin, turn_cos) = (angle / 2.0).sin_cos();
    let position = [x + radius * sin, START.position[1], z + radius * cos];
    Pose { position, orientation: [0.0, turn_sin, 0.0, turn_cos] }
}

#[cfg(test)]
mod tests {
    use glam::{Quat, Vec3};

    use super::*;
    use crate::plaza::build::{BEAM, BEAM_HALF, BEAM_TURN, solids};
    use crate::world::{Setting, World};

    /// Radius of a body in metres.
    const BODY_RADIUS: f32 = 0.3;
    /// Largest angle from the middle of a picture, of 65 degrees by 16:9, at which something is still in it.
    const HALF_VIEW_DEGREES: f32 = 48.0;

    fn ground(place: &Pose) -> Vec3 {
        Vec3::from(place.position).with_y(0.0)
    }

    fn ahead(place: &Pose) -> Vec3 {
        Quat::from_array(place.orientation) * Vec3::NEG_Z
    }

    #[test]
    fn every_place_faces_the_middle_and_is_apart_from_the_others() {
        for (places, middle) in [(around_fountain(), SCULPTURE), (ahead_of_start(), Vec3::new(0.0, 0.0, -1.5))] {
            assert_eq!(places.len(), 24);
            assert_eq!(places[0], START, "whoever is alone has the view of before");
            for (number, place) in places.iter().enumerate() {
                let to_middle = (middle.with_y(0.0) - ground(place)).normalize();
                assert!(ahead(place).dot(to_middle) > 0.999, "{number}");
                let nearest = places.iter().enumerate().filter(|(other, _)| *other != number);
                let nearest = nearest.map(|(_, other)| ground(place).distance(ground(other))).fold(f32::MAX, f32::min);
                assert!(nearest > 0.7, "{number} is {nearest} m from another");
            }
        }
    }

    #[test]
    fn the_first_three_see_each_other_past_the_sculpture() {
        for places in [around_fountain(), ahead_of_start()] {
            for (place, other) in (0..3).flat_map(|one| (0..3).map(move |other| (one, other))).filter(|(a, b)| a != b) {
                let (from, to) = (&places[place], &places[other]);
                let towards = (ground(to) - ground(from)).normalize();
                let angle = ahead(from).dot(towards).acos().to_degrees();
                assert!(angle < HALF_VIEW_DEGREES, "{other} is {angle} degrees to the side of {place}");
            }
        }
        let places = around_fountain();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let (from, to) = (ground(&places[one]), ground(&places[other]));
            let along = (SCULPTURE - from).project_onto(to - from);
            let passes = from + along;
            assert!(passes.distance(SCULPTURE) > 2.5, "the fountain is between {one} and {other}");
        }
    }

    #[test]
    fn nobody_stands_in_the_plaza_s_furniture() {
        let bodies = World::new(Setting::default()).at_first();
        let beam = Quat::from_rotation_y(BEAM_TURN) * Vec3::X * BEAM_HALF;
        for (number, place) in around_fountain().iter().enumerate() {
            let at = Vec3::from(place.position);
            for height in [0.3, 0.8, 1.3, 1.6] {
                let body = at.with_y(height);
                let touches = solids().iter().any(|solid| solid.touch(body, BODY_RADIUS - 0.01).is_some());
                assert!(!touches, "{number} stands in something at {height} m");
                for (object, instance) in &bodies {
                    let distance = instance.position().distance(body);
                    assert!(distance > BODY_RADIUS + instance.reach, "{number} stands in {object:?}");
                }
            }
            for share in -10..=10 {
                let point = (BEAM + beam * (share as f32 / 10.0)).with_y(0.0);
                assert!(point.distance(at.with_y(0.0)) > BODY_RADIUS + 0.1, "{number} stands under the beam");
            }
        }
    }
}
