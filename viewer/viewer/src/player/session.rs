//! One connection: moves datagrams and messages between transport, receiver, decoder and display.

use std::sync::Arc;
use std::time::Duration;

use nearlight_net::{Alarm, CloseReason, Connection, ControlReceiver, NetError, ReceivedDatagram};
use nearlight_session::{LossRecovery, Presence, Receiver, ReceiverConfig};
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::{
    ApplicationMessage, Base64, ClientMessage, ClipboardChunks, ClipboardText, DevicesDescription, MAX_CLIPBOARD_BYTES,
    ServerMessage, StreamDescription,
};

use super::decoder::{DecoderOutputs, DecoderThread, Job, MAX_FRAMES_IN_DECODER};
use super::drain::{Drain, frame_of};
use super::opening::OpenSession;
use super::sound::SoundOutput;
use super::view::views;
use super::writer::ControlWriter;
use super::{
    ConnectionEnd, LossSummary, PictureReport, Player, PointerRequest, Ports, Run, STATUS_INTERVAL, Status, UserInput,
    UserOutput, WatchStatus,
};
use crate::ViewerError;

/// Shortest sleep of the loop, so that a deadline that stays due does not keep a processor busy. Guess: far below a packet interval.
const MIN_SLEEP: Span = Span::from_micros(100);

/// Longest time without any data from the server, after which the viewer reconnects. The server sends its status several times per second,
/// whether or not the picture changes. The page uses the same limit.
const SILENCE_TIMEOUT: Span = Span::from_secs(4);

/// Maximum time that a server may take to read the last message. Guess: several round trips of a slow path.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// An established session.
pub struct Session<'a> {
    run: &'a mut Run,
    connection: Connection,
    to_server: ControlWriter,
    from_server: ControlReceiver<ServerMessage>,
    number: u32,
    stream: StreamDescription,
    receiver: Receiver,
    decoder: DecoderThread,
    /// Whether both the server's owner and the user permit sharing of clipboard texts.
    clipboard: bool,
    /// The application's text for the clipboard, as far as it has arrived.
    copied: ClipboardText,
    /// The user's text that is being sent, and the newest one, which follows.
    pasted: Option<ClipboardChunks>,
    next_pasted: Option<ClipboardChunks>,
    /// Length of the playback buffer.
    playback_delay: Span,
    /// `None` if the session has no sound.
    sound: Option<SoundOutput>,
    /// Number of frames in the decoder.
    decoding: usize,
    /// The newest frame of which a datagram has arrived.
    newest: Option<FrameId>,
    /// The newest frame that was passed to the decoder to be displayed.
    to_show: Option<FrameId>,
    /// The newest frame that was displayed.
    shown: Option<FrameId>,
    drain: Option<Drain>,
    /// When data last arrived.
    received_at: Time,
    status_at: Time,
    displayed_at_status: u64,
    alarm: Alarm,
}

/// An event that wakes the loop.
enum LoopEvent {
    Datagram(ReceivedDatagram),
    Message(Box<ServerMessage>),
    PictureReport(PictureReport),
    Input(UserInput),
    /// This program has a message for the application.
    Outgoing(ApplicationMessage),
    Devices(DevicesDescription),
    Deadline,
    Stop,
    Lost(String),
}

impl<'a> Session<'a> {
    pub fn new(run: &'a mut Run, opened: OpenSession) -> Result<Self, ViewerError> {
        let OpenSession { connection, to_server, from_server, welcome } = opened;
        run.plan.apply_to(run.player.clock.now(), &connection);
        run.tally.on_stream(&welcome.stream);
        tracing::info!(
            server = welcome.server,
            encoder = welcome.stream.encoder,
            adapter = welcome.stream.adapter,
            controller = welcome.controller,
            recovery = %welcome.recovery,
            "watching"
        );
        let decoder = start_decoder(run, &welcome.stream)?;
        let mut receiver = Receiver::new(ReceiverConfig { events: run.player.options.record.wants_events() });
        let intra_only = run.player.options.intra_only;
        receiver.frames().set_loss_recovery(if intra_only { LossRecovery::KeyFrames } else { welcome.recovery.into() });
        let frame_interval = Span::from_secs(1) / i64::from(welcome.stream.fps.max(1));
        receiver.frames().set_playback_buffer(welcome.playback_buffer, frame_interval);
        let playback_delay = frame_interval * i64::from(welcome.playback_buffer);
        let sound = welcome.sound.is_some().then(|| SoundOutput::new(run.player.clock.now())).transpose()?;
        if sound.is_some() {
            receiver.sound().set_enabled();
        }
        if !welcome.demonstration {
            receiver.uplink().set_sparse_input();
        }
        let now = run.player.clock.now();
        let status_at = now + STATUS_INTERVAL;
        let alarm = Alarm::new(run.player.clock);
        let displayed_at_status = run.tally.displayed();
        // A new server does not know the user's devices.
        if *run.player.ports.devices.borrow() != DevicesDescription::default() {
            run.player.ports.devices.mark_changed();
        }
        Ok(Self {
            run,
            connection,
            to_server: ControlWriter::start(to_server),
            from_server,
            clipboard: welcome.clipboard,
            copied: ClipboardText::default(),
            pasted: None,
            next_pasted: None,
            number: welcome.session,
            stream: welcome.stream,
            receiver,
            decoder,
            playback_delay,
            sound,
            decoding: 0,
            newest: None,
            to_show: None,
            shown: None,
            drain: None,
            received_at: now,
            status_at,
            displayed_at_status,
            alarm,
        })
    }

    /// Watches until the run ends or the connection does.
    pub async fn watch(mut self) -> Result<ConnectionEnd, ViewerError> {
        let outcome = self.serve().await;
        let now = self.run.player.clock.now();
        let finished = matches!(outcome, Ok(ConnectionEnd::Finished));
        let mut statistics = self.receiver.statistics(now);
        if let Some(drain) = self.drain {
            statistics.loss.packets = drain.packets_missing;
        }
        if let Some(sound) = self.receiver.sound_statistics(now) {
            self.run.tally.on_sound_over(sound);
        }
        self.run.tally.on_session_over(&statistics, self.receiver.clock(now).map(|clock| clock.error));
        self.write_events()?;
        if finished {
            // The server may be gone already or have stopped reading, which is harmless.
            self.to_server.send(ClientMessage::Goodbye);
            let to_server = tokio::time::timeout(GOODBYE_TIMEOUT, self.to_server.finish()).await;
            self.connection.finish(0, "the viewer left").await;
            drop(to_server);
        }
        outcome
    }

    async fn serve(&mut self) -> Result<ConnectionEnd, ViewerError> {
        loop {
            let now = self.run.player.clock.now();
            self.pump(now)?;
            let idle = self.decoding == 0 && self.shown >= self.to_show;
            if self.drain.is_some_and(|drain| drain.is_over(now, &self.receiver.statistics(now), idle)) {
                return Ok(ConnectionEnd::Finished);
            }
            if self.drain.is_none() && now >= self.received_at + SILENCE_TIMEOUT {
                self.connection.close(0, "nothing came from the server");
                let seconds = SILENCE_TIMEOUT.as_secs_f64();
                return Ok(ConnectionEnd::Lost { reason: format!("nothing arrived for {seconds} s"), watched: true });
            }
            match self.next(now).await {
                LoopEvent::Datagram(received) => {
                    self.received_at = self.received_at.max(received.at);
                    self.on_datagram(&received);
                }
                LoopEvent::Message(message) => {
                    self.received_at = self.run.player.clock.now();
                    if let Some(end) = self.on_message(*message)? {
                        return Ok(end);
                    }
                }
                LoopEvent::PictureReport(report) => self.on_picture_report(report),
                LoopEvent::Input(input) => self.on_input(input),
                LoopEvent::Outgoing(message) => self.on_outgoing(message),
                LoopEvent::Devices(devices) => self.send_control(ClientMessage::Devices(devices)),
                LoopEvent::Deadline => self.on_deadline()?,
                LoopEvent::Stop => self.start_drain(),
                LoopEvent::Lost(_) if self.drain.is_some() => return Ok(ConnectionEnd::Finished),
                LoopEvent::Lost(reason) => return Ok(ConnectionEnd::Lost { reason, watched: true }),
            }
        }
    }

    async fn next(&mut self, now: Time) -> LoopEvent {
        let wake = self.wake().max(now + MIN_SLEEP);
        let watching = self.drain.is_none();
        let writes = watching && self.to_server.has_room();
        let Self { run, connection, from_server, alarm, .. } = self;
        let Player { ports, options, .. } = &mut run.player;
        let Ports { inputs, picture_reports, stop, devices, .. } = ports;
        tokio::select! {
            received = connection.recv_datagram() => match received {
                Ok(received) => LoopEvent::Datagram(received),
                Err(CloseReason::Peer { reason, .. }) if !reason.is_empty() => LoopEvent::Lost(reason),
                Err(reason) => LoopEvent::Lost(reason.to_string()),
            },
            message = from_server.recv() => match message {
                Ok(message) => LoopEvent::Message(Box::new(message)),
                Err(NetError::Closed(reason)) => LoopEvent::Lost(reason.to_string()),
                Err(error) => LoopEvent::Lost(error.to_string()),
            },
            Some(report) = picture_reports.recv() => LoopEvent::PictureReport(report),
            Some(input) = inputs.recv(), if watching => LoopEvent::Input(input),
            message = options.messages.next_outgoing(), if writes => LoopEvent::Outgoing(message),
            Ok(()) = devices.changed(), if writes => LoopEvent::Devices(devices.borrow_and_update().clone()),
            () = stop.wait(), if watching => LoopEvent::Stop,
            () = alarm.at(wake) => LoopEvent::Deadline,
        }
    }

    fn wake(&self) -> Time {
        let first = self.run.tally.first_displayed_at();
        let end = self.drain.map_or_else(|| self.run.end(), |drain| drain.until);
        let wakes = [
            self.receiver.poll_timeout().map(|(at, _)| at),
            self.sound.as_ref().map(SoundOutput::next_at),
            self.run.plan.poll_timeout(first),
            Some(self.status_at),
            Some(self.received_at + SILENCE_TIMEOUT),
            Some(end),
        ];
        wakes.into_iter().flatten().min().unwrap_or(end)
    }

    /// Moves frames to the decoder, runs timers that are due, sends datagrams, and writes sound and events to the files.
    fn pump(&mut self, now: Time) -> Result<(), ViewerError> {
        while self.decoding < MAX_FRAMES_IN_DECODER {
            let Some(frame) = self.receiver.frames().poll(now) else { break };
            if frame.show {
                self.to_show = Some(frame.id);
            }
            self.decoding += 1;
            self.decoder.decode(Job { frame, clock: self.receiver.clock(now) });
        }
        // A timer may give up frames, so complete ones are taken first.
        if let Some((_, wake)) = self.receiver.poll_timeout().filter(|(at, _)| *at <= now) {
            tracing::trace!(session = self.number, wake = wake.name(), "a timer is due");
            self.receiver.on_timeout(now);
        }
        while let Some(datagram) = self.receiver.poll_transmit(now) {
            // The transport counts what it drops. Later feedback and inputs supersede lost ones, and requests are repeated.
            let _ = self.connection.send_datagram(datagram.into());
        }
        self.connection.flush();
        self.send_pasted();
        if let Some(sound) = &mut self.sound {
            let Run { recorder, player, .. } = &mut *self.run;
            sound.play(now, &mut self.receiver, |at, samples| {
                (player.on_sound)(at, samples);
                recorder.write_sound(samples)
            })?;
        }
        self.write_events()
    }

    fn write_events(&mut self) -> Result<(), ViewerError> {
        while let Some((at, event)) = self.receiver.poll_event() {
            self.run.recorder.write(at, self.number, &event)?;
        }
        Ok(())
    }

    fn on_datagram(&mut self, received: &ReceivedDatagram) {
        if self.drain.is_some_and(|drain| !drain.admits(&received.datagram)) {
            return;
        }
        self.newest = self.newest.max(frame_of(&received.datagram));
        self.receiver.on_datagram(received.at, &received.datagram);
        while let Some(data) = self.receiver.poll_application_message() {
            self.run.player.options.messages.on_incoming(ApplicationMessage { data, reliable: false });
        }
    }

    fn on_message(&mut self, message: ServerMessage) -> Result<Option<ConnectionEnd>, ViewerError> {
        match message {
            ServerMessage::Stream(stream) => self.set_stream(stream)?,
            ServerMessage::Rate(rate) => self.run.tally.on_rate(self.run.player.clock.now(), &rate),
            ServerMessage::Refused { reason, message } => return Err(ViewerError::Refused { reason, message }),
            ServerMessage::Goodbye { .. } if self.drain.is_some() => return Ok(Some(ConnectionEnd::Finished)),
            ServerMessage::Goodbye { message } => {
                return Ok(Some(ConnectionEnd::Lost { reason: message, watched: true }));
            }
            ServerMessage::Pointer { cursor, captured } => {
                self.run.player.ports.pointer.send_replace(PointerRequest { cursor, captured });
            }
            ServerMessage::Haptics(haptics) => (self.run.player.on_output)(UserOutput::Haptics(haptics)),
            ServerMessage::Clipboard { text, more } if self.clipboard => match self.copied.on_chunk(text, more) {
                Ok(Some(text)) => (self.run.player.on_output)(UserOutput::Clipboard(text)),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the server's text for the clipboard was dropped"),
            },
            ServerMessage::Clipboard { .. } => tracing::debug!("the server sent a clipboard text that nobody allowed"),
            ServerMessage::Application { data } => {
                self.run.player.options.messages.on_incoming(ApplicationMessage { data: data.0, reliable: true });
            }
            ServerMessage::Welcome(_) | ServerMessage::Challenge { .. } => {
                tracing::debug!("the server sent a second welcome; ignored");
            }
        }
        Ok(None)
    }

    fn set_stream(&mut self, stream: StreamDescription) -> Result<(), ViewerError> {
        self.run.tally.on_stream(&stream);
        (self.run.player.on_output)(UserOutput::Stream(stream.clone()));
        if stream.codec != self.decoder.kind() {
            // The new epoch makes reports of the old decoder be ignored.
            self.run.epoch += 1;
            self.decoder = start_decoder(self.run, &stream)?;
            self.decoding = 0;
        }
        self.stream = stream;
        Ok(())
    }

    fn on_picture_report(&mut self, report: PictureReport) {
        match report {
            PictureReport::Decoded { ticket, .. } | PictureReport::Displayed { ticket, .. }
                if ticket.epoch != self.run.epoch => {}
            PictureReport::Decoded { ticket, at, outcome } => {
                self.decoding = self.decoding.saturating_sub(1);
                match outcome {
                    Ok(()) => self.receiver.frames().on_decoded(at, ticket.frame),
                    Err(error) => {
                        tracing::debug!(frame = %ticket.frame, %error, "a frame was not decoded");
                        self.receiver.frames().on_decode_failed(at, ticket.frame);
                    }
                }
            }
            PictureReport::Displayed { ticket, at, marker } => {
                self.shown = Some(ticket.frame);
                let displayed = self.receiver.frames().on_displayed(at, ticket.frame, marker);
                self.run.tally.on_displayed(at, displayed.as_ref());
            }
        }
    }

    fn on_input(&mut self, input: UserInput) {
        match input {
            UserInput::Moved { at, head } => {
                let size = (self.stream.width, self.stream.height);
                let views = views(self.run.player.options.display, &head, size);
                self.receiver.uplink().on_presence(at, Presence::of_views(head, views));
            }
            UserInput::Present { at, presence } => {
                self.receiver.uplink().on_presence(at, presence);
            }
            UserInput::Display { display, display_hz } => {
                self.run.player.options.display = display;
                self.run.player.display_hz = display_hz;
                self.send_control(ClientMessage::Display { display, display_hz });
            }
            UserInput::Device { at, input } => {
                self.receiver.uplink().on_device(at, input);
            }
            UserInput::Devices { at, inputs } => {
                for input in inputs {
                    self.receiver.uplink().on_device(at, input);
                }
            }
            UserInput::Clipboard(text) if self.clipboard => {
                // Of several texts, the newest counts; one that was begun is finished before.
                if let Some(chunks) = ClipboardChunks::new(text) {
                    self.next_pasted = Some(chunks);
                } else {
                    tracing::warn!(limit = MAX_CLIPBOARD_BYTES, "nothing was pasted: the text is too long");
                }
            }
            UserInput::Clipboard(_) => {
                tracing::warn!("nothing was pasted: the server's owner does not permit clipboard texts");
            }
        }
    }

    fn on_outgoing(&mut self, ApplicationMessage { data, reliable }: ApplicationMessage) {
        if reliable {
            self.send_control(ClientMessage::Application { data: Base64(data) });
        } else if !self.receiver.uplink().on_application_message(data) {
            tracing::debug!("a message was dropped: too many unreliable messages are queued");
        }
    }

    /// Sends as much of the user's text as the server reads.
    fn send_pasted(&mut self) {
        while self.to_server.has_ample_room() {
            if self.pasted.is_none() {
                self.pasted = self.next_pasted.take();
            }
            let Some((text, more)) = self.pasted.as_mut().and_then(Iterator::next) else { return };
            self.send_control(ClientMessage::Clipboard { text, more });
            if !more {
                self.pasted = None;
            }
        }
    }

    fn send_control(&self, message: ClientMessage) {
        if !self.to_server.send(message) {
            tracing::warn!("the server reads too slowly: a message to it was dropped");
        }
    }

    fn on_deadline(&mut self) -> Result<(), ViewerError> {
        let now = self.run.player.clock.now();
        let first = self.run.tally.first_displayed_at();
        self.run.plan.run(now, first, &self.connection);
        if now >= self.status_at {
            self.report_status(now);
        }
        if self.drain.is_none() && now >= self.run.end() {
            self.run.check_first_picture()?;
            self.start_drain();
        }
        Ok(())
    }

    fn start_drain(&mut self) {
        let now = self.run.player.clock.now();
        self.drain = Some(Drain::new(now + self.playback_delay, self.newest, &self.receiver.statistics(now)));
    }

    fn report_status(&mut self, now: Time) {
        let since = STATUS_INTERVAL + (now - self.status_at);
        let displayed = self.run.tally.displayed();
        let frames = displayed - self.displayed_at_status;
        self.displayed_at_status = displayed;
        self.status_at = now + STATUS_INTERVAL;
        let statistics = self.receiver.statistics(now);
        let status = WatchStatus {
            fps: frames as f64 / since.as_secs_f64(),
            motion_to_photon: self.run.tally.motion_to_photon(),
            received: statistics.received_rate,
            size: (self.stream.width, self.stream.height),
            losses: LossSummary::new(&statistics),
            clock: self.receiver.clock(now),
            statistics,
        };
        (self.run.player.on_status)(Status::Watching(Box::new(status)));
    }
}

fn start_decoder(run: &Run, stream: &StreamDescription) -> Result<DecoderThread, ViewerError> {
    let player = &run.player;
    let outputs = DecoderOutputs {
        clock: player.clock,
        screen: Arc::clone(&player.screen),
        reports: player.ports.report_sender.clone(),
    };
    DecoderThread::start(&player.options.decoders, stream.codec, run.epoch, outputs)
}
