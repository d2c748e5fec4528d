//! Replaces generated capacities of a plan by measured traces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nearlight_link::{HopSpec, LoadedPath, Source};
use nearlight_wifi::load_path;

use super::{Cell, Plan, PlanError};
use crate::digest::Digest;

/// File extensions of both trace formats.
const TRACE_EXTENSIONS: [&str; 2] = ["csv", "mahi"];

impl Plan {
    /// Replaces each cell whose path has a generated capacity by one cell for each trace in `folder`; the label `path` is the trace's name.
    ///
    /// # Errors
    /// The folder cannot be read or has no traces, a file is not a trace, or no path of the plan has a generated capacity.
    pub fn over_traces(mut self, folder: &Path) -> Result<Self, PlanError> {
        let traces = traces_in(folder)?;
        let mut cells = Vec::new();
        let mut seen: BTreeSet<BTreeMap<String, String>> = BTreeSet::new();
        for cell in
            self.cells.iter().filter(|cell| cell.segments.iter().any(|segment| generates_capacity(&segment.forward)))
        {
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

/// Returns the trace files of a folder, sorted by name.
fn traces_in(folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let entries = std::fs::read_dir(folder).map_err(|error| refused(folder, &error.to_string()))?;
    let is_trace = |file: &PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| TRACE_EXTENSIONS.contains(&ending))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_trace).collect();
    files.sort();
    if files.is_empty() {
        return Err(refused(folder, "it has no files that end with .csv or .mahi"));
    }
    Ok(files)
}

fn generates_capacity(path: &LoadedPath) -> bool {
    path.spec().hops.iter().any(is_generated)
}

fn is_generated(hop: &HopSpec) -> bool {
    matches!(hop, HopSpec::Bottleneck(bottleneck) if matches!(bottleneck.source, Source::Model { .. }))
}

fn over(cell: &Cell, trace: &Path) -> Result<Cell, PlanError> {
    let mut cell = cell.clone();
    for segment in cell.segments.iter_mut().filter(|segment| generates_capacity(&segment.forward)) {
        let mut spec = segment.forward.spec().clone();
        for hop in spec.hops.iter_mut().filter(|hop| is_generated(hop)) {
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
