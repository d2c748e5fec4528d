//! Where newcomers stand, so that nobody begins within somebody else's body.

use nearlight_wire::Pose;

use crate::replica::Replica;

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

impl Replica {
    /// Returns the number of the place that this member takes on its arrival, see [`starting_place`]. None if it stays where its `head` is,
    /// because nobody stands there who came before it. Those who came after it make room for it in the same way.
    #[must_use]
    pub fn starting_place(&self, places: &[Pose], head: Option<&Pose>) -> Option<usize> {
        let you = self.you()?;
        let former = self.state().members().map(|(id, _)| id).filter(|id| *id < you);
        let people: Vec<Pose> = former.filter_map(|id| Some(self.seen(id)?.avatar.head)).collect();
        if head.is_some_and(|head| !is_taken(head, &people)) {
            return None;
        }
        let stays = |number: &usize| head.is_some_and(|head| is_taken(&places[*number], std::slice::from_ref(head)));
        starting_place(places, &people).filter(|number| !stays(number))
    }
}

/// Returns whether somebody takes the place at which a newcomer's head is.
fn is_taken(head: &Pose, people: &[Pose]) -> bool {
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
