use axum::body::Body;
use proptest::prelude::*;

use super::*;

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn trusted(list: &[&str]) -> TrustedProxies {
    TrustedProxies::new(list.iter().map(|prefix| prefix.parse().expect("a prefix")).collect())
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| -> (HeaderName, HeaderValue) {
        (name.parse().expect("a name"), HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
    };
    lines.iter().map(line).fold(HeaderMap::new(), |mut headers, (name, value)| {
        headers.append(name, value);
        headers
    })
}

fn plain(address: IpAddr) -> Requester {
    Requester { address, secure: false }
}

#[test]
fn prefixes_contain_their_addresses() {
    for (prefix, inside, outside) in [
        ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
        ("10.1.2.3/8", "10.0.0.0", "9.255.255.255"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
        ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
        ("fd00::/8", "fdff::1", "fe00::1"),
        ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
        ("::1", "::1", "127.0.0.1"),
    ] {
        let prefix: AddressPrefix = prefix.parse().expect("a prefix");
        assert!(prefix.contains(inside.parse().expect("an address")), "{prefix:?} {inside}");
        assert!(!prefix.contains(outside.parse().expect("an address")), "{prefix:?} {outside}");
    }
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "proxy.example", "10.0.0.0/8/8"] {
        assert_eq!(text.parse::<AddressPrefix>(), Err(NotAnAddressPrefix), "{text}");
    }
}

#[test]
fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
    let (x, f) = ("x-forwarded-for", "forwarded");
    for (lines, expected) in [
        (&[][..], "10.0.0.1"),
        (&[(x, "198.51.100.7")], "198.51.100.7"),
        (&[(x, "203.0.113.9, 198.51.100.7")], "198.51.100.7"),
        (&[(x, "203.0.113.9,198.51.100.7 , 10.9.9.9")], "198.51.100.7"),
        (&[(x, "203.0.113.9"), (x, "198.51.100.7"), (x, "10.9.9.9")], "198.51.100.7"),
        (&[(x, "10.3.3.3, 10.9.9.9")], "10.3.3.3"),
        (&[(x, "198.51.100.7:4711")], "198.51.100.7"),
        (&[(x, "2001:db8::7")], "2001:db8::7"),
        (&[(x, "[2001:db8::7]:4711")], "2001:db8::7"),
        (&[(x, "::ffff:198.51.100.7")], "198.51.100.7"),
        // The proxy does not know it, or somebody has written nonsense: the address to the left of it may be anybody's claim.
        (&[(x, "203.0.113.9, unknown")], "10.0.0.1"),
        (&[(x, "203.0.113.9,")], "10.0.0.1"),
        (&[(x, "203.0.113.9, 198.51.100.\u{e9}")], "10.0.0.1"),
        (&[(x, "\u{e9}\", 198.51.100.7")], "198.51.100.7"),
        (&[(x, "nonsense, 198.51.100.7")], "198.51.100.7"),
        (&[(f, "for=198.51.100.7")], "198.51.100.7"),
        (&[(f, "For=\"[2001:db8::7]:4711\";proto=https;by=203.0.113.43")], "2001:db8::7"),
        (&[(f, "for=203.0.113.9, by=x;for=198.51.100.7;proto=http, for=10.9.9.9")], "198.51.100.7"),
        (&[(f, "for=\"203.0.113.9, for=203.0.113.8\", for=198.51.100.7")], "198.51.100.7"),
        (&[(f, "for=203.0.113.9;x=\"\\\", for=203.0.113.8\", for=198.51.100.7")], "198.51.100.7"),
        (&[(f, "for=203.0.113.9;x=\", for=198.51.100.7")], "10.0.0.1"),
        (&[(f, "for=203.0.113.9, for=_hidden")], "10.0.0.1"),
        (&[(f, "for=203.0.113.9, proto=https")], "10.0.0.1"),
        (&[(f, "for=\"198.51.100.7")], "10.0.0.1"),
        (&[(f, "for=198.51.100.7"), (x, "198.51.100.7")], "198.51.100.7"),
        (&[(f, "for=203.0.113.9"), (x, "198.51.100.7")], "10.0.0.1"),
        (&[("x-real-ip", "198.51.100.7")], "10.0.0.1"),
    ] {
        let requester = trusted(&["10.0.0.0/8"]).requester(plain(PROXY), &headers(lines));
        assert_eq!(requester.address.to_string(), expected, "{lines:?}");
    }
}

#[test]
fn tls_that_a_trusted_proxy_has_ended_counts() {
    let (x, f) = ("x-forwarded-proto", "forwarded");
    for (lines, expected) in [
        (&[][..], false),
        (&[(x, "https")], true),
        (&[(x, "HTTPS")], true),
        (&[(x, "http")], false),
        (&[(x, "https, http")], false),
        (&[(x, "https"), (x, "http")], false),
        (&[(f, "for=x;proto=https")], true),
        (&[(f, "for=x;proto=https"), (x, "http")], false),
    ] {
        let headers = headers(lines);
        assert_eq!(trusted(&["10.0.0.0/8"]).requester(plain(PROXY), &headers).secure, expected, "{lines:?}");
        assert!(!trusted(&["::1"]).requester(plain(PROXY), &headers).secure, "{lines:?} from a stranger");
        let over_tls = Requester { secure: true, ..plain(PROXY) };
        assert!(trusted(&["10.0.0.0/8"]).requester(over_tls, &headers).secure, "{lines:?} over TLS");
    }
}

#[test]
fn every_header_of_a_proxy_marks_a_request() {
    let request = |name: &str| Request::get("/").header(name, "x").body(Body::empty()).expect("a request");
    for name in ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-IP"] {
        assert!(is_forwarded(&request(name)), "{name}");
    }
    assert!(!is_forwarded(&request("Host")));
}

#[test]
fn a_path_may_have_the_prefix_or_not() {
    let stripped = |prefix: &str, address: &str| {
        let mut request = Request::get(address).body(Body::empty()).expect("a request");
        match PathPrefix::new(prefix).strip(&mut request) {
            None => request.uri().to_string(),
            Some(redirect) => format!("to {}", redirect.headers()[header::LOCATION].to_str().expect("text")),
        }
    };
    for (address, expected) in [
        ("/world/", "/"),
        ("/world/session.json?a=/world/", "/session.json?a=/world/"),
        ("https://desk.example.net/world/main.js", "https://desk.example.net/main.js"),
        ("/world/world/", "/world/"),
        ("/world/?room=lab", "/?room=lab"),
        ("/world", "to /world/"),
        ("/world?room=lab", "to /world/?room=lab"),
        ("/worlds/", "/worlds/"),
        ("/world.glb", "/world.glb"),
        ("/main.js", "/main.js"),
        ("/", "/"),
    ] {
        assert_eq!(stripped("/world/", address), expected, "{address}");
    }
    assert_eq!(stripped("/", "/world/"), "/world/");
    let mut socket = Request::get("/nearlight").header("upgrade", "websocket").body(Body::empty()).expect("a request");
    assert!(PathPrefix::new("/nearlight/").strip(&mut socket).is_none(), "the path of the WebSocket");
    assert_eq!(socket.uri(), "/nearlight");
    for (prefix, location, expected) in [
        ("/world/", "/whep/1", "/world/whep/1"),
        ("/", "/whep/1", "/whep/1"),
        ("/world/", "https://a.example/", "https://a.example/"),
    ] {
        let mut response = [(header::LOCATION, location)].into_response();
        PathPrefix::new(prefix).restore(&mut response);
        assert_eq!(response.headers()[header::LOCATION], expected);
    }
}

/// Parts from which lists are put together: addresses, and what confuses parsers.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("for=".to_owned()),
        any::<IpAddr>().prop_map(|address| address.to_string()),
        "[ ,;=\"\\\\\\[\\]:./a-z0-9_-]{0,12}",
        "[\\x20-\\x7e\\u{80}-\\u{ff}]{0,8}",
    ]
}

proptest! {
    /// Whatever a client sends before the trusted proxy appends its address, the client's address is the appended one. If the client has
    /// opened a quotation mark in the same line, it counts as the proxy.
    #[test]
    fn no_claim_of_a_client_is_believed(
        claims in prop::collection::vec(prop::collection::vec(part(), 0..12).prop_map(|parts| parts.concat()), 0..6),
        standard in any::<bool>(),
        own_line in any::<bool>(),
    ) {
        let client: IpAddr = "198.51.100.7".parse().expect("an address");
        let (name, appended) = if standard { ("forwarded", format!("for={client}")) } else { ("x-forwarded-for", client.to_string()) };
        let mut lines = claims;
        match lines.last_mut().filter(|_| !own_line) {
            Some(last) => *last = format!("{last}, {appended}"),
            None => lines.push(appended),
        }
        let lines: Vec<(&str, &str)> = lines.iter().map(|line| (name, line.as_str())).collect();
        let requester = trusted(&["10.0.0.0/8"]).requester(plain(PROXY), &headers(&lines));
        let is_hidden = standard && !own_line && requester.address == PROXY;
        prop_assert!(requester.address == client || is_hidden, "{lines:?}: {requester:?}");
        let stranger = IpAddr::from([192, 0, 2, 1]);
        prop_assert_eq!(trusted(&["10.0.0.0/8"]).requester(plain(stranger), &headers(&lines)), plain(stranger));
    }

    #[test]
    fn no_request_makes_the_parsers_fail(name in "forwarded|x-forwarded-for|x-forwarded-proto", value in prop::collection::vec(0x20..=0xffu8, 0..2_000)) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let headers = HeaderMap::from_iter([(HeaderName::from_bytes(name.as_bytes()).expect("a name"), value)]);
        let _ = trusted(&["0.0.0.0/0", "::/0"]).requester(plain(PROXY), &headers);
    }
}
