//! What every session does whatever carries it: a seat in the studio, figures for metrics and journal, words for the client.

use std::sync::Arc;
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, EncoderConfig, Size};
use nearlight_rate::Step;
use nearlight_scene::{START, Viewer};
use nearlight_session::{EncoderWish, ReceivedInput, Sender, SoundPacket};
use nearlight_units::Time;
use nearlight_wire::{DisplayKind, RateStatus, SoundDescription, StreamDescription, Welcome};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use crate::house::House;
use crate::metrics::SessionFigures;
use crate::seat::{Delivery, Seat, Wish};

/// Frames between encoder and session: more would only be latency.
const DELIVERIES: usize = 4;
/// Packets of sound on the same way: 80 ms.
const SOUNDS: usize = 8;
/// The client's rate display is renewed this often.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Where no controller asks for less.
const WHOLE: Step = Step { rung: 0, scale: 1.0, frame_rate: 1.0 };

/// When to tell the client of rates.
pub(crate) fn status_interval() -> Interval {
    let mut status = tokio::time::interval(STATUS_INTERVAL);
    status.set_missed_tick_behavior(MissedTickBehavior::Skip);
    status
}

/// What a client takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
    pub(crate) codec: CodecKind,
    pub(crate) display: DisplayKind,
    /// It wants to hear the world.
    pub(crate) sound: bool,
}

/// A session's part in the house.
pub(crate) struct Stay {
    pub(crate) house: Arc<House>,
    pub(crate) session: u32,
    pub(crate) deliveries: mpsc::Receiver<Delivery>,
    /// Closed where the client hears nothing.
    pub(crate) sounds: mpsc::Receiver<SoundPacket>,
    /// The client gets sound.
    pub(crate) hears: bool,
    /// How the client is told that sound comes in datagrams.
    pub(crate) sound: Option<SoundDescription>,
    /// What the client shows pictures on.
    pub(crate) display: DisplayKind,
    /// The client is to acknowledge frames.
    pub(crate) references: bool,
    seat: Arc<Seat>,
    stream: StreamDescription,
}

impl Stay {
    /// A seat for what the client takes, not taken yet, and whether its encoder keeps references.
    pub(crate) fn open(
        house: Arc<House>,
        session: u32,
        taste: Taste,
        sender: &Sender,
    ) -> Result<(Self, bool), CodecError> {
        let Taste { codec, display, sound } = taste;
        let (stream, keeps_references) = describe(&house, codec, wish(sender, display))?;
        let (delivery_sender, deliveries) = mpsc::channel(DELIVERIES);
        let (sound_sender, sounds) = mpsc::channel(SOUNDS);
        let hears = sound && house.sound.is_some();
        let seat = Seat::new(Viewer(session), codec, wish(sender, display), delivery_sender);
        let seat = Arc::new(if hears { seat.with_sounds(sound_sender) } else { seat });
        let (references, sound) = (false, None);
        let stay = Self { house, session, deliveries, sounds, hears, sound, display, references, seat, stream };
        Ok((stay, keeps_references))
    }

    /// Takes the seat: pictures and sound come from now on. False when the studio has failed.
    pub(crate) fn begin(&self) -> bool {
        if let Some(sound) = self.house.sound.as_ref().filter(|_| self.hears) {
            sound.seat(Arc::clone(&self.seat));
        }
        self.house.studio.seat(Arc::clone(&self.seat))
    }

    /// Gives the seat up, and writes the last events.
    pub(crate) fn leave(&self, sender: &mut Sender) {
        self.seat.leave();
        self.write_events(sender);
    }

    /// An input that came by another way than the sender's.
    pub(crate) fn on_input(&self, input: ReceivedInput) {
        self.seat.on_input(input);
    }

    /// Takes what the sender has beside datagrams after new facts, and tells the studio what it wishes.
    pub(crate) fn drain(&self, now: Time, sender: &mut Sender) {
        if let Some(input) = sender.poll_input() {
            self.seat.on_input(input);
        }
        while let Some(report) = sender.poll_outcome() {
            self.house.metrics.on_outcome(&report);
        }
        for reason in self.seat.take_skipped() {
            sender.on_skipped(now, reason);
        }
        self.seat.set_wish(wish(sender, self.display));
        self.write_events(sender);
    }

    fn write_events(&self, sender: &mut Sender) {
        while let Some((at, event)) = sender.poll_event() {
            if let Some(journal) = &self.house.journal {
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
        Welcome {
            session: self.session,
            stream: self.stream.clone(),
            server: concat!("nearlight ", env!("CARGO_PKG_VERSION")).into(),
            controller: sender.controller_name().into(),
            fec: sender.fec_name(),
            references: self.references,
            sound: self.sound.clone(),
            pacing: self.house.pacing.to_string(),
            max_rate_bps: self.house.bounds.maximum.as_bps(),
            start: START,
            proof: None,
        }
    }

    /// The rates now, for metrics and for the client.
    pub(crate) fn status(&self, now: Time, sender: &Sender) -> RateStatus {
        let (decision, figures) = (sender.decision(), sender.statistics(now));
        self.house.metrics.on_figures(self.session, SessionFigures { sender: figures, target: decision.target });
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
impl Drop for Stay {
    fn drop(&mut self) {
        self.seat.leave();
    }
}

fn wish(sender: &Sender, display: DisplayKind) -> Wish {
    Wish {
        encoder: sender.wish(),
        refusal: sender.refusal(),
        display,
        step: sender.decision().step.unwrap_or(WHOLE),
        render_to_display: sender.render_to_display(),
        best_capture: sender.best_capture(),
        sound: sender.sound_wish(),
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
        views: house.format.views_for(display),
    };
    Ok((stream, encoder.keeps_references()))
}
