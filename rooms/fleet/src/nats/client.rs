//! The task of the carrier: the only code that talks to NATS.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{ANNOUNCEMENT_TIMEOUT, Announcement, Batch, Entry, EntryWrite, ServerId, WriteError};
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::kv::{Config, Operation, Store, UpdateErrorKind};
use async_nats::{Client, ConnectOptions, Event};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;

use super::{Carrier, DirectoryEvent, FleetEvent, FleetRequest, MAX_QUEUED_EVENTS, Request};

const ROOMS_BUCKET: &str = "nearlight-rooms";
const SERVERS_BUCKET: &str = "nearlight-servers";
const SUBJECT_PREFIX: &str = "nearlight.rooms";
/// Longest time that the first connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest time that an answer of the directory may take: less than half a lease, so that a second attempt may still be in time.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Interval between two attempts to reconnect.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of pings. A connection that does not answer two of them is given up.
const PING_INTERVAL: Duration = Duration::from_millis(500);

/// Why there is no carrier.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error(
        "cannot reach NATS at {0}: {1}. Is nats-server running there, and does the URL have its user and password?"
    )]
    Connect(String, async_nats::ConnectError),
    #[error(
        "NATS has no key-value store {bucket}: {reason}. Start nats-server with JetStream (-js), and let this user have that bucket"
    )]
    Store { bucket: &'static str, reason: String },
    #[error("NATS does not allow subscribing to {SUBJECT_PREFIX}: {0}")]
    Subscribe(String),
}

/// Connects to NATS and starts the carrier's task, which ends with the last [`Carrier`]. Call it inside a tokio runtime.
///
/// # Errors
/// If NATS cannot be reached, or lacks `JetStream`.
pub async fn connect(url: &str, me: ServerId) -> Result<Carrier, NatsError> {
    let on_connection = |is_connected| {
        if is_connected {
            tracing::info!("connected to NATS");
        } else {
            tracing::warn!("the connection to NATS broke; rooms stand still if it does not come back in time");
        }
    };
    let client = open(url, me.as_str(), on_connection).await?;
    let (store, servers) = (rooms(&client).await?, servers(&client).await?);
    let own = format!("{SUBJECT_PREFIX}.{me}.*.*");
    let subscribed = client.subscribe(own).await.map_err(|error| NatsError::Subscribe(error.to_string()))?;
    let (requests, asked) = mpsc::channel(MAX_QUEUED_EVENTS * 4);
    let task = Task { me: me.clone(), client, store, servers, rooms: BTreeMap::new() };
    tokio::spawn(task.run(asked, subscribed));
    Ok(Carrier { me, requests })
}

/// Reports every announcement of a server, until the receiver is dropped. Call it inside a tokio runtime.
///
/// # Errors
/// If NATS cannot be reached, or lacks `JetStream`.
pub async fn watch(url: &str) -> Result<mpsc::Receiver<DirectoryEvent>, NatsError> {
    let (told, heard) = mpsc::channel(MAX_QUEUED_EVENTS);
    let (connection, mut connected) = mpsc::unbounded_channel();
    let tell = move |is_connected| {
        // Once the watch has ended, nobody listens any more.
        let _ = connection.send(is_connected);
    };
    let client = open(url, "front", tell).await?;
    let servers = servers(&client).await?;
    tokio::spawn(async move {
        while !told.is_closed() {
            let watching = async {
                let Ok(mut entries) = servers.watch_with_history(">").await else { return };
                while let Some(Ok(entry)) = entries.next().await {
                    let Some(event) = event(&entry.key, entry.operation, &entry.value) else { continue };
                    if told.send(event).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = watching => tokio::time::sleep(RECONNECT_INTERVAL).await,
                Some(is_connected) = connected.recv() => {
                    if is_connected {
                        tracing::info!("connected to NATS");
                    } else {
                        tracing::warn!("the connection to NATS broke; until it is back, clients are sent to the servers known so far");
                    }
                    let _ = told.send(DirectoryEvent::Reachable(is_connected)).await;
                }
                () = told.closed() => return,
            }
        }
    });
    Ok(heard)
}

fn event(key: &str, operation: Operation, value: &[u8]) -> Option<DirectoryEvent> {
    let server = ServerId::new(key).ok()?;
    if operation != Operation::Put {
        return Some(DirectoryEvent::Gone(server));
    }
    match Announcement::parse(value) {
        Ok(announcement) => Some(DirectoryEvent::Announced { server, announcement }),
        Err(error) => {
            tracing::warn!(%server, %error, "a server is left out");
            None
        }
    }
}

/// Connects, and reports whenever the connection breaks or is back.
async fn open(
    url: &str,
    name: &str,
    on_connection: impl Fn(bool) + Send + Sync + 'static,
) -> Result<Client, NatsError> {
    let on_connection = std::sync::Arc::new(on_connection);
    let options = ConnectOptions::new()
        .name(format!("nearlight {name}"))
        .connection_timeout(CONNECT_LIMIT)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|_| RECONNECT_INTERVAL)
        .event_callback(move |event| {
            let on_connection = std::sync::Arc::clone(&on_connection);
            async move {
                match event {
                    Event::Connected => on_connection(true),
                    Event::Disconnected => on_connection(false),
                    // Every attempt to reconnect causes one of these events.
                    Event::ClientError(error) => tracing::debug!(%error, "NATS"),
                    other => tracing::warn!("NATS: {other}"),
                }
            }
        });
    options.connect(url).await.map_err(|error| NatsError::Connect(url.to_owned(), error))
}

async fn rooms(client: &Client) -> Result<Store, NatsError> {
    bucket(client, ROOMS_BUCKET, Config { history: 1, ..Config::default() }).await
}

async fn servers(client: &Client) -> Result<Store, NatsError> {
    let life = Duration::from_nanos(ANNOUNCEMENT_TIMEOUT.as_nanos().unsigned_abs());
    bucket(client, SERVERS_BUCKET, Config { history: 1, max_age: life, ..Config::default() }).await
}

async fn bucket(client: &Client, bucket: &'static str, config: Config) -> Result<Store, NatsError> {
    let context = ContextBuilder::new().timeout(ANSWER_LIMIT).build(client.clone());
    let created = context.create_key_value(Config { bucket: bucket.into(), ..config }).await;
    created.map_err(|error| NatsError::Store { bucket, reason: error.to_string() })
}

struct Task {
    me: ServerId,
    client: Client,
    store: Store,
    servers: Store,
    rooms: BTreeMap<String, mpsc::Sender<FleetEvent>>,
}

impl Task {
    async fn run(mut self, mut asked: mpsc::Receiver<Request>, mut subscribed: async_nats::Subscriber) {
        loop {
            tokio::select! {
                request = asked.recv() => match request {
                    Some(Request::Open { room, events }) => {
                        self.rooms.retain(|_, events| !events.is_closed());
                        self.rooms.insert(room, events);
                    }
                    Some(Request::Room { room, request }) => self.on_request(&room, request),
                    Some(Request::Announce(announcement)) => self.announce(announcement),
                    None => return,
                },
                Some(message) = subscribed.next() => self.on_message(&message.subject, &message.payload),
            }
        }
    }

    fn announce(&self, announcement: Option<Announcement>) {
        let (servers, me) = (self.servers.clone(), self.me.clone());
        tokio::spawn(async move {
            let written = async {
                match announcement {
                    Some(announcement) => {
                        let put = servers.put(me.as_str(), announcement.to_bytes().into()).await;
                        put.map(drop).map_err(|error| error.to_string())
                    }
                    None => servers.delete(me.as_str()).await.map_err(|error| error.to_string()),
                }
            };
            if let Ok(Err(error)) = tokio::time::timeout(ANSWER_LIMIT, written).await {
                tracing::debug!(error, "the directory took no announcement");
            }
        });
    }

    fn on_request(&self, room: &str, request: FleetRequest) {
        let Some(events) = self.rooms.get(room).cloned() else { return };
        let (store, room) = (self.store.clone(), room.to_owned());
        match request {
            FleetRequest::Read => {
                tokio::spawn(async move {
                    let _ = events.send(read(&store, &room).await).await;
                });
            }
            FleetRequest::Write(request) => {
                tokio::spawn(async move {
                    let _ = events.send(FleetEvent::Written(write(&store, &room, request).await)).await;
                });
            }
            FleetRequest::Send { to, batch } => {
                let subject = format!("{SUBJECT_PREFIX}.{to}.{}.{room}", self.me);
                // Publishing never waits. A batch is lost if the client's queue is full, and the rooms recover from that.
                if self.client.publish(subject, batch.to_bytes().into()).now_or_never().is_none() {
                    tracing::debug!(room, "a batch was lost: NATS accepts no messages at the moment");
                }
            }
        }
    }

    fn on_message(&self, subject: &str, payload: &[u8]) {
        let mut tokens = subject.rsplit('.');
        let (Some(room), Some(from)) = (tokens.next(), tokens.next()) else { return };
        let Some(events) = self.rooms.get(room) else { return };
        match (ServerId::new(from), Batch::parse(payload)) {
            (Ok(from), Ok(batch)) => drop(events.try_send(FleetEvent::Batch { from, batch })),
            (_, Err(error)) => tracing::warn!(%from, room, %error, "a batch was refused"),
            (Err(_), _) => {}
        }
    }
}

async fn read(store: &Store, room: &str) -> FleetEvent {
    match tokio::time::timeout(ANSWER_LIMIT, store.entry(room)).await {
        Ok(Ok(None)) => FleetEvent::Entry { revision: 0, entry: None },
        Ok(Ok(Some(found))) if found.operation != Operation::Put => {
            FleetEvent::Entry { revision: found.revision, entry: None }
        }
        Ok(Ok(Some(found))) => match Entry::parse(&found.value) {
            Ok(entry) => FleetEvent::Entry { revision: found.revision, entry: Some(entry) },
            Err(error) => {
                tracing::error!(room, %error, "a room cannot be shared");
                FleetEvent::ReadFailed
            }
        },
        Ok(Err(error)) => {
            tracing::debug!(room, %error, "the directory cannot be read");
            FleetEvent::ReadFailed
        }
        Err(_) => FleetEvent::ReadFailed,
    }
}

async fn write(store: &Store, room: &str, EntryWrite { expected, entry }: EntryWrite) -> Result<u64, WriteError> {
    let Some(entry) = entry else {
        let deleted = store.delete_expect_revision(room, Some(expected));
        return match tokio::time::timeout(ANSWER_LIMIT, deleted).await {
            // NATS does not report the revision of the deletion, so the entry is read again.
            Ok(Ok(())) => Ok(expected + 1),
            _ => Err(WriteError::Unknown),
        };
    };
    let updated = store.update(room, entry.to_bytes().into(), expected);
    match tokio::time::timeout(ANSWER_LIMIT, updated).await {
        Ok(Ok(revision)) => Ok(revision),
        Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(WriteError::Conflict),
        Ok(Err(error)) => {
            tracing::debug!(room, %error, "the directory cannot be written");
            Err(WriteError::Unknown)
        }
        Err(_) => Err(WriteError::Unknown),
    }
}
