//! Unity Render Streaming's web clients: their routes beside the page, their signalling, and their sessions.

mod carrier;
mod pages;
mod routes;
mod signalling;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use nearlight_urs::signalling::{Gate, Rejection as Unread, Submission};
use nearlight_webrtc::{Offer, is_candidate};

use crate::options::UnityOptions;
use crate::state::ServerState;
use crate::transports::Sessions;
use crate::transports::rtc::RtcEndpoint;
use crate::transports::rtc::whep::HttpRefusal;
use carrier::UnityPeers;
use routes::Access;
use signalling::SignallingTask;

pub(crate) use routes::is_own;

/// Returns the routes, and the signalling task, which must run as long as the server does. New sessions are sent to `sessions`.
pub(crate) fn open(
    options: &UnityOptions,
    state: &Arc<ServerState>,
    endpoint: &Arc<RtcEndpoint>,
    sessions: Sessions,
) -> (Router, impl Future<Output = ()> + Send + use<>) {
    let media = UnityPeers { state: Arc::clone(state), endpoint: Arc::clone(endpoint), sessions };
    let (signalling, work) = SignallingTask::open(options.mode, state.clock, gate(Arc::clone(state)), media);
    let checking = Arc::clone(state);
    let refuse = Box::new(move |from, token: &str| match checking.check_token(from, token) {
        Ok(credential) if credential.role.acts() => None,
        Ok(_) => Some(HttpRefusal::new(StatusCode::FORBIDDEN, "a spectator's link is not valid for Unity's clients")),
        Err(rejection) => Some(HttpRefusal::from(rejection)),
    });
    let access = Access { signalling, refuse, token_needed: options.token_needed };
    let router = routes::router(Arc::new(access));
    let router = match &options.pages {
        Some(folder) => router.merge(pages::router(folder)),
        None => router,
    };
    (router, work)
}

/// Returns the check of everything that a client submits. Offers are rate-limited like WHEP's.
fn gate(state: Arc<ServerState>) -> Gate {
    let bad = |words: String| Unread::Bad(words);
    Box::new(move |now, guest, brought| match brought {
        Submission::Offer(text) => {
            state.count_offer(now, guest).map_err(|rejection| {
                let wait = rejection.wait.unwrap_or_default();
                Unread::TooMany(rejection.message, wait)
            })?;
            Offer::parse(text).map(drop).map_err(|error| bad(error.to_string()))
        }
        Submission::Answer(text) => Offer::parse_answer(text).map(drop).map_err(|error| bad(error.to_string())),
        Submission::Candidate(text) if is_candidate(text) => Ok(()),
        Submission::Candidate(_) => Err(bad("the candidate is malformed (RFC 8839)".into())),
    })
}
