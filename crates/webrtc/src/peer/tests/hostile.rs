//! Bytes that nobody means well with.

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
    let mut world = World::connected(Codec::H264, CLEAN, "fixed", 12);
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
            // What is whole but comes from elsewhere may be answered there, and changes nothing.
            let from = if random.random_bool(0.5) { player_address() } else { server_address() };
            world.peer.on_datagram(world.now, Remote::udp(from), server_address(), &datagram);
        }
        assert!(world.peer.is_connected(), "round {round}");
    }
    world.run(Span::from_secs(2));
    assert!(world.peer.is_connected() && world.frames.len() > 300, "{} frames", world.frames.len());
}
