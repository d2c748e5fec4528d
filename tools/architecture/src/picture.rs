//! The wings as a diagram.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::modules::Arrows;
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
    let arrows = workspace.wing_arrows();
    for (from, used) in &arrows {
        for to in used.iter().filter(|to| !follows(&arrows, from, to)) {
            let _ = writeln!(text, "  {from} --> {to}");
        }
    }
    text.push_str("```\n");
    text
}

/// Whether a longer way leads from one wing to the other.
fn follows(arrows: &Arrows, from: &str, to: &str) -> bool {
    let used_by = |wing: &str| arrows.get(wing).into_iter().flatten().map(String::as_str);
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = used_by(from).filter(|used| *used != to).collect();
    while let Some(wing) = open.pop() {
        if wing == to {
            return true;
        }
        if seen.insert(wing) {
            open.extend(used_by(wing));
        }
    }
    false
}
