//! The page's request before it opens a session.

use serde::{Deserialize, Serialize};

use crate::CertificateHash;

/// The path of the data that the page needs before it opens a session.
pub const SESSION_INFO_PATH: &str = "/session.json";

/// The content of [`SESSION_INFO_PATH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The certificate that browsers pin. None if an authority vouches for it.
    pub certificate_sha256: Option<CertificateHash>,
}
