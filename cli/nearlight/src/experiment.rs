//! The parts of `serve` and `view` that experiments replace: the path of the sessions, the codecs, the clock. `nearlight` has no replacements and
//! passes such command lines to `nearlight-lab`, which has `serve` and `view` too.

use std::sync::Arc;

use clap::Args;
use nearlight_codec::{Decoders, Encoders};
use nearlight_net::{Clock, EmulatedPaths};

/// The parts of a server or a viewer that an experiment replaces.
#[derive(Debug)]
pub struct Experiment {
    pub clock: Clock,
    pub paths: Option<Arc<dyn EmulatedPaths>>,
    pub encoders: Encoders,
    pub decoders: Decoders,
}

impl Experiment {
    /// No experiment: the real path, the codecs of this build, a clock that starts now.
    pub(crate) fn none() -> Self {
        Self { clock: Clock::start(), paths: None, encoders: Encoders::default(), decoders: Decoders::default() }
    }
}

/// Options of `nearlight serve` for experiments.
#[derive(Debug, Args)]
pub struct ServerExperiment {
    /// Emulate an impaired path in both directions, such as rate=10mbit,delay=10ms,loss=1%,queue=100ms
    #[arg(long, value_name = "SPEC", help_heading = "Experiments (nearlight-lab)")]
    pub impair: Option<String>,
    /// Drop this fraction of datagrams at random in both directions; the same as --impair loss=SHARE
    #[arg(long, value_name = "SHARE", conflicts_with = "impair", help_heading = "Experiments (nearlight-lab)")]
    pub drop: Option<String>,
    /// Random seed of the impaired path
    #[arg(long, default_value_t = 1, help_heading = "Experiments (nearlight-lab)")]
    pub seed: u64,
    /// For `nearlight lab run --live`: model that replaces the codec, as JSON
    #[arg(long, hide = true)]
    pub stand_in: Option<String>,
    /// For `nearlight lab run --live`: the machine's clock at time zero
    #[arg(long, hide = true)]
    pub clock_origin: Option<u64>,
}

impl ServerExperiment {
    pub(crate) const fn is_given(&self) -> bool {
        self.impair.is_some() || self.drop.is_some() || self.stand_in.is_some() || self.clock_origin.is_some()
    }
}

/// Options of `nearlight view` for experiments.
#[derive(Debug, Args)]
pub struct ViewerExperiment {
    /// Drop this fraction of datagrams at random in both directions, such as 2%
    #[arg(long, value_name = "SHARE", help_heading = "Experiments (nearlight-lab)")]
    pub drop: Option<String>,
    /// Random seed of --drop
    #[arg(long, default_value_t = 1, help_heading = "Experiments (nearlight-lab)")]
    pub seed: u64,
    /// For `nearlight lab run --live`: decoding time of the model that replaces the codec, in nanoseconds
    #[arg(long, hide = true)]
    pub stand_in_decode: Option<i64>,
    /// For `nearlight lab run --live`: the machine's clock at time zero
    #[arg(long, hide = true)]
    pub clock_origin: Option<u64>,
}

impl ViewerExperiment {
    pub(crate) const fn is_given(&self) -> bool {
        self.drop.is_some() || self.stand_in_decode.is_some() || self.clock_origin.is_some()
    }
}
