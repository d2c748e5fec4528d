//! The server's end: takes frames, sends paced packets, retransmits losses, and decides what the encoder should do next.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::pace::{Headroom, Mode, Pacer};
use nearlight_events::Event;
use nearlight_rate::{Decision, Feedback as RateFeedback, Limit, PacketReport, ProbeId, RateController, SentFrame};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, RemoteTime, Span, Time, smoothed};
use nearlight_wire::{
    Feedback, FrameHeader, FrameReport, MAX_UNRELIABLE_MESSAGE_BYTES, Pong, SYMBOL_HEADER_BYTES, ToServer,
    UnreliableMessage,
};

use crate::capture::schedule::SkipReason;
use crate::capture::timing::CaptureTiming;
use crate::packets::history::{FrameHistory, PacketHistory, StoredFrame};
use crate::packets::symbols::Symbols;
use crate::recent::RecentRate;
use crate::sender::decoder_load::DecoderLoad;
use crate::sender::inbox::{Inbox, ReceivedInput};
use crate::sender::protection::{PathFacts, PlannedRepairs, Protection, protection_event};
use crate::sender::share::RedundantShare;
use crate::sender::window::WindowGate;
use crate::{Wake, earliest};

mod config;
mod decision;
pub(crate) mod decoder_load;
mod display;
mod head_of_line;
pub(crate) mod inbox;
mod overload;
pub(crate) mod protection;
mod receiver_feedback;
mod recovery;
mod releases;
mod restraint;
mod retransmission;
mod rtp;
pub(crate) mod share;
mod sound;
mod target;
mod tcp;
pub(crate) mod window;

pub use config::{Algorithms, Framing, SenderConfig, SenderNames};
pub use display::UNKNOWN_TO_DISPLAY;
pub use receiver_feedback::ReceiverFeedback;
use receiver_feedback::RoundTripEstimate;
use recovery::Recovery;
use restraint::Restraint;
use retransmission::Retransmissions;
pub use rtp::RtpSender;
use sound::SoundOut;
pub use target::{EncoderTarget, MediaTarget};
use tcp::Tcp;

/// Minimum datagram size in bytes that a transport must carry: half of what IPv6 guarantees, so that headers stay below a tenth.
const MIN_DATAGRAM: usize = 640;
/// The round trip before the first feedback. Guess: a slow mobile path.
const INITIAL_ROUND_TRIP: Span = Span::from_millis(100);
/// Maximum number of pongs that wait to be sent. Further pings of a client that pings faster than the driver drains are not answered.
const MAX_PONGS: usize = 16;
/// Maximum number of application messages that wait to be sent.
const MAX_MESSAGES: usize = 64;
/// Maximum number of events that are not fetched. The oldest are dropped first.
const MAX_EVENTS: usize = 256;

/// A frame from the encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedFrame<'a> {
    /// The frame's number: one more than that of the previous frame.
    pub id: FrameId,
    /// The frame that it is predicted from, at most 255 frames before it. None for a key frame.
    pub reference: Option<FrameId>,
    pub header: FrameHeader,
    pub bits: Cow<'a, [u8]>,
    pub distortion: Distortion,
    /// Its index in its group of pictures, from 0, if `reference` does not reveal it: some redundancy policies plan by it. None: it is
    /// counted from the last frame without a reference.
    pub group_index: Option<u32>,
}

/// Mean squared errors of a picture's 8-bit luma, in squared levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distortion {
    /// Error of the coded picture.
    pub coded: Option<f64>,
    /// Error of repeating the previous picture instead.
    pub frozen: Option<f64>,
}

impl Distortion {
    pub const UNKNOWN: Self = Self { coded: None, frozen: None };
}

/// Counts of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStatistics {
    pub frames: u64,
    pub skipped: u64,
    pub key_frames: u64,
    /// Frames that were predicted from an acknowledged one because others were lost.
    pub recovery_frames: u64,
    pub packets: u64,
    /// Packets that the receiver reported missing.
    pub packets_lost: u64,
    /// Pieces that were retransmitted.
    pub retransmissions: u64,
    /// Repairs, planned and on demand.
    pub repairs: u64,
    /// Retransmissions and repairs together.
    pub redundant: Bytes,
    /// Requests for pieces that had left the history or were repeated too often.
    pub retransmissions_refused: u64,
    pub probe_packets: u64,
    /// Datagrams of sound, and their bytes, which do not count as media.
    pub sound_packets: u64,
    pub sound: Bytes,
    /// Datagrams that no parser accepts.
    pub malformed: u64,
    pub sent: Bytes,
    /// Rate sent over the last second.
    pub sent_rate: Bitrate,
    pub round_trip: Option<Span>,
}

/// Packetizes and paces frames, adds redundancy, retransmits and decides when a key frame is needed; connects rate controller and pacer.
///
/// Its methods fall into five groups:
///
/// - facts, `on_*`: something happened at `now`. [`Sender::on_frame`] and [`Sender::on_sound`] bring media, [`Sender::on_skipped`] says
///   that a frame was not encoded, [`Sender::on_application_message`] brings a message that may be lost, [`Sender::on_datagram`] and
///   [`Sender::on_message`] what a client of our own protocol sends, [`Sender::on_tcp_info`] the kernel's state of a TCP connection that
///   carries the session, and [`Sender::on_timeout`] is the passing of time. [`Sender::take_back`] returns the memory of a datagram that
///   was sent; without it each packet costs an allocation.
/// - settings, which hold until the next call: [`Sender::set_max_datagram`], [`Sender::set_display_hz`].
/// - outputs, `poll_*`: call each until none. [`Sender::poll_transmit`]'s datagrams are all that a driver of our own protocol sends. A driver
///   of another one writes packets from what [`Sender::rtp`] releases, and sends [`Sender::poll_non_media`]'s datagrams on a channel of its own.
///   [`Sender::poll_input`] brings the user's input, [`Sender::poll_outcome`] what became of frames, [`Sender::poll_event`] the log.
/// - the next wake-up time, [`Sender::poll_timeout`], or [`Sender::poll_timeout_while_blocked`] as long as the transport accepts nothing.
/// - queries, which change nothing: [`Sender::target`], [`Sender::decision`], [`Sender::statistics`], [`Sender::names`].
///
/// [`Sender::rtp`] has five more for drivers of another protocol.
///
/// After each fact a driver drains every `poll_*` that it serves, then sleeps until [`Sender::poll_timeout`], and calls
/// [`Sender::on_timeout`] when that time has come; [`crate::SessionDriver`] does so. Times never decrease. [`Sender::on_timeout`] may be
/// called at any time, and early calls cost little.
pub struct Sender {
    config: SenderConfig,
    controller: Box<dyn RateController>,
    pacer: Pacer,
    /// The headroom, if the pacing mode uses it.
    headroom: Option<Headroom>,
    decoder_load: DecoderLoad,
    timing: CaptureTiming,
    frames: FrameHistory,
    packets: PacketHistory,
    inbox: Inbox,
    pongs: VecDeque<Pong>,
    /// Application messages, which may be lost.
    messages: VecDeque<Vec<u8>>,
    retransmissions: Retransmissions,
    /// The redundancy. None: nothing is added to the frames.
    protection: Option<Box<Protection>>,
    redundant: RedundantShare,
    probe: Option<ProbeId>,
    decision: Decision,
    /// The newest decision in the log, and when it was logged.
    logged: (Time, (Bitrate, Limit)),
    events: VecDeque<(Time, Event)>,
    next_seq: PacketSeq,
    next_frame: FrameId,
    recovery: Recovery,
    round_trip: Option<Span>,
    window: WindowGate,
    restraint: Restraint,
    recent: RecentRate,
    render_to_display: Option<Span>,
    sound: SoundOut,
    round_trip_estimate: RoundTripEstimate,
    outcomes: VecDeque<FrameReport>,
    symbols: Symbols,
    /// State of the TCP connection, if TCP carries the media and its kernel exposes its state.
    tcp: Option<Box<Tcp>>,
    statistics: SenderStatistics,
}

impl Sender {
    #[must_use]
    pub fn new(now: Time, config: SenderConfig, algorithms: impl Into<Algorithms>) -> Self {
        let Algorithms { controller, redundancy } = algorithms.into();
        let decision = controller.decision();
        let mut pacer = Pacer::new(config.pacing);
        pacer.set_rate(now, decision.pacing);
        let mut sender = Self {
            config,
            controller,
            pacer,
            headroom: (config.pacing == Mode::Compressed).then(Headroom::default),
            decoder_load: DecoderLoad::new(config.frame_interval),
            timing: CaptureTiming::new(config.frame_interval),
            frames: FrameHistory::default(),
            packets: match config.framing {
                Framing::Symbols => PacketHistory::default(),
                Framing::Rtp => PacketHistory::tracking_pieces(),
            },
            inbox: Inbox::default(),
            pongs: VecDeque::new(),
            messages: VecDeque::new(),
            retransmissions: Retransmissions::new(now, decision.target),
            protection: redundancy
                .filter(|policy| policy.reach() > 0)
                .map(|policy| Box::new(Protection::new(policy, config.group))),
            redundant: RedundantShare::default(),
            probe: None,
            logged: (now, (decision.target, decision.binding)),
            decision,
            events: VecDeque::new(),
            next_seq: PacketSeq(0),
            next_frame: FrameId(0),
            recovery: Recovery::new(&config),
            round_trip: None,
            window: WindowGate::new(now),
            restraint: Restraint::new(&config),
            recent: RecentRate::default(),
            render_to_display: None,
            sound: SoundOut::default(),
            round_trip_estimate: RoundTripEstimate::default(),
            outcomes: VecDeque::new(),
            symbols: Symbols::default(),
            tcp: None,
            statistics: SenderStatistics::default(),
        };
        sender.log_decision(now);
        sender
    }

    /// The quality of the encoder's pictures determines the cost of the rate that redundancy takes from it.
    fn on_distortion(&mut self, distortion: Distortion) {
        if let Some(protection) = &mut self.protection {
            protection.on_distortion(self.decision.target, distortion);
        }
    }

    /// Handles a datagram of our own protocol. If it does not parse, it is counted and dropped.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        match ToServer::parse(datagram) {
            Ok(message) => self.on_message(now, message),
            Err(error) => {
                self.statistics.malformed += 1;
                self.emit(now, || Event::MalformedDatagram { reason: error.to_string() });
            }
        }
    }

    /// Handles a message that the driver has parsed.
    pub fn on_message(&mut self, now: Time, message: ToServer) {
        match message {
            ToServer::Input(sample) => {
                let sampled_at = sample.sampled_at;
                if self.inbox.on_sample(now, sample) {
                    self.timing.on_input(now, sampled_at);
                }
            }
            ToServer::Hand(sample) => self.inbox.on_hand(now, *sample),
            ToServer::Application(UnreliableMessage(data)) => self.inbox.on_message(data.into_owned()),
            ToServer::Feedback(feedback) => self.on_feedback(now, &feedback),
            ToServer::Nack(nack) => self.on_nack(now, &nack),
            ToServer::KeyFrameRequest(request) => self.on_key_frame_request(now, request),
            ToServer::Acknowledgement(acknowledgement) => self.on_acknowledgement(acknowledgement),
            ToServer::Report(report) => self.on_report(now, &report),
            ToServer::Ping(ping) => {
                if self.pongs.len() < MAX_PONGS {
                    let client_sent_at = ping.client_sent_at;
                    self.pongs.push_back(Pong {
                        client_sent_at,
                        server_received_at: now.for_peer(),
                        server_sent_at: now.for_peer(),
                    });
                }
            }
        }
        self.settle(now);
    }

    /// Returns the user's newest state, and events and messages that may be lost, if anything arrived since the last call. Everything
    /// pressed counts as released after a second without samples.
    pub fn poll_input(&mut self, now: Time) -> Option<ReceivedInput> {
        self.inbox.poll(now)
    }

    /// Queues an application message of at most [`MAX_UNRELIABLE_MESSAGE_BYTES`] that may be lost. Returns false if it is longer, or too
    /// many are queued.
    pub fn on_application_message(&mut self, data: Vec<u8>) -> bool {
        let taken = data.len() <= MAX_UNRELIABLE_MESSAGE_BYTES && self.messages.len() < MAX_MESSAGES;
        if taken {
            self.messages.push_back(data);
        }
        taken
    }

    /// Records that the driver skipped a frame before it was encoded.
    pub fn on_skipped(&mut self, now: Time, reason: SkipReason) {
        self.decoder_load.on_skipped();
        self.statistics.skipped += 1;
        self.emit(now, || Event::FrameSkipped { reason: reason.name().into() });
    }

    /// Splits an encoded frame into symbols and queues them. Its id is [`EncoderTarget::next`].
    pub fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        let EncodedFrame { id, reference, mut header, bits, distortion, group_index } = frame;
        self.on_distortion(distortion);
        header.deadline += self.config.frame_interval * i64::from(self.config.playback_buffer);
        let mut bytes = self.frames.spare_buffer(bits.len() + nearlight_wire::MAX_FRAME_HEADER_BYTES);
        header.write(&mut bytes);
        bytes.extend_from_slice(&bits);
        let mut stored = StoredFrame::new(id, reference, bytes, self.payload(), header.deadline);
        stored.group_index = group_index;
        self.queue(now, stored, &header);
    }

    /// Handles the timer that [`Sender::poll_timeout`] announced.
    pub fn on_timeout(&mut self, now: Time) {
        self.request_due_key_frame(now);
        if self.controller.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.controller.on_timeout(now);
            self.take_decision(now);
        }
        self.settle(now);
    }

    /// Updates, after any event, whether frames are skipped, and whether the controller wants to probe.
    fn settle(&mut self, now: Time) {
        if self.config.framing == Framing::Rtp && self.next_frame == FrameId(0) {
            // Before its first picture such a transport can send nothing, padding included.
            return;
        }
        let lowest = self.decision.is_at_minimum().then_some(self.decision.target);
        self.restraint.update(now, &self.packets, self.pacer.queued(), lowest);
        let evenly = self.decision.evenly.then_some(self.decision.pacing);
        self.pacer.set_ceiling(now, [self.ceiling(), evenly].into_iter().flatten().min());
        self.update_probe(now);
    }

    /// The rate above which nothing may leave now, because key frames do not get through.
    pub(crate) fn ceiling(&self) -> Option<Bitrate> {
        self.restraint.ceiling(self.recovery.is_receiver_waiting())
    }

    /// Checks whether the probe has ended and another one is next.
    fn update_probe(&mut self, now: Time) {
        if self.probe.is_some() && !self.pacer.is_probing() {
            self.probe = None;
        }
        if self.probe.is_none()
            && let Some(probe) = self.controller.poll_probe(now)
        {
            self.probe = Some(probe.id);
            self.pacer.on_probe(now, probe.rate, probe.size);
        }
    }

    /// Returns a datagram from this sender that is no longer needed: its buffer is reused for the next one.
    pub fn take_back(&mut self, datagram: Vec<u8>) {
        self.symbols.take_back(datagram);
    }

    /// Returns the next datagram that carries no media: an answer to a ping or to events, or a message of the application.
    pub fn poll_non_media(&mut self, now: Time) -> Option<Vec<u8>> {
        if let Some(pong) = self.pongs.pop_front() {
            return Some(Pong { server_sent_at: now.for_peer(), ..pong }.to_bytes());
        }
        if let Some(acknowledgement) = self.inbox.poll_acknowledgement() {
            return Some(acknowledgement.to_bytes());
        }
        self.messages.pop_front().map(|data| UnreliableMessage(data.into()).to_bytes())
    }

    /// When to call [`Sender::on_timeout`] and drain next even if nothing happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        let window = self.decision.window;
        let paced = self.pacer.poll_timeout();
        let paced = paced.map(|at| self.window.closed_until(window).map_or(at, |open| at.max(open)));
        let resent = self.pacer.ceiling_opens_at().filter(|_| !self.retransmissions.is_empty());
        let leaves = paced.into_iter().chain(resent).min();
        earliest([leaves.map(|at| (at, Wake::Pace)), self.poll_timeout_while_blocked()])
    }

    /// As [`Sender::poll_timeout`] while the transport accepts no packet, whatever the pacer would release. A driver that filtered
    /// [`Wake::Pace`] out of [`Sender::poll_timeout`] would lose the timers behind it.
    #[must_use]
    pub fn poll_timeout_while_blocked(&self) -> Option<(Time, Wake)> {
        earliest([
            self.controller.poll_timeout().map(|(at, _)| (at, Wake::Rate)),
            self.recovery.key_due().map(|at| (at, Wake::KeyFrame)),
            self.restraint.until().map(|at| (at, Wake::PathBlocked)),
        ])
    }

    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.pop_front()
    }

    /// The rates in force and the reasons for them.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Sets the transport's largest datagram, in bytes. Frames from now on are split accordingly.
    pub fn set_max_datagram(&mut self, bytes: usize) {
        self.config.max_datagram = bytes.max(MIN_DATAGRAM);
    }

    /// The names of the algorithms that decide rate and redundancy.
    #[must_use]
    pub fn names(&self) -> SenderNames {
        let redundancy = self.protection.as_ref().map(|protection| protection.name());
        SenderNames { controller: self.controller.name(), redundancy }
    }

    #[must_use]
    pub fn statistics(&self, now: Time) -> SenderStatistics {
        SenderStatistics {
            packets_lost: self.packets.lost,
            sent_rate: self.recent.rate(now),
            round_trip: self.round_trip,
            ..self.statistics
        }
    }

    /// Maximum bytes of a symbol, chosen so that its repairs fit as well.
    fn payload(&self) -> usize {
        let repair = self.protection.as_ref().map_or(0, |protection| protection.header_bytes());
        self.config.max_datagram.saturating_sub(SYMBOL_HEADER_BYTES.max(repair))
    }

    fn path_facts(&self) -> PathFacts {
        PathFacts {
            round_trip: self.round_trip.unwrap_or(INITIAL_ROUND_TRIP),
            interval: self.config.frame_interval,
            rate: self.decision.target,
            pacing: self.decision.pacing,
            queue: self.decision.pacing.time_to_send(self.pacer.queued()),
        }
    }

    /// Queues a frame. Returns how many repairs were planned.
    fn queue(&mut self, now: Time, mut stored: StoredFrame, header: &FrameHeader) -> u16 {
        debug_assert_eq!(stored.id, self.next_frame, "frames come in order");
        self.decoder_load.on_frame();
        self.restraint.on_frame(now);
        let (id, reference, key) = (stored.id, stored.reference(), stored.key);
        let size = Bytes::new(stored.bytes.len() as u64);
        stored.render_started_at = header.render_started_at;
        stored.queued_at = now;
        let symbols = u32::from(stored.symbols);
        self.next_frame = id.next();
        self.statistics.frames += 1;
        self.statistics.key_frames += u64::from(key);
        if key && self.recovery.is_receiver_waiting() {
            self.abandon_unsent(now);
            self.restraint.on_answer(now, id, size, self.round_trip.unwrap_or(INITIAL_ROUND_TRIP));
        }
        self.statistics.recovery_frames += u64::from(self.recovery.on_frame(now, id, reference));
        self.redundant.on_frame(size);
        self.protect(now, &mut stored);
        let repairs = stored.planned.as_ref().map_or(0, PlannedRepairs::left);
        self.pacer.on_frame(now, stored.unsent(), now + self.config.frame_interval);
        let dropped = self.frames.push(stored);
        if dropped > Bytes::ZERO {
            // A driver that ignores `refusal` has exceeded the path: the chain of references is broken here.
            self.pacer.on_dropped(now, dropped);
        }
        if dropped > Bytes::ZERO && !key {
            self.abandon_unsent(now);
            self.on_chain_broken(now, "queue overflow");
        }
        if !key && self.recovery.is_receiver_waiting() && self.ceiling().is_some() {
            // It was being encoded when the key frame was requested, and would only fill the path ahead of it.
            self.abandon_unsent(now);
        }
        let encode = header.encoded_at.saturating_since(header.converted_at);
        self.controller.on_frame_sent(now, &SentFrame { frame: id, size, key, encode });
        self.emit(now, || Event::FrameSent { frame: id, bytes: size.get(), key, reference, symbols });
        self.settle(now);
        repairs
    }

    /// Adds the repairs that leave with the frame.
    fn protect(&mut self, now: Time, frame: &mut StoredFrame) {
        let path = self.path_facts();
        let Some(protection) = &mut self.protection else { return };
        let plan = protection.protect(now, frame, &mut self.frames, path);
        let id = frame.id;
        self.emit(now, || protection_event(id, &plan));
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        self.take_feedback(now, feedback, |(sent_at, arrived_at)| {
            let held = feedback.sent_at - arrived_at;
            // A negative hold, or one longer than the whole round trip, is false or due to a clock that was set.
            let round_trip = (now - sent_at) - held;
            (held >= Span::ZERO && round_trip >= Span::ZERO).then_some(round_trip)
        });
    }

    /// Processes feedback. `round_trip` computes a sample from when the newest packet was sent and when it arrived.
    fn take_feedback(
        &mut self,
        now: Time,
        feedback: &Feedback,
        round_trip: impl FnOnce((Time, RemoteTime)) -> Option<Span>,
    ) {
        let matched = self.packets.on_feedback(feedback);
        // The delay that a lost segment caused by holding back others is not the path's.
        let order = self.tcp.as_mut().map_or(Span::ZERO, |tcp| tcp.head_of_line.correct(matched.reports));
        let round_trip = matched.newest_arrival.and_then(round_trip).map(|sample| (sample - order).max(Span::ZERO));
        let new_pace = self.headroom.as_mut().is_some_and(|headroom| update_headroom(headroom, matched.reports));
        self.controller.on_sender_queue(now, self.pacer.queued());
        let news = !matched.reports.is_empty();
        if news {
            self.restraint.on_feedback(now, matched.reports);
            self.controller.on_feedback(now, &RateFeedback { packets: matched.reports, round_trip });
        } else if matched.outdated {
            self.controller.on_outdated_feedback(now);
        }
        if let Some(sample) = round_trip {
            let smoothed = smoothed(self.round_trip, sample);
            self.round_trip = Some(smoothed);
            self.restraint.on_round_trip(sample);
            if let Some(protection) = &mut self.protection {
                protection.on_round_trip(sample, smoothed);
            }
        }
        if let Some(protection) = &mut self.protection {
            protection.on_feedback(&mut self.packets);
        }
        if new_pace {
            self.set_pace(now);
        }
        if news {
            self.window.on_feedback(now, self.packets.newest_covered());
        }
        self.take_decision(now);
    }

    fn emit(&mut self, now: Time, event: impl FnOnce() -> Event) {
        if !self.config.events {
            return;
        }
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((now, event()));
    }

    /// The path's losses as seen by redundancy. None without a policy.
    #[cfg(test)]
    pub(crate) fn losses(&self) -> Option<nearlight_fec::LossSummary> {
        self.protection.as_ref().map(|protection| protection.losses())
    }

    /// Whether packets wait although [`Sender::poll_timeout`] is None.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn waits_forever(&mut self) -> bool {
        let waits = self.frames.first_unsent().is_some() || !self.retransmissions.is_empty();
        waits && self.poll_timeout().is_none()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize, usize, usize) {
        let (frames, bytes) = self.frames.held();
        (frames, bytes, self.packets.held(), self.retransmissions.len())
    }
}

/// Updates the headroom from the media's packets. Returns whether it has changed.
fn update_headroom(headroom: &mut Headroom, reports: &[PacketReport]) -> bool {
    let before = headroom.factor();
    for report in reports {
        if let Some(frame) = report.packet.frame.filter(|_| report.packet.probe.is_none()) {
            headroom.on_packet(frame, report.packet.sent_at, report.arrived_at);
        }
    }
    headroom.factor().to_bits() != before.to_bits()
}
