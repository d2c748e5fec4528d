//! Builds a runnable path from its written form.

use std::convert::Infallible;

use nearlight_units::{Bitrate, Span};
use thiserror::Error;

use super::{BottleneckSpec, HopSpec, LossSpec, Model, PathSpec, Source};
use crate::bottleneck::{Bottleneck, BottleneckConfig, Service};
use crate::capacity::{Capacity, FineStructure};
use crate::delay::Delay;
use crate::disorder::{Duplicate, Reorder};
use crate::generate::{self, FiveG, WiFi};
use crate::jitter::Jitter;
use crate::loss::{GilbertElliott, Loss, LossModel};
use crate::outage::Outage;
use crate::path::{Path, Stage};
use crate::policer::Policer;
use crate::random::Random;
use crate::trace_file::{RecordedTrace, TraceError, TraceFile, read_trace};

/// The length of a generated trace, after which it repeats.
const MODEL_LENGTH: Span = Span::from_secs(600);

/// A path whose files cannot be used as specified.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("`fine` adds detail within the steps of a rate series, but `{0}` is a packet trace; leave `fine` out")]
    FineOfPackets(String),
    #[error("`burst` turns a rate into a token bucket, but `{0}` is a packet trace; leave `burst` out")]
    BurstOfPackets(String),
    #[error(
        "`wifi={0}` is a Wi-Fi cell, which only simulated paths support; leave it out, or write rate=, delay= and loss= instead"
    )]
    Cell(String),
    #[error("`wifi={settings}` is not a valid cell: {reason}")]
    BadCell { settings: String, reason: String },
}

/// A path whose files have been read: it can be built repeatedly, with different seeds.
#[derive(Clone, Debug)]
pub struct LoadedPath {
    spec: PathSpec,
    /// One for each hop that has a trace file.
    traces: Vec<Option<RecordedTrace>>,
    /// Start of traces without an explicit offset, as a fraction of their length.
    start: f64,
}

impl PathSpec {
    /// Reads the trace files that the path names; a path with cells is refused.
    pub fn load(&self) -> Result<LoadedPath, LoadError> {
        let cell =
            self.hops.iter().find_map(|hop| if let HopSpec::Cell(settings) = hop { Some(settings) } else { None });
        cell.map_or_else(|| self.load_files(), |settings| Err(LoadError::Cell(settings.clone())))
    }

    /// Reads the trace files that the path names, and passes the settings of each cell to `check`, which returns an error for
    /// invalid ones. For [`LoadedPath::path_with`].
    pub fn load_with(&self, check: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<LoadedPath, LoadError> {
        for hop in &self.hops {
            if let HopSpec::Cell(settings) = hop {
                check(settings).map_err(|reason| LoadError::BadCell { settings: settings.clone(), reason })?;
            }
        }
        self.load_files()
    }

    fn load_files(&self) -> Result<LoadedPath, LoadError> {
        let trace = |hop: &HopSpec| match hop {
            HopSpec::Bottleneck(bottleneck) => bottleneck.load(),
            _ => Ok(None),
        };
        let traces = self.hops.iter().map(trace).collect::<Result<_, _>>()?;
        Ok(LoadedPath { spec: self.clone(), traces, start: 0.0 })
    }

    /// Reads the trace files and builds the path; the same seed builds the same path.
    pub fn build(&self, seed: u64) -> Result<Path, LoadError> {
        Ok(self.load()?.path(seed))
    }
}

impl BottleneckSpec {
    fn load(&self) -> Result<Option<RecordedTrace>, LoadError> {
        let Source::File(file) = &self.source else { return Ok(None) };
        let recorded = read_trace(file)?;
        if matches!(recorded.trace, TraceFile::Packets(_)) {
            if self.fine != FineStructure::Smooth {
                return Err(LoadError::FineOfPackets(file.display().to_string()));
            }
            if self.service != Service::Serial {
                return Err(LoadError::BurstOfPackets(file.display().to_string()));
            }
        }
        Ok(Some(recorded))
    }
}

impl LoadedPath {
    #[must_use]
    pub fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// Returns what the path's trace files were taken for, one sentence for each file.
    pub fn describe_traces(&self) -> impl Iterator<Item = String> {
        self.spec.hops.iter().zip(&self.traces).filter_map(|(hop, recorded)| {
            let HopSpec::Bottleneck(BottleneckSpec { source: Source::File(file), .. }) = hop else { return None };
            Some(format!("the trace `{}` is read as {}", file.display(), recorded.as_ref()?.description))
        })
    }

    /// Returns the path with every trace started at this fraction of its length (0 to 1, exclusive), unless the path specifies `offset`.
    ///
    /// The fraction is the same for all traces, so traces recorded together, such as those of both directions, stay aligned.
    #[must_use]
    pub fn starting_at(&self, share: f64) -> Self {
        Self { start: share, ..self.clone() }
    }

    /// The runnable path with this seed.
    ///
    /// # Panics
    /// If it has cells, which [`PathSpec::load`] refuses.
    #[must_use]
    pub fn path(&self, seed: u64) -> Path {
        let mut none = |settings: &str| -> Result<Stage, Infallible> {
            panic!("`wifi={settings}`: path_with builds paths with cells")
        };
        self.path_with(seed, &mut none).unwrap_or_else(|never| match never {})
    }

    /// The runnable path with this seed; `cell` creates the hops through cells from their settings.
    pub fn path_with<E>(&self, seed: u64, cell: &mut dyn FnMut(&str) -> Result<Stage, E>) -> Result<Path, E> {
        let hops = self.spec.hops.iter().zip(&self.traces).enumerate();
        let stages = hops.map(|(place, (hop, trace))| match hop {
            HopSpec::Cell(settings) => cell(settings),
            _ => Ok(stage(hop, self.begun(hop, trace.as_ref()).as_ref(), Random::of_hop(seed, place))),
        });
        Ok(Path::new(stages.collect::<Result<Vec<_>, E>>()?))
    }

    /// A hop's trace, rotated to this path's starting point.
    fn begun(&self, hop: &HopSpec, recorded: Option<&RecordedTrace>) -> Option<TraceFile> {
        let (HopSpec::Bottleneck(spec), Some(RecordedTrace { trace, .. })) = (hop, recorded) else { return None };
        // Whole milliseconds, so that the starting point of a run can be written down exactly.
        let share = || Span::from_millis((trace.length().as_millis_f64() * self.start) as i64);
        Some(trace.starting_at(spec.offset.unwrap_or_else(share)))
    }

    /// The settings of the cells on the path, in path order.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.spec
            .hops
            .iter()
            .filter_map(|hop| if let HopSpec::Cell(settings) = hop { Some(settings.as_str()) } else { None })
    }
}

fn stage(hop: &HopSpec, trace: Option<&TraceFile>, mut random: Random) -> Stage {
    match hop {
        HopSpec::Bottleneck(spec) => {
            let capacity = capacity(spec, trace, &mut random);
            let config = BottleneckConfig { capacity, service: spec.service, queue: spec.queue };
            Bottleneck::new(config, random).into()
        }
        HopSpec::Police { rate, burst } => Policer::new(*rate, *burst).into(),
        HopSpec::Delay(length) => Delay::new(*length).into(),
        HopSpec::Jitter { model, line } => {
            let jitter = Jitter::new(model.clone(), random);
            match line {
                Some(line) => jitter.with_line(*line).into(),
                None => jitter.into(),
            }
        }
        HopSpec::Loss(loss) => {
            let model = match *loss {
                LossSpec::Independent(share) => LossModel::Independent(share),
                LossSpec::Correlated { share, correlation } => {
                    LossModel::Gilbert(GilbertElliott::correlated(share, correlation))
                }
                LossSpec::Gilbert(chain) => LossModel::Gilbert(chain),
            };
            Loss::new(model, random).into()
        }
        HopSpec::Reorder { chance, by } => Reorder::new(*chance, *by, random).into(),
        HopSpec::Duplicate(chance) => Duplicate::new(*chance, random).into(),
        HopSpec::Outage { kind, windows } => Outage::new(*kind, windows.clone()).into(),
        HopSpec::Cell(_) => unreachable!("path_with has them made"),
    }
}

fn capacity(spec: &BottleneckSpec, trace: Option<&TraceFile>, random: &mut Random) -> Capacity {
    let rates = match (&spec.source, trace) {
        (_, Some(TraceFile::Packets(trace))) => return Capacity::Trace(trace.clone(), spec.scale),
        (_, Some(TraceFile::Series(rates))) | (Source::Rates(rates), None) => rates.clone(),
        (Source::Model { model, mean: mean_of_model }, None) => {
            let mean = |usual: Bitrate| mean_of_model.unwrap_or(usual);
            match model {
                Model::FiveG => {
                    let usual = FiveG::default();
                    let parameters = FiveG { mean: mean(usual.mean), ..usual };
                    generate::five_g(&parameters, MODEL_LENGTH, random.seed())
                }
                Model::WiFi => {
                    let usual = WiFi::default();
                    let parameters = WiFi { mean: mean(usual.mean), ..usual };
                    generate::wifi(&parameters, MODEL_LENGTH, random.seed())
                }
                Model::Scene(scene) => scene.rates(*mean_of_model, MODEL_LENGTH, random.seed()),
            }
        }
        (&Source::Drawn { lowest, highest, every }, None) => {
            generate::drawn([lowest, highest], every, MODEL_LENGTH, random.seed())
        }
        (&Source::LogNormal { mean, deviation, memory }, None) => {
            generate::log_normal([mean, deviation], memory, MODEL_LENGTH, random.seed())
        }
        (Source::File(_), None) => unreachable!("a loaded path has read its files"),
    };
    Capacity::Rates(rates.scaled(spec.scale), spec.fine)
}
