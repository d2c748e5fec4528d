//! The front of a fleet: redirects browsers to a server with a free place, and lists such servers for programs.
//!
//! It serves no media and knows no client's token. A browser keeps the fragment of its link, where the token is, when it is redirected
//! (RFC 9110 section 10.2.2); a program shows its token and gets links with the same one. So nobody gets more from a front than they bring,
//! unless the owner lets everybody in as a guest or spectator ([`FrontOptions::everybody`]).

mod nearest;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::uri::Scheme;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nearlight_fleet::nats::DirectoryEvent;
use nearlight_fleet::{
    ARRIVAL_ALLOWANCE, AnnouncementOutcome, Candidate, Front, PlaceKind, PlacementError, PlacementRequest,
};
use nearlight_net::{Clock, Identity, Link, ListenOptions, Listener, Token};
use nearlight_rooms::{Role, is_room_name};
use nearlight_units::lock;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::access::certificate::CertificateSource;
use crate::access::hosts::{Hosts, requested_host};
use crate::access::links::{check_of, token_for};
use crate::access::pairing::{AuthError, Pairing};
use crate::http::Site;
use crate::serve::{CERTIFICATE_CHECK, ServerError};
use crate::state::seconds;
use crate::transports::rtc::whep::{Client, HttpRefusal, token_in};

/// The path of the list of servers, for programs.
const LIST_PATH: &str = "/servers.json";
/// The path from which a server's page learns where to go when its server is gone.
const PAGE_PATH: &str = "/page.json";

/// The settings of a front.
#[derive(Debug)]
pub struct FrontOptions {
    /// Address to listen on; none listens on every address.
    pub address: Option<IpAddr>,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// Further names and addresses that clients may use for the front. A self-signed certificate names them too.
    pub hosts: Vec<String>,
    /// The token of the servers.
    pub token: Token,
    /// Certificate chain and key as PEM files; none makes a self-signed certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The role that clients without a token get links for. None gives them no links.
    pub everybody: Option<Role>,
    /// Whether browsers measure round trips and go to the nearest server. Otherwise they are sent to the least loaded one.
    pub nearest: bool,
}

/// A front with an open port.
pub struct BoundFront {
    listener: Listener,
    identity: Identity,
    options: FrontOptions,
    clock: Clock,
}

struct Shared {
    clock: Clock,
    front: Mutex<Front>,
    pairing: Pairing,
    token: Token,
    everybody: Option<Role>,
    nearest: bool,
}

impl BoundFront {
    /// Opens the port. Call it inside a tokio runtime.
    pub fn open(options: FrontOptions, clock: Clock) -> Result<Self, ServerError> {
        let identity = match &options.certificate {
            Some((certificate, key)) => Identity::from_files(certificate, key)?,
            None => Identity::self_signed(&options.hosts)?,
        };
        let listen = ListenOptions { address: options.address, port: options.port, ..ListenOptions::default() };
        let listener = Listener::bind(&listen, &identity, clock)?;
        Ok(Self { listener, identity, options, clock })
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Returns links for users with this role, the one for this machine first. The links name no certificate, because browsers follow them
    /// to a server that has another one.
    #[must_use]
    pub fn links(&self, role: Role) -> Vec<Link> {
        let names = self.identity.names();
        let addresses = || self.listener.reachable_addresses().iter().map(ToString::to_string).collect();
        let others: Vec<String> = if names.is_empty() { addresses() } else { names.clone() };
        let local = if names.is_empty() { Some((false, "localhost".to_owned())) } else { None };
        let token = token_for(&self.options.token, role).to_string();
        let hosts = local.into_iter().chain(others.into_iter().map(|host| (true, host)));
        hosts
            .map(|(secure, host)| Link {
                secure,
                host,
                port: self.port(),
                path: "/".into(),
                token: Some(token.clone()),
                certificate: None,
            })
            .collect()
    }

    /// Serves with the events of the directory, until `stop` completes.
    pub async fn run(self, mut directory: mpsc::Receiver<DirectoryEvent>, stop: impl Future<Output = ()>) {
        let Self { listener, identity, options, clock } = self;
        let FrontOptions { hosts, token, everybody, nearest, certificate, .. } = options;
        let mut certificate = CertificateSource::new(&identity, certificate, &hosts, None);
        let hosts = Hosts::of_machine(&identity, hosts);
        let pairing = Pairing::new(&token, Arc::default(), None);
        let front = Mutex::new(Front::new(check_of(&token)));
        let shared = Arc::new(Shared { clock, front, pairing, token, everybody, nearest });
        let site = Arc::new(Site::new(router(Arc::clone(&shared)), hosts, false, clock));
        let mut pages = tokio::task::JoinSet::new();
        let mut certificate_check = tokio::time::interval(CERTIFICATE_CHECK);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(event) = directory.recv() => shared.on_directory(event),
                Some(stream) = listener.accept_page() => if !stream.framed() {
                    pages.spawn(Arc::clone(&site).serve(stream));
                },
                Some(session) = listener.accept() => {
                    session.close(1, "this is a front: open its link in a browser, or ask it for /servers.json");
                }
                Some(_) = pages.join_next() => {}
                _ = certificate_check.tick() => if let Some(identity) = certificate.as_mut().and_then(CertificateSource::poll)
                    && let Err(error) = listener.set_identity(&identity)
                {
                    tracing::error!(%error, "the new certificate cannot be used");
                },
            }
        }
        pages.shutdown().await;
        listener.shutdown("the front is shutting down").await;
    }
}

impl Shared {
    fn front(&self) -> MutexGuard<'_, Front> {
        lock(&self.front)
    }

    fn on_directory(&self, event: DirectoryEvent) {
        let now = self.clock.now();
        match event {
            DirectoryEvent::Reachable(is_reachable) => self.front().on_directory(now, is_reachable),
            DirectoryEvent::Gone(server) => {
                if self.front().on_gone(&server) {
                    tracing::info!(%server, "a server has closed");
                }
            }
            DirectoryEvent::Refused { server, error } => {
                if self.front().on_refused(now, server.clone()) {
                    tracing::warn!(%server, %error, "nobody is sent to a server: its announcement is not used");
                }
            }
            DirectoryEvent::Announced { server, announcement } => {
                if !Link::parse(&announcement.link).is_ok_and(|link| link.secure) {
                    return tracing::debug!(%server, "a server announces no link with https");
                }
                let link = announcement.link.clone();
                match self.front().on_announcement(now, server.clone(), announcement) {
                    AnnouncementOutcome::New => tracing::info!(%server, link, "a server takes clients"),
                    AnnouncementOutcome::OtherToken => tracing::warn!(
                        %server,
                        link,
                        "a server has another token, so nobody is sent there: start servers and front with the same --token or NEARLIGHT_TOKEN"
                    ),
                    AnnouncementOutcome::Known | AnnouncementOutcome::Ignored => {}
                }
            }
        }
    }

    /// Returns the role and the token of a client, or the role and the token that everybody gets.
    fn authorize(&self, client: IpAddr, headers: &HeaderMap) -> Result<(Role, String), HttpRefusal> {
        let Some(token) = token_in(headers) else {
            let everybody = self.everybody.map(|role| (role, token_for(&self.token, role).to_string()));
            return everybody.ok_or_else(HttpRefusal::without_token);
        };
        match self.pairing.check_bearer(self.clock.now(), client, token) {
            Ok(credential) => Ok((credential.role, token.to_owned())),
            Err(AuthError::WrongToken) => {
                let words = "The pairing token is wrong. Use that of the link that this front or a server printed.";
                Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, words))
            }
            Err(AuthError::TooManyFailures(wait)) => {
                let wait_seconds = seconds(wait);
                let words = format!(
                    "The pairing token is wrong, as others from this address were before. Try again in {wait_seconds} s."
                );
                Err(HttpRefusal::retry_after(words, wait))
            }
        }
    }

    /// Chooses a server with a free place and returns the address of its page, with these options and the front's own address, which the
    /// page asks when its server is gone. This needs no token, and the address contains none.
    fn choose(&self, room: Option<&str>, query: &str, own: Option<String>) -> Result<String, HttpRefusal> {
        let given = options_of(query);
        let (now, placement) = (self.clock.now(), PlacementRequest { room, place: place_of(query) });
        let nearest = option_of(query, SERVER_OPTION);
        let mut front = self.front();
        let found = front.candidates(now, &placement).map_err(full)?;
        // The server that the client measured may be full or closed by now.
        let chosen = found.iter().find(|candidate| nearest == Some(candidate.server.as_str())).unwrap_or(&found[0]);
        let (server, link) = (chosen.server.clone(), page_link(chosen).ok_or_else(|| full(PlacementError::NoServer))?);
        front.on_sent(now, &server, &placement);
        drop(front);
        let is_own = |option: &str| {
            option.starts_with("front=")
                || option.starts_with(SERVER_OPTION)
                || (room.is_some() && option.starts_with("room="))
        };
        let options: Vec<String> = room
            .map(|room| format!("room={room}"))
            .into_iter()
            .chain(given.filter(|option| !is_own(option)).map(str::to_owned))
            .chain(own.map(|own| format!("front={own}")))
            .collect();
        let mark = if options.is_empty() { "" } else { "?" };
        let page = format!("{}{mark}{}", link.page(), options.join("&"));
        tracing::debug!(%server, "a client is sent on");
        Ok(page)
    }

    /// Returns whether there are several servers to choose from.
    fn has_several(&self, room: Option<&str>, query: &str) -> bool {
        let placement = PlacementRequest { room, place: place_of(query) };
        self.front().candidates(self.clock.now(), &placement).is_ok_and(|found| found.len() > 1)
    }

    /// Redirects a browser to a server, or to the page that measures which server is nearest.
    fn redirect(&self, room: Option<&str>, request: &Request) -> Response {
        let query = request.uri().query().unwrap_or_default();
        if self.nearest && option_of(query, SERVER_OPTION).is_none() && self.has_several(room, query) {
            return nearest::page();
        }
        let page = match self.choose(room, query, own_origin(request)) {
            Ok(chosen) => chosen,
            Err(refused) => return refused.into_response(),
        };
        let fragment = self.everybody.map(|role| format!("#token={}", token_for(&self.token, role)));
        // A browser that comes back may have to go elsewhere, so the redirect must not be cached.
        let headers =
            [(header::LOCATION, page + &fragment.unwrap_or_default()), (header::CACHE_CONTROL, "no-store".into())];
        (StatusCode::TEMPORARY_REDIRECT, headers).into_response()
    }
}

/// Prefix of the option with which a browser names the nearest server after measuring. Its value may be empty.
const SERVER_OPTION: &str = "server=";

fn options_of(query: &str) -> impl Iterator<Item = &str> + Clone {
    query.split('&').filter(|option| !option.is_empty())
}

fn option_of<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    options_of(query).find_map(|option| option.strip_prefix(name))
}

/// Returns the kind of place that a page needs: the page's own option says whether it renders for itself.
fn place_of(query: &str) -> PlaceKind {
    if options_of(query).any(|option| option == "rendering=local") { PlaceKind::Member } else { PlaceKind::Client }
}

/// Returns the room that a page's options name.
fn room_of(query: &str) -> Result<Option<&str>, HttpRefusal> {
    let room = option_of(query, "room=");
    if room.is_some_and(|room| !is_room_name(room)) { Err(no_room()) } else { Ok(room) }
}

fn page_link(candidate: &Candidate<'_>) -> Option<Link> {
    Link::parse(&candidate.announcement.link).ok().filter(|link| link.secure)
}

/// Returns the address of a server's page without the slash at its end: an origin, except where a proxy serves it below a path.
fn origin_of(link: &Link) -> String {
    link.page().trim_end_matches('/').to_owned()
}

/// Returns the origin under which the client reached this front, or none if the request names no host.
fn own_origin(request: &Request) -> Option<String> {
    let host = requested_host(request).ok()?;
    let scheme: &Scheme = request.extensions().get()?;
    Some(format!("{scheme}://{host}"))
}

fn full(why: PlacementError) -> HttpRefusal {
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string()).with_retry_after(ARRIVAL_ALLOWANCE)
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(redirect_any_room))
        .route("/r/{room}", get(redirect_room))
        .route(LIST_PATH, get(list).options(preflight))
        .route(PAGE_PATH, get(page))
        .route("/origins.json", get(nearest::origins))
        .route("/nearest.js", get(nearest::script))
        .route("/healthz", get(|| async { (StatusCode::OK, "ok\n") }))
        .fallback(get(|| async { (StatusCode::NOT_FOUND, "there is no such page; a room's is /r/ROOM\n") }))
        .with_state(shared)
}

async fn redirect_any_room(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.redirect(None, &request)
}

async fn redirect_room(State(shared): State<Arc<Shared>>, Path(room): Path<String>, request: Request) -> Response {
    if !is_room_name(&room) {
        return no_room().into_response();
    }
    shared.redirect(Some(&room), &request)
}

/// The target of a redirect, for a page that must know whether it is another server than its own. The query is the page's.
#[derive(Serialize)]
struct PageAddress {
    page: String,
}

async fn page(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let mut response = match room_of(query).and_then(|room| shared.choose(room, query, own_origin(&request))) {
        Ok(page) => Json(PageAddress { page }).into_response(),
        Err(refused) => refused.into_response(),
    };
    allow_all(&mut response);
    response
}

fn no_room() -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, "a room's name has 1 to 32 characters of a-z, 0-9 and `-`")
}

/// The query of a request for the list of servers.
#[derive(Debug, Deserialize)]
struct ListQuery {
    room: Option<String>,
    #[serde(default)]
    place: RequestedPlace,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RequestedPlace {
    #[default]
    Client,
    Member,
}

#[derive(Serialize)]
struct ServerList {
    role: &'static str,
    room: Option<String>,
    servers: Vec<ServerEntry>,
}

/// A server in the list. docs/json.md describes the fields.
#[derive(Serialize)]
struct ServerEntry {
    server: String,
    link: String,
    free: u32,
    load: f64,
    room_members: u32,
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(client): Extension<Client>,
    question: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let answer = || {
        let (role, token) = shared.authorize(client.0, &headers)?;
        let Query(ListQuery { room, place }) = question.map_err(|_| {
            let words = "ask for /servers.json?room=ROOM&place=client, or place=member; both may be left out";
            HttpRefusal::new(StatusCode::BAD_REQUEST, words)
        })?;
        if room.as_deref().is_some_and(|room| !is_room_name(room)) {
            return Err(no_room());
        }
        let place = match place {
            RequestedPlace::Client => PlaceKind::Client,
            RequestedPlace::Member => PlaceKind::Member,
        };
        let placement = PlacementRequest { room: room.as_deref(), place };
        let front = shared.front();
        let found = front.candidates(shared.clock.now(), &placement).map_err(full)?;
        let listed = |candidate: Candidate<'_>| {
            let Candidate { server, free, load, room_members, .. } = candidate;
            let link = Link { token: Some(token.clone()), ..page_link(&candidate)? };
            Some(ServerEntry { server: server.to_string(), link: link.to_string(), free, load, room_members })
        };
        let servers = found.into_iter().filter_map(listed).collect();
        Ok(ServerList { role: role.name(), room: room.clone(), servers })
    };
    let mut response = match answer() {
        Ok(list) => Json(list).into_response(),
        Err(refused) => refused.into_response(),
    };
    allow_all(&mut response);
    response
}

async fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    allow_all(&mut response);
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization, X-Nearlight-Token"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets pages of other origins read the response, such as a server's own: the token decides, not the origin.
fn allow_all(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests;
