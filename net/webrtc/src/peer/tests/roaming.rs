//! Clients that roam to another of their networks.

use super::*;

/// A second network of the player's, which it nominates while the first still works, and from which everything arrives afterwards. The
/// library's player knows only one network, so its nomination is replayed from there; no signature covers the source address.
fn roam(world: &mut World) {
    world.at = "203.0.113.9:50000".parse().expect("an address");
    let from = Remote::udp(world.at);
    let nomination = world.nomination.clone();
    assert!(!nomination.is_empty(), "the player nominated a way when it connected");
    world.peer.on_datagram(world.now, from, server_address(), &nomination);
}

#[test]
fn media_follow_a_client_to_the_network_that_it_nominates() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 21);
    world.play(30);
    world.run(Span::from_millis(200));
    roam(&mut world);
    world.play(60);
    world.run(Span::from_secs(1));
    // What was in flight to the first network is lost, and recovered.
    assert!(world.frames.len() >= 85, "{} of 90 frames came", world.frames.len());
    // Long after the library would have given up the first network.
    world.run(Span::from_secs(60));
    let before = world.frames.len();
    world.play(30);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len() - before, 30);
    assert!(!world.events.contains(&Event::Ended));
}

#[test]
fn who_repeats_a_client_s_datagrams_from_elsewhere_gets_nothing() {
    let mut world = World::connected(CodecKind::Vp8, CLEAN, "fixed", 22);
    world.play(10);
    world.run(Span::from_millis(200));
    let (elsewhere, nomination) =
        (Remote::udp("203.0.113.9:50000".parse().expect("an address")), world.nomination.clone());
    for datagram in [&nomination[..], &[0x80; 40]] {
        world.peer.on_datagram(world.now, elsewhere, server_address(), datagram);
    }
    // The server's check is sent there, and goes unanswered.
    world.play(10);
    world.run(Span::from_secs(1));
    assert_eq!(world.frames.len(), 20);
}
