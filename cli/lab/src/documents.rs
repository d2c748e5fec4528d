//! Manual pages and shell completions of all commands, made from the structures that parse their arguments.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::Arguments;

/// The commands that `nearlight` passes on to this program, whose arguments only this program knows.
const PASSED_ON: [&str; 5] = ["lab", "link", "swarm", "wifi", "analyze"];
/// Folders of a prefix in which shells look for completions.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "nearlight"),
    (Shell::Zsh, "share/zsh/site-functions", "_nearlight"),
    (Shell::Fish, "share/fish/vendor_completions.d", "nearlight.fish"),
];

/// Arguments of the command that writes the documents.
#[derive(Debug, Args)]
pub(crate) struct DocumentsArguments {
    /// The folder to write to, such as an installation's prefix: files go into its `share/man/man1` and the folders of the shells
    folder: PathBuf,
}

/// Returns the command line of `nearlight`, with the arguments of the commands that it passes on.
fn whole_command() -> Command {
    let own = Arguments::command();
    PASSED_ON.iter().fold(nearlight_cli::Arguments::command(), |command, name| match own.find_subcommand(name) {
        Some(known) => command.mut_subcommand(*name, |_| known.clone()),
        None => command,
    })
}

pub(crate) fn run(arguments: &DocumentsArguments) -> anyhow::Result<ExitCode> {
    let manual = arguments.folder.join("share/man/man1");
    fs::create_dir_all(&manual).with_context(|| format!("cannot create {}", manual.display()))?;
    clap_mangen::generate_to(whole_command(), &manual)
        .with_context(|| format!("cannot write manual pages to {}", manual.display()))?;
    for (shell, folder, file) in COMPLETIONS {
        let folder = arguments.folder.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut whole_command(), "nearlight", &mut script);
        let file = folder.join(file);
        fs::write(&file, script).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_passed_on_has_its_arguments() {
        let command = whole_command();
        for name in PASSED_ON {
            let passed = command.find_subcommand(name).expect(name);
            assert!(
                passed.has_subcommands() || passed.get_arguments().any(|argument| argument.get_help().is_some()),
                "{name}"
            );
        }
        command.debug_assert();
    }
}
