//! Joins the results of shards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::shard::Shard;
use super::store::{Lines, RUNS_FILE, ResultsHeader, ShardNote, read_lines, write_lines};

/// Why results cannot be joined.
#[derive(Debug, Error)]
pub enum MergeError {
    #[error("`{}` contains no results: name folders that `nearlight lab run` has written", .0.display())]
    NoResults(PathBuf),
    #[error("`{}` and `{}` do not belong together: {difference}", first.display(), other.display())]
    Different { first: PathBuf, other: PathBuf, difference: &'static str },
    #[error(
        "the run {labels:?} with seed {seed} in `{}` is not the same as in another folder; runs in virtual time never differ, \
         so one of the files was changed", folder.display()
    )]
    Contradiction { folder: PathBuf, labels: BTreeMap<String, String>, seed: u64 },
    #[error("shards {} of {count} are missing; run them, or join what is there with --partial", list(missing))]
    Missing { missing: Vec<u32>, count: u32 },
    #[error(
        "shard {shard} in `{}` has {done} of its {runs} runs; continue it, or join what is there with --partial",
        folder.display()
    )]
    Unfinished { folder: PathBuf, shard: Shard, done: usize, runs: usize },
    #[error("cannot write to `{}`: {source}; specify another folder with --out", folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
}

/// The result of joining shards.
#[derive(Clone, Debug)]
pub struct MergeOutcome {
    pub head: ResultsHeader,
    pub runs: usize,
}

/// Joins the results in `folders` into `into`. The file is identical to that of one call that made all runs. Results already in `into` are included.
/// Unless `partial`, every shard must be present and finished.
pub fn merge(folders: &[PathBuf], into: &Path, partial: bool) -> Result<MergeOutcome, MergeError> {
    let mut head: Option<(&Path, ResultsHeader)> = None;
    let mut runs = Lines::new();
    let mut shards = Vec::new();
    let existing = into.join(RUNS_FILE).exists().then(|| into.to_owned());
    for folder in folders.iter().chain(&existing) {
        let (found, lines) =
            read_lines(&folder.join(RUNS_FILE)).ok_or_else(|| MergeError::NoResults(folder.clone()))?;
        match &head {
            Some((first, of_first)) => {
                if let Some(difference) = difference(of_first, &found) {
                    return Err(MergeError::Different {
                        first: first.to_path_buf(),
                        other: folder.clone(),
                        difference,
                    });
                }
            }
            None => head = Some((folder, ResultsHeader { shard: None, ..found.clone() })),
        }
        if let Some(note) = found.shard {
            shards.push((folder, note, lines.len()));
        }
        for (key, line) in lines {
            if runs.get(&key).is_some_and(|other| *other != line) {
                let (labels, seed) = key;
                return Err(MergeError::Contradiction { folder: folder.clone(), labels, seed });
            }
            runs.insert(key, line);
        }
    }
    let (_, head) = head.ok_or_else(|| MergeError::NoResults(into.to_owned()))?;
    if !partial {
        complete(&shards)?;
    }
    let refused = |source| MergeError::Folder { folder: into.to_owned(), source };
    std::fs::create_dir_all(into).map_err(refused)?;
    write_lines(into, &head, &runs).map_err(refused)?;
    Ok(MergeOutcome { head, runs: runs.len() })
}

fn difference(one: &ResultsHeader, other: &ResultsHeader) -> Option<&'static str> {
    if one.plan != other.plan {
        Some("they are of different plans")
    } else if one.digest != other.digest {
        Some("the plan was changed between them; run all shards of the same file")
    } else if one.live != other.live {
        Some("one was run live, the other in virtual time")
    } else if !one.made(other) {
        Some("they were made by different builds; run all shards with the same program")
    } else {
        None
    }
}

/// Checks that all shards are present and finished. Several folders may hold parts of one shard.
fn complete(shards: &[(&PathBuf, ShardNote, usize)]) -> Result<(), MergeError> {
    let counts: BTreeSet<u32> = shards.iter().map(|(_, note, _)| note.shard.count()).collect();
    for count in counts {
        let of_count = || shards.iter().filter(|(_, note, _)| note.shard.count() == count);
        if let Some((folder, note, done)) = of_count().find(|(_, note, done)| *done < note.runs) {
            let finished_elsewhere =
                of_count().any(|(_, other, done)| other.shard == note.shard && *done >= other.runs);
            if !finished_elsewhere {
                let (folder, shard) = ((*folder).clone(), note.shard);
                return Err(MergeError::Unfinished { folder, shard, done: *done, runs: note.runs });
            }
        }
        let present: BTreeSet<u32> = of_count().map(|(_, note, _)| note.shard.index()).collect();
        let missing: Vec<u32> = (1..=count).filter(|index| !present.contains(index)).collect();
        if !missing.is_empty() {
            return Err(MergeError::Missing { missing, count });
        }
    }
    Ok(())
}

/// Lists numbers, and only the first ones if there are many.
fn list(numbers: &[u32]) -> String {
    const MAX_LISTED: usize = 8;
    let mut text: Vec<String> = numbers.iter().take(MAX_LISTED).map(u32::to_string).collect();
    if numbers.len() > MAX_LISTED {
        text.push(format!("{} more", numbers.len() - MAX_LISTED));
    }
    text.join(", ")
}
