//! Hostile input.

use proptest::prelude::*;

use super::*;

/// A browser's offer, as far as it matters.
fn offer() -> String {
    Player::new(Time::from_secs(1), origin(), player_address(), true).expect("an offer").1
}

fn answer(offer: &Offer) -> Result<String, PeerError> {
    let now = Time::from_secs(1);
    let sender = sender(now, "fixed", Bounds::up_to(Bitrate::from_mbps(20)));
    let mut peer = Peer::answering(now, config(origin(), 1), offer, offer.video().first(), sender)?;
    peer.on_offer(now, offer)
}

#[test]
fn offers_with_something_missing_or_broken_are_refused_or_answered() {
    let offer = offer();
    let lines: Vec<&str> = offer.lines().collect();
    assert!(answer(&Offer::parse(&offer).expect("whole")).is_ok());
    for left_out in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(left_out);
        if let Ok(offer) = Offer::parse(&fewer.join("\r\n")) {
            let _ = answer(&offer);
        }
    }
    for cut in (0..offer.len()).step_by(7) {
        if let Ok(offer) = Offer::parse(&offer[..cut]) {
            let _ = answer(&offer);
        }
    }
}

#[test]
fn sections_without_a_direction_are_answered() {
    let offer = offer();
    let is_direction = |line: &&str| matches!(*line, "a=sendrecv" | "a=recvonly" | "a=sendonly");
    let silent: Vec<&str> = offer.lines().filter(|line| !is_direction(line)).collect();
    assert!(silent.len() < offer.lines().count());
    let answer = answer(&Offer::parse(&(silent.join("\r\n") + "\r\n")).expect("an offer")).expect("an answer");
    assert_eq!(answer.matches("\r\nm=").count(), offer.matches("\r\nm=").count(), "{answer}");
}

#[test]
fn an_offer_of_which_nothing_can_be_answered_is_refused() {
    let (mut kept, mut is_kept) = (Vec::new(), true);
    for line in offer().lines() {
        if line.starts_with("m=") {
            is_kept = line.starts_with("m=audio");
        }
        // All sections share the transport that the first one describes.
        if is_kept || line.starts_with("a=ice-") {
            // A format that the server does not have.
            kept.push(line.replace("opus/48000/2", "G722/8000"));
        }
    }
    let offer = Offer::parse(&(kept.join("\r\n") + "\r\n")).expect("an offer of sound");
    let answered = answer(&offer);
    assert!(matches!(answered, Err(PeerError::NothingAccepted)), "{offer:?}: {answered:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_offers_never_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), 0x20_u8..0x7f), 1..12)) {
        let mut bytes = offer().into_bytes();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let text = String::from_utf8(bytes).expect("still ASCII");
        if let Ok(offer) = Offer::parse(&text) {
            let _ = answer(&offer);
        }
    }

    #[test]
    fn swapped_words_never_panic(swaps in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8)) {
        let text = offer();
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ':', ';', '=', '/']).collect();
        for (one, other) in swaps {
            let (one, other) = (one.index(words.len()), other.index(words.len()));
            words.swap(one, other);
        }
        if let Ok(offer) = Offer::parse(&words.concat()) {
            let _ = answer(&offer);
        }
    }
}

#[test]
fn random_and_changed_datagrams_never_panic_nor_end_a_session() {
    let mut world = World::connected(CodecKind::H264, CLEAN, "fixed", 12);
    let mut random = Pcg64Mcg::seed_from_u64(99);
    let mut known: Vec<Vec<u8>> = Vec::new();
    for round in 0..400 {
        world.encode();
        world.run(INTERVAL / 4);
        known.extend(
            world.flying.iter().filter(|((.., to_player), _)| !to_player).map(|(_, datagram)| datagram.clone()),
        );
        known.truncate(64);
        for _ in 0..20 {
            let mut datagram = match known.get(random.random_range(0..known.len().max(1))) {
                Some(datagram) if random.random_bool(0.5) => datagram.clone(),
                _ => (0..random.random_range(0..200)).map(|_| random.random()).collect(),
            };
            for _ in 0..random.random_range(0..4) {
                if let Some(byte) = datagram.get_mut(random.random_range(0..200)) {
                    *byte = random.random();
                }
            }
            // A valid datagram from elsewhere may be answered there, and changes nothing.
            let from = if random.random_bool(0.5) { player_address() } else { server_address() };
            world.peer.on_datagram(world.now, Remote::udp(from), server_address(), &datagram);
        }
        assert!(world.peer.is_connected(), "round {round}");
    }
    world.run(Span::from_secs(2));
    assert!(world.peer.is_connected() && world.frames.len() > 300, "{} frames", world.frames.len());
}

fn from_player() -> Remote {
    Remote::udp(player_address())
}

/// Makes a world with open channels.
fn talking(seed: u64) -> World {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", seed);
    world.run(Span::from_secs(1));
    assert!(world.player.is_open("control") && world.player.is_open("session"));
    world.play(3);
    world
}

#[test]
fn a_chunk_whose_error_cause_claims_more_than_it_holds_ends_no_session() {
    let mut world = talking(31);
    for kind in [6, 9] {
        for cause in [[0, 12, 0xff, 0xff], [0, 12, 0, 5], [0, 12, 0, 3]] {
            let chunk = [&[kind, 0, 0, 8][..], &cause].concat();
            let datagram = world.player.seal_chunks(&chunk).expect("the player has keys");
            world.peer.on_datagram(world.now, from_player(), server_address(), &datagram);
            world.drain();
        }
    }
    assert!(world.peer.is_connected() && world.events.iter().all(|event| !matches!(event, Event::Closed { .. })));
    world.play(30);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len(), 33);
    // A valid one is accepted: so what was sealed before got that far too.
    let abort = world.player.seal_chunks(&[6, 0, 0, 8, 0, 12, 0, 4]).expect("the player has keys");
    world.peer.on_datagram(world.now, from_player(), server_address(), &abort);
    world.drain();
    assert!(world.events.iter().any(|event| matches!(event, Event::Closed { .. })), "{:?}", world.events);
    assert!(!world.events.contains(&Event::Failed));
}

#[test]
fn a_leap_of_two_thousand_million_sequence_numbers_is_not_walked() {
    let mut world = talking(32);
    // A run takes seconds each; the test would last for minutes.
    for step in 0..100_u32 {
        let tsn = step.wrapping_mul(0x7fff_0000).to_be_bytes();
        let chunk = [&[192, 0, 0, 8][..], &tsn].concat();
        let datagram = world.player.seal_chunks(&chunk).expect("the player has keys");
        world.peer.on_datagram(world.now, from_player(), server_address(), &datagram);
    }
    world.play(10);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len(), 13);
}

#[test]
fn a_handshake_message_in_thousands_of_parts_is_not_put_together() {
    let mut world = World::new(CodecKind::Vp8, CLEAN, "fixed", 33);
    let deadline = world.now + Span::from_secs(5);
    // Checks have established the path, and the handshake has begun.
    world.run_until(deadline, |world| world.flying.values().any(|datagram| matches!(datagram[..], [22, ..])));
    for offset in 0..100_000_u32 {
        let three = |number: u32| number.to_be_bytes()[1..].to_vec();
        let part = [vec![1], three(100_001), vec![0, 0], three(offset), three(1), vec![7]].concat();
        let number = u64::from(1_000 + offset).to_be_bytes();
        let record = [&[22, 254, 253][..], &number, &[0, part.len() as u8], &part].concat();
        world.peer.on_datagram(world.now, from_player(), server_address(), &record);
    }
    // The recursion would have overflowed the stack.
    world.drain();
    assert!(!world.events.contains(&Event::Failed));
}

#[test]
fn a_request_that_is_not_signed_with_the_peer_s_password_changes_nothing() {
    let mut world = talking(34);
    let own = world.peer.credentials().expect("described").clone();
    let stranger = Remote::udp("203.0.113.9:50000".parse().expect("an address"));
    let forged =
        |transaction| crate::signed_request(&IceCredentials { password: "a guess".into(), ..own.clone() }, transaction);
    for transaction in 0..200 {
        for from in [stranger, from_player()] {
            world.peer.on_datagram(world.now, from, server_address(), &forged(transaction));
            let answers = std::iter::from_fn(|| world.peer.poll_transmit(world.now));
            assert!(answers.into_iter().all(|answer| answer.to != stranger), "a stranger was answered");
        }
    }
    world.play(10);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len(), 13);
    // Nor does it keep a session alive whose client is gone.
    world.path.loss = 1.0;
    for _ in 0..60 {
        world.peer.on_datagram(world.now, from_player(), server_address(), &forged(9));
        world.peer.on_datagram(world.now, from_player(), server_address(), &[0x80; 40]);
        world.run(Span::from_secs(1));
    }
    assert!(world.events.contains(&Event::Ended), "a minute of a stranger's words");
}

#[test]
fn sources_of_reports_are_bounded() {
    let mut world = talking(35);
    for source in 0..10_000_u32 {
        let report = [&[0x80, 201, 0, 1][..], &source.to_be_bytes(), &[0; 20]].concat();
        world.peer.on_datagram(world.now, from_player(), server_address(), &report);
    }
    assert_eq!(world.peer.reporters.len(), MAX_SOURCES);
    assert!(!world.peer.admits(&[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]), "clients send no media");
}
