//! Any sequence of facts: answers without a request, bytes without bound, time that jumps, packets that come twice or never.

use nearlight_flows::law::LawSpec;
use nearlight_flows::{Arrival, Direction, Schedule, Traffic, Transmit};
use nearlight_lab::dash::{Client, ClientConfig, Content, Player};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use proptest::prelude::*;

fn content(rungs: usize, segment: i64) -> Content {
    let ladder = (1..=rungs as u64).map(|rung| Bitrate::from_kbps(45 * rung * rung)).collect();
    Content::new(ladder, Span::from_millis(segment), Span::from_secs(80)).expect("a ladder")
}

#[derive(Clone, Debug)]
enum Fact {
    Ask,
    Progress(u64),
    Response,
    Wait(i64),
    Abort,
}

fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => Just(Fact::Ask),
        4 => (0..3_000_000_u64).prop_map(Fact::Progress),
        4 => Just(Fact::Response),
        6 => (0..4_000_i64).prop_map(Fact::Wait),
        1 => (0..400_000_i64).prop_map(Fact::Wait),
        1 => Just(Fact::Abort),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_comes_time_is_accounted_for(facts in prop::collection::vec(fact(), 0..300), rungs in 1..12_usize, segment in 500..12_000_i64) {
        let mut player = Player::new(content(rungs, segment));
        let (mut now, mut under_way, mut number) = (Time::from_secs(1), false, 0);
        let mut began = None;
        for fact in facts {
            match fact {
                Fact::Ask => {
                    if let Some(request) = player.poll_request(now) {
                        prop_assert!(!under_way, "one at a time");
                        prop_assert!(request.number > number && request.size > Bytes::ZERO);
                        (under_way, number) = (true, request.number);
                        began.get_or_insert(now);
                    }
                }
                Fact::Progress(bytes) => player.on_progress(now, Bytes::new(bytes)),
                Fact::Response => {
                    player.on_response(now);
                    under_way = false;
                }
                Fact::Wait(millis) => now += Span::from_millis(millis),
                Fact::Abort => {}
            }
            under_way &= !player.poll_abort();
            player.on_time(now);
            let playback = player.playback();
            let played = playback.played.iter().copied().fold(Span::ZERO, |sum, span| sum + span);
            prop_assert!(played <= player.content().length());
            if let (Some(began), Some(startup), false) = (began, playback.startup, player.has_ended()) {
                prop_assert_eq!(startup + played + playback.stalled, now - began);
            }
            prop_assert!(player.buffer() <= player.content().length() - played);
        }
    }

    #[test]
    fn over_a_path_that_loses_packets_the_whole_is_played(seed in any::<u64>(), loss in 0..10_u64, law in 0..3_usize) {
        let law = [LawSpec::Cubic, LawSpec::Bbr, "hera".parse().expect("a law")][law];
        let schedule = Schedule::default();
        let mut client = Client::new(ClientConfig { law, content: content(5, 4_000), schedule, seed });
        // A packet in 20 ms, unless it is lost; five times a second nothing is asked but the time.
        let (mut random, mut way) = (seed | 1, std::collections::VecDeque::<(Time, Transmit)>::new());
        let mut now = Time::ZERO;
        let end = Time::from_secs(400);
        while now < end && !client.player().has_ended() {
            while let Some(packet) = client.poll_transmit(now) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (random >> 40) % 100 >= loss {
                    way.push_back((now + Span::from_millis(20), packet));
                }
            }
            let due = client.poll_timeout().map_or(end, |(at, _)| at);
            let arrives = way.front().map_or(end, |(at, _)| *at);
            now = now.max(due.min(arrives)).min(end);
            if let Some((_, packet)) = way.pop_front_if(|(at, _)| *at <= now) {
                let Transmit { id, direction, size, .. } = packet;
                client.on_delivered(now, Arrival { id, direction, size, marked: false });
                if direction == Direction::Back && random % 7 == 0 {
                    client.on_delivered(now, Arrival { id, direction, size, marked: false });
                }
            }
            client.on_timeout(now);
            client.playback(now);
        }
        prop_assert!(client.player().has_ended(), "{:?} of {:?}", client.player().playback(), now);
    }
}
