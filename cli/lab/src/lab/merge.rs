//! `nearlight lab merge`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_lab::merge;
use serde_json::json;

#[derive(Debug, Args)]
pub(super) struct MergeArguments {
    /// Result folders of shards, such as results/PLAN-shard-1-of-4
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Folder for the joined runs; existing runs in it are kept [default: results/PLAN]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Join the available results even if shards are missing or unfinished
    #[arg(long)]
    partial: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &MergeArguments) -> anyhow::Result<ExitCode> {
    let folder = if let Some(folder) = &arguments.out {
        folder.clone()
    } else {
        let first = &arguments.folders[0];
        let (head, _) = nearlight_lab::read_results(&first.join(nearlight_lab::RUNS_FILE)).with_context(|| {
            format!("`{}` contains no results: name folders that `nearlight lab run` has written", first.display())
        })?;
        PathBuf::from("results").join(if head.live { format!("{}-live", head.plan) } else { head.plan })
    };
    let merged = merge(&arguments.folders, &folder, arguments.partial)?;
    if arguments.json {
        let folder = folder.display().to_string();
        println!(
            "{}",
            json!({ "plan": merged.head.plan, "commit": merged.head.commit, "runs": merged.runs, "folder": folder })
        );
    } else {
        println!("{} runs of {} are kept in {}.", merged.runs, merged.head.plan, folder.display());
        println!(
            "`nearlight lab report {}` draws them; `nearlight lab run` with the plan, its options and --out prints the table.",
            folder.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}
