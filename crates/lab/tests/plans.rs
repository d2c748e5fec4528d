//! Plans: what ships, what is refused, and runs that are the same each time.

use std::path::{Path, PathBuf};

use nearlight_lab::{Options, Plan, RUNS_FILE, run, run_plan};
use nearlight_units::{Span, Time};

const SMALL: &str = r#"
question = "Does it run?"
seeds = 2
[all]
duration = "3s"
sample = "100ms"
controllers = ["gcc-libwebrtc", "scream-v2"]
pacing = "burst"
[all.source]
fps = 60
[[all.path]]
name = "home"
forward = "rate={rate},queue=50ms,delay=5ms,loss=1%,jitter=2ms,duplicate=1%,reorder=1%"
feedback = "delay=5ms,loss=1%"
[[all.sweep]]
name = "rate"
values = ["10mbit", "20mbit"]
[[all.flow]]
kind = "tcp"
start = "1s"
"#;

fn plan(text: &str) -> Plan {
    Plan::parse(Path::new("small.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("plans/")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn json(plan: &Plan, options: &Options) -> String {
    let outcome = run_plan(plan, options, &|| Time::ZERO, &mut |_| {}).expect("runs");
    serde_json::to_string(&outcome.summary).expect("plain figures")
}

/// A folder of this test's own, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_shipped_plan_can_be_read() {
    let files = shipped();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let plan = Plan::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.question.ends_with('?') && !plan.cells.is_empty(), "{}", file.display());
        for published in &plan.published {
            let belongs = |cell: &nearlight_lab::Cell| published.belongs_to(&cell.labels);
            assert!(plan.cells.iter().any(belongs), "{}: {:?} belongs to no cell", file.display(), published.labels);
            for metric in published.metrics.keys() {
                assert!(nearlight_lab::report::can_show(metric), "{}: no page shows {metric}", file.display());
            }
        }
    }
}

#[test]
fn the_plan_in_the_documents_runs() {
    let text = include_str!("../../../docs/lab.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut plan = plan(example);
    assert_eq!((plan.cells.len(), plan.seeds, plan.published.len()), (4, 5, 1));
    let short = nearlight_lab::plan::Setting { duration: Span::from_secs(8), ..(*plan.cells[0].setting).clone() };
    plan.cells[0].setting = std::sync::Arc::new(short);
    let record = run(&plan.cells[0], 1).expect("a run");
    assert!(record.media[0].received_frames > 100, "{}", record.media[0].received_frames);
}

#[test]
fn the_same_plan_gives_the_same_bytes_on_one_thread_and_on_several() {
    let plan = plan(SMALL);
    let first = json(&plan, &Options { threads: Some(1), ..Options::default() });
    assert_eq!(first, json(&plan, &Options { threads: Some(3), ..Options::default() }));
    assert_ne!(first, json(&plan, &Options { seeds: Some(1), ..Options::default() }));
    let (one, other) = (run(&plan.cells[0], 1).expect("a run"), run(&plan.cells[0], 2).expect("a run"));
    assert_ne!(one.media[0].received, other.media[0].received, "another seed is another run");
}

#[test]
fn finished_runs_are_kept_and_the_next_call_goes_on() {
    let plan = plan(SMALL);
    let folder = Folder::new("resume");
    let options = |seeds| Options { seeds: Some(seeds), folder: Some(folder.0.clone()), ..Options::default() };
    let simulated = |options: &Options| run_plan(&plan, options, &|| Time::ZERO, &mut |_| {}).expect("runs").simulated;
    assert_eq!(simulated(&options(1)), Span::from_secs(12));
    // The call was stopped in the middle of a line.
    let file = folder.0.join(RUNS_FILE);
    let text = std::fs::read_to_string(&file).expect("results");
    std::fs::write(&file, &text[..text.len() - 100]).expect("writable");
    assert_eq!(simulated(&options(2)), Span::from_secs(3 + 12), "one run is made again, four are new");
    assert_eq!(simulated(&options(2)), Span::ZERO);
    assert_eq!(json(&plan, &options(2)), json(&plan, &Options { seeds: Some(2), ..Options::default() }));
    // Another plan in the same folder starts anew.
    let other = Plan::parse(Path::new("small.toml"), &SMALL.replace("1%", "2%")).expect("a plan");
    let outcome = run_plan(&other, &options(1), &|| Time::ZERO, &mut |_| {}).expect("runs");
    assert_eq!(outcome.simulated, Span::from_secs(12));
}

#[test]
fn only_the_asked_cells_run() {
    let plan = plan(SMALL);
    let only = |pairs: &[(&str, &str)]| Options {
        only: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        seeds: Some(1),
        ..Options::default()
    };
    let cells = |pairs: &[(&str, &str)]| {
        run_plan(&plan, &only(pairs), &|| Time::ZERO, &mut |_| {}).map(|outcome| outcome.summary.cells.len())
    };
    assert_eq!(cells(&[("rate", "10mbit")]).expect("runs"), 2);
    assert_eq!(cells(&[("rate", "10mbit"), ("rate", "20mbit"), ("controller", "scream-v2")]).expect("runs"), 2);
    let error = cells(&[("rate", "30mbit")]).expect_err("no such cell").to_string();
    assert!(error.contains("rate=10mbit|20mbit") && error.contains("controller=gcc-libwebrtc|scream-v2"), "{error}");
}

#[test]
fn what_is_wrong_with_a_plan_is_said_with_its_place_and_the_remedy() {
    let head = "question = \"?\"\n[all]\nduration = \"3s\"\n";
    let path = "[[all.path]]\nname = \"p\"\n";
    let cases: [(String, &str, &str); 12] = [
        ("question = \"?\"\nspeed = 3\n".to_owned(), "line 2", "unknown field `speed`"),
        ("question = \"?\"\n[all]\nduration = \"3 parsecs\"\n".to_owned(), "line 3", "write a time with ns"),
        (head.to_owned(), "line 1", "[[all.path]]"),
        ("question = \"?\"\n[all]\nsample = \"1s\"\n".to_owned(), "line 1", "duration = \"120s\""),
        (format!("{head}controllers = [\"gcc-9000\"]\n{path}"), "line 4", "use gcc-libwebrtc"),
        (format!("{head}pacing = \"wild\"\n{path}"), "line 4", "spread or compressed"),
        (format!("{head}{path}forward = \"rate=10furlongs\"\n"), "line 6", "10mbit"),
        (format!("{head}{path}forward = \"trace=no/such/trace.csv\"\n"), "line 6", "existing file"),
        (format!("{head}{path}[[all.flow]]\nkind = \"cbr\"\n"), "line 1", "rate = \"2mbit\""),
        (format!("{head}{path}[[all.flow]]\nkind = \"tcp\"\nlaw = \"wild\"\n"), "line 8", "cubic"),
        (format!("{head}{path}[[all.media]]\nthrough = [\"q\"]\n"), "line 7", "there are p"),
        (format!("{head}{path}[all.source]\nkey_ratio = 0.0\n"), "line 1", "from 0.1 to 100"),
    ];
    for (text, place, remedy) in cases {
        let error = Plan::parse(Path::new("wrong.toml"), &text).expect_err(remedy).to_string();
        assert!(error.contains("wrong.toml") && error.contains(place) && error.contains(remedy), "{text}\n{error}");
    }
}
