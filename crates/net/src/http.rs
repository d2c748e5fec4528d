//! What the page asks for before it opens a session.

use serde::{Deserialize, Serialize};

use crate::CertificateHash;

/// Where a server tells what its page needs before it opens a session.
pub const SESSION_INFO_PATH: &str = "/session.json";

/// What [`SESSION_INFO_PATH`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The certificate that browsers pin; none where an authority vouches for it.
    pub certificate_sha256: Option<CertificateHash>,
}
