//! The client's end: symbols in, frames out, and everything that is reported to the sender.

use std::collections::VecDeque;

use nearlight_events::{Event, FrameCounts, LossCounts, RecoveryCounts, RecoveryKind, Stage};
#[cfg(any(test, feature = "fuzzing"))]
use nearlight_units::PacketSeq;
use nearlight_units::{Bitrate, Bytes, FrameId, RemoteTime, Span, Time};
use nearlight_wire::{FrameHeader, RepairHeader, SymbolHeader, ToClient, ToServer, UnreliableMessage, marker::Marker};

use crate::arrivals::ArrivalLog;
use crate::assembly::{Assembler, Completed, Forged};
use crate::clock::{ClockEstimate, ClockSync};
use crate::playback::PlaybackBuffer;
use crate::presentation::{Displayed, Presentation};
use crate::recent::RecentRate;
use crate::sound::{PlayedSound, SoundPlayer};
use crate::uplink::Uplink;
use crate::{Wake, earliest};

mod input;
mod loss_recovery;
mod pictures;
mod playback;
mod requests;
mod sound;

pub use loss_recovery::LossRecovery;
use pictures::Pictures;
pub use pictures::{PictureFacts, RtpCounts};

/// Messages of the application that wait to be fetched or sent; older ones are dropped.
const MAX_MESSAGES: usize = 64;
/// Events that are not fetched are dropped, oldest first.
const MAX_EVENTS: usize = 256;

/// Configuration by the receiving application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Emit events for `poll_event`; otherwise they are not even created.
    pub events: bool,
}

/// A complete frame in decoding order.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyFrame {
    pub id: FrameId,
    /// Decodes without any other frame.
    pub key: bool,
    pub header: FrameHeader<RemoteTime>,
    /// Header and coded picture as transmitted; [`ReadyFrame::bits`] is the picture.
    bytes: Vec<u8>,
    bits_from: usize,
    /// False: a newer frame is ready as well, so decode this one as its reference and do not display it. Of many that are ready at once,
    /// one in eight is true, so that the picture moves while they are decoded.
    pub show: bool,
    /// A frame that it depends on, directly or indirectly, was skipped: the decoded picture differs from the encoder's.
    pub damaged: bool,
}

impl ReadyFrame {
    /// The coded picture.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bytes[self.bits_from..]
    }
}

/// Counts of what was received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiverStatistics {
    pub frames: FrameCounts,
    pub loss: LossCounts,
    pub recovery: RecoveryCounts,
    /// How the picture last recovered from a loss, and how many newer frames had begun to arrive by then.
    pub recovered_by: Option<(RecoveryKind, u32)>,
    pub received: Bytes,
    /// Over the last second.
    pub received_rate: Bitrate,
    /// Datagrams that no parser accepts.
    pub malformed: u64,
    /// How often the symbols of a complete frame were discarded because they did not match the digest that its repairs carry.
    pub corrupt: u64,
    /// Frames that the decoder refused.
    pub refused: u64,
    pub unreadable_markers: u64,
}

/// Media datagrams that arrived.
#[derive(Clone, Copy)]
struct MediaCount {
    packets: u64,
    bytes: Bytes,
    /// Of these, redundant ones.
    redundant: Bytes,
}

impl MediaCount {
    const fn datagram(datagram: &[u8], redundant: bool) -> Self {
        let bytes = Bytes::new(datagram.len() as u64);
        Self { packets: 1, bytes, redundant: if redundant { bytes } else { Bytes::ZERO } }
    }
}

/// Reassembles frames, requests what is missing, reports arrivals and keeps the clocks synchronized.
///
/// Its methods fall into the same five groups as [`Sender`](crate::Sender)'s:
///
/// - facts, `on_*`: something happened at `now`. [`Receiver::on_datagram`] and [`Receiver::on_marked_datagram`] bring what the server sends,
///   [`Receiver::on_input`] and [`Receiver::on_device`] the user's input, [`Receiver::on_application_message`] the application's,
///   [`Receiver::on_decoded`], [`Receiver::on_decode_failed`], [`Receiver::on_displayed`] and [`Receiver::on_sound_decoded`] what became of
///   what was handed out. [`Receiver::on_picture`], [`Receiver::on_picture_displayed`], [`Receiver::on_rtp_counts`] and
///   [`Receiver::on_rtp_sound`] are for a driver whose pictures and sound come by RTP. [`Receiver::on_timeout`] is the passing of time.
/// - settings, `set_*`: how losses are recovered, how often arrivals are reported, whether frames are buffered and sound is played.
/// - outputs, `poll_*`: call each until none. [`Receiver::poll_samples`] instead fills what an audio device requests.
/// - the next wake-up time, [`Receiver::poll_timeout`].
/// - queries, which change nothing: [`Receiver::header`], [`Receiver::picture_header`], [`Receiver::clock`], [`Receiver::statistics`],
///   [`Receiver::sound_statistics`], [`Receiver::is_stuck`].
///
/// A driver hands over one fact, or calls [`Receiver::on_timeout`], then drains every `poll_*` that it serves, then sleeps until
/// [`Receiver::poll_timeout`]. Only [`Receiver::on_timeout`] gives frames up and requests what is missing: a driver that never calls it
/// never sends requests. It may be called at any time, and early calls cost little; complete frames that were not fetched before it may be
/// given up.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    assembler: Assembler,
    arrivals: ArrivalLog,
    clock: ClockSync,
    uplink: Uplink,
    /// None: frames go to the decoder as they arrive.
    playback: Option<Box<PlaybackBuffer>>,
    presentation: Presentation,
    pictures: Pictures,
    transmit: VecDeque<ToServer>,
    events: VecDeque<(Time, Event)>,
    loss_recovery: LossRecovery,
    /// Newest frame that was decoded without error since the last key frame.
    decoded: Option<FrameId>,
    acknowledge: bool,
    /// When a frame predicted from a decoded one was requested, and how many such requests had gone unanswered.
    reference_asked: Option<(Time, u32)>,
    key_frame_asked_at: Option<Time>,
    /// The last frame finished when the key frame was requested.
    key_frame_asked_after: Option<FrameId>,
    /// Frames handed out since the last that is to be shown.
    hidden: u32,
    /// How long media packets recently took from the server, less the offset of its clock.
    downlink_delay: Option<Span>,
    input_repeat_at: Option<Time>,
    /// Messages of the application, which may be lost.
    messages: VecDeque<Vec<u8>>,
    first_frame: Option<FrameId>,
    counts: FrameCounts,
    recovery: RecoveryCounts,
    recovered_by: Option<(RecoveryKind, u32)>,
    retransmitted: u64,
    key_frames: u64,
    malformed: u64,
    corrupt: u64,
    refused: u64,
    packets: u64,
    received: Bytes,
    recent: RecentRate,
    /// None: there is no listener.
    sound: Option<Box<SoundPlayer>>,
    /// None: the application's own media stack plays nothing.
    played_sound: Option<Box<PlayedSound>>,
}

impl Receiver {
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            assembler: Assembler::default(),
            arrivals: ArrivalLog::default(),
            clock: ClockSync::default(),
            uplink: Uplink::default(),
            playback: None,
            presentation: Presentation::default(),
            pictures: Pictures::default(),
            transmit: VecDeque::new(),
            events: VecDeque::new(),
            loss_recovery: LossRecovery::default(),
            decoded: None,
            acknowledge: false,
            reference_asked: None,
            key_frame_asked_at: None,
            key_frame_asked_after: None,
            hidden: 0,
            downlink_delay: None,
            input_repeat_at: None,
            messages: VecDeque::new(),
            first_frame: None,
            counts: FrameCounts::default(),
            recovery: RecoveryCounts::default(),
            recovered_by: None,
            retransmitted: 0,
            key_frames: 0,
            malformed: 0,
            corrupt: 0,
            refused: 0,
            packets: 0,
            received: Bytes::ZERO,
            recent: RecentRate::default(),
            sound: None,
            played_sound: None,
        }
    }

    /// How losses are recovered from now on.
    pub fn set_loss_recovery(&mut self, recovery: LossRecovery) {
        self.loss_recovery = recovery;
        self.assembler.set_takes_damaged(recovery == LossRecovery::OpenUvr);
    }

    /// Reports arrivals at this interval rather than with each frame, as receivers of other protocols do.
    pub fn set_feedback_interval(&mut self, interval: Span) {
        self.arrivals.set_interval(interval);
    }

    /// A datagram arrived. If it does not parse it is counted and dropped.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.take(now, datagram, false);
    }

    /// The same for a datagram that a queue on the path has marked as "congestion experienced" (RFC 3168): the mark is reported to the
    /// sender.
    pub fn on_marked_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.take(now, datagram, true);
    }

    fn take(&mut self, now: Time, datagram: &[u8], ce: bool) {
        match ToClient::parse(datagram) {
            Ok(ToClient::Pong(pong)) => {
                let before = self.clock.estimate(now);
                self.clock.on_pong(now, &pong);
                if before.is_none() {
                    self.note_clock(now);
                }
            }
            Ok(ToClient::Symbol(header, payload)) => {
                self.on_media(now, MediaCount::datagram(datagram, header.flags.retransmission));
                if self.arrivals.on_arrival(now, header.seq, ce) && !header.flags.probe {
                    self.on_symbol(now, &header, payload);
                }
            }
            Ok(ToClient::Repair(header, payload)) => {
                self.on_media(now, MediaCount::datagram(datagram, true));
                if self.arrivals.on_arrival(now, header.seq, ce) {
                    self.on_repair(now, &header, payload);
                }
            }
            Ok(ToClient::Note(note)) => self.on_note(now, note),
            Ok(ToClient::Sound(sound)) => self.on_sound(now, datagram.len(), &sound),
            Ok(ToClient::InputAcknowledgement(acknowledgement)) => self.uplink.on_acknowledged(acknowledgement.seq),
            Ok(ToClient::Application(UnreliableMessage(data))) => {
                push_bounded(&mut self.messages, data.into_owned(), MAX_MESSAGES);
            }
            Err(error) => {
                self.malformed += 1;
                self.emit(now, || Event::MalformedDatagram { reason: error.to_string() });
            }
        }
    }

    fn on_media(&mut self, now: Time, media: MediaCount) {
        self.received += media.bytes;
        self.packets += media.packets;
        self.recent.on_bytes(now, media.bytes);
        self.recovery.media_bytes += media.bytes.get();
        self.recovery.redundant_bytes += media.redundant.get();
        if self.config.events && self.recent.is_due(now) {
            let (packets, bytes) = (self.packets, self.received);
            let (retransmissions, repairs) =
                (self.retransmitted + self.pictures.counts.repeated_packets, self.recovery.repairs);
            self.emit(now, || Event::Traffic { packets, bytes, retransmissions, repairs });
        }
    }

    fn on_symbol(&mut self, now: Time, header: &SymbolHeader, payload: &[u8]) {
        self.first_frame.get_or_insert(header.frame);
        self.on_downlink_delay(now, now.ahead_of(header.sent_at));
        self.assembler.on_symbol(now, header, payload);
        self.after_media(now);
    }

    fn on_repair(&mut self, now: Time, header: &RepairHeader, payload: &[u8]) {
        self.recovery.repairs += 1;
        self.first_frame.get_or_insert(header.frame);
        self.on_downlink_delay(now, now.ahead_of(header.sent_at));
        self.assembler.on_repair(now, header, payload);
        self.after_media(now);
    }

    fn after_media(&mut self, now: Time) {
        while let Some(completed) = self.assembler.poll_completed() {
            self.on_completed(now, completed);
        }
        while let Some(Forged { frame, completed }) = self.assembler.poll_forged() {
            self.corrupt += 1;
            self.counts.completed -= u64::from(completed);
            self.emit(now, || Event::FrameCorrupt { frame });
        }
        self.assembler.drop_useless();
    }

    fn on_completed(&mut self, now: Time, completed: Completed) {
        let Completed { frame, key, retransmitted, recovered } = completed;
        self.counts.completed += 1;
        self.key_frames += u64::from(key);
        self.retransmitted += u64::from(retransmitted);
        self.arrivals.set_flush();
        let behind = self.assembler.newest().map_or(0, |newest| newest.0.saturating_sub(frame.0));
        if recovered > 0 {
            self.recovery.symbols += u64::from(recovered);
            let late = u64::from(behind > 0);
            self.recovery.by_late_repair += late;
            self.recovery.by_repair += 1 - late;
            let by = if late == 0 { RecoveryKind::Repair } else { RecoveryKind::LateRepair };
            self.emit(now, || Event::FrameRecovered { frame, by, symbols: recovered, behind });
        } else if retransmitted > 0 {
            self.recovery.by_retransmission += 1;
            let by = RecoveryKind::Retransmission;
            self.emit(now, || Event::FrameRecovered { frame, by, symbols: retransmitted, behind });
        }
    }

    /// The decoder gets a frame that was late or restores the chain.
    fn on_recovered(&mut self, now: Time, frame: FrameId, skipped: u32, by: RecoveryKind) {
        let newest = self.assembler.newest().map_or(0, |newest| newest.0.saturating_sub(frame.0));
        let frames = newest.saturating_add(skipped);
        match by {
            RecoveryKind::Reference => self.recovery.by_reference += 1,
            RecoveryKind::KeyFrame => self.recovery.by_key_frame += 1,
            _ => {}
        }
        self.recovery.recoveries += 1;
        self.recovery.frames_to_recover += u64::from(frames);
        self.recovery.longest_recovery = self.recovery.longest_recovery.max(frames);
        self.recovered_by = Some((by, frames));
        self.emit(now, || Event::PictureRecovered { frame, by, frames });
    }

    pub fn on_decoded(&mut self, now: Time, frame: FrameId) {
        if self.presentation.on_decoded(now, frame) {
            self.counts.decoded += 1;
            self.decoded = self.decoded.max(Some(frame));
            self.acknowledge = self.loss_recovery == LossRecovery::References;
        }
    }

    /// The decoder's state is no longer of use.
    fn set_broken(&mut self) {
        self.assembler.set_broken();
        (self.decoded, self.acknowledge) = (None, false);
    }

    /// The decoder rejected a frame: only a key frame helps.
    pub fn on_decode_failed(&mut self, now: Time, frame: FrameId) {
        self.refused += 1;
        self.emit(now, || Event::FrameLost { frame, reason: "decoder refused it".into() });
        if self.playback.as_mut().is_some_and(|buffer| buffer.skip_to_key_frame()) {
            return;
        }
        self.set_broken();
        self.request_restart(now);
    }

    /// A decoded frame has been on the display since `now`, with the marker read from the displayed pixels.
    ///
    /// None for an unknown frame and before the first clock exchange.
    pub fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Option<Marker>) -> Option<Displayed> {
        let clock = self.clock.estimate(now);
        let displayed = self.presentation.on_displayed(now, frame, marker, clock, &self.uplink)?;
        let made_at = displayed.timeline.boundaries[Stage::Render as usize];
        if let Some(sound) = &mut self.sound {
            sound.on_displayed(now, made_at);
        }
        if let Some(sound) = &mut self.played_sound {
            sound.on_displayed(now, made_at);
        }
        if self.config.events {
            for timeline in displayed.passed_over.clone() {
                self.emit(now, || Event::FramePassedOver { timeline });
            }
            let timeline = displayed.timeline.clone();
            self.emit(now, || Event::FrameDisplayed { timeline });
            for (input, span) in displayed.inputs.iter().copied() {
                self.emit(now, || Event::InputToPhoton { input, frame, span });
            }
            if let Some((input, span)) = displayed.inputs.last().copied() {
                self.emit(now, || Event::MotionToPhoton { input, frame, span });
            }
        }
        Some(displayed)
    }

    /// The header of a frame that was handed out and not yet displayed, for reprojection.
    #[must_use]
    pub fn header(&self, frame: FrameId) -> Option<&FrameHeader<RemoteTime>> {
        self.presentation.header(frame)
    }

    /// The next datagram to send; call until none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let message = self
            .uplink
            .poll_sample()
            .map(ToServer::Input)
            .or_else(|| self.uplink.poll_hand().map(|hand| ToServer::Hand(hand.into())))
            .or_else(|| self.transmit.pop_front())
            .or_else(|| self.poll_acknowledgement().map(ToServer::Acknowledgement))
            .or_else(|| self.arrivals.poll_report(now).map(ToServer::Feedback))
            .or_else(|| self.clock.poll_ping(now).map(ToServer::Ping))
            .or_else(|| self.poll_report(now).map(ToServer::Report))?;
        Some(message.to_bytes())
    }

    /// Time has passed: handles what [`Receiver::poll_timeout`] announced.
    pub fn on_timeout(&mut self, now: Time) {
        let policy = self.retransmission_policy();
        if self.loss_recovery == LossRecovery::KeyFrames {
            self.assembler.give_up_lost(now);
        } else {
            self.assembler.expire(now, policy);
        }
        self.assembler.drop_useless();
        self.repeat_input(now);
        self.request_missing(now, policy);
        self.request_restart(now);
    }

    /// When to call [`Receiver::on_timeout`] and drain next even if nothing happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        earliest([
            Some(self.clock.poll_timeout()),
            self.arrivals.poll_timeout(),
            self.presentation.poll_timeout(),
            self.playback.as_ref().and_then(|buffer| buffer.poll_timeout()).map(|at| (at, Wake::Playback)),
            self.assembler.poll_timeout().map(|at| (at, Wake::Retransmission)),
            self.restart_due().map(|at| (at, Wake::KeyFrame)),
            self.input_repeat_at.map(|at| (at, Wake::Input)),
            self.sound.as_ref().and_then(|sound| sound.poll_timeout()).map(|at| (at, Wake::Sound)),
        ])
    }

    /// The picture is frozen or damaged, and nothing is outstanding or due that could restore it: neither symbols nor a frame to continue
    /// with. That must never be the case after [`Receiver::on_timeout`] and a drain; simulations and fuzzers check it. It does not apply to
    /// receivers that never send requests.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        // Where nothing is requested, an incomplete frame is awaited until a newer packet shows that it is lost; where the transport
        // retransmits, as long as that takes.
        let suffers = match self.loss_recovery {
            LossRecovery::Symbols | LossRecovery::References => self.assembler.is_frozen(),
            LossRecovery::OpenUvr => {
                let damaged = self.assembler.is_waiting_for_key_frame() && !self.assembler.has_deliverable();
                damaged || self.assembler.is_frozen()
            }
            LossRecovery::KeyFrames | LossRecovery::Nothing { .. } | LossRecovery::Transport => false,
        };
        suffers && self.assembler.poll_timeout().is_none() && self.restart_due().is_none()
    }

    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.pop_front()
    }

    #[must_use]
    pub fn clock(&self, now: Time) -> Option<ClockEstimate> {
        self.clock.estimate(now)
    }

    #[must_use]
    pub fn statistics(&self, now: Time) -> ReceiverStatistics {
        let sent = match (self.first_frame, self.assembler.newest().max(self.pictures.newest())) {
            (Some(first), Some(newest)) => u64::from(newest.0 - first.0.min(newest.0)) + 1,
            _ => 0,
        };
        let lost = self.assembler.lost + self.pictures.lost;
        let expected = self.arrivals.highest().map_or(0, |highest| highest + 1);
        ReceiverStatistics {
            frames: FrameCounts {
                // A picture whose note was lost may be newer than all that are known by number.
                sent: sent.max(self.counts.decoded + lost),
                displayed: self.presentation.displayed,
                damaged: self.presentation.damaged,
                late: self.presentation.late,
                lost,
                ..self.counts
            },
            loss: self.pictures.losses(LossCounts {
                packets: expected.saturating_sub(self.arrivals.arrived),
                retransmitted: self.retransmitted,
                key_frames: self.key_frames.saturating_sub(1),
            }),
            recovery: self.recovery,
            recovered_by: self.recovered_by,
            received: self.received,
            received_rate: self.recent.rate(now),
            malformed: self.malformed,
            corrupt: self.corrupt,
            refused: self.refused,
            unreadable_markers: self.presentation.unreadable_markers,
        }
    }

    fn note_clock(&mut self, now: Time) {
        if let Some(ClockEstimate { offset, error, round_trip, drift_ppm }) = self.clock.estimate(now) {
            self.emit(now, || Event::ClockEstimated { offset, error, round_trip, drift_ppm });
        }
    }

    fn emit(&mut self, now: Time, event: impl FnOnce() -> Event) {
        if !self.config.events {
            return;
        }
        push_bounded(&mut self.events, (now, event()), MAX_EVENTS);
    }
}

/// Pushes an element; the oldest is dropped when the queue is full.
fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Accessors for the fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
impl Receiver {
    pub(crate) fn held(&self) -> (usize, usize) {
        assert!(self.pictures.held() <= 256, "{} notes and pictures are held", self.pictures.held());
        self.assembler.held()
    }

    pub(crate) fn held_playback(&self) -> (usize, usize) {
        self.playback.as_ref().map_or((0, 0), |buffer| buffer.held())
    }

    pub(crate) fn newest(&self) -> Option<FrameId> {
        self.assembler.newest()
    }

    pub(crate) fn digest(&self, frame: FrameId) -> Option<u32> {
        self.assembler.digest(frame)
    }

    /// A frame to continue with should have been requested by now.
    pub(crate) fn owes_request(&self, now: Time) -> bool {
        self.restart_due().is_some_and(|due| due <= now)
    }

    pub(crate) fn lacks(&self, frame: FrameId) -> bool {
        self.assembler.lacks(frame)
    }

    /// A sequence number that no datagram has used yet, as long as there are any.
    pub(crate) fn next_seq(&self) -> PacketSeq {
        PacketSeq(self.arrivals.highest().map_or(0, |highest| (highest as u32).wrapping_add(1)))
    }
}
