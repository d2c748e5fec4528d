//! Sessions over WebTransport (QUIC datagrams, and one stream for the control messages) or over Ethernet frames, which carry the same.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nearlight_net::{Connection, ControlReceiver, ControlSender, Direction, NetError, ReceivedDatagram};
use nearlight_session::{EncodedFrame, Sender, ServerEnd};
use nearlight_units::Time;
use nearlight_wire::{Binding, Bytes32, ClientMessage, Hello, ServerMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::access::handshake::{AcceptedClient, Handshake, NoHello, receive};
use crate::session::SessionTask;
use crate::state::ServerState;
use crate::transports::carrier::{Carrier, CarrierEvent};

/// Control messages that may wait for the stream. A client that lets more accumulate is disconnected.
const MAX_QUEUED_CONTROL_MESSAGES: usize = 64;
/// Longest time that the last control message may take to leave, and then to be read.
const GOODBYE_LIMIT: Duration = Duration::from_millis(50);
/// Close codes of the transport, besides the text of the reason.
pub(crate) const CLOSE_NORMAL: u32 = 0;
const CLOSE_REFUSED: u32 = 1;

/// Challenges the client, checks its proof of the token and serves the client until it leaves.
pub(crate) async fn serve(state: Arc<ServerState>, connection: Connection) {
    let handshake = WebTransportHandshake::new(connection);
    let Some(AcceptedClient { session, hello, proof, permit, handshake }) = receive(&state, handshake).await else {
        return;
    };
    let WebTransportHandshake { connection, control: Some(control) } = handshake else { return };
    let now = state.clock.now();
    // Each session has its own emulated losses, the same in every run.
    if let Some([there, back]) = state.emulated_path(session.number, now) {
        connection.set_impairment_since(Direction::Send, there, now);
        connection.set_impairment_since(Direction::Receive, back, now);
    }
    let (common, sender) = match session.open(&state, connection.max_datagram_size()) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(session = session.number, %error, "no encoder for a client");
            connection.finish(CLOSE_NORMAL, &error.to_string()).await;
            return;
        }
    };
    let carrier = WebTransportCarrier::new(connection, control, sender, state.datagram, hello);
    let task = SessionTask::new(state, session.number, permit, carrier, Some(common)).with_proof(proof);
    Box::new(task).run().await;
}

pub(crate) type Control = (ControlSender<ServerMessage>, ControlReceiver<ClientMessage>);

/// A session before its client is admitted, for media or for a room.
pub(crate) struct WebTransportHandshake {
    pub(crate) connection: Connection,
    /// The control stream, once the client has sent its hello.
    pub(crate) control: Option<Control>,
}

impl WebTransportHandshake {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self { connection, control: None }
    }
}

fn no_hello(error: NetError) -> NoHello {
    match error {
        NetError::Closed(_) | NetError::ControlEnded => NoHello::Left,
        error => NoHello::Invalid(error.to_string()),
    }
}

impl Handshake for WebTransportHandshake {
    fn peer(&self) -> IpAddr {
        self.connection.peer().ip()
    }

    fn exporter(&self) -> Option<Binding> {
        Some(self.connection.exporter())
    }

    /// Sends the challenge and waits for the hello. A client that proves the token by the exporter need not accept the challenge.
    async fn challenge(&mut self, nonce: Bytes32) -> Result<Hello, NoHello> {
        let connection = &self.connection;
        let challenge = async {
            if let Err(error) = connection.send_challenge(nonce).await {
                tracing::debug!(%error, "a client does not accept the challenge");
            }
            std::future::pending().await
        };
        let hello = async {
            let (sender, mut receiver) = connection.accept_control().await.map_err(no_hello)?;
            match receiver.recv().await.map_err(no_hello)? {
                ClientMessage::Hello(hello) => Ok((hello, (sender, receiver))),
                _ => Err(NoHello::Invalid("its first message is not a hello".into())),
            }
        };
        let (hello, control) = tokio::select! {
            hello = hello => hello?,
            never = challenge => never,
        };
        self.control = Some(control);
        Ok(hello)
    }

    async fn refuse(mut self, refusal: Option<ServerMessage>, words: &str) {
        if let (Some(refusal), Some((control, _))) = (refusal, &mut self.control) {
            // The reason is sent before the close; a client that does not read it still receives the close.
            let _ = tokio::time::timeout(Duration::from_secs(1), control.send(&refusal)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.connection.finish(CLOSE_REFUSED, words).await;
            return;
        }
        self.connection.close(CLOSE_REFUSED, words);
    }
}

struct WebTransportCarrier {
    connection: Connection,
    requests: ControlReceiver<ClientMessage>,
    /// Messages to the client, which are sent by a task of their own. None once the session has ended.
    messages: Option<mpsc::Sender<ServerMessage>>,
    sending: JoinHandle<()>,
    sender: Sender,
    /// The largest datagram in bytes, even if the path allows more.
    datagram: usize,
    events: VecDeque<CarrierEvent>,
}

impl WebTransportCarrier {
    fn new(
        connection: Connection,
        (control, requests): Control,
        sender: Sender,
        datagram: usize,
        hello: Hello,
    ) -> Self {
        let (messages, queue) = mpsc::channel(MAX_QUEUED_CONTROL_MESSAGES);
        let sending = tokio::spawn(send_control(control, queue));
        let events = [CarrierEvent::Message(ClientMessage::Hello(hello)), CarrierEvent::Connected].into();
        Self { connection, requests, messages: Some(messages), sending, sender, datagram, events }
    }
}

impl ServerEnd for WebTransportCarrier {
    fn sender(&self) -> &Sender {
        &self.sender
    }

    fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        self.sender.set_max_datagram(self.connection.max_datagram_size().min(self.datagram));
        self.sender.on_frame(now, frame);
    }

    fn transmit(&mut self, now: Time) {
        while let Some(datagram) = self.sender.poll_transmit(now) {
            // The connection counts drops in a full queue, and the receiver requests what it misses again.
            let _ = self.connection.send_datagram(datagram.into());
        }
        // Packets that the pacer releases together are sent together.
        self.connection.flush();
    }
}

impl Carrier for WebTransportCarrier {
    async fn recv(&mut self) -> Result<Option<Time>, String> {
        tokio::select! {
            received = self.connection.recv_datagram() => {
                let ReceivedDatagram { at, datagram } = received.map_err(|reason| reason.to_string())?;
                self.sender.on_datagram(at, &datagram);
                Ok(Some(at))
            }
            message = self.requests.recv() => {
                let message = message.map_err(|error| error.to_string())?;
                self.events.push_back(CarrierEvent::Message(message));
                Ok(None)
            }
        }
    }

    fn poll_event(&mut self, _: Time) -> Option<CarrierEvent> {
        self.events.pop_front()
    }

    fn send(&mut self, _: Time, message: ServerMessage) -> Result<(), String> {
        let sent = self.messages.as_ref().is_some_and(|messages| messages.try_send(message).is_ok());
        sent.then_some(()).ok_or_else(|| "the client does not read its control stream".into())
    }

    fn has_room(&mut self) -> bool {
        self.messages.as_ref().is_some_and(|messages| messages.capacity() > MAX_QUEUED_CONTROL_MESSAGES / 2)
    }

    async fn close(&mut self, now: Time, ended: &str) {
        let _ = self.send(now, ServerMessage::Goodbye { message: ended.to_owned() });
        self.messages = None;
        // The reason is sent before the close, if the client still reads.
        if tokio::time::timeout(GOODBYE_LIMIT, &mut self.sending).await.is_ok() {
            tokio::time::sleep(GOODBYE_LIMIT).await;
        }
        self.connection.finish(CLOSE_NORMAL, ended).await;
    }
}

/// Sends control messages in a task of its own, so that cancellation cannot leave half a message on the stream.
async fn send_control(mut control: ControlSender<ServerMessage>, mut queue: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = queue.recv().await {
        if control.send(&message).await.is_err() {
            return;
        }
    }
}
