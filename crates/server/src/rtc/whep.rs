//! `/whep`: WebRTC's signalling over HTTP (draft-ietf-wish-whep). Cheap checks come first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use nearlight_net::Token;
use nearlight_rooms::Role;
use nearlight_units::Span;
use nearlight_urs::signalling::Guest;
use nearlight_webrtc::{Fragment, MAX_SDP_BYTES, Offer, OfferError, Peer, PeerError};
use nearlight_wire::{DisplayKind, RefusalReason};
use tokio::sync::Semaphore;

use super::carrier::{End, Ender};
use super::{Exchange, WebRtcCarrier, peer_config};
use crate::options::IceServer;
use crate::session::SessionTask;
use crate::session_common::{ClientPreferences, SessionCommon};
use crate::state::{MediaTransport, Rejection, ServerState, seconds};
use crate::transports::Sessions;

/// A client that sends its body more slowly than this is cut off.
const BODY_LIMIT: Duration = Duration::from_secs(5);
/// Guess: a household reconnects all at once after an outage.
const MOST_BODIES: usize = 32;

const SDP: &str = "application/sdp";
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
/// In the query of an offer.
const MARKER: &str = "marker=";
/// Of every session's ICE connection: ICE is never restarted.
const ETAG: &str = "\"1\"";

/// The requesting client, as identified by its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// A session whose client has been sent its answer.
pub(crate) type WebRtcSession = Box<SessionTask<WebRtcCarrier>>;

/// What signalling needs.
pub(crate) struct Whep {
    state: Arc<ServerState>,
    exchange: Arc<Exchange>,
    /// By the name in their URL.
    sessions: Mutex<BTreeMap<String, Session>>,
    /// Where accepted clients go.
    sessions_begun: Sessions,
    /// `Link` headers, one for each ICE server.
    links: Vec<HeaderValue>,
    /// Bodies being read, all of them from clients that have shown the token.
    bodies: Semaphore,
}

#[derive(Clone)]
struct Session {
    ender: Ender,
    /// The client's ICE name.
    name: String,
}

impl Whep {
    pub(crate) fn new(
        state: Arc<ServerState>,
        exchange: Arc<Exchange>,
        sessions_begun: Sessions,
        ice_servers: &[IceServer],
    ) -> Self {
        let links = ice_servers.iter().filter_map(|server| HeaderValue::from_str(&server.link()).ok()).collect();
        let bodies = Semaphore::new(MOST_BODIES);
        Self { state, exchange, sessions: Mutex::default(), sessions_begun, links, bodies }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The role that the request's token stands for; failures are rate-limited per address.
    fn authorize(&self, client: Client, headers: &HeaderMap) -> Result<Role, Refused> {
        let Some(token) = bearer(headers) else {
            // Not a guess, so the limiter counts no failure.
            return Err(Refused::new(StatusCode::UNAUTHORIZED, "send the pairing token: Authorization: Bearer TOKEN"));
        };
        self.state.check_token(client.0, token).map_err(Refused::from)
    }

    fn accept(
        &self,
        client: Client,
        role: Role,
        offer: &Offer,
        marker: bool,
    ) -> Result<(String, String, WebRtcSession), Refused> {
        let state = &self.state;
        let codec = state.choose(|kind| offer.video().iter().any(|offered| offered.codec == *kind))?;
        let now = state.clock.now();
        let permit = state.try_admit(now, Guest { address: client.0, trusted: true })?;
        let id = Token::generate().map_err(internal)?.to_string();
        let session = state.next_session.fetch_add(1, Ordering::Relaxed);
        let config = peer_config(state, &self.exchange, &id);
        let sender = state.new_sender(now, MediaTransport::Rtp { reports_arrivals: offer.reports_arrivals() });
        let offered = offer.video().iter().find(|offered| offered.codec == codec);
        let malformed = |error: PeerError| {
            tracing::debug!(?error, "an offer was refused");
            Refused::new(StatusCode::BAD_REQUEST, error.to_string())
        };
        let mut peer = Peer::answering(now, config, offer, offered, sender).map_err(malformed)?;
        let answer = peer.on_offer(now, offer).map_err(malformed)?;
        let own = peer.credentials().cloned().ok_or_else(|| internal("the answer has no ICE credentials"))?;
        let (display, sound) = (DisplayKind::Screen, offer.wants_sound());
        let preferences = ClientPreferences { role, codec, display, sound, marker };
        let common = SessionCommon::open(Arc::clone(state), session, preferences, peer.sender()).map_err(internal)?;
        let line = self.exchange.connect(&own, state.bad_path(session, now));
        tracing::info!(session, client = %client.0, codec = codec.name(), "a WebRTC client connected");
        let (carrier, ender) = WebRtcCarrier::new(peer, line);
        let task = Box::new(SessionTask::new(Arc::clone(state), session, permit, carrier, Some(common)));
        let session = Session { ender, name: Offer::name_in(offer.sdp()).unwrap_or_default().to_owned() };
        let mut sessions = self.sessions();
        sessions.retain(|_, known| !known.ender.is_closed());
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

/// Why a request is refused, in words for people.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) words: String,
    wait: Option<Span>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into(), wait: None }
    }

    /// To be tried again after `wait`.
    pub(crate) fn for_now(words: impl Into<String>, wait: Span) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, words).until(wait)
    }

    /// The same, to be tried again after `wait`.
    pub(crate) fn until(self, wait: Span) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// With `body` in place of the plain words.
    pub(crate) fn respond(&self, body: impl IntoResponse) -> Response {
        let mut response = (self.status, body).into_response();
        // For the log.
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

impl From<Rejection> for Refused {
    fn from(Rejection { reason, message, wait }: Rejection) -> Self {
        let status = match reason {
            RefusalReason::Token => StatusCode::UNAUTHORIZED,
            RefusalReason::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            RefusalReason::Full => StatusCode::SERVICE_UNAVAILABLE,
            RefusalReason::Codec => StatusCode::NOT_ACCEPTABLE,
            RefusalReason::Protocol => StatusCode::BAD_REQUEST,
            RefusalReason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, words: message, wait }
    }
}

impl From<OfferError> for Refused {
    fn from(error: OfferError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.respond(format!("{}\n", self.words))
    }
}

fn internal(error: impl std::fmt::Display) -> Refused {
    tracing::error!(%error, "a WebRTC client could not be served");
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the server failed: {error}"))
}

async fn offer(
    State(whep): State<Arc<Whep>>,
    Extension(client): Extension<Client>,
    request: HttpRequest,
) -> Result<Response, Refused> {
    let role = whep.authorize(client, request.headers())?;
    let state = &whep.state;
    state.count_offer(state.clock.now(), Guest { address: client.0, trusted: true })?;
    let marker = wants_marker(request.uri().query().unwrap_or_default())?;
    let text = body(&whep, request, SDP).await?;
    let offer = Offer::parse(&text)?;
    let (id, answer, task) = whep.accept(client, role, &offer, marker)?;
    if whep.sessions_begun.send(Box::pin(task.run())).await.is_err() {
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"));
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
) -> Result<StatusCode, Refused> {
    whep.authorize(client, request.headers())?;
    let session = find(&whep, &id)?;
    let wanted = request.headers().get(header::IF_MATCH).map(|value| value.to_str().unwrap_or_default());
    if !wanted.is_none_or(|tags| tags.split(',').any(|tag| matches!(tag.trim(), ETAG | "*"))) {
        return Err(Refused::new(StatusCode::PRECONDITION_FAILED, "If-Match is not the session's ETag"));
    }
    let text = body(&whep, request, FRAGMENT).await?;
    if Fragment::parse(&text)?.restarts(&session.name) {
        let words = "ICE restarts are not supported; end this session and create another";
        return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, words));
    }
    // An ICE-lite server has no use for the client's addresses: it waits for the client's checks.
    Ok(StatusCode::NO_CONTENT)
}

async fn end(
    State(whep): State<Arc<Whep>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refused> {
    whep.authorize(client, &headers)?;
    let session = find(&whep, &id)?;
    whep.sessions().remove(&id);
    let _ = session.ender.send(End).await;
    Ok(StatusCode::OK)
}

async fn preflight() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn find(whep: &Whep, id: &str) -> Result<Session, Refused> {
    let session = whep.sessions().get(id).filter(|session| !session.ender.is_closed()).cloned();
    session.ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, "there is no such session"))
}

/// Whether the query requests the latency marker below the pictures, which a plain player would display.
fn wants_marker(query: &str) -> Result<bool, Refused> {
    let values = query.split('&').filter_map(|pair| pair.strip_prefix(MARKER));
    let unknown = || {
        Refused::new(
            StatusCode::BAD_REQUEST,
            "`marker` must be `strip`: write marker=strip for the latency marker, or omit it",
        )
    };
    values.map(|value| (value == "strip").then_some(true).ok_or_else(unknown)).next_back().unwrap_or(Ok(false))
}

/// The token in a header, whose scheme may be written in any case (RFC 9110 section 11.1).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The text of a request of this type, within its bounds in size and time.
async fn body(whep: &Whep, request: HttpRequest, wanted: &str) -> Result<String, Refused> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(wanted) {
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send Content-Type: {wanted}")));
    }
    let busy =
        || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "too many clients are connecting; try again in a moment");
    let _reading = whep.bodies.try_acquire().map_err(|_| busy())?;
    read(request.into_body(), MAX_SDP_BYTES).await
}

/// The text of a body, within its bounds in size and time.
pub(crate) async fn read(body: Body, most: usize) -> Result<String, Refused> {
    let bytes = match tokio::time::timeout(BODY_LIMIT, axum::body::to_bytes(body, most)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let words = format!("the body is longer than {most} bytes or incomplete");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        Err(_) => return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    };
    String::from_utf8(bytes.into()).map_err(|_| Refused::new(StatusCode::BAD_REQUEST, "the body is not UTF-8"))
}

/// Players of other origins are allowed: the token decides, not the origin of a page.
async fn allow_all(method: Method, mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(header::ACCESS_CONTROL_EXPOSE_HEADERS, "Location, Link, ETag, Retry-After");
    set(header::CACHE_CONTROL, "no-store");
    if method == Method::OPTIONS {
        set(header::ACCESS_CONTROL_ALLOW_METHODS, "POST, PATCH, DELETE");
        set(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, If-Match");
        set(header::ACCESS_CONTROL_MAX_AGE, "600");
    }
    response
}
