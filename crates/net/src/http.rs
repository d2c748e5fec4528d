//! One HTTP GET, for what a native client must know before it opens a session.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use nearlight_wire::MAX_CONTROL_BYTES;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::resolve;
use crate::trust::ClientTls;
use crate::{CertificateHash, Link, NetError, Trust};

/// Where a server tells what its clients need before they open a session.
pub const SESSION_INFO_PATH: &str = "/session.json";

/// Longer answers are refused: what we ask for is a control message's size at most.
const LONGEST_BODY: usize = MAX_CONTROL_BYTES;

/// The whole question and answer. Guess: two retransmissions of TCP's first packet fit.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// What [`SESSION_INFO_PATH`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The certificate that clients pin; none where an authority vouches for it.
    pub certificate_sha256: Option<CertificateHash>,
}

/// Finds out which certificate to accept from the server of `link`.
///
/// A hash in the link decides. Else the server is asked: over HTTP on the word of the network, over HTTPS on the word of the
/// platform's roots, and where these do not know the certificate on first use, with a warning in the log: the session is then
/// opened with the very certificate that was shown.
pub async fn discover_trust(link: &Link) -> Result<Trust, NetError> {
    if let Some(hash) = link.certificate {
        return Ok(Trust::Certificate(hash));
    }
    let (body, presented) = match ask(link, SESSION_INFO_PATH, &Trust::Roots).await {
        Err(NetError::Protocol { .. } | NetError::NoRoots(_)) if link.secure => {
            tracing::warn!(
                server = link.authority(),
                "no authority vouches for the server; taking its word on first use"
            );
            ask(link, SESSION_INFO_PATH, &Trust::FirstUse).await?
        }
        answer => answer?,
    };
    let info: SessionInfo = serde_json::from_slice(&body)
        .map_err(|_| NetError::Protocol { target: link.authority(), reason: "its session.json is not ours".into() })?;
    Ok(info.certificate_sha256.or(presented).map_or(Trust::Roots, Trust::Certificate))
}

/// The body of `path` at the server of `link`: over HTTP where the link is not secure, else over HTTPS as `trust` says.
pub async fn http_get(link: &Link, path: &str, trust: &Trust) -> Result<Bytes, NetError> {
    Ok(ask(link, path, trust).await?.0)
}

/// The body, and the certificate that was shown where no root had to vouch for it.
async fn ask(link: &Link, path: &str, trust: &Trust) -> Result<(Bytes, Option<CertificateHash>), NetError> {
    let answer = tokio::time::timeout(TIME_LIMIT, get(link, path, trust)).await;
    answer.unwrap_or_else(|_| Err(NetError::NoAnswer { target: link.authority() }))
}

async fn get(link: &Link, path: &str, trust: &Trust) -> Result<(Bytes, Option<CertificateHash>), NetError> {
    let target = link.authority();
    let addresses = resolve(&link.host, link.port).await?;
    let stream = TcpStream::connect(&addresses[..]).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => NetError::NoAnswer { target: target.clone() },
        _ => NetError::Refused { target: target.clone(), reason: error.to_string() },
    })?;
    if !link.secure {
        return Ok((exchange(stream, &target, path).await?, None));
    }
    let tls = ClientTls::new(trust, "http/1.1")?;
    let connector = TlsConnector::from(Arc::new(tls.config.clone()));
    let name = ServerName::try_from(link.host.clone()).map_err(|_| NetError::Name { host: link.host.clone() })?;
    let stream = connector.connect(name, stream).await.map_err(|error| {
        tls.mismatch().unwrap_or_else(|| NetError::Protocol { target: target.clone(), reason: error.to_string() })
    })?;
    Ok((exchange(stream, &target, path).await?, tls.presented()))
}

async fn exchange<S>(stream: S, target: &str, path: &str) -> Result<Bytes, NetError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |reason: String| NetError::Protocol { target: target.to_owned(), reason };
    let (mut sender, driver) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
    let driver = tokio::spawn(driver);
    let request = Request::get(path)
        .header(header::HOST, target)
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    let status = response.status();
    if !status.is_success() {
        return Err(NetError::WrongPath { target: target.to_owned(), status: status.as_u16() });
    }
    let body = Limited::new(response.into_body(), LONGEST_BODY).collect().await;
    driver.abort();
    Ok(body.map_err(|error| failed(error.to_string()))?.to_bytes())
}
