//! Runs a plan on one thread and prints its figures: for profilers, which want neither threads nor a folder of results.
//!
//! `cargo run --release -p nearlight-lab --example cell -- plans/vrcc-stable.toml [SEEDS] [LABEL=VALUE ...]`

use std::process::ExitCode;

use nearlight_lab::{Options, Plan, run_plan};
use nearlight_units::Time;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "plans/vrcc-stable.toml".to_owned());
    let mut options = Options { threads: Some(1), ..Options::default() };
    for argument in arguments {
        match argument.split_once('=') {
            Some((label, value)) => options.only.push((label.to_owned(), value.to_owned())),
            None => options.seeds = argument.parse().ok(),
        }
    }
    let outcome = Plan::read(file.as_ref())
        .map_err(|error| error.to_string())
        .and_then(|plan| run_plan(&plan, &options, &|| Time::ZERO, &mut |_| {}).map_err(|error| error.to_string()));
    match outcome {
        Ok(outcome) => {
            for cell in &outcome.summary.cells {
                println!("{:?}", cell.labels);
                for (name, figure) in &cell.metrics {
                    println!(
                        "  {name:26} {:12.4} ± {:8.4}  p50 {:10.4}  p95 {:10.4}  p99 {:10.4}  n {}",
                        figure.mean, figure.ci95, figure.p50, figure.p95, figure.p99, figure.n
                    );
                }
                for flow in &cell.flows {
                    let rate = flow.metrics.get("received_mbps");
                    println!("  flow {:10} {:?}", flow.flow, rate.map(|rate| rate.mean));
                }
            }
            println!("simulated {} s", outcome.simulated.as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
