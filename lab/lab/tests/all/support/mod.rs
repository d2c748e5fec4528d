//! Plans of the tests: where they are, and how they are read and run.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};

use nearlight_lab::{Options, Outcome, Plan, ResultsHeader, RunRecord, run, run_plan};
use nearlight_units::Time;

/// A plan that ships.
pub fn shipped(name: &str) -> Plan {
    read(&folder().join(format!("{name}.toml")))
}

/// Every plan that ships, in the order of their names.
pub fn all_shipped() -> Vec<Plan> {
    let entries = std::fs::read_dir(folder()).expect("plans/");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

fn read(path: &Path) -> Plan {
    Plan::read(path).unwrap_or_else(|error| panic!("{error}"))
}

pub fn parse(text: &str) -> Plan {
    Plan::parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

/// Why a plan is refused.
pub fn refusal(text: &str) -> String {
    match Plan::parse(Path::new("wrong.toml"), text) {
        Ok(_) => panic!("nobody refuses\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// The first run of a plan's first cell.
pub fn first_run(text: &str) -> RunRecord {
    run(&parse(text).cells[0], 1).unwrap_or_else(|error| panic!("{error}"))
}

pub fn outcome(plan: &Plan, options: &Options) -> Outcome {
    run_plan(plan, options, &|| Time::ZERO, &mut |_| {}).unwrap_or_else(|error| panic!("{}: {error}", plan.name))
}

pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain figures")
}

/// What a plan's results begin with, but for the build that made them.
pub fn head(plan: &Plan) -> ResultsHeader {
    ResultsHeader {
        plan: plan.name.clone(),
        question: plan.question.clone(),
        notes: plan.notes.clone(),
        published: plan.published.clone(),
        digest: plan.digest,
        commit: "none".to_owned(),
        program: 0,
        live: false,
        shard: None,
    }
}

/// A folder of a test's own, gone when the test is over. It does not exist yet.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
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
