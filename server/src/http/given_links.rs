//! `/links`: a host's page lists the owner's links and devices, makes and revokes them, and opens codes for devices. docs/wire.md describes the
//! requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use nearlight_rooms::Role;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::link_file::{GivenLink, LinkFile, LinkFileError, LinkKind, NewLink, role_name, unix_time_s};
use crate::http::page::{PageState, with_token};
use crate::http::uncached_json;
use crate::state::{ServerState, clean};
use crate::transports::rtc::whep::{Client, HttpRefusal};

/// Largest body of a request in bytes: a name, a role and a time.
const MAX_BODY_BYTES: usize = 1_024;
/// How long a code that a page has opened can be used, as with `nearlight devices pair`.
const CODE_LIFETIME_S: u64 = 300;

/// What a new link or device may do, and for how long.
#[derive(Deserialize)]
struct GrantRequest {
    /// Its name. An empty one is replaced: for a device by what its browser says, for a link by its number.
    #[serde(default)]
    name: String,
    #[serde(deserialize_with = "role_name::deserialize")]
    role: Role,
    /// Seconds after which it expires; none until it is revoked.
    lifetime_s: Option<u64>,
}

impl GrantRequest {
    fn expires_s(&self) -> Option<u64> {
        self.lifetime_s.map(|seconds| unix_time_s().saturating_add(seconds))
    }
}

pub(crate) fn router(state: Arc<ServerState>, page: Arc<PageState>) -> Router {
    Router::new()
        .route("/links", get(list).post(add))
        .route("/links/code", post(open_code))
        .route("/links/{number}", delete(revoke))
        .route_layer(from_fn_with_state(page, with_token))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(state)
}

async fn list(State(state): State<Arc<ServerState>>, role: Option<Extension<Role>>) -> Response {
    answer(
        change(&state, role, |file| {
            Ok(json!({ "links": file.links().iter().map(GivenLink::json).collect::<Vec<_>>() }))
        })
        .await,
    )
}

async fn add(
    State(state): State<Arc<ServerState>>,
    role: Option<Extension<Role>>,
    Extension(client): Extension<Client>,
    axum::Json(request): axum::Json<GrantRequest>,
) -> Response {
    let expires_s = request.expires_s();
    let new = NewLink { name: request.name, kind: LinkKind::Link, role: request.role, expires_s };
    let added = change(&state, role, move |file| {
        let added = file.add(&new)?;
        let mut object = added.json();
        object["token"] = added.token().map(|token| token.to_string()).into();
        object["page"] = file.page().into();
        tracing::info!(client = %client.0, number = added.number, name = added.name, role = added.role.name(), "a host made a link");
        Ok(object)
    });
    answer(added.await)
}

async fn open_code(
    State(state): State<Arc<ServerState>>,
    role: Option<Extension<Role>>,
    Extension(client): Extension<Client>,
    axum::Json(request): axum::Json<GrantRequest>,
) -> Response {
    let opened = change(&state, role, move |file| {
        let expires_s = request.expires_s();
        let name = Some(request.name).filter(|name| !name.trim().is_empty());
        let code = file.open_code(request.role, name, unix_time_s().saturating_add(CODE_LIFETIME_S), expires_s)?;
        tracing::info!(client = %client.0, role = request.role.name(), "a host opened a code for a device");
        Ok(json!({ "code": code.to_string(), "valid_s": CODE_LIFETIME_S, "page": file.page() }))
    });
    answer(opened.await)
}

async fn revoke(
    State(state): State<Arc<ServerState>>,
    role: Option<Extension<Role>>,
    Extension(client): Extension<Client>,
    Path(number): Path<u32>,
) -> Response {
    let revoked = change(&state, role, move |file| {
        let revoked = file.revoke_number(number)?;
        tracing::info!(client = %client.0, number, name = revoked.name, "a host revoked a link");
        Ok(revoked.json())
    });
    answer(revoked.await)
}

/// Runs `work` on the file if the request came with a host's token. The file waits for other processes that use it.
async fn change(
    state: &ServerState,
    role: Option<Extension<Role>>,
    work: impl FnOnce(&LinkFile) -> Result<Value, LinkFileError> + Send + 'static,
) -> Result<Value, HttpRefusal> {
    if role.is_none_or(|Extension(role)| role != Role::Host) {
        return Err(HttpRefusal::new(StatusCode::FORBIDDEN, "only hosts see and change who may connect"));
    }
    let Some(file) = state.pairing.links().file().cloned() else {
        let words = "this server keeps no links, because it was started with --ephemeral or --port 0";
        return Err(HttpRefusal::new(StatusCode::NOT_FOUND, words));
    };
    match tokio::task::spawn_blocking(move || work(&file)).await {
        Ok(done) => done.map_err(|error| {
            let status = match error {
                LinkFileError::Full => StatusCode::CONFLICT,
                LinkFileError::Unknown(_) | LinkFileError::Ambiguous { .. } => StatusCode::NOT_FOUND,
                LinkFileError::Token(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            HttpRefusal::new(status, clean(&error.to_string()))
        }),
        Err(error) => {
            tracing::error!(%error, "the file of links could not be used");
            Err(HttpRefusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the links could not be changed; see the server's log",
            ))
        }
    }
}

fn answer(result: Result<Value, HttpRefusal>) -> Response {
    match result {
        Ok(body) => uncached_json(body),
        Err(refused) => refused.into_response(),
    }
}
