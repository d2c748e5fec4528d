//! Errors of a cell's or its traffic's configuration.

use nearlight_units::{Bytes, Span};
use thiserror::Error;

use crate::config::{Category, Direction};
use crate::phy::{Mcs, Mode, Tones};

/// An invalid configuration; always an error of the caller.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    #[error("`{0}` is not a preset of a cell: use komondor-vr or standard-11ax")]
    Preset(String),
    #[error(
        "`{word}` is not a setting of a cell: write optionally a preset, then any of {words}, each with a colon and its value"
    )]
    Word { word: String, words: String },
    #[error("`{word}:{value}` cannot be used; write {form}")]
    Value { word: &'static str, value: String, form: &'static str },
    #[error("`{0}` is not an access category: use voice, video, best-effort or background")]
    Category(String),
    #[error("a channel is 20, 40, 80 or 160 MHz wide, not {0}")]
    Width(u16),
    #[error("a guard interval is 800, 1600 or 3200 ns long, not {0}")]
    Guard(u16),
    #[error("MCS {0} does not exist in 802.11ax: use 0 to 11")]
    Mcs(u8),
    #[error("MCS {mcs} needs 242 subcarriers or more, and this resource unit has {}: use MCS 9 or lower, or fewer stations at once", tones.subcarriers())]
    McsOnTones { mcs: Mcs, tones: Tones },
    #[error("{0} spatial streams are not supported: a cell has 1 to {most}", most = Mode::MAX_STREAMS)]
    Streams(u8),
    #[error("a cell needs at least one station")]
    NoStations,
    #[error("too many stations: a cell has at most {most}", most = crate::config::MAX_STATIONS)]
    TooManyStations,
    #[error("station {station} does not exist: the cell has {stations}, counted from 0")]
    NoSuchStation { station: usize, stations: usize },
    #[error(
        "station {station}, {direction:?}, category {category:?} is already a hop of another path: packets of one queue belong to one path"
    )]
    PortTaken { station: usize, direction: Direction, category: Category },
    #[error("{what} must be a share from 0 to {most}, not {value}")]
    Share { what: &'static str, value: f64, most: f64 },
    #[error("{what} is {value}; it must be from {least} to {most}")]
    Range { what: &'static str, value: u64, least: u64, most: u64 },
    #[error("{what} lasts {value}; it must be from {least} to {most}")]
    Length { what: &'static str, value: Span, least: Span, most: Span },
    #[error("{what} is {value} dB; it must be from {least} to {most}")]
    Decibel { what: &'static str, value: f64, least: f64, most: f64 },
    #[error(
        "a packet of {size} bytes exceeds the maximum duration of a transmission at MCS {mcs}: the limit is {longest} bytes",
        size = size.get(), longest = longest.get()
    )]
    PacketTooLong { size: Bytes, longest: Bytes, mcs: Mcs },
}
