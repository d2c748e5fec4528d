//! `/whep`: WebRTC's signalling over HTTP (draft-ietf-wish-whep). Cheap checks come first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use nearlight_net::Token;
use nearlight_units::{Span, lock};
use nearlight_urs::signalling::Guest;
use nearlight_webrtc::{Fragment, MAX_SDP_BYTES, Offer, OfferError, Peer, PeerError};
use nearlight_wire::{DisplayKind, RefusalReason};
use tokio::sync::Semaphore;

use super::carrier::{EndRequest, EndSender};
use super::{RtcEndpoint, WebRtcCarrier, peer_config};
use crate::access::admission::Applicant;
use crate::access::link_register::Credential;
use crate::options::IceServer;
use crate::session::SessionTask;
use crate::session::common::{ClientPreferences, SessionCommon};
use crate::state::{MediaTransport, Rejection, ServerState, seconds};
use crate::transports::Sessions;

/// Time that a client has to send the body of a request.
const BODY_LIMIT: Duration = Duration::from_secs(5);
/// Bodies that may be read at the same time. Guess: a household reconnects all at once after an outage.
const MAX_CONCURRENT_BODIES: usize = 32;

const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
/// Prefix of the option for the latency marker in the query of an offer.
const MARKER: &str = "marker=";
/// The header with the pairing token of clients behind a proxy that needs `Authorization` for its own credentials.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-nearlight-token");
/// The `ETag` of every session, which never changes because ICE is never restarted.
const ETAG: &str = "\"1\"";

/// The address of the requesting client, from its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// A session whose client has been sent its answer.
pub(crate) type WebRtcSession = Box<SessionTask<WebRtcCarrier>>;

/// The state of the signalling.
pub(crate) struct Whep {
    state: Arc<ServerState>,
    endpoint: Arc<RtcEndpoint>,
    /// Sessions by the name in their URL.
    sessions: Mutex<BTreeMap<String, Session>>,
    /// Runs the sessions of accepted clients.
    sessions_begun: Sessions,
    /// `Link` headers, one for each ICE server.
    links: Vec<HeaderValue>,
    /// Limits the bodies that are read at the same time, all of them from clients that have shown the token.
    bodies: Semaphore,
}

#[derive(Clone)]
struct Session {
    end_sender: EndSender,
    /// The client's ICE name.
    name: String,
}

impl Whep {
    pub(crate) fn new(
        state: Arc<ServerState>,
        endpoint: Arc<RtcEndpoint>,
        sessions_begun: Sessions,
        ice_servers: &[IceServer],
    ) -> Self {
        let links = ice_servers.iter().filter_map(|server| HeaderValue::from_str(&server.link()).ok()).collect();
        let bodies = Semaphore::new(MAX_CONCURRENT_BODIES);
        Self { state, endpoint, sessions: Mutex::default(), sessions_begun, links, bodies }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        lock(&self.sessions)
    }

    /// Returns what the request's token entitles to. Failures are rate-limited per address.
    fn authorize(&self, client: Client, headers: &HeaderMap) -> Result<Credential, HttpRefusal> {
        let Some(token) = token_in(headers) else {
            // A missing token is not a guess, so the limiter counts no failure.
            return Err(HttpRefusal::without_token());
        };
        self.state.check_token(client.0, token).map_err(HttpRefusal::from)
    }

    fn accept(
        &self,
        client: Client,
        credential: Credential,
        offer: &Offer,
        marker: bool,
    ) -> Result<(String, String, WebRtcSession), HttpRefusal> {
        let state = &self.state;
        let codec = state.choose(|kind| offer.video().iter().any(|offered| offered.codec == *kind))?;
        let now = state.clock.now();
        let permit = state.try_admit(now, Applicant::new(client.0, credential))?;
        let id = Token::generate().map_err(internal)?.to_string();
        let session = state.next_session.fetch_add(1, Ordering::Relaxed);
        let config = peer_config(state, &self.endpoint, &id);
        let sender = state.new_sender(now, MediaTransport::Rtp { reports_arrivals: offer.reports_arrivals() });
        let offered = offer.video().iter().find(|offered| offered.codec == codec);
        let malformed = |error: PeerError| {
            tracing::debug!(?error, "an offer was refused");
            HttpRefusal::new(StatusCode::BAD_REQUEST, error.to_string())
        };
        let mut peer = Peer::answering(now, config, offer, offered, sender).map_err(malformed)?;
        let answer = peer.on_offer(now, offer).map_err(malformed)?;
        let own = peer.credentials().cloned().ok_or_else(|| internal("the answer has no ICE credentials"))?;
        let (display, sound) = (DisplayKind::Screen, offer.wants_sound());
        let preferences = ClientPreferences { role: credential.role, codec, display, sound, marker };
        let common = SessionCommon::open(Arc::clone(state), session, preferences, peer.sender()).map_err(internal)?;
        let line = self.endpoint.connect(&own, state.emulated_path(session, now));
        tracing::info!(session, client = %client.0, codec = codec.name(), "a WebRTC client asks for a session");
        let (carrier, end_sender) = WebRtcCarrier::new(peer, line);
        let task = Box::new(SessionTask::new(Arc::clone(state), session, permit, carrier, Some(common)));
        let session = Session { end_sender, name: Offer::name_in(offer.sdp()).unwrap_or_default().to_owned() };
        let mut sessions = self.sessions();
        sessions.retain(|_, known| !known.end_sender.is_closed());
        sessions.insert(id.clone(), session);
        Ok((id, answer, task))
    }
}

/// Routes to merge with the page's.
pub(crate) fn router(whep: Arc<Whep>) -> Router {
    Router::new()
        .route("/whep", post(offer).options(preflight))
        .route("/whep/{id}", axum::routing::patch(trickle).delete(end).options(preflight))
        .layer(axum::middleware::map_response(allow_all))
        .with_state(whep)
}

/// The refusal of an HTTP request: a status, and a message for people.
#[derive(Clone, Debug)]
pub(crate) struct HttpRefusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    wait: Option<Span>,
    /// Whether clients that do nothing wrong are refused like this.
    pub(crate) is_ordinary: bool,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), wait: None, is_ordinary: false }
    }

    /// Returns the refusal of a request without a token.
    pub(crate) fn without_token() -> Self {
        let words =
            "this request needs the pairing token, as Authorization: Bearer TOKEN or as X-Nearlight-Token: TOKEN";
        Self::new(StatusCode::UNAUTHORIZED, words)
    }

    /// Returns a refusal whose client should try again after `wait`.
    pub(crate) fn retry_after(message: impl Into<String>, wait: Span) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message).with_retry_after(wait)
    }

    /// Adds that the client should try again after `wait`.
    pub(crate) fn with_retry_after(self, wait: Span) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// Returns the response with `body` instead of the plain message.
    pub(crate) fn respond(&self, body: impl IntoResponse) -> Response {
        let mut response = (self.status, body).into_response();
        // The logging layer reads it.
        response.extensions_mut().insert(self.clone());
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.wait {
            headers.insert(header::RETRY_AFTER, seconds(wait).into());
        }
        response
    }
}

impl From<Rejection> for HttpRefusal {
    fn from(Rejection { reason, message, wait }: Rejection) -> Self {
        let status = match reason {
            RefusalReason::Token => StatusCode::UNAUTHORIZED,
            RefusalReason::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            RefusalReason::Full => StatusCode::SERVICE_UNAVAILABLE,
            RefusalReason::Codec => StatusCode::NOT_ACCEPTABLE,
            RefusalReason::Protocol => StatusCode::BAD_REQUEST,
            RefusalReason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { wait, ..Self::new(status, message) }
    }
}

impl From<OfferError> for HttpRefusal {
    fn from(error: OfferError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        self.respond(format!("{}\n", self.message))
    }
}

fn internal(error: impl std::fmt::Display) -> HttpRefusal {
    tracing::error!(%error, "a WebRTC client could not be served");
    HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the server failed: {error}"))
}

async fn offer(
    State(whep): State<Arc<Whep>>,
    Extension(client): Extension<Client>,
    request: HttpRequest,
) -> Result<Response, HttpRefusal> {
    let credential = whep.authorize(client, request.headers())?;
    let state = &whep.state;
    state.count_offer(state.clock.now(), Guest { address: client.0, trusted: true })?;
    let marker = wants_marker(request.uri().query().unwrap_or_default())?;
    let text = body(&whep, request, SDP).await?;
    let offer = Offer::parse(&text)?;
    let (id, answer, task) = whep.accept(client, credential, &offer, marker)?;
    if whep.sessions_begun.send(Box::pin(task.run())).await.is_err() {
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"));
    }
    let location = format!("/whep/{id}");
    let headers = [(header::CONTENT_TYPE, SDP), (header::LOCATION, &location), (header::ETAG, ETAG)];
    let mut response = (StatusCode::CREATED, headers, answer).into_response();
    for link in &whep.links {
        response.headers_mut().append(header::LINK, link.clone());
    }
    Ok(response)
}

async fn trickle(
    State(whep): State<Arc<Whep>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
    request: HttpRequest,
) -> Result<StatusCode, HttpRefusal> {
    whep.authorize(client, request.headers())?;
    let session = find(&whep, &id)?;
    let wanted = request.headers().get(header::IF_MATCH).map(|value| value.to_str().unwrap_or_default());
    if !wanted.is_none_or(|tags| tags.split(',').any(|tag| matches!(tag.trim(), ETAG | "*"))) {
        return Err(HttpRefusal::new(StatusCode::PRECONDITION_FAILED, "If-Match is not the session's ETag"));
    }
    let text = body(&whep, request, FRAGMENT).await?;
    if Fragment::parse(&text)?.restarts(&session.name) {
        let message = "ICE restarts are not supported; end this session and create another";
        return Err(HttpRefusal::new(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    // An ICE-lite server does not need the client's addresses: it waits for the client's checks.
    Ok(StatusCode::NO_CONTENT)
}

async fn end(
    State(whep): State<Arc<Whep>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, HttpRefusal> {
    whep.authorize(client, &headers)?;
    let session = whep.sessions().remove(&id).ok_or_else(no_such_session)?;
    // A session that has ended by itself has nobody who reads this.
    let _ = session.end_sender.send(EndRequest).await;
    Ok(StatusCode::OK)
}

async fn preflight() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn find(whep: &Whep, id: &str) -> Result<Session, HttpRefusal> {
    let session = whep.sessions().get(id).filter(|session| !session.end_sender.is_closed()).cloned();
    session.ok_or_else(no_such_session)
}

/// Returns the refusal of a request about a session that has ended. Clients that leave send one if the server has noticed before.
fn no_such_session() -> HttpRefusal {
    let refusal = HttpRefusal::new(StatusCode::NOT_FOUND, "there is no such session");
    HttpRefusal { is_ordinary: true, ..refusal }
}

/// Returns whether the query requests the latency marker below the pictures, which a plain player would display.
fn wants_marker(query: &str) -> Result<bool, HttpRefusal> {
    let values = query.split('&').filter_map(|pair| pair.strip_prefix(MARKER));
    let unknown = || {
        HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            "`marker` must be `strip`: write marker=strip for the latency marker, or omit it",
        )
    };
    values.map(|value| (value == "strip").then_some(true).ok_or_else(unknown)).next_back().unwrap_or(Ok(false))
}

/// Returns the pairing token in the headers: that of [`TOKEN_HEADER`], else the bearer token. The scheme may be written in any case
/// (RFC 9110 section 11.1).
pub(crate) fn token_in(headers: &HeaderMap) -> Option<&str> {
    if let Some(token) = headers.get(TOKEN_HEADER) {
        return token.to_str().ok().map(str::trim);
    }
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Reads the text of a request that has this content type, within the bounds in size and time.
async fn body(whep: &Whep, request: HttpRequest, wanted: &str) -> Result<String, HttpRefusal> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(wanted) {
        return Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send Content-Type: {wanted}")));
    }
    let busy =
        || HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many clients are connecting; try again in a moment");
    let _reading = whep.bodies.try_acquire().map_err(|_| busy())?;
    read(request.into_body(), MAX_SDP_BYTES).await
}

/// Reads the text of a body of at most `most` bytes, within [`BODY_LIMIT`].
pub(crate) async fn read(body: Body, most: usize) -> Result<String, HttpRefusal> {
    let bytes = match tokio::time::timeout(BODY_LIMIT, axum::body::to_bytes(body, most)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("the body is longer than {most} bytes or incomplete");
            return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => return Err(HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    };
    String::from_utf8(bytes.into()).map_err(|_| HttpRefusal::new(StatusCode::BAD_REQUEST, "the body is not UTF-8"))
}

/// Adds headers that allow players of other origins: the token decides, not the origin of a page.
async fn allow_all(method: Method, mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(header::ACCESS_CONTROL_EXPOSE_HEADERS, "Location, Link, ETag, Retry-After");
    set(header::CACHE_CONTROL, "no-store");
    if method == Method::OPTIONS {
        set(header::ACCESS_CONTROL_ALLOW_METHODS, "POST, PATCH, DELETE");
        set(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, If-Match, X-Nearlight-Token");
        set(header::ACCESS_CONTROL_MAX_AGE, "600");
    }
    response
}
