//! The movements of a member.

use nearlight_link::Random;
use nearlight_rooms::Avatar;
use nearlight_units::Span;
use nearlight_wire::Pose;
use serde::{Deserialize, Serialize};

use crate::Profile;

/// Height of eyes and hands above the ground, in metres.
const HEAD_HEIGHT: f32 = 1.65;
const HAND_HEIGHT: f32 = 1.1;
/// Amplitude of a standing person's head, in metres (Winter 1995: about a centimetre each way).
const HEAD_SWAY: f32 = 0.01;
/// Space of a gathered member on the circle, in metres: shoulder to shoulder. Guess.
const ELBOW_ROOM: f32 = 0.6;

/// The behaviour of a synthetic member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Stays where it is, and sends events.
    Stand,
    /// Walks from one random place to the next, and sends events.
    Walk,
    /// Walks to the others and stays in a circle with them, and sends events.
    Gather,
    /// In groups of four, takes an object, moves it, hands it over or lets it go, in turn with the others of its group.
    Collaborate,
    /// Joins with all others at the same moment, then gathers.
    FlashCrowd,
}

/// A body on its way.
#[derive(Clone, Debug)]
pub(crate) struct Walker {
    behaviour: Behaviour,
    position: [f32; 2],
    heading: f32,
    target: [f32; 2],
    /// Phase of its sway and of its arms, in radians.
    phase: f32,
    area: f32,
    speed: f32,
    hands: bool,
}

impl Walker {
    /// `place` of `members` in its room.
    pub(crate) fn new(
        behaviour: Behaviour,
        place: usize,
        members: usize,
        profile: &Profile,
        random: &mut Random,
    ) -> Self {
        let area = profile.area_metres as f32;
        let mut walker = Self {
            behaviour,
            position: [0.0; 2],
            heading: 0.0,
            target: [0.0; 2],
            phase: random.unit() as f32 * std::f32::consts::TAU,
            area,
            speed: profile.walking_speed as f32,
            hands: profile.hands,
        };
        walker.position = walker.anywhere(random);
        walker.target = match behaviour {
            Behaviour::Stand | Behaviour::Walk => walker.position,
            Behaviour::Gather | Behaviour::FlashCrowd | Behaviour::Collaborate => {
                let radius = (ELBOW_ROOM * members as f32 / std::f32::consts::TAU).min(area);
                let angle = place as f32 / members.max(1) as f32 * std::f32::consts::TAU;
                [radius * angle.sin(), radius * angle.cos()]
            }
        };
        walker.heading = random.unit() as f32 * std::f32::consts::TAU;
        walker
    }

    fn anywhere(&self, random: &mut Random) -> [f32; 2] {
        let (angle, radius) = (random.unit() as f32 * std::f32::consts::TAU, (random.unit() as f32).sqrt() * self.area);
        [radius * angle.sin(), radius * angle.cos()]
    }

    /// Moves on.
    pub(crate) fn advance(&mut self, passed: Span, random: &mut Random) {
        let seconds = passed.as_secs_f64() as f32;
        // A step takes half a second.
        self.phase = (self.phase + seconds * std::f32::consts::TAU) % std::f32::consts::TAU;
        let way = [self.target[0] - self.position[0], self.target[1] - self.position[1]];
        let left = way[0].hypot(way[1]);
        let step = self.speed * seconds;
        if left > step {
            self.heading = way[0].atan2(way[1]);
            self.position = [self.position[0] + way[0] / left * step, self.position[1] + way[1] / left * step];
            return;
        }
        self.position = self.target;
        match self.behaviour {
            Behaviour::Walk => self.target = self.anywhere(random),
            Behaviour::Stand => {}
            // Towards the middle.
            _ => self.heading = (-self.position[0]).atan2(-self.position[1]),
        }
    }

    fn at(&self, ahead: f32, aside: f32, height: f32) -> Pose {
        let (sine, cosine) = self.heading.sin_cos();
        let [x, z] = self.position;
        let position = [x + ahead * sine + aside * cosine, height, z + ahead * cosine - aside * sine];
        // The view is along -z; a rotation around y.
        let half = self.heading / 2.0 + std::f32::consts::FRAC_PI_2;
        Pose { position, orientation: [0.0, half.sin(), 0.0, half.cos()] }
    }

    pub(crate) fn avatar(&self) -> Avatar {
        let sway = HEAD_SWAY * self.phase.sin();
        let swing = 0.15 * self.phase.sin();
        let hand = |aside: f32, swing: f32| self.hands.then(|| self.at(0.2 + swing, aside, HAND_HEIGHT));
        Avatar {
            head: self.at(sway, sway, HEAD_HEIGHT),
            left: hand(-0.25, swing),
            right: hand(0.25, -swing),
            joints: None,
        }
    }

    /// Returns the pose of an object that it holds.
    pub(crate) fn held(&self) -> Pose {
        self.at(0.4, 0.0, HAND_HEIGHT + 0.1 * self.phase.sin())
    }
}
