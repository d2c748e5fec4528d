//! Serves one TCP connection of the page's port as HTTP/1 or HTTP/2: limits in time and memory, permitted hosts, where plain HTTP is
//! allowed, proxies in front of it, and the headers of every response.

pub(crate) mod devices;
pub(crate) mod forwarding;
pub(crate) mod given_links;

pub(crate) mod page;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::uri::Scheme;
use axum::http::{HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use nearlight_net::{Clock, PageStream, RateLimiter, RatePolicy};
use nearlight_units::{Span, Time, lock};
use serde::Serialize;

use crate::access::hosts::{Hosts, requested_host};
use crate::http::forwarding::{PathPrefix, Requester, TrustedProxies, is_forwarded};
use crate::state::clean;
use crate::transports::rtc::whep::{Client, HttpRefusal};
use crate::transports::urs;

/// Longest time from accepting a connection to its first complete request, TLS included. Guess: a browser's handshake over a path with 10 %
/// loss takes less. Browsers also open connections in advance, which are cheap to reopen.
const FIRST_REQUEST_LIMIT: Span = Span::from_secs(10);
/// Longest time that a connection stays open without requests and without progress on a response. Guess: a page polls more often.
const IDLE_LIMIT: Span = Span::from_secs(30);
/// Longest time that a client may take to send the head of a request, and to send another one over HTTP/1.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// Interval of pings on an idle HTTP/2 connection, which is closed if the client does not answer within [`PING_LIMIT`].
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_LIMIT: Duration = Duration::from_secs(5);
/// Longest time that a closing connection may take for its last responses.
const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Concurrent requests on one HTTP/2 connection. The page has seven files.
const MAX_HTTP2_STREAMS: u32 = 8;
/// Size of the chunks of a response. One or two of them are queued per request in progress.
const CHUNK_BYTES: usize = 16 << 10;
/// Unread body data that a client may send in one stream: the largest offer that is accepted.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
const MAX_HEAD_BYTES: u32 = 16 << 10;
const HTTP1_BUFFER_BYTES: usize = 64 << 10;

/// Refusals that are logged: 16 per address at once, then one per interval.
const REFUSAL_LOG_RATE: RatePolicy = RatePolicy { at_once: 16, interval: Span::from_secs(5), addresses: 1_024 };

/// Headers of a response whose route does not set them itself. Other sites must not embed anything from here.
const DEFAULT_HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Answers with JSON that no browser and no proxy keeps.
pub(crate) fn uncached_json(body: impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
struct Limits {
    first_request: Span,
    idle: Span,
}

/// The state that all connections share.
pub(crate) struct Site {
    router: Router,
    hosts: Hosts,
    proxies: TrustedProxies,
    prefix: PathPrefix,
    /// Whether a proxy that is not trusted was seen and named in the log.
    has_seen_stranger: AtomicBool,
    /// Whether other machines may request Unity's routes over plain HTTP.
    unity: bool,
    limits: Limits,
    clock: Clock,
    refusal_log: Mutex<RefusalLog>,
}

/// The rate limit of logged refusals, and how many per address were suppressed since the last one.
struct RefusalLog {
    limiter: RateLimiter,
    left_out: BTreeMap<IpAddr, u64>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// The client, which a trusted proxy may have named.
    client: Requester,
    /// The other end of the connection.
    peer: IpAddr,
    /// The local address that the peer connected to.
    local: IpAddr,
}

impl Site {
    pub(crate) fn new(router: Router, hosts: Hosts, unity: bool, clock: Clock) -> Self {
        let limits = Limits { first_request: FIRST_REQUEST_LIMIT, idle: IDLE_LIMIT };
        let refusal_log = RefusalLog { limiter: RateLimiter::new(REFUSAL_LOG_RATE), left_out: BTreeMap::new() };
        let (proxies, prefix, has_seen_stranger) = (TrustedProxies::default(), PathPrefix::default(), false.into());
        let refusal_log = Mutex::new(refusal_log);
        Self { router, hosts, proxies, prefix, has_seen_stranger, unity, limits, clock, refusal_log }
    }

    /// Believes what these proxies say about their clients, and serves the page below `prefix` as well.
    pub(crate) fn behind(self, proxies: TrustedProxies, prefix: PathPrefix) -> Self {
        Self { proxies, prefix, ..self }
    }

    /// Serves one connection until its client closes it or takes too long.
    pub(crate) async fn serve(self: Arc<Self>, stream: PageStream) {
        let (clock, limits) = (stream.clock(), self.limits);
        let progress = Arc::new(Progress::new(clock, stream.accepted_at() + limits.first_request));
        let (peer, local) = (stream.peer().ip(), stream.local().ip());
        let connection_end = Requester { address: peer, secure: stream.secure() };
        let (reservation, tcp) = (stream.reservation(), stream.tcp());
        let (site, seen) = (Arc::clone(&self), Arc::clone(&progress));
        let layer = from_fn(move |mut request: Request, next: Next| {
            let (site, progress) = (Arc::clone(&site), Arc::clone(&seen));
            let client = site.proxies.requester(connection_end, request.headers());
            site.notice_stranger(peer, &request);
            request.extensions_mut().insert(Client(client.address));
            request.extensions_mut().insert(if client.secure { Scheme::HTTPS } else { Scheme::HTTP });
            request.extensions_mut().insert(reservation.clone());
            request.extensions_mut().insert(tcp.clone());
            async move {
                progress.extend(site.limits.idle);
                let response = site.answer(Origin { client, peer, local }, request, next).await;
                progress.extend(site.limits.idle);
                response.map(|body| Body::new(ChunkedBody::new(body, progress, site.limits.idle)))
            }
        });
        // The layer may change a request's path, so it stands before the routes.
        let service = TowerToHyperService::new(Router::new().fallback_service(self.router.clone()).layer(layer));
        let builder = builder();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = loop {
            let deadline = progress.deadline();
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = clock.sleep_until(deadline) => if progress.deadline() <= clock.now() {
                    tracing::debug!(%peer, "a page connection was idle for too long; closed");
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(CLOSING_LIMIT, connection).await;
                    return;
                },
            }
        };
        // A client that disconnects is not the server's fault.
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a page connection broke off");
        }
    }

    /// Tells the owner once about a proxy on this machine that is not trusted, because its clients are counted as one.
    fn notice_stranger(&self, peer: IpAddr, request: &Request) {
        let is_stranger = peer.is_loopback() && !self.proxies.contains(peer) && request.version() >= Version::HTTP_11;
        if is_stranger && is_forwarded(request) && !self.has_seen_stranger.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "a proxy at {peer} passes on requests; all its clients count as {peer}, unless the server is started with --trusted-proxies {peer}"
            );
        }
    }

    async fn answer(&self, origin: Origin, mut request: Request, next: Next) -> Response {
        let redirect = self.prefix.strip(&mut request);
        let path = request.uri().path().to_owned();
        let refused = self.refusal(origin, &request).or(redirect);
        let mut response = if let Some(refused) = refused {
            refused
        } else {
            let mut response = next.run(request).await;
            self.prefix.restore(&mut response);
            response
        };
        if let Some(refused) = response.extensions().get::<HttpRefusal>() {
            self.log(origin.client.address, &path, refused);
        }
        for (name, value) in DEFAULT_HEADERS {
            response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        response
    }

    /// Returns the response to a request that is not for this server or that uses a scheme it may not use, and none for all others.
    fn refusal(&self, origin: Origin, request: &Request) -> Option<Response> {
        let Origin { client: Requester { secure, .. }, peer, local } = origin;
        let host = match requested_host(request) {
            Ok(host) => host,
            Err(refused) => return Some(refused.into_response()),
        };
        if !self.hosts.allows(&host, local, secure) {
            let words = "this server does not accept requests for that host name: open a link that it printed, or start it with --host NAME";
            return Some(HttpRefusal::new(StatusCode::MISDIRECTED_REQUEST, words).into_response());
        }
        let plain = self.unity && urs::is_own(request.method(), request.uri(), request.headers());
        if secure || peer.is_loopback() || plain {
            return None;
        }
        // Browsers allow WebTransport in a secure context only: over plain HTTP only this machine counts as one.
        let target = format!("https://{host}{}{}", self.prefix.as_str(), request.uri().path());
        Some((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response())
    }

    /// Logs a refusal. The rate is limited, so that strangers cannot fill the log.
    fn log(&self, client: IpAddr, path: &str, refused: &HttpRefusal) {
        if refused.is_ordinary {
            let (status, reason) = (refused.status.as_u16(), clean(&refused.message));
            return tracing::debug!(%client, status, reason, "a request was refused");
        }
        let mut refusal_log = lock(&self.refusal_log);
        let RefusalLog { limiter, left_out } = &mut *refusal_log;
        if limiter.take(self.clock.now(), client).is_err() {
            // The limiter remembers as many addresses.
            if left_out.len() < REFUSAL_LOG_RATE.addresses || left_out.contains_key(&client) {
                *left_out.entry(client).or_default() += 1;
            }
            return;
        }
        let left_out = left_out.remove(&client).unwrap_or(0);
        // The rest of the path may be the name of a session, which is a secret.
        let route = clean(path.split('/').nth(1).unwrap_or_default());
        let (status, reason) = (refused.status.as_u16(), clean(&refused.message));
        tracing::warn!(%client, route, status, reason, left_out, "a request was refused");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_LIMIT)
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
        .max_send_buf_size(CHUNK_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES);
    builder
}

/// The deadline by which a connection must make progress.
struct Progress {
    clock: Clock,
    deadline: Mutex<Time>,
}

impl Progress {
    const fn new(clock: Clock, deadline: Time) -> Self {
        Self { clock, deadline: Mutex::new(deadline) }
    }

    fn lock(&self) -> MutexGuard<'_, Time> {
        lock(&self.deadline)
    }

    fn deadline(&self) -> Time {
        *self.lock()
    }

    /// Postpones the deadline after progress.
    fn extend(&self, by: Span) {
        *self.lock() = self.clock.now() + by;
    }
}

/// Sends a body in chunks, which distinguishes a client that reads slowly from one that reads nothing: the transport requests the next
/// chunk when most of the previous one has been sent.
struct ChunkedBody {
    body: Body,
    rest: Bytes,
    progress: Arc<Progress>,
    idle_limit: Span,
}

impl ChunkedBody {
    const fn new(body: Body, progress: Arc<Progress>, idle_limit: Span) -> Self {
        Self { body, rest: Bytes::new(), progress, idle_limit }
    }
}

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let own = self.get_mut();
        if own.rest.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut own.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => own.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        own.progress.extend(own.idle_limit);
        let piece = own.rest.split_to(own.rest.len().min(CHUNK_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests;
