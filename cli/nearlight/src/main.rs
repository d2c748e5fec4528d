//! The `nearlight` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nearlight_cli::terminal::run::<nearlight_cli::Arguments>()
}
