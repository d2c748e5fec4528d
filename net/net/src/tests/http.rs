//! One HTTP GET over either protocol of the page's port.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use nearlight_wire::MAX_CONTROL_BYTES;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::resolve;
use crate::trust::ClientTls;
use crate::{Link, NetError, Trust};

/// Longer responses are refused: the ones we request are at most as long as a control message.
const MAX_BODY_BYTES: usize = MAX_CONTROL_BYTES;

/// Time limit of request and response together. Guess: two retransmissions of TCP's first packet fit.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The body of `path` at the server of `link`: over HTTP where the link is not secure, else over HTTPS as `trust` says.
pub(super) async fn http_get(link: &Link, path: &str, trust: &Trust) -> Result<Bytes, NetError> {
    let answer = tokio::time::timeout(TIME_LIMIT, get(link, path, trust)).await;
    answer.unwrap_or_else(|_| Err(NetError::NoAnswer { target: link.authority() }))
}

async fn get(link: &Link, path: &str, trust: &Trust) -> Result<Bytes, NetError> {
    let target = link.authority();
    let addresses = resolve(&link.host, link.port).await?;
    let stream = TcpStream::connect(&addresses[..]).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => NetError::NoAnswer { target: target.clone() },
        _ => NetError::Refused { target: target.clone(), reason: error.to_string() },
    })?;
    if !link.secure {
        return exchange(stream, &target, path).await;
    }
    let tls = ClientTls::new(trust, "http/1.1");
    let connector = TlsConnector::from(Arc::new(tls.config.clone()));
    let name = ServerName::try_from(link.host.clone()).map_err(|_| NetError::Name { host: link.host.clone() })?;
    let stream = connector.connect(name, stream).await.map_err(|error| {
        tls.mismatch().unwrap_or_else(|| NetError::Protocol { target: target.clone(), reason: error.to_string() })
    })?;
    exchange(stream, &target, path).await
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
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    driver.abort();
    Ok(body.map_err(|error| failed(error.to_string()))?.to_bytes())
}
