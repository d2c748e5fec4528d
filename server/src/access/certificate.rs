//! The server's certificate while the server runs: a self-signed one is made anew, and the owner's is read again when its files change.

use std::path::PathBuf;

use nearlight_net::{CertificateHash, Identity, NetError, SavedCertificate};

use crate::access::identity_file::IdentityFile;

/// The source of a server's next certificate.
pub(crate) enum CertificateSource {
    /// The server makes them: one for sessions and one for the page.
    SelfSigned {
        /// The certificates in use; those that are not due are kept.
        current: SavedCertificate,
        /// The place where they are kept between runs.
        file: Option<IdentityFile>,
    },
    /// Another program replaces the owner's files, such as a client of ACME.
    Files(CertificateFiles),
}

/// The owner's certificate and key.
pub(crate) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    current: CertificateHash,
    /// Why the files could not be used, and how often in a row.
    failure: Option<(String, u32)>,
}

impl CertificateSource {
    /// Returns the source of the certificates that follow `identity`. `files` are the owner's certificate and key, if `identity` is from files.
    pub(crate) fn new(
        identity: &Identity,
        files: Option<(PathBuf, PathBuf)>,
        names: &[String],
        file: Option<IdentityFile>,
    ) -> Option<Self> {
        if let Some(current) = identity.to_saved(names) {
            return Some(Self::SelfSigned { current, file });
        }
        let (certificate, key) = files?;
        let current = identity.certificate_sha256();
        Some(Self::Files(CertificateFiles { certificate, key, current, failure: None }))
    }

    /// Returns the next certificate if it is due, or if the owner's files have changed.
    pub(crate) fn poll(&mut self) -> Option<Identity> {
        match self {
            Self::SelfSigned { current, file } => {
                if !current.is_renewal_due() {
                    return None;
                }
                let made = match file {
                    // Another server of the same user may have made it already.
                    Some(file) => file.certificate(current.hosts()),
                    None => Identity::from_saved(current, current.hosts()),
                };
                let identity = made
                    .inspect_err(|error| tracing::error!(%error, "the self-signed certificate could not be renewed"))
                    .ok()?;
                *current = identity.to_saved(current.hosts())?;
                tracing::info!("the self-signed certificate was renewed");
                Some(identity)
            }
            Self::Files(files) => files.poll(),
        }
    }
}

impl CertificateFiles {
    fn poll(&mut self) -> Option<Identity> {
        match Identity::from_files(&self.certificate, &self.key) {
            Ok(identity) => {
                self.failure = None;
                let hash = identity.certificate_sha256();
                let is_new = std::mem::replace(&mut self.current, hash) != hash;
                if is_new {
                    tracing::info!("the certificate was read again, because its file has changed");
                }
                is_new.then_some(identity)
            }
            Err(error) => {
                self.on_failure(&error);
                None
            }
        }
    }

    /// Reports a failure once, when it is the same a second time: a program may replace the certificate a moment before the key.
    fn on_failure(&mut self, error: &NetError) {
        let reason = error.to_string();
        let times = match self.failure.take() {
            Some((known, times)) if known == reason => times.saturating_add(1),
            _ => 1,
        };
        if times == 2 {
            tracing::warn!("the certificate cannot be read again, and the previous one stays in use: {reason}");
        }
        self.failure = Some((reason, times));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &std::path::Path, identity: &(String, String)) {
        fs::write(folder.join("certificate.pem"), &identity.0).expect("a file");
        fs::write(folder.join("key.pem"), &identity.1).expect("a file");
    }

    fn pem() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["desk.example".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn the_owner_s_certificate_is_read_again_when_it_changes_and_kept_while_its_files_are_wrong() {
        let folder = std::env::temp_dir().join(format!("nearlight-certificate-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let files = (folder.join("certificate.pem"), folder.join("key.pem"));
        let (first, second) = (pem(), pem());
        write(&folder, &first);
        let identity = Identity::from_files(&files.0, &files.1).expect("a certificate");
        let mut source = CertificateSource::new(&identity, Some(files), &[], None).expect("files");
        assert!(source.poll().is_none(), "nothing has changed");
        fs::write(folder.join("certificate.pem"), &second.0).expect("a file");
        assert!(source.poll().is_none(), "the key is that of the former certificate");
        fs::write(folder.join("key.pem"), &second.1).expect("a file");
        let renewed = source.poll().expect("another certificate");
        assert_ne!(renewed.certificate_sha256(), identity.certificate_sha256());
        fs::remove_file(folder.join("key.pem")).expect("a file");
        assert!(source.poll().is_none() && source.poll().is_none());
        write(&folder, &second);
        assert!(source.poll().is_none(), "it is in use already");
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
