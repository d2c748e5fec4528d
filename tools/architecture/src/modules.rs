//! Arrows between the top modules of one crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Top modules that use each other in a circle, the first one repeated at the end; empty if there is none. `lib.rs` is not a module, and tests
/// at the end of a file do not count.
pub fn circle(source: &Path) -> Result<Vec<String>> {
    let mut arrows = Arrows::new();
    let mut modules = BTreeSet::new();
    for entry in fs::read_dir(source).with_context(|| source.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name != "lib" && (path.is_dir() || path.extension().is_some_and(|end| end == "rs")) {
            read(&path, arrows.entry(name.clone()).or_default())?;
            modules.insert(name);
        }
    }
    for (module, used) in &mut arrows {
        used.retain(|other| modules.contains(other) && other != module);
    }
    Ok(circle_in(&arrows))
}

/// Nodes that lead back to the first of them, which is repeated at the end; empty if there are none.
pub fn circle_in(arrows: &Arrows) -> Vec<String> {
    arrows.keys().find_map(|node| way_back(arrows, node)).unwrap_or_default()
}

/// Adds the names behind `crate::`, with those in braces.
fn read(path: &Path, used: &mut BTreeSet<String>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() || path.extension().is_some_and(|end| end == "rs") {
                read(&path, used)?;
            }
        }
        return Ok(());
    }
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let text = text.split_once("#[cfg(test)]").map_or(text.as_str(), |(code, _)| code);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for part in
        text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| line.split("crate::").skip(1))
    {
        if let Some(list) = part.strip_prefix('{') {
            let names = list.split(',').filter_map(|name| name.trim().split(|letter| !is_name(letter)).next());
            used.extend(names.map(str::to_owned));
        } else {
            used.extend(part.split(|letter| !is_name(letter)).next().map(str::to_owned));
        }
    }
    Ok(())
}

fn way_back(arrows: &Arrows, start: &str) -> Option<Vec<String>> {
    let mut open = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop() {
        for next in way.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
            let further = [way.clone(), vec![next.clone()]].concat();
            if next == start {
                return Some(further);
            }
            if seen.insert(next.clone()) {
                open.push(further);
            }
        }
    }
    None
}
