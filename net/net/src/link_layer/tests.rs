//! Both ends over a network that the test controls.

use std::collections::BTreeSet;

use arbitrary::{Arbitrary as _, Unstructured};
use nearlight_units::{Span, Time};
use proptest::prelude::*;

use crate::link_layer::fuzzing::{CLIENT, End, Operation, Pair, SERVER, TOKEN, repeatable, run};
use crate::link_layer::{
    Channel, ClientHandshake, ConnectConfig, EndReason, HardwareAddress, Responder, ResponderAction, ResponderConfig,
    SILENCE_LIMIT,
};

const START: Time = Time::from_secs(1);

fn responder(allowed: Option<BTreeSet<HardwareAddress>>) -> Responder {
    Responder::new(ResponderConfig { token: TOKEN.into(), address: SERVER, allowed, mtu: 1_500 }, repeatable(1))
}

fn connecting(token: &str, seed: u64) -> ClientHandshake {
    let opening = ConnectConfig { token: token.into(), client: CLIENT, server: SERVER, mtu: 1_500 };
    ClientHandshake::new(START, opening, repeatable(seed))
}

/// A client's two frames and the server's sessions, where nothing is lost.
fn shake(responder: &mut Responder, client: &mut ClientHandshake) -> Option<(Vec<Vec<u8>>, Channel, Channel)> {
    let (mut frames, mut server) = (Vec::new(), None);
    for step in 0..4 {
        let now = START + Span::from_millis(step);
        let Some(frame) = client.poll_transmit(now) else { continue };
        frames.push(frame.clone());
        let reply = match responder.on_frame(now, CLIENT, &frame) {
            ResponderAction::Dropped => return None,
            ResponderAction::Reply(reply) => reply,
            ResponderAction::Session { reply, channel } => {
                server = Some(*channel);
                reply
            }
        };
        if let Some(channel) = client.on_frame(now, &reply) {
            return Some((frames, channel, server?));
        }
    }
    None
}

fn open() -> (Channel, Channel) {
    let (_, client, server) = shake(&mut responder(None), &mut connecting(TOKEN, 2)).expect("a session");
    (client, server)
}

#[test]
fn both_ends_share_what_nobody_else_has() {
    let (client, server) = open();
    assert_eq!(client.hash(), server.hash());
    let (_, again, _) = shake(&mut responder(None), &mut connecting(TOKEN, 3)).expect("a session");
    assert_ne!(client.hash(), again.hash());
    assert_eq!(client.max_datagram(), 1_468);
}

#[test]
fn frames_have_the_documented_sizes() {
    let document = include_str!("../../../../docs/wire.md");
    let (mut responder, mut client) = (responder(None), connecting(TOKEN, 2));
    let solicitation = client.poll_transmit(START).expect("a solicitation");
    let ResponderAction::Reply(cookie) = responder.on_frame(START, CLIENT, &solicitation) else { panic!("no cookie") };
    client.on_frame(START, &cookie);
    let initiation = client.poll_transmit(START).expect("an initiation");
    let ResponderAction::Session { reply, .. } = responder.on_frame(START, CLIENT, &initiation) else {
        panic!("no session")
    };
    for (name, frame) in
        [("solicitation", solicitation), ("cookie", cookie), ("initiation", initiation), ("response", reply)]
    {
        let row = format!("| {name} | {} | kind ({})", frame.len(), frame[0]);
        assert!(document.contains(&row), "docs/wire.md lacks {row}");
    }
    let labels =
        ["nearlight ethernet 1 code", "nearlight ethernet 1 psk", "Noise_NNpsk0_25519_ChaChaPoly_SHA256", "0x88B5"];
    assert!(labels.iter().all(|label| document.contains(label)));
}

#[test]
fn who_does_not_know_the_token_is_not_answered() {
    let mut responder = responder(None);
    assert!(shake(&mut responder, &mut connecting("another-token-of-16", 2)).is_none());
    let counts = responder.statistics();
    assert_eq!((counts.wrong_token, counts.cookies, counts.sessions), (1, 0, 0));
    assert_eq!(responder.held(), 0);
}

#[test]
fn who_is_not_on_the_list_is_not_looked_at() {
    let mut responder = responder(Some([HardwareAddress([2, 0, 0, 0, 0, 9])].into()));
    assert!(shake(&mut responder, &mut connecting(TOKEN, 2)).is_none());
    let counts = responder.statistics();
    assert_eq!((counts.not_allowed, counts.cookies), (1, 0));
    let mut responder = self::responder(Some([CLIENT].into()));
    assert!(shake(&mut responder, &mut connecting(TOKEN, 2)).is_some());
}

#[test]
fn a_recorded_handshake_opens_no_session() {
    let mut responder = responder(None);
    let (frames, ..) = shake(&mut responder, &mut connecting(TOKEN, 2)).expect("a session");
    for second in [0, 1, 3, 7, 8, 60, 4_000] {
        let now = START + Span::from_secs(second);
        for frame in &frames {
            assert!(
                !matches!(responder.on_frame(now, CLIENT, frame), ResponderAction::Session { .. }),
                "after {second} s"
            );
            // From another address, before and after the cookie has expired.
            let elsewhere = HardwareAddress([2, 0, 0, 0, 0, 7]);
            assert!(matches!(responder.on_frame(now, elsewhere, frame), ResponderAction::Dropped));
        }
    }
    let counts = responder.statistics();
    assert_eq!(counts.sessions, 1);
    assert!(counts.repeated > 0 && counts.stale > 0 && counts.wrong_token == 14, "{counts:?}");
}

#[test]
fn a_flood_of_solicitations_leaves_nothing_behind_and_keeps_nobody_out() {
    let mut responder = responder(None);
    for seed in 0..5_000 {
        let frame = connecting(TOKEN, seed).poll_transmit(START).expect("a solicitation");
        assert!(matches!(responder.on_frame(START, CLIENT, &frame), ResponderAction::Reply(_)));
        let frame = connecting("another-token-of-16", seed).poll_transmit(START).expect("a solicitation");
        assert!(matches!(responder.on_frame(START, CLIENT, &frame), ResponderAction::Dropped));
    }
    assert_eq!(responder.held(), 0, "no state before an address has been shown");
    assert!(shake(&mut responder, &mut connecting(TOKEN, 2)).is_some());
}

#[test]
fn holders_of_the_token_who_open_sessions_without_end_are_bounded() {
    let mut responder = responder(None);
    for seed in 0..500 {
        assert!(shake(&mut responder, &mut connecting(TOKEN, seed)).is_some());
        assert!(responder.held() <= 64);
    }
}

#[test]
fn garbage_in_between_does_not_disturb_a_handshake() {
    let mut responder = responder(None);
    let mut client = connecting(TOKEN, 2);
    let solicitation = client.poll_transmit(START).expect("a solicitation");
    let ResponderAction::Reply(cookie) = responder.on_frame(START, CLIENT, &solicitation) else { panic!("no cookie") };
    for place in 0..cookie.len() {
        let mut forged = cookie.clone();
        forged[place] ^= 1;
        assert!(client.on_frame(START, &forged).is_none());
    }
    assert_eq!(client.other_version(), None, "a forged version is not a version");
    assert!(client.on_frame(START, &cookie).is_none());
    let initiation = client.poll_transmit(START).expect("an initiation");
    for place in 0..initiation.len() {
        let mut forged = initiation.clone();
        forged[place] ^= 1;
        assert!(matches!(responder.on_frame(START, CLIENT, &forged), ResponderAction::Dropped), "byte {place}");
    }
    let ResponderAction::Session { reply, .. } = responder.on_frame(START, CLIENT, &initiation) else {
        panic!("no session")
    };
    for place in 0..reply.len() {
        let mut forged = reply.clone();
        forged[place] ^= 1;
        assert!(client.on_frame(START, &forged).is_none(), "byte {place}");
    }
    assert!(client.on_frame(START, &reply).is_some());
}

#[test]
fn a_server_that_was_restarted_is_found_again() {
    let (mut old, mut client) = (responder(None), connecting(TOKEN, 2));
    let solicitation = client.poll_transmit(START).expect("a solicitation");
    let ResponderAction::Reply(cookie) = old.on_frame(START, CLIENT, &solicitation) else { panic!("no cookie") };
    client.on_frame(START, &cookie);
    // Another secret: the cookie is invalid.
    let config = ResponderConfig { token: TOKEN.into(), address: SERVER, allowed: None, mtu: 1_500 };
    let mut new = Responder::new(config, repeatable(99));
    let mut now = START;
    for _ in 0..40 {
        while let Some(frame) = client.poll_transmit(now) {
            let reply = match new.on_frame(now, CLIENT, &frame) {
                ResponderAction::Dropped => continue,
                ResponderAction::Reply(reply) | ResponderAction::Session { reply, .. } => reply,
            };
            if client.on_frame(now, &reply).is_some() {
                assert!(now - START < Span::from_secs(4), "it took {}", now - START);
                return;
            }
        }
        now = client.poll_timeout();
    }
    panic!("no session with the new server");
}

#[test]
fn replays_forgeries_and_padding_do_no_harm() {
    let (mut client, mut server) = open();
    client.send_datagram(START, b"one").expect("room");
    let mut frame = client.poll_transmit(START).expect("a frame");
    // Ethernet pads short frames to 46 bytes.
    frame.resize(60, 0);
    server.on_frame(START, &frame);
    server.on_frame(START, &frame);
    assert_eq!(server.poll_datagram().as_deref(), Some(&b"one"[..]));
    assert_eq!(server.poll_datagram(), None);
    assert_eq!((server.statistics().replayed, server.statistics().forged), (1, 0));
    client.send_datagram(START, b"two").expect("room");
    let frame = client.poll_transmit(START).expect("a frame");
    for place in 5..frame.len() {
        let mut forged = frame.clone();
        forged[place] ^= 0x80;
        server.on_frame(START, &forged);
    }
    assert_eq!(server.poll_datagram(), None);
    server.on_frame(START, &frame);
    assert_eq!(server.poll_datagram().as_deref(), Some(&b"two"[..]), "forged counters did not move the window");
    // A frame of one direction is not valid in the other.
    client.on_frame(START, &frame);
    assert_eq!(client.poll_datagram(), None);
}

#[test]
fn silence_ends_a_session_and_keep_alives_prevent_it() {
    let (mut client, mut server) = open();
    let mut now = START;
    for _ in 0..100 {
        now = client.poll_timeout().expect("something is due").max(now);
        client.on_timeout(now);
        server.on_timeout(now);
        while let Some(frame) = client.poll_transmit(now) {
            server.on_frame(now, &frame);
        }
        while let Some(frame) = server.poll_transmit(now) {
            client.on_frame(now, &frame);
        }
    }
    assert!(now > START + SILENCE_LIMIT * 4 && server.ended().is_none());
    assert!(client.statistics().frames_sent < 110, "{:?}", client.statistics());
    let until = now + SILENCE_LIMIT;
    server.on_timeout(until);
    assert_eq!(server.ended(), Some(&EndReason::Silence));
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn a_close_says_why() {
    let (mut client, mut server) = open();
    server.close(START, &"ä".repeat(500));
    while let Some(frame) = server.poll_transmit(START) {
        client.on_frame(START, &frame);
    }
    assert_eq!(client.ended(), Some(&EndReason::Peer("ä".repeat(200))));
    assert!(client.send_datagram(START, b"late").is_err());
}

#[test]
fn jumbo_frames_are_used_where_they_get_through() {
    for (carried, largest) in [(9_000, 8_968), (1_500, 1_468)] {
        let config = ResponderConfig { token: TOKEN.into(), address: SERVER, allowed: None, mtu: 9_000 };
        let opening = ConnectConfig { token: TOKEN.into(), client: CLIENT, server: SERVER, mtu: 9_000 };
        let mut client = ClientHandshake::new(START, opening, repeatable(2));
        let mut responder = Responder::new(config, repeatable(1));
        let (_, mut client, mut server) = shake(&mut responder, &mut client).expect("a session");
        assert_eq!(server.max_datagram(), 1_468, "nothing is known yet");
        let mut now = START;
        for _ in 0..20 {
            now += Span::from_millis(100);
            while let Some(frame) = server.poll_transmit(now) {
                if frame.len() <= carried {
                    client.on_frame(now, &frame);
                }
            }
            while let Some(frame) = client.poll_transmit(now) {
                if frame.len() <= carried {
                    server.on_frame(now, &frame);
                }
            }
        }
        assert_eq!((server.max_datagram(), client.max_datagram()), (largest, largest), "over {carried}");
    }
}

#[test]
fn a_peer_that_reads_nothing_costs_no_more_than_the_bound() {
    let (mut client, mut server) = open();
    let mut now = START;
    let mut taken = 0;
    for _ in 0..2_000 {
        now += Span::from_millis(20);
        taken += usize::from(client.write_control(&[7; 4_096]));
        let _ = client.send_datagram(now, &[1; 1_000]);
        while let Some(frame) = client.poll_transmit(now) {
            server.on_frame(now, &frame);
        }
        while let Some(frame) = server.poll_transmit(now) {
            client.on_frame(now, &frame);
        }
    }
    assert!(taken < 200, "{taken} messages were taken");
    assert!(client.held() + server.held() < 2 << 20, "{} and {}", client.held(), server.held());
    assert!(server.statistics().unread > 900);
}

#[test]
fn control_messages_survive_a_lossy_path() {
    // Every third frame each way is lost.
    let mut pair = Pair::new(1_500);
    let both = [End::Client, End::Server];
    for step in 0..600_u32 {
        for end in both {
            pair.run(&Operation::Control { from: end, length: 500 });
            pair.run(&Operation::Deliver { to: end, frames: 1 });
            if step % 3 == 0 {
                pair.run(&Operation::Lose { to: end });
            }
        }
        pair.run(&Operation::Wait { milliseconds: 5 });
    }
    assert!(pair.is_open());
    pair.settle();
    assert!(pair.is_open());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn whatever_happens_nothing_is_handed_out_twice_and_nothing_grows(bytes in prop::collection::vec(any::<u8>(), 0..4_000)) {
        let mut source = Unstructured::new(&bytes);
        // The handshake is complete in most runs, so that there is a session to disturb.
        let mut operations = Vec::new();
        for _ in 0..bytes.first().map_or(0, |first| first % 8) {
            operations.extend([Operation::Deliver { to: End::Server, frames: 0 }, Operation::Deliver { to: End::Client, frames: 0 }]);
        }
        while let Ok(operation) = Operation::arbitrary(&mut source) {
            operations.push(operation);
            if source.is_empty() || operations.len() > 400 {
                break;
            }
        }
        run(bytes.len() % 2 == 0, &operations);
    }
}
