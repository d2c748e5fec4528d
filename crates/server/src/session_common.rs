//! What every session does whatever carries it: a mailbox that it shares with the studio, figures for metrics and journal, messages to the client.

use std::sync::Arc;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, EncoderDescription, Size};
use nearlight_scene::{START, Viewer};
use nearlight_session::{EncoderTarget, MediaTarget, ReceivedInput, Sender, SoundPacket};
use nearlight_units::Time;
use nearlight_wire::{DisplayKind, RateStatus, SOUND_RATE, SoundDescription, StreamDescription, Welcome};
use tokio::sync::mpsc;

use crate::mailbox::{Delivery, EncoderMailbox, StreamTarget};
use crate::metrics::SessionFigures;
use crate::state::ServerState;

/// Frames between encoder and session: more would only be latency.
const DELIVERIES: usize = 4;
/// Packets of sound on the same way: 80 ms.
const SOUNDS: usize = 8;
/// What a session is told that adds nothing to its frames.
const NO_REDUNDANCY: &str = "none";

/// What a client takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPreferences {
    pub(crate) codec: CodecKind,
    pub(crate) display: DisplayKind,
    /// It wants to hear the world.
    pub(crate) sound: bool,
}

/// The part of a session that does not depend on its transport.
pub(crate) struct SessionCommon {
    pub(crate) state: Arc<ServerState>,
    pub(crate) session: u32,
    pub(crate) deliveries: mpsc::Receiver<Delivery>,
    /// Closed where the client hears nothing.
    pub(crate) sounds: mpsc::Receiver<SoundPacket>,
    /// The client gets sound.
    hears: bool,
    /// How the client is told that sound comes in datagrams.
    sound: Option<SoundDescription>,
    /// What the client shows pictures on.
    pub(crate) display: DisplayKind,
    /// The client is to acknowledge frames.
    references: bool,
    mailbox: Arc<EncoderMailbox>,
    stream: StreamDescription,
}

impl SessionCommon {
    /// A mailbox for a client with these preferences, which the studio does not know yet.
    pub(crate) fn open(
        state: Arc<ServerState>,
        session: u32,
        preferences: ClientPreferences,
        sender: &Sender,
    ) -> Result<Self, CodecError> {
        let ClientPreferences { codec, display, sound } = preferences;
        let stream = describe(&state, codec, stream_target(sender, display))?;
        let (delivery_sender, deliveries) = mpsc::channel(DELIVERIES);
        let (sound_sender, sounds) = mpsc::channel(SOUNDS);
        let hears = sound && state.sound.is_some();
        let mailbox = EncoderMailbox::new(Viewer(session), codec, stream_target(sender, display), delivery_sender);
        let mailbox = Arc::new(if hears { mailbox.with_sounds(sound_sender) } else { mailbox });
        let (references, sound) = (false, None);
        Ok(Self { state, session, deliveries, sounds, hears, sound, display, references, mailbox, stream })
    }

    /// The client is told that sound comes in datagrams of the session's own.
    pub(crate) fn with_sound_in_datagrams(mut self) -> Self {
        let description = || SoundDescription { codec: "opus".into(), sample_rate: SOUND_RATE, channels: 2 };
        self.sound = self.hears.then(description);
        self
    }

    /// Whether the client is to acknowledge frames.
    pub(crate) fn with_references(mut self, references: bool) -> Self {
        self.references = references;
        self
    }

    /// Hands the mailbox to the studio: pictures and sound come from now on. False when the studio has failed.
    pub(crate) fn begin(&self) -> bool {
        if let Some(sound) = self.state.sound.as_ref().filter(|_| self.hears) {
            sound.add_viewer(Arc::clone(&self.mailbox));
        }
        self.state.studio.add_viewer(Arc::clone(&self.mailbox))
    }

    /// Closes the mailbox, and writes the last events.
    pub(crate) fn leave(&self, sender: &mut Sender) {
        self.mailbox.leave();
        self.write_events(sender);
    }

    /// An input that came by another way than the sender's.
    pub(crate) fn on_input(&self, input: ReceivedInput) {
        self.mailbox.on_input(input);
    }

    /// Takes what the sender has beside datagrams after new facts, and tells the studio its target.
    pub(crate) fn drain(&self, now: Time, sender: &mut Sender) {
        if let Some(input) = sender.poll_input() {
            self.mailbox.on_input(input);
        }
        while let Some(report) = sender.poll_outcome() {
            self.state.metrics.on_outcome(&report);
        }
        for reason in self.mailbox.take_skipped() {
            sender.on_skipped(now, reason);
        }
        self.mailbox.set_target(stream_target(sender, self.display));
        self.write_events(sender);
    }

    fn write_events(&self, sender: &mut Sender) {
        while let Some((at, event)) = sender.poll_event() {
            if let Some(journal) = &self.state.journal {
                journal.write(at, self.session, event);
            }
        }
    }

    /// The stream from the next key frame on.
    pub(crate) fn resized(&mut self, size: Size, views: u8) -> StreamDescription {
        (self.stream.width, self.stream.height, self.stream.views) = (size.width, size.height, views);
        self.stream.clone()
    }

    pub(crate) fn welcome(&self, sender: &Sender) -> Welcome {
        let names = sender.names();
        Welcome {
            session: self.session,
            stream: self.stream.clone(),
            server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(),
            controller: names.controller.into(),
            fec: names.redundancy.unwrap_or_else(|| NO_REDUNDANCY.into()),
            references: self.references,
            sound: self.sound.clone(),
            pacing: self.state.pacing.to_string(),
            max_rate_bps: self.state.bounds.maximum.as_bps(),
            start: START,
            proof: None,
        }
    }

    /// The rates now, for metrics and for the client.
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

/// However the session ends, the studio is not to wait for it.
impl Drop for SessionCommon {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}

fn stream_target(sender: &Sender, display: DisplayKind) -> StreamTarget {
    let MediaTarget { encoder, refusal, step, render_to_display, best_capture, sound } = sender.target();
    StreamTarget { encoder, refusal, display, step, render_to_display, best_capture, sound }
}

/// The stream as it starts.
fn describe(state: &ServerState, codec: CodecKind, target: StreamTarget) -> Result<StreamDescription, CodecError> {
    let StreamTarget { display, step, encoder: EncoderTarget { rate, .. }, .. } = target;
    let size = state.format.size_for(display, step.scale);
    let config = EncoderConfig { size, fps: state.format.fps, rate, threads: EncoderConfig::usual_threads() };
    let EncoderDescription { name, codec_string, .. } = state.encoders.describe(codec, config)?;
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
