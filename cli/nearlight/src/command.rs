//! The command line of `nearlight`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::companion::{Companion, CompanionArguments};
use crate::configuration::{self, ConfigurationArguments};
use crate::experiment::Experiment;
use crate::log::format::LogFormat;
#[cfg(target_os = "linux")]
use crate::program;
use crate::terminal::{CommandLine, DEFAULT_LOG_FILTER, QUIET_LOG_FILTER};
use crate::{docs, doctor, front, hook, links, serve, view};

/// Rendered far away, felt near by.
#[derive(Debug, Parser)]
// Without an empty line after the first one, so that it fits a screen of 24 lines.
#[command(name = "nearlight", version, long_about = None, help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve an interactive 3D world, or any program's window, and print the link to it
    Serve(Box<serve::ServeArguments>),
    /// Direct clients to a server of a fleet that has room for them
    Front(Box<front::FrontArguments>),
    /// Run an OpenGL or Vulkan program and stream its window from within its process
    Hook(Box<hook::HookArguments>),
    /// Show a stream in a window, or measure it without one
    View(Box<view::ViewArguments>),
    /// List, add and revoke links to this user's servers
    Links(links::LinksArguments),
    /// Pair a device by a code of six digits, list and revoke paired ones
    Devices(links::DevicesArguments),
    /// Print or check a configuration file for `serve`
    Config(ConfigurationArguments),
    /// Check what this machine can do, and what to install or change
    Doctor(doctor::DoctorArguments),
    /// Open the documentation, which packages contain
    Docs(docs::DocsArguments),
    /// Run a command, or a shell, behind an emulated link
    Link(CompanionArguments),
    /// Run experiments in virtual time, and list plans, rate controllers and redundancy policies
    Lab(CompanionArguments),
    /// Send a crowd of synthetic members into a server's rooms, and report what they notice
    Swarm(CompanionArguments),
    /// Simulate headsets in an 802.11ax cell in virtual time
    Wifi(CompanionArguments),
    /// Analyse a packet capture of a stream: contents, frame timing, effects of the network
    Analyze(CompanionArguments),
    /// Load Hera's congestion control into the kernel, for all TCP connections of this machine (Linux, root)
    Kernel(CompanionArguments),
    /// Supervise a served program
    #[cfg(target_os = "linux")]
    #[command(name = program::SUPERVISOR, hide = true)]
    ProgramSupervisor,
}

impl CommandLine for Arguments {
    fn default_log_filter(&self) -> &'static str {
        match &self.command {
            Command::Serve(serve) if serve.is_quiet() => QUIET_LOG_FILTER,
            Command::Front(front) if front.is_quiet() => QUIET_LOG_FILTER,
            _ => DEFAULT_LOG_FILTER,
        }
    }

    fn log_format(&self) -> Option<LogFormat> {
        match &self.command {
            Command::Serve(serve) => serve.log_format(),
            Command::Front(front) => front.log_format(),
            _ => None,
        }
    }

    fn starts_other_programs(&self) -> bool {
        matches!(self.command, Command::Link(_))
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        // A companion parses the whole command line again, its own command's name included.
        let lab = || Companion::Lab.take_over(std::env::args_os().skip(1));
        match self.command {
            Command::Serve(serve) if serve.experiment.is_given() => lab(),
            Command::Serve(serve) => serve::run(*serve, Experiment::none()),
            Command::Front(front) => front::run(*front),
            Command::Hook(hook) => hook::run(*hook),
            Command::View(view) if view.experiment.is_given() => lab(),
            Command::View(view) => view::run(*view, Experiment::none()),
            Command::Links(links) => links::run_links(&links),
            Command::Devices(devices) => links::run_devices(&devices),
            Command::Config(config) => configuration::run::<Self>(config),
            Command::Doctor(doctor) => doctor::run(&doctor),
            Command::Docs(docs) => docs::run(&docs),
            Command::Link(_) | Command::Lab(_) | Command::Swarm(_) | Command::Wifi(_) | Command::Analyze(_) => lab(),
            Command::Kernel(kernel) => Companion::Kernel.take_over(kernel.arguments),
            #[cfg(target_os = "linux")]
            Command::ProgramSupervisor => Ok(program::supervise()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn arguments_of_companions_are_not_looked_at() {
        for line in ["nearlight lab run --help", "nearlight link --rate 10mbit -- sh -c ls", "nearlight kernel"] {
            Arguments::try_parse_from(line.split(' ')).expect(line);
        }
    }

    #[test]
    fn a_program_is_named_with_or_without_dashes_before_it() {
        for line in
            ["nearlight serve --port 0 xterm -e top --port 3", "nearlight serve --port 0 -- xterm -e top --port 3"]
        {
            let parsed = format!("{:?}", Arguments::try_parse_from(line.split(' ')).expect(line));
            assert!(
                parsed.contains(r#"["xterm", "-e", "top", "--port", "3"]"#) && parsed.contains("port: 0"),
                "{parsed}"
            );
        }
    }

    #[test]
    fn help_fits_one_screen() {
        let help = Arguments::try_parse_from(["nearlight", "--help"]).expect_err("help").to_string();
        assert!(help.lines().count() <= 24 && help.lines().all(|line| line.len() <= 120), "{help}");
    }
}
