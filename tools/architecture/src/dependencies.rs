//! What the `nearlight` command is built from.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The bounds in Cargo.toml; a change that needs more raises them and says why.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Bounds {
    /// Crates of this workspace.
    pub max_own_crates: usize,
    /// All crates, those of this workspace included.
    pub max_crates: usize,
    /// Dependencies that stand in more than one version, because libraries disagree.
    pub several_versions: BTreeSet<String>,
}

/// The crates of the command on Linux, by name, and their versions. Those of tests are left out.
#[derive(Debug)]
pub struct Tree(BTreeMap<String, BTreeSet<String>>);

impl Tree {
    /// Asks cargo.
    pub fn read() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["tree", "--quiet", "--locked", "--package", "nearlight-cli", "--edges", "normal,build"])
            .args(["--target", "x86_64-unknown-linux-gnu", "--prefix", "none", "--format", "{p}"])
            .current_dir(crate::root());
        let output = command.output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let mut crates = BTreeMap::<String, BTreeSet<String>>::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut words = line.split(' ');
            if let (Some(name), Some(version)) = (words.next(), words.next()) {
                crates.entry(name.into()).or_default().insert(version.into());
            }
        }
        Ok(Self(crates))
    }

    /// What exceeds the bounds, and what they list needlessly.
    pub fn excesses(&self, bounds: &Bounds) -> Vec<String> {
        let own = self.0.keys().filter(|name| name.starts_with("nearlight-")).count();
        let all: usize = self.0.values().map(BTreeSet::len).sum();
        let several: BTreeSet<&str> =
            self.0.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.as_str()).collect();
        let mut excesses = Vec::new();
        for (what, count, most) in [("of our own", own, bounds.max_own_crates), ("in all", all, bounds.max_crates)] {
            if count > most {
                excesses.push(format!("`nearlight` is built from {count} crates {what}, and {most} are stated"));
            }
        }
        let unlisted = several.iter().filter(|name| !bounds.several_versions.contains(**name));
        excesses.extend(unlisted.map(|name| format!("{name} stands in several versions and is not listed")));
        let stale = bounds.several_versions.iter().filter(|name| !several.contains(name.as_str()));
        excesses.extend(stale.map(|name| format!("{name} is listed with several versions and stands in one")));
        excesses
    }
}
