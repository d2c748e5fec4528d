//! A client's offer, parsed before any of it reaches the library: bounded, and reduced to the parts that matter.

mod check;
mod formats;
mod fragment;

use check::DescriptionKind;
use formats::Formats;
use nearlight_wire::CodecKind;

pub use fragment::{Fragment, is_candidate};

/// Maximum length of an offer in bytes: a browser's with all its codecs has about 8 KiB.
pub const MAX_SDP_BYTES: usize = 64 * 1_024;
/// Maximum number of sections: more than one video, one audio and one data section have no use. Guess: room for clients that offer spares.
const MAX_SECTIONS: usize = 8;
/// Maximum number of lines: a browser's longest section has about 150.
const MAX_LINES: usize = 2_048;
/// Maximum length of a line in bytes: longer ones hold nothing that we read, and certificates' fingerprints have 100 characters.
const MAX_LINE_BYTES: usize = 4_096;

/// A codec as named by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedCodec {
    pub codec: CodecKind,
    pub payload_type: u8,
    /// Format parameters, as offered.
    pub parameters: String,
    /// Payload type of its retransmissions (RFC 4588).
    pub retransmission: Option<u8>,
}

/// A client's offer that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    sdp: String,
    video: Vec<OfferedCodec>,
    sound: Option<(u8, String)>,
    repairs: Option<(u8, String)>,
    /// Names of the sections that offer feedback by each stream's numbers (RFC 8888) but not by transport-wide ones.
    per_stream: Vec<String>,
    /// Whether the picture's section offers transport-wide feedback.
    transport_wide: bool,
}

/// The reason why an offer cannot be answered. All variants are the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error("an offer of {0} bytes is longer than the {MAX_SDP_BYTES} that are read")]
    TooLong(usize),
    #[error("this is not the SDP that WebRTC speaks: {0}")]
    Syntax(&'static str),
    #[error("the description lacks {0}, without which no connection can be made")]
    Missing(&'static str),
    #[error("the description cannot be accepted: {0}")]
    Unusable(&'static str),
}

impl Offer {
    /// Parses an offer. The library sees only what passes here.
    pub fn parse(text: &str) -> Result<Self, OfferError> {
        Self::read(text, DescriptionKind::Offer)
    }

    /// Parses the answer to an offer of ours, which declines sections differently.
    pub fn parse_answer(text: &str) -> Result<Self, OfferError> {
        Self::read(text, DescriptionKind::Answer)
    }

    fn read(text: &str, half: DescriptionKind) -> Result<Self, OfferError> {
        if text.len() > MAX_SDP_BYTES {
            return Err(OfferError::TooLong(text.len()));
        }
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            lines.push(line_of(line)?);
        }
        if lines.len() > MAX_LINES {
            return Err(OfferError::Syntax("it has too many lines"));
        }
        if lines.first() != Some(&('v', "0")) {
            return Err(OfferError::Syntax("it does not begin with v=0"));
        }
        check::session(&lines)?;
        let mut sections = lines.split(|(kind, _)| *kind == 'm');
        let default = sections.next().and_then(direction).unwrap_or("sendrecv");
        let heads = lines.iter().filter(|(kind, _)| *kind == 'm').map(|(_, value)| *value);
        let sections: Vec<Section<'_>> =
            heads.zip(sections).map(|(head, lines)| Section { head, lines, default }).collect();
        if sections.is_empty() || sections.len() > MAX_SECTIONS {
            return Err(OfferError::Syntax("it has no sections, or too many"));
        }
        for (place, section) in sections.iter().enumerate() {
            section.check(half)?;
            if sections[..place].iter().any(|other| other.name() == section.name()) {
                return Err(OfferError::Unusable("two sections have the same a=mid"));
            }
        }
        check::transport(&lines, half)?;
        let formats: Vec<Formats<'_>> = sections.iter().map(Formats::of).collect();
        let of = |kind: &str| {
            let mut all = sections.iter().zip(&formats);
            all.find(|(section, _)| section.kind() == kind && section.receives())
        };
        let (video, sound) = (of("video"), of("audio"));
        let transport_wide = video.is_some_and(|(section, _)| section.offers("transport-cc"));
        let per_stream = sections.iter().filter_map(Section::per_stream).collect();
        let formats_of_video = video.map(|(_, formats)| formats);
        Ok(Self {
            sdp: retained_text(text, &retained_sections(&lines, &sections, &formats)),
            video: formats_of_video.map_or_else(Vec::new, Formats::video),
            sound: sound.and_then(|(_, formats)| formats.opus()),
            repairs: formats_of_video.and_then(Formats::flexfec),
            per_stream,
            transport_wide,
        })
    }

    /// The ICE name (`ice-ufrag`) in a description.
    #[must_use]
    pub fn name_in(sdp: &str) -> Option<&str> {
        sdp.lines().find_map(|line| line.strip_prefix("a=ice-ufrag:")).map(str::trim_end)
    }

    /// The client's text without its addresses: an ICE-lite server waits for the client's checks, and sends only to their sources.
    /// Bundled sections are stripped of the credentials of separate transports.
    #[must_use]
    pub fn sdp(&self) -> &str {
        &self.sdp
    }

    /// Picture codecs that we can send, best first. For H.264, the most widely supported profile.
    #[must_use]
    pub fn video(&self) -> &[OfferedCodec] {
        &self.video
    }

    /// Whether the client accepts sound.
    #[must_use]
    pub const fn wants_sound(&self) -> bool {
        self.sound.is_some()
    }

    /// Whether the picture's arrivals are to be reported by its own numbers (RFC 8888). Transport-wide feedback is preferred if it is
    /// offered too, because its times are four times as fine.
    pub(crate) fn reports_per_stream(&self) -> bool {
        !self.per_stream.is_empty()
    }

    /// Whether the client will report each packet's arrival, in either form. Otherwise it sends receiver reports, and possibly its own
    /// estimate of the rate.
    #[must_use]
    pub const fn reports_arrivals(&self) -> bool {
        self.transport_wide || !self.per_stream.is_empty()
    }

    /// Returns an answer to this offer that accepts such reports.
    pub(crate) fn with_consent(&self, answer: &str) -> String {
        let mut lines = String::with_capacity(answer.len() + 64);
        for line in answer.split_inclusive('\n') {
            lines.push_str(line);
            let name = line.strip_prefix("a=mid:").map(str::trim_end);
            if name.is_some_and(|name| self.per_stream.iter().any(|own| own == name)) {
                lines.push_str("a=rtcp-fb:* ack ccfb\r\n");
            }
        }
        lines
    }

    /// Payload type and parameters of repairs that the client accepts for its picture.
    pub(crate) fn repairs(&self) -> Option<&(u8, String)> {
        self.repairs.as_ref()
    }

    /// Opus' payload type and parameters.
    pub(crate) fn sound(&self) -> Option<&(u8, String)> {
        self.sound.as_ref()
    }
}

/// The parts of a section that the library is to see.
struct RetainedSection<'a> {
    formats: &'a Formats<'a>,
    /// Whether it shares the first section's transport (RFC 8843): then its own transport attributes only matter to servers that do not
    /// bundle.
    follows: bool,
    /// A direction to be added, because the library does not answer a section without one.
    direction: Option<&'static str>,
}

fn retained_sections<'a>(
    lines: &[(char, &str)],
    sections: &[Section<'_>],
    formats: &'a [Formats<'a>],
) -> Vec<RetainedSection<'a>> {
    let groups = attribute(lines, "group").filter_map(|group| group.strip_prefix("BUNDLE "));
    let bundled: Vec<&str> = groups.flat_map(|group| group.split(' ').skip(1)).collect();
    let of = |(section, formats): (&Section<'_>, &'a Formats<'a>)| RetainedSection {
        formats,
        follows: bundled.contains(&section.name()),
        direction: (section.is_media() && direction(section.lines).is_none()).then_some(section.default),
    };
    sections.iter().zip(formats).map(of).collect()
}

/// Returns the text without addresses, without the credentials of transports that will not be created, and without hashes that the library
/// does not compare and formats that we do not use: for each format the library reads all lines of the section.
fn retained_text(text: &str, sections: &[RetainedSection<'_>]) -> String {
    let mut retained_text = String::with_capacity(text.len());
    let mut left = sections.iter();
    let mut section: Option<&RetainedSection<'_>> = None;
    let finish = |retained_text: &mut String, section: Option<&RetainedSection<'_>>| {
        if let Some(direction) = section.and_then(|section| section.direction) {
            let end = if retained_text.ends_with('\n') { "" } else { "\r\n" };
            retained_text.extend([end, "a=", direction, "\r\n"]);
        }
    };
    for line in text.split_inclusive('\n') {
        if line.starts_with("m=") {
            finish(&mut retained_text, section);
            section = left.next();
            retained_text
                .push_str(&section.map_or_else(|| line.to_owned(), |section| section.formats.useful_head(line)));
            continue;
        }
        let unused = |name: &&str| line.strip_prefix("a=").is_some_and(|rest| rest.starts_with(*name));
        let credentials = ["ice-ufrag:", "ice-pwd:", "fingerprint:"];
        let other_hash = line.strip_prefix("a=fingerprint:").is_some_and(|rest| !rest.starts_with(check::HASH));
        let not_needed = section
            .is_some_and(|section| !section.formats.uses(line) || (section.follows && credentials.iter().any(unused)));
        if !(unused(&"candidate:") || other_hash || not_needed) {
            retained_text.push_str(line);
        }
    }
    finish(&mut retained_text, section);
    retained_text
}

/// The direction of a session or a section (RFC 8866 section 6.7), if it has one.
fn direction(lines: &[(char, &str)]) -> Option<&'static str> {
    let all = ["sendrecv", "recvonly", "sendonly", "inactive"];
    all.into_iter().find(|name| attribute(lines, name).next().is_some())
}

fn line_of(line: &str) -> Result<(char, &str), OfferError> {
    if line.len() > MAX_LINE_BYTES || line.contains('\0') {
        return Err(OfferError::Syntax("a line is too long or holds a zero"));
    }
    match line.split_once('=') {
        Some((kind, value)) if kind.len() == 1 && kind.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            Ok((kind.chars().next().unwrap_or('x'), value))
        }
        _ => Err(OfferError::Syntax("a line is not of the form x=value")),
    }
}

struct Section<'a> {
    /// The text after `m=`.
    head: &'a str,
    lines: &'a [(char, &'a str)],
    /// The session's direction, for sections without one.
    default: &'static str,
}

fn attribute<'a, 'b>(lines: &'b [(char, &'a str)], name: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
    lines.iter().filter_map(move |(kind, value)| {
        let rest = value.strip_prefix(name).filter(|_| *kind == 'a')?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':') }
    })
}

impl Section<'_> {
    fn kind(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    fn is_media(&self) -> bool {
        matches!(self.kind(), "video" | "audio")
    }

    /// The section's name if it offers RFC 8888's feedback, which that RFC's section 6 writes for all formats at once, and no other.
    fn per_stream(&self) -> Option<String> {
        let name = attribute(self.lines, "mid").next()?;
        (self.offers("ack ccfb") && !self.offers("transport-cc")).then(|| name.to_owned())
    }

    /// Whether some format offers this feedback.
    fn offers(&self, wanted: &str) -> bool {
        let mut all = attribute(self.lines, "rtcp-fb").filter_map(|value| value.split_once(' '));
        all.any(|(_, feedback)| feedback.trim_end() == wanted)
    }
}

#[cfg(test)]
mod tests;
