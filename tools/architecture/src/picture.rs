//! The wings as a diagram.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::workspace::Workspace;

/// The wings, what each is for, its crates, and the arrows that exist between them, as Mermaid. An arrow that follows from two others is
/// left out.
pub fn draw(workspace: &Workspace) -> String {
    let mut text = String::from("```mermaid\ngraph TD\n");
    for (name, wing) in &workspace.table.wings {
        let crates: Vec<_> =
            workspace.crates_of(name).map(|name| name.strip_prefix("nearlight-").unwrap_or(name)).collect();
        let _ = writeln!(text, "  {name}[\"<b>{name}</b><br/>{}<br/><i>{}</i>\"]", wing.purpose, crates.join(" "));
    }
    let arrows = arrows(workspace);
    for (from, to) in &arrows {
        if !follows(&arrows, from, to) {
            let _ = writeln!(text, "  {from} --> {to}");
        }
    }
    text.push_str("```\n");
    text
}

fn arrows(workspace: &Workspace) -> BTreeSet<(String, String)> {
    let wing = |name: &str| workspace.crates.get(name).map(|(wing, _)| wing.clone()).unwrap_or_default();
    let normal = workspace.arrows.iter().filter(|arrow| !arrow.is_test);
    normal.map(|arrow| (wing(&arrow.from), wing(&arrow.to))).filter(|(from, to)| from != to).collect()
}

/// Whether a longer way leads from one wing to the other.
fn follows(arrows: &BTreeSet<(String, String)>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> =
        arrows.iter().filter(|(user, used)| user == from && used != to).map(|(_, used)| used.as_str()).collect();
    while let Some(wing) = open.pop() {
        if wing == to {
            return true;
        }
        if seen.insert(wing) {
            open.extend(arrows.iter().filter(|(user, _)| user == wing).map(|(_, used)| used.as_str()));
        }
    }
    false
}
