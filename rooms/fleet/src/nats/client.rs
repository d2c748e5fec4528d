//! The task of the carrier: the only code that talks to NATS.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::replay::{NewestMessages, is_recent};
use crate::seal::{SealContext, Sealer};
use crate::{ANNOUNCEMENT_TIMEOUT, Announcement, AnnouncementError, Batch, Entry, FleetKey, ServerId};
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::kv::{self, Operation, Store};
use async_nats::{Client, ConnectErrorKind, Event};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;

use super::directory::{RoomEntry, SealedEntry};
use super::{Carrier, DirectoryEvent, FleetEvent, FleetRequest, MAX_QUEUED_EVENTS, NatsOptions, Request};

const ROOMS_BUCKET: &str = "nearlight-rooms";
const SERVERS_BUCKET: &str = "nearlight-servers";
const SUBJECT_PREFIX: &str = "nearlight.rooms";
/// Longest time that the first connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest time that an answer of the directory may take: less than half a lease, so that a second attempt may still be in time.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Interval between two attempts to reconnect, at first: a restart of NATS on the same machine is noticed by nobody.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// Number of attempts with that interval, and the interval after them. Guess: a restart takes less than 3 s.
const FAST_ATTEMPTS: usize = 30;
const SLOW_RECONNECT_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of pings. A connection that does not answer two of them is given up.
const PING_INTERVAL: Duration = Duration::from_millis(500);

/// Why there is no connection to NATS. No message contains a credential.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("cannot reach NATS at {address}: {error}")]
    Unreachable { address: String, error: async_nats::ConnectError },
    #[error(
        "NATS at {address} refuses the credentials: {error}. Put NAME:PASSWORD@ or TOKEN@ before the host in the URL, or name a file with --nats-credentials, as that server's accounts have them"
    )]
    Refused { address: String, error: async_nats::ConnectError },
    #[error(
        "NATS has no key-value store {bucket}: {reason}. Start nats-server with JetStream (-js), and let this user have that bucket"
    )]
    Store { bucket: &'static str, reason: String },
    #[error("NATS does not allow subscribing to {SUBJECT_PREFIX}: {0}")]
    Subscribe(String),
}

impl NatsError {
    /// Returns whether waiting cannot help, because a person has to change the credentials.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Connects to NATS and starts the carrier's task, which ends with the last [`Carrier`]. Call it inside a tokio runtime. `me` must be the
/// name of this run only.
///
/// # Errors
/// If NATS cannot be reached, refuses the credentials, or lacks `JetStream`.
pub async fn connect(options: &NatsOptions, key: &FleetKey, me: ServerId) -> Result<Carrier, NatsError> {
    let on_connection = |is_connected| {
        if is_connected {
            tracing::info!("connected to NATS");
        } else {
            tracing::warn!("the connection to NATS broke; rooms stand still if it does not come back in time");
        }
    };
    let client = open(options, me.as_str(), on_connection).await?;
    let (store, servers) = (rooms(&client).await?, servers(&client).await?);
    let own = format!("{SUBJECT_PREFIX}.{me}.*.*");
    let subscribed = client.subscribe(own).await.map_err(|error| NatsError::Subscribe(error.to_string()))?;
    let (requests, asked) = mpsc::channel(MAX_QUEUED_EVENTS * 4);
    let (sealer, key) = (Sealer::new(key, me.clone()), key.clone());
    let (rooms, newest) = (BTreeMap::new(), NewestMessages::default());
    let task = Task { me: me.clone(), client, store, servers, sealer, key, newest, rooms };
    tokio::spawn(task.run(asked, subscribed));
    Ok(Carrier { me, requests })
}

/// Reports every announcement of a server, until the receiver is dropped. Call it inside a tokio runtime.
///
/// # Errors
/// If NATS cannot be reached, refuses the credentials, or lacks `JetStream`.
pub async fn watch(options: &NatsOptions, key: &FleetKey) -> Result<mpsc::Receiver<DirectoryEvent>, NatsError> {
    let (told, heard) = mpsc::channel(MAX_QUEUED_EVENTS);
    // The newest state is what matters, so nothing is lost if there is only room for one.
    let (connection, mut connected) = tokio::sync::watch::channel(true);
    let tell = move |is_connected| {
        connection.send_replace(is_connected);
    };
    let client = open(options, "front", tell).await?;
    let servers = servers(&client).await?;
    let key = key.clone();
    tokio::spawn(async move {
        let mut newest = NewestMessages::default();
        while !told.is_closed() {
            let watching = async {
                let Ok(mut entries) = servers.watch_with_history(">").await else { return };
                while let Some(Ok(entry)) = entries.next().await {
                    let Some(event) = event(&key, &mut newest, &entry) else { continue };
                    if told.send(event).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = watching => tokio::time::sleep(RECONNECT_INTERVAL).await,
                Ok(()) = connected.changed() => {
                    let is_connected = *connected.borrow_and_update();
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

/// Returns what an entry of the directory says, or none if nothing of it is to be believed. Everybody on NATS can delete an entry, so a
/// server that closes says so in a sealed announcement without contents.
fn event(key: &FleetKey, newest: &mut NewestMessages, entry: &kv::Entry) -> Option<DirectoryEvent> {
    let server = ServerId::new(&entry.key).ok()?;
    if entry.operation != Operation::Put {
        return None;
    }
    let mut read = || {
        let (header, contents) = key.open(SealContext::Announcement, &entry.value)?;
        if header.sender != server || !is_recent(wall_clock(), &header) || !newest.accept(&header) {
            return Err(AnnouncementError::Replay);
        }
        if contents.is_empty() { Ok(None) } else { Announcement::parse(&contents).map(Some) }
    };
    Some(match read() {
        Ok(Some(announcement)) => DirectoryEvent::Announced { server, announcement },
        Ok(None) => DirectoryEvent::Gone(server),
        Err(error) => DirectoryEvent::Refused { server, error },
    })
}

/// Returns the time in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the time of an announcement is compared on another machine")]
fn wall_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Connects, and reports whenever the connection breaks or is back.
async fn open(
    options: &NatsOptions,
    name: &str,
    on_connection: impl Fn(bool) + Send + Sync + 'static,
) -> Result<Client, NatsError> {
    let on_connection = Arc::new(on_connection);
    let connect = options
        .connect_options()
        .name(format!("nearlight {name}"))
        .connection_timeout(CONNECT_LIMIT)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|attempt| match attempt {
            0 | 1 => Duration::ZERO,
            2..=FAST_ATTEMPTS => RECONNECT_INTERVAL,
            _ => SLOW_RECONNECT_INTERVAL,
        })
        .event_callback(move |event| {
            let on_connection = Arc::clone(&on_connection);
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
    connect.connect(options.url()).await.map_err(|error| {
        let address = options.to_string();
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                NatsError::Refused { address, error }
            }
            _ => NatsError::Unreachable { address, error },
        }
    })
}

async fn rooms(client: &Client) -> Result<Store, NatsError> {
    bucket(client, ROOMS_BUCKET, kv::Config { history: 1, ..kv::Config::default() }).await
}

async fn servers(client: &Client) -> Result<Store, NatsError> {
    let life = Duration::from_nanos(ANNOUNCEMENT_TIMEOUT.as_nanos().unsigned_abs());
    bucket(client, SERVERS_BUCKET, kv::Config { history: 1, max_age: life, ..kv::Config::default() }).await
}

async fn bucket(client: &Client, bucket: &'static str, config: kv::Config) -> Result<Store, NatsError> {
    let context = ContextBuilder::new().timeout(ANSWER_LIMIT).build(client.clone());
    // A user of NATS may be allowed to use the bucket and not to create it.
    if let Ok(existing) = context.get_key_value(bucket).await {
        return Ok(existing);
    }
    let created = context.create_key_value(kv::Config { bucket: bucket.into(), ..config }).await;
    created.map_err(|error| NatsError::Store { bucket, reason: error.to_string() })
}

/// A room that is open here.
struct OpenRoom {
    events: mpsc::Sender<FleetEvent>,
    entry: Arc<RoomEntry>,
}

struct Task {
    me: ServerId,
    client: Client,
    store: Store,
    servers: Store,
    sealer: Sealer,
    key: FleetKey,
    /// The newest batch of each server.
    newest: NewestMessages,
    rooms: BTreeMap<String, OpenRoom>,
}

impl Task {
    async fn run(mut self, mut asked: mpsc::Receiver<Request>, mut subscribed: async_nats::Subscriber) {
        loop {
            tokio::select! {
                request = asked.recv() => match request {
                    Some(Request::Open { room, events }) => self.open(room, events),
                    Some(Request::Room { room, request }) => self.on_request(&room, request),
                    Some(Request::Announce(announcement)) => self.announce(announcement.as_ref()),
                    None => return,
                },
                Some(message) = subscribed.next() => self.on_message(&message.subject, &message.payload),
            }
        }
    }

    fn open(&mut self, room: String, events: mpsc::Sender<FleetEvent>) {
        self.rooms.retain(|_, open| !open.events.is_closed());
        let entry = RoomEntry::new(self.me.clone(), room.clone(), self.store.clone(), self.key.clone());
        self.rooms.insert(room, OpenRoom { events, entry: Arc::new(entry) });
    }

    fn announce(&mut self, announcement: Option<&Announcement>) {
        let contents = announcement.map(Announcement::to_bytes).unwrap_or_default();
        let sealed = self.sealer.seal(wall_clock(), SealContext::Announcement, &contents);
        let (servers, me) = (self.servers.clone(), self.me.clone());
        tokio::spawn(async move {
            let written = servers.put(me.as_str(), sealed.into());
            if let Ok(Err(error)) = tokio::time::timeout(ANSWER_LIMIT, written).await {
                tracing::debug!(%error, "the directory took no announcement");
            }
        });
    }

    fn on_request(&mut self, room: &str, request: FleetRequest) {
        let Some(OpenRoom { events, entry }) = self.rooms.get(room) else { return };
        let (events, entry) = (events.clone(), Arc::clone(entry));
        match request {
            FleetRequest::Read => {
                tokio::spawn(async move {
                    let _ = events.send(entry.read().await).await;
                });
            }
            FleetRequest::Write(request) => {
                let contents = request.entry.as_ref().map(Entry::to_bytes);
                let context = SealContext::Entry { room };
                let sealed = contents.map(|contents| {
                    let bytes = self.sealer.seal(wall_clock(), context, &contents);
                    SealedEntry { number: self.sealer.number(), bytes }
                });
                tokio::spawn(async move {
                    let _ = events.send(FleetEvent::Written(entry.write(request, sealed).await)).await;
                });
            }
            FleetRequest::Send { to, batch } => {
                let context = SealContext::Batch { to: &to, room };
                let sealed = self.sealer.seal(wall_clock(), context, &batch.to_bytes());
                let subject = format!("{SUBJECT_PREFIX}.{to}.{}.{room}", self.me);
                // Publishing never waits. A batch is lost if the client's queue is full, and the rooms recover from that.
                if self.client.publish(subject, sealed.into()).now_or_never().is_none() {
                    tracing::debug!(room, "a batch was lost: NATS accepts no messages at the moment");
                }
            }
        }
    }

    fn on_message(&mut self, subject: &str, payload: &[u8]) {
        let mut tokens = subject.rsplit('.');
        let (Some(room), Some(from)) = (tokens.next(), tokens.next()) else { return };
        let Some(open) = self.rooms.get(room) else { return };
        let (header, contents) = match self.key.open(SealContext::Batch { to: &self.me, room }, payload) {
            Ok(opened) => opened,
            Err(error) => return tracing::warn!(%from, room, %error, "a batch was refused"),
        };
        if header.sender.as_str() != from || !self.newest.accept(&header) {
            return tracing::warn!(%from, room, "a batch was refused: it is a copy of one that has arrived before");
        }
        match Batch::parse(&contents) {
            Ok(batch) => drop(open.events.try_send(FleetEvent::Batch { from: header.sender, batch })),
            Err(error) => tracing::warn!(%from, room, %error, "a batch was refused"),
        }
    }
}
