//! One client's session, from its greeting to its end.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Encoders};
use nearlight_fec::policy::new_policy;
use nearlight_net::{AttemptLimiter, Clock, Connection, ControlReceiver, ControlSender, Direction, NetError, Token};
use nearlight_pace::Mode;
use nearlight_rate::{Bounds, Step, new_controller};
use nearlight_scene::{START, Viewer};
use nearlight_session::{EncoderWish, Sender, SenderConfig};
use nearlight_units::{Span, Time};
use nearlight_wire::{
    ClientMessage, DisplayKind, Hello, PROTOCOL_VERSION, RateStatus, RefusalReason, ServerMessage, StreamDescription,
    Welcome,
};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::bad_paths::BadPaths;
use crate::journal::Journal;
use crate::metrics::{Metrics, Refusal, SessionFigures};
use crate::seat::{Delivery, Seat, Wish};
use crate::studio::{Format, Studio};

/// A client that has not greeted by then is a stranger who wastes a place.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Strangers that may be about to greet at the same time.
const MAX_GREETING: usize = 32;
/// The client's rate display is renewed this often.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Frames between encoder and session: more would only be latency.
const DELIVERIES: usize = 4;
/// A client that does not read its control stream for this many messages is cut off.
const CONTROL_QUEUE: usize = 64;
/// Codes of the transport's close, next to the words in the reason.
const CLOSE_NORMAL: u32 = 0;
const CLOSE_REFUSED: u32 = 1;

/// What all sessions share.
pub(crate) struct House {
    pub(crate) clock: Clock,
    pub(crate) token: Token,
    pub(crate) limiter: Mutex<AttemptLimiter>,
    pub(crate) greeting: Semaphore,
    pub(crate) places: Arc<Semaphore>,
    pub(crate) next_session: AtomicU32,
    pub(crate) studio: Studio,
    pub(crate) adapter: String,
    pub(crate) format: Format,
    pub(crate) codec: CodecKind,
    pub(crate) controller: String,
    pub(crate) fec: String,
    pub(crate) bounds: Bounds,
    pub(crate) pacing: Mode,
    pub(crate) bad_paths: Option<BadPaths>,
    /// The most that a datagram holds, whatever the transport takes.
    pub(crate) datagram: usize,
    pub(crate) encoders: Encoders,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) journal: Option<Journal>,
    /// Becomes true when the server shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl House {
    pub(crate) const fn greeting_places() -> usize {
        MAX_GREETING
    }
}

type Control = (ControlSender<ServerMessage>, ControlReceiver<ClientMessage>);

/// Greets, checks the token and serves the client until it leaves.
pub(crate) async fn receive(house: Arc<House>, connection: Connection) {
    let peer = connection.peer().ip();
    let Ok(greeting) = house.greeting.try_acquire() else {
        house.metrics.on_refusal(Refusal::Full);
        connection.close(CLOSE_REFUSED, "too many clients are about to connect; try again in a moment");
        return;
    };
    let greeted = tokio::time::timeout(GREETING_LIMIT, greet(&connection)).await;
    let (hello, control) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            tracing::info!(%peer, %error, "a client did not greet");
            house.metrics.on_refusal(Refusal::Silent);
            connection.close(CLOSE_REFUSED, "expected a greeting");
            return;
        }
        Err(_) => {
            house.metrics.on_refusal(Refusal::Silent);
            connection.close(CLOSE_REFUSED, "no greeting came in time");
            return;
        }
    };
    let admitted = admit(&house, peer, &hello);
    drop(greeting);
    let (mut sender, receiver) = control;
    let (codec, place) = match admitted {
        Ok(admitted) => admitted,
        Err((reason, message)) => {
            tracing::warn!(%peer, ?reason, "a client was refused");
            let refusal = ServerMessage::Refused { reason, message: message.clone() };
            // The words go ahead of the close; a client that does not read them hears the close all the same.
            let _ = tokio::time::timeout(Duration::from_secs(1), sender.send(&refusal)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            connection.finish(CLOSE_REFUSED, &message).await;
            return;
        }
    };
    let session = house.next_session.fetch_add(1, Ordering::Relaxed);
    tracing::info!(session, %peer, client = clean(&hello.client), codec = codec.name(), "a client came");
    house.metrics.on_session(session);
    let ended = match Visit::open(&house, session, connection.clone(), codec, hello.display) {
        Ok(visit) => visit.run((sender, receiver)).await,
        Err(error) => {
            tracing::error!(session, %error, "no encoder for a client");
            error.to_string()
        }
    };
    drop(place);
    house.metrics.on_session_end(session);
    tracing::info!(session, %peer, ended, "a client left");
    connection.finish(CLOSE_NORMAL, &ended).await;
}

async fn greet(connection: &Connection) -> Result<(Hello, Control), NetError> {
    let (sender, mut receiver) = connection.accept_control().await?;
    match receiver.recv().await? {
        ClientMessage::Hello(hello) => Ok((hello, (sender, receiver))),
        _ => Err(NetError::ControlEnded),
    }
}

/// Checks everything that may keep a client out; the reason is in plain words for its user.
fn admit(
    house: &House,
    peer: IpAddr,
    hello: &Hello,
) -> Result<(CodecKind, tokio::sync::OwnedSemaphorePermit), (RefusalReason, String)> {
    let refuse = |metric, reason, message: String| {
        house.metrics.on_refusal(metric);
        Err((reason, message))
    };
    let now = house.clock.now();
    let mut limiter = house.limiter.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(wait) = limiter.wait(now, peer) {
        let seconds = wait.as_secs_f64().ceil();
        let message = format!("Too many wrong tokens came from this address. Try again in {seconds} s.");
        return refuse(Refusal::TooManyAttempts, RefusalReason::TooManyAttempts, message);
    }
    if !house.token.matches(&hello.token) {
        limiter.on_failure(now, peer);
        let message = "The pairing token is wrong. Open the link that the server printed when it started.";
        return refuse(Refusal::Token, RefusalReason::Token, message.into());
    }
    limiter.on_success(peer);
    drop(limiter);
    if hello.protocol != PROTOCOL_VERSION {
        let message = format!(
            "This client speaks version {} of the protocol, the server version {PROTOCOL_VERSION}. Use the same release on both.",
            hello.protocol
        );
        return refuse(Refusal::Protocol, RefusalReason::Protocol, message);
    }
    let offered = |kind: &CodecKind| hello.codecs.iter().any(|name| name == kind.name());
    let Some(codec) = [house.codec].into_iter().chain(CodecKind::ALL).find(offered) else {
        let message = "This client decodes neither H.264 nor VP8, so it cannot show the stream.";
        return refuse(Refusal::Codec, RefusalReason::Codec, message.into());
    };
    let Ok(place) = Arc::clone(&house.places).try_acquire_owned() else {
        let message = "The server is full. Try again when somebody has left, or start it with a larger --max-clients.";
        return refuse(Refusal::Full, RefusalReason::Full, message.into());
    };
    Ok((codec, place))
}

/// A name that a stranger chose, fit for a log.
fn clean(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

struct Visit<'a> {
    house: &'a House,
    session: u32,
    connection: Connection,
    sender: Sender,
    seat: Arc<Seat>,
    deliveries: mpsc::Receiver<Delivery>,
    display: DisplayKind,
    stream: StreamDescription,
    references: bool,
}

impl<'a> Visit<'a> {
    fn open(
        house: &'a House,
        session: u32,
        connection: Connection,
        codec: CodecKind,
        display: DisplayKind,
    ) -> Result<Self, CodecError> {
        let now = house.clock.now();
        if let Some(paths) = &house.bad_paths {
            // Each session its own losses, the same in every run.
            match paths.of_session(session, now) {
                Ok([there, back]) => {
                    connection.set_impairment_since(Direction::Send, there, now);
                    connection.set_impairment_since(Direction::Receive, back, now);
                }
                Err(error) => tracing::warn!("session {session} has a clean path instead of the bad one: {error}"),
            }
        }
        let config = SenderConfig {
            max_datagram: connection.max_datagram_size().min(house.datagram),
            pacing: house.pacing,
            frame_interval: house.format.frame_interval(),
            events: house.journal.is_some(),
        };
        let controller = new_controller(&house.controller, house.bounds).expect("checked when the server started");
        let policy = new_policy(&house.fec).expect("checked when the server started");
        let mut sender = Sender::new(now, config, controller).with_fec(policy);
        let (stream, references) = describe(house, codec, wish(&sender, display))?;
        if references {
            sender = sender.with_references();
        }
        let (delivery_sender, deliveries) = mpsc::channel(DELIVERIES);
        let seat = Arc::new(Seat::new(Viewer(session), codec, wish(&sender, display), delivery_sender));
        Ok(Self { house, session, connection, sender, seat, deliveries, display, stream, references })
    }

    /// Serves until the client leaves, the server closes or something fails; says which.
    async fn run(mut self, (control, mut wishes): Control) -> String {
        let ended = self.serve(control, &mut wishes).await;
        self.seat.leave();
        self.write_events();
        ended
    }

    async fn serve(
        &mut self,
        control: ControlSender<ServerMessage>,
        wishes: &mut ControlReceiver<ClientMessage>,
    ) -> String {
        let (messages, queue) = mpsc::channel(CONTROL_QUEUE);
        tokio::spawn(send_control(control, queue));
        let welcome = ServerMessage::Welcome(self.welcome());
        if messages.try_send(welcome).is_err() || !self.house.studio.seat(Arc::clone(&self.seat)) {
            return "the renderer has stopped".into();
        }
        let mut closing = self.house.closing.clone();
        let mut status = tokio::time::interval(STATUS_INTERVAL);
        status.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let wake = self.sender.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
            let wake = wake.min(self.house.clock.now() + Span::from_secs(1));
            tokio::select! {
                received = self.connection.recv_datagram() => match received {
                    Ok(received) => self.sender.on_datagram(received.at, &received.datagram),
                    Err(reason) => return format!("{reason:?}"),
                },
                delivery = self.deliveries.recv() => match delivery {
                    Some(delivery) => if let Err(ended) = self.on_delivery(delivery, &messages) {
                        return ended;
                    },
                    None => return "the renderer has stopped".into(),
                },
                message = wishes.recv() => match message {
                    Ok(ClientMessage::Display { display, .. }) => self.display = display,
                    Ok(ClientMessage::Goodbye) => return "the client said goodbye".into(),
                    Ok(ClientMessage::Hello(_)) => return "the client greeted twice".into(),
                    Err(error) => return error.to_string(),
                },
                _ = status.tick() => {
                    let now = self.house.clock.now();
                    if self.report(now, &messages).is_err() {
                        return "the client does not read its control stream".into();
                    }
                }
                () = self.house.clock.sleep_until(wake) => {}
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    let message = "the server is shutting down".to_owned();
                    let _ = messages.try_send(ServerMessage::Goodbye { message: message.clone() });
                    drop(messages);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return message;
                }
            }
            self.drain();
        }
    }

    /// Everything that the sender has to hand out after new facts.
    fn drain(&mut self) {
        let now = self.house.clock.now();
        while let Some(datagram) = self.sender.poll_transmit(now) {
            // A full queue is counted by the connection; the receiver will ask again for what it misses.
            let _ = self.connection.send_datagram(datagram.into());
        }
        if let Some(input) = self.sender.poll_input() {
            self.seat.on_input(input);
        }
        while let Some(report) = self.sender.poll_outcome() {
            self.house.metrics.on_outcome(&report);
        }
        for reason in self.seat.take_skipped() {
            self.sender.on_skipped(now, reason);
        }
        self.seat.set_wish(wish(&self.sender, self.display));
        self.write_events();
    }

    fn write_events(&mut self) {
        while let Some((at, event)) = self.sender.poll_event() {
            if let Some(journal) = &self.house.journal {
                journal.write(at, self.session, event);
            }
        }
    }

    fn on_delivery(&mut self, delivery: Delivery, messages: &mpsc::Sender<ServerMessage>) -> Result<(), String> {
        match delivery {
            Delivery::Frame(frame) => {
                self.sender.set_max_datagram(self.connection.max_datagram_size().min(self.house.datagram));
                self.sender.on_frame(self.house.clock.now(), frame);
            }
            Delivery::Size(size, views) => {
                self.stream =
                    StreamDescription { width: size.width, height: size.height, views, ..self.stream.clone() };
                if messages.try_send(ServerMessage::Stream(self.stream.clone())).is_err() {
                    return Err("the client does not read its control stream".into());
                }
            }
            Delivery::Failed(reason) => return Err(reason),
        }
        Ok(())
    }

    fn welcome(&self) -> Welcome {
        Welcome {
            session: self.session,
            stream: self.stream.clone(),
            server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(),
            controller: self.sender.controller_name().into(),
            fec: self.sender.fec_name(),
            references: self.references,
            pacing: self.house.pacing.to_string(),
            max_rate_bps: self.house.bounds.maximum.as_bps(),
            start: START,
        }
    }

    fn report(&self, now: Time, messages: &mpsc::Sender<ServerMessage>) -> Result<(), ()> {
        let (decision, sender) = (self.sender.decision(), self.sender.statistics(now));
        self.house.metrics.on_figures(self.session, SessionFigures { sender, target: decision.target });
        let status = RateStatus {
            target_bps: decision.target.as_bps(),
            pacing_bps: decision.pacing.as_bps(),
            sent_bps: sender.sent_rate.as_bps(),
            binding: decision.binding.name().into(),
            limits: decision.limits.iter().map(|(limit, rate)| (limit.name().into(), rate.as_bps())).collect(),
            rtt_us: sender.round_trip.map(|span| span.as_micros().unsigned_abs()),
            packets_lost: sender.packets_lost,
            key_frames: sender.key_frames,
        };
        messages.try_send(ServerMessage::Rate(status)).map_err(|_| ())
    }
}

/// Where no controller asks for less.
const WHOLE: Step = Step { rung: 0, scale: 1.0, frame_rate: 1.0 };

fn wish(sender: &Sender, display: DisplayKind) -> Wish {
    Wish {
        encoder: sender.wish(),
        refusal: sender.refusal(),
        display,
        step: sender.decision().step.unwrap_or(WHOLE),
        render_to_display: sender.render_to_display(),
    }
}

/// The stream as it starts, and whether its encoder keeps references. The encoder that says its name here is not the one that will run: that one lives on its thread.
fn describe(house: &House, codec: CodecKind, wish: Wish) -> Result<(StreamDescription, bool), CodecError> {
    let Wish { display, step, encoder: EncoderWish { rate, .. }, .. } = wish;
    let size = house.format.size_for(display, step.scale);
    let encoder = house
        .encoders
        .open(codec, EncoderConfig { size, fps: house.format.fps, rate, threads: EncoderConfig::usual_threads() })?;
    let stream = StreamDescription {
        codec: codec.name().into(),
        codec_string: encoder.codec_string(),
        width: size.width,
        height: size.height,
        fps: house.format.fps,
        encoder: encoder.name(),
        adapter: house.adapter.clone(),
        views: if display == DisplayKind::Headset { 2 } else { 1 },
    };
    Ok((stream, encoder.keeps_references()))
}

/// Sends in a task of its own: half a message must not stay on the stream because something else happened.
async fn send_control(mut control: ControlSender<ServerMessage>, mut queue: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = queue.recv().await {
        if control.send(&message).await.is_err() {
            return;
        }
    }
}
