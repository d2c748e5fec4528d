//! The written form of paths: one line, or a list of tables, with the same keys.
//!
//! One line holds comma-separated `key=value` pairs. Packets traverse hops in the order in which they are written; the keys that
//! describe a bottleneck belong to the nearest `rate`, `trace` or `model` before them, or else to the first one.
//!
//! ```
//! use nearlight_link::PathSpec;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec: PathSpec = "rate=10mbit,queue=100ms,delay=10ms,loss=1%/25%".parse()?;
//! let path = spec.build(7)?;
//! assert_eq!(spec.to_string(), "rate=10mbit,queue=100ms,delay=10ms,loss=1%/25%");
//! # Ok(())
//! # }
//! ```
//!
//! In TOML a path is such a line, or a list with one table for each hop:
//!
//! ```toml
//! path = [{ rate = ["35mbit", "10mbit@40s"], queue = "50ms", aqm = "codel" }, { delay = "10ms" }]
//! ```

mod build;
mod read;
mod table;
mod values;
mod write;

use std::path::PathBuf;

use nearlight_units::{Bitrate, Bytes, Span};
use thiserror::Error;

pub use build::{LoadError, LoadedPath};

use crate::bottleneck::Service;
use crate::capacity::{FineStructure, Rates};
use crate::jitter::JitterModel;
use crate::loss::GilbertElliott;
use crate::outage::{OutageKind, Window};
use crate::queue::QueueConfig;
use crate::random::Probability;
use crate::scenes::Scene;

/// The written form of a path; [`PathSpec::build`] creates the path. Without hops it changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSpec {
    pub hops: Vec<HopSpec>,
}

/// The written form of a hop.
#[derive(Clone, Debug, PartialEq)]
pub enum HopSpec {
    Bottleneck(BottleneckSpec),
    Police {
        rate: Bitrate,
        burst: Bytes,
    },
    Delay(Span),
    Jitter {
        model: JitterModel,
        line: Option<Bitrate>,
    },
    Loss(LossSpec),
    Reorder {
        chance: Probability,
        by: Span,
    },
    Duplicate(Probability),
    Outage {
        kind: OutageKind,
        windows: Vec<Window>,
    },
    /// A Wi-Fi cell, which other paths may share; the code that builds the path interprets the cell's settings.
    Cell(String),
}

/// The written form of a loss model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossSpec {
    Independent(Probability),
    /// Netem's notation, read as [`GilbertElliott::correlated`].
    Correlated {
        share: Probability,
        correlation: Probability,
    },
    Gilbert(GilbertElliott),
}

/// The written form of a bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct BottleneckSpec {
    pub source: Source,
    pub service: Service,
    pub queue: QueueConfig,
    pub fine: FineStructure,
    /// The factor applied to the source's rates, from 0.01 to 1000.
    pub scale: f64,
    /// Start offset of a trace in its file; if None, the code that builds the path chooses it.
    pub offset: Option<Span>,
}

/// The source of a bottleneck's capacity.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Rates(Rates),
    /// A trace of either format.
    File(PathBuf),
    Model {
        model: Model,
        /// If None, the model's own mean.
        mean: Option<Bitrate>,
    },
    /// A rate redrawn periodically, uniformly between the two: `drawn`.
    Drawn {
        lowest: Bitrate,
        highest: Bitrate,
        every: Span,
    },
    /// A rate that wanders with this mean and deviation: `log-normal`.
    LogNormal {
        mean: Bitrate,
        deviation: Bitrate,
        memory: Span,
    },
}

/// A generator of traces (see [`generate`](crate::generate)); the path's seed also seeds the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    FiveG,
    WiFi,
    Scene(Scene),
}

/// An invalid path specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    #[error("`{key}` is not part of a path; allowed are {}", read::names())]
    UnknownKey { key: String },
    #[error("`{key}={value}` cannot be used; write {form}")]
    BadValue { key: &'static str, value: String, form: &'static str },
    #[error("`{text}` is not a pair key=value; a path looks like rate=10mbit,delay=10ms,loss=1%,queue=100ms")]
    NotAPair { text: String },
    #[error("`{key}` describes a bottleneck, but the path has none; add rate=, trace= or model=")]
    NoBottleneck { key: &'static str },
    #[error("`{key}` is given twice for the same bottleneck; keep one of them")]
    Twice { key: &'static str },
    #[error("`bucket` selects how tokens are spent, but there is no token bucket; add burst=, such as burst=3kb")]
    BucketWithoutBurst,
    #[error(
        "`offset` is the start position within a trace file, but `{capacity}` is not a trace; leave `offset` out, or write trace=FILE"
    )]
    OffsetWithoutTrace { capacity: String },
    #[error(
        "`burst` and `fine` cannot be combined: slots have their own rule for admitting packets; leave one of them out"
    )]
    BurstWithSlots,
    #[error(
        "a table describes one hop, and this one has `{first}` and `{second}`; write a list of tables, one for each hop"
    )]
    SeveralHops { first: &'static str, second: &'static str },
    #[error("a path has at most 64 hops")]
    TooManyHops,
}
