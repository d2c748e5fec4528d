//! Sessions over a WebSocket on the page's own port, for networks and browsers that support nothing else. A binary message is a datagram, a
//! text message a control message.
//!
//! TCP loses nothing and delivers in order, so late data delays everything behind it. Therefore little is passed to it at a time: the
//! kernel and TLS hold 16 KiB each (`nearlight_net::PageStream`), the socket's task holds [`MAX_UNSENT_MESSAGES`], and everything else
//! waits in the sender, which skips frames before they are encoded when its queue grows. Controllers learn of the delay from the client's
//! reports.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use axum::routing::get;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use nearlight_net::{Clock, Reservation, TcpSocket};
use nearlight_session::{Sender, ServerEnd, Wake};
use nearlight_units::{Span, Time};
use nearlight_wire::{Binding, Bytes32, ClientMessage, Hello, MAX_CONTROL_BYTES, ROOMS_PATH, ServerMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::access::handshake::{AcceptedClient, Handshake, NoHello, receive};
use crate::rooms;
use crate::session::SessionTask;
use crate::state::ServerState;
use crate::transports::carrier::{Carrier, CarrierEvent};
use crate::transports::rtc::whep::Client;
use crate::transports::{ClientSession, Sessions};

/// Path of the WebSocket, which is also that of sessions over WebTransport.
const PATH: &str = "/nearlight";
/// Largest datagram in bytes: as much as over UDP, so that controllers see packets of the size that they are designed for.
const MAX_DATAGRAM_BYTES: usize = 1_200;
/// Bytes that are read at a time. The library clears its buffer before each read. Its default of 128 KiB cost two fifths of the server's
/// time with a thousand members in rooms, whose messages have less than a hundred bytes.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// Messages that may wait for the socket. Guess: what leaves at 10 Mb/s in 8 ms.
const MAX_UNSENT_MESSAGES: usize = 8;
/// Control messages that may wait for the socket. A client that lets more accumulate is disconnected.
const MAX_QUEUED_CONTROL_MESSAGES: usize = 64;
/// Interval at which TCP's state is polled while media flow. It is also polled before each datagram from the client, which may report
/// arrivals. Guess: half of a short round trip. A poll takes a microsecond.
const TCP_POLL_INTERVAL: Span = Span::from_millis(10);
/// Longest time that the last messages may take to leave.
pub(crate) const GOODBYE_LIMIT: Duration = Duration::from_millis(500);

/// A socket that a client has opened.
pub(crate) struct WebSocketClient {
    pub(crate) socket: WebSocket,
    peer: IpAddr,
    /// The reservation of the TCP connection among those of the page's port.
    reservation: Option<Reservation>,
    pub(crate) tcp: Option<TcpSocket>,
}

impl WebSocketClient {
    /// Allows the connection to be idle while its session lasts, and sets the owner's congestion control. Admission bounds the number of
    /// such connections.
    pub(crate) fn claim(&self, state: &ServerState) {
        if let Some(reservation) = &self.reservation {
            reservation.claim();
        }
        if let Some(tcp) = &self.tcp {
            state.on_media_connection(tcp);
        }
    }
}

/// Serves a client that has opened a socket.
type Serve = fn(Arc<ServerState>, Sessions, WebSocketClient) -> ClientSession;

/// Returns the routes. New sessions are sent to `sessions`.
pub(crate) fn router(state: &Arc<ServerState>, sessions: &Sessions) -> Router {
    let media: Serve = |state, _, client| Box::pin(serve(state, client));
    let member: Serve = |state, sessions, client| Box::pin(rooms::websocket::serve(state, sessions, client));
    let state = |serve| (Arc::clone(state), sessions.clone(), serve);
    let route = |path, serve| Router::new().route(path, get(open)).with_state(state(serve));
    route(PATH, media).merge(route(ROOMS_PATH, member))
}

async fn open(
    State((state, sessions, serve)): State<(Arc<ServerState>, Sessions, Serve)>,
    Extension(Client(peer)): Extension<Client>,
    reservation: Option<Extension<Reservation>>,
    tcp: Option<Extension<TcpSocket>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    // Every write is sent at once: nothing may wait for a buffer to fill.
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(MAX_CONTROL_BYTES)
        .max_frame_size(MAX_CONTROL_BYTES)
        .write_buffer_size(0);
    upgrade.on_upgrade(move |socket| async move {
        let reservation = reservation.map(|Extension(reservation)| reservation);
        let tcp = tcp.map(|Extension(tcp)| tcp);
        // A server that starts no more sessions drops the session.
        let client = WebSocketClient { socket, peer, reservation, tcp };
        let _ = sessions.send(serve(state, sessions.clone(), client)).await;
    })
}

/// Challenges the client, checks its proof of the token and serves the client until it leaves.
async fn serve(state: Arc<ServerState>, client: WebSocketClient) {
    let Some(AcceptedClient { session, hello, proof, permit, handshake }) = receive(&state, client).await else {
        return;
    };
    handshake.claim(&state);
    if state.emulated_paths.is_some() {
        tracing::warn!(
            session = session.number,
            "--impair has no effect on a WebSocket: only datagrams can be dropped"
        );
    }
    let (common, sender) = match session.open(&state, MAX_DATAGRAM_BYTES) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(session = session.number, %error, "no encoder for a client");
            return handshake.refuse(None, &error.to_string()).await;
        }
    };
    let carrier = WebSocketCarrier::new(state.clock, handshake, sender, hello);
    let task = SessionTask::new(state, session.number, permit, carrier, Some(common)).with_proof(proof);
    Box::new(task).run().await;
}

impl Handshake for WebSocketClient {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn exporter(&self) -> Option<Binding> {
        None
    }

    async fn challenge(&mut self, nonce: Bytes32) -> Result<Hello, NoHello> {
        let challenge = text(&ServerMessage::Challenge { nonce });
        self.socket.send(challenge).await.map_err(|_| NoHello::Left)?;
        match self.socket.recv().await {
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                Ok(ClientMessage::Hello(hello)) => Ok(hello),
                _ => Err(NoHello::Invalid("its first message is not a hello".into())),
            },
            Some(Ok(Message::Close(_))) | None => Err(NoHello::Left),
            Some(Ok(_)) => Err(NoHello::Invalid("its first message is not text".into())),
            Some(Err(error)) => Err(NoHello::Invalid(error.to_string())),
        }
    }

    async fn refuse(mut self, refusal: Option<ServerMessage>, words: &str) {
        let refusal = refusal.unwrap_or_else(|| ServerMessage::Goodbye { message: words.into() });
        let farewell = async {
            let _ = self.socket.send(text(&refusal)).await;
            let _ = self.socket.send(Message::Close(None)).await;
        };
        let _ = tokio::time::timeout(GOODBYE_LIMIT, farewell).await;
    }
}

pub(crate) fn text(message: &impl serde::Serialize) -> Message {
    Message::Text(Utf8Bytes::from(serde_json::to_string(message).unwrap_or_default()))
}

struct WebSocketCarrier {
    clock: Clock,
    sender: Sender,
    incoming: SplitStream<WebSocket>,
    outgoing: Option<mpsc::Sender<Message>>,
    writing: JoinHandle<Option<SplitSink<WebSocket, Message>>>,
    /// Control messages that wait for the socket's task.
    control: VecDeque<Message>,
    /// Whether the socket accepts no more data, so that packets that are due wait in the sender.
    blocked: bool,
    events: VecDeque<CarrierEvent>,
    /// The TCP connection; none if the system provides no information on it.
    tcp: Option<TcpSocket>,
    tcp_polled_at: Time,
}

impl WebSocketCarrier {
    fn new(clock: Clock, client: WebSocketClient, sender: Sender, hello: Hello) -> Self {
        let WebSocketClient { socket, tcp, .. } = client;
        let (sink, incoming) = socket.split();
        let (outgoing, messages) = mpsc::channel(MAX_UNSENT_MESSAGES);
        let writing = tokio::spawn(write(sink, messages));
        let events = [CarrierEvent::Message(ClientMessage::Hello(hello)), CarrierEvent::Connected].into();
        let (control, outgoing) = (VecDeque::new(), Some(outgoing));
        let tcp_polled_at = Time::ZERO;
        Self { clock, sender, incoming, outgoing, writing, control, blocked: false, events, tcp, tcp_polled_at }
    }

    fn poll_tcp(&mut self, now: Time) {
        let Some(tcp) = &self.tcp else { return };
        self.tcp_polled_at = now;
        match tcp.info() {
            Ok(info) => self.sender.on_tcp_info(now, &info),
            // Either the connection has closed, which the next read reports, or the system provides no information.
            Err(error) => {
                tracing::debug!(%error, "no TCP information for a session's connection");
                self.tcp = None;
            }
        }
    }

    fn on_message(&mut self, message: Message) -> Result<Option<Time>, String> {
        let now = self.clock.now();
        match message {
            Message::Binary(datagram) => {
                self.poll_tcp(now);
                self.sender.on_datagram(now, &datagram);
            }
            Message::Text(text) => {
                let message = serde_json::from_str(&text);
                let message =
                    message.map_err(|_| "the client's control message is not the JSON that the protocol describes")?;
                self.events.push_back(CarrierEvent::Message(message));
            }
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return Err("the client closed its socket".into()),
        }
        Ok(Some(now))
    }

    /// Returns the next message for the socket: control messages first.
    fn next_message(&mut self, now: Time) -> Option<Message> {
        self.control
            .pop_front()
            .or_else(|| self.sender.poll_transmit(now).map(|datagram| Message::Binary(datagram.into())))
    }
}

impl ServerEnd for WebSocketCarrier {
    fn sender(&self) -> &Sender {
        &self.sender
    }

    fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn transmit(&mut self, now: Time) {
        let Some(outgoing) = self.outgoing.clone() else { return };
        if now - self.tcp_polled_at >= TCP_POLL_INTERVAL {
            self.poll_tcp(now);
        }
        loop {
            let Ok(room) = outgoing.try_reserve() else {
                self.blocked = true;
                return;
            };
            let Some(message) = self.next_message(now) else { return };
            room.send(message);
        }
    }

    fn poll_timeout(&mut self) -> Option<(Time, Wake)> {
        if self.blocked { self.sender.poll_timeout_while_blocked() } else { self.sender.poll_timeout() }
    }
}

impl Carrier for WebSocketCarrier {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        let Self { incoming, outgoing, blocked, .. } = self;
        let room = async {
            match outgoing {
                Some(outgoing) if *blocked => {
                    outgoing.reserve().await.map(drop).map_err(|_| "the client takes nothing")
                }
                _ => std::future::pending().await,
            }
        };
        let message = tokio::select! {
            message = incoming.next() => message,
            room = room => {
                room?;
                self.blocked = false;
                self.poll_tcp(self.clock.now());
                return Ok(None);
            }
        };
        match message {
            Some(Ok(message)) => self.on_message(message),
            Some(Err(error)) => Err(format!("the client's socket broke: {error}")),
            None => Err("the client's socket ended".into()),
        }
    }

    fn poll_event(&mut self, _: Time) -> Option<CarrierEvent> {
        self.events.pop_front()
    }

    fn send(&mut self, _: Time, message: ServerMessage) -> Result<(), String> {
        if self.control.len() == MAX_QUEUED_CONTROL_MESSAGES {
            return Err("the client does not read its control messages".into());
        }
        self.control.push_back(text(&message));
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        self.control.len() < MAX_QUEUED_CONTROL_MESSAGES / 2
    }

    async fn close(&mut self, now: Time, ended: &str) {
        let _ = self.send(now, ServerMessage::Goodbye { message: ended.to_owned() });
        let Some(outgoing) = self.outgoing.take() else { return };
        let farewell = async {
            for message in self.control.drain(..).chain([Message::Close(None)]) {
                if outgoing.send(message).await.is_err() {
                    break;
                }
            }
            drop(outgoing);
            let _ = (&mut self.writing).await;
        };
        if tokio::time::timeout(GOODBYE_LIMIT, farewell).await.is_err() {
            self.writing.abort();
        }
    }
}

/// Writes messages in a task of its own, so that cancellation cannot leave half a message on the socket. Returns the socket's end when
/// there are no more messages, or none if the socket broke.
async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut messages: mpsc::Receiver<Message>,
) -> Option<SplitSink<WebSocket, Message>> {
    while let Some(message) = messages.recv().await {
        sink.send(message).await.ok()?;
    }
    Some(sink)
}
