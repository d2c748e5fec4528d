//! One client's session over any carrier: the loop between a client and the studio.

pub(crate) mod common;
pub(crate) mod exchange;
pub(crate) mod starts;

use std::sync::Arc;
use std::time::Duration;

use nearlight_net::{Alarm, Clock};
use nearlight_rooms::{SeatKey, is_member_name};
use nearlight_scene::{ApplicationMessage, Output};
use nearlight_session::{FrameProducer as _, SessionDriver, SoundPacket};
use nearlight_units::{Span, Time};
use nearlight_wire::{Bytes32, ClientMessage, Hello, ServerMessage, Welcome};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use crate::access::admission::{Displacement, Permit};
use crate::metrics::OpenSession;
use crate::session::common::{ClientPreferences, SessionCommon, bound_devices};
use crate::session::exchange::{Delivery, ToApplication};
use crate::state::{Rejection, ServerState, clean};
use crate::transports::carrier::{Carrier, CarrierEvent};

/// Time that a client has to connect. Browsers give up sooner.
const CONNECT_LIMIT: Span = Span::from_secs(20);
/// Interval at which a client's rate display is updated.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait of the loop, after which it checks its limits of time.
const MAX_WAIT: Span = Span::from_secs(1);
const RENDERER_STOPPED: &str = "the renderer has stopped";

/// Serves one client until it leaves, the server closes or something fails.
pub(crate) struct SessionTask<C> {
    state: Arc<ServerState>,
    number: u32,
    /// The client's permit, which is returned when the session ends.
    permit: Permit,
    carrier: C,
    driver: SessionDriver,
    /// The part of the session that needs a codec; none until the codec is known.
    common: Option<SessionCommon>,
    /// The server's proof that it knows the token, for its welcome.
    proof: Option<Bytes32>,
    /// Frames that were taken from the encoder and not passed to the transport yet.
    taken: u64,
    hello_received: bool,
    connected: bool,
    /// Counts the session as open, from the time that it is connected: an offer may belong to a transport that another one outruns.
    counted: Option<OpenSession>,
    began: Time,
}

struct Timers {
    status: Interval,
    alarm: Alarm,
    closing: watch::Receiver<bool>,
}

impl Timers {
    fn new(clock: Clock, closing: watch::Receiver<bool>) -> Self {
        let mut status = tokio::time::interval(STATUS_INTERVAL);
        status.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { status, alarm: Alarm::new(clock), closing }
    }
}

impl<C: Carrier> SessionTask<C> {
    /// Creates a session. Without `common`, the carrier's [`CarrierEvent::Negotiated`] names the codec.
    pub(crate) fn new(
        state: Arc<ServerState>,
        number: u32,
        permit: Permit,
        carrier: C,
        common: Option<SessionCommon>,
    ) -> Self {
        let began = state.clock.now();
        Self {
            state,
            number,
            permit,
            carrier,
            driver: SessionDriver::default(),
            common,
            proof: None,
            taken: 0,
            hello_received: false,
            connected: false,
            counted: None,
            began,
        }
    }

    /// Adds the proof with which the welcome shows that the server knows the token.
    pub(crate) fn with_proof(self, proof: Bytes32) -> Self {
        Self { proof: Some(proof), ..self }
    }

    pub(crate) async fn run(mut self: Box<Self>) {
        let (state, number) = (Arc::clone(&self.state), self.number);
        let ended = self.serve().await;
        let Self { mut carrier, common, permit, counted, .. } = *self;
        if let Some(mut common) = common {
            common.leave(carrier.sender_mut());
        }
        let words = if counted.is_some() { "a client disconnected" } else { "a client has not connected" };
        drop((counted, permit));
        carrier.close(state.clock.now(), &ended).await;
        tracing::info!(session = number, ended, "{words}");
    }

    /// Returns how the session ended.
    async fn serve(&mut self) -> String {
        let mut timers = Timers::new(self.state.clock, self.state.closing.clone());
        loop {
            if let Err(ended) = self.drain() {
                return ended;
            }
            if let Err(ended) = self.wait(&mut timers).await {
                return ended;
            }
        }
    }

    /// Waits for one event and dispatches it.
    async fn wait(&mut self, timers: &mut Timers) -> Result<(), String> {
        let clock = self.state.clock;
        let latest = clock.now() + MAX_WAIT;
        let due = self.driver.due().map_or(latest, |(at, _)| at.min(latest));
        let Timers { status, alarm, closing } = timers;
        tokio::select! {
            heard = self.carrier.recv() => if let Some(at) = heard? && self.connected {
                self.permit.on_heard(at);
            },
            output = next_studio_output(&mut self.common) => self.on_studio_output(clock.now(), output)?,
            _ = status.tick(), if self.connected => self.report(clock.now())?,
            () = alarm.at(due) => {}
            why = self.permit.displaced() => return Err(why.words().into()),
            _ = closing.wait_for(|closing| *closing) => return Err("the server is shutting down".into()),
        }
        if self.common.as_ref().is_some_and(|common| common.exchange.input.take_acted()) {
            self.permit.on_active(clock.now());
        }
        Ok(())
    }

    /// Handles everything that follows from new events.
    fn drain(&mut self) -> Result<(), String> {
        let now = self.state.clock.now();
        while let Some(event) = self.carrier.poll_event(now) {
            self.on_event(now, event)?;
        }
        if !self.connected && now.saturating_since(self.began) > CONNECT_LIMIT {
            return Err("the client did not connect".into());
        }
        if let Some(why) = self.permit.displacement() {
            return Err(why.words().into());
        }
        let woken = self.driver.step(now, &mut self.carrier, self.common.as_mut());
        if let Some(wake) = woken {
            tracing::trace!(session = self.number, wake = wake.name(), "a timer was due");
        }
        if let Some(common) = &mut self.common {
            // A long text goes out as fast as the client reads it, and leaves room for other messages.
            while self.connected
                && self.carrier.has_room()
                && let Some(chunk) = common.poll_clipboard_chunk()
            {
                self.carrier.send(now, chunk)?;
            }
            let sent = std::mem::take(&mut self.taken);
            if sent > 0 {
                common.on_frames_sent(sent);
            }
            if common.is_overrun() {
                return Err("the client does not read the application's messages".into());
            }
        }
        Ok(())
    }

    fn on_event(&mut self, now: Time, event: CarrierEvent) -> Result<(), String> {
        match event {
            CarrierEvent::Negotiated(preferences) => self.open(preferences),
            CarrierEvent::Connected => {
                if !self.permit.on_heard(now) {
                    return Err(self.permit.displacement().unwrap_or(Displacement::Forfeit).words().into());
                }
                self.connected = true;
                self.counted = Some(self.state.metrics.open_session(self.number));
                self.begin()
            }
            CarrierEvent::Message(message) => self.on_message(now, message),
            CarrierEvent::Input(input) => {
                if let Some(common) = &mut self.common {
                    common.on_input(*input);
                }
                Ok(())
            }
            CarrierEvent::Closed(reason) => Err(reason),
        }
    }

    fn open(&mut self, preferences: ClientPreferences) -> Result<(), String> {
        if self.common.is_some() {
            return Ok(());
        }
        tracing::info!(session = self.number, codec = preferences.codec.name(), "codec negotiated");
        let opened = SessionCommon::open(Arc::clone(&self.state), self.number, preferences, self.carrier.sender());
        let common = self.common.insert(opened.map_err(|error| error.to_string())?);
        if C::MOVES_USER {
            self.carrier.set_start(common.take_place());
        }
        if self.connected { self.begin() } else { Ok(()) }
    }

    /// Starts pictures and sound, provided that a codec is known.
    fn begin(&self) -> Result<(), String> {
        let begun = self.common.as_ref().is_none_or(SessionCommon::begin);
        begun.then_some(()).ok_or_else(|| RENDERER_STOPPED.into())
    }

    fn on_message(&mut self, now: Time, message: ClientMessage) -> Result<(), String> {
        match message {
            ClientMessage::Hello(_) if self.hello_received => Err("the client sent a second hello".into()),
            ClientMessage::Hello(hello) => self.on_hello(now, &hello),
            ClientMessage::Display { display, display_hz } => {
                if let Some(common) = &mut self.common {
                    common.display = display;
                }
                self.carrier.sender_mut().set_display_hz(display_hz);
                Ok(())
            }
            ClientMessage::Devices(described) => {
                self.on_application_data(ToApplication::Devices(bound_devices(described)))
            }
            ClientMessage::Clipboard { text, more } => {
                let common = self.common.as_mut().filter(|_| self.hello_received);
                common.map_or(Ok(()), |common| common.on_clipboard_chunk(text, more))
            }
            ClientMessage::Application { data } => {
                self.on_application_data(ToApplication::Message(ApplicationMessage { data: data.0, reliable: true }))
            }
            ClientMessage::Goodbye => Err("the client closed the session".into()),
        }
    }

    /// Nothing is accepted before the client has sent its hello.
    fn on_application_data(&self, to_application: ToApplication) -> Result<(), String> {
        self.common
            .as_ref()
            .filter(|_| self.hello_received)
            .map_or(Ok(()), |common| common.on_application_data(to_application))
    }

    fn on_hello(&mut self, now: Time, hello: &Hello) -> Result<(), String> {
        if let Err(Rejection { reason, message, .. }) = self.state.check_version(hello) {
            self.carrier.send(now, ServerMessage::Refused { reason, message: message.clone() })?;
            return Err(message);
        }
        self.hello_received = true;
        tracing::debug!(session = self.number, client = clean(&hello.client), "a client said hello");
        self.carrier.sender_mut().set_display_hz(hello.display_hz);
        let Some(common) = &mut self.common else { return Ok(()) };
        common.display = hello.display;
        common.set_clipboard(hello.clipboard);
        match hello.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) if is_member_name(name) => common.on_application_data(ToApplication::Name(name.into()))?,
            Some(_) => {
                tracing::info!(session = self.number, "ignored a user name that is not valid for a member of a room");
            }
            None => {}
        }
        if let Some(key) = hello.seat.as_ref().and_then(|key| key.0.as_slice().try_into().ok()) {
            common.on_application_data(ToApplication::SeatKey(SeatKey(key)))?;
        }
        let welcome = Welcome { proof: self.proof, ..common.welcome(self.carrier.sender()) };
        self.carrier.send(now, ServerMessage::Welcome(welcome))
    }

    fn on_studio_output(&mut self, now: Time, output: StudioOutput) -> Result<(), String> {
        match output {
            StudioOutput::Picture(Some(Delivery::Frame(frame))) => {
                self.taken += 1;
                self.carrier.on_frame(now, frame);
            }
            StudioOutput::Picture(Some(Delivery::Size(size, views))) => {
                let stream = self.common.as_mut().map(|common| common.resized(size, views));
                return stream.map_or(Ok(()), |stream| self.carrier.send(now, ServerMessage::Stream(stream)));
            }
            StudioOutput::Failed(reason) => return Err(reason),
            StudioOutput::Picture(None) => return Err(RENDERER_STOPPED.into()),
            StudioOutput::Sound(packet) => self.carrier.on_sound(now, packet),
            // The session is informed of it in the next step.
            StudioOutput::Skip => {}
            StudioOutput::Output(output) => {
                let Some(common) = &mut self.common else { return Ok(()) };
                let message = common.message_for(self.carrier.sender_mut(), output);
                return message.map_or(Ok(()), |message| self.carrier.send(now, message));
            }
        }
        Ok(())
    }

    /// Updates the metrics and reports the rates to the client.
    fn report(&mut self, now: Time) -> Result<(), String> {
        let Some(common) = &self.common else { return Ok(()) };
        let status = common.status(now, self.carrier.sender());
        self.carrier.send(now, ServerMessage::Rate(status))
    }
}

/// Something that the studio has produced for a client.
enum StudioOutput {
    /// A delivery of the encoder, or none when the renderer has stopped.
    Picture(Option<Delivery>),
    /// No more frames come, for this reason.
    Failed(String),
    Sound(SoundPacket),
    Output(Output),
    /// A frame was skipped.
    Skip,
}

/// Waits for the next output of the studio, for ever while no codec is known.
async fn next_studio_output(common: &mut Option<SessionCommon>) -> StudioOutput {
    let Some(SessionCommon { deliveries, sounds, outputs, exchange, .. }) = common else {
        return std::future::pending().await;
    };
    tokio::select! {
        delivery = deliveries.recv() => StudioOutput::Picture(delivery),
        reason = exchange.failure.wait() => StudioOutput::Failed(reason),
        Some(packet) = sounds.recv() => StudioOutput::Sound(packet),
        Some(output) = outputs.recv() => StudioOutput::Output(output),
        () = exchange.skipped.wait() => StudioOutput::Skip,
    }
}

#[cfg(test)]
pub(crate) mod tests;
