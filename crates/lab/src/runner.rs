//! Runs a plan's cells on all cores, stores finished runs and resumes where it was stopped.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use nearlight_units::{Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plan::{Cell, Plan, Published};
use crate::record::RunRecord;
use crate::summary::{Summary, summarise};
use crate::world::{RunError, run};
use crate::{COMMIT, digest, live};

/// How to run a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of the plan's own.
    pub seeds: Option<u32>,
    /// Only cells that have all of these labels; several values of one label are alternatives.
    pub only: Vec<(String, String)>,
    /// Where finished runs are kept; nowhere if None.
    pub folder: Option<PathBuf>,
    /// Runs at a time; as many as there are processors if None.
    pub threads: Option<usize>,
    /// Over a real path: only cells that can be, and never mixed with runs in virtual time.
    pub live: bool,
    /// The file whose contents tell one build from another; the running program's if None.
    pub program: Option<PathBuf>,
}

/// The results of a plan's runs.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub summary: Summary,
    pub runs: Vec<RunRecord>,
    /// In runs that were made now, not in those that an earlier call has left.
    pub simulated: Span,
    /// Laws of congestion control whose cells were left out of live runs, as no kernel has them.
    pub left_out: Vec<String>,
}

/// Why a plan could not be run to its end.
#[derive(Debug, Error)]
pub enum RunnerError {
    #[error("no cell of the plan has the labels that --only asks for; labels are {labels}")]
    NothingLeft { labels: String },
    #[error("cannot keep results in `{}`: {source}; give another folder with --out", folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
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
    /// Until all are done, as far as the finished runs tell.
    pub left: Span,
}

/// The first line of a results file: what made the runs that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub plan: String,
    pub question: String,
    pub notes: String,
    pub published: Vec<Published>,
    pub digest: u64,
    pub commit: String,
    /// Of the program itself: runs of another build are not mixed with these.
    pub program: u64,
    /// Over a real path.
    #[serde(default)]
    pub live: bool,
}

impl Head {
    /// Whether runs under this head could have been made under the other: words, figures of others and the number of seeds may differ.
    fn made(&self, other: &Self) -> bool {
        let made_by = |head: &Self| (head.plan.clone(), head.digest, head.commit.clone(), head.program, head.live);
        made_by(self) == made_by(other)
    }
}

/// A run that is to be made.
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

/// The same with runs that `run` makes, such as those over a real path.
pub fn run_plan_with(
    plan: &Plan,
    options: &Options,
    run: &RunCell<'_>,
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
    let seeds = options.seeds.unwrap_or(plan.seeds).max(1);
    let mut store = Store::open(plan, options)?;
    let jobs: Vec<Job<'_>> = cells
        .iter()
        .flat_map(|cell| (1..=u64::from(seeds)).map(move |seed| Job { cell, seed }))
        .filter(|job| !store.has(&job.cell.labels, job.seed))
        .collect();
    let simulated = jobs.iter().map(|job| job.cell.length()).fold(Span::ZERO, |sum, length| sum + length);
    work(&jobs, options, run, clock, &mut store, report)?;
    let mut summaries = Vec::new();
    let mut runs = Vec::new();
    for cell in &cells {
        let of_cell: Vec<&RunRecord> =
            (1..=u64::from(seeds)).filter_map(|seed| store.get(&cell.labels, seed)).collect();
        summaries.push(summarise(&cell.labels, &of_cell));
        runs.extend(of_cell.into_iter().cloned());
    }
    let live = live::worst(&runs);
    let summary = Summary { plan: plan.name.clone(), commit: COMMIT.to_owned(), seeds, live, cells: summaries };
    Ok(Outcome { summary, runs, simulated, left_out })
}

/// Leaves cells whose law of congestion control no kernel has, and answers these laws. Fails if no other cell is left.
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
        let (sender, finished) = mpsc::channel();
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

/// Finished runs by their labels and seed.
type Runs = BTreeMap<(BTreeMap<String, String>, u64), RunRecord>;

/// Finished runs, in memory and in a folder.
struct Store {
    folder: PathBuf,
    file: Option<File>,
    runs: Runs,
}

/// The results file in a results folder.
pub const RUNS_FILE: &str = "runs.jsonl";

impl Store {
    fn open(plan: &Plan, options: &Options) -> Result<Self, RunnerError> {
        let Some(folder) = options.folder.as_deref() else {
            return Ok(Self { folder: PathBuf::new(), file: None, runs: BTreeMap::new() });
        };
        let refused = |source| RunnerError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(refused)?;
        let program = options.program.clone().map_or_else(std::env::current_exe, Ok);
        let program = program.and_then(fs::read).map_or(0, |bytes| digest::Digest::of(&bytes).value());
        let head = Head {
            plan: plan.name.clone(),
            question: plan.question.clone(),
            notes: plan.notes.clone(),
            published: plan.published.clone(),
            digest: plan.digest,
            commit: COMMIT.to_owned(),
            program,
            live: options.live,
        };
        let path = folder.join(RUNS_FILE);
        let runs = read_runs(&path, &head).unwrap_or_default();
        // Written anew: a line that was cut off by the end of a call must not swallow the next one.
        let temporary = folder.join("runs.jsonl.new");
        let mut file = File::create(&temporary).map_err(refused)?;
        write_line(&mut file, &head).map_err(refused)?;
        for run in runs.values() {
            write_line(&mut file, run).map_err(refused)?;
        }
        drop(file);
        fs::rename(&temporary, &path).map_err(refused)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(refused)?;
        Ok(Self { folder: folder.to_owned(), file: Some(file), runs })
    }

    fn has(&self, labels: &BTreeMap<String, String>, seed: u64) -> bool {
        self.get(labels, seed).is_some()
    }

    fn get(&self, labels: &BTreeMap<String, String>, seed: u64) -> Option<&RunRecord> {
        self.runs.get(&(labels.clone(), seed))
    }

    fn add(&mut self, run: RunRecord) -> Result<(), RunnerError> {
        if let Some(file) = &mut self.file {
            write_line(file, &run).map_err(|source| RunnerError::Folder { folder: self.folder.clone(), source })?;
        }
        self.runs.insert((run.labels.clone(), run.seed), run);
        Ok(())
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// What an earlier call has left, if the same program ran the same plan.
fn read_runs(path: &Path, head: &Head) -> Option<Runs> {
    let (first, runs) = read_results(path)?;
    first.made(head).then(|| runs.into_iter().map(|run| ((run.labels.clone(), run.seed), run)).collect())
}

/// The finished runs of a results file, and what made them; none where it is not one. A truncated line is skipped.
#[must_use]
pub fn read_results(path: &Path) -> Option<(Head, Vec<RunRecord>)> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let head = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    let runs = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
    Some((head, runs.collect()))
}
