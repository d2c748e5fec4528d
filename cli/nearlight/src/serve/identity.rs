//! Where the server keeps its token, its self-signed certificate and the links of others between runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use nearlight_server::{IdentityFile, LinkFile};

#[derive(Debug, Args)]
pub(super) struct IdentityArguments {
    /// Folder that keeps the token, the self-signed certificate, and the links and devices that were added, so that links stay valid
    /// [default: nearlight in `XDG_STATE_HOME`, which is usually ~/.local/state; none with --port 0]
    #[arg(long, value_name = "FOLDER", conflicts_with = "ephemeral")]
    state: Option<PathBuf>,
    /// Keep nothing between runs: each start has a new token and a new certificate
    #[arg(long)]
    ephemeral: bool,
    /// Replace the token that is kept between runs: all former links stop working
    #[arg(long, conflicts_with_all = ["ephemeral", "token"])]
    new_token: bool,
}

/// The files of a server.
pub(super) struct StateFiles {
    pub(super) identity: IdentityFile,
    pub(super) links: LinkFile,
}

impl StateFiles {
    fn open(folder: &Path) -> std::io::Result<Self> {
        Ok(Self { identity: IdentityFile::open(folder)?, links: LinkFile::open(folder)? })
    }
}

impl IdentityArguments {
    /// Opens the files of a server on this port. None if nothing is kept. `is_needed`: whether links end with this run otherwise.
    ///
    /// # Errors
    /// If the folder that the user has named cannot be used. The usual folder is not needed: without it the log says that links end.
    pub(super) fn open(&self, port: u16, is_needed: bool) -> anyhow::Result<Option<StateFiles>> {
        let Some(folder) = self.folder(port, is_needed, |name| std::env::var_os(name))? else { return Ok(None) };
        let files = match StateFiles::open(&folder) {
            Ok(files) => files,
            Err(error) if self.state.is_some() || self.new_token => {
                return Err(error).with_context(|| format!("cannot keep a token in {}", folder.display()));
            }
            Err(_) if !is_needed => return Ok(None),
            Err(error) => {
                tracing::warn!(
                    "cannot keep the token and the certificate in {} ({error}), so links end with this run: give --state or --ephemeral",
                    folder.display()
                );
                return Ok(None);
            }
        };
        if self.new_token {
            files.identity.forget_token();
        }
        Ok(Some(files))
    }

    fn folder(
        &self,
        port: u16,
        is_needed: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<Option<PathBuf>> {
        if self.state.is_some() {
            return Ok(self.state.clone());
        }
        // No link outlives a run if its port does not.
        let folder = if self.ephemeral || port == 0 { None } else { usual_folder(variable) };
        anyhow::ensure!(
            folder.is_some() || !self.new_token,
            "--new-token replaces a token that is kept between runs, and this server keeps none: give --state too"
        );
        if folder.is_none() && is_needed && !self.ephemeral && port != 0 {
            tracing::warn!(
                "there is no home folder to keep the token in, so links end with this run: give --state or --ephemeral"
            );
        }
        Ok(folder)
    }
}

/// Returns the folder for the state of this user's servers: systemd's `StateDirectory=`, else that of the XDG Base Directory Specification.
pub(crate) fn usual_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // Several folders are separated by colons.
    let of_service = variable("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    of_service.filter(|path| path.is_absolute()).or_else(|| {
        let of_user = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(of_user.join("nearlight"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables = &'static [(&'static str, &'static str)];

    #[test]
    fn the_folder_is_that_of_the_service_or_of_the_user_and_none_for_a_free_port() {
        let usual = IdentityArguments { state: None, ephemeral: false, new_token: false };
        let cases: [(Variables, Option<&str>); 6] = [
            (&[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), ("HOME", "/root")], Some("/var/lib/a")),
            (&[("XDG_STATE_HOME", "/state"), ("HOME", "/home/ada")], Some("/state/nearlight")),
            (&[("XDG_STATE_HOME", "relative"), ("HOME", "/home/ada")], Some("/home/ada/.local/state/nearlight")),
            (&[("XDG_STATE_HOME", ""), ("HOME", "/home/ada")], Some("/home/ada/.local/state/nearlight")),
            (&[("HOME", "")], None),
            (&[], None),
        ];
        for (variables, expected) in cases {
            let of = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            assert_eq!(usual.folder(8090, true, of).expect("a choice"), expected.map(PathBuf::from), "{variables:?}");
            assert_eq!(usual.folder(0, true, of).expect("a choice"), None);
            let ephemeral = IdentityArguments { state: None, ephemeral: true, new_token: false };
            assert_eq!(ephemeral.folder(8090, true, of).expect("a choice"), None);
        }
        let renewing = IdentityArguments { state: None, ephemeral: false, new_token: true };
        assert!(renewing.folder(0, true, |_| None).expect_err("nothing to renew").to_string().contains("--state"));
    }
}
