//! The link that pairs a client with a server over Ethernet frames: `ether:[INTERFACE/]ADDRESS#token=…`.

use std::fmt;

use crate::link_layer::HardwareAddress;

use crate::NetError;

/// The contents of a link. The interface is the client's own, which no server knows: a server prints links without it, and a user with
/// several interfaces inserts the right one.
#[derive(Clone, PartialEq, Eq)]
pub struct EthernetLink {
    /// The client's interface. None: its only one.
    pub interface: Option<String>,
    pub server: HardwareAddress,
    pub token: Option<String>,
}

impl EthernetLink {
    const SCHEME: &'static str = "ether:";

    /// Whether the text is an Ethernet link rather than the link of a page.
    #[must_use]
    pub fn is_ethernet_link(text: &str) -> bool {
        text.starts_with(Self::SCHEME)
    }

    /// Parses a link as it was printed or typed.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let (place, fragment) = text.split_once('#').unwrap_or((text, ""));
        let refused = || NetError::EthernetLink(place.chars().take(80).collect());
        let place = place.strip_prefix(Self::SCHEME).ok_or_else(refused)?;
        let (interface, server) = match place.split_once('/') {
            Some((interface, server)) if !interface.is_empty() => (Some(interface.to_owned()), server),
            Some(_) => return Err(refused()),
            None => (None, place),
        };
        let server = server.parse().map_err(|_| refused())?;
        let token = fragment.split('&').find_map(|part| part.strip_prefix("token=")).map(str::to_owned);
        Ok(Self { interface, server, token })
    }
}

impl fmt::Display for EthernetLink {
    /// Writes the whole link with its secret, for the person who may use it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Self::SCHEME)?;
        if let Some(interface) = &self.interface {
            write!(formatter, "{interface}/")?;
        }
        write!(formatter, "{}", self.server)?;
        self.token.as_ref().map_or(Ok(()), |token| write!(formatter, "#token={token}"))
    }
}

impl fmt::Debug for EthernetLink {
    /// Writes the link without the token, for logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EthernetLink({:?}, {})", self.interface, self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_back_as_printed() {
        for (text, interface) in [
            ("ether:02:00:5e:10:00:01#token=abc_-9", None),
            ("ether:eth0/02:00:5e:10:00:01#token=abc_-9", Some("eth0")),
            ("ether:wlan0.7/02:00:5e:10:00:01", Some("wlan0.7")),
        ] {
            let link = EthernetLink::parse(text).unwrap();
            assert_eq!(link.interface.as_deref(), interface);
            assert_eq!(link.to_string(), text);
            assert!(!format!("{link:?}").contains("abc"), "the log must not show the token");
        }
    }

    #[test]
    fn what_is_no_link_is_refused_without_repeating_the_token() {
        for text in
            ["ether:", "ether:/02:00:5e:10:00:01#token=secret", "ether:eth0#token=secret", "http://x/#token=secret"]
        {
            let error = EthernetLink::parse(text).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
