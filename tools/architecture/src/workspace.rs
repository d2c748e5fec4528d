//! The crates, their arrows and the table that allows them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::dependencies::Bounds;
use crate::modules::{Arrows, circle_in};

/// The table in Cargo.toml.
#[derive(Clone, Debug, Deserialize)]
pub struct Table {
    /// By the name of the folder.
    pub wings: BTreeMap<String, Wing>,
    /// Crates that may use more wings than their own wing does.
    pub exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Pairs of crates of which the first never uses the second, although its wing may.
    pub never: Vec<(String, String)>,
    /// What the `nearlight` command may be built from.
    pub command: Bounds,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Wing {
    /// What the wing is for, in a few words.
    pub purpose: String,
    /// Wings that its crates may use besides itself.
    pub uses: BTreeSet<String>,
    /// Wings that its tests may use besides those.
    #[serde(default)]
    pub tests_use: BTreeSet<String>,
}

/// One crate uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    pub from: String,
    pub to: String,
    /// Only tests, examples and benches use it.
    pub is_test: bool,
}

#[derive(Clone, Debug)]
pub struct Workspace {
    pub table: Table,
    /// The wing of each crate, and its folder.
    pub crates: BTreeMap<String, (String, String)>,
    pub arrows: BTreeSet<Arrow>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
    #[serde(rename = "metadata")]
    own: WorkspaceMetadata,
}

#[derive(Deserialize)]
struct WorkspaceMetadata {
    architecture: Table,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

impl Workspace {
    /// Asks cargo.
    pub fn read() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["metadata", "--format-version", "1", "--no-deps", "--quiet"]).current_dir(crate::root());
        let output = command.output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let Metadata { packages, workspace_root, own } =
            serde_json::from_slice(&output.stdout).context("cargo's metadata, or `workspace.metadata.architecture`")?;
        let folder_of = |package: &Package| {
            let path = package.manifest_path.trim_start_matches(&workspace_root).trim_start_matches('/');
            path.trim_end_matches("/Cargo.toml").to_owned()
        };
        let wing_of = |folder: &str| folder.split('/').next().unwrap_or_default().to_owned();
        let crates: BTreeMap<_, _> = packages
            .iter()
            .map(|package| (package.name.clone(), folder_of(package)))
            .map(|(name, folder)| (name, (wing_of(&folder), folder)))
            .collect();
        let arrows = packages.iter().flat_map(|package| {
            let own = package.dependencies.iter().filter(|dependency| crates.contains_key(&dependency.name));
            own.map(|dependency| Arrow {
                from: package.name.clone(),
                to: dependency.name.clone(),
                is_test: dependency.kind.as_deref() == Some("dev"),
            })
        });
        let arrows = arrows.collect();
        Ok(Self { table: own.architecture, crates, arrows })
    }

    fn wing(&self, name: &str) -> &str {
        self.crates.get(name).map_or("", |(wing, _)| wing)
    }

    /// Crates of a wing, by name.
    pub fn crates_of<'a>(&'a self, wing: &'a str) -> impl Iterator<Item = &'a str> {
        self.crates.iter().filter(move |(_, (own, _))| own == wing).map(|(name, _)| name.as_str())
    }

    /// What the table forbids, in words.
    pub fn forbidden_arrows(&self) -> Vec<String> {
        let refused = self.arrows.iter().filter_map(|arrow| Some((arrow, self.refusal(arrow)?)));
        refused.map(|(Arrow { from, to, .. }, reason)| format!("{from} -> {to}: {reason}")).collect()
    }

    fn refusal(&self, Arrow { from, to, is_test }: &Arrow) -> Option<String> {
        let is_pair = |(user, used): &&(String, String)| user == from && used == to;
        if !is_test && self.table.never.iter().any(|pair| is_pair(&pair)) {
            return Some("this pair is listed under `never`".into());
        }
        let (user, used) = (self.wing(from), self.wing(to));
        let wing = self.table.wings.get(user)?;
        let is_excepted = self.table.exceptions.get(from).is_some_and(|wings| wings.contains(used));
        let is_allowed =
            user == used || wing.uses.contains(used) || is_excepted || *is_test && wing.tests_use.contains(used);
        (!is_allowed).then(|| {
            let who = if *is_test { "tests of " } else { "" };
            format!("{who}{user} may not use {used}")
        })
    }

    /// The wings that each wing uses through its crates, tests left out.
    pub fn wing_arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for arrow in self.arrows.iter().filter(|arrow| !arrow.is_test) {
            let (user, used) = (self.wing(&arrow.from), self.wing(&arrow.to));
            if user != used {
                arrows.entry(user.into()).or_default().insert(used.into());
            }
        }
        arrows
    }

    /// Wings that use each other in a circle.
    pub fn circle_of_wings(&self) -> Vec<String> {
        circle_in(&self.wing_arrows())
    }

    pub fn crates_without_a_wing(&self) -> Vec<&str> {
        let homeless = self.crates.iter().filter(|(_, (wing, _))| !self.table.wings.contains_key(wing));
        homeless.map(|(name, _)| name.as_str()).collect()
    }

    #[cfg(test)]
    pub fn with_arrow(&self, from: &str, to: &str, is_test: bool) -> Self {
        let mut workspace = self.clone();
        workspace.arrows.insert(Arrow { from: from.into(), to: to.into(), is_test });
        workspace
    }
}
