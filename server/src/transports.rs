//! The transports over which clients connect. This is the only place in the server that lists them.

pub(crate) mod carrier;
pub(crate) mod rtc;
pub(crate) mod urs;
pub(crate) mod websocket;
pub(crate) mod webtransport;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use nearlight_net::{EthernetListener, Listener, SessionKind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::options::{IceServer, UnityOptions};
use crate::rooms;
use crate::state::ServerState;
use crate::transports::rtc::RtcEndpoint;
use crate::transports::rtc::whep::{self, Whep};

/// A client's session, from its handshake to its end.
pub(crate) type ClientSession = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The channel on which new sessions are sent to the task that runs them.
pub(crate) type Sessions = mpsc::Sender<ClientSession>;

/// The endpoints on which clients are accepted.
pub(crate) struct Acceptors<'a> {
    pub(crate) state: &'a Arc<ServerState>,
    pub(crate) listener: &'a Arc<Listener>,
    pub(crate) ethernet: Vec<EthernetListener>,
    pub(crate) endpoint: &'a Arc<RtcEndpoint>,
    pub(crate) ice_servers: &'a [IceServer],
    pub(crate) unity: Option<&'a UnityOptions>,
}

impl Acceptors<'_> {
    /// Starts to accept clients over every transport. Returns the transports' routes on the page's port, and the accepting tasks, which run
    /// until they are aborted.
    pub(crate) fn open(self, sessions: &Sessions) -> (Router, JoinSet<()>) {
        let Self { state, listener, ethernet, endpoint, ice_servers, unity } = self;
        let mut accepting = JoinSet::new();
        accepting.spawn({
            let (state, listener, sessions) = (Arc::clone(state), Arc::clone(listener), sessions.clone());
            async move {
                while let Some(connection) = listener.accept().await {
                    let state = Arc::clone(&state);
                    let session: ClientSession = match connection.kind() {
                        SessionKind::Media => Box::pin(webtransport::serve(state, connection)),
                        SessionKind::Room => Box::pin(rooms::webtransport::serve(state, sessions.clone(), connection)),
                    };
                    let _ = sessions.send(session).await;
                }
            }
        });
        for interface in ethernet {
            let (state, sessions) = (Arc::clone(state), sessions.clone());
            accepting.spawn(async move {
                while let Some(connection) = interface.accept().await {
                    let _ = sessions.send(Box::pin(webtransport::serve(Arc::clone(&state), connection))).await;
                }
            });
        }
        accepting.spawn({
            let endpoint = Arc::clone(endpoint);
            async move { endpoint.run().await }
        });
        let whep = Whep::new(Arc::clone(state), Arc::clone(endpoint), sessions.clone(), ice_servers);
        let router = whep::router(Arc::new(whep)).merge(websocket::router(state, sessions));
        let Some(unity) = unity else { return (router, accepting) };
        let (own, signalling) = urs::open(unity, state, endpoint, sessions.clone());
        accepting.spawn(signalling);
        (router.merge(own), accepting)
    }
}
