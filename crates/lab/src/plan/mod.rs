//! Plans: an experiment in a TOML file, and the cells that it spans.
//!
//! A cell is one case over one path with one controller and one value of each sweep; it is run once for each seed. Everything that a
//! run needs is in its cell, so that other drivers can run the same plan.

mod expand;
mod file;
mod model;
mod phases;
mod published;
mod setting;
mod sweep;
mod system;
mod text;
mod traces;
mod traffic;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearlight_codec::{CodecKind, Size};
use nearlight_dash::Content as Stream;
use nearlight_flows::Direction;
use nearlight_flows::law::LawSpec;
use nearlight_link::{Ecn, LoadedPath};
use nearlight_pace::Mode;
use nearlight_rate::Bounds;
use nearlight_session::{Captures, DisplayOrder};
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::Scenario;
use nearlight_wire::RecoveryPolicy;
use serde::Deserialize;
use thiserror::Error;

pub use self::model::ModelOptions;
pub use self::phases::Phases;
pub use self::published::{Published, PublishedFigure, published_figure};

/// The redundancy policy of those who want none.
pub(crate) const NO_FEC: &str = "none";

/// Why a plan cannot be run.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("cannot read the plan `{}`: {source}; give the path of a TOML file, such as plans/vrcc-stable.toml", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("the plan `{}` cannot be used:\n{reason}docs/lab.md lists what a plan may hold", file.display())]
    Syntax { file: PathBuf, reason: String },
    #[error("the traces in `{}` cannot be used: {reason}; give a folder of traces in either format that docs/link.md has", folder.display())]
    Traces { folder: PathBuf, reason: String },
    #[error("the plan `{}`, line {line}: {what}", file.display())]
    Value { file: PathBuf, line: usize, what: String },
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file's name without its ending.
    pub name: String,
    pub question: String,
    pub notes: String,
    pub seeds: u32,
    pub cells: Vec<Cell>,
    pub published: Vec<Published>,
    /// Of what the file means for runs, and of the traces that it names.
    pub digest: u64,
}

/// Headsets of the render-streaming study in a Wi-Fi cell.
#[derive(Clone, Debug)]
pub struct TrafficModel {
    /// As it is written.
    pub cell: String,
    /// Its seed is the run's.
    pub scenario: Scenario,
}

impl Cell {
    /// The simulated time of one of its runs.
    #[must_use]
    pub fn length(&self) -> Span {
        self.setting.duration * self.traffic.as_ref().map_or(1, |traffic| i64::from(traffic.scenario.runs))
    }
}

/// One point of an experiment, to be run once for each seed.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Case, path, controller and each sweep's value.
    pub labels: BTreeMap<String, String>,
    pub setting: Arc<Setting>,
    /// The default for media that name none of their own.
    pub controller: String,
    pub system: System,
    /// What all flows share, in order.
    pub segments: Vec<Segment>,
    pub media: Vec<MediaSession>,
    pub flows: Vec<Flow>,
    /// In place of all these, the traffic model in a Wi-Fi cell.
    pub traffic: Option<Box<TrafficModel>>,
}

/// What all cells of a case have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub about: String,
    pub duration: Span,
    /// Excluded from all figures.
    pub warm_up: Span,
    /// Between two samples of a time series.
    pub sample: Span,
    pub pacing: Mode,
    /// A redundancy policy of `nearlight_fec`.
    pub fec: String,
    /// The relative phases of several sessions' frames.
    pub phases: Phases,
    /// The largest datagram, without the headers below.
    pub datagram: usize,
    /// IP, UDP and whatever else a path carries with each datagram.
    pub headers: Bytes,
    /// The ECN marking of media, for queues that mark instead of dropping.
    pub ecn: Ecn,
    pub transport: Transport,
    /// From one report of arrivals to the next; the transport's own way if None.
    pub feedback_every: Option<Span>,
    pub source: Source,
    pub client: Client,
    /// Presets that keep the rates of what they reproduce.
    pub own_rates: Vec<String>,
}

/// What carries a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Our own datagrams, without QUIC's headers.
    #[default]
    WebTransport,
    /// RTP and data channels, as with a browser.
    WebRtc,
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub fps: u16,
    pub bounds: Bounds,
    /// From capture to picture, and from picture to bits.
    pub render: Span,
    pub encode: Span,
    pub encoder: Encoder,
}

/// The encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoder {
    /// Frame sizes without pictures.
    Model(ModelOptions),
    /// A codec that really runs, on a moving picture.
    Codec { kind: CodecKind, size: Size, content: Content },
}

/// What is filmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// The moving picture that codecs are tested with.
    #[default]
    Sample,
    /// Pictures like those of a first-person game.
    Game,
}

/// How losses are recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Recovery {
    /// One of the product's.
    Policy(RecoveryPolicy),
    /// No requests: a frame still incomplete when a newer one is complete is skipped, and its followers are decoded without it.
    None,
    /// Groups of pictures travel as one, and are shown when a group is complete or the next one arrives; no requests are sent.
    Group,
}

impl Recovery {
    pub const RETRANSMISSION: Self = Self::Policy(RecoveryPolicy::Retransmission);
    pub const REFERENCE: Self = Self::Policy(RecoveryPolicy::Reference);

    /// Frames are decoded although something is missing that they were predicted from, as far as the session tells of it.
    #[must_use]
    pub const fn shows_damage(self) -> bool {
        matches!(self, Self::Policy(RecoveryPolicy::OpenUvr { .. }))
    }
}

/// As in plans and labels.
impl fmt::Display for Recovery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(formatter),
            Self::None => formatter.write_str("none"),
            Self::Group => formatter.write_str("group"),
        }
    }
}

/// A name that no recovery of plans has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; in plans also none and group")]
pub struct UnknownRecovery(#[from] nearlight_wire::UnknownRecovery);

impl TryFrom<String> for Recovery {
    type Error = UnknownRecovery;

    fn try_from(name: String) -> Result<Self, UnknownRecovery> {
        match name.as_str() {
            "none" => Ok(Self::None),
            "group" => Ok(Self::Group),
            policy => Ok(Self::Policy(policy.parse()?)),
        }
    }
}

/// What belongs to a rate controller to make a whole system of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// A redundancy policy's name.
    pub fec: String,
    pub recovery: Recovery,
    /// Frames from one key frame to the next; 0 without scheduled ones.
    pub group: u32,
    pub captures: Captures,
    /// Frames travel over TCP with this law, coded at the highest rate, regardless of what arrives.
    pub reliable: Option<LawSpec>,
}

/// Where frames are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub refresh: u16,
    pub order: DisplayOrder,
    /// The decoder takes so long for a frame, one after the other.
    pub decode: Span,
    pub recovery: Recovery,
    /// From capture to display; what takes longer is late.
    pub deadline: Span,
    /// Frames that are held before they are decoded and shown; 0: they are shown as they come.
    pub playback_buffer: u8,
}

/// A link that several flows may share.
#[derive(Clone, Debug)]
pub struct Segment {
    pub name: String,
    pub forward: LoadedPath,
    pub feedback: LoadedPath,
}

/// Which way a flow's data takes, and what of it is its own.
#[derive(Clone, Debug)]
pub struct Route {
    pub direction: Direction,
    /// Indices of segments, in their order.
    pub through: Vec<usize>,
    pub access: Option<LoadedPath>,
    pub access_feedback: Option<LoadedPath>,
}

/// A media session.
#[derive(Clone, Debug)]
pub struct MediaSession {
    pub name: String,
    pub start: Span,
    pub stop: Span,
    pub priority: f64,
    /// From, to.
    pub pauses: Vec<(Span, Span)>,
    pub controller: Option<String>,
    pub route: Route,
}

/// Competing traffic.
#[derive(Clone, Debug)]
pub struct Flow {
    pub kind: Kind,
    pub start: Span,
    pub stop: Span,
    pub route: Route,
}

/// What kind of traffic competes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Tcp {
        law: LawSpec,
    },
    Short {
        law: LawSpec,
        connections: u16,
        begin_busy: u16,
    },
    Cbr {
        rate: Bitrate,
        packet: Bytes,
        on: Span,
        off: Span,
    },
    /// A player that adapts its bit rate, over TCP.
    Dash {
        law: LawSpec,
        content: Stream,
    },
}

impl Plan {
    /// Reads a plan and the traces that it names.
    pub fn read(file: &Path) -> Result<Self, PlanError> {
        let text = std::fs::read_to_string(file).map_err(|source| PlanError::Read { file: file.to_owned(), source })?;
        Self::parse(file, &text)
    }

    /// The plan in `text`; `file` is for its name and for errors.
    pub fn parse(file: &Path, text: &str) -> Result<Self, PlanError> {
        expand::plan(file, text)
    }
}
