//! A client's additions to its offer: candidates, which an ICE-lite server does not need but still parses.

use super::{MAX_LINES, OfferError, attribute, line_of};

/// The body of `application/trickle-ice-sdpfrag` (RFC 8840 section 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    names: Vec<&'a str>,
}

impl<'a> Fragment<'a> {
    pub fn parse(text: &'a str) -> Result<Self, OfferError> {
        let lines: Vec<(char, &str)> =
            text.lines().filter(|line| !line.is_empty()).map(line_of).collect::<Result<_, _>>()?;
        if lines.is_empty() || lines.len() > MAX_LINES {
            return Err(OfferError::Syntax("it has no lines, or too many"));
        }
        if !lines.iter().all(|(kind, _)| matches!(kind, 'a' | 'm')) {
            return Err(OfferError::Syntax("a line of a fragment is neither a= nor m="));
        }
        let mut candidates = lines.iter().filter(|(_, value)| value.starts_with("candidate:"));
        if !candidates.all(|(_, value)| is_candidate(value)) {
            return Err(OfferError::Syntax("a candidate is not as RFC 8839 describes it"));
        }
        Ok(Self { names: attribute(&lines, "ice-ufrag").map(str::trim_end).collect() })
    }

    /// Whether it belongs to another connection than the one offered with this ICE name.
    #[must_use]
    pub fn restarts(&self, name: &str) -> bool {
        self.names.iter().any(|other| *other != name)
    }
}

/// Whether this is a candidate attribute (RFC 8839 section 5.1), or the empty text that marks the end of candidates.
#[must_use]
pub fn is_candidate(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("candidate:") else { return text.is_empty() };
    let words: Vec<&str> = rest.split_ascii_whitespace().take(8).collect();
    let [_foundation, component, _transport, priority, _address, port, "typ", _kind] = words[..] else { return false };
    component.parse::<u16>().is_ok() && priority.parse::<u32>().is_ok() && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATE: &str =
        "candidate:842163049 1 udp 1677729535 192.0.2.7 46154 typ srflx raddr 0.0.0.0 rport 0 generation 0";

    #[test]
    fn candidates_are_distinguished_from_other_texts() {
        for text in [CANDIDATE, "", "candidate:1 1 TCP 2105458943 host.local 9 typ host tcptype active"] {
            assert!(is_candidate(text), "{text}");
        }
        let without_port = CANDIDATE.replace("46154", "port");
        for text in ["zzz", "candidate:", "candidate:1", "a=candidate:1 1 udp 1 192.0.2.7 9 typ host", &without_port] {
            assert!(!is_candidate(text), "{text}");
        }
    }

    #[test]
    fn a_fragment_names_its_connection() {
        let text =
            format!("a=ice-ufrag:abcd\r\na=ice-pwd:secret\r\nm=audio 9 RTP/SAVPF 0\r\na=mid:0\r\na={CANDIDATE}\r\n");
        let fragment = Fragment::parse(&text).expect("as RFC 8840 has it");
        assert!(!fragment.restarts("abcd") && fragment.restarts("efgh"));
        let bare = format!("a={CANDIDATE}");
        assert!(!Fragment::parse(&bare).expect("a candidate alone").restarts("abcd"));
        for text in ["", "\r\n", "junk", "v=0\r\n", "a=candidate:1\r\n", &"a=x\n".repeat(MAX_LINES + 1)] {
            assert!(Fragment::parse(text).is_err(), "{text}");
        }
    }
}
