//! `nearlight lab`.

mod bulk;
mod distortion;
mod ladder;
mod live;
mod merge;
mod plans;
mod table;
mod tcp;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use nearlight_fec::policy::POLICIES;
use nearlight_lab::{Options, Plan, Progress, RUNS_FILE, Shard, read_results, report, run_plan, run_plan_with};
use nearlight_net::Clock;
use nearlight_rate::PRESETS;
use nearlight_report::samples::write_parquet;
use nearlight_units::{Span, Time};

use self::bulk::BulkReceiveArguments;
use self::distortion::DistortionArguments;
use self::ladder::LadderArguments;
use self::live::Live;
use self::merge::MergeArguments;
use self::table::table;
use self::tcp::{TcpServeArguments, TcpViewArguments};

/// More than any machine has.
const MAX_THREADS: usize = 1_024;

#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan in virtual time, or in real time with --live
    Run(RunArguments),
    /// Join the results of shards into those of a single run
    Merge(MergeArguments),
    /// Write an HTML page with charts, tables and statistics about finished runs
    Report(ReportArguments),
    /// List plans, rate controllers and redundancy policies
    List(ListArguments),
    /// Show the distortion caused by encoding and by lost frames at each rate, and Nebula's model of it
    Distortion(DistortionArguments),
    /// Measure OpenUVR's optimisations one by one, from the rendered picture to the decoded one
    Ladder(LadderArguments),
    /// For `run --live`: frames over TCP, the server's end
    #[command(hide = true)]
    TcpServe(TcpServeArguments),
    /// For `run --live`: frames over TCP, the client's end
    #[command(hide = true)]
    TcpView(TcpViewArguments),
    /// For `run --live`: the receiving end of a bulk transfer
    #[command(hide = true)]
    BulkReceive(BulkReceiveArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Plan to run: a name that `nearlight lab list` prints, such as vrcc-stable, or a TOML file
    plan: PathBuf,
    /// Number of runs of each cell [default: the plan's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Run only cells with this label, such as controller=scream-v2; repeatable
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label)]
    only: Vec<(String, String)>,
    /// Replace the plan's generated capacities (`model=`) with one path for each trace file in this folder
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Run in real time over an emulated link, with a server and a headless client as processes, or a bulk transfer over the kernel's TCP
    #[arg(long, conflicts_with = "threads")]
    live: bool,
    /// Make only this part of the runs: 2/8 is the second of eight parts. `nearlight lab merge` joins them
    #[arg(long, value_name = "I/N", conflicts_with = "live")]
    shard: Option<Shard>,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
    /// Folder for finished runs [default: results/PLAN, results/PLAN-live with --live, results/PLAN-shard-I-of-N with --shard]. A later
    /// call continues an interrupted one
    #[arg(long)]
    out: Option<PathBuf>,
    /// Number of parallel runs [default: the number of processors]
    #[arg(long, value_parser = threads)]
    threads: Option<usize>,
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// Result folders, such as results/vrcc-stable; report.html, runs.csv and runs.parquet are written into each
    #[arg(required = true)]
    runs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Folder with plans [default: `plans` in the working directory, else the installed ones]
    #[arg(long)]
    plans: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(label, value)| !label.is_empty() && !value.is_empty());
    pair.map(|(label, value)| (label.to_owned(), value.to_owned()))
        .ok_or_else(|| "expected LABEL=VALUE, such as controller=scream-v2".into())
}

fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads
        .ok_or_else(|| format!("expected a number from 1 to {MAX_THREADS}; omit --threads for one run per processor"))
}

pub(crate) fn run(arguments: &LabArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Run(arguments) => run_one(arguments),
        Command::Merge(arguments) => merge::run(arguments),
        Command::Report(arguments) => write_reports(arguments),
        Command::List(arguments) => list(arguments),
        Command::Distortion(arguments) => distortion::run(arguments),
        Command::Ladder(arguments) => ladder::ladder(arguments),
        Command::TcpServe(arguments) => tcp::serve(arguments),
        Command::TcpView(arguments) => tcp::view(arguments),
        Command::BulkReceive(arguments) => bulk::receive(arguments),
    }
}

fn run_one(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::read(&plans::file(&arguments.plan)?)?;
    if let Some(folder) = &arguments.traces {
        plan = plan.over_traces(folder)?;
    }
    let name = match arguments.shard {
        Some(shard) => format!("{}-shard-{}-of-{}", plan.name, shard.index(), shard.count()),
        None if arguments.live => format!("{}-live", plan.name),
        None => plan.name.clone(),
    };
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("results").join(name));
    let options = Options {
        seeds: arguments.seeds,
        only: arguments.only.clone(),
        folder: Some(folder.clone()),
        threads: if arguments.live { Some(1) } else { arguments.threads },
        live: arguments.live,
        program: None,
        shard: arguments.shard,
    };
    let clock = Clock::start();
    let before = processor_time();
    let terminal = std::io::stderr().is_terminal();
    let mut reported_at = Time::ZERO;
    let mut report = |progress: Progress| {
        let Progress { done, all, left } = progress;
        // A line that is updated at a terminal; a log gets one every ten seconds.
        let line = format!("{done} of {all} runs, {} left", minutes(left));
        if terminal {
            eprint!("\r{line}   {}", if done == all { "\n" } else { "" });
        } else if done == all || clock.now() - reported_at >= Span::from_secs(10) {
            reported_at = clock.now();
            eprintln!("{line}");
        }
    };
    let now = || clock.now();
    let outcome = if arguments.live {
        let live = Live::new(&folder)?;
        run_plan_with(&plan, &options, &|cell, seed| live.run(cell, seed), &now, &mut report)?
    } else {
        run_plan(&plan, &options, &now, &mut report)?
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&outcome.summary).context("cannot write the figures")?);
    } else {
        if let Some(shard) = arguments.shard {
            println!("These are the results of shard {shard} alone.");
        }
        print!("{}", table(&plan, &outcome.summary));
        println!("\nThe runs are in {}.", folder.display());
    }
    if !outcome.left_out.is_empty() {
        eprintln!("nearlight: omitted, because no kernel implements it: {}", outcome.left_out.join(", "));
    }
    if arguments.live {
        eprintln!(
            "ran {:.0} s live in {:.0} s",
            outcome.simulated.as_secs_f64(),
            (clock.now() - Time::ZERO).as_secs_f64()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let (simulated, spent) = (outcome.simulated.as_secs_f64(), (processor_time() - before).as_secs_f64());
    let ratio = if spent > 0.0 { simulated / spent } else { 0.0 };
    eprintln!("simulated {simulated:.0} s in {spent:.2} CPU s ({ratio:.0} x)");
    Ok(ExitCode::SUCCESS)
}

fn minutes(span: Span) -> String {
    let seconds = span.as_secs_f64().max(0.0).round() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

/// Processor time of all threads as Linux counts it: user and system time in hundredths of a second.
fn processor_time() -> Span {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces; 11 fields follow it before the two that count.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).filter_map(|field| field.parse::<i64>().ok());
    Span::from_millis(ticks.sum::<i64>() * 10)
}

fn write_reports(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    for folder in &arguments.runs {
        let file = folder.join(RUNS_FILE);
        let (head, runs) = read_results(&file).with_context(|| {
            let file = file.display();
            format!("`{file}` contains no results: name a folder that `nearlight lab run` wrote, such as results/PLAN")
        })?;
        let page = folder.join("report.html");
        std::fs::write(&page, report::document(&head, &runs).to_html())
            .with_context(|| format!("cannot write `{}`", page.display()))?;
        let create = |name: &str| {
            let path = folder.join(name);
            let file = std::fs::File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
            anyhow::Ok((path, std::io::BufWriter::new(file)))
        };
        let samples = report::samples(&runs);
        let (rows, file) = create("runs.csv")?;
        samples.write_csv(file)?;
        let (columns, file) = create("runs.parquet")?;
        write_parquet(&samples, file)?;
        println!("{}\n{}\n{}", page.display(), rows.display(), columns.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn list(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let folder = plans::folder(arguments.plans.as_deref());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| {
            format!(
                "cannot read the plans in `{}`. They come with Nearlight's source code and installation: name their folder \
                 with --plans",
                folder.display()
            )
        })?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    println!("Plans in {}:", folder.display());
    files.sort();
    for file in files {
        match Plan::read(&file) {
            Ok(plan) => println!("  {:16} {} cells. {}", plan.name, plan.cells.len(), plan.question),
            Err(error) => println!("  {error}"),
        }
    }
    println!("\nRate controllers:");
    for preset in PRESETS {
        println!("  {:20} {}", preset.name, preset.summary);
    }
    println!("\nRedundancy policies (P is a number):");
    for policy in POLICIES {
        println!("  {:20} {}", policy.name, policy.summary);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_pair() {
        assert_eq!(label("controller=gcc-pion"), Ok(("controller".to_owned(), "gcc-pion".to_owned())));
        for wrong in ["", "controller", "=gcc", "controller="] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_threads_are_refused_with_what_to_write() {
        assert_eq!(threads("2"), Ok(2));
        for wrong in ["0", "-1", "many", "9999999"] {
            let error = threads(wrong).expect_err(wrong);
            assert!(error.contains("from 1 to") && error.contains("omit --threads"), "{error}");
        }
    }

    #[test]
    fn this_process_has_used_some_time() {
        let before = processor_time();
        let mut sum = 0_u64;
        while processor_time() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processor_time() > before);
    }
}
