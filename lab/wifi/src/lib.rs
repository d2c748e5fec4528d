//! An 802.11ax cell in virtual time.

#![forbid(unsafe_code)]

mod access;
mod cell;
mod config;
mod distribution;
mod error;
mod exchange;
mod minstrel;
mod multi_user;
mod ofdma;
mod phy;
mod queue;
mod radio;
mod random;
mod record;
mod report;
mod scenario;
mod service;
mod shared;
mod spec;
mod tally;
mod timers;
mod timing;
pub mod traffic;
mod triggered;

pub use cell::{Cell, CellExit, Lane};
pub use config::{
    AccessRule, Adaptation, Background, Category, CellConfig, Channel, DeliveredAt, Direction, Edca, Fading,
    MAX_STATIONS, Neighbour, Preset, Scan, Service, StationConfig,
};
pub use distribution::{DelaySummary, Distribution};
pub use error::ConfigError;
pub use ofdma::{
    Candidate, DeadlineFirst, LeastServed, MultiUser, RoundRobin, Scheduler, SchedulerKind, TriggerTiming,
    UplinkTrigger,
};
pub use phy::{Guard, Mcs, Mode, Tones, Width};
pub use record::CellRecord;
pub use report::{Aggregates, DelayCurves, LinkReport, Report, SinglePacket, StationReport};
pub use scenario::{Phases, Scenario};
pub use shared::{Cells, Port, SharedCell, Users, load_path};
pub use spec::{CellSpec, words};
pub use tally::{CellTally, Exchange, Kind, Tally};
pub use timing::{Preamble, Timing};
