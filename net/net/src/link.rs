//! The link that pairs a client with a server: `http[s]://HOST[:PORT]/[PATH/]#token=…`.

use std::fmt;

use url::{Host, Url, form_urlencoded};

use crate::{CertificateHash, NetError};

/// The contents of a link. The fragment never leaves the client, so page requests do not carry the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    /// Whether the page is requested over HTTPS. The session is encrypted either way.
    pub secure: bool,
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// The path of the page. It is `/`, except where a reverse proxy serves the page below another path.
    pub path: String,
    pub token: Option<String>,
    /// The only certificate that is accepted, if the owner has added `&certificate=` and its hash.
    pub certificate: Option<CertificateHash>,
}

impl Link {
    /// Parses a link as it was printed or typed.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let refused = || NetError::Link(text.split('#').next().unwrap_or_default().to_owned());
        let url = Url::parse(text).map_err(|_| refused())?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(refused()),
        };
        let host = match url.host().ok_or_else(refused)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let port = url.port_or_known_default().ok_or_else(refused)?;
        let path = url.path().to_owned();
        let mut link = Self { secure, host, port, path, token: None, certificate: None };
        for (name, value) in form_urlencoded::parse(url.fragment().unwrap_or_default().as_bytes()) {
            match &*name {
                "token" => link.token = Some(value.into_owned()),
                "certificate" => link.certificate = Some(value.parse().map_err(|_| refused())?),
                _ => {}
            }
        }
        Ok(link)
    }

    /// Host and port in the form used in a URL.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.url_host(), self.port)
    }

    /// Returns the address of the page, which names its port unless the scheme implies it. It contains no secrets.
    #[must_use]
    pub fn page(&self) -> String {
        let (scheme, implied) = if self.secure { ("https", 443) } else { ("http", 80) };
        let authority = if self.port == implied { self.url_host() } else { self.authority() };
        format!("{scheme}://{authority}{}", self.path)
    }

    fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Link {
    /// Writes the whole link with its secrets, for the person who may use it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.page())?;
        let token = self.token.as_ref().map(|token| format!("token={token}"));
        let certificate = self.certificate.map(|hash| format!("certificate={hash}"));
        let fragment: Vec<String> = token.into_iter().chain(certificate).collect();
        if fragment.is_empty() { Ok(()) } else { write!(formatter, "#{}", fragment.join("&")) }
    }
}

impl fmt::Debug for Link {
    /// Writes the link without the token, for logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Link({}{})", if self.secure { "https://" } else { "http://" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_back_as_printed() {
        let hash = CertificateHash::of(b"");
        let links = [
            ("http://localhost:4433/#token=abc_-9", false, "localhost", 4433),
            ("https://192.0.2.7:8443/#token=abc_-9", true, "192.0.2.7", 8443),
            ("https://[2001:db8::1]:8443/", true, "2001:db8::1", 8443),
            (&format!("https://example.test:1/#token=t&certificate={hash}"), true, "example.test", 1),
            ("https://desk.example.net/world/#token=abc_-9", true, "desk.example.net", 443),
            ("http://[::1]/", false, "::1", 80),
        ];
        for (text, secure, host, port) in links {
            let link = Link::parse(text).unwrap();
            assert_eq!((link.secure, link.host.as_str(), link.port), (secure, host, port));
            assert_eq!(link.to_string(), text);
            assert!(!format!("{link:?}").contains("abc"), "the log must not show the token");
        }
        assert_eq!(Link::parse("https://example.test:443").unwrap().to_string(), "https://example.test/");
    }

    #[test]
    fn what_is_no_link_is_refused_without_repeating_the_token() {
        for text in ["", "localhost:1", "ftp://localhost/#token=secret", "http://x/#certificate=12&token=secret"] {
            let error = Link::parse(text).unwrap_err();
            assert!(matches!(error, NetError::Link(_)), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
