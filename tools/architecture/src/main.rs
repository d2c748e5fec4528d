//! The wings of the workspace: which crates belong to which, and which arrows between them are allowed. Cargo.toml declares them under
//! `workspace.metadata.architecture`; the tests hold cargo's own metadata against that table.
//!
//! `cargo run -p nearlight-architecture -- check` does the same, and `-- renew` draws the wings and counts their lines in docs/architecture.md.

#![forbid(unsafe_code)]

mod dependencies;
mod documents;
mod lines;
mod modules;
mod picture;
mod workspace;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::dependencies::Tree;
use crate::workspace::Workspace;

const DOCUMENT: &str = "docs/architecture.md";

const USAGE: &str = "usage: cargo run -p nearlight-architecture -- check|renew

  check   lists what the workspace does against its table, and links of documents that lead nowhere
  renew   draws the wings in docs/architecture.md and counts their lines";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => check(),
        ["renew"] => renew(),
        _ => bail!("{USAGE}"),
    }
}

fn check() -> Result<()> {
    let complaints = complaints(&root(), &Workspace::read()?, &Tree::read()?)?;
    if complaints.is_empty() { Ok(()) } else { bail!("{}", complaints.join("\n")) }
}

fn renew() -> Result<()> {
    let (root, workspace) = (root(), Workspace::read()?);
    let file = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&file).with_context(|| DOCUMENT.to_owned())?;
    let text = replace_between(&text, "wings", &picture::draw(&workspace))?;
    let text = replace_between(&text, "lines", &lines::table(&root, &workspace)?)?;
    std::fs::write(&file, text).with_context(|| DOCUMENT.to_owned())
}

/// Everything in the workspace that its table does not allow, in words.
fn complaints(root: &Path, workspace: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let mut complaints = workspace.forbidden_arrows();
    complaints.extend(documents::complaints(root)?);
    complaints.extend(workspace.crates_without_a_wing().into_iter().map(|name| format!("{name} is in no wing")));
    let circle = workspace.circle_of_wings();
    if !circle.is_empty() {
        complaints.push(format!("these wings use each other in a circle: {}", circle.join(" -> ")));
    }
    let circle = modules::circle(&root.join("lab/lab/src"))?;
    if !circle.is_empty() {
        complaints.push(format!("these modules of the lab use each other in a circle: {}", circle.join(" -> ")));
    }
    complaints.extend(tree.excesses(&workspace.table.command));
    let text = std::fs::read_to_string(root.join(DOCUMENT)).with_context(|| DOCUMENT.to_owned())?;
    if between(&text, "wings")? != picture::draw(workspace) {
        complaints.push(format!(
            "{DOCUMENT} does not show the table: `cargo run -p nearlight-architecture -- renew` draws it anew"
        ));
    }
    Ok(complaints)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text between the markers `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
fn between<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let from = text.find(&begin).map(|at| at + begin.len());
    let to = text.find(&end);
    from.zip(to)
        .filter(|(from, to)| from <= to)
        .map(|(from, to)| &text[from..to])
        .with_context(|| format!("{DOCUMENT} has no markers `{}` and `{end}`", begin.trim_end()))
}

fn replace_between(text: &str, name: &str, new: &str) -> Result<String> {
    let old = between(text, name)?;
    let at = old.as_ptr() as usize - text.as_ptr() as usize;
    Ok([&text[..at], new, &text[at + old.len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::read().expect("cargo's metadata")
    }

    #[test]
    fn the_workspace_is_as_its_table_says() {
        let tree = Tree::read().expect("cargo's tree");
        let complaints = complaints(&root(), &workspace(), &tree).expect("readable files");
        assert!(
            complaints.is_empty(),
            "against `workspace.metadata.architecture` in Cargo.toml:\n{}",
            complaints.join("\n")
        );
    }

    #[test]
    fn a_forbidden_arrow_of_each_kind_is_refused() {
        let workspace = workspace();
        for (from, to, is_test) in [
            ("nearlight-server", "nearlight-link", false),
            ("nearlight-cli", "nearlight-lab", false),
            ("nearlight-units", "nearlight-net", false),
            ("nearlight-net", "nearlight-rate", false),
            ("nearlight-session", "nearlight-server", true),
        ] {
            let refused = workspace.with_arrow(from, to, is_test).forbidden_arrows();
            assert!(
                refused.iter().any(|arrow| arrow.contains(from) && arrow.contains(to)),
                "{from} -> {to}: {refused:?}"
            );
        }
        assert!(!workspace.with_arrow("nearlight-scene", "nearlight-server", false).circle_of_wings().is_empty());
    }
}
