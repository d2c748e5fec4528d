//! Reverse proxies in front of the server.

use clap::Args;
use nearlight_net::Link;
use nearlight_server::{AddressPrefix, ServeOptions};

/// First parts of the server's own paths that continue below them. A page below one of them would be mistaken for it.
const RESERVED_PATHS: [&str; 4] = ["whep", "signaling", "unity", "module"];

#[derive(Debug, Args)]
pub(super) struct ProxyArguments {
    /// Address of the page for clients of a reverse proxy, with its path if the proxy serves the page below one, such as
    /// `https://desk.example.net/world/`. Links and QR code have it
    #[arg(long, value_name = "URL", value_parser = public_url)]
    public_url: Option<Link>,
    /// UDP port of --public-url's host that leads to --port, for WebTransport [default: the same as --port]
    #[arg(long, value_name = "PORT", requires = "public_url", value_parser = clap::value_parser!(u16).range(1..))]
    public_udp: Option<u16>,
    /// Addresses or prefixes of reverse proxies, such as 127.0.0.1,10.0.0.0/8, that name their clients in `Forwarded` or
    /// `X-Forwarded-For` [default: none]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    trusted_proxies: Vec<AddressPrefix>,
}

impl ProxyArguments {
    /// Adds these arguments to `options`.
    pub(super) fn complete(self, options: ServeOptions) -> ServeOptions {
        let Self { public_url, public_udp: public_udp_port, trusted_proxies } = self;
        ServeOptions { public_url, public_udp_port, trusted_proxies, ..options }
    }
}

/// Parses the address of the page behind a proxy, such as `https://desk.example.net/world/`.
fn public_url(text: &str) -> Result<Link, String> {
    let expected =
        || "expected an address such as https://desk.example.net/world/, without token and options".to_owned();
    let mut link = Link::parse(text).map_err(|_| expected())?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._~/".contains(letter);
    if text.contains(['?', '#', '@']) || !link.path.chars().all(is_plain) || link.path.contains("//") {
        return Err(expected());
    }
    if !link.path.ends_with('/') {
        link.path.push('/');
    }
    let first = link.path.split('/').nth(1).unwrap_or_default();
    if RESERVED_PATHS.contains(&first) {
        return Err(format!("the server has paths of its own below /{first}/: choose another one for the page"));
    }
    let is_here = link.host == "localhost" || link.host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback());
    if !link.secure && !is_here {
        return Err("browsers show streams on pages with https only: give the proxy's https address".into());
    }
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_page() {
        for (text, page) in [
            ("https://desk.example.net", "https://desk.example.net/"),
            ("https://Desk.Example.net:443/world", "https://desk.example.net/world/"),
            ("https://desk.example.net:8443/a/b-c/", "https://desk.example.net:8443/a/b-c/"),
            ("http://localhost:9000/nearlight/", "http://localhost:9000/nearlight/"),
        ] {
            assert_eq!(public_url(text).map(|link| link.page()), Ok(page.to_owned()), "{text}");
        }
        for (text, words) in [
            ("desk.example.net", "expected an address"),
            ("https://desk.example.net/?room=lab", "without token"),
            ("https://desk.example.net/#token=x", "without token"),
            ("https://me:here@desk.example.net/", "without token"),
            ("https://desk.example.net/a b/", "expected an address"),
            ("https://desk.example.net//world/", "expected an address"),
            ("https://desk.example.net/whep/", "another one"),
            ("http://desk.example.net/", "https"),
        ] {
            assert!(public_url(text).is_err_and(|error| error.contains(words)), "{text}");
        }
    }
}
