//! The formats of a section: which of them we use, under which payload types and with which parameters.

use nearlight_wire::CodecKind;

use super::{OfferedCodec, Section, attribute};
use crate::codec;

/// Number of payload types, which have seven bits (RFC 3550 section 5.1).
const PAYLOAD_TYPES: usize = 128;
/// Attributes that begin with a payload type.
const FORMAT_ATTRIBUTES: [&str; 3] = ["a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"];

/// The formats of a section of video or audio, each once, in the client's order.
pub(super) struct Formats<'a> {
    listed: Vec<Format<'a>>,
    /// Payload types of the formats that we use, or of the first one if there are none. None: the section has no payload types.
    used: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Format<'a> {
    payload_type: u8,
    /// The name, such as `VP8/90000`.
    name: &'a str,
    parameters: &'a str,
}

impl<'a> Formats<'a> {
    pub(super) fn of(section: &Section<'a>) -> Self {
        if !section.is_media() {
            return Self { listed: Vec::new(), used: None };
        }
        let (names, parameters) = (by_payload_type(section, "rtpmap"), by_payload_type(section, "fmtp"));
        let mut seen = [false; PAYLOAD_TYPES];
        let mut listed = Vec::new();
        let mut first = None;
        for payload_type in section.head.split(' ').skip(3).filter_map(payload_type) {
            let index = usize::from(payload_type);
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            first.get_or_insert(payload_type);
            if let Some(name) = names[index] {
                listed.push(Format { payload_type, name, parameters: parameters[index].unwrap_or_default() });
            }
        }
        let mut formats = Self { listed, used: None };
        let mut used: Vec<u8> = Vec::new();
        for video in formats.video() {
            used.push(video.payload_type);
            used.extend(video.retransmission);
        }
        used.extend([formats.opus(), formats.flexfec()].into_iter().flatten().map(|(payload_type, _)| payload_type));
        if used.is_empty() {
            used.extend(first);
        }
        formats.used = Some(used);
        formats
    }

    /// Picture codecs that we can send, each once and in its best profile.
    pub(super) fn video(&self) -> Vec<OfferedCodec> {
        let mut found: Vec<(u8, OfferedCodec)> = Vec::new();
        for format in &self.listed {
            let Some(codec) = codec::from_rtpmap(format.name) else { continue };
            let Some(worse) = codec::mismatch(codec, format.parameters) else { continue };
            let known = found.iter_mut().find(|(_, other)| other.codec == codec);
            if known.as_ref().is_some_and(|(other, _)| worse >= *other) {
                continue;
            }
            let offered = self.offered(codec, *format);
            match known {
                Some(other) => *other = (worse, offered),
                None => found.push((worse, offered)),
            }
        }
        found.into_iter().map(|(_, offered)| offered).collect()
    }

    fn offered(&self, codec: CodecKind, format: Format<'_>) -> OfferedCodec {
        let Format { payload_type, parameters, .. } = format;
        let apt = format!("apt={payload_type}");
        let repairs = |other: &&Format<'_>| {
            other.name.eq_ignore_ascii_case("rtx/90000") && other.parameters.split(';').any(|word| word.trim() == apt)
        };
        let retransmission = self.listed.iter().find(repairs).map(|other| other.payload_type);
        OfferedCodec { codec, payload_type, parameters: parameters.to_owned(), retransmission }
    }

    pub(super) fn opus(&self) -> Option<(u8, String)> {
        self.named("opus/48000/2")
    }

    pub(super) fn flexfec(&self) -> Option<(u8, String)> {
        self.named("flexfec-03/90000")
    }

    /// Payload type and parameters of the first format of that name.
    fn named(&self, wanted: &str) -> Option<(u8, String)> {
        let found = self.listed.iter().find(|format| format.name.eq_ignore_ascii_case(wanted));
        found.map(|format| (format.payload_type, format.parameters.to_owned()))
    }

    /// The section's first line with the formats that we use.
    pub(super) fn useful_head(&self, line: &str) -> String {
        let Some(used) = &self.used else { return line.to_owned() };
        let text = line.trim_end_matches(['\r', '\n']);
        let mut left = used.clone();
        let mut take = |word: &str| {
            let place = payload_type(word).and_then(|wanted| left.iter().position(|other| *other == wanted));
            place.map(|place| left.swap_remove(place)).is_some()
        };
        // Type of media, port and protocol come first.
        let words = text.split(' ').enumerate().filter(|(place, word)| *place < 3 || take(word));
        let words: Vec<&str> = words.map(|(_, word)| word).collect();
        format!("{}{}", words.join(" "), &line[text.len()..])
    }

    /// Whether a line of the section is about a format that we use, or about none.
    pub(super) fn uses(&self, line: &str) -> bool {
        let Some(used) = &self.used else { return true };
        let Some(value) = FORMAT_ATTRIBUTES.iter().find_map(|name| line.strip_prefix(name)) else { return true };
        let word = value.split(' ').next().unwrap_or_default();
        word == "*" || payload_type(word).is_some_and(|payload_type| used.contains(&payload_type))
    }
}

/// The first value of an attribute for each payload type.
fn by_payload_type<'a>(section: &Section<'a>, name: &str) -> [Option<&'a str>; PAYLOAD_TYPES] {
    let mut values = [None; PAYLOAD_TYPES];
    for (word, value) in attribute(section.lines, name).filter_map(|value| value.split_once(' ')) {
        if let Some(payload_type) = payload_type(word) {
            values[usize::from(payload_type)].get_or_insert(value);
        }
    }
    values
}

fn payload_type(word: &str) -> Option<u8> {
    word.parse().ok().filter(|number| usize::from(*number) < PAYLOAD_TYPES)
}
