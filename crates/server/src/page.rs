//! The page and what belongs to it over HTTP: `/`, `/session.json`, `/healthz`, `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use nearlight_net::{PageStream, SESSION_INFO_PATH, SessionInfo};
use rust_embed::RustEmbed;

use crate::metrics::Metrics;
use crate::rtc::whep::{self, Client, Whep};
use crate::urs;

/// The built page, inside the binary.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Assets;

/// Only what the page itself brings may run; a session may go to another port or host of the same certificate.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
     style-src 'self'; img-src 'self' data: blob:; connect-src 'self' https:; manifest-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// What requests are answered from.
pub(crate) struct PageState {
    pub(crate) metrics: Arc<Metrics>,
    /// Changes when the certificate is renewed.
    pub(crate) info: std::sync::RwLock<SessionInfo>,
    /// Whether the studio still draws.
    pub(crate) healthy: Box<dyn Fn() -> bool + Send + Sync>,
}

pub(crate) fn router(state: Arc<PageState>, whep: Arc<Whep>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route(SESSION_INFO_PATH, get(session_info))
        .fallback(get(asset))
        .with_state(state)
        .merge(whep::router(whep))
}

/// Serves one connection until its client closes it. With `unity`, other machines may ask Unity's routes over plain HTTP.
pub(crate) async fn serve(stream: PageStream, router: Router, unity: bool) {
    let client = Client(stream.peer().ip());
    let local = client.0.is_loopback();
    let secure = stream.secure();
    let service = TowerToHyperService::new(router.layer(axum::middleware::from_fn(
        move |mut request: axum::extract::Request, next: axum::middleware::Next| async move {
            request.extensions_mut().insert(client);
            let plain = unity && urs::is_own(request.uri(), request.headers());
            if secure || local || plain { next.run(request).await } else { to_https(&request) }
        },
    )));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(std::time::Duration::from_secs(10));
    // A client that breaks off is no fault of the server's.
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a page connection broke off");
    }
}

/// Browsers allow WebTransport in a secure context only: over plain HTTP that is this machine alone.
fn to_https(request: &axum::extract::Request) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host.filter(|host| host.bytes().all(|byte| byte.is_ascii_graphic())) else {
        return (StatusCode::BAD_REQUEST, "use https:// to reach Nearlight from another machine\n").into_response();
    };
    let target = format!("https://{host}{}", request.uri().path());
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response()
}

async fn healthz(State(state): State<Arc<PageState>>) -> Response {
    if (state.healthy)() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the renderer has stopped; see the server's log\n").into_response()
    }
}

async fn metrics(State(state): State<Arc<PageState>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], state.metrics.text()).into_response()
}

async fn session_info(State(state): State<Arc<PageState>>) -> Response {
    let info = *state.info.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(info)).into_response()
}

pub(crate) async fn asset(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(file) = Assets::get(path) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let mut response = Response::new(Body::from(file.data));
    let headers = response.headers_mut();
    let fixed = |text| HeaderValue::from_static(text);
    headers.insert(header::CONTENT_TYPE, fixed(content_type(path)));
    headers.insert(header::CONTENT_SECURITY_POLICY, fixed(CONTENT_SECURITY_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    // A server of another version may answer at the same address tomorrow.
    headers.insert(header::CACHE_CONTROL, fixed("no-cache"));
    response
}

pub(crate) fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}
