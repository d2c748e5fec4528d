//! Voices: packets of a speaker are forwarded to members near it who want to hear others. They are neither kept nor repeated.

use std::collections::VecDeque;
use std::sync::Arc;

use nearlight_units::{Span, Time};

use super::{Room, Seat};
use crate::message::{MAX_VOICE_BYTES, read_voice, write_heard};
use crate::state::MemberId;

/// Distance in metres up to which a speaker is heard. Guess: across a large hall. A voice is 20 times as faint there as at one metre.
const HEARING_DISTANCE: f32 = 20.0;
/// Speakers that one member hears at the same time. Guess: a listener cannot tell more apart.
const MAX_AUDIBLE_SPEAKERS: usize = 8;
/// Silence after which a speaker gives way to another one.
const SPEAKER_TIMEOUT: Span = Span::from_millis(500);
/// Packets that may wait for carriers; beyond that, the oldest are dropped. A fifth of a second of a room of 20 in which five speak.
const MAX_QUEUED_PACKETS: usize = 2_000;

/// The speakers that one member hears.
#[derive(Clone, Debug, Default)]
pub(super) struct AudibleSpeakers {
    /// Whether the member wants to hear others.
    wanted: bool,
    heard: Vec<(MemberId, Time)>,
}

impl AudibleSpeakers {
    fn takes(&mut self, now: Time, speaker: MemberId) -> bool {
        self.heard.retain(|(_, at)| now.saturating_since(*at) < SPEAKER_TIMEOUT);
        if let Some((_, at)) = self.heard.iter_mut().find(|(known, _)| *known == speaker) {
            *at = now;
        } else if self.heard.len() < MAX_AUDIBLE_SPEAKERS {
            self.heard.push((speaker, now));
        } else {
            return false;
        }
        true
    }
}

/// Voice messages that wait for carriers, with their recipients. All recipients of a packet share one message.
#[derive(Debug, Default)]
pub(super) struct VoiceQueues {
    remote: VecDeque<(MemberId, Arc<[u8]>)>,
    local: VecDeque<(MemberId, Arc<[u8]>)>,
}

impl Room {
    /// Takes a voice packet of a local member. An empty packet says only that the member wants to hear others.
    pub fn on_voice(&mut self, now: Time, member: MemberId, number: u32, packet: &[u8]) {
        let Some(seat) = self.seat_mut(member) else { return };
        seat.hearing.wanted = true;
        if packet.is_empty() || packet.len() > MAX_VOICE_BYTES {
            return;
        }
        let may = seat.limits.take_voice(now);
        let acts = self.state.member(member).is_some_and(|member| member.role.acts());
        let Some(body) = self.body(member).filter(|_| may && acts) else {
            self.counters.refused_voices += 1;
            return;
        };
        let place = body.head.position;
        let message: Arc<[u8]> = write_heard(member, number, place, packet).into();
        for index in 0..self.seats.len() {
            let listens = |seat: &&Seat| seat.hearing.wanted && seat.id != member;
            let Some(listener) = self.seats[index].as_deref().filter(listens).map(|seat| seat.id) else { continue };
            // Spectators have no body, so they hear everybody.
            let near = self.body(listener).is_none_or(|body| distance(body.head.position, place) <= HEARING_DISTANCE);
            let Some(seat) = self.seats[index].as_mut().filter(|_| near) else { continue };
            if !seat.hearing.takes(now, member) {
                continue;
            }
            let waiting = if seat.local { &mut self.voices.local } else { &mut self.voices.remote };
            if waiting.len() == MAX_QUEUED_PACKETS {
                waiting.pop_front();
            }
            waiting.push_back((seat.id, Arc::clone(&message)));
        }
    }

    pub(super) fn on_voice_message(&mut self, now: Time, member: MemberId, bytes: &[u8]) -> bool {
        let Ok((number, packet)) = read_voice(bytes) else { return false };
        self.on_voice(now, member, number, packet);
        true
    }

    /// Returns the next voice message and its recipient. A carrier that cannot send it at once should drop it, because the next one makes
    /// it obsolete.
    pub fn poll_voice(&mut self) -> Option<(MemberId, Arc<[u8]>)> {
        self.voices.remote.pop_front()
    }

    /// Returns the next voice message for a local member, and that member.
    pub fn poll_local_voice(&mut self) -> Option<(MemberId, Arc<[u8]>)> {
        self.voices.local.pop_front()
    }

    pub(super) fn has_voice(&self) -> bool {
        !self.voices.remote.is_empty()
    }
}

fn distance(one: [f32; 3], other: [f32; 3]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Join, Upstream};
    use crate::pose::{Avatar, Sample};
    use crate::room::{RoomConfig, default_objects};
    use crate::state::{Member, Role};
    use nearlight_wire::Pose;

    fn room() -> Room {
        Room::new(Time::ZERO, RoomConfig::default(), &default_objects()).expect("poses")
    }

    /// Adds a remote member that stands at `x` and wants to hear others.
    fn member(room: &mut Room, x: f32, role: Role) -> MemberId {
        let join = Join { room: "main".into(), role, name: "Ada".into(), colour: [1, 2, 3], key: None };
        let id = room.on_join(Time::ZERO, &join, role).expect("a place");
        let head = Pose { position: [x, 1.5, 0.0], ..Pose::default() };
        let body = Sample::of_avatar(&Avatar { head, ..Avatar::default() }).ok();
        let mut bytes = Vec::new();
        Upstream { number: 1, body, ..Upstream::default() }.write(&mut bytes);
        room.on_message(Time::ZERO, id, &bytes);
        room.on_message(Time::ZERO, id, &said(0, &[]));
        id
    }

    fn said(number: u32, packet: &[u8]) -> Vec<u8> {
        [&[0x18][..], &number.to_be_bytes(), packet].concat()
    }

    fn heard(room: &mut Room) -> Vec<MemberId> {
        std::iter::from_fn(|| room.poll_voice()).map(|(member, _)| member).collect()
    }

    #[test]
    fn those_near_a_speaker_hear_it_where_it_is_and_nobody_else_does() {
        let mut room = room();
        let speaker = member(&mut room, 1.5, Role::Guest);
        let near = member(&mut room, 3.0, Role::Guest);
        let far = member(&mut room, 40.0, Role::Guest);
        let spectator = member(&mut room, 0.0, Role::Spectator);
        let own = Member { role: Role::Guest, name: "Bo".into(), colour: [0; 3] };
        let local = room.on_local_join(Time::ZERO, own, None).expect("a place");
        let mut heard_message = Vec::new();
        room.on_message(Time::ZERO, speaker, &said(7, b"opus"));
        while let Some((member, message)) = room.poll_voice() {
            assert!([near, spectator].contains(&member) && member != far, "{member:?}");
            heard_message = message.to_vec();
        }
        let expected: Vec<u8> = [
            &[0x18][..],
            &speaker.0.to_be_bytes(),
            &7_u32.to_be_bytes(),
            &1.5_f32.to_be_bytes(),
            &1.5_f32.to_be_bytes(),
            &0.0_f32.to_be_bytes(),
            b"opus",
        ]
        .concat();
        assert_eq!(heard_message, expected);
        assert!(room.poll_local_voice().is_none(), "who has not asked hears nothing");
        room.on_voice(Time::ZERO, local, 0, &[]);
        room.on_message(Time::ZERO, speaker, &said(8, b"opus"));
        assert_eq!(room.poll_local_voice().map(|(member, _)| member), Some(local));
        heard(&mut room);
        room.on_message(Time::ZERO, spectator, &said(1, b"opus"));
        assert_eq!((heard(&mut room), room.counters().refused_voices), (vec![], 1), "spectators say nothing");
    }

    #[test]
    fn who_floods_is_cut_off_for_a_while() {
        let mut room = room();
        let (speaker, _) = (member(&mut room, 0.0, Role::Guest), member(&mut room, 1.0, Role::Guest));
        let mut number = 0;
        let mut say = |room: &mut Room, now: Time, packets: u32| {
            for _ in 0..packets {
                number += 1;
                room.on_voice(now, speaker, number, b"opus");
            }
            heard(room).len()
        };
        assert_eq!(say(&mut room, Time::ZERO, 1_000), 200, "two seconds at once are none too many");
        assert_eq!(say(&mut room, Time::from_secs(3), 10), 0, "cut off");
        assert_eq!(say(&mut room, Time::from_secs(6), 10), 10, "heard again");
        // At its own pace for a minute.
        let paced: usize = (0..6_000).map(|packet| say(&mut room, Time::from_millis(6_000 + 10 * packet), 1)).sum();
        assert_eq!(paced, 6_000);
    }

    #[test]
    fn of_a_crowd_that_speaks_at_once_a_listener_hears_those_who_began() {
        let mut room = room();
        let listener = member(&mut room, 0.0, Role::Guest);
        let speakers: Vec<MemberId> = (0..12).map(|_| member(&mut room, 1.0, Role::Guest)).collect();
        let say = |room: &mut Room, now: Time, speakers: &[MemberId]| {
            for speaker in speakers {
                room.on_voice(now, *speaker, 1, b"opus");
            }
            heard(room).into_iter().filter(|member| *member == listener).count()
        };
        assert_eq!(say(&mut room, Time::ZERO, &speakers), MAX_AUDIBLE_SPEAKERS);
        assert_eq!(say(&mut room, Time::from_millis(400), &speakers[8..]), 0);
        assert_eq!(say(&mut room, Time::from_millis(900), &speakers[8..]), 4, "the others have stopped");
    }

    #[test]
    fn what_is_no_voice_counts_as_malformed() {
        let mut room = room();
        let speaker = member(&mut room, 0.0, Role::Guest);
        for wrong in [&[0x18][..], &[0x18, 0, 0, 0], &said(1, &[0; MAX_VOICE_BYTES + 1])] {
            room.on_message(Time::ZERO, speaker, wrong);
        }
        assert_eq!(room.counters().malformed_messages, 3);
        // Longer ones of local members are ignored.
        room.on_voice(Time::ZERO, speaker, 1, &[0; MAX_VOICE_BYTES + 1]);
        assert!(room.poll_voice().is_none());
    }
}
