//! `/pair`: pairs a device by the code that the owner reads to it. docs/wire.md describes both requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use nearlight_wire::Bytes32;
use serde::{Deserialize, Serialize};

use crate::access::code_pairing::{CodePairingError, PairedDevice, StartedExchange};
use crate::http::uncached_json;
use crate::state::{ServerState, clean};
use crate::transports::rtc::whep::{Client, HttpRefusal};

/// Largest body of a request in bytes: a share, a confirmation, and what the device says about itself.
const MAX_BODY_BYTES: usize = 1_024;

/// A device asks to be paired.
#[derive(Deserialize)]
struct StartRequest {
    /// The client's share as hexadecimal digits.
    share: String,
    /// What the device says about itself, such as the browser's name.
    #[serde(default)]
    device: String,
}

#[derive(Serialize)]
struct StartAnswer {
    exchange: String,
    share: String,
}

#[derive(Deserialize)]
struct ConfirmRequest {
    confirmation: Bytes32,
}

#[derive(Serialize)]
struct ConfirmAnswer {
    confirmation: Bytes32,
    role: &'static str,
    name: String,
    expires_s: Option<u64>,
}

pub(crate) fn router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/pair", post(start))
        .route("/pair/{exchange}", post(confirm))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(state)
}

async fn start(
    State(state): State<Arc<ServerState>>,
    Extension(client): Extension<Client>,
    axum::Json(request): axum::Json<StartRequest>,
) -> Response {
    let links = state.pairing.links();
    let share = request.share.parse().map_err(|_| CodePairingError::Share);
    let now = state.clock.now();
    match share.and_then(|share| state.code_pairing.start(links, now, client.0, &share, &request.device)) {
        Ok(StartedExchange { name, share }) => uncached_json(StartAnswer { exchange: name, share: share.to_string() }),
        Err(error) => refuse(&client, &error),
    }
}

async fn confirm(
    State(state): State<Arc<ServerState>>,
    Extension(client): Extension<Client>,
    Path(exchange): Path<String>,
    axum::Json(request): axum::Json<ConfirmRequest>,
) -> Response {
    let now = state.clock.now();
    let confirmed = tokio::task::spawn_blocking(move || {
        state.code_pairing.confirm(state.pairing.links(), now, &exchange, &request.confirmation)
    });
    match confirmed.await {
        Ok(Ok(PairedDevice { link, confirmation })) => {
            tracing::info!(client = %client.0, number = link.number, name = link.name, role = link.role.name(), "a device was paired");
            let (role, name, expires_s) = (link.role.name(), link.name, link.expires_s);
            uncached_json(ConfirmAnswer { confirmation, role, name, expires_s })
        }
        Ok(Err(error)) => refuse(&client, &error),
        Err(error) => {
            tracing::error!(%error, "a device could not be paired");
            HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the device could not be paired; see the server's log")
                .into_response()
        }
    }
}

fn refuse(client: &Client, error: &CodePairingError) -> Response {
    tracing::warn!(client = %client.0, reason = clean(&error.to_string()), "a device was not paired");
    let status = match error {
        CodePairingError::NoCode | CodePairingError::NoFile | CodePairingError::Unknown => StatusCode::NOT_FOUND,
        CodePairingError::Share => StatusCode::BAD_REQUEST,
        CodePairingError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        CodePairingError::WrongCode(_) | CodePairingError::Void => StatusCode::FORBIDDEN,
        CodePairingError::Link(_) => StatusCode::CONFLICT,
        CodePairingError::Randomness(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpRefusal::new(status, error.to_string()).into_response()
}
