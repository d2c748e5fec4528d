//! The lab: experiments as plans, run in virtual time with the same state machines that serve and view live.
//!
//! A plan spans cells, a cell runs once for each seed, and runs become figures. The same plan, commit and seeds give the same bytes.

#![forbid(unsafe_code)]

pub mod dash;
mod digest;
pub mod distortion;
mod encoder;
mod histogram;
pub mod live;
pub mod oracle;
pub mod plan;
mod record;
pub mod report;
mod runner;
mod summary;
mod utility;
mod world;

pub use encoder::{
    Capture, CodedFrame, FrameEncoder, Model, PictureEncoder, PictureSource, Quality, QualityMeter, game, resize,
};
pub use histogram::Histogram;
pub use plan::{Cell, Content, ModelOptions, Plan, PlanError};
pub use record::{
    FrameLossCounts, LinkRecord, MediaRecord, RivalRecord, RunRecord, ServiceRecord, SideRecord, WifiRecord,
};
pub use runner::{
    MergeError, MergeOutcome, Options, Outcome, Progress, RUNS_FILE, ResultsHeader, RunCell, RunnerError, Shard,
    ShardNote, merge, read_results, run_plan, run_plan_with,
};
pub use summary::{CellSummary, Figure, FlowSummary, STAGE_METRICS, Summary, run_means, summarise};
pub use world::{CaptureMoment, MAX_WAIT_OVER_TCP, RunError, capture_moments, run};

/// The commit that this was built from.
pub const COMMIT: &str = env!("NEARLIGHT_COMMIT");
