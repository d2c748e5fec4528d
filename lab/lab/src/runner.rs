//! Runs a plan's cells on all cores, stores finished runs and resumes where it was stopped.

mod merge;
mod shard;
mod store;

pub use self::merge::{MergeError, MergeOutcome, merge};
pub use self::shard::Shard;
pub use self::store::{RUNS_FILE, ResultsHeader, ShardNote, read_results};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use nearlight_units::{Span, Time};
use thiserror::Error;

use self::store::Store;
use crate::plan::{Cell, Plan};
use crate::record::RunRecord;
use crate::summary::{OracleUtilities, Summary, summarise};
use crate::world::{RunError, run};
use crate::{COMMIT, live};

/// How to run a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of seeds, in place of the plan's.
    pub seeds: Option<u32>,
    /// Only cells that have all of these labels; several values of one label are alternatives.
    pub only: Vec<(String, String)>,
    /// Folder in which finished runs are stored. None stores nothing.
    pub folder: Option<PathBuf>,
    /// Number of parallel runs. None uses one per processor.
    pub threads: Option<usize>,
    /// Run over a real path. Cells that cannot are refused, and results are never mixed with those in virtual time.
    pub live: bool,
    /// The file whose contents identify the build. None takes the running program.
    pub program: Option<PathBuf>,
    /// Make only this part of the runs.
    pub shard: Option<Shard>,
}

/// The results of a plan's runs.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub summary: Summary,
    pub runs: Vec<RunRecord>,
    /// Simulated time of the runs made by this call. Live runs count without those in virtual time.
    pub simulated: Span,
    /// Congestion control laws whose cells were skipped in live runs because no kernel has them.
    pub left_out: Vec<String>,
}

/// Why a plan could not be run to its end.
#[derive(Debug, Error)]
pub enum RunnerError {
    #[error("no cell of the plan has the labels that --only asks for; labels are {labels}")]
    NothingLeft { labels: String },
    #[error("cannot store results in `{}`: {source}; specify another folder with --out", folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
    #[error("`{}` contains runs of shard {kept}, not of {wanted}; give each shard its own folder with --out", folder.display())]
    OtherShard { folder: PathBuf, kept: Shard, wanted: Shard },
    #[error("shard {shard} has no runs: there are {runs} in all; use at most as many shards as runs")]
    EmptyShard { shard: Shard, runs: usize },
    #[error("cell {labels:?} cannot be run live: {reason}; run it in virtual time, or choose others with --only")]
    NotLive { labels: BTreeMap<String, String>, reason: &'static str },
    #[error("cell {labels:?}, seed {seed}: {why}")]
    Run { labels: BTreeMap<String, String>, seed: u64, why: RunError },
}

/// A plan's progress.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub done: usize,
    pub all: usize,
    /// Estimated time until all runs are done.
    pub left: Span,
}

/// A run to be made.
#[derive(Clone, Copy)]
struct Job<'a> {
    cell: &'a Cell,
    seed: u64,
}

/// Makes one run of a cell.
pub type RunCell<'a> = dyn Fn(&Cell, u64) -> Result<RunRecord, RunError> + Sync + 'a;

/// Runs every cell of a plan once for each seed in virtual time. `clock` reads time for progress only; `report` is told after every
/// run.
pub fn run_plan(
    plan: &Plan,
    options: &Options,
    clock: &(dyn Fn() -> Time + Sync),
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome, RunnerError> {
    run_plan_with(plan, options, &run, clock, report)
}

/// Like [`run_plan`], with runs made by `run`, such as live ones. Live transfers are also made in virtual time; the label `time` distinguishes the
/// two.
pub fn run_plan_with(
    plan: &Plan,
    options: &Options,
    run_here: &RunCell<'_>,
    clock: &(dyn Fn() -> Time + Sync),
    report: &mut dyn FnMut(Progress),
) -> Result<Outcome, RunnerError> {
    let mut cells = chosen(plan, &options.only)?;
    let left_out = if options.live { leave_out_others(&mut cells)? } else { Vec::new() };
    if options.live
        && let Some((cell, reason)) = cells.iter().find_map(|cell| Some((cell, live::refusal(cell)?)))
    {
        return Err(RunnerError::NotLive { labels: cell.labels.clone(), reason });
    }
    let cells: Vec<Cow<'_, Cell>> = if options.live {
        cells.into_iter().flat_map(live::with_virtual_time).map(Cow::Owned).collect()
    } else {
        cells.into_iter().map(Cow::Borrowed).collect()
    };
    let run_either: &RunCell<'_> =
        &|cell, seed| if options.live && is_virtual(cell) { run(cell, seed) } else { run_here(cell, seed) };
    let seeds = options.seeds.unwrap_or(plan.seeds).max(1);
    let all: Vec<Job<'_>> =
        cells.iter().flat_map(|cell| (1..=u64::from(seeds)).map(move |seed| Job { cell, seed })).collect();
    let wanted: Vec<Job<'_>> = match options.shard {
        Some(shard) => shard.of(&all),
        None => all.clone(),
    };
    if let (Some(shard), true) = (options.shard, wanted.is_empty()) {
        return Err(RunnerError::EmptyShard { shard, runs: all.len() });
    }
    let mut store = Store::open(plan, options, wanted.len())?;
    let jobs: Vec<Job<'_>> = wanted.iter().filter(|job| !store.has(&job.cell.labels, job.seed)).copied().collect();
    let counted = jobs.iter().filter(|job| !options.live || !is_virtual(job.cell));
    let simulated = counted.map(|job| job.cell.length()).fold(Span::ZERO, |sum, length| sum + length);
    work(&jobs, options, run_either, clock, &mut store, report)?;
    store.finish()?;
    let mut summaries = Vec::new();
    let mut runs = Vec::new();
    let oracle = OracleUtilities::of(wanted.iter().filter_map(|job| store.get(&job.cell.labels, job.seed)));
    for of_cell in wanted.chunk_by(|job, next| std::ptr::eq(job.cell, next.cell)) {
        let records: Vec<&RunRecord> = of_cell.iter().filter_map(|job| store.get(&job.cell.labels, job.seed)).collect();
        let mut summary = summarise(&of_cell[0].cell.labels, &records);
        oracle.add_share(&mut summary, &records);
        summaries.push(summary);
        runs.extend(records.into_iter().cloned());
    }
    let live = live::worst(&runs);
    let summary = Summary { plan: plan.name.clone(), commit: COMMIT.to_owned(), seeds, live, cells: summaries };
    Ok(Outcome { summary, runs, simulated, left_out })
}

/// Returns whether a cell of a live plan runs in virtual time, for comparison.
fn is_virtual(cell: &Cell) -> bool {
    cell.labels.get(live::TIME_LABEL).is_some_and(|time| time == live::IN_VIRTUAL_TIME)
}

/// Removes cells whose congestion control law no kernel has, and returns these laws.
///
/// # Errors
///
/// No cell is left.
fn leave_out_others(cells: &mut Vec<&Cell>) -> Result<Vec<String>, RunnerError> {
    let mut left_out: Vec<String> = cells.iter().filter_map(|cell| live::without_kernel(cell)).collect();
    left_out.sort_unstable();
    left_out.dedup();
    let first = cells.first().map(|cell| cell.labels.clone()).unwrap_or_default();
    cells.retain(|cell| live::without_kernel(cell).is_none());
    if cells.is_empty() {
        return Err(RunnerError::NotLive { labels: first, reason: "no kernel has its law of congestion control" });
    }
    Ok(left_out)
}

fn chosen<'a>(plan: &'a Plan, only: &[(String, String)]) -> Result<Vec<&'a Cell>, RunnerError> {
    let wanted = |cell: &&Cell| {
        only.iter().all(|(label, _)| {
            let mut values = only.iter().filter(|(other, _)| other == label).map(|(_, value)| value);
            cell.labels.get(label).is_some_and(|has| values.any(|value| value == has))
        })
    };
    let cells: Vec<&Cell> = plan.cells.iter().filter(wanted).collect();
    if !cells.is_empty() {
        return Ok(cells);
    }
    let mut labels: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (label, value) in plan.cells.iter().flat_map(|cell| &cell.labels) {
        let values = labels.entry(label).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let one = |(label, values): (&String, Vec<&String>)| {
        format!("{label}={}", values.into_iter().cloned().collect::<Vec<_>>().join("|"))
    };
    Err(RunnerError::NothingLeft { labels: labels.into_iter().map(one).collect::<Vec<_>>().join(", ") })
}

fn work(
    jobs: &[Job<'_>],
    options: &Options,
    run: &RunCell<'_>,
    clock: &(dyn Fn() -> Time + Sync),
    store: &mut Store,
    report: &mut dyn FnMut(Progress),
) -> Result<(), RunnerError> {
    let usual = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or_else(usual).clamp(1, jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let begun = clock();
    let simulated = |jobs: &[Job<'_>]| jobs.iter().map(|job| job.cell.length().as_secs_f64()).sum::<f64>();
    let all = simulated(jobs);
    std::thread::scope(|scope| {
        let (sender, finished) = mpsc::sync_channel(threads);
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(job.cell, job.seed).map_err(|why| RunnerError::Run {
                        labels: job.cell.labels.clone(),
                        seed: job.seed,
                        why,
                    });
                    let failed = result.is_err();
                    if sender.send((job.cell.length(), result)).is_err() || failed {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut done, mut covered) = (0, 0.0);
        for (length, result) in finished {
            // A thread that stops here drops the receiver; the others stop after their current run.
            store.add(result?)?;
            done += 1;
            covered += length.as_secs_f64();
            let spent = (clock() - begun).as_secs_f64();
            let left = Span::from_secs_f64(spent / covered * (all - covered));
            report(Progress { done, all: jobs.len(), left });
        }
        Ok(())
    })
}
