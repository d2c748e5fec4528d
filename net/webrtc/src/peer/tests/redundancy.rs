//! Repairs: what they recover, what is then not retransmitted, and clients that do not accept them.

use super::*;

const LOSSY: Path = Path { loss: 0.02, ..CLEAN };

fn protected(now: Time, policy: &str) -> Sender {
    protected_sender(now, "fixed", Bounds::up_to(Bitrate::from_mbps(8)), policy)
}

/// A client, with or without repair, of a server with a policy; and the server's answer.
fn world(codec: CodecKind, path: Path, policy: &str, flexfec: bool, seed: u64) -> (World, String) {
    let (now, origin) = (Time::from_secs(1), origin());
    let player = if flexfec { Player::with_flexfec } else { Player::mute };
    let (mut player, offer) = player(now, origin, player_address()).expect("an offer");
    let offer = Offer::parse(&offer).expect("the library's offer is one");
    let chosen = offer.video().iter().find(|offered| offered.codec == codec);
    let mut peer = Peer::answering(now, config(origin, seed), &offer, chosen, protected(now, policy)).expect("a peer");
    let answer = peer.on_offer(now, &offer).expect("an answer");
    player.on_answer(now, &answer).expect("an answer that the library takes");
    let mut world = World::of(now, path, peer, player, seed);
    world.connect();
    (world, answer)
}

fn played(codec: CodecKind, path: Path, policy: &str, seed: u64) -> World {
    let (mut world, answer) = world(codec, path, policy, true, seed);
    assert_eq!(crate::player::has_repairs(&answer), policy != "none", "{answer}");
    assert!(crate::player::has_retransmissions(&answer), "{answer}");
    world.play(600);
    world.path.loss = 0.0;
    world.run(Span::from_secs(1));
    assert!(
        world.frames.iter().map(|frame| &frame.bits).eq(world.sent.iter().map(|(_, bits)| bits)),
        "all, to the byte"
    );
    assert!(world.largest <= Peer::MAX_DATAGRAM, "{} bytes", world.largest);
    world
}

#[test]
fn losses_are_recovered_and_not_sent_again() {
    for codec in [CodecKind::H264, CodecKind::Vp8] {
        let with = played(codec, LOSSY, "fixed:20", 21);
        let without = played(codec, LOSSY, "none", 21);
        let (recovered, plain) =
            (with.peer.sender().statistics(with.now), without.peer.sender().statistics(without.now));
        assert!(with.player.requests() > 200, "a client asks at once, for {}", with.player.requests());
        assert!(plain.retransmissions > 200 && without.player.recovered() == 0, "{plain:?}");
        // Two losses of about six packets are beyond one repair: every tenth loss has another next to it.
        assert!(
            recovered.retransmissions * 5 < plain.retransmissions,
            "{} were sent again, else {}",
            recovered.retransmissions,
            plain.retransmissions
        );
        assert!(with.player.recovered() > 200, "{} recovered", with.player.recovered());
        assert!(recovered.repairs > 3_000 && recovered.key_frames == 1, "{recovered:?}");
        // A recovered packet did not arrive: the rate controller must know of it.
        assert!(recovered.packets_lost > 250, "{recovered:?}");
        assert!(with.frames.iter().all(|frame| frame.undelayed));
        let late = |world: &World| {
            let waits = world.frames.windows(2).map(|two| two[1].arrived_at - two[0].arrived_at);
            waits.filter(|wait| *wait > INTERVAL + Span::from_millis(15)).count()
        };
        assert!(late(&with) * 3 < late(&without), "{} frames came late, else {}", late(&with), late(&without));
    }
}

#[test]
fn a_client_that_never_asks_is_helped_as_well() {
    let with = played(CodecKind::Vp8, LOSSY, "fixed:20", 22);
    assert_eq!(with.player.given_up(), 0);
    // On a path without losses repairs are useless, and still sent.
    let clean = played(CodecKind::Vp8, CLEAN, "fixed:20", 23);
    let statistics = clean.peer.sender().statistics(clean.now);
    assert_eq!((statistics.packets_lost, statistics.retransmissions, clean.player.recovered()), (0, 0, 0));
    let share = statistics.redundant.get() as f64 / statistics.sent.get() as f64;
    assert!((0.15..0.2).contains(&share), "{share}");
}

#[test]
fn every_policy_s_repairs_are_of_use() {
    for policy in ["planner", "nebula", "webrtc", "escot-gop", "fixed:200"] {
        let world = played(CodecKind::Vp8, Path { delay: Span::from_millis(60), ..LOSSY }, policy, 24);
        assert_eq!(world.peer.sender().names().redundancy.as_deref(), Some(policy));
        assert!(world.player.recovered() > 20, "{policy} recovered {}", world.player.recovered());
    }
}

#[test]
fn who_takes_no_repairs_gets_none() {
    let (mut world, answer) = world(CodecKind::Vp8, LOSSY, "fixed:20", false, 25);
    assert!(!answer.contains("flexfec") && !answer.contains("FEC-FR"), "{answer}");
    assert_eq!(world.peer.sender().names().redundancy, None);
    world.play(60);
    assert_eq!(world.peer.sender().statistics(world.now).repairs, 0);
}

#[test]
fn a_server_that_offers_asks_whether_the_client_takes_repairs() {
    let (now, origin) = (Time::from_secs(1), origin());
    for policy in ["fixed:20", "none"] {
        let (mut player, offer) = Player::without_media(now, origin, player_address()).expect("an offer");
        let offer = Offer::parse(&offer).expect("the library's offer is one");
        let mut peer =
            Peer::offering(now, config(origin, 1), &[CodecKind::Vp8], false, protected(now, policy)).expect("a peer");
        let answer = peer.on_offer(now, &offer).expect("an answer");
        player.on_answer(now, &answer).expect("an answer that the library takes");
        let offer = peer.offer(now, false).expect("an offer of our own");
        assert_eq!(crate::player::has_repairs(&offer), policy != "none", "{offer}");
        let answer = player.answer(now, &offer).expect("an answer of the library's");
        peer.on_answer(now, &Offer::parse_answer(&answer).expect("the same form")).expect("taken");
        assert_eq!((peer.codec(), peer.sender().names().redundancy), (Some(CodecKind::Vp8), None), "{answer}");
    }
}
