//! The client's end of a session.

use std::collections::VecDeque;

use nearlight_events::{Event, FrameCounts, LossCounts, RecoveryCounts, RecoveryKind};
use nearlight_units::{Bitrate, Bytes, FrameId, RemoteTime, Span, Time};
use nearlight_wire::{FrameHeader, Report, ToClient, ToServer, UnreliableMessage};

use crate::clock::{ClockEstimate, ClockSync};
use crate::receiver::arrivals::ArrivalLog;
use crate::receiver::presentation::Presentation;
use crate::sound::SoundStatistics;
use crate::{Wake, earliest};

pub(crate) mod arrivals;
pub(crate) mod assembly;
mod context;
mod display;
pub(crate) mod display_queue;
mod frames;
pub(crate) mod input_sampler;
#[cfg(any(test, feature = "fuzzing"))]
mod inspection;
mod loss_recovery;
pub(crate) mod playback;
pub(crate) mod presentation;
pub(crate) mod repair_decoder;
mod requests;
mod rtp;
mod sound;
mod telemetry;
mod uplink;

use context::Context;
use display::Display;
use frames::FrameReception;
pub use frames::ReceivedFrames;
pub use loss_recovery::LossRecovery;
use rtp::RtpPictures;
pub use rtp::{PictureFacts, ReceivedRtp, RtpCounts};
pub use sound::ReceivedSound;
use sound::SoundReception;
use telemetry::{MediaCount, Telemetry};
pub use uplink::Uplink;

/// Maximum number of application messages that wait in each direction. Of those to be fetched the oldest are dropped; to be sent, further
/// ones are refused.
const MAX_MESSAGES: usize = 64;

/// Configuration by the receiving application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Whether events are created for [`Receiver::poll_event`].
    pub events: bool,
}

/// A complete frame in decoding order.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyFrame {
    pub id: FrameId,
    /// Whether the frame decodes without any other.
    pub key: bool,
    pub header: FrameHeader<RemoteTime>,
    /// Header and coded picture as transmitted; [`ReadyFrame::bits`] is the picture.
    bytes: Vec<u8>,
    bits_from: usize,
    /// Whether the frame is to be displayed. False when a newer frame is ready as well: it is then decoded only as a reference. Of many that
    /// are ready at once, one in eight is displayed, so that the picture moves while they are decoded.
    pub show: bool,
    /// Whether a frame that it depends on, directly or indirectly, was skipped. The decoded picture then differs from the encoder's.
    pub damaged: bool,
}

impl ReadyFrame {
    /// Returns the coded picture.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bytes[self.bits_from..]
    }
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiverStatistics {
    pub frames: FrameCounts,
    pub loss: LossCounts,
    pub recovery: RecoveryCounts,
    /// How the picture last recovered from a loss, and how many newer frames had begun to arrive by then.
    pub recovered_by: Option<(RecoveryKind, u32)>,
    pub received: Bytes,
    /// The mean rate over the last second.
    pub received_rate: Bitrate,
    /// Number of datagrams that cannot be parsed.
    pub malformed: u64,
    /// Number of times that the symbols of a complete frame were discarded, because they did not match the digest that its repairs carry.
    pub corrupt: u64,
    /// Number of frames that the decoder rejected.
    pub refused: u64,
    pub unreadable_markers: u64,
}

/// The client's end of a session: reassembles frames, requests what is missing, reports arrivals and keeps the clocks synchronized.
///
/// It joins parts, each with an interface of its own:
///
/// | part | concerns |
/// |---|---|
/// | [`Receiver::frames`] | reassembled frames: to the decoder and to the display |
/// | [`Receiver::sound`] | packets of sound: to the decoder and to the output device |
/// | [`Receiver::rtp`] | pictures and sound that the application's own media stack received and decoded, as browsers do over WebRTC |
/// | [`Receiver::uplink`] | the user's input and the application's messages to the server |
///
/// Calls that concern all of them are the receiver's own. As everywhere in this crate, `on_*` takes a fact that happened, `set_*` a
/// wish, `poll_*` hands out work and is called until none, and a bare noun reads and changes nothing.
///
/// A driver hands over one fact, or calls [`Receiver::on_timeout`], then drains every `poll_*` that it serves, then sleeps until
/// [`Receiver::poll_timeout`]. Only [`Receiver::on_timeout`] gives frames up and requests what is missing: a driver that never calls it
/// never sends requests. It may be called at any time, and early calls cost little; complete frames that were not fetched before it may be
/// given up.
#[derive(Debug)]
pub struct Receiver {
    arrivals: ArrivalLog,
    frames: FrameReception,
    pictures: RtpPictures,
    presentation: Presentation,
    sound: SoundReception,
    /// Messages from the server's application, which may be lost.
    messages: VecDeque<Vec<u8>>,
    context: Context,
}

impl Receiver {
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            arrivals: ArrivalLog::default(),
            frames: FrameReception::default(),
            pictures: RtpPictures::default(),
            presentation: Presentation::default(),
            sound: SoundReception::default(),
            messages: VecDeque::new(),
            context: Context {
                clock: ClockSync::default(),
                uplink: Uplink::default(),
                telemetry: Telemetry::new(config.events),
            },
        }
    }

    /// Sets the interval at which arrivals are reported, rather than with each frame, as receivers of other protocols do.
    pub fn set_feedback_interval(&mut self, interval: Span) {
        self.arrivals.set_interval(interval);
    }

    /// Returns the interface to reassembled frames, on their way to the decoder and to the display.
    pub const fn frames(&mut self) -> ReceivedFrames<'_> {
        let Self { frames, presentation, sound, context, .. } = self;
        ReceivedFrames { reception: frames, display: Display { presentation, sound, context } }
    }

    /// Returns the interface to pictures and sound that the application's own media stack received and decoded.
    pub const fn rtp(&mut self) -> ReceivedRtp<'_> {
        let Self { pictures, presentation, sound, context, .. } = self;
        ReceivedRtp { pictures, display: Display { presentation, sound, context } }
    }

    /// Returns the interface to sound, on its way to the decoder and to the output device.
    pub const fn sound(&mut self) -> ReceivedSound<'_> {
        ReceivedSound { reception: &mut self.sound, clock: &self.context.clock }
    }

    /// Returns the interface to the user's input and the application's messages to the server.
    pub const fn uplink(&mut self) -> &mut Uplink {
        &mut self.context.uplink
    }

    /// Takes a datagram that arrived. A datagram that cannot be parsed is counted and dropped.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.receive(now, datagram, false);
    }

    /// Takes a datagram that a queue on the path has marked as "congestion experienced" (RFC 3168). The mark is reported to the sender.
    pub fn on_marked_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.receive(now, datagram, true);
    }

    fn receive(&mut self, now: Time, datagram: &[u8], ce: bool) {
        let Context { clock, uplink, telemetry } = &mut self.context;
        match ToClient::parse(datagram) {
            Ok(ToClient::Pong(pong)) => {
                let is_first = clock.estimate(now).is_none();
                clock.on_pong(now, &pong);
                if let Some(estimate) = clock.estimate(now).filter(|_| is_first) {
                    let ClockEstimate { offset, error, round_trip, drift_ppm } = estimate;
                    telemetry.emit(now, || Event::ClockEstimated { offset, error, round_trip, drift_ppm });
                }
            }
            Ok(ToClient::Symbol(header, payload)) => {
                telemetry.on_media(now, MediaCount::datagram(datagram, header.flags.retransmission));
                if self.arrivals.on_arrival(now, header.seq, ce) && !header.flags.probe {
                    telemetry.on_frame(header.frame);
                    if self.frames.on_symbol(now, &header, payload, &mut self.context) {
                        self.arrivals.set_flush();
                    }
                }
            }
            Ok(ToClient::Repair(header, payload)) => {
                telemetry.on_media(now, MediaCount::datagram(datagram, true));
                if self.arrivals.on_arrival(now, header.seq, ce) {
                    telemetry.recovery.repairs += 1;
                    telemetry.on_frame(header.frame);
                    if self.frames.on_repair(now, &header, payload, &mut self.context) {
                        self.arrivals.set_flush();
                    }
                }
            }
            Ok(ToClient::Note(note)) => self.rtp().on_note(now, note),
            Ok(ToClient::Sound(sound)) => {
                if self.sound.on_datagram(now, &sound, clock.estimate(now)) {
                    telemetry.on_sound(now, datagram.len());
                }
            }
            Ok(ToClient::InputAcknowledgement(acknowledgement)) => uplink.on_acknowledged(acknowledgement.seq),
            Ok(ToClient::Application(UnreliableMessage(data))) => {
                push_bounded(&mut self.messages, data.into_owned(), MAX_MESSAGES);
            }
            Err(error) => {
                telemetry.malformed += 1;
                telemetry.emit(now, || Event::MalformedDatagram { reason: error.to_string() });
            }
        }
    }

    /// Returns the next datagram to send; call until none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let message = self
            .context
            .uplink
            .poll_message()
            .or_else(|| self.frames.poll_acknowledgement().map(ToServer::Acknowledgement))
            .or_else(|| self.arrivals.poll_report(now).map(ToServer::Feedback))
            .or_else(|| self.context.clock.poll_ping(now).map(ToServer::Ping))
            .or_else(|| self.poll_report(now).map(ToServer::Report))?;
        Some(message.to_bytes())
    }

    /// Returns the report on displayed frames and the playback buffer, if it is due.
    fn poll_report(&mut self, now: Time) -> Option<Report> {
        let playback = self.frames.playback();
        if !self.presentation.is_report_due(now) && !playback.as_ref().is_some_and(|buffer| buffer.is_report_due(now)) {
            return None;
        }
        let buffered = playback.map(|buffer| buffer.report(now));
        Some(Report { buffered, frames: self.presentation.take_reports() })
    }

    /// Returns the next message from the server's application. Such messages may be lost.
    pub fn poll_application_message(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    /// Returns the next event, with its time.
    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.context.telemetry.poll_event()
    }

    /// Handles timers that are due; see [`Receiver::poll_timeout`].
    pub fn on_timeout(&mut self, now: Time) {
        self.context.uplink.on_timeout(now);
        self.frames.on_timeout(now, &mut self.context);
    }

    /// Returns when to call [`Receiver::on_timeout`] and drain next even if nothing happens, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        earliest([
            Some(self.context.clock.poll_timeout()),
            self.arrivals.poll_timeout(),
            self.presentation.poll_timeout(),
            self.frames.poll_timeout(&self.context.clock),
            self.context.uplink.poll_timeout(),
            self.sound.poll_timeout(),
        ])
    }

    /// Returns whether the picture is frozen or damaged although nothing is outstanding or due that could restore it, neither symbols nor a
    /// frame with which the decoder can continue. That must never be the case after [`Receiver::on_timeout`] and a drain; simulations and
    /// fuzzers check it. It does not apply to receivers that never send requests.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.frames.is_stuck(&self.context.clock)
    }

    /// Returns the estimate of the server's clock, or none before the first exchange.
    #[must_use]
    pub fn clock(&self, now: Time) -> Option<ClockEstimate> {
        self.context.clock.estimate(now)
    }

    /// Returns the header of a frame that was handed out and not yet displayed, for reprojection.
    #[must_use]
    pub fn header(&self, frame: FrameId) -> Option<&FrameHeader<RemoteTime>> {
        self.presentation.header(frame)
    }

    /// Returns the header of a picture of the application's own media stack, or none while no note on it has arrived.
    #[must_use]
    pub fn picture_header(&self, rtp_timestamp: u32) -> Option<&FrameHeader<RemoteTime>> {
        self.header(self.pictures.frame(rtp_timestamp)?)
    }

    #[must_use]
    pub fn statistics(&self, now: Time) -> ReceiverStatistics {
        let (assembler, telemetry) = (self.frames.assembler(), &self.context.telemetry);
        let sent = match (telemetry.first_frame(), assembler.newest().max(self.pictures.newest())) {
            (Some(first), Some(newest)) => u64::from(newest.0 - first.0.min(newest.0)) + 1,
            _ => 0,
        };
        let lost = assembler.lost + self.pictures.lost();
        let expected = self.arrivals.highest().map_or(0, |highest| highest + 1);
        let Presentation { decoded, displayed, damaged, late, unreadable_markers, .. } = self.presentation;
        ReceiverStatistics {
            frames: FrameCounts {
                // A picture whose note was lost may be newer than all that are known by number.
                sent: sent.max(decoded + lost),
                completed: telemetry.completed,
                decoded,
                displayed,
                damaged,
                late,
                lost,
            },
            loss: telemetry.losses(expected.saturating_sub(self.arrivals.arrived)),
            recovery: telemetry.recovery,
            recovered_by: telemetry.recovered_by,
            received: telemetry.received,
            received_rate: telemetry.recent.rate(now),
            malformed: telemetry.malformed,
            corrupt: telemetry.corrupt(),
            refused: telemetry.refused,
            unreadable_markers,
        }
    }

    /// Returns the statistics of the sound, or none in a session without sound.
    #[must_use]
    pub fn sound_statistics(&self, now: Time) -> Option<SoundStatistics> {
        self.sound.statistics(now)
    }
}

/// Pushes an element, and drops the oldest when the queue is full.
fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}
