//! Finished runs in a folder: a first line that says what made them, then a run per line.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Options, RunnerError, Shard};
use crate::plan::{Plan, Published};
use crate::record::RunRecord;
use crate::{COMMIT, digest};

/// The first line of a results file: what made the runs that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsHeader {
    pub plan: String,
    pub question: String,
    pub notes: String,
    pub published: Vec<Published>,
    pub digest: u64,
    pub commit: String,
    /// Digest of the program file: runs of different builds are never mixed.
    pub program: u64,
    /// The runs were made over a real path.
    #[serde(default)]
    pub live: bool,
    /// The shard that the results belong to, if the plan was split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardNote>,
}

/// The shard of a results folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardNote {
    #[serde(flatten)]
    pub shard: Shard,
    /// How many runs the shard has.
    pub runs: usize,
}

impl ResultsHeader {
    /// Returns whether both headers describe the same runs. Texts, published figures and the number of seeds may differ.
    pub(super) fn made(&self, other: &Self) -> bool {
        let made_by = |head: &Self| (head.plan.clone(), head.digest, head.commit.clone(), head.program, head.live);
        made_by(self) == made_by(other)
    }
}

/// A run's labels and seed.
type Key = (BTreeMap<String, String>, u64);
/// Finished runs as lines of a file. Parsing and formatting a number again may change its last digit.
pub(super) type Lines = BTreeMap<Key, String>;

/// Finished runs, in memory and in a folder.
pub(super) struct Store {
    head: Option<ResultsHeader>,
    folder: PathBuf,
    file: Option<File>,
    runs: BTreeMap<Key, RunRecord>,
}

/// The results file in a results folder.
pub const RUNS_FILE: &str = "runs.jsonl";

impl Store {
    /// Opens the results folder. `runs` is the number of runs of the plan or its shard.
    pub(super) fn open(plan: &Plan, options: &Options, runs: usize) -> Result<Self, RunnerError> {
        let Some(folder) = options.folder.as_deref() else {
            return Ok(Self { head: None, folder: PathBuf::new(), file: None, runs: BTreeMap::new() });
        };
        let refused = |source| RunnerError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(refused)?;
        let program = options.program.clone().map_or_else(std::env::current_exe, Ok);
        let program = program.and_then(fs::read).map_or(0, |bytes| digest::Digest::of(&bytes).value());
        let mut head = ResultsHeader {
            plan: plan.name.clone(),
            question: plan.question.clone(),
            notes: plan.notes.clone(),
            published: plan.published.clone(),
            digest: plan.digest,
            commit: COMMIT.to_owned(),
            program,
            live: options.live,
            shard: options.shard.map(|shard| ShardNote { shard, runs }),
        };
        let path = folder.join(RUNS_FILE);
        let mut lines = Lines::new();
        if let Some((first, kept)) = read_lines(&path)
            && first.made(&head)
        {
            match (first.shard, options.shard) {
                (Some(kept), Some(wanted)) if kept.shard != wanted => {
                    return Err(RunnerError::OtherShard { folder: folder.to_owned(), kept: kept.shard, wanted });
                }
                // A folder of the whole plan remains one.
                (None, _) => head.shard = None,
                _ => {}
            }
            lines = kept;
        }
        // Rewritten, so that a truncated line does not swallow the next one.
        write_lines(folder, &head, &lines).map_err(refused)?;
        let runs = lines.into_iter().filter_map(|(key, line)| Some((key, serde_json::from_str(&line).ok()?))).collect();
        let file = OpenOptions::new().append(true).open(&path).map_err(refused)?;
        Ok(Self { head: Some(head), folder: folder.to_owned(), file: Some(file), runs })
    }

    pub(super) fn has(&self, labels: &BTreeMap<String, String>, seed: u64) -> bool {
        self.get(labels, seed).is_some()
    }

    pub(super) fn get(&self, labels: &BTreeMap<String, String>, seed: u64) -> Option<&RunRecord> {
        self.runs.get(&(labels.clone(), seed))
    }

    pub(super) fn add(&mut self, run: RunRecord) -> Result<(), RunnerError> {
        if let Some(file) = &mut self.file {
            write_line(file, &run).map_err(|source| RunnerError::Folder { folder: self.folder.clone(), source })?;
        }
        self.runs.insert((run.labels.clone(), run.seed), run);
        Ok(())
    }

    /// Sorts the file's lines, so that they do not depend on the order in which runs ended.
    pub(super) fn finish(&mut self) -> Result<(), RunnerError> {
        self.file = None;
        let Some(head) = &self.head else { return Ok(()) };
        let (_, lines) = read_lines(&self.folder.join(RUNS_FILE)).unwrap_or_else(|| (head.clone(), Lines::new()));
        write_lines(&self.folder, head, &lines)
            .map_err(|source| RunnerError::Folder { folder: self.folder.clone(), source })
    }
}

/// Replaces a folder's results atomically.
pub(super) fn write_lines(folder: &Path, head: &ResultsHeader, lines: &Lines) -> std::io::Result<()> {
    let temporary = folder.join("runs.jsonl.new");
    let mut file = BufWriter::new(File::create(&temporary)?);
    write_line(&mut file, head)?;
    for line in lines.values() {
        writeln!(file, "{line}")?;
    }
    file.into_inner()?.sync_all()?;
    fs::rename(&temporary, folder.join(RUNS_FILE))
}

fn write_line(file: &mut impl std::io::Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// Reads a results file: its header, and its lines as they were written. None if it is not a results file. Lines that are not runs are skipped.
pub(super) fn read_lines(path: &Path) -> Option<(ResultsHeader, Lines)> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let head = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    let run = |line: String| {
        let run: RunRecord = serde_json::from_str(&line).ok()?;
        Some(((run.labels, run.seed), line))
    };
    Some((head, lines.map_while(Result::ok).filter_map(run).collect()))
}

/// Reads the header and the finished runs of a results file. None if it is not one. A truncated line is skipped.
#[must_use]
pub fn read_results(path: &Path) -> Option<(ResultsHeader, Vec<RunRecord>)> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let head = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    let runs = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
    Some((head, runs.collect()))
}
