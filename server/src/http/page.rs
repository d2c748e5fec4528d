//! The page and its auxiliary routes over HTTP: `/`, `/session.json`, `/world.glb`, `/healthz`, `/readyz`, `/metrics`.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use nearlight_net::{SESSION_INFO_PATH, SessionInfo};
use nearlight_rooms::Role;
use nearlight_scene::MakeModel;
use rust_embed::RustEmbed;
use serde::Serialize;

use crate::access::hosts::requested_host;
use crate::http::forwarding::is_forwarded;
use crate::http::uncached_json;
use crate::metrics::{Exposition, Metrics};
use crate::transports::rtc::whep::{Client, HttpRefusal, token_in};

/// The built page, inside the binary.
#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Assets;

/// Only the page's own code may run; a session may connect to another port or host with the same certificate.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
     style-src 'self'; img-src 'self' data: blob:; connect-src 'self' https: wss:; manifest-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// Returns why a client at this address with this token is refused, or none if it is not.
pub(crate) type RefusalCheck = dyn Fn(IpAddr, &str) -> Option<HttpRefusal> + Send + Sync;

/// Returns the role of the token that a client at this address sent, or why the client is refused.
pub(crate) type RoleCheck = dyn Fn(IpAddr, &str) -> Result<Role, HttpRefusal> + Send + Sync;

/// The path of the world's file, for clients that draw the world themselves.
const MODEL_PATH: &str = "/world.glb";

/// The state from which requests are answered.
pub(crate) struct PageState {
    pub(crate) metrics: Arc<Metrics>,
    /// The description for clients, which changes when the certificate is renewed.
    pub(crate) info: std::sync::RwLock<SessionInfo>,
    /// How the server is reached through a proxy.
    pub(crate) access: ProxyAccess,
    /// Returns whether the studio still renders.
    pub(crate) healthy: Box<dyn Fn() -> bool + Send + Sync>,
    /// Returns why a new client would not be served, or none if it would.
    pub(crate) obstacle: Box<dyn Fn() -> Option<&'static str> + Send + Sync>,
    pub(crate) check: Box<RoleCheck>,
    /// The world's file; none if clients cannot draw the source themselves.
    pub(crate) model: Option<Arc<ModelFile>>,
}

/// How clients reach the server through a proxy, which passes on no UDP.
#[derive(Clone, Debug)]
pub(crate) struct ProxyAccess {
    /// The host of the page's address, in lower case, if the owner has given it.
    pub(crate) host: Option<String>,
    /// UDP port of WebTransport, at the same host.
    pub(crate) udp_port: u16,
}

impl ProxyAccess {
    /// Returns the port of WebTransport for a page that came through a proxy. Other pages have the same port for both: the server's, or one
    /// that a router maps to it.
    fn webtransport_port(&self, request: &Request) -> Option<u16> {
        let host = || requested_host(request).ok().map(|host| host.host().to_ascii_lowercase());
        let is_proxied = is_forwarded(request) || self.host.is_some() && self.host == host();
        is_proxied.then_some(self.udp_port)
    }
}

/// The world as a file, which is made on the first request.
pub(crate) struct ModelFile {
    make: MakeModel,
    made: OnceLock<Result<Bytes, String>>,
}

impl ModelFile {
    pub(crate) const fn new(make: MakeModel) -> Self {
        Self { make, made: OnceLock::new() }
    }

    /// Returns the file. The first call takes a second or two.
    fn bytes(&self) -> Result<Bytes, String> {
        let make = || (self.make)().map(Bytes::from).map_err(|error| error.to_string());
        self.made.get_or_init(make).clone()
    }
}

pub(crate) fn router(state: Arc<PageState>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route(SESSION_INFO_PATH, get(session_info))
        .route(MODEL_PATH, get(model))
        .route_layer(from_fn_with_state(Arc::clone(&state), with_token))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(get(asset))
        .with_state(state)
}

/// Serves programs on this machine, and others only if they send the token.
pub(crate) async fn with_token(
    State(state): State<Arc<PageState>>,
    Extension(client): Extension<Client>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = token_in(request.headers()).map(|token| (state.check)(client.0, token));
    match checked {
        Some(Ok(role)) => {
            request.extensions_mut().insert(role);
        }
        _ if client.0.is_loopback() && !is_forwarded(&request) => {}
        Some(Err(refused)) => return refused.into_response(),
        None => return HttpRefusal::without_token().into_response(),
    }
    next.run(request).await
}

/// The server's description of itself.
#[derive(Serialize)]
struct Description {
    #[serde(flatten)]
    info: SessionInfo,
    /// The role of the request's token; none without a token.
    role: Option<&'static str>,
    /// UDP port of WebTransport; none for the page's own.
    webtransport_port: Option<u16>,
}

/// Says whether to send clients here. It is no reason to restart the server if not.
async fn readyz(State(state): State<Arc<PageState>>) -> Response {
    match (state.obstacle)() {
        None => (StatusCode::OK, "ready\n").into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn healthz(State(state): State<Arc<PageState>>) -> Response {
    let (status, words) = if (state.healthy)() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the renderer has stopped; see the server's log\n")
    };
    // Pages of other servers ask this before they send their users here.
    (status, [(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")], words).into_response()
}

/// Serves the figures of every client, to hosts and to programs on this machine.
async fn metrics(State(state): State<Arc<PageState>>, role: Option<Extension<Role>>, headers: HeaderMap) -> Response {
    if role.is_some_and(|Extension(role)| role != Role::Host) {
        let words = "the server's figures need the host's token, that of the first link which the server printed";
        return HttpRefusal::new(StatusCode::FORBIDDEN, words).into_response();
    }
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
    let format = Exposition::accepted(accepted);
    ([(header::CONTENT_TYPE, format.content_type())], state.metrics.text(format)).into_response()
}

async fn session_info(
    State(state): State<Arc<PageState>>,
    role: Option<Extension<Role>>,
    request: Request,
) -> Response {
    let role = role.map(|Extension(role)| role.name());
    let webtransport_port = state.access.webtransport_port(&request);
    let info = *state.info.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    uncached_json(Description { info, role, webtransport_port })
}

async fn model(State(state): State<Arc<PageState>>) -> Response {
    let Some(model) = state.model.clone() else {
        return (StatusCode::NOT_FOUND, "this server does not show a world that clients can draw themselves\n")
            .into_response();
    };
    let made = tokio::task::spawn_blocking(move || model.bytes()).await;
    match made.map_err(|error| error.to_string()).flatten() {
        Ok(bytes) => {
            let headers = [(header::CONTENT_TYPE, "model/gltf-binary"), (header::CACHE_CONTROL, "no-store")];
            (headers, bytes).into_response()
        }
        Err(error) => {
            tracing::error!(error, "the world's file cannot be made");
            (StatusCode::INTERNAL_SERVER_ERROR, "the world's file cannot be made; see the server's log\n")
                .into_response()
        }
    }
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
    // A server of another version may answer at the same address tomorrow, so browsers must revalidate.
    headers.insert(header::CACHE_CONTROL, fixed("no-cache"));
    response
}

pub(crate) fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("txt") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Version;
    use tower_service::Service as _;

    use super::*;

    #[test]
    fn a_page_behind_a_proxy_learns_the_port_of_webtransport() {
        let access = ProxyAccess { host: Some("desk.example.net".into()), udp_port: 8090 };
        for (host, header, expected) in [
            ("localhost:8090", "accept", None),
            ("localhost:8090", "via", Some(8090)),
            ("Desk.Example.Net", "accept", Some(8090)),
            ("desk.example.net:8443", "accept", Some(8090)),
            ("192.0.2.7:9000", "accept", None),
        ] {
            let request = Request::get(SESSION_INFO_PATH).header(header::HOST, host).header(header, "x");
            let request = request.body(Body::empty()).expect("a request");
            assert_eq!(access.webtransport_port(&request), expected, "{host} {header}");
        }
    }

    #[tokio::test]
    async fn other_machines_bring_the_token_for_figures_and_certificate() {
        let state = PageState {
            metrics: Arc::new(Metrics::new()),
            info: SessionInfo { certificate_sha256: None }.into(),
            access: ProxyAccess { host: None, udp_port: 8090 },
            healthy: Box::new(|| true),
            obstacle: Box::new(|| Some("full")),
            check: Box::new(|_, token| match token {
                "host" => Ok(Role::Host),
                "right" => Ok(Role::Spectator),
                _ => Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, "wrong")),
            }),
            model: Some(Arc::new(ModelFile::new(Box::new(|| Ok(b"glTF".to_vec()))))),
        };
        let router = router(Arc::new(state));
        let (near, far) = (IpAddr::from([127, 0, 0, 5]), IpAddr::from([192, 0, 2, 1]));
        for (client, path, authorization, expected) in [
            (near, "/metrics", None, 200),
            (near, SESSION_INFO_PATH, None, 200),
            (near, MODEL_PATH, None, 200),
            (far, MODEL_PATH, None, 401),
            (far, "/metrics", None, 401),
            (far, SESSION_INFO_PATH, None, 401),
            (far, "/metrics", Some("Bearer wrong"), 401),
            (far, "/metrics", Some("Bearer host"), 200),
            (far, "/metrics", Some("Bearer right"), 403),
            (near, "/metrics", Some("Bearer right"), 403),
            (far, SESSION_INFO_PATH, Some("bearer right"), 200),
            (far, SESSION_INFO_PATH, Some("Basic bWU6aGVyZQ=="), 401),
            (far, "/healthz", None, 200),
            (far, "/readyz", None, 503),
            (far, "/", None, 200),
        ] {
            let mut request = Request::get(path).extension(Client(client));
            if let Some(authorization) = authorization {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let request = request.body(Body::empty()).expect("a request");
            let response = router.clone().call(request).await.expect("axum answers");
            assert_eq!(response.status().as_u16(), expected, "{client} {path} {authorization:?}");
            assert_eq!(response.headers().contains_key(header::WWW_AUTHENTICATE), expected == 401);
        }
        for (token, expected) in [("right", 200), ("wrong", 401)] {
            let request = Request::get(SESSION_INFO_PATH).extension(Client(far)).header("x-nearlight-token", token);
            let request = request.header(header::AUTHORIZATION, "Basic bWU6aGVyZQ==").body(Body::empty());
            let response = router.clone().call(request.expect("a request")).await.expect("axum answers");
            assert_eq!(response.status().as_u16(), expected, "a proxy keeps Authorization for itself");
        }
        let plain = || Request::get("/metrics").extension(Client(near));
        let headers = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
        let forwarded = headers.iter().map(|header| plain().header(*header, "198.51.100.7"));
        for request in forwarded.chain([plain().version(Version::HTTP_10)]) {
            let request = request.body(Body::empty()).expect("a request");
            let words = format!("{request:?}");
            let response = router.clone().call(request).await.expect("axum answers");
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "a proxy's client is a stranger: {words}");
        }
    }
}
