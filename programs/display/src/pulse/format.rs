//! Chooses the format of a stream. Older clients state one; newer ones may send a list of formats instead, in the order of their
//! preference, whose properties leave choices to the server: several values, a range, or nothing.
//!
//! Values of properties are JSON, as `PulseAudio`'s `format.h` defines them.

use std::ffi::{CStr, CString};

use nearlight_sound::SAMPLE_RATES;
use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::{ChannelMap, ChannelPosition, FormatEncoding, FormatInfo, Prop, SampleFormat, SampleSpec};
use serde_json::{Value, json};

use crate::pulse::channels::{default_map, map_of, name_of_map};

/// Maximum number of channels of a stream: the most that the protocol can express.
pub(crate) const MAX_CHANNELS: u8 = 32;

/// Names of the sample formats (`pa_sample_format_to_string`).
const SAMPLE_FORMATS: [(&str, SampleFormat); 13] = [
    ("u8", SampleFormat::U8),
    ("aLaw", SampleFormat::Alaw),
    ("uLaw", SampleFormat::Ulaw),
    ("s16le", SampleFormat::S16Le),
    ("s16be", SampleFormat::S16Be),
    ("float32le", SampleFormat::Float32Le),
    ("float32be", SampleFormat::Float32Be),
    ("s32le", SampleFormat::S32Le),
    ("s32be", SampleFormat::S32Be),
    ("s24le", SampleFormat::S24Le),
    ("s24be", SampleFormat::S24Be),
    ("s24-32le", SampleFormat::S24In32Le),
    ("s24-32be", SampleFormat::S24In32Be),
];

/// The format of a stream: its samples, and the positions of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamFormat {
    pub(crate) spec: SampleSpec,
    pub(crate) map: ChannelMap,
}

impl StreamFormat {
    /// Returns the format that a client states, or the first one of its list that the server supports. `None` if there is none.
    pub(crate) fn choose(spec: SampleSpec, map: ChannelMap, offers: &[FormatInfo]) -> Option<Self> {
        // A list takes precedence; clients that send one may leave the older fields empty.
        if offers.is_empty() { Self::new(spec, map) } else { offers.iter().find_map(Self::from_offer) }
    }

    /// Returns the format, with default positions if the map is not one of its channels; `None` for an unsupported format.
    pub(crate) fn new(spec: SampleSpec, map: ChannelMap) -> Option<Self> {
        let known = spec.format != SampleFormat::Invalid && (1..=MAX_CHANNELS).contains(&spec.channels);
        if !known || !SAMPLE_RATES.contains(&spec.sample_rate) {
            return None;
        }
        let map = if map.num_channels() == spec.channels { map } else { default_map(spec.channels) };
        Some(Self { spec, map })
    }

    /// Chooses the values that an offer leaves open. What it does not mention is as the server mixes: floats, two channels, 48 kHz.
    fn from_offer(offer: &FormatInfo) -> Option<Self> {
        if offer.encoding != FormatEncoding::Pcm {
            return None;
        }
        let format = match property(offer, Prop::FormatSampleFormat).ok()? {
            Some(value) => texts(&value).into_iter().find_map(sample_format)?,
            None => SampleFormat::Float32Le,
        };
        let map = match property(offer, Prop::FormatChannelMap).ok()? {
            Some(value) => Some(texts(&value).into_iter().find_map(map_of)?),
            None => None,
        };
        let channels = match property(offer, Prop::FormatChannels).ok()? {
            Some(value) => {
                let preferred = map.map_or(2, |map| map.num_channels());
                u8::try_from(number(&value, preferred.into(), 1..=MAX_CHANNELS.into())?).ok()?
            }
            None => map.map_or(2, |map| map.num_channels()),
        };
        let sample_rate = match property(offer, Prop::FormatRate).ok()? {
            Some(value) => number(&value, SOUND_RATE, SAMPLE_RATES)?,
            None => SOUND_RATE,
        };
        Self::new(SampleSpec { format, channels, sample_rate }, map.unwrap_or_else(|| default_map(channels)))
    }

    /// Describes the format as an element of a list of formats, with one value for each property.
    pub(crate) fn info(&self) -> FormatInfo {
        let mut info = FormatInfo::new(FormatEncoding::Pcm);
        let name = SAMPLE_FORMATS.iter().find(|(_, format)| *format == self.spec.format).map_or("", |(name, _)| name);
        for (property, value) in [
            (Prop::FormatSampleFormat, json!(name)),
            (Prop::FormatRate, json!(self.spec.sample_rate)),
            (Prop::FormatChannels, json!(self.spec.channels)),
            (Prop::FormatChannelMap, json!(name_of_map(&self.map))),
        ] {
            // None of these values contains a zero.
            info.props.set(property, CString::new(value.to_string()).unwrap_or_default());
        }
        info
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = ChannelPosition> {
        self.map.into_iter()
    }

    pub(crate) fn frame_bytes(&self) -> usize {
        self.spec.format.bytes_per_sample() * usize::from(self.spec.channels)
    }
}

/// Returns a property's value, if there is one.
///
/// # Errors
/// If it is not JSON.
fn property(offer: &FormatInfo, name: Prop) -> Result<Option<Value>, serde_json::Error> {
    let Some(bytes) = offer.props.get(name) else { return Ok(None) };
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    serde_json::from_slice(text).map(Some)
}

/// Returns the strings of a property that is a string or an array of strings.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Chooses a number within `limits` from a property that is a number, an array of numbers or a range: the preferred one if possible,
/// otherwise the closest one.
fn number(value: &Value, preferred: u32, limits: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let one = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    match value {
        Value::Array(values) => values
            .iter()
            .filter_map(one)
            .filter(|number| limits.contains(number))
            .min_by_key(|number| number.abs_diff(preferred)),
        Value::Object(range) => {
            let min = range.get("min").and_then(one)?.max(*limits.start());
            let max = range.get("max").and_then(one)?.min(*limits.end());
            (min <= max).then(|| preferred.clamp(min, max))
        }
        value => one(value).filter(|number| limits.contains(number)),
    }
}

/// Finds a sample format by its name, in any case; `ne` and `re` stand for this machine's byte order and the reverse one.
fn sample_format(name: &str) -> Option<SampleFormat> {
    let (native, reverse) = if cfg!(target_endian = "little") { ("le", "be") } else { ("be", "le") };
    let name = name.to_ascii_lowercase();
    let full = match (name.strip_suffix("ne"), name.strip_suffix("re")) {
        (Some(stem), _) => format!("{stem}{native}"),
        (_, Some(stem)) => format!("{stem}{reverse}"),
        _ if name == "mulaw" => "ulaw".into(),
        _ => name,
    };
    SAMPLE_FORMATS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&full)).map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(properties: &[(Prop, &str)]) -> FormatInfo {
        let mut info = FormatInfo::new(FormatEncoding::Pcm);
        for (property, value) in properties {
            info.props.set(*property, CString::new(*value).expect("no zero"));
        }
        info
    }

    fn chosen(offers: &[FormatInfo]) -> Option<(SampleFormat, u8, u32)> {
        let empty = SampleSpec { format: SampleFormat::Invalid, channels: 0, sample_rate: 0 };
        let format = StreamFormat::choose(empty, ChannelMap::empty(), offers)?;
        assert_eq!(format.map.num_channels(), format.spec.channels);
        Some((format.spec.format, format.spec.channels, format.spec.sample_rate))
    }

    #[test]
    fn the_first_supported_format_of_a_list_is_chosen() {
        let spdif = FormatInfo::new(FormatEncoding::Ac3Iec61937);
        let exact = offer(&[
            (Prop::FormatSampleFormat, r#""s16le""#),
            (Prop::FormatRate, "44100"),
            (Prop::FormatChannels, "2"),
            (Prop::FormatChannelMap, r#""front-left,front-right""#),
        ]);
        assert_eq!(chosen(&[spdif.clone(), exact.clone()]), Some((SampleFormat::S16Le, 2, 44_100)));
        assert_eq!(chosen(&[spdif]), None, "compressed sound is not decoded");
        let fast = offer(&[(Prop::FormatRate, "384000")]);
        assert_eq!(chosen(&[fast, exact]), Some((SampleFormat::S16Le, 2, 44_100)));
    }

    #[test]
    fn what_a_format_leaves_open_is_chosen_close_to_what_is_mixed() {
        assert_eq!(chosen(&[offer(&[])]), Some((SampleFormat::Float32Le, 2, 48_000)));
        for (rate, expected) in [
            (r#"{"min":8000,"max":96000}"#, Some(48_000)),
            (r#"{"min":1,"max":44100}"#, Some(44_100)),
            ("[22050, 44100, 96000]", Some(44_100)),
            (r#"{"min":200000,"max":400000}"#, None),
            (r#""fast""#, None),
            ("-1", None),
            ("{", None),
        ] {
            let found = chosen(&[offer(&[(Prop::FormatRate, rate)])]);
            assert_eq!(found.map(|(_, _, rate)| rate), expected, "{rate}");
        }
        let several = offer(&[(Prop::FormatSampleFormat, r#"["s12", "S24NE", "u8"]"#), (Prop::FormatChannels, "6")]);
        assert_eq!(chosen(&[several]), Some((SampleFormat::S24Le, 6, 48_000)));
        let mapped = offer(&[(Prop::FormatChannelMap, r#""surround-51""#)]);
        assert_eq!(chosen(&[mapped]), Some((SampleFormat::Float32Le, 6, 48_000)));
    }

    #[test]
    fn the_reply_describes_the_choice_in_the_terms_of_the_offer() {
        for (_, format) in SAMPLE_FORMATS {
            for channels in [1, 2, 6, 8, 32] {
                let spec = SampleSpec { format, channels, sample_rate: 44_100 };
                let chosen = StreamFormat::new(spec, ChannelMap::empty()).expect("a format");
                assert_eq!(StreamFormat::from_offer(&chosen.info()), Some(chosen), "{spec:?}");
            }
        }
    }

    #[test]
    fn a_stated_format_is_taken_as_it_is_or_refused() {
        let good = SampleSpec { format: SampleFormat::Ulaw, channels: 1, sample_rate: 8_000 };
        let format = StreamFormat::choose(good, ChannelMap::mono(), &[]).expect("a format");
        assert_eq!((format.spec, format.map), (good, ChannelMap::mono()));
        for wrong in [
            SampleSpec { format: SampleFormat::Invalid, ..good },
            SampleSpec { channels: 0, ..good },
            SampleSpec { channels: 33, ..good },
            SampleSpec { sample_rate: 1, ..good },
        ] {
            assert_eq!(StreamFormat::choose(wrong, ChannelMap::mono(), &[]), None, "{wrong:?}");
        }
    }
}
