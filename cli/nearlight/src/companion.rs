//! Companion commands, which are built and installed separately.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::bail;
use clap::Args;

/// A separate command that `nearlight` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Companion {
    /// Experiments: plans in virtual time, emulated paths, synthetic crowds, captures.
    Lab,
    /// Congestion control in the kernel. Building it takes a compiler for BPF, and it runs as root.
    Kernel,
}

impl Companion {
    const fn name(self) -> &'static str {
        match self {
            Self::Lab => "nearlight-lab",
            Self::Kernel => "nearlight-kernel",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Lab => "experiments, emulated paths and captures are in it; `make build` builds both commands",
            Self::Kernel => {
                "it loads congestion control into the kernel; `make kernel`, which installs and uses clang, libelf-dev and zlib1g-dev, builds it"
            }
        }
    }

    /// Returns the command without arguments. It is searched beside this program, then in PATH.
    ///
    /// # Errors
    /// It is in neither place, or this system does not support it.
    pub fn command(self) -> anyhow::Result<Command> {
        if self == Self::Kernel && !cfg!(target_os = "linux") {
            bail!("congestion control can be loaded into Linux only; this is another system");
        }
        let name = self.name();
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let places: Vec<PathBuf> = beside.into_iter().chain(folders.map(|folder| folder.join(name))).collect();
        match places.into_iter().find(|place| place.is_file()) {
            Some(place) => Ok(Command::new(place)),
            None => bail!("`{name}` is neither beside this program nor in PATH: {}", self.advice()),
        }
    }

    /// Runs the companion in place of this process, with these arguments.
    pub(crate) fn take_over(self, arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
        become_program(self.command()?.args(arguments))
    }
}

/// The arguments of a command that a companion runs; only the companion understands them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct CompanionArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[cfg(unix)]
fn become_program(command: &mut Command) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    let error = command.exec();
    bail!("cannot run {}: {error}", command.get_program().display());
}

#[cfg(not(unix))]
fn become_program(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
