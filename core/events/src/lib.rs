//! One schema for events, the same in server, native client, browser and lab, with its writers and its reader.

#![forbid(unsafe_code)]

mod csv;
mod event;
mod file;
mod recovery;
mod stalls;
mod summary;
mod timeline;
mod trace;
#[cfg(test)]
mod typescript;

pub use csv::CsvWriter;
pub use event::{Candidate, Event, Origin, ProtectionCandidate, Record, UnknownLine, read_lines, write_line};
pub use file::create_private_file;
pub use recovery::{Recovery, RecoveryCounts, RecoveryKind};
pub use stalls::{STALL, StallCounts, Stalls};
pub use summary::{
    Distribution, FrameCounts, LossCounts, Rates, ReportedRates, Samples, SoundCounts, SoundSummary, StageMedian,
    Summary, SummaryBuilder, SummaryRest, SummaryStream,
};
pub use timeline::{STAGES, Stage, Timeline};
pub use trace::TraceWriter;
