//! A plan over measured traces in place of the capacities that it makes up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nearlight_link::{HopSpec, LoadedPath, Source};
use nearlight_wifi::load_path;

use super::{Cell, Plan, PlanError};
use crate::digest::Digest;

/// The endings of both formats of traces.
const ENDINGS: [&str; 2] = ["csv", "mahi"];

impl Plan {
    /// Every cell whose path makes up a capacity, once for each trace in `folder` in place of its own paths; the label `path` is the
    /// trace's name.
    ///
    /// # Errors
    /// The folder cannot be read or has no traces, a trace is not one, or the plan makes up no capacity.
    pub fn over_traces(mut self, folder: &Path) -> Result<Self, PlanError> {
        let traces = traces_in(folder)?;
        let mut cells = Vec::new();
        let mut seen: BTreeSet<BTreeMap<String, String>> = BTreeSet::new();
        for cell in self.cells.iter().filter(|cell| cell.segments.iter().any(|segment| makes_up(&segment.forward))) {
            let mut labels = cell.labels.clone();
            labels.remove("path");
            if !seen.insert(labels) {
                continue;
            }
            for trace in &traces {
                cells.push(over(cell, trace)?);
            }
        }
        if cells.is_empty() {
            return Err(refused(folder, "the plan has no path with `model=` that a trace could replace"));
        }
        let mut digest = Digest::of(&self.digest.to_le_bytes());
        for trace in &traces {
            digest.add(trace.to_string_lossy().as_bytes());
            digest.add(&std::fs::read(trace).unwrap_or_default());
        }
        self.digest = digest.value();
        self.cells = cells;
        Ok(self)
    }
}

fn refused(folder: &Path, reason: &str) -> PlanError {
    PlanError::Traces { folder: folder.to_owned(), reason: reason.to_owned() }
}

/// In the order of their names.
fn traces_in(folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let entries = std::fs::read_dir(folder).map_err(|error| refused(folder, &error.to_string()))?;
    let is_trace = |file: &PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_trace).collect();
    files.sort();
    if files.is_empty() {
        return Err(refused(folder, "it has no files that end with .csv or .mahi"));
    }
    Ok(files)
}

fn makes_up(path: &LoadedPath) -> bool {
    path.spec().hops.iter().any(is_made_up)
}

fn is_made_up(hop: &HopSpec) -> bool {
    matches!(hop, HopSpec::Bottleneck(bottleneck) if matches!(bottleneck.source, Source::Model { .. }))
}

fn over(cell: &Cell, trace: &Path) -> Result<Cell, PlanError> {
    let mut cell = cell.clone();
    for segment in cell.segments.iter_mut().filter(|segment| makes_up(&segment.forward)) {
        let mut spec = segment.forward.spec().clone();
        for hop in spec.hops.iter_mut().filter(|hop| is_made_up(hop)) {
            if let HopSpec::Bottleneck(bottleneck) = hop {
                bottleneck.source = Source::File(trace.to_owned());
            }
        }
        segment.forward = load_path(&spec).map_err(|error| refused(trace, &error.to_string()))?;
    }
    let name = trace.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    cell.labels.insert("path".to_owned(), name);
    Ok(cell)
}
