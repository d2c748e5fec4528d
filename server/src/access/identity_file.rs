//! The file in which a server keeps its token and its self-signed certificate, so that links and open pages outlive a restart. Several
//! servers of one user share it.

use std::io;
use std::path::Path;

use nearlight_net::{Identity, NetError, SavedCertificate, Token, TokenError};
use serde::{Deserialize, Serialize};

use crate::access::state_file::StateFile;

/// Name of the file in its folder.
const FILE_NAME: &str = "identity.json";

/// An open file with the identity of a user's servers.
#[derive(Debug)]
pub struct IdentityFile(StateFile<SavedIdentity>);

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedIdentity {
    /// The owner's token.
    token: Option<String>,
    certificate: Option<SavedCertificate>,
}

impl IdentityFile {
    /// Opens the file in `folder`, or creates both. Only their owner can read them.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        StateFile::open(folder, FILE_NAME, "Links will not outlive this run of the server").map(Self)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Forgets the token: links with it stop working once the server that uses it has ended.
    pub fn forget_token(&self) {
        self.0.change(|saved| saved.token = None);
    }

    /// Returns the saved token. If there is none, a new one is generated and saved.
    pub(crate) fn token(&self) -> Result<Token, TokenError> {
        self.0.change(|saved| {
            if let Some(token) = saved.token.as_ref().and_then(|token| token.parse().ok()) {
                return Ok(token);
            }
            let token = Token::generate()?;
            saved.token = Some(token.to_string());
            Ok(token)
        })
    }

    /// Returns the saved certificates. Those that are due for renewal or lack one of the `hosts` are made anew and saved.
    pub(crate) fn certificate(&self, hosts: &[String]) -> Result<Identity, NetError> {
        self.0.change(|saved| {
            let identity = match &saved.certificate {
                Some(certificate) => Identity::from_saved(certificate, hosts)?,
                None => Identity::self_signed(hosts)?,
            };
            saved.certificate = identity.to_saved(hosts);
            Ok(identity)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("nearlight-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_server_that_starts_again_has_the_same_token_and_certificate() {
        let folder = folder("identity-file").join("state");
        let hosts = ["example.test".to_owned()];
        let of = |file: &IdentityFile| {
            let token = file.token().expect("a token").to_string();
            (token, file.certificate(&hosts).expect("a certificate").certificate_sha256())
        };
        let first = of(&IdentityFile::open(&folder).expect("a file"));
        let file = IdentityFile::open(&folder).expect("a file");
        assert_eq!(of(&file), first);
        let renamed = file.certificate(&[]).expect("a certificate").certificate_sha256();
        assert_ne!(renamed, first.1, "a certificate for other names");
        file.forget_token();
        assert_ne!(file.token().expect("a token").to_string(), first.0);
        #[cfg(unix)]
        for (path, mode) in [(folder.as_path(), 0o700), (file.path(), 0o600)] {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777, mode);
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let folder = folder("damaged-identity");
        let file = IdentityFile::open(&folder).expect("a file");
        let token = file.token().expect("a token").to_string();
        for damaged in ["{", "[]", r#"{"token":"short"}"#, &"x".repeat(100_000), "\u{0}"] {
            std::fs::write(file.path(), damaged).expect("written");
            let replaced = file.token().expect("a token").to_string();
            assert_ne!(replaced, token);
            assert_eq!(IdentityFile::open(&folder).expect("a file").token().expect("a token").to_string(), replaced);
        }
        std::fs::write(file.path(), [0xff, 0xfe]).expect("written");
        assert!(file.token().is_ok());
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn servers_that_start_at_once_agree() {
        let folder = folder("shared-identity");
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let start = || IdentityFile::open(&folder).expect("a file").token().expect("a token").to_string();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
