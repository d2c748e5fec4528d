//! The lab, which runs plans in virtual time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

use nearlight_lab::{Options, Outcome, Plan, Progress, RunError, RunnerError, run, run_means, run_plan_with};
use nearlight_net::Clock;
use nearlight_rate::PRESETS;
use nearlight_units::lock;
use pyo3::prelude::*;
use rust_embed::RustEmbed;
use serde_json::json;

use crate::error::{ErrorClass, plan_error, runner_error};
use crate::wait::receive;

/// The repository's plans, which can be run by name.
#[derive(RustEmbed)]
#[folder = "../../../plans"]
struct Plans;

/// Maximum number of threads, as in `nearlight lab run`. Guess: more processors than any machine has.
const MAX_THREADS: usize = 1_024;
/// Maximum number of seeds, as in `nearlight lab run`.
const MAX_SEEDS: u32 = 10_000;

/// Returns the names of the built-in plans.
#[pyfunction]
pub(crate) fn built_in_plans() -> Vec<String> {
    let mut names: Vec<String> =
        Plans::iter().filter_map(|file| file.strip_suffix(".toml").map(ToOwned::to_owned)).collect();
    names.sort();
    names
}

/// Returns the text of a built-in plan.
#[pyfunction]
pub(crate) fn built_in_plan(name: &str) -> Option<String> {
    let file = Plans::get(&format!("{name}.toml"))?;
    String::from_utf8(file.data.into_owned()).ok()
}

/// Returns name, question, notes, number of cells and number of seeds of the plan in `text`. `file` determines its name and appears in
/// errors.
#[pyfunction]
pub(crate) fn describe_plan(
    py: Python<'_>,
    file: PathBuf,
    text: &str,
) -> PyResult<(String, String, String, usize, u32)> {
    let plan = py.detach(|| Plan::parse(&file, text)).map_err(|error| plan_error(&error))?;
    Ok((plan.name, plan.question, plan.notes, plan.cells.len(), plan.seeds))
}

/// Returns names and summaries of the rate controllers.
#[pyfunction]
pub(crate) fn controllers() -> Vec<(&'static str, &'static str)> {
    PRESETS.iter().map(|preset| (preset.name, preset.summary)).collect()
}

/// Runs the plan in `text`. Returns a JSON object with the summary and each run's means. `progress` is called after each run with the
/// number of finished runs, the number of all runs and the estimated seconds left. An exception that it raises ends the plan, as a signal
/// does.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's caller names them")]
pub(crate) fn run_plan(
    py: Python<'_>,
    file: PathBuf,
    text: &str,
    seeds: Option<u32>,
    threads: Option<usize>,
    only: Vec<(String, String)>,
    folder: Option<PathBuf>,
    traces: Option<PathBuf>,
    program: PathBuf,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    if seeds.is_some_and(|seeds| !(1..=MAX_SEEDS).contains(&seeds)) {
        return Err(ErrorClass::Usage.with_message(format!("seeds is out of range: write 1 to {MAX_SEEDS}")));
    }
    if threads.is_some_and(|threads| !(1..=MAX_THREADS).contains(&threads)) {
        return Err(ErrorClass::Usage.with_message(format!(
            "threads is out of range: write 1 to {MAX_THREADS}, or None for one on each processor"
        )));
    }
    let plan = py.detach(|| read(&file, text, traces.as_deref()))?;
    let options = Options { seeds, only, folder, threads, live: false, program: Some(program), shard: None };
    let (stop, newest) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    let (done, outcome) = sync_channel(1);
    let job = Job { plan, options, stop: Arc::clone(&stop), newest: Arc::clone(&newest) };
    let thread = thread::Builder::new()
        .name("nearlight lab".to_owned())
        .spawn(move || drop(done.send(job.run())))
        .map_err(|error| ErrorClass::Error.with_message(format!("cannot start a thread for the plan: {error}")))?;
    let report = || {
        let newest = lock(&newest).take();
        let (Some(Progress { done, all, left }), Some(progress)) = (newest, progress) else { return Ok(()) };
        progress.call1((done, all, left.as_secs_f64())).map(drop)
    };
    let received = receive(py, outcome, report);
    if received.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    // After an interruption, the thread finishes the runs in progress and keeps their results.
    let joined = py.detach(|| thread.join());
    let outcome = received?;
    if let (Err(_), _) | (_, None) = (&joined, &outcome) {
        return Err(ErrorClass::Error.with_message("the plan's thread panicked; see standard error"));
    }
    report()?;
    match outcome {
        Some(Ok(outcome)) => to_json(&outcome),
        Some(Err(error)) => Err(runner_error(&error)),
        None => Err(ErrorClass::Error.with_message("the plan has no results")),
    }
}

/// Parses a plan, and replaces its networks by recorded traces when there are any.
fn read(file: &Path, text: &str, traces: Option<&Path>) -> PyResult<Plan> {
    let plan = Plan::parse(file, text).map_err(|error| plan_error(&error))?;
    match traces {
        Some(folder) => plan.over_traces(folder).map_err(|error| plan_error(&error)),
        None => Ok(plan),
    }
}

/// The work of the plan's thread.
struct Job {
    plan: Plan,
    options: Options,
    stop: Arc<AtomicBool>,
    /// The newest progress that was not reported yet.
    newest: Arc<Mutex<Option<Progress>>>,
}

impl Job {
    fn run(self) -> Result<Outcome, RunnerError> {
        let Self { plan, options, stop, newest } = self;
        let clock = Clock::start();
        let run_cell = |cell: &_, seed| {
            if stop.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { run(cell, seed) }
        };
        let mut report = |progress| {
            *lock(&newest) = Some(progress);
        };
        run_plan_with(&plan, &options, &run_cell, &|| clock.now(), &mut report)
    }
}

fn to_json(outcome: &Outcome) -> PyResult<String> {
    let runs: Vec<_> = outcome
        .runs
        .iter()
        .map(|run| json!({ "labels": run.labels, "seed": run.seed, "metrics": run_means(run) }))
        .collect();
    let document = json!({ "summary": outcome.summary, "runs": runs, "simulated": outcome.simulated.as_secs_f64() });
    serde_json::to_string(&document).map_err(|error| ErrorClass::Error.with_message(error))
}
