//! The server's end: frames in, paced symbols out, repairs on request, and what the encoder should do next.

use std::borrow::Cow;
use std::collections::VecDeque;

use nearlight_events::{Candidate, Event};
use nearlight_fec::LossSummary;
use nearlight_fec::policy::RedundancyPolicy;
use nearlight_pace::{Headroom, Mode, Pacer};
use nearlight_rate::{Decision, Feedback as RateFeedback, PacketReport, ProbeId, RateController};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, FrameHeader, FrameReport, Pong, SYMBOL_HEADER_BYTES, ToServer};

use crate::capture::CaptureTiming;
use crate::capture_schedule::SkipReason;
use crate::decoder_load::DecoderLoad;
use crate::history::{FrameHistory, KeptFrame, PacketHistory};
use crate::inbox::{Inbox, ReceivedInput};
use crate::protection::{PathFacts, Protection, protection_event};
use crate::recent::RecentRate;
use crate::share::RedundantShare;
use crate::spares::Spares;
use crate::window::WindowGate;
use crate::{Wake, earliest};

mod departures;
mod display;
mod packets;
mod recovery;
mod repair;
mod restraint;
mod sound;

pub use display::UNKNOWN_TO_DISPLAY;
use packets::Elsewhere;
pub use packets::{Cut, Departure};
use recovery::Recovery;
use repair::Repairs;
use restraint::Restraint;
use sound::SoundOut;

/// A transport that carries less than this is broken: half of what IPv6 guarantees, so that headers stay below a tenth.
const MIN_DATAGRAM: usize = 640;
/// Before the first feedback. Guess: a slow mobile path.
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(100);
/// A frame is left out when what is queued takes longer than this many frame intervals to leave: it would only wait.
/// Guess: one frame that is leaving, and half of one behind it.
const MAX_QUEUE_INTERVALS: f64 = 1.5;
/// Answers to pings that wait: a client that pings faster than the driver drains gets no answer to the rest.
const MAX_PONGS: usize = 16;
/// Events that nobody fetches are dropped, oldest first.
const MAX_EVENTS: usize = 256;

/// Datagrams that came back from the driver: more than leave at once.
pub(crate) type Datagrams = Spares<64>;

/// What a session is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Largest datagram that the transport takes, in bytes: at least 640.
    pub max_datagram: usize,
    pub pacing: Mode,
    pub frame_interval: Span,
    /// Emit events for `poll_event`; without it they are not even made.
    pub events: bool,
    /// Frames and what is added to them, symbols sent again included, together take no more: the encoder gets what is left. Without it a
    /// controller that takes redundancy off its target itself is trusted with that, and what is sent again comes on top.
    pub maximum: Option<Bitrate>,
    /// Frames from one key frame to the next, 0 where none is scheduled: some redundancy policies plan by it.
    pub group: u32,
    /// Frames leave even where nothing has been heard for long of those before them, as senders do that know no more than their rate.
    pub unrestrained: bool,
}

/// What most tests and simulations want: datagrams of 1,200 bytes, 30 frames a second, nothing scheduled.
impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            max_datagram: 1_200,
            pacing: Mode::Compressed,
            frame_interval: Span::from_secs(1) / 30,
            events: false,
            maximum: None,
            group: 0,
            unrestrained: false,
        }
    }
}

/// A frame from the encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedFrame<'a> {
    /// One more than the frame before it.
    pub id: FrameId,
    /// The frame that it is predicted from, at most 255 frames before it; none for a key frame.
    pub reference: Option<FrameId>,
    pub header: FrameHeader,
    pub bits: Cow<'a, [u8]>,
    pub distortion: Distortion,
}

/// Mean squared errors of a picture's 8-bit luma, in squared levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distortion {
    /// Of the coded picture.
    pub coded: Option<f64>,
    /// Of showing the picture before in its place.
    pub frozen: Option<f64>,
}

impl Distortion {
    pub const UNKNOWN: Self = Self { coded: None, frozen: None };
}

/// How the next frame should be coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderTarget {
    pub rate: Bitrate,
    /// A key frame.
    pub key: bool,
    /// Predicted from a frame that the receiver has acknowledged. It stays until such a frame comes.
    pub recover: bool,
    /// Newest frame that the receiver is known to have decoded, with all that it was predicted from.
    pub acknowledged: Option<FrameId>,
    /// The first frame that the sender had not been given yet: that one or a later one meets this target.
    pub next: FrameId,
}

/// What was sent so far.
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
    /// Symbols that were sent again.
    pub repairs: u64,
    /// Repairs that stand in for any symbol, planned and on demand.
    pub coded_repairs: u64,
    /// Datagrams of both kinds.
    pub redundant: Bytes,
    /// Requests for symbols that had left the history or came too often.
    pub repairs_refused: u64,
    pub probe_packets: u64,
    /// Datagrams of sound, and their bytes, which are not media's.
    pub sound_packets: u64,
    pub sound: Bytes,
    /// Datagrams that no parser accepts.
    pub malformed: u64,
    pub sent: Bytes,
    /// Over the last second.
    pub sent_rate: Bitrate,
    pub round_trip: Option<Span>,
}

/// Cuts, paces, repairs and decides when a key frame is needed; joins rate controller and pacer.
pub struct Sender {
    config: SenderConfig,
    controller: Box<dyn RateController>,
    pacer: Pacer,
    /// Only where the pacing follows it.
    headroom: Option<Headroom>,
    decoder_load: DecoderLoad,
    timing: CaptureTiming,
    frames: FrameHistory,
    packets: PacketHistory,
    inbox: Inbox,
    pongs: VecDeque<Pong>,
    repairs: Repairs,
    /// None: nothing is added to the frames.
    protection: Option<Box<Protection>>,
    redundant: RedundantShare,
    probe: Option<ProbeId>,
    decision: Decision,
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
    elsewhere: Elsewhere,
    outcomes: VecDeque<FrameReport>,
    spares: Datagrams,
    statistics: SenderStatistics,
}

impl Sender {
    #[must_use]
    pub fn new(now: Time, config: SenderConfig, controller: Box<dyn RateController>) -> Self {
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
            packets: PacketHistory::default(),
            inbox: Inbox::default(),
            pongs: VecDeque::new(),
            repairs: Repairs::new(now, decision.target),
            protection: None,
            redundant: RedundantShare::default(),
            probe: None,
            decision,
            events: VecDeque::new(),
            next_seq: PacketSeq(0),
            next_frame: FrameId(0),
            recovery: Recovery::new(),
            round_trip: None,
            window: WindowGate::new(now),
            restraint: Restraint::new(config.unrestrained),
            recent: RecentRate::default(),
            render_to_display: None,
            sound: SoundOut::default(),
            elsewhere: Elsewhere::default(),
            outcomes: VecDeque::new(),
            spares: Datagrams::default(),
            statistics: SenderStatistics::default(),
        };
        sender.log_decision(now);
        sender
    }

    /// Protects the frames as `policy` plans it; call it before the first frame. With the policy `none` nothing changes.
    #[must_use]
    pub fn with_fec(mut self, policy: Box<dyn RedundancyPolicy>) -> Self {
        let group = self.config.group;
        self.protection = (policy.reach() > 0).then(|| Box::new(Protection::new(policy, group)));
        self
    }

    /// How good the encoder's pictures are prices what redundancy takes from it.
    fn on_distortion(&mut self, distortion: Distortion) {
        if let Some(protection) = &mut self.protection {
            protection.on_distortion(self.decision.target, distortion);
        }
    }

    /// The redundancy policy's name; `none` without one.
    #[must_use]
    pub fn fec_name(&self) -> String {
        self.protection.as_ref().map_or_else(|| "none".to_owned(), |protection| protection.name())
    }

    /// What the path loses, as far as redundancy is concerned; none without a policy.
    #[must_use]
    pub fn losses(&self) -> Option<LossSummary> {
        self.protection.as_ref().map(|protection| protection.losses())
    }

    /// A datagram came. What does not parse is counted and dropped.
    pub fn on_datagram(&mut self, now: Time, datagram: &[u8]) {
        match ToServer::parse(datagram) {
            Ok(ToServer::Input(sample)) => {
                let sampled_at = sample.sampled_at;
                if self.inbox.on_sample(now, sample) {
                    self.timing.on_input(now, sampled_at);
                }
            }
            Ok(ToServer::Feedback(feedback)) => self.on_feedback(now, &feedback),
            Ok(ToServer::Nack(nack)) => self.on_nack(now, &nack),
            Ok(ToServer::KeyFrameRequest(request)) => self.on_key_frame_request(now, request),
            Ok(ToServer::Acknowledgement(acknowledgement)) => self.on_acknowledgement(acknowledgement),
            Ok(ToServer::Report(report)) => self.on_report(now, &report),
            Ok(ToServer::Ping(ping)) => {
                if self.pongs.len() < MAX_PONGS {
                    let client_sent_at = ping.client_sent_at;
                    self.pongs.push_back(Pong { client_sent_at, server_received_at: now, server_sent_at: now });
                }
            }
            Err(error) => {
                self.statistics.malformed += 1;
                self.emit(now, || Event::MalformedDatagram { reason: error.to_string() });
            }
        }
    }

    /// The user's newest movements and actions, if any came since the last call.
    pub fn poll_input(&mut self) -> Option<ReceivedInput> {
        self.inbox.poll()
    }

    /// The id that the next frame must have.
    #[must_use]
    pub const fn next_frame(&self) -> FrameId {
        self.next_frame
    }

    /// Why a frame rendered now should be left out: it would only wait in the pacer's queue, on the path, or in the decoder's queue.
    #[must_use]
    pub fn refusal(&self) -> Option<SkipReason> {
        let queued = self.decision.pacing.time_to_send(self.pacer.queued());
        if queued > self.config.frame_interval.mul_f64(MAX_QUEUE_INTERVALS) {
            return Some(SkipReason::PacerQueue);
        }
        if self.restraint.until().is_some() {
            return Some(SkipReason::PathBlocked);
        }
        self.decoder_load.is_behind().then_some(SkipReason::DecoderBehind)
    }

    /// The driver left out a frame before it was encoded.
    pub fn on_skipped(&mut self, now: Time, reason: SkipReason) {
        self.decoder_load.on_skipped();
        self.statistics.skipped += 1;
        self.emit(now, || Event::FrameSkipped { reason: reason.name() });
    }

    /// How to encode the next frame. A key frame is asked for until one comes.
    #[must_use]
    pub fn encoder_target(&self) -> EncoderTarget {
        // The target counts datagrams, the encoder only their payload.
        let payload = self.payload() as f64 / (self.payload() + SYMBOL_HEADER_BYTES) as f64;
        // Some controllers have taken redundancy off their target themselves.
        let reckoned = self.decision.redundancy.is_some();
        let share = self.redundant.get();
        let left = |rate: Bitrate| self.sound.beside(rate).mul_f64(1.0 - share);
        let target = self.decision.target;
        let media = if self.protection.is_some() && !reckoned { left(target) } else { self.sound.beside(target) };
        let rate = self.config.maximum.map_or(media, |maximum| media.min(left(maximum))).mul_f64(payload);
        let Recovery { key_wanted, reference_wanted, .. } = self.recovery;
        let rate = if self.recovery.is_receiver_waiting() {
            self.restraint.key_frame_rate(rate, self.config.frame_interval)
        } else {
            rate
        };
        let acknowledged = self.recovery.within_reach(self.next_frame);
        let recover = reference_wanted && acknowledged.is_some();
        EncoderTarget {
            rate,
            key: key_wanted.is_some() || (reference_wanted && !recover),
            recover,
            acknowledged,
            next: self.next_frame,
        }
    }

    /// A frame was encoded: it is cut and queued.
    pub fn on_frame(&mut self, now: Time, frame: EncodedFrame<'_>) {
        let EncodedFrame { id, reference, header, bits, distortion } = frame;
        self.on_distortion(distortion);
        let mut bytes = self.frames.spare(bits.len() + nearlight_wire::MAX_FRAME_HEADER_BYTES);
        header.write(&mut bytes);
        bytes.extend_from_slice(&bits);
        let kept = KeptFrame::new(id, reference, bytes, self.payload(), header.deadline);
        self.queue(now, kept, &header);
    }

    /// The next datagram to send; call until none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let pong = self.poll_pong(now).or_else(|| self.poll_sound(now));
        pong.or_else(|| self.poll_departure(now).map(|departure| departure.bytes))
    }

    /// A datagram of this sender's that is of no more use: the next one is written where it was.
    pub fn take_back(&mut self, datagram: Vec<u8>) {
        self.spares.give(datagram);
    }

    /// The answer to a ping.
    pub fn poll_pong(&mut self, now: Time) -> Option<Vec<u8>> {
        let pong = self.pongs.pop_front()?;
        Some(Pong { server_sent_at: now, ..pong }.to_bytes())
    }

    /// When to call [`Sender::poll_transmit`] next even if nothing happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        let window = self.decision.window;
        earliest([
            self.pacer
                .poll_timeout()
                .map(|at| (self.window.closed_until(window).map_or(at, |open| at.max(open)), Wake::Pace)),
            self.controller.poll_timeout().map(|(at, _)| (at, Wake::Rate)),
            self.recovery.key_due().map(|at| (at, Wake::KeyFrame)),
            self.restraint.until().map(|at| (at, Wake::Pace)),
        ])
    }

    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.pop_front()
    }

    /// The rates in force and what argued for others.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The transport's largest datagram has changed, in bytes: frames from now on are cut to it.
    pub fn set_max_datagram(&mut self, bytes: usize) {
        self.config.max_datagram = bytes.max(MIN_DATAGRAM);
    }

    #[must_use]
    pub fn controller_name(&self) -> &'static str {
        self.controller.name()
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

    /// Bytes of a symbol at most: its repairs must fit as well.
    fn payload(&self) -> usize {
        let repair = self.protection.as_ref().map_or(0, |protection| protection.header_bytes());
        self.config.max_datagram.saturating_sub(SYMBOL_HEADER_BYTES.max(repair))
    }

    fn path_facts(&self) -> PathFacts {
        PathFacts {
            round_trip: self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP),
            interval: self.config.frame_interval,
            rate: self.decision.target,
            pacing: self.decision.pacing,
            queue: self.decision.pacing.time_to_send(self.pacer.queued()),
        }
    }

    /// Adds the repairs that leave with the frame.
    fn protect(&mut self, now: Time, frame: &mut KeptFrame) {
        let path = self.path_facts();
        let Some(protection) = &mut self.protection else { return };
        let plan = protection.protect(now, frame, &mut self.frames, path);
        let id = frame.id;
        self.emit(now, || protection_event(id, &plan));
    }

    fn run_controller(&mut self, now: Time) {
        self.want_due_key(now);
        self.restraint.update(now, self.packets.oldest_untold());
        if self.controller.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.controller.on_timeout(now);
            self.take_decision(now);
        }
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

    fn take_decision(&mut self, now: Time) {
        let decision = self.controller.decision();
        if decision == self.decision {
            return;
        }
        let news = decision.target != self.decision.target || decision.binding != self.decision.binding;
        self.decision = decision;
        self.set_pace(now);
        if news {
            self.log_decision(now);
        }
    }

    fn set_pace(&mut self, now: Time) {
        let factor = self.headroom.as_ref().map_or(1.0, Headroom::factor);
        self.pacer.set_rate(now, self.decision.pacing.mul_f64(factor));
    }

    fn log_decision(&mut self, now: Time) {
        let Decision { target, pacing, binding, ref limits, .. } = self.decision;
        let candidates = limits.iter().map(|(limit, rate)| Candidate { limit: limit.name(), rate: *rate }).collect();
        self.emit(now, || Event::RateDecision { target, pacing, binding: binding.name(), candidates });
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        self.take_feedback(now, feedback, |(sent_at, arrived_at)| {
            let held = feedback.sent_at - arrived_at;
            // A hold that is negative or longer than the whole round trip is a lie or a clock that was set.
            let round_trip = (now - sent_at) - held;
            (held >= Span::ZERO && round_trip >= Span::ZERO).then_some(round_trip)
        });
    }

    /// `round_trip` makes a sample of when the newest packet was sent and when it arrived, the latter on the client's clock.
    fn take_feedback(&mut self, now: Time, feedback: &Feedback, round_trip: impl FnOnce((Time, Time)) -> Option<Span>) {
        let matched = self.packets.on_feedback(feedback);
        let round_trip = matched.newest_arrival.and_then(round_trip);
        let new_pace = self.headroom.as_mut().is_some_and(|headroom| learn(headroom, matched.reports));
        self.controller.on_sender_queue(now, self.pacer.queued());
        let news = !matched.reports.is_empty();
        if news {
            self.restraint.on_feedback(now, matched.reports);
            self.controller.on_feedback(now, &RateFeedback { packets: matched.reports, round_trip });
        } else if matched.outdated {
            self.controller.on_outdated_feedback(now);
        }
        if let Some(sample) = round_trip {
            // RFC 6298's smoothing.
            let smoothed = self.round_trip.map_or(sample, |smoothed| smoothed + (sample - smoothed) / 8);
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

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize, usize, usize) {
        let (frames, bytes) = self.frames.held();
        (frames, bytes, self.packets.held(), self.repairs.len())
    }
}

/// Follows the media's packets; true where the headroom has changed.
fn learn(headroom: &mut Headroom, reports: &[PacketReport]) -> bool {
    let before = headroom.factor();
    for report in reports {
        if let Some(frame) = report.packet.frame.filter(|_| report.packet.probe.is_none()) {
            headroom.on_packet(frame, report.packet.sent_at, report.arrived_at);
        }
    }
    headroom.factor().to_bits() != before.to_bits()
}
