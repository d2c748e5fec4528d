//! The routes of Unity's web server: `/config`, `/signaling…`, and a WebSocket on the page's own address.

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

use super::signalling::{MAX_QUEUED_MESSAGES, OwnedRequest, SignallingEvent, SignallingTask};
use crate::http::page::{RefusalCheck, asset};
use crate::http::uncached_json;
use crate::transports::rtc::whep::{Client, HttpRefusal, read, token_in};

/// Longest time that the server waits for a client's goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);
/// Largest WebSocket message in bytes. A message that is too long is still read up to this length, so that its client can be informed; a
/// longer one closes the socket.
const MAX_MESSAGE_BYTES: usize = 4 * MAX_TEXT_BYTES;

/// The query of a request's URL, if it can be parsed.
type ParsedQuery = Result<Query<SignallingQuery>, QueryRejection>;

/// The state of the routes.
pub(crate) struct Access {
    pub(crate) signalling: SignallingTask,
    pub(crate) refuse: Box<RefusalCheck>,
    /// Whether clients must send the token. Otherwise clients without one are admitted too.
    pub(crate) token_needed: bool,
}

#[derive(Deserialize)]
struct SignallingQuery {
    token: Option<String>,
    /// Time of the newest known message in milliseconds since 1970. A browser's may have a fraction.
    fromtime: Option<f64>,
}

pub(crate) fn router(access: Arc<Access>) -> Router {
    Router::new()
        .route("/", get(page_or_websocket))
        .route("/config", get(config))
        .route("/signaling", any(handle_root))
        .route("/signaling/", any(handle_root))
        .route("/signaling/{what}", any(handle_request))
        .with_state(access)
}

/// Returns whether a request is for one of Unity's routes. The page's own URL is one of them only for a WebSocket.
pub(crate) fn is_own(method: &HttpMethod, uri: &Uri, headers: &HeaderMap) -> bool {
    if uri.path() == "/" {
        return is_websocket(method, headers);
    }
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    ["config", "signaling", "unity", "module"].contains(&first)
}

/// Returns whether a request is a WebSocket handshake (RFC 6455 section 4.2.1).
fn is_websocket(method: &HttpMethod, headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    *method == HttpMethod::GET && upgrade && headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

impl Access {
    /// Returns the client that signs in, or why it may not. With a token, the page's origin does not matter. Without one, if that is
    /// allowed, pages that another host has served to a browser in this network are refused.
    fn check(
        &self,
        peer: Client,
        uri: &Uri,
        headers: &HeaderMap,
        asks: &SignallingQuery,
    ) -> Result<Guest, HttpRefusal> {
        let guest = Guest { address: nearlight_net::subscriber(peer.0), trusted: false };
        if let Some(token) = asks.token.as_deref().or_else(|| token_in(headers)) {
            return (self.refuse)(peer.0, token).map_or(Ok(Guest { trusted: true, ..guest }), Err);
        }
        if self.token_needed {
            let words = "add ?token=TOKEN with the token of the link that the server printed";
            return Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, words));
        }
        if is_foreign(uri, headers) {
            let words = "a page of another host needs ?token=TOKEN with the token of the server's link";
            return Err(HttpRefusal::new(StatusCode::FORBIDDEN, words));
        }
        Ok(guest)
    }
}

/// Returns whether a request comes from a page of another host. Browsers send the page's origin; other programs do not. A page of the same
/// host on another port is not foreign.
fn is_foreign(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = |text: &str| text.parse::<Uri>().ok().and_then(|uri| Some(uri.host()?.to_ascii_lowercase()));
    let Some(origin) = text(header::ORIGIN) else { return false };
    // HTTP/2 has the host in the URI.
    let own = text(header::HOST).and_then(host).or_else(|| Some(uri.host()?.to_ascii_lowercase()));
    let of_page = host(origin).filter(|_| origin.contains("://"));
    of_page.is_none() || of_page != own
}

fn problem(refused: &HttpRefusal) -> Response {
    refused.respond(axum::Json(json!({ "error": refused.message })))
}

fn unreadable(query: &QueryRejection) -> Response {
    problem(&HttpRefusal::new(StatusCode::BAD_REQUEST, format!("the query of the URL is malformed: {query}")))
}

async fn config(State(access): State<Arc<Access>>) -> Response {
    let config = json!({ "useWebSocket": true, "startupMode": access.signalling.mode().name(), "logging": "none" });
    uncached_json(config)
}

async fn page_or_websocket(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Client>,
    asks: ParsedQuery,
    headers: HeaderMap,
    uri: Uri,
    reservation: Option<Extension<Reservation>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        // This includes plain HTTP from another machine, which is permitted for a WebSocket only.
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
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        .on_upgrade(move |socket| async move { serve(socket, from, &signalling, reservation.as_deref()).await })
}

/// Serves one WebSocket from its admission to its end. It holds only the signalling task's handle, so that it does not keep the server
/// from shutting down.
async fn serve(mut socket: WebSocket, from: Guest, signalling: &SignallingTask, reservation: Option<&Reservation>) {
    let (messages, waiting) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let (admitted, answer) = oneshot::channel();
    if !signalling.send(SignallingEvent::Opened { from, messages, admitted }).await {
        return;
    }
    match answer.await {
        Ok(Ok(client)) => {
            // The connection may be idle while its session lasts. The signalling task bounds their number.
            if let Some(reservation) = reservation {
                reservation.claim();
            }
            carry(&mut socket, client, waiting, signalling).await;
            signalling.send(SignallingEvent::Closed(client)).await;
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

/// Moves messages in both directions until either side closes.
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
                let event = match received {
                    Some(Ok(Message::Text(text))) if text.len() <= MAX_TEXT_BYTES => {
                        SignallingEvent::Text(client, text.as_str().to_owned())
                    }
                    Some(Ok(Message::Text(_) | Message::Binary(_))) => SignallingEvent::Unreadable(client),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if !signalling.send(event).await {
                    return;
                }
            }
        }
    }
}

async fn handle_root(
    access: State<Arc<Access>>,
    peer: Extension<Client>,
    asks: ParsedQuery,
    request: Request,
) -> Response {
    handle_request(access, peer, asks, Path(String::new()), request).await
}

async fn handle_request(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Client>,
    asks: ParsedQuery,
    Path(what): Path<String>,
    request: Request,
) -> Response {
    let method = match *request.method() {
        HttpMethod::GET => Method::Get,
        HttpMethod::PUT => Method::Put,
        HttpMethod::POST => Method::Post,
        HttpMethod::DELETE => Method::Delete,
        _ => return problem(&HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "use GET, PUT, POST or DELETE")),
    };
    let asks = match asks {
        Ok(Query(asks)) => asks,
        Err(query) => return unreadable(&query),
    };
    let session = request.headers().get("session-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    // Only the client knows the name of its session, so the token is needed only to create one.
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
    let asked = OwnedRequest {
        method,
        what,
        session,
        from_time: asks.fromtime.map_or(0, |time| time as u64),
        body,
        from,
        new_session: new_session.to_string(),
        reply,
    };
    let reply =
        if access.signalling.send(SignallingEvent::Request(Box::new(asked))).await { answer.await.ok() } else { None };
    let refused = match reply {
        Some(Reply::Json(value)) => {
            return uncached_json(value);
        }
        Some(Reply::Done) => return "OK".into_response(),
        Some(Reply::NotFound) => HttpRefusal::new(StatusCode::NOT_FOUND, "there is no such session, or no such path"),
        Some(Reply::Bad(text)) => HttpRefusal::new(StatusCode::BAD_REQUEST, text),
        Some(Reply::TooMany(text, wait)) => HttpRefusal::retry_after(text, wait),
        None => HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"),
    };
    problem(&refused)
}

#[cfg(test)]
mod tests;
