//! `nearlight analyze`: the traffic study of a packet capture.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_analyze::{Comparison, Limits, Study, Traffic, document, words};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// Capture file, pcap or pcapng; truncated packets and files are accepted
    capture: PathBuf,
    /// Analyse the conversation of this endpoint [default: the conversation with the most bytes]
    #[arg(long, value_name = "IP:PORT")]
    sender: Option<SocketAddr>,
    /// Capture of the traffic at the receiver; adds delays, losses and changes of timing
    #[arg(long, value_name = "CAPTURE")]
    receiver: Option<PathBuf>,
    /// Maximum number of packets per capture to search for frames, batches and delays; each takes 32 bytes of memory
    #[arg(long, value_name = "COUNT")]
    packets: Option<usize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Write an HTML page with the results
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(arguments: &AnalyzeArguments) -> anyhow::Result<ExitCode> {
    refuse_overwriting(arguments)?;
    let limits = arguments.packets.map_or_else(Limits::default, |packets| Limits { packets });
    let traffic = read(&arguments.capture, limits)?;
    let study = Study::new(&traffic, arguments.sender).with_context(|| arguments.capture.display().to_string())?;
    let comparison = match &arguments.receiver {
        Some(path) => {
            let compared = Comparison::new(&traffic, &read(path, limits)?, arguments.sender);
            Some(compared.with_context(|| format!("{} beside {}", path.display(), arguments.capture.display()))?)
        }
        None => None,
    };
    if let Some(file) = &arguments.html {
        std::fs::write(file, document(&study, comparison.as_ref()).to_html())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        println!("{}", json!({ "study": study, "comparison": comparison }));
    } else {
        print!("{}", words(&study, comparison.as_ref()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to overwrite a capture with the page: captures cannot be repeated.
fn refuse_overwriting(arguments: &AnalyzeArguments) -> anyhow::Result<()> {
    let Some(page) = arguments.html.as_ref().and_then(|page| page.canonicalize().ok()) else { return Ok(()) };
    let captures = [Some(&arguments.capture), arguments.receiver.as_ref()];
    let mut captures = captures.into_iter().flatten().filter_map(|capture| capture.canonicalize().ok());
    anyhow::ensure!(
        !captures.any(|capture| capture == page),
        "--html {} is a capture: give the page another name",
        page.display()
    );
    Ok(())
}

fn read(path: &Path, limits: Limits) -> anyhow::Result<Traffic> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let traffic = Traffic::read(file, &limits).with_context(|| path.display().to_string())?;
    for warning in traffic.capture.warnings() {
        eprintln!("nearlight: {}: {warning}", path.display());
    }
    Ok(traffic)
}
