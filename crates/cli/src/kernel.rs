//! `nearlight kernel`: finds the command for it, which is built separately, and becomes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::bail;
use clap::Args;

/// The command that loads programs into the kernel. Not part of this one: building it takes a compiler for BPF, and it runs as root.
const PROGRAM: &str = "nearlight-kernel";

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KernelArguments {
    /// load, status, unload or run, and their arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(arguments: KernelArguments) -> anyhow::Result<ExitCode> {
    become_program(program()?.args(arguments.arguments))
}

/// The command, without arguments: beside this program, or where the system looks for commands.
pub(crate) fn program() -> anyhow::Result<Command> {
    if !cfg!(target_os = "linux") {
        bail!("congestion control can be loaded into Linux only; this is another system");
    }
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let places: Vec<PathBuf> = beside.into_iter().chain(folders.map(|folder| folder.join(PROGRAM))).collect();
    match places.into_iter().find(|place| place.is_file()) {
        Some(place) => Ok(Command::new(place)),
        None => bail!(
            "`{PROGRAM}`, which loads congestion control into the kernel, is neither beside this program nor in PATH: build it with `make \
             kernel`, which installs and uses clang, libelf-dev and zlib1g-dev"
        ),
    }
}

#[cfg(unix)]
fn become_program(command: &mut Command) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    let error = command.exec();
    bail!("cannot run {}: {error}", command.get_program().display());
}

#[cfg(not(unix))]
fn become_program(_: &mut Command) -> anyhow::Result<ExitCode> {
    unreachable!("there is no such program on this system")
}
