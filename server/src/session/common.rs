//! The part of a session that does not depend on the carrier: an exchange shared with the studio, figures for metrics and event log,
//! messages to the client.

use std::sync::Arc;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, EncoderDescription, Size};
use nearlight_events::Event;
use nearlight_rooms::{MAX_NAME_BYTES, Role};
use nearlight_scene::{ApplicationMessage, DevicesDescription, Output, START, Viewer};
use nearlight_session::{EncoderTarget, FrameProducer, MediaTarget, ReceivedInput, Sender, SkipReason, SoundPacket};
use nearlight_units::Time;
use nearlight_wire::{
    Base64, ClipboardChunks, ClipboardText, DisplayKind, FrameReport, MAX_CLIPBOARD_BYTES, MAX_GAMEPADS,
    MAX_RELIABLE_MESSAGE_BYTES, Pose, RateStatus, RecoveryPolicy, SOUND_RATE, ServerMessage, SoundDescription,
    StreamDescription, UserRole, Welcome,
};
use tokio::sync::mpsc;

use crate::media::encoding::strip_below;
use crate::metrics::SessionFigures;
use crate::session::exchange::{Delivery, SessionExchange, StreamTarget, ToApplication};
use crate::state::ServerState;

/// Frames that may wait between encoder and session. More would only add latency.
const MAX_QUEUED_DELIVERIES: usize = 4;
/// Sound packets that may wait between encoder and session: 80 ms.
const MAX_QUEUED_SOUND_PACKETS: usize = 8;
/// Characters that are kept of a device's name, and profiles that are kept of a controller.
const MAX_DEVICE_NAME_CHARS: usize = 200;
const MAX_CONTROLLER_PROFILES: usize = 16;
/// Outputs of an application that may wait for its client: several frames' worth.
const MAX_QUEUED_OUTPUTS: usize = 256;
/// The name of the policy that adds no redundancy.
const NO_REDUNDANCY: &str = "none";

/// The media that a client accepts, and the role of its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPreferences {
    pub(crate) role: Role,
    pub(crate) codec: CodecKind,
    pub(crate) display: DisplayKind,
    /// Whether the client wants sound.
    pub(crate) sound: bool,
    /// Whether the client crops the rows with the latency marker below the pictures.
    pub(crate) marker: bool,
}

/// The part of a session that does not depend on its transport.
pub(crate) struct SessionCommon {
    pub(crate) state: Arc<ServerState>,
    pub(crate) session: u32,
    /// The role of the client's token.
    role: Role,
    pub(crate) deliveries: mpsc::Receiver<Delivery>,
    /// Sound packets for the client; the channel is closed if the client receives no sound.
    pub(crate) sounds: mpsc::Receiver<SoundPacket>,
    pub(crate) outputs: mpsc::Receiver<Output>,
    /// Whether owner and user allow the exchange of clipboard text.
    clipboard: bool,
    /// The client's text, as far as it has arrived.
    pasted: ClipboardText,
    /// The text that is being sent to the client, and the newest one, which follows.
    copied: Option<ClipboardChunks>,
    next_copied: Option<ClipboardChunks>,
    /// Whether the client receives sound.
    receives_sound: bool,
    /// The description that announces to the client that sound arrives in datagrams; none if it does not.
    sound: Option<SoundDescription>,
    /// The client's kind of display.
    pub(crate) display: DisplayKind,
    /// The client's loss recovery, which decides whether it acknowledges frames.
    recovery: RecoveryPolicy,
    pub(crate) exchange: Arc<SessionExchange>,
    stream: StreamDescription,
}

impl SessionCommon {
    /// Creates an exchange for a client with these preferences. The studio does not know it yet.
    pub(crate) fn open(
        state: Arc<ServerState>,
        session: u32,
        preferences: ClientPreferences,
        sender: &Sender,
    ) -> Result<Self, CodecError> {
        let ClientPreferences { role, codec, display, sound, marker } = preferences;
        let stream = describe(&state, (codec, marker), StreamTarget::new(sender.target(), display))?;
        let (delivery_sender, deliveries) = mpsc::channel(MAX_QUEUED_DELIVERIES);
        let (sound_sender, sounds) = mpsc::channel(MAX_QUEUED_SOUND_PACKETS);
        let receives_sound = sound && state.sound.is_some();
        let (output_sender, outputs) = mpsc::channel(MAX_QUEUED_OUTPUTS);
        let target = StreamTarget::new(sender.target(), display);
        let exchange = SessionExchange::new(Viewer(session), codec, target, delivery_sender, output_sender)
            .with_stream(Size { width: stream.width, height: stream.height }, stream.views)
            .with_marker(marker)
            .with_role(role);
        let exchange = Arc::new(if receives_sound { exchange.with_sounds(sound_sender) } else { exchange });
        let (recovery, sound) = (RecoveryPolicy::Retransmission, None);
        let clipboard = false;
        Ok(Self {
            state,
            session,
            role,
            deliveries,
            sounds,
            outputs,
            clipboard,
            pasted: ClipboardText::default(),
            copied: None,
            next_copied: None,
            receives_sound,
            sound,
            display,
            recovery,
            exchange,
            stream,
        })
    }

    /// Announces to the client that sound arrives in datagrams of the session.
    pub(crate) fn with_sound_in_datagrams(mut self) -> Self {
        let description = || SoundDescription { codec: "opus".into(), sample_rate: SOUND_RATE, channels: 2 };
        self.sound = self.receives_sound.then(description);
        self
    }

    /// Sets the loss recovery of the client.
    pub(crate) const fn with_recovery(mut self, recovery: RecoveryPolicy) -> Self {
        self.recovery = recovery;
        self
    }

    /// Passes the exchange to the studio, which starts pictures and sound. Returns false if the studio has failed.
    pub(crate) fn begin(&self) -> bool {
        if let Some(sound) = self.state.sound.as_ref().filter(|_| self.receives_sound) {
            sound.add_viewer(Arc::clone(&self.exchange));
        }
        self.state.studio.add_viewer(Arc::clone(&self.exchange))
    }

    /// Closes the exchange and writes the last events.
    pub(crate) fn leave(&mut self, sender: &mut Sender) {
        self.exchange.leave();
        while let Some((at, event)) = sender.poll_event() {
            self.on_event(at, event);
        }
    }

    /// Sets whether the user allows the exchange of clipboard text. Spectators take no part in it.
    pub(crate) fn set_clipboard(&mut self, wanted: bool) {
        self.clipboard = wanted && self.state.clipboard && self.exchange.acts();
    }

    /// Passes something from the client to the application. The error says why the session must end.
    pub(crate) fn on_application_data(&self, to_application: ToApplication) -> Result<(), String> {
        let longest = match &to_application {
            ToApplication::Name(name) => (name.len(), MAX_NAME_BYTES),
            ToApplication::Message(message) => (message.data.len(), MAX_RELIABLE_MESSAGE_BYTES),
            // Their sender has checked it.
            ToApplication::ClipboardAnnounced | ToApplication::Clipboard(_) | ToApplication::SeatKey(_) => (0, 0),
            ToApplication::Devices(devices) => (devices.gamepads.len().max(devices.controllers.len()), MAX_GAMEPADS),
        };
        if longest.0 > longest.1 {
            return Err("the client sent a message to the application that exceeds the protocol's limit".into());
        }
        let reason = || "the client sends messages faster than the application reads them".into();
        self.exchange.application.on_client_data(to_application).then_some(()).ok_or_else(reason)
    }

    /// Takes a chunk of a text of the client's clipboard. The application learns of a long text at once. The error says why the session must
    /// end.
    pub(crate) fn on_clipboard_chunk(&mut self, chunk: String, more: bool) -> Result<(), String> {
        if !self.clipboard {
            return Ok(());
        }
        let begins = !self.pasted.is_incomplete();
        match self.pasted.on_chunk(chunk, more).map_err(|error| format!("the client sent what it may not: {error}"))? {
            Some(text) => self.on_application_data(ToApplication::Clipboard(text)),
            None if begins => self.on_application_data(ToApplication::ClipboardAnnounced),
            None => Ok(()),
        }
    }

    /// Returns the next chunk of a text for the client's clipboard.
    pub(crate) fn poll_clipboard_chunk(&mut self) -> Option<ServerMessage> {
        if self.copied.is_none() {
            self.copied = self.next_copied.take();
        }
        let (text, more) = self.copied.as_mut()?.next()?;
        if !more {
            self.copied = None;
        }
        Some(ServerMessage::Clipboard { text, more })
    }

    /// Records that this many frames were passed to the transport, as far as the pacer allows.
    pub(crate) fn on_frames_sent(&self, count: u64) {
        self.exchange.stream.on_frames_sent(count);
    }

    /// Returns whether the session had no space for a message of the application that must not be lost.
    pub(crate) fn is_overrun(&self) -> bool {
        self.exchange.application.is_overrun()
    }

    /// Returns the control message for an output of the application, or none if the output is sent another way.
    pub(crate) fn message_for(&mut self, sender: &mut Sender, output: Output) -> Option<ServerMessage> {
        match output {
            Output::Haptics(haptics) => Some(ServerMessage::Haptics(haptics)),
            Output::Pointer { cursor, captured } => Some(ServerMessage::Pointer { cursor, captured }),
            Output::Clipboard(_) if !self.clipboard => None,
            Output::Clipboard(text) => {
                let bytes = text.len();
                if let Some(chunks) = ClipboardChunks::new(text) {
                    self.next_copied = Some(chunks);
                } else {
                    tracing::warn!(
                        bytes,
                        limit = MAX_CLIPBOARD_BYTES,
                        "the application's text is too long for a client's clipboard, and was not sent"
                    );
                }
                None
            }
            Output::Message(ApplicationMessage { data, reliable: true }) if data.len() > MAX_RELIABLE_MESSAGE_BYTES => {
                tracing::error!(bytes = data.len(), "the application's message is longer than the protocol allows");
                None
            }
            Output::Message(ApplicationMessage { data, reliable: true }) => {
                Some(ServerMessage::Application { data: Base64(data) })
            }
            Output::Message(ApplicationMessage { data, reliable: false }) => {
                sender.on_application_message(data);
                None
            }
        }
    }

    /// Returns the description of the stream from the next key frame on.
    pub(crate) fn resized(&mut self, size: Size, views: u8) -> StreamDescription {
        (self.stream.width, self.stream.height, self.stream.views) = (size.width, size.height, views);
        self.stream.clone()
    }

    /// Returns where the client's user starts, which nobody else takes. Spectators, whom nobody sees, take no place.
    pub(crate) fn take_place(&self) -> Pose {
        if !self.exchange.acts() {
            return START;
        }
        self.state.starts.assign(self.state.clock.now(), &self.exchange, self.state.rooms.world_heads())
    }

    pub(crate) fn welcome(&self, sender: &Sender) -> Welcome {
        let names = sender.names();
        Welcome {
            session: self.session,
            stream: self.stream.clone(),
            server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(),
            controller: names.controller.into(),
            fec: names.redundancy.unwrap_or_else(|| NO_REDUNDANCY.into()),
            recovery: self.recovery,
            playback_buffer: sender.target().playback_buffer,
            sound: self.sound.clone(),
            clipboard: self.clipboard,
            pacing: self.state.pacing.to_string(),
            max_rate_bps: self.state.bounds.maximum.as_bps(),
            start: self.take_place(),
            demonstration: self.state.demonstration,
            role: match self.role {
                Role::Host => UserRole::Host,
                Role::Guest => UserRole::Guest,
                Role::Spectator => UserRole::Spectator,
            },
            proof: None,
        }
    }

    /// Returns the current rates for the client, and updates the metrics.
    pub(crate) fn status(&self, now: Time, sender: &Sender) -> RateStatus {
        let (decision, figures) = (sender.decision(), sender.statistics(now));
        self.state.metrics.on_figures(self.session, SessionFigures { sender: figures, target: decision.target });
        RateStatus {
            target_bps: decision.target.as_bps(),
            pacing_bps: decision.pacing.as_bps(),
            sent_bps: figures.sent_rate.as_bps(),
            binding: decision.binding.name().into(),
            limits: decision.limits.iter().map(|(limit, rate)| (limit.name().into(), rate.as_bps())).collect(),
            rtt_us: figures.round_trip.map(|span| span.as_micros().unsigned_abs()),
            packets_lost: figures.packets_lost,
            key_frames: figures.key_frames,
        }
    }
}

/// Reaches the studio through the exchange.
impl FrameProducer for SessionCommon {
    fn on_input(&mut self, mut input: ReceivedInput) {
        for data in std::mem::take(&mut input.messages) {
            // These messages may be lost.
            self.exchange
                .application
                .on_client_data(ToApplication::Message(ApplicationMessage { data, reliable: false }));
        }
        self.exchange.input.on_input(input);
    }

    fn poll_skipped(&mut self) -> Option<SkipReason> {
        self.exchange.skipped.poll()
    }

    fn set_target(&mut self, target: MediaTarget) {
        self.exchange.stream.set_target(StreamTarget::new(target, self.display));
    }

    fn on_outcome(&mut self, report: &FrameReport) {
        self.state.metrics.on_outcome(report);
    }

    fn on_event(&mut self, at: Time, event: Event) {
        if let Some(event_log) = &self.state.event_log {
            event_log.write(at, self.session, event);
        }
    }
}

/// Truncates a client's description of its devices to the permitted sizes.
pub(crate) fn bound_devices(mut devices: DevicesDescription) -> DevicesDescription {
    for gamepad in &mut devices.gamepads {
        gamepad.name = gamepad.name.chars().take(MAX_DEVICE_NAME_CHARS).collect();
    }
    for controller in &mut devices.controllers {
        controller.profiles.truncate(MAX_CONTROLLER_PROFILES);
        controller
            .profiles
            .iter_mut()
            .for_each(|profile| *profile = profile.chars().take(MAX_DEVICE_NAME_CHARS).collect());
    }
    devices
}

/// Closes the exchange however the session ends, so that the studio does not wait for it.
impl Drop for SessionCommon {
    fn drop(&mut self) {
        self.exchange.leave();
    }
}

/// Returns the description of the stream at its start.
fn describe(
    state: &ServerState,
    (codec, marker): (CodecKind, bool),
    target: StreamTarget,
) -> Result<StreamDescription, CodecError> {
    let StreamTarget { display, step, encoder: EncoderTarget { rate, .. }, .. } = target;
    let size = state.format.size_for(display, step.scale);
    let config = EncoderConfig { size, fps: state.format.fps, rate, threads: EncoderConfig::default_threads() };
    let strip = if marker { strip_below(&state.encoders, codec, config) } else { None };
    let coded = EncoderConfig { size: size.with_strip(strip), ..config };
    let EncoderDescription { name, codec_string, .. } = state.encoders.describe(codec, coded)?;
    Ok(StreamDescription {
        codec,
        codec_string,
        width: size.width,
        height: size.height,
        fps: state.format.fps,
        encoder: name,
        adapter: state.adapter.clone(),
        views: state.format.views_for(display),
    })
}
