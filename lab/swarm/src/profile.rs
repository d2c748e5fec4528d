//! The profile of a crowd: a TOML file, each field with a default.

use nearlight_rooms::MAX_VOICE_BYTES;
use nearlight_units::Span;
use serde::{Deserialize, Serialize};

use crate::Behaviour;
use crate::voice::MIN_VOICE_PACKET;

/// The profile of a crowd, as described in `docs/rooms.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Members take these in turn.
    pub behaviours: Vec<Behaviour>,
    /// Poses a second that a member sends while it moves, 1 to 90.
    pub pose_hz: f64,
    /// A member waits so long between two actions: at least and at most, uniformly distributed.
    pub think_seconds: [f64; 2],
    /// Bytes of an event, at most 256.
    pub payload_bytes: usize,
    /// Share of members that speak: who speaks sends packets of a voice all the time, which the room passes on to those who are near.
    pub speaking_share: f64,
    /// Packets of a voice a second, 1 to 100.
    pub packet_hz: f64,
    /// Bytes of such a packet, 16 to 320.
    pub packet_bytes: usize,
    /// Share of members that also take the server's video stream.
    pub video_share: f64,
    /// The first member joins at the beginning, the last after this time.
    pub ramp_seconds: f64,
    /// Seconds for which members move and act, from the end of the ramp.
    pub active_seconds: f64,
    /// Seconds for which members rest at the end, before their states are compared.
    pub rest_seconds: f64,
    /// Radius of the area in which members move, in metres.
    pub area_metres: f64,
    /// Metres a second.
    pub walking_speed: f64,
    /// Members have hands.
    pub hands: bool,
}

impl Default for Profile {
    /// Walking speed: 1.4 m/s is what people prefer (Browning et al. 2006). Packets: 64 kb/s as the page's voices. The others are guesses.
    fn default() -> Self {
        Self {
            behaviours: vec![Behaviour::Walk],
            pose_hz: 20.0,
            think_seconds: [1.0, 4.0],
            payload_bytes: 16,
            speaking_share: 0.0,
            packet_hz: 100.0,
            packet_bytes: 80,
            video_share: 0.0,
            ramp_seconds: 3.0,
            active_seconds: 20.0,
            rest_seconds: 3.0,
            area_metres: 8.0,
            walking_speed: 1.4,
            hands: true,
        }
    }
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("the profile is not valid TOML or has unknown fields: {0}")]
    Syntax(String),
    #[error("`{field}` is out of range: write {range}")]
    Range { field: &'static str, range: &'static str },
}

impl Profile {
    /// Reads a profile's text.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// Checks that all fields are in their ranges.
    ///
    /// # Errors
    ///
    /// The first field that is not.
    pub fn check(&self) -> Result<(), ProfileError> {
        let in_order = self.think_seconds[0] <= self.think_seconds[1];
        let ranges = [
            ("behaviours", "one or more", !self.behaviours.is_empty()),
            ("pose_hz", "1 to 90", (1.0..=90.0).contains(&self.pose_hz)),
            (
                "think_seconds",
                "two numbers from 0.05 to 3600, the lower first",
                in_order && self.think_seconds.iter().all(|seconds| (0.05..=3_600.0).contains(seconds)),
            ),
            ("payload_bytes", "0 to 256", self.payload_bytes <= nearlight_rooms::MAX_EVENT_BYTES),
            ("speaking_share", "0 to 1", (0.0..=1.0).contains(&self.speaking_share)),
            ("packet_hz", "1 to 100", (1.0..=100.0).contains(&self.packet_hz)),
            ("packet_bytes", "16 to 320", (MIN_VOICE_PACKET..=MAX_VOICE_BYTES).contains(&self.packet_bytes)),
            ("video_share", "0 to 1", (0.0..=1.0).contains(&self.video_share)),
            ("ramp_seconds", "0 to 3600", (0.0..=3_600.0).contains(&self.ramp_seconds)),
            ("active_seconds", "1 to 86400", (1.0..=86_400.0).contains(&self.active_seconds)),
            ("rest_seconds", "1 to 60", (1.0..=60.0).contains(&self.rest_seconds)),
            ("area_metres", "1 to 1000", (1.0..=1_000.0).contains(&self.area_metres)),
            ("walking_speed", "0.1 to 10", (0.1..=10.0).contains(&self.walking_speed)),
        ];
        match ranges.iter().find(|(_, _, holds)| !holds) {
            Some((field, range, _)) => Err(ProfileError::Range { field, range }),
            None => Ok(()),
        }
    }

    /// Between two poses of a member.
    #[must_use]
    pub fn pose_interval(&self) -> Span {
        Span::from_secs_f64(1.0 / self.pose_hz)
    }

    /// Between two packets of a member that speaks.
    #[must_use]
    pub fn packet_interval(&self) -> Span {
        Span::from_secs_f64(1.0 / self.packet_hz)
    }

    /// Returns whether the member with this number speaks.
    #[must_use]
    pub fn speaks(&self, number: usize) -> bool {
        belongs_to_share(self.speaking_share, number)
    }

    /// Returns whether the member with this number takes the video stream.
    #[must_use]
    pub fn takes_video(&self, number: usize) -> bool {
        belongs_to_share(self.video_share, number)
    }

    /// Returns the time until the last member has joined.
    #[must_use]
    pub fn ramp(&self) -> Span {
        Span::from_secs_f64(self.ramp_seconds)
    }

    /// Ramp, activity and rest.
    #[must_use]
    pub fn length(&self) -> Span {
        Span::from_secs_f64(self.ramp_seconds + self.active_seconds + self.rest_seconds)
    }

    /// The behaviour of the member with this number.
    #[must_use]
    pub fn behaviour(&self, number: usize) -> Behaviour {
        self.behaviours[number % self.behaviours.len()]
    }

    /// When the member with this number of so many joins, from the beginning.
    #[must_use]
    pub fn joins_at(&self, number: usize, members: usize) -> Span {
        let share = match self.behaviour(number) {
            Behaviour::FlashCrowd => 0.5,
            _ if members < 2 => 0.0,
            _ => number as f64 / (members - 1) as f64,
        };
        self.ramp().mul_f64(share)
    }
}

/// Returns whether the member with this number belongs to a share of the crowd. Any consecutive members contain nearly that share.
fn belongs_to_share(share: f64, number: usize) -> bool {
    let among_first = |count: usize| (count as f64 * share + 1e-9).floor();
    among_first(number + 1) > among_first(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_crowd_is_spread_over_it() {
        let of = |share| Profile { video_share: share, ..Profile::default() };
        for (share, taken) in [(0.0, 0), (0.1, 10), (0.25, 25), (0.3, 30), (1.0, 100)] {
            let profile = of(share);
            assert_eq!((0..100).filter(|number| profile.takes_video(*number)).count(), taken, "{share}");
        }
        assert_eq!((0..8).filter(|number| of(0.5).takes_video(*number)).collect::<Vec<_>>(), [1, 3, 5, 7]);
    }

    #[test]
    fn fields_have_defaults_and_ranges() {
        assert_eq!(Profile::parse("").expect("defaults"), Profile::default());
        let profile =
            Profile::parse("behaviours = [\"collaborate\", \"flash-crowd\"]\npose_hz = 90").expect("a profile");
        assert_eq!((profile.behaviour(0), profile.behaviour(3)), (Behaviour::Collaborate, Behaviour::FlashCrowd));
        for (text, field) in [
            ("pose_hz = 0", "pose_hz"),
            ("pose_hz = nan", "pose_hz"),
            ("think_seconds = [3, 1]", "think_seconds"),
            ("behaviours = []", "behaviours"),
            ("behaviours = [\"dance\"]", "dance"),
            ("poses = 3", "poses"),
        ] {
            let error = Profile::parse(text).expect_err(text).to_string();
            assert!(error.contains(field), "{error}");
        }
    }

    #[test]
    fn a_flash_crowd_joins_at_once_and_others_one_after_the_other() {
        let walk = Profile::default();
        let joined = |profile: &Profile| [0, 5, 10].map(|number| profile.joins_at(number, 11).as_micros());
        assert_eq!(joined(&walk), [0, 1_500_000, 3_000_000]);
        let flash = Profile { behaviours: vec![Behaviour::FlashCrowd], ..walk };
        assert_eq!(joined(&flash), [1_500_000; 3]);
    }
}
