//! The `nearlight-lab` command: experiments, emulated paths, synthetic crowds and captures.
//!
//! It also has `serve` and `view`, for sessions whose path, codecs or clock an experiment replaces. `nearlight` passes such command lines to it, so
//! that users need only one name.

#![deny(unsafe_code)]

mod analyze;
mod documents;
mod experiment;
mod lab;
#[cfg(target_os = "linux")]
mod ladder;
mod link;
mod stand_in;
mod swarm;
mod wifi;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(target_os = "linux")]
use nearlight_cli::program;
use nearlight_cli::terminal::{self, CommandLine, DEFAULT_LOG_FILTER, QUIET_LOG_FILTER};
use nearlight_cli::{LogFormat, serve, view};

/// Experiments with Nearlight, in virtual time and over emulated links.
#[derive(Debug, Parser)]
#[command(name = "nearlight-lab", bin_name = "nearlight", version, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments in virtual time, and list plans, rate controllers and redundancy policies
    Lab(lab::LabArguments),
    /// Run a command, or a shell, behind an emulated link
    Link(Box<link::LinkArguments>),
    /// Send a crowd of synthetic members into a server's rooms, or simulate it in virtual time, and report what they notice
    Swarm(Box<swarm::SwarmArguments>),
    /// Simulate headsets in an 802.11ax cell in virtual time
    Wifi(Box<wifi::WifiArguments>),
    /// Analyse a packet capture of a stream: contents, frame timing, effects of the network
    Analyze(analyze::AnalyzeArguments),
    /// Serve as `nearlight serve` does, with an emulated path or a model in place of the codec
    Serve(Box<serve::ServeArguments>),
    /// View as `nearlight view` does, with an emulated path or a model in place of the codec
    View(Box<view::ViewArguments>),
    /// Write manual pages and shell completions of all commands
    #[command(hide = true)]
    Documents(documents::DocumentsArguments),
    /// Supervise a served program
    #[cfg(target_os = "linux")]
    #[command(name = program::SUPERVISOR, hide = true)]
    ProgramSupervisor,
}

impl CommandLine for Arguments {
    fn default_log_filter(&self) -> &'static str {
        match &self.command {
            Command::Serve(serve) if serve.is_quiet() => QUIET_LOG_FILTER,
            // Its result counts what its many connections would log.
            Command::Swarm(_) => QUIET_LOG_FILTER,
            _ => DEFAULT_LOG_FILTER,
        }
    }

    fn log_format(&self) -> Option<LogFormat> {
        match &self.command {
            Command::Serve(serve) => serve.log_format(),
            _ => None,
        }
    }

    fn starts_other_programs(&self) -> bool {
        matches!(self.command, Command::Link(_))
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Lab(lab) => lab::run(&lab),
            Command::Link(link) => link::run(*link),
            Command::Swarm(swarm) => swarm::run(&swarm),
            Command::Wifi(wifi) => wifi::run(&wifi),
            Command::Analyze(analyze) => analyze::run(&analyze),
            Command::Serve(arguments) => {
                let experiment = experiment::of_server(&arguments)?;
                serve::run(*arguments, experiment)
            }
            Command::View(arguments) => {
                let experiment = experiment::of_viewer(&arguments)?;
                view::run(*arguments, experiment)
            }
            Command::Documents(documents) => documents::run(&documents),
            #[cfg(target_os = "linux")]
            Command::ProgramSupervisor => Ok(program::supervise()),
        }
    }
}

fn main() -> ExitCode {
    terminal::run::<Arguments>()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
