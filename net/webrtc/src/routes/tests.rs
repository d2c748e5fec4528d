use proptest::prelude::*;

use super::*;
use crate::stun::signed_request;

const NOW: Time = Time::from_secs(1);
const MEDIA: [u8; 4] = [0x80, 200, 0, 1];

fn credentials(name: &str) -> IceCredentials {
    IceCredentials { name: name.into(), password: format!("password of {name}") }
}

fn request(name: &str) -> Vec<u8> {
    signed_request(&credentials(name), 7)
}

/// Names a peer, and is signed without knowledge of its password.
fn forged(name: &str) -> Vec<u8> {
    signed_request(&IceCredentials { password: "a guess".into(), ..credentials(name) }, 7)
}

fn routes() -> Routes {
    let mut routes = Routes::default();
    assert!(routes.add(PeerId(1), &credentials("one")) && routes.add(PeerId(2), &credentials("other")));
    routes
}

fn address(port: u16) -> Remote {
    Remote::udp(SocketAddr::from(([192, 0, 2, 1], port)))
}

#[test]
fn a_signed_request_names_its_peer_and_makes_the_address_known() {
    let mut routes = routes();
    assert_eq!(routes.on_datagram(NOW, address(1), &MEDIA), None, "a stranger");
    assert_eq!(routes.on_datagram(NOW, address(1), &request("nobody")), None);
    assert_eq!(routes.on_datagram(NOW, address(1), &request("one")), Some(PeerId(1)));
    assert_eq!(routes.on_datagram(NOW, address(2), &request("other")), Some(PeerId(2)));
    assert_eq!(routes.on_datagram(NOW, address(1), &MEDIA), Some(PeerId(1)));
    assert_eq!(routes.on_datagram(NOW, address(2), &MEDIA), Some(PeerId(2)));
    // The address belongs to its new user once the first client has left it.
    let later = NOW + ROUTE_LIFETIME;
    assert_eq!(routes.on_datagram(later, address(1), &request("other")), Some(PeerId(2)));
    assert_eq!(routes.on_datagram(later, address(1), &MEDIA), Some(PeerId(2)));
    routes.remove(PeerId(2));
    assert_eq!(routes.on_datagram(later, address(1), &MEDIA), None);
    assert_eq!(routes.on_datagram(later, address(1), &request("other")), None);
    assert!(routes.by_address.is_empty());
}

#[test]
fn a_request_without_the_peer_s_signature_moves_nothing() {
    let mut routes = routes();
    let mut unsigned = request("one");
    unsigned.truncate(unsigned.len() - 24);
    let length = (unsigned.len() - 20) as u16;
    unsigned[2..4].copy_from_slice(&length.to_be_bytes());
    for stranger in [forged("one"), unsigned] {
        assert_eq!(routes.on_datagram(NOW, address(9), &stranger), None);
        assert_eq!(routes.on_datagram(NOW, address(9), &MEDIA), None, "no address was learnt");
    }
    routes.on_datagram(NOW, address(1), &request("one"));
    assert_eq!(routes.on_datagram(NOW, address(1), &forged("other")), None, "from the client's own address, it claims");
    assert_eq!(routes.on_datagram(NOW, address(1), &MEDIA), Some(PeerId(1)));
}

#[test]
fn nobody_takes_a_client_s_address_with_requests_that_he_signs_for_himself() {
    let mut routes = routes();
    let mut now = NOW;
    for _ in 0..20 {
        assert_eq!(routes.on_datagram(now, address(1), &request("one")), Some(PeerId(1)));
        now += Span::from_secs(5);
        assert_eq!(routes.on_datagram(now, address(1), &request("other")), Some(PeerId(2)), "it may be answered");
        assert_eq!(routes.on_datagram(now, address(1), &MEDIA), Some(PeerId(1)));
    }
}

#[test]
fn addresses_of_a_peer_are_bounded_and_it_may_always_move() {
    let mut routes = routes();
    for port in 1..1_000 {
        let now = NOW + Span::from_millis(i64::from(port));
        routes.on_datagram(now, address(port), &request("one"));
        assert_eq!(routes.on_datagram(now, address(port), &MEDIA), Some(PeerId(1)), "{port}");
    }
    assert_eq!(routes.by_address.len(), MAX_ADDRESSES);
    assert_eq!(routes.on_datagram(NOW + ROUTE_LIFETIME, address(999), &MEDIA), Some(PeerId(1)), "the newest are kept");
}

#[test]
fn a_client_s_request_repeated_from_elsewhere_does_not_put_out_the_address_in_use() {
    let mut routes = routes();
    routes.on_datagram(NOW, address(1), &request("one"));
    routes.on_datagram(NOW, address(1), &MEDIA);
    for port in 2..1_000 {
        routes.on_datagram(NOW + Span::from_millis(i64::from(port)), address(port), &request("one"));
    }
    assert_eq!(routes.by_address.len(), MAX_ADDRESSES);
    assert_eq!(routes.on_datagram(NOW + ROUTE_LIFETIME, address(1), &MEDIA), Some(PeerId(1)));
}

proptest! {
    #[test]
    fn any_bytes_are_routed_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0_usize..100) {
        let mut routes = routes();
        prop_assert_eq!(routes.on_datagram(NOW, address(1), &bytes), None);
        let known = request("one");
        let whole = cut >= known.len();
        prop_assert_eq!(routes.on_datagram(NOW, address(1), &known[..cut.min(known.len())]).is_some(), whole);
        let mut changed = known.clone();
        for (place, byte) in bytes.iter().enumerate() {
            if let Some(changed) = changed.get_mut(place * 3) {
                *changed ^= byte;
            }
        }
        prop_assert_eq!(routes.on_datagram(NOW, address(2), &changed).is_some(), changed == known);
    }
}
