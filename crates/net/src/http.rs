//! What the page requests before it opens a session.

use serde::{Deserialize, Serialize};

use crate::CertificateHash;

/// The path of the data that the page needs before it opens a session.
pub const SESSION_INFO_PATH: &str = "/session.json";

/// What [`SESSION_INFO_PATH`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The certificate that browsers pin; none where an authority vouches for it.
    pub certificate_sha256: Option<CertificateHash>,
}
