//! Reverse proxies in front of the page's port: whose request they pass on, and below which path they serve the page.
//!
//! Anyone can write the headers of a proxy, so they are believed only if the connection comes from an address that the owner trusts.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse, Response};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Headers by which reverse proxies say that they pass on somebody else's request (RFC 7239, RFC 9110 section 7.6.3, and customary ones),
/// besides those that begin with [`FORWARDING_PREFIX`].
const FORWARDING_HEADERS: [&str; 5] = ["forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"];
const FORWARDING_PREFIX: &str = "x-forwarded-";

/// Returns whether a proxy passes on somebody else's request, as far as its headers show. nginx adds no header by itself, but speaks HTTP/1.0
/// unless it is configured otherwise.
pub(crate) fn is_forwarded(request: &Request) -> bool {
    let is_mark = |name: &str| name.starts_with(FORWARDING_PREFIX) || FORWARDING_HEADERS.contains(&name);
    request.version() < Version::HTTP_11 || request.headers().keys().any(|name| is_mark(name.as_str()))
}

/// The addresses that share a prefix, such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPrefix {
    address: IpAddr,
    bits: u8,
}

/// The error for a text that is not an [`AddressPrefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected addresses such as 192.0.2.7 or 2001:db8::7, or prefixes such as 10.0.0.0/8 or fd00::/8")]
pub struct NotAnAddressPrefix;

impl AddressPrefix {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for AddressPrefix {
    type Err = NotAnAddressPrefix;

    fn from_str(text: &str) -> Result<Self, NotAnAddressPrefix> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| NotAnAddressPrefix)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.trim().parse().ok().filter(|bits| *bits <= longest).ok_or(NotAnAddressPrefix)?,
            None => longest,
        };
        Ok(Self { address, bits })
    }
}

/// The client of a request, as far as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) address: IpAddr,
    /// Whether the client's request came over TLS, to this server or to a trusted proxy.
    pub(crate) secure: bool,
}

/// The proxies whose headers are believed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<AddressPrefix>);

impl TrustedProxies {
    pub(crate) const fn new(prefixes: Vec<AddressPrefix>) -> Self {
        Self(prefixes)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|prefix| prefix.contains(address))
    }

    /// Returns whose request came over a connection. `connection` is the other end of the connection itself.
    ///
    /// A proxy appends the address of its client to those that the client has claimed, so only the part of the list after the last address
    /// that is not a trusted proxy's was written by trusted proxies. If the headers leave the client open, it is the proxy.
    pub(crate) fn requester(&self, connection: Requester, headers: &HeaderMap) -> Requester {
        if !self.contains(connection.address) {
            return connection;
        }
        let customary = headers.get_all(X_FORWARDED_FOR).iter().flat_map(words).map(|word| word.and_then(address));
        let standard = headers.get_all(header::FORWARDED).iter().flat_map(elements);
        let standard = standard.map(|element| parameter(element, "for").and_then(address));
        let address = match (self.last_stranger(customary), self.last_stranger(standard)) {
            (Claim::Address(client), Claim::Absent) | (Claim::Absent, Claim::Address(client)) => client,
            // A proxy writes one of both and may pass on what its client has written in the other.
            (Claim::Address(one), Claim::Address(other)) if one == other => one,
            _ => connection.address,
        };
        Requester { address, secure: connection.secure || is_https(headers) }
    }

    /// Returns the last address that is not a trusted proxy's, or else the first one.
    fn last_stranger(&self, addresses: impl Iterator<Item = Option<IpAddr>>) -> Claim {
        let last =
            addresses.reduce(|last, next| if next.is_some_and(|next| self.contains(next)) { last } else { next });
        match last {
            Some(Some(address)) => Claim::Address(address),
            Some(None) => Claim::Hidden,
            None => Claim::Absent,
        }
    }
}

/// The client that a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// There is no such header.
    Absent,
    /// The header has no address at the client's place: a name such as `unknown`, or something malformed.
    Hidden,
    Address(IpAddr),
}

/// Returns whether the last proxy says that its client's request came over TLS.
fn is_https(headers: &HeaderMap) -> bool {
    let standard = || {
        let last = headers.get_all(header::FORWARDED).iter().next_back();
        last.and_then(|value| elements(value).last()).and_then(|element| parameter(element, "proto"))
    };
    let customary = headers.get_all(X_FORWARDED_PROTO).iter().next_back();
    let scheme = customary.map_or_else(standard, |value| words(value).last().flatten());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// Returns what stands between the commas; none for bytes that are not text.
fn words(value: &HeaderValue) -> impl Iterator<Item = Option<&str>> {
    let words = value.as_bytes().split(|byte| *byte == b',');
    words.map(|word| std::str::from_utf8(word).ok().map(str::trim))
}

/// Returns the elements of `Forwarded` (RFC 7239 section 4). Commas between quotation marks separate nothing. Bytes that are not text make a
/// single element, which no parser accepts.
fn elements(value: &HeaderValue) -> impl Iterator<Item = &str> {
    split(value.to_str().unwrap_or(INVALID), b',')
}

/// A part of a header that no parser accepts.
const INVALID: &str = "\"";

/// Splits at a separator outside quoted strings (RFC 9110 section 5.6.4) and leaves out white space around the parts. A part whose quotation
/// mark is never closed is [`INVALID`]: what a proxy has appended may be in it.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = text.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                _ => return byte == separator && !is_quoted,
            }
            false
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(if is_quoted { INVALID } else { text[..end.unwrap_or(text.len())].trim() })
    })
}

/// Returns a parameter of an element of `Forwarded` (RFC 7239 section 4), without quotation marks.
fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let pairs = split(element, b';').filter_map(|pair| pair.split_once('='));
    let (_, value) = { pairs }.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
    match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"'),
        None => Some(value),
    }
}

/// Returns the address of a node (RFC 7239 section 6, and customary forms): `192.0.2.7`, `192.0.2.7:80`, `2001:db8::7`, `[2001:db8::7]`,
/// `[2001:db8::7]:80`. Names such as `unknown` have none.
fn address(node: &str) -> Option<IpAddr> {
    let bare = || node.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || node.parse().ok().map(|address: SocketAddr| address.ip());
    let address: Option<IpAddr> = node.parse().ok().or_else(bare).or_else(with_port);
    address.map(|address| address.to_canonical())
}

/// The path below which a proxy serves the page, without the slash at its end: empty for a whole host.
///
/// Some proxies remove it before they pass on a request, others do not. Both kinds of requests are answered alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathPrefix(String);

impl PathPrefix {
    /// Takes the path of the page's address.
    pub(crate) fn new(path: &str) -> Self {
        Self(path.trim_end_matches('/').to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Removes the prefix from a request's path, if the path has it. Returns a redirect for the prefix without a slash at its end, below
    /// which the page's relative addresses would be wrong.
    pub(crate) fn strip(&self, request: &mut Request) -> Option<Response> {
        let whole = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
        let rest = whole.strip_prefix(&self.0).filter(|_| !self.0.is_empty())?;
        if rest.starts_with('/') {
            let path = PathAndQuery::from_str(rest).ok()?;
            let mut parts = request.uri().clone().into_parts();
            parts.path_and_query = Some(path);
            *request.uri_mut() = Uri::from_parts(parts).ok()?;
            return None;
        }
        // A path such as `/nearlight` may also be one of the server's own, from which a proxy has removed the prefix.
        let is_page = (rest.is_empty() || rest.starts_with('?')) && !request.headers().contains_key(header::UPGRADE);
        let target = is_page.then(|| format!("{}/{rest}", self.0))?;
        Some((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, target)]).into_response())
    }

    /// Adds the prefix to the address of a redirect or of a new resource, so that it is right for the proxy's clients.
    pub(crate) fn restore(&self, response: &mut Response) {
        let target = response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
        let Some(target) = target else { return };
        // Two slashes would begin with the name of a host.
        if self.0.is_empty() || !target.starts_with('/') || target.starts_with("//") {
            return;
        }
        if let Ok(target) = HeaderValue::from_str(&format!("{}{target}", self.0)) {
            response.headers_mut().insert(header::LOCATION, target);
        }
    }
}

#[cfg(test)]
mod tests;
