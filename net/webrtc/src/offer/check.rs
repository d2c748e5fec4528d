//! Checks the library's assumptions about a description. A violation would occupy a slot and never connect.

use std::ops::RangeInclusive;

use super::{OfferError, Section, attribute, direction};

/// Lengths of ICE names and passwords (RFC 8839 section 5.4).
const NAME_LENGTH: RangeInclusive<usize> = 4..=256;
const PASSWORD_LENGTH: RangeInclusive<usize> = 22..=256;
/// The only hash by which the library compares certificates, and its length in bytes.
pub(super) const HASH: &str = "sha-256";
const HASH_BYTES: usize = 32;

/// The kind of a description in a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptionKind {
    Offer,
    Answer,
}

/// Checks origin and time (RFC 8866 sections 5.2 and 5.9).
pub(super) fn session(lines: &[(char, &str)]) -> Result<(), OfferError> {
    for (letter, missing, numbers, words) in [('o', "its origin", 1..3, 6), ('t', "its time", 0..2, 2)] {
        let (_, value) = lines.iter().find(|(kind, _)| *kind == letter).ok_or(OfferError::Missing(missing))?;
        let found: Vec<&str> = value.split_ascii_whitespace().collect();
        if found.len() != words || !found[numbers].iter().all(|word| word.parse::<u64>().is_ok()) {
            return Err(OfferError::Syntax("its origin (o=) or time (t=) lacks a number or a word"));
        }
    }
    if lines.iter().any(|(kind, _)| *kind == 's') { Ok(()) } else { Err(OfferError::Missing("its session name")) }
}

/// Checks ICE credentials and certificate, of the session or of sections. Among bundled sections one of them suffices.
pub(super) fn transport(lines: &[(char, &str)], half: DescriptionKind) -> Result<(), OfferError> {
    for (name, length) in [("ice-ufrag", NAME_LENGTH), ("ice-pwd", PASSWORD_LENGTH)] {
        let is_ice = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        let fits = |value: &str| length.contains(&value.len()) && value.bytes().all(is_ice);
        each(lines, name, "its ICE credentials", |value| {
            fits(value)
                .then_some(())
                .ok_or(OfferError::Unusable("an ICE name or password has a wrong length or letter"))
        })?;
    }
    let hashes: Vec<&str> = attribute(lines, "fingerprint")
        .filter_map(|value| value.split_once(' '))
        .filter_map(|(hash, value)| (hash == HASH).then_some(value))
        .collect();
    if hashes.is_empty() {
        return Err(OfferError::Missing("the SHA-256 of its certificate (a=fingerprint)"));
    }
    if !hashes.into_iter().all(is_hash) {
        return Err(OfferError::Unusable("a certificate's SHA-256 (a=fingerprint) is not 32 bytes in hexadecimal"));
    }
    // The server waits for the client to begin.
    let roles = if half == DescriptionKind::Offer { ["active", "actpass"] } else { ["active", "passive"] };
    if attribute(lines, "setup").all(|role| roles.contains(&role.trim_end())) {
        return Ok(());
    }
    Err(OfferError::Unusable("the client must be ready to begin DTLS: a=setup:actpass or active"))
}

/// Checks all values of a mandatory attribute.
fn each(
    lines: &[(char, &str)],
    name: &str,
    missing: &'static str,
    check: impl Fn(&str) -> Result<(), OfferError>,
) -> Result<(), OfferError> {
    let mut values = attribute(lines, name).map(str::trim_end).filter(|value| !value.is_empty()).peekable();
    if values.peek().is_none() {
        return Err(OfferError::Missing(missing));
    }
    values.try_for_each(check)
}

fn is_hash(text: &str) -> bool {
    let is_byte = |pair: &str| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
    let text = text.trim_end();
    text.split(':').count() == HASH_BYTES && text.split(':').all(is_byte)
}

impl Section<'_> {
    /// Checks the library's assumptions about a section.
    pub(super) fn check(&self, half: DescriptionKind) -> Result<(), OfferError> {
        let words: Vec<&str> = self.head.split(' ').collect();
        if words.len() < 4 || words[1].parse::<u16>().is_err() {
            return Err(OfferError::Syntax("a section's first line lacks port, protocol or formats"));
        }
        let media = match self.kind() {
            "video" | "audio" => true,
            "application" => false,
            _ => return Err(OfferError::Syntax("a section is neither video nor audio nor application")),
        };
        if !is_encrypted(words[2], media) {
            return Err(OfferError::Unusable("a section's protocol is not one of WebRTC's, such as UDP/TLS/RTP/SAVPF"));
        }
        let identifier = self.name();
        if identifier.is_empty() || identifier.len() > 32 || !identifier.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(OfferError::Missing("a usable a=mid in each section"));
        }
        if self.is_closed() {
            // This is how an answer declines a section. The library would answer an offer with a declined section as if it were not
            // declined.
            let offered = half == DescriptionKind::Offer;
            return if offered {
                Err(OfferError::Unusable("a section has port 0 and asks for nothing"))
            } else {
                Ok(())
            };
        }
        if media && attribute(self.lines, "rtcp-mux").next().is_none() {
            return Err(OfferError::Missing("a=rtcp-mux in each section of video or audio"));
        }
        let number = |value: &str| value.split(['/', ' ']).next().and_then(|word| word.parse::<u16>().ok());
        if attribute(self.lines, "extmap").any(|value| number(value).is_none()) {
            return Err(OfferError::Syntax("an extension's number (a=extmap) is none"));
        }
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        attribute(self.lines, "mid").next().unwrap_or_default()
    }

    /// Whether the section is declined (RFC 3264 section 5.1). A port that is left to the bundle does not count (RFC 8843 section 6).
    pub(super) fn is_closed(&self) -> bool {
        self.head.split(' ').nth(1) == Some("0") && attribute(self.lines, "bundle-only").next().is_none()
    }

    /// Whether the client receives on this section.
    pub(super) fn receives(&self) -> bool {
        let direction = direction(self.lines).unwrap_or(self.default);
        !self.is_closed() && ["sendrecv", "recvonly"].contains(&direction)
    }
}

/// Whether the protocol is encrypted. An answer always names the encrypted protocol, which would be wrong for an unencrypted offer.
fn is_encrypted(protocol: &str, media: bool) -> bool {
    if media {
        let profile = ["UDP/TLS/", "TCP/TLS/", "TCP/DTLS/"].iter().find_map(|prefix| protocol.strip_prefix(prefix));
        return matches!(profile.unwrap_or(protocol), "RTP/SAVPF" | "RTP/SAVP");
    }
    matches!(protocol, "UDP/DTLS/SCTP" | "TCP/DTLS/SCTP" | "DTLS/SCTP")
}
