//! Optional choice of the nearest server: a page of the front sends requests to each server and returns with the one that answered fastest.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nearlight_fleet::{PlacementError, PlacementRequest};
use serde::Serialize;

use super::{Shared, full, origin_of, page_link, place_of, room_of};

/// Servers that a browser measures, the least loaded ones. Guess: the number of regions of a fleet. Each costs a browser four requests.
const MAX_MEASURED_SERVERS: usize = 8;

/// Permits the page's own script, and requests to servers, which use `https` unless they run on the same machine.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self' https: http:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, headers, include_str!("nearest.html")).into_response()
}

pub(super) async fn script() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/javascript"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::OK, headers, include_str!("nearest.js")).into_response()
}

#[derive(Serialize)]
struct Origins {
    servers: Vec<Origin>,
}

#[derive(Serialize)]
struct Origin {
    server: String,
    origin: String,
}

/// Returns the servers with a free place, the least loaded first. It needs no token, because redirects reveal the same.
pub(super) async fn origins(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let room = match room_of(query) {
        Ok(room) => room,
        Err(refused) => return refused.into_response(),
    };
    let placement = PlacementRequest { room, place: place_of(query) };
    let front = shared.front();
    let servers: Vec<Origin> = match front.candidates(shared.clock.now(), &placement) {
        Ok(found) => found
            .into_iter()
            .take(MAX_MEASURED_SERVERS)
            .filter_map(|candidate| {
                let link = page_link(&candidate)?;
                Some(Origin { server: candidate.server.to_string(), origin: origin_of(&link) })
            })
            .collect(),
        Err(why) => return full(why).into_response(),
    };
    drop(front);
    if servers.is_empty() {
        return full(PlacementError::NoServer).into_response();
    }
    crate::http::uncached_json(Origins { servers })
}
