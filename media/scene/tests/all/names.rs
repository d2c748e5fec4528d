//! Tests of the names above people.

use nearlight_rooms::{Avatar, Member, MemberId, Role, Room, RoomConfig};
use nearlight_scene::{Application as _, START, Source as _, Viewer, ViewerInput, WorldSource};
use nearlight_units::Time;
use nearlight_wire::Pose;

use crate::pictures::{ME, different, picture, picture_for, plaza, view};

/// A world whose room has a member of this name at this distance ahead of the start.
fn with_member(name: &str, distance: f32) -> (WorldSource, Room, MemberId) {
    let mut source = plaza();
    let objects = source.objects().expect("the plaza is a room");
    let mut room = Room::new(Time::ZERO, RoomConfig::default(), &objects).expect("poses");
    let member = Member { role: Role::Guest, name: name.into(), colour: [255, 120, 0] };
    let id = room.on_local_join(Time::ZERO, member, None).expect("a place");
    let head = Pose { position: [0.0, 1.6, -distance], ..START };
    room.set_body(Time::ZERO, id, &Avatar { head, ..Avatar::default() }).expect("a pose");
    source.advance(Time::ZERO);
    source.exchange(Time::ZERO, &mut room);
    (source, room, id)
}

#[test]
fn a_member_s_name_is_above_its_head_until_it_leaves() {
    let size = (960, 540);
    for (distance, least) in [(2.0, 30), (6.0, 12), (14.0, 12)] {
        let (mut source, mut room, id) = with_member("Grace", distance);
        let named = picture(&mut source, &[view(START)], size);
        let unnamed = picture(&mut with_member("", distance).0, &[view(START)], size);
        let clearly = |at: &usize| named[*at].iter().zip(&unnamed[*at]).any(|(a, b)| a.abs_diff(*b) > 12);
        let tag: Vec<usize> = (0..named.len()).filter(clearly).collect();
        let rows: std::collections::BTreeSet<usize> = tag.iter().map(|at| at / 960).collect();
        assert!(rows.len() >= least, "at {distance} m the name has {} rows", rows.len());
        assert!(rows.iter().all(|row| *row < 270), "it is above the horizon, on which the head is");
        // Thin letters are blended with the dark ground, which has more blue than red.
        let of_letters = |at: &&usize| named[**at][0] > named[**at][2].saturating_add(60);
        let letters = tag.iter().filter(of_letters).count();
        assert!(letters * 20 > tag.len(), "{letters} of {} pixels are letters at {distance} m", tag.len());
        assert!(
            tag.iter().filter(|at| named[**at].iter().take(3).all(|channel| *channel < 90)).count() > tag.len() / 4
        );

        room.on_leave(Time::ZERO, id);
        source.exchange(Time::ZERO, &mut room);
        let left = picture(&mut source, &[view(START)], size);
        let mut alone = plaza();
        alone.advance(Time::ZERO);
        assert_eq!(different(&left, &picture(&mut alone, &[view(START)], size)), 0);
    }
}

#[test]
fn viewers_see_each_other_s_names_and_not_their_own() {
    let (mut source, mut room, member) = with_member("Grace", 5.0);
    room.on_leave(Time::ZERO, member);
    source.exchange(Time::ZERO, &mut room);
    let alone = picture(&mut source, &[view(START)], (640, 360));
    let head = Pose { position: [0.0, 1.6, -4.0], ..START };
    source.on_name(Time::ZERO, ME, "Ada".into());
    source.on_input(Time::ZERO, ME, &ViewerInput { head, ..ViewerInput::default() });
    let unnamed = picture_for(Viewer(9), &mut source, &[view(START)], (640, 360));
    source.exchange(Time::ZERO, &mut room);
    let named = picture_for(Viewer(9), &mut source, &[view(START)], (640, 360));
    assert!(different(&unnamed, &named) > 200, "the room knows the name: {}", different(&unnamed, &named));
    assert_eq!(different(&alone, &picture(&mut source, &[view(START)], (640, 360))), 0, "nobody sees the own name");
}
