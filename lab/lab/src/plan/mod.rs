//! Plans: an experiment in a TOML file, and the cells that it spans.
//!
//! A cell is one case over one path with one controller and one value of each sweep; it is run once for each seed. Everything that a
//! run needs is in its cell, so that other drivers can run the same plan.

mod expand;
mod file;
mod model;
pub(crate) mod oracle;
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

use crate::dash::Content as Stream;
use nearlight_codec::{CodecKind, Size};
use nearlight_flows::Direction;
use nearlight_flows::law::LawSpec;
use nearlight_link::{Ecn, LoadedPath};
use nearlight_rate::Bounds;
use nearlight_session::pace::Mode;
use nearlight_session::{CaptureAlignment, DisplayOrder};
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::Scenario;
use nearlight_wire::RecoveryPolicy;
use serde::Deserialize;
use thiserror::Error;

pub use self::model::ModelOptions;
pub use self::phases::Phases;
pub use self::published::{Published, PublishedFigure, published_figure};

/// Name of the redundancy policy that sends no repairs.
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
    /// Digest of everything that affects the runs, including the contents of trace files.
    pub digest: u64,
}

/// The traffic model of the render-streaming study: headsets in a Wi-Fi cell.
#[derive(Clone, Debug)]
pub struct TrafficModel {
    /// The cell in the notation of `wifi=`.
    pub cell: String,
    /// The scenario; each run sets its seed.
    pub scenario: Scenario,
}

impl Cell {
    /// Returns the simulated time of one of its runs.
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
    /// The shared links of all flows, in order.
    pub segments: Vec<Segment>,
    pub media: Vec<MediaSession>,
    pub flows: Vec<Flow>,
    /// The traffic model in a Wi-Fi cell, which replaces sessions and flows.
    pub traffic: Option<Box<TrafficModel>>,
}

/// The settings that all cells of a case share.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub about: String,
    pub duration: Span,
    /// Excluded from all figures.
    pub warm_up: Span,
    /// Sampling interval of time series.
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
    /// Interval of transport feedback. None for the transport's own.
    pub feedback_every: Option<Span>,
    pub source: Source,
    pub client: Client,
    /// Controller presets that keep their own rate bounds instead of the plan's.
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
    /// Rendering time from capture to picture, and encoding time from picture to bits.
    pub render: Span,
    pub encode: Span,
    pub encoder: Encoder,
}

/// The encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoder {
    /// Frame sizes without pictures.
    Model(ModelOptions),
    /// A real codec that encodes moving pictures.
    Codec { kind: CodecKind, size: Size, content: Content },
}

/// The content of the pictures.
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
    /// A policy of the product.
    Policy(RecoveryPolicy),
    /// No requests: a frame still incomplete when a newer one is complete is skipped, and its followers are decoded without it.
    None,
    /// Groups of pictures travel as one, and are shown when a group is complete or the next one arrives; no requests are sent.
    Group,
}

impl Recovery {
    pub const RETRANSMISSION: Self = Self::Policy(RecoveryPolicy::Retransmission);
    pub const REFERENCE: Self = Self::Policy(RecoveryPolicy::Reference);

    /// Returns whether frames are decoded although a reference is missing, as far as the session reports it.
    #[must_use]
    pub const fn shows_damage(self) -> bool {
        matches!(self, Self::Policy(RecoveryPolicy::OpenUvr { .. }))
    }
}

/// The name in plans and labels.
impl fmt::Display for Recovery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(formatter),
            Self::None => formatter.write_str("none"),
            Self::Group => formatter.write_str("group"),
        }
    }
}

/// The name is not a recovery policy of plans.
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

/// A rate controller's companions: together they form a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// A redundancy policy's name.
    pub fec: String,
    pub recovery: Recovery,
    /// Frames from one key frame to the next; 0 without scheduled ones.
    pub group: u32,
    pub captures: CaptureAlignment,
    /// Frames travel over TCP with this law, coded at the highest rate, regardless of what arrives.
    pub reliable: Option<LawSpec>,
}

/// Where frames are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub refresh: u16,
    pub order: DisplayOrder,
    /// Decoding time of a frame; frames are decoded one after the other.
    pub decode: Span,
    pub recovery: Recovery,
    /// Longest time from capture to display; later frames count as late.
    pub deadline: Span,
    /// Frames that are buffered before decoding; 0 displays them as they arrive.
    pub playback_buffer: u8,
}

/// A link that several flows may share.
#[derive(Clone, Debug)]
pub struct Segment {
    pub name: String,
    pub forward: LoadedPath,
    pub feedback: LoadedPath,
}

/// The direction of a flow, the shared links on its path, and its own hops.
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
    /// Start and end of each pause.
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

/// The kind of competing traffic.
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

    /// Parses a plan; `file` is used for its name and in errors.
    ///
    /// # Errors
    ///
    /// The text is not a valid plan.
    pub fn parse(file: &Path, text: &str) -> Result<Self, PlanError> {
        expand::plan(file, text)
    }
}
