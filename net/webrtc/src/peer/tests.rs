//! A peer and a player that shares no code with it, on a path in virtual time.

use std::collections::BTreeMap;

use nearlight_fec::policy::new_policy;
use nearlight_rate::gcc::Remb;
use nearlight_rate::{Bounds, RateController, new_controller};
use nearlight_session::pace::Mode;
use nearlight_session::{Algorithms, Distortion, Framing, SenderConfig};
use nearlight_units::{Bitrate, InputSeq, RemoteTime, Span, Time};
use nearlight_wire::{FrameHeader, Ping, ToClient, ToServer};

use super::*;
use crate::player::{PlayedFrame, Player, PlayerConfig, Reporting};
use crate::stun::{Stun, USE_CANDIDATE};

mod hostile;
mod redundancy;
mod roaming;
mod world;

use world::*;

#[test]
fn a_player_sees_every_frame_as_it_was_coded() {
    for codec in [CodecKind::H264, CodecKind::Vp8] {
        let mut world = World::connected(codec, CLEAN, "gcc-libwebrtc", 1);
        world.play(90);
        world.run(Span::from_secs(1));
        let bits: Vec<&Vec<u8>> = world.sent.iter().map(|(_, bits)| bits).collect();
        assert_eq!(world.frames.len(), 90, "{codec:?}");
        assert!(world.frames.iter().map(|frame| &frame.bits).eq(bits), "{codec:?}: other bits than were sent");
        assert!(world.frames.iter().all(|frame| frame.undelayed), "playout delay 0/0 in every packet");
        let steps: Vec<u32> =
            world.frames.windows(2).map(|pair| pair[1].rtp_timestamp.wrapping_sub(pair[0].rtp_timestamp)).collect();
        // 33,333 us are 2,999.97 ticks.
        assert!(steps.iter().all(|step| (2_999..=3_000).contains(step)), "{steps:?}");
        assert!(world.largest <= 1_200, "{} bytes in a datagram", world.largest);
        // Reports yield the round trip, feedback every packet's arrival.
        let statistics = world.peer.sender().statistics(world.now);
        let round_trip = statistics.round_trip.expect("measured");
        assert!((round_trip - Span::from_millis(20)).abs() < Span::from_millis(2), "{round_trip}");
        assert_eq!((statistics.packets_lost, statistics.key_frames), (0, 1));
    }
}

#[test]
fn losses_are_recovered_by_retransmissions() {
    for (codec, seed) in [(CodecKind::H264, 2), (CodecKind::Vp8, 3), (CodecKind::H264, 4)] {
        let mut world = World::connected(codec, Path { loss: 0.02, ..CLEAN }, "fixed", seed);
        world.play(300);
        world.run(Span::from_secs(1));
        let statistics = world.peer.sender().statistics(world.now);
        assert_eq!(world.frames.len(), 300, "seed {seed}: {statistics:?}, {} gaps", world.player.given_up());
        assert!(world.frames.iter().map(|frame| &frame.bits).eq(world.sent.iter().map(|(_, bits)| bits)));
        assert!(statistics.retransmissions > 0, "seed {seed}: nothing was retransmitted");
        // The losses that feedback reports are the path's: 2 % of the media's packets.
        let lost = statistics.packets_lost as f64 / statistics.packets as f64;
        assert!((0.012..0.028).contains(&lost), "seed {seed}: {lost} of {} packets", statistics.packets);
        let longest = world.frames.windows(2).map(|pair| pair[1].arrived_at - pair[0].arrived_at).max();
        assert!(longest <= Some(Span::from_millis(200)), "seed {seed}: a freeze of {longest:?}");
    }
}

#[test]
fn a_client_without_udp_is_served_through_a_tcp_connection() {
    let origin = origin();
    let player = Player::without_udp(Time::from_secs(1), origin, player_address()).expect("an offer");
    let now = Time::from_secs(1);
    let (mut world, _) = World::negotiated(CodecKind::H264, CLEAN, "gcc-libwebrtc", (now, origin), (player, 14));
    world.connect();
    world.play(60);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len(), 60);
    assert!(world.frames.iter().map(|frame| &frame.bits).eq(world.sent.iter().map(|(_, bits)| bits)));
}

#[test]
fn a_lost_picture_makes_one_key_frame_and_one_that_is_under_way_answers() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 5);
    world.play(30);
    let key_frames = |world: &World| world.peer.sender().statistics(world.now).key_frames;
    assert_eq!(key_frames(&world), 1);
    world.player.request_key_frame(world.now);
    world.play(2);
    assert_eq!(key_frames(&world), 2);
    // Requested before that one can have arrived.
    world.player.request_key_frame(world.now);
    world.play(1);
    world.player.request_key_frame(world.now);
    world.play(10);
    assert_eq!(key_frames(&world), 2);
    world.player.request_key_frame(world.now);
    world.play(2);
    assert_eq!(key_frames(&world), 3);
}

#[test]
fn the_controller_follows_a_path_that_carries_less() {
    let narrow = Path { rate: Bitrate::from_mbps(4), ..CLEAN };
    let mut world = World::connected(CodecKind::H264, narrow, "gcc-libwebrtc", 6);
    assert_eq!(world.peer.sender().decision().target, Bounds::START);
    world.play(300);
    let target = world.peer.sender().decision().target;
    assert!(target < Bitrate::from_mbps(5), "{target} on a path of 4 Mb/s");
    assert!(target > Bitrate::from_mbps(1), "{target} on a path of 4 Mb/s");
}

#[test]
fn a_client_that_reports_each_stream_by_its_own_numbers_is_heard() {
    let mut world = World::reporting_per_stream(CLEAN, "fixed", 12);
    for number in 0..90 {
        world.peer.on_sound(world.now, world.now, vec![number; 120]);
        world.play(1);
    }
    let statistics = world.peer.sender().statistics(world.now);
    assert_eq!((world.frames.len(), statistics.packets_lost), (90, 0), "{statistics:?}");
    assert!(statistics.round_trip.is_some());

    let mut world = World::reporting_per_stream(Path { loss: 0.02, ..CLEAN }, "fixed", 13);
    world.play(300);
    let statistics = world.peer.sender().statistics(world.now);
    let lost = statistics.packets_lost as f64 / statistics.packets as f64;
    assert!((0.012..0.028).contains(&lost), "{lost} of {} packets", statistics.packets);

    let narrow = Path { rate: Bitrate::from_mbps(4), ..CLEAN };
    let mut world = World::reporting_per_stream(narrow, "gcc-libwebrtc", 14);
    world.play(300);
    let target = world.peer.sender().decision().target;
    assert!((Bitrate::from_mbps(1)..Bitrate::from_mbps(5)).contains(&target), "{target} on a path of 4 Mb/s");
}

#[test]
fn a_client_that_tells_of_no_arrivals_is_served_by_its_reports() {
    let target = |world: &World| world.peer.sender().decision().target.as_mbps_f64();
    let mut world = World::reporting_as_a_whole(CLEAN, 15);
    let before = target(&world);
    world.play(600);
    assert!(world.frames.len() >= 598 && target(&world) > 1.3 * before, "{} frames, {before}", world.frames.len());
    // Half of what is sent gets lost in a full queue until the rate has come down.
    let rate = Bitrate::from_mbps(4);
    let mut world = World::reporting_as_a_whole(Path { rate, ..CLEAN }, 16);
    world.play(900);
    assert!((2.0..5.0).contains(&target(&world)), "{} on a path of 4 Mb/s", target(&world));
    // Then the reports stop.
    world.path.loss = 1.0;
    world.play(900);
    assert!(target(&world) <= 1.0, "{} into the void", target(&world));
}

#[test]
fn channels_carry_messages_both_ways_and_notes_announce_frames() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 7);
    world.run(Span::from_secs(1));
    let opened = |label: &str, events: &[Event]| {
        events.iter().find_map(|event| match event {
            Event::Opened { channel, label: opened } if opened == label => Some(*channel),
            _ => None,
        })
    };
    let control = opened("control", &world.events).expect("open after a second");
    let session = opened("session", &world.events).expect("open after a second");
    assert!(world.player.send(world.now, "control", Message::Text("hello".into())));
    let ping = ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(5) }).to_bytes();
    assert!(world.player.send(world.now, "session", Message::Binary(ping.clone())));
    world.run(Span::from_millis(50));
    for (channel, message) in [(control, Message::Text("hello".into())), (session, Message::Binary(ping))] {
        assert!(world.events.contains(&Event::Message { channel, message }));
    }
    world.peer.send(world.now, control, Message::Text("welcome".into())).expect("an open channel");
    world.peer.set_note_channel(Some(session));
    world.play(10);
    world.run(Span::from_millis(50));
    assert!(world.messages.contains(&("control".into(), Message::Text("welcome".into()))));
    let notes: Vec<FrameNote<RemoteTime>> = world
        .messages
        .iter()
        .filter_map(|(label, message)| match message {
            Message::Binary(bytes) if label == "session" => Some(bytes),
            _ => None,
        })
        .map(|bytes| match ToClient::parse(bytes) {
            Ok(ToClient::Note(note)) => note,
            other => panic!("{other:?} is not a note"),
        })
        .collect();
    for (frame, id) in world.frames.iter().zip(0..) {
        let of_frame: Vec<&FrameNote<RemoteTime>> = notes.iter().filter(|note| note.frame == FrameId(id)).collect();
        let last: Vec<bool> = of_frame.iter().map(|note| note.last).collect();
        assert_eq!(last, if frame.packets == 1 { vec![true] } else { vec![false, true] }, "frame {id}");
        assert!(of_frame.iter().all(|note| note.rtp_timestamp == frame.rtp_timestamp && note.key == (id == 0)));
        assert!(of_frame.is_sorted_by_key(|note| note.sent_at));
    }
    assert_eq!(world.frames.len(), 10);
}

#[test]
fn a_lost_note_holds_no_other_back() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 12);
    world.run(Span::from_secs(1));
    world.peer.open_unreliable("notes").expect("a channel");
    world.run(Span::from_millis(100));
    let opened = world.events.iter().find_map(|event| match event {
        Event::Opened { channel, label } if label == "notes" => Some(*channel),
        _ => None,
    });
    world.peer.set_note_channel(Some(opened.expect("open after a round trip")));
    world.path.loss = 0.05;
    world.play(300);
    let mut noted = std::collections::BTreeSet::new();
    for ((label, message), heard_at) in world.messages.iter().zip(&world.heard_at) {
        let Message::Binary(bytes) = message else { continue };
        let Ok(ToClient::Note(note)) = ToClient::parse(bytes) else { panic!("{bytes:?} is not a note") };
        let taken = *heard_at - note.sent_at.on_shared_clock();
        assert!(label == "notes" && taken <= CLEAN.delay + Span::from_millis(1), "frame {} after {taken}", note.frame);
        noted.insert(note.frame);
    }
    // Two notes of a frame are lost together once in 400 times.
    assert!(noted.len() >= 295, "notes of {} frames", noted.len());
}

#[test]
fn what_feedback_says_is_lost_is_sent_again_unasked() {
    let path = Path { loss: 0.02, ..CLEAN };
    let origin = origin();
    let player = Player::mute(Time::from_secs(1), origin, player_address()).expect("an offer");
    let now = Time::from_secs(1);
    let (mut world, _) = World::negotiated(CodecKind::H264, path, "fixed", (now, origin), (player, 13));
    world.connect();
    world.play(300);
    world.run(Span::from_secs(1));
    let statistics = world.peer.sender().statistics(world.now);
    assert!(statistics.packets_lost > 50 && statistics.retransmissions > 50, "{statistics:?}");
    // Reports get lost as well, and what they would have reported is then known only to the player.
    let (gaps, frames) = (world.player.given_up(), world.frames.len());
    assert!(gaps <= 10 && frames >= 290, "{gaps} gaps, {frames} frames, {statistics:?}");
}

#[test]
fn sound_goes_beside_the_picture_in_its_own_time() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 8);
    assert!(world.peer.takes_sound());
    for number in 0..50 {
        world.peer.on_sound(world.now, world.now, vec![number; 120]);
        world.play(1);
    }
    let sound = world.player.sound();
    assert_eq!(sound.len(), 50);
    assert!(sound.iter().zip(0..).all(|((_, payload), number)| *payload == vec![number; 120]));
    let step = sound[1].0.wrapping_sub(sound[0].0);
    assert!((1_599..=1_600).contains(&step), "{step} ticks of 48 kHz in 33,333 us");
    let statistics = world.peer.sender().statistics(world.now);
    assert_eq!(statistics.packets_lost, 0, "sound shares the picture's count of packets");
}

#[test]
fn a_client_that_first_offers_no_picture_is_offered_one() {
    let (now, origin) = (Time::from_secs(1), origin());
    let (mut player, offer) = Player::without_media(now, origin, player_address()).expect("an offer");
    let offer = Offer::parse(&offer).expect("the library's offer is one");
    assert!(offer.video().is_empty() && !offer.wants_sound());
    let sender = sender(now, "fixed", Bounds::up_to(Bitrate::from_mbps(20)));
    let codecs = [CodecKind::H264, CodecKind::Vp8];
    let mut peer = Peer::offering(now, config(origin, 1), &codecs, true, sender).expect("a peer");
    let answer = peer.on_offer(now, &offer).expect("an answer");
    player.on_answer(now, &answer).expect("an answer that the library takes");
    assert_eq!(peer.codec(), None);
    let mut world = World::of(now, CLEAN, peer, player, 1);
    world.run(Span::from_secs(2));
    assert!(world.peer.is_connected());
    let offer = world.peer.offer(world.now, true).expect("an offer of our own");
    let answer = world.player.answer(world.now, &offer).expect("an answer of the library's");
    world.peer.on_answer(world.now, &Offer::parse_answer(&answer).expect("the same form")).expect("taken");
    assert_eq!((world.peer.codec(), world.peer.takes_sound()), (Some(CodecKind::H264), true), "{answer}");
    world.play(30);
    world.run(Span::from_secs(1));
    assert!(world.frames.iter().map(|frame| &frame.bits).eq(world.sent.iter().map(|(_, bits)| bits)));
    assert_eq!(world.frames.len(), 30);
}

#[test]
fn a_client_that_leaves_is_noticed_and_one_that_is_closed_notices() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 9);
    world.play(3);
    world.player.close();
    world.run(Span::from_secs(1));
    assert!(world.events.contains(&Event::Ended), "{:?}", world.events);

    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 10);
    world.peer.close();
    world.run(Span::from_secs(1));
    assert!(world.player.has_ended());

    // Without a goodbye: nothing arrives any more.
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 11);
    world.path.loss = 1.0;
    world.run(Span::from_secs(60));
    assert!(world.events.contains(&Event::Ended), "a minute of silence");
}
