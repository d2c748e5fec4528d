//! The polling variant: a session for each client, whose requests poll for news.

use nearlight_units::{Span, Time};
use serde_json::{Value, json};

use super::client::{Client, Kind};
use super::text::{self, ServerMessage};
use super::{ClientId, Guest, Rejection, Signalling};

/// A session whose client makes no request for this long is over, as in Unity's web server.
pub(super) const SESSION_TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of entries of a session, oldest dropped: an answer and an offer for each connection, and what ended. Guess.
const MAX_ENTRIES: usize = 32;

/// The HTTP method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
}

/// A request to `/signaling`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: Method,
    /// The path after `/signaling/`. Empty for that path itself.
    pub what: &'a str,
    /// The header `Session-Id`.
    pub session: Option<&'a str>,
    /// The query's `fromtime` in milliseconds since 1970. 0 if there is none.
    pub from_time: u64,
    pub body: &'a str,
    pub from: Guest,
    /// An unguessable name for a new session.
    pub new_session: &'a str,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Success, with this body.
    Json(Value),
    /// Success, without a body.
    Done,
    /// There is no such session (any more), or no such path.
    NotFound,
    /// The client's fault, described in words.
    Bad(String),
    /// The client requests too much, described in words. It may try again after this time.
    TooMany(String, Span),
}

/// Entries that a session's client may not have read.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Vec<(u64, &'static str, String, Value)>,
    /// The newest time in any reply.
    named: u64,
}

impl Log {
    /// Adds an entry. Each is later than every previous reply, so that polling for what came after a reply neither misses nor repeats
    /// anything.
    pub(super) fn add(&mut self, name: &str, message: ServerMessage<'_>, datetime: u64) {
        let kind = message.kind();
        if kind == "connect" {
            // The request's own reply contained it, and every list of messages does.
            return;
        }
        let datetime = datetime.max(self.named + 1);
        self.entries.retain(|(_, known, of, _)| (*known, of.as_str()) != (kind, name));
        if kind == "disconnect" {
            self.entries.retain(|(_, known, of, _)| of != name || *known == "error");
        }
        if self.entries.len() == MAX_ENTRIES {
            self.entries.remove(0);
        }
        self.entries.push((datetime, kind, name.to_owned(), message.entry(name, datetime)));
    }

    /// Entries after `from_time`. A client begins with its own clock, which may be ahead of ours: times that we never sent are ignored.
    fn since(&mut self, from_time: u64) -> impl Iterator<Item = (&'static str, &Value)> {
        let from_time = from_time.min(self.named);
        self.entries.iter().filter(move |(at, ..)| *at > from_time).map(|(_, kind, _, value)| (*kind, value))
    }

    /// The time for a reply, not before any entry that it contains.
    fn name(&mut self, datetime: u64) -> u64 {
        let newest = self.entries.last().map_or(0, |(at, ..)| *at);
        self.named = self.named.max(datetime).max(newest);
        self.named
    }
}

impl Signalling {
    /// Handles a request. The reply is returned at once.
    pub fn on_request(&mut self, now: Time, request: &Request<'_>) -> Reply {
        self.on_timeout(now);
        let is_new = request.what.is_empty() && request.method == Method::Put;
        if is_new {
            return self.open_session(now, request);
        }
        let Some(id) = request.session.and_then(|session| self.sessions.get(session)).copied() else {
            return Reply::NotFound;
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.heard_at = now;
        }
        match (request.method, request.what) {
            (Method::Delete, "") => {
                self.forget(id);
                Reply::Done
            }
            (Method::Get, what) => self.list(now, id, what, request.from_time),
            (Method::Put, "connection") => self.take(now, id, "connect", request.body),
            (Method::Delete, "connection") => self.take(now, id, "disconnect", request.body),
            (Method::Post, kind @ ("offer" | "answer" | "candidate")) => self.take(now, id, kind, request.body),
            _ => Reply::NotFound,
        }
    }

    fn open_session(&mut self, now: Time, request: &Request<'_>) -> Reply {
        match self.admit(Client::new(now, request.from, Kind::Polling(Log::default()))) {
            Ok(id) => {
                self.sessions.insert(request.new_session.to_owned(), id);
                Reply::Json(json!({ "sessionId": request.new_session }))
            }
            // By then an unused session has ended.
            Err(full) => Reply::TooMany(full.to_string(), SESSION_TIMEOUT),
        }
    }

    fn take(&mut self, now: Time, id: ClientId, kind: &str, body: &str) -> Reply {
        let (name, message) = match text::read_body(kind, body) {
            Ok(read) => read,
            Err(error) => return Reply::Bad(error.to_string()),
        };
        match self.on_client_message(now, id, &name, message) {
            Ok(()) => {}
            Err(Rejection::Bad(problem)) => return Reply::Bad(problem),
            Err(Rejection::TooMany(problem, wait)) => return Reply::TooMany(problem, wait),
        }
        match kind {
            "connect" => Reply::Json(ServerMessage::Connect.entry(&name, self.datetime(now))),
            "disconnect" => Reply::Json(json!({ "connectionId": name })),
            _ => Reply::Done,
        }
    }

    /// Lists all entries since then, or only one kind, as older clients request it.
    fn list(&mut self, now: Time, id: ClientId, what: &str, from_time: u64) -> Reply {
        let datetime = self.datetime(now);
        let Some(client) = self.clients.get_mut(&id) else { return Reply::NotFound };
        let connections: Vec<Value> =
            client.connections.keys().map(|name| ServerMessage::Connect.entry(name, datetime)).collect();
        let Kind::Polling(log) = &mut client.kind else { return Reply::NotFound };
        let mut of = |kind: &str| -> Vec<Value> {
            log.since(from_time).filter(|(known, _)| *known == kind).map(|(_, value)| value.clone()).collect()
        };
        match what {
            "" => {
                let mut messages = connections;
                messages.extend(log.since(from_time).map(|(_, value)| value.clone()));
                let datetime = log.name(datetime);
                Reply::Json(json!({ "messages": messages, "datetime": datetime }))
            }
            "connection" => Reply::Json(json!({ "connections": connections })),
            "offer" => Reply::Json(json!({ "offers": of("offer") })),
            "answer" => Reply::Json(json!({ "answers": of("answer") })),
            // The world lists all its addresses in its session descriptions.
            "candidate" => Reply::Json(json!({ "candidates": [] })),
            _ => Reply::NotFound,
        }
    }
}
