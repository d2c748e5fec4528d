//! The names and addresses that requests to the server may use.
//!
//! By DNS rebinding, a page of another site can look like this server's own to a browser: once the page is loaded, its name is resolved to
//! this machine's address. Then `Origin` and `Host` agree, and only the name reveals the attack.

use std::collections::BTreeSet;
use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use nearlight_net::{Identity, machine_names};

use crate::transports::rtc::whep::HttpRefusal;

/// The names and addresses of this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    addresses: BTreeSet<IpAddr>,
    /// Names in lower case. A first label `*` stands for any one label.
    names: BTreeSet<String>,
}

impl Hosts {
    /// Takes the names and addresses of this machine, those in the server's certificate, and `further` ones as text.
    pub(crate) fn of_machine(identity: &Identity, further: impl IntoIterator<Item = String>) -> Self {
        Self::new(machine_names().into_iter().chain(identity.certificate_names()).chain(further))
    }

    /// Takes names and addresses as text, in upper or lower case.
    pub(crate) fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        let mut known = Self::default();
        for host in hosts {
            match address(&host) {
                Some(address) => drop(known.addresses.insert(address)),
                None => drop(known.names.insert(normal(&host))),
            }
        }
        known
    }

    /// Returns whether a request for `asked` is meant for this server, which was reached at its address `local`.
    ///
    /// A literal address cannot be rebound by DNS. Over plain HTTP it must still be this machine's own. Over TLS any address is accepted:
    /// behind a router that was not announced, the user has already accepted the certificate warning.
    pub(crate) fn allows(&self, asked: &Authority, local: IpAddr, secure: bool) -> bool {
        let host = asked.host();
        if let Some(address) = address(host) {
            return secure || address.is_loopback() || address == local || self.addresses.contains(&address);
        }
        let name = normal(host);
        // RFC 6761 section 6.3: never resolved by a name server.
        if name == "localhost" || name.ends_with(".localhost") || self.names.contains(&name) {
            return true;
        }
        name.split_once('.').is_some_and(|(_, rest)| self.names.contains(&format!("*.{rest}")))
    }
}

fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Returns the host that a request is for, with its port: HTTP/2 has it in the URI, HTTP/1 in `Host`.
pub(crate) fn requested_host(request: &Request) -> Result<Authority, HttpRefusal> {
    let bad = |words: &str| HttpRefusal::new(StatusCode::BAD_REQUEST, words);
    let named = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().ok()?.parse().ok());
    let hosts: Option<Vec<Authority>> = request.uri().authority().cloned().map(Some).into_iter().chain(named).collect();
    let hosts = hosts.ok_or_else(|| bad("the request's Host is not a host name"))?;
    let [first, others @ ..] = &hosts[..] else {
        return Err(bad("the request says for which host it is neither in Host nor in its address"));
    };
    let is_plain = !first.as_str().contains('@');
    if !is_plain || others.iter().any(|other| !other.as_str().eq_ignore_ascii_case(first.as_str())) {
        return Err(bad("the request is for several hosts at once"));
    }
    Ok(first.clone())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    #[test]
    fn only_this_server_s_names_and_addresses_are_its_own() {
        let hosts = ["machine", "machine.local", "Cloud.Example", "*.wild.example", "203.0.113.9", "2001:db8::9"];
        let hosts = Hosts::new(hosts.map(str::to_owned));
        for (asked, plain, secure) in [
            ("localhost:8090", true, true),
            ("LOCALHOST.", true, true),
            ("world.localhost", true, true),
            ("127.0.0.1:8090", true, true),
            ("[::1]:8090", true, true),
            ("192.0.2.7:8090", true, true),
            ("[::ffff:192.0.2.7]", true, true),
            ("203.0.113.9", true, true),
            ("[2001:db8::9]:1", true, true),
            ("198.51.100.1", false, true),
            ("cloud.example", true, true),
            ("a.wild.example", true, true),
            ("a.b.wild.example", false, false),
            ("wild.example", false, false),
            ("machine:8090", true, true),
            ("machine.local", true, true),
            ("attacker.example:8090", false, false),
            ("localhost.attacker.example", false, false),
            ("127.0.0.1.attacker.example", false, false),
        ] {
            let asked: Authority = asked.parse().expect("an authority");
            assert_eq!(hosts.allows(&asked, LOCAL, false), plain, "{asked} over HTTP");
            assert_eq!(hosts.allows(&asked, LOCAL, true), secure, "{asked} over HTTPS");
        }
    }

    #[test]
    fn a_request_is_for_one_host() {
        let ask = |uri: &str, hosts: &[&str]| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            let request = request.body(Body::empty()).expect("a request");
            requested_host(&request).map(|host| host.to_string()).map_err(|refused| refused.status.as_u16())
        };
        assert_eq!(ask("/", &["localhost:8090"]), Ok("localhost:8090".into()));
        assert_eq!(ask("https://localhost:8090/", &[]), Ok("localhost:8090".into()));
        assert_eq!(ask("https://localhost:8090/", &["LOCALHOST:8090"]), Ok("localhost:8090".into()));
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &[""]),
            ("/", &["a b"]),
            ("/", &["me@localhost"]),
            ("/", &["localhost", "attacker.example"]),
            ("http://attacker.example/", &["localhost"]),
        ] {
            assert_eq!(ask(uri, hosts), Err(400), "{uri} {hosts:?}");
        }
    }
}
