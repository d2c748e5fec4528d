//! `/config`, `/signaling…`, and a WebSocket on the page's own address, as Unity's web server has them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use nearlight_net::{Reservation, Token};
use nearlight_urs::signalling::{ClientId, Guest, MAX_TEXT_BYTES, Method, Reply};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::signalling::{Asked, Fact, MESSAGES, SignallingTask};
use crate::page::{Refuse, asset};
use crate::rtc::whep::{Client, Refused, bearer, read};

/// How long a client's own goodbye is waited for.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);
/// A WebSocket message that is too long is still read up to this length, so that its client can be informed; a longer one closes the
/// socket.
const LONGEST_MESSAGE: usize = 4 * MAX_TEXT_BYTES;

/// The query of a request's URL, if it can be parsed.
type Asking = Result<Query<Asks>, QueryRejection>;

/// What the routes know.
pub(crate) struct Access {
    pub(crate) signalling: SignallingTask,
    pub(crate) refuse: Box<Refuse>,
    /// Clients must send the token; otherwise those without one are admitted too.
    pub(crate) token_needed: bool,
}

#[derive(Deserialize)]
struct Asks {
    token: Option<String>,
    /// In milliseconds since 1970; a browser's may have a fraction.
    fromtime: Option<f64>,
}

pub(crate) fn router(access: Arc<Access>) -> Router {
    Router::new()
        .route("/", get(page_or_websocket))
        .route("/config", get(config))
        .route("/signaling", any(ask_all))
        .route("/signaling/", any(ask_all))
        .route("/signaling/{what}", any(ask))
        .with_state(access)
}

/// Whether a request is for one of Unity's routes. The page's own URL is one of them only for a WebSocket.
pub(crate) fn is_own(method: &HttpMethod, uri: &Uri, headers: &HeaderMap) -> bool {
    if uri.path() == "/" {
        return is_websocket(method, headers);
    }
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    ["config", "signaling", "unity", "module"].contains(&first)
}

/// Whether a request is a WebSocket handshake (RFC 6455 section 4.2.1).
fn is_websocket(method: &HttpMethod, headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    *method == HttpMethod::GET && upgrade && headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

impl Access {
    /// The client that signs in, if it may. With a token, the page's origin does not matter; without one, if that is allowed, pages that
    /// another host has served to a browser in this network are refused.
    fn check(&self, peer: Client, uri: &Uri, headers: &HeaderMap, asks: &Asks) -> Result<Guest, Refused> {
        let guest = Guest { address: nearlight_net::subscriber(peer.0), trusted: false };
        if let Some(token) = asks.token.as_deref().or_else(|| bearer(headers)) {
            return (self.refuse)(peer.0, token).map_or(Ok(Guest { trusted: true, ..guest }), Err);
        }
        if self.token_needed {
            let words = "add ?token=TOKEN with the token of the link that the server printed";
            return Err(Refused::new(StatusCode::UNAUTHORIZED, words));
        }
        if is_foreign(uri, headers) {
            let words = "a page of another host needs ?token=TOKEN with the token of the server's link";
            return Err(Refused::new(StatusCode::FORBIDDEN, words));
        }
        Ok(guest)
    }
}

/// Whether a request comes from a page of another host. Browsers send the page's origin; other programs do not. A page of the same host on
/// another port is not foreign.
fn is_foreign(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = |text: &str| text.parse::<Uri>().ok().and_then(|uri| Some(uri.host()?.to_ascii_lowercase()));
    let Some(origin) = text(header::ORIGIN) else { return false };
    // HTTP/2 has the host in the URI.
    let own = text(header::HOST).and_then(host).or_else(|| Some(uri.host()?.to_ascii_lowercase()));
    let of_page = host(origin).filter(|_| origin.contains("://"));
    of_page.is_none() || of_page != own
}

fn problem(refused: &Refused) -> Response {
    refused.respond(axum::Json(json!({ "error": refused.words })))
}

fn unreadable(query: &QueryRejection) -> Response {
    problem(&Refused::new(StatusCode::BAD_REQUEST, format!("the query of the URL is malformed: {query}")))
}

async fn config(State(access): State<Arc<Access>>) -> Response {
    let config = json!({ "useWebSocket": true, "startupMode": access.signalling.mode().name(), "logging": "none" });
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(config)).into_response()
}

async fn page_or_websocket(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Client>,
    asks: Asking,
    headers: HeaderMap,
    uri: Uri,
    reservation: Option<Extension<Reservation>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        // Also where this is plain HTTP from another machine, which is let through for a WebSocket only.
        Err(rejection) if headers.contains_key(header::SEC_WEBSOCKET_KEY) => return rejection.into_response(),
        Err(_) => return asset(uri).await,
    };
    let asks = match asks {
        Ok(Query(asks)) => asks,
        Err(query) => return unreadable(&query),
    };
    let from = match access.check(peer, &uri, &headers, &asks) {
        Ok(guest) => guest,
        Err(refused) => return problem(&refused),
    };
    let signalling = access.signalling.clone();
    upgrade
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE)
        .on_upgrade(move |socket| async move { serve(socket, from, &signalling, reservation.as_deref()).await })
}

/// One WebSocket, from its admission to its end. It holds only the signalling task's handle, so that it does not keep the server from
/// shutting down.
async fn serve(mut socket: WebSocket, from: Guest, signalling: &SignallingTask, reservation: Option<&Reservation>) {
    let (messages, waiting) = mpsc::channel(MESSAGES);
    let (admitted, answer) = oneshot::channel();
    if !signalling.bring(Fact::Opened { from, messages, admitted }).await {
        return;
    }
    match answer.await {
        Ok(Ok(client)) => {
            // It is idle while its session lasts; the signalling task bounds how many there are.
            if let Some(reservation) = reservation {
                reservation.claim();
            }
            carry(&mut socket, client, waiting, signalling).await;
            signalling.bring(Fact::Closed(client)).await;
        }
        Ok(Err(full)) => {
            tracing::warn!(client = %from.address, reason = %full, "a Unity client was refused");
            let text = json!({ "type": "error", "message": full.to_string() }).to_string();
            let _ = socket.send(Message::Text(text.into())).await;
        }
        Err(_) => {}
    }
    // Closing a connection with unread bytes resets it and discards what was sent last. Reading on lets the client receive the reason.
    let goodbye = async {
        let _ = socket.send(Message::Close(None)).await;
        while let Some(Ok(_)) = socket.recv().await {}
    };
    let _ = tokio::time::timeout(GOODBYE_LIMIT, goodbye).await;
}

/// Until either side closes.
async fn carry(
    socket: &mut WebSocket,
    client: ClientId,
    mut waiting: mpsc::Receiver<String>,
    signalling: &SignallingTask,
) {
    loop {
        tokio::select! {
            message = waiting.recv() => {
                let Some(text) = message else { return };
                if socket.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
            }
            received = socket.recv() => {
                let fact = match received {
                    Some(Ok(Message::Text(text))) if text.len() <= MAX_TEXT_BYTES => {
                        Fact::Text(client, text.as_str().to_owned())
                    }
                    Some(Ok(Message::Text(_) | Message::Binary(_))) => Fact::Unreadable(client),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if !signalling.bring(fact).await {
                    return;
                }
            }
        }
    }
}

async fn ask_all(access: State<Arc<Access>>, peer: Extension<Client>, asks: Asking, request: Request) -> Response {
    ask(access, peer, asks, Path(String::new()), request).await
}

async fn ask(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Client>,
    asks: Asking,
    Path(what): Path<String>,
    request: Request,
) -> Response {
    let method = match *request.method() {
        HttpMethod::GET => Method::Get,
        HttpMethod::PUT => Method::Put,
        HttpMethod::POST => Method::Post,
        HttpMethod::DELETE => Method::Delete,
        _ => return problem(&Refused::new(StatusCode::METHOD_NOT_ALLOWED, "use GET, PUT, POST or DELETE")),
    };
    let asks = match asks {
        Ok(Query(asks)) => asks,
        Err(query) => return unreadable(&query),
    };
    let session = request.headers().get("session-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    // A session's name is known to its client alone, so the token is needed only without a session.
    let is_new = method == Method::Put && what.is_empty();
    let from = if is_new {
        match access.check(peer, request.uri(), request.headers(), &asks) {
            Ok(guest) => guest,
            Err(refused) => return problem(&refused),
        }
    } else {
        Guest { address: nearlight_net::subscriber(peer.0), trusted: false }
    };
    let Ok(new_session) = Token::generate() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let body = match read(request.into_body(), MAX_TEXT_BYTES).await {
        Ok(body) => body,
        Err(refused) => return problem(&refused),
    };
    let (reply, answer) = oneshot::channel();
    let asked = Asked {
        method,
        what,
        session,
        from_time: asks.fromtime.map_or(0, |time| time as u64),
        body,
        from,
        new_session: new_session.to_string(),
        reply,
    };
    let reply = if access.signalling.bring(Fact::Asked(Box::new(asked))).await { answer.await.ok() } else { None };
    let refused = match reply {
        Some(Reply::Json(value)) => {
            return ([(header::CACHE_CONTROL, "no-store")], axum::Json(value)).into_response();
        }
        Some(Reply::Done) => return "OK".into_response(),
        Some(Reply::NotFound) => Refused::new(StatusCode::NOT_FOUND, "there is no such session, or no such path"),
        Some(Reply::Bad(text)) => Refused::new(StatusCode::BAD_REQUEST, text),
        Some(Reply::TooMany(text, wait)) => Refused::for_now(text, wait),
        None => Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"),
    };
    problem(&refused)
}

#[cfg(test)]
mod tests;
