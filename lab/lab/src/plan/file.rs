//! The layout of a plan file. docs/lab.md documents every field.

use std::collections::BTreeMap;

use nearlight_codec::CodecKind;
use nearlight_session::CaptureAlignment;
use nearlight_wire::UnknownCodec;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use toml::Spanned;

use super::phases::Phases;
use super::published::PublishedFigure;
use super::values::{Length, Rate, Size};
use super::{Recovery, Transport};

/// A table of optional settings; a case's own win over those of `[all]`.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* } $(nested { $($part:ident: $part_type:ty,)* })?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $field: Option<$type>,)*
            $($(#[serde(default)] pub(super) $part: $part_type,)*)?
        }

        impl $name {
            /// Fills settings that are missing with those of `others`.
            pub(super) fn or(self, others: &Self) -> Self {
                Self {
                    $($field: self.$field.or_else(|| others.$field.clone()),)*
                    $($($part: self.$part.or(&others.$part),)*)?
                }
            }
        }
    };
}

/// A plan file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    pub(super) question: String,
    #[serde(default)]
    pub(super) notes: String,
    pub(super) seeds: Option<Spanned<u32>>,
    pub(super) all: Option<Spanned<Body>>,
    #[serde(default, rename = "case")]
    pub(super) cases: Vec<Spanned<Body>>,
    #[serde(default)]
    pub(super) published: Vec<PublishedPart>,
}

settings! {
    /// The contents of a case.
    Body {
        name: Spanned<String>,
        about: String,
        duration: Spanned<Length>,
        warm_up: Spanned<Length>,
        sample: Spanned<Length>,
        controllers: Spanned<Controllers>,
        oracle: bool,
        own_rates: Spanned<Vec<String>>,
        pacing: Spanned<String>,
        fec: Spanned<String>,
        phases: Phases,
        labels: BTreeMap<String, String>,
        datagram: Spanned<u16>,
        headers: u16,
        ecn: Spanned<String>,
        transport: Transport,
        feedback_every: Spanned<Length>,
        path: Vec<Spanned<PathPart>>,
        media: Spanned<Vec<Spanned<MediaPart>>>,
        flow: Spanned<Vec<Spanned<FlowPart>>>,
        sweep: Vec<SweepPart>,
        system: Spanned<Vec<Spanned<SystemPart>>>,
    }
    nested { source: SourcePart, client: ClientPart, wifi: TrafficPart, }
}

settings! {
    /// Where frames come from.
    SourcePart {
        fps: Spanned<u16>,
        minimum: Spanned<Rate>,
        start: Spanned<Rate>,
        maximum: Spanned<Rate>,
        encoder: EncoderKind,
        size: Spanned<String>,
        content: ContentKind,
        render: Length,
        encode: Length,
        key_ratio: Spanned<f64>,
        deviation: Spanned<f64>,
        correlation: Spanned<f64>,
        reaction_frames: Spanned<f64>,
        scene_every: Spanned<Length>,
        scene_ratio: Spanned<f64>,
        limited_every: Spanned<Length>,
        limited_for: Spanned<Length>,
        limited_share: Spanned<f64>,
    }
}

settings! {
    /// The traffic model in a Wi-Fi cell, in place of paths and sessions.
    TrafficPart {
        cell: Spanned<String>,
        headsets: Spanned<u16>,
        rate: Spanned<Rate>,
        fps: Spanned<u32>,
        tau: Spanned<Length>,
        batches: Spanned<u32>,
        poses: Spanned<u32>,
        audio: bool,
        video_as: Spanned<String>,
        poses_as: Spanned<String>,
        runs: Spanned<u32>,
    }
}

settings! {
    /// Where frames are displayed.
    ClientPart {
        vsync_hz: Spanned<u16>,
        display: Spanned<String>,
        decode: Length,
        recovery: Recovery,
        deadline: Spanned<Length>,
        playback_buffer: Spanned<u8>,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum EncoderKind {
    Model,
    Codec(CodecKind),
}

impl TryFrom<String> for EncoderKind {
    type Error = UnknownCodec;

    fn try_from(name: String) -> Result<Self, UnknownCodec> {
        if name == "model" { Ok(Self::Model) } else { name.parse().map(Self::Codec) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ContentKind {
    Sample,
    Game,
}

/// A controller with its redundancy and recovery.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SystemPart {
    pub(super) controller: String,
    pub(super) fec: Option<String>,
    pub(super) recovery: Option<Recovery>,
    pub(super) key_every: Option<u32>,
    pub(super) captures: Option<CaptureAlignment>,
}

/// `"all"`, or a list of presets.
#[derive(Clone, Debug)]
pub(super) enum Controllers {
    All,
    Named(Vec<Spanned<String>>),
    /// A single name instead of a list.
    One(String),
}

impl<'de> Deserialize<'de> for Controllers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Controllers;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("\"all\", or a list of rate controllers such as [\"gcc-libwebrtc\", \"scream-v2\"]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Controllers, E> {
                match text {
                    "all" => Ok(Controllers::All),
                    other => Ok(Controllers::One(other.to_owned())),
                }
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Controllers, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                    if names.len() > 256 {
                        while list.next_element::<IgnoredAny>()?.is_some() {}
                        return Err(A::Error::custom("at most 256 controllers"));
                    }
                }
                Ok(Controllers::Named(names))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A path: one pair of directions, or segments one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathPart {
    pub(super) name: Spanned<String>,
    pub(super) forward: Option<Spanned<toml::Value>>,
    pub(super) feedback: Option<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) segment: Vec<SegmentPart>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegmentPart {
    pub(super) name: Spanned<String>,
    pub(super) forward: Option<Spanned<toml::Value>>,
    pub(super) feedback: Option<Spanned<toml::Value>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DirectionKind {
    #[default]
    Forward,
    Back,
}

/// A media session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaPart {
    pub(super) name: Option<Spanned<String>>,
    pub(super) count: Option<u16>,
    pub(super) start: Option<Length>,
    pub(super) stop: Option<Length>,
    #[serde(default)]
    pub(super) direction: DirectionKind,
    pub(super) priority: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) pauses: Vec<(Length, Length)>,
    pub(super) controller: Option<Spanned<String>>,
    pub(super) access: Option<Spanned<toml::Value>>,
    pub(super) access_feedback: Option<Spanned<toml::Value>>,
    pub(super) through: Option<Spanned<Vec<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FlowKind {
    Tcp,
    Short,
    Cbr,
    Dash,
}

/// Competing traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowPart {
    pub(super) kind: FlowKind,
    pub(super) start: Option<Length>,
    pub(super) stop: Option<Length>,
    #[serde(default)]
    pub(super) direction: DirectionKind,
    pub(super) law: Option<Spanned<String>>,
    pub(super) rate: Option<Rate>,
    pub(super) packet: Option<Size>,
    pub(super) on: Option<Length>,
    pub(super) off: Option<Length>,
    pub(super) connections: Option<u16>,
    pub(super) begin_busy: Option<u16>,
    pub(super) ladder: Option<Spanned<Vec<Rate>>>,
    pub(super) segment: Option<Length>,
    pub(super) length: Option<Length>,
    pub(super) access: Option<Spanned<toml::Value>>,
    pub(super) access_feedback: Option<Spanned<toml::Value>>,
    pub(super) through: Option<Spanned<Vec<String>>>,
}

/// Values that replace a placeholder in the plan's text, one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepPart {
    pub(super) name: Spanned<String>,
    pub(super) values: Spanned<Vec<Spanned<String>>>,
}

/// Published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedPart {
    pub(super) source: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, PublishedFigure>,
}
