//! One client's session, from its greeting to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearlight_codec::CodecError;
use nearlight_net::{Alarm, Connection, ControlReceiver, ControlSender, Direction, NetError, nonce};
use nearlight_session::Sender;
use nearlight_units::{Span, Time};
use nearlight_wire::{Bytes32, ClientMessage, Hello, SOUND_RATE, ServerMessage, SoundDescription, Welcome};
use tokio::sync::mpsc;

use crate::admission::{PERMIT_LOST, Permit};
use crate::mailbox::Delivery;
use crate::metrics::Refusal;
use crate::pairing::Channel;
use crate::session_common::{ClientPreferences, SessionCommon, status_interval};
use crate::state::{Rejection, ServerState, clean};

/// A client that has not greeted by then is cut off.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// A client that does not read its control stream for this many messages is cut off.
const CONTROL_QUEUE: usize = 64;
/// Codes of the transport's close, next to the words in the reason.
const CLOSE_NORMAL: u32 = 0;
const CLOSE_REFUSED: u32 = 1;

type Control = (ControlSender<ServerMessage>, ControlReceiver<ClientMessage>);

/// Greets, checks the proof of the token and serves the client until it leaves.
pub(crate) async fn receive(state: Arc<ServerState>, connection: Connection) {
    let peer = connection.peer().ip();
    let Some(mut greeting) = state.greeting.enter(state.clock.now(), peer) else {
        state.metrics.on_refusal(Refusal::Full);
        connection.close(CLOSE_REFUSED, "too many clients are about to connect; try again in a moment");
        return;
    };
    let nonce = match nonce() {
        Ok(nonce) => nonce,
        Err(error) => {
            tracing::error!(%error, "a client could not be served");
            connection.close(CLOSE_REFUSED, "the server has no random numbers");
            return;
        }
    };
    let channel = Channel { exporter: connection.exporter(), nonce };
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(GREETING_LIMIT, greet(&connection, nonce)) => greeted,
        () = greeting.evicted() => {
            state.metrics.on_refusal(Refusal::Silent);
            connection.close(CLOSE_REFUSED, "no greeting came before others needed the place; try again");
            return;
        }
    };
    let (hello, control) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            tracing::info!(%peer, %error, "a client did not greet");
            state.metrics.on_refusal(Refusal::Silent);
            connection.close(CLOSE_REFUSED, "expected a greeting");
            return;
        }
        Err(_) => {
            state.metrics.on_refusal(Refusal::Silent);
            connection.close(CLOSE_REFUSED, "no greeting came in time");
            return;
        }
    };
    let admitted = match state.check_hello(peer, &hello, &channel) {
        Ok(proof) => state.admit(peer, &hello).await.map(|admitted| (admitted, proof)),
        Err(rejection) => Err(rejection),
    };
    drop(greeting);
    let (mut sender, receiver) = control;
    let ((codec, permit), proof) = match admitted {
        Ok(admitted) => admitted,
        Err(Rejection { reason, message, .. }) => {
            tracing::warn!(%peer, ?reason, "a client was refused");
            let refusal = ServerMessage::Refused { reason, message: message.clone() };
            // The words go ahead of the close; a client that does not read them hears the close all the same.
            let _ = tokio::time::timeout(Duration::from_secs(1), sender.send(&refusal)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            connection.finish(CLOSE_REFUSED, &message).await;
            return;
        }
    };
    let session = state.next_session.fetch_add(1, Ordering::Relaxed);
    tracing::info!(session, %peer, client = clean(&hello.client), codec = codec.name(), "a client came");
    let open = state.metrics.open_session(session);
    let preferences = ClientPreferences { codec, display: hello.display, sound: hello.sound };
    let ended = match SessionTask::open(Arc::clone(&state), session, connection.clone(), permit, preferences) {
        Ok(mut task) => {
            task.sender.set_display_hz(hello.display_hz);
            task.run((sender, receiver), proof).await
        }
        Err(error) => {
            tracing::error!(session, %error, "no encoder for a client");
            error.to_string()
        }
    };
    drop(open);
    tracing::info!(session, %peer, ended, "a client left");
    connection.finish(CLOSE_NORMAL, &ended).await;
}

/// Challenges the client, and waits for its hello. Who proves the token by the exporter need not take the challenge.
async fn greet(connection: &Connection, nonce: Bytes32) -> Result<(Hello, Control), NetError> {
    let challenge = async {
        if let Err(error) = connection.send_challenge(nonce).await {
            tracing::debug!(%error, "a client takes no challenge");
        }
        std::future::pending().await
    };
    let hello = async {
        let (sender, mut receiver) = connection.accept_control().await?;
        match receiver.recv().await? {
            ClientMessage::Hello(hello) => Ok((hello, (sender, receiver))),
            _ => Err(NetError::ControlEnded),
        }
    };
    tokio::select! {
        greeted = hello => greeted,
        never = challenge => never,
    }
}

struct SessionTask {
    common: SessionCommon,
    connection: Connection,
    /// Given back at the end.
    permit: Permit,
    sender: Sender,
}

impl SessionTask {
    fn open(
        state: Arc<ServerState>,
        session: u32,
        connection: Connection,
        permit: Permit,
        preferences: ClientPreferences,
    ) -> Result<Self, CodecError> {
        let now = state.clock.now();
        // Each session its own losses, the same in every run.
        if let Some([there, back]) = state.bad_path(session, now) {
            connection.set_impairment_since(Direction::Send, there, now);
            connection.set_impairment_since(Direction::Receive, back, now);
        }
        let mut sender = state.new_sender(now, connection.max_datagram_size(), true).with_fec(state.new_policy());
        let (mut common, keeps_references) = SessionCommon::open(state, session, preferences, &sender)?;
        let description = || SoundDescription { codec: "opus".into(), sample_rate: SOUND_RATE, channels: 2 };
        common.sound = common.hears.then(description);
        if keeps_references {
            sender = sender.with_references();
            common.references = true;
        }
        Ok(Self { common, connection, permit, sender })
    }

    /// Serves until the client leaves, the server closes or something fails; says which.
    async fn run(mut self, (control, mut requests): Control, proof: Bytes32) -> String {
        let ended = self.serve(control, &mut requests, proof).await;
        self.common.leave(&mut self.sender);
        ended
    }

    async fn serve(
        &mut self,
        control: ControlSender<ServerMessage>,
        requests: &mut ControlReceiver<ClientMessage>,
        proof: Bytes32,
    ) -> String {
        let (messages, queue) = mpsc::channel(CONTROL_QUEUE);
        tokio::spawn(send_control(control, queue));
        let welcome = Welcome { proof: Some(proof), ..self.common.welcome(&self.sender) };
        if messages.try_send(ServerMessage::Welcome(welcome)).is_err() || !self.common.begin() {
            return "the renderer has stopped".into();
        }
        let clock = self.common.state.clock;
        let mut closing = self.common.state.closing.clone();
        let (mut status, mut alarm) = (status_interval(), Alarm::new(clock));
        loop {
            let wake = self.sender.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
            let wake = wake.min(clock.now() + Span::from_secs(1));
            tokio::select! {
                received = self.connection.recv_datagram() => match received {
                    Ok(received) => {
                        self.sender.on_datagram(received.at, &received.datagram);
                        self.permit.hear(received.at);
                    }
                    Err(reason) => return format!("{reason:?}"),
                },
                delivery = self.common.deliveries.recv() => match delivery {
                    Some(delivery) => if let Err(ended) = self.on_delivery(delivery, &messages) {
                        return ended;
                    },
                    None => return "the renderer has stopped".into(),
                },
                Some(packet) = self.common.sounds.recv() => self.sender.on_sound(clock.now(), packet),
                message = requests.recv() => match message {
                    Ok(ClientMessage::Display { display, display_hz }) => {
                        self.common.display = display;
                        self.sender.set_display_hz(display_hz);
                    }
                    Ok(ClientMessage::Goodbye) => return "the client said goodbye".into(),
                    Ok(ClientMessage::Hello(_)) => return "the client greeted twice".into(),
                    Err(error) => return error.to_string(),
                },
                _ = status.tick() => {
                    let status = ServerMessage::Rate(self.common.status(clock.now(), &self.sender));
                    if messages.try_send(status).is_err() {
                        return "the client does not read its control stream".into();
                    }
                }
                () = alarm.at(wake) => {}
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    let message = "the server is shutting down".to_owned();
                    let _ = messages.try_send(ServerMessage::Goodbye { message: message.clone() });
                    drop(messages);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return message;
                }
            }
            if self.permit.is_lost() {
                return PERMIT_LOST.into();
            }
            self.drain();
        }
    }

    /// Everything that the sender has to hand out after new facts.
    fn drain(&mut self) {
        let now = self.common.state.clock.now();
        while let Some(datagram) = self.sender.poll_transmit(now) {
            // A full queue is counted by the connection; the receiver will ask again for what it misses.
            let _ = self.connection.send_datagram(datagram.into());
        }
        self.common.drain(now, &mut self.sender);
    }

    fn on_delivery(&mut self, delivery: Delivery, messages: &mpsc::Sender<ServerMessage>) -> Result<(), String> {
        match delivery {
            Delivery::Frame(frame) => {
                self.sender.set_max_datagram(self.connection.max_datagram_size().min(self.common.state.datagram));
                self.sender.on_frame(self.common.state.clock.now(), frame);
            }
            Delivery::Size(size, views) => {
                let stream = ServerMessage::Stream(self.common.resized(size, views));
                if messages.try_send(stream).is_err() {
                    return Err("the client does not read its control stream".into());
                }
            }
            Delivery::Failed(reason) => return Err(reason),
        }
        Ok(())
    }
}

/// Sends in a task of its own: half a message must not stay on the stream because something else happened.
async fn send_control(mut control: ControlSender<ServerMessage>, mut queue: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = queue.recv().await {
        if control.send(&message).await.is_err() {
            return;
        }
    }
}
