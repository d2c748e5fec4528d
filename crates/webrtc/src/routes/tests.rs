use proptest::prelude::*;

use super::*;
use crate::stun::COOKIE;

/// A binding request for `name`, behind attributes of odd lengths.
fn request(name: &str) -> Vec<u8> {
    let mut attributes = vec![0x80, 0x22, 0, 3, 1, 2, 3, 0];
    let user = format!("{name}:theirs");
    attributes.extend([0, 6]);
    attributes.extend((user.len() as u16).to_be_bytes());
    attributes.extend(user.bytes());
    attributes.resize(attributes.len().next_multiple_of(4), 0);
    let mut bytes = vec![0, 1];
    bytes.extend((attributes.len() as u16).to_be_bytes());
    bytes.extend(COOKIE);
    bytes.extend([7; 12]);
    bytes.extend(attributes);
    bytes
}

fn address(port: u16) -> Remote {
    Remote::udp(SocketAddr::from(([192, 0, 2, 1], port)))
}

#[test]
fn a_request_names_its_peer_and_makes_the_address_known() {
    let mut routes = Routes::default();
    routes.add(PeerId(1), "one");
    routes.add(PeerId(2), "other");
    let media = [0x80, 96, 0, 1];
    assert_eq!(routes.on_datagram(address(1), &media), None, "a stranger");
    assert_eq!(routes.on_datagram(address(1), &request("nobody")), None);
    assert_eq!(routes.on_datagram(address(1), &request("one")), Some(PeerId(1)));
    assert_eq!(routes.on_datagram(address(2), &request("other")), Some(PeerId(2)));
    assert_eq!(routes.on_datagram(address(1), &media), Some(PeerId(1)));
    assert_eq!(routes.on_datagram(address(2), &media), Some(PeerId(2)));
    // The same address later belongs to who uses it then.
    assert_eq!(routes.on_datagram(address(1), &request("other")), Some(PeerId(2)));
    assert_eq!(routes.on_datagram(address(1), &media), Some(PeerId(2)));
    routes.remove(PeerId(2));
    assert_eq!(routes.on_datagram(address(1), &media), None);
    assert_eq!(routes.on_datagram(address(1), &request("other")), None);
    assert!(routes.by_address.is_empty());
}

#[test]
fn addresses_of_a_peer_are_bounded() {
    let mut routes = Routes::default();
    routes.add(PeerId(1), "one");
    for port in 1..1_000 {
        routes.on_datagram(address(port), &request("one"));
    }
    assert_eq!(routes.by_address.len(), MAX_ADDRESSES);
    assert_eq!(routes.on_datagram(address(999), &[0x80]), Some(PeerId(1)), "the newest are kept");
}

proptest! {
    #[test]
    fn any_bytes_are_routed_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0_usize..60) {
        let mut routes = Routes::default();
        routes.add(PeerId(1), "one");
        prop_assert_eq!(routes.on_datagram(address(1), &bytes), None);
        let known = request("one");
        // The last two bytes only fill up.
        let whole = cut >= known.len() - 2;
        prop_assert_eq!(routes.on_datagram(address(1), &known[..cut.min(known.len())]).is_some(), whole);
        let mut changed = known;
        for (place, byte) in bytes.iter().enumerate() {
            if let Some(changed) = changed.get_mut(place * 3) {
                *changed ^= byte;
            }
        }
        let _ = routes.on_datagram(address(1), &changed);
    }
}
