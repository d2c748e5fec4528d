//! Where newcomers stand, so that nobody begins within somebody else's body.

use nearlight_wire::Pose;

/// Distance along the ground, in metres, within which somebody takes a starting place. Guess: people who stand closer crowd each other.
const PLACE_RADIUS: f32 = 1.2;

/// Returns the number of the first place that nobody takes or, if all are taken, of the one farthest from whoever is next to it. `people`
/// are the heads of those who are there. None without places.
#[must_use]
pub fn starting_place(places: &[Pose], people: &[Pose]) -> Option<usize> {
    let mut best = None;
    for (number, place) in places.iter().enumerate() {
        let nearest = people.iter().map(|head| ground_distance(place, head)).fold(f32::INFINITY, f32::min);
        if nearest >= PLACE_RADIUS {
            return Some(number);
        }
        if best.is_none_or(|(_, distance)| nearest > distance) {
            best = Some((number, nearest));
        }
    }
    best.map(|(number, _)| number)
}

/// Returns whether somebody takes the place at which a newcomer's head is.
pub(crate) fn is_taken(head: &Pose, people: &[Pose]) -> bool {
    people.iter().any(|other| ground_distance(head, other) < PLACE_RADIUS)
}

fn ground_distance(one: &Pose, other: &Pose) -> f32 {
    (one.position[0] - other.position[0]).hypot(one.position[2] - other.position[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f32) -> Pose {
        Pose { position: [x, 1.6, 0.0], ..Pose::default() }
    }

    #[test]
    fn newcomers_get_the_first_free_place_and_else_the_least_crowded_one() {
        let places = [at(0.0), at(5.0), at(2.0)];
        for (people, number) in [
            (&[][..], 0),
            (&[at(0.5)], 1),
            (&[at(0.0), at(5.1)], 2),
            (&[at(3.0)], 0),
            (&[at(0.0), at(5.0), at(2.9)], 2),
            (&[at(0.0), at(5.0), at(2.0)], 0),
        ] {
            assert_eq!(starting_place(&places, people), Some(number), "{people:?}");
        }
        assert_eq!(starting_place(&[], &[at(0.0)]), None);
    }
}
