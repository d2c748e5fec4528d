//! Lines of code by wing, without blank lines and comments.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// Lines of the product and of its tests.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    code: usize,
    tests: usize,
}

/// A Markdown table with a row for each wing.
pub fn table(root: &Path, workspace: &Workspace) -> Result<String> {
    let mut text = String::from("| wing | crates | lines of code | of tests |\n|---|---|---|---|\n");
    let mut all = Count::default();
    for name in workspace.table.wings.keys() {
        let mut count = Count::default();
        add(&root.join(name), false, &mut count)?;
        let crates = workspace.crates_of(name).count();
        let _ = writeln!(text, "| `{name}` | {crates} | {} | {} |", count.code, count.tests);
        all = Count { code: all.code + count.code, tests: all.tests + count.tests };
    }
    let _ = writeln!(text, "| all | {} | {} | {} |", workspace.crates.len(), all.code, all.tests);
    Ok(text)
}

fn add(folder: &Path, in_tests: bool, count: &mut Count) -> Result<()> {
    const LEFT_OUT: [&str; 4] = ["node_modules", "dist", "generated", "target"];
    const TESTS: [&str; 4] = ["tests", "benches", "examples", "fuzzing"];
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if !LEFT_OUT.contains(&name.as_str()) {
                add(&path, in_tests || TESTS.contains(&name.as_str()), count)?;
            }
            continue;
        }
        let is_code = [".rs", ".ts", ".mjs", ".js", ".py", ".c", ".h", ".cpp"].iter().any(|end| name.ends_with(end));
        if !is_code {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let is_test_file = in_tests || name.contains(".test.") || name.ends_with("tests.rs") || name == "fuzzing.rs";
        // Tests stand at the end of a file.
        let (code, tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((text.as_str(), ""));
        let (code, tests) = (lines(code), lines(tests));
        if is_test_file {
            count.tests += code + tests;
        } else {
            count.code += code;
            count.tests += tests;
        }
    }
    Ok(())
}

fn lines(text: &str) -> usize {
    let is_comment = |line: &str| ["//", "/*", "*", "#!", "# "].iter().any(|start| line.starts_with(start));
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line)).count()
}
