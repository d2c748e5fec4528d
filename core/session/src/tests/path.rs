//! A virtual path between a sender and a receiver, and a user who moves every 10 ms.

use std::collections::{BTreeSet, BinaryHeap};

use crate::pace::Mode;
use nearlight_fec::policy::new_policy;
use nearlight_rate::{Bounds, RateController, new_controller};
use nearlight_units::{Bitrate, FrameId, Span, Time};
use nearlight_wire::{Fov, FrameHeader, Pose, RecoveryPolicy, ToClient, View, marker::Marker};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    Algorithms, DisplayedFrame, Distortion, EncodedFrame, EncoderTarget, LossRecovery, Presence, Receiver,
    ReceiverConfig, ReceiverStatistics, Sender, SenderConfig, SenderStatistics,
};

/// The path's effect on datagrams, the same in both directions.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    pub(super) delay: Span,
    /// Datagrams to the client wait for this much more.
    pub(super) queue: Span,
    /// Each datagram is delayed by up to this much more: values above the spacing of packets cause reordering.
    pub(super) jitter: Span,
    pub(super) loss: f64,
    /// Mean length of a run of lost datagrams on the way to the client; 1 for independent losses.
    pub(super) burst: f64,
    pub(super) duplicates: f64,
    pub(super) outage: bool,
    /// The path is shared: datagrams arrive only at whole multiples of this; zero for a dedicated path.
    pub(super) turn: Span,
}

impl Conditions {
    pub(super) const CLEAN: Self = Self {
        delay: Span::from_millis(5),
        queue: Span::ZERO,
        jitter: Span::ZERO,
        loss: 0.0,
        burst: 1.0,
        duplicates: 0.0,
        outage: false,
        turn: Span::ZERO,
    };
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    // Reversed, for the heap returns its largest.
    arrives_at: std::cmp::Reverse<(Time, u64)>,
    to_client: bool,
    datagram: Vec<u8>,
}

pub(super) struct SimulatedSession {
    pub(super) now: Time,
    pub(super) conditions: Conditions,
    config: SenderConfig,
    policy: Option<String>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) displayed: Vec<DisplayedFrame>,
    pub(super) frame_bytes: usize,
    /// Reported with each frame.
    pub(super) distortion: Distortion,
    random: Pcg64Mcg,
    in_burst: bool,
    in_flight: BinaryHeap<InFlight>,
    count: u64,
    next_frame_at: Time,
    next_input_at: Time,
    /// The server's clock is ahead of the client's by this.
    pub(super) clock_offset: Span,
    newest_input: Option<(nearlight_units::InputSeq, Time)>,
    /// The reference of each frame.
    references: Vec<Option<FrameId>>,
    decoded: BTreeSet<FrameId>,
    takes_damaged: bool,
    /// Frames among these that depend on a missing frame.
    damaged: BTreeSet<FrameId>,
    /// A datagram of each of these frames is lost whenever it is sent.
    pub(super) left_out: BTreeSet<FrameId>,
    decoding: Vec<(Time, FrameId, Marker, bool)>,
    /// The decoder takes this long for a frame, one at a time.
    pub(super) decode_time: Span,
}

const FRAME_INTERVAL: Span = Span::from_millis(33);
const DECODE: Span = Span::from_millis(2);

impl SimulatedSession {
    pub(super) fn new(seed: u64) -> Self {
        Self::paced(seed, Mode::Burst)
    }

    pub(super) fn paced(seed: u64, pacing: Mode) -> Self {
        Self::configured(seed, SenderConfig { pacing, ..SenderConfig::default() })
    }

    pub(super) fn configured(seed: u64, config: SenderConfig) -> Self {
        let config = SenderConfig { max_datagram: 1_200, frame_interval: FRAME_INTERVAL, events: true, ..config };
        let start = Time::from_secs(5);
        Self {
            now: start,
            conditions: Conditions::CLEAN,
            sender: Sender::new(start, config, controller()),
            config,
            receiver: Receiver::new(ReceiverConfig { events: true }),
            displayed: Vec::new(),
            frame_bytes: 30_000,
            distortion: Distortion::UNKNOWN,
            random: Pcg64Mcg::seed_from_u64(seed),
            policy: None,
            in_burst: false,
            in_flight: BinaryHeap::new(),
            count: 0,
            next_frame_at: start,
            next_input_at: start,
            clock_offset: Span::from_secs(1_000),
            newest_input: None,
            references: Vec::new(),
            decoded: BTreeSet::new(),
            takes_damaged: false,
            damaged: BTreeSet::new(),
            left_out: BTreeSet::new(),
            decoding: Vec::new(),
            decode_time: DECODE,
        }
    }

    pub(super) fn with(mut self, conditions: Conditions) -> Self {
        self.conditions = conditions;
        self
    }

    /// The sender protects its frames.
    pub(super) fn protected(mut self, policy: &str) -> Self {
        self.policy = Some(policy.to_owned());
        self.begin_anew()
    }

    /// The encoder predicts from acknowledged frames on request.
    pub(super) fn referring(mut self) -> Self {
        self.config.references = true;
        self.receiver.frames().set_loss_recovery(LossRecovery::References);
        self.begin_anew()
    }

    /// Both ends handle losses according to a policy; the encoder keeps references.
    pub(super) fn recovering(mut self, policy: RecoveryPolicy) -> Self {
        self.config = self.config.recovering(policy, true);
        self.receiver.frames().set_loss_recovery(policy.into());
        self.takes_damaged = matches!(policy, RecoveryPolicy::OpenUvr { .. });
        self.begin_anew()
    }

    /// Creates a sender for the configuration so far, before the first frame.
    fn begin_anew(mut self) -> Self {
        let controller = controller();
        let algorithms = match &self.policy {
            Some(policy) => protected(controller, policy),
            None => controller.into(),
        };
        self.sender = Sender::new(self.now, self.config, algorithms);
        self
    }

    /// No frame is generated for this long.
    pub(super) fn pause_server(&mut self, span: Span) {
        self.next_frame_at = self.next_frame_at.max(self.now + span);
    }

    fn server_now(&self) -> Time {
        self.now + self.clock_offset
    }

    /// Nothing passes for `length`, then everything for two seconds; returns how long after the path's recovery a picture is displayed.
    pub(super) fn outage(&mut self, length: Span) -> Span {
        self.conditions.outage = true;
        self.run(length);
        self.conditions.outage = false;
        let back = self.now;
        self.run(Span::from_secs(2));
        let first = self.displayed.iter().map(|displayed| displayed.timeline.displayed_at()).find(|at| *at > back);
        first.expect("the picture is back") - back
    }

    /// Lets `span` pass.
    pub(super) fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.step();
            let wakes = [
                self.next_frame_at,
                self.next_input_at,
                self.sender.poll_timeout().map_or(end, |(at, _)| at - self.clock_offset),
                self.receiver.poll_timeout().map_or(end, |(at, _)| at),
                self.in_flight.peek().map_or(end, |packet| packet.arrives_at.0.0),
                self.decoding.first().map_or(end, |(at, ..)| *at),
            ];
            let next = wakes.into_iter().min().unwrap_or(end);
            // A timer that is due already must not stop the clock.
            self.now = next.max(self.now + Span::from_micros(10)).min(end);
        }
    }

    fn step(&mut self) {
        while self.in_flight.peek().is_some_and(|packet| packet.arrives_at.0.0 <= self.now) {
            let Some(packet) = self.in_flight.pop() else { break };
            if packet.to_client {
                self.receiver.on_datagram(self.now, &packet.datagram);
            } else {
                self.sender.on_datagram(self.server_now(), &packet.datagram);
            }
        }
        if self.now >= self.next_input_at {
            self.next_input_at = self.now + Span::from_millis(10);
            self.receiver.uplink().on_presence(self.now, presence());
        }
        if self.now >= self.next_frame_at {
            self.next_frame_at += FRAME_INTERVAL;
            self.encode();
        }
        self.decode();
        self.sender.on_timeout(self.server_now());
        while let Some(datagram) = self.sender.poll_transmit(self.server_now()) {
            self.put(&datagram, true);
        }
        self.receiver.on_timeout(self.now);
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            self.put(&datagram, false);
        }
    }

    fn encode(&mut self) {
        let now = self.server_now();
        if let Some(input) = self.sender.poll_input(now) {
            self.newest_input = Some((input.sample.seq, input.received_at));
        }
        if let Some(reason) = self.sender.target().refusal {
            self.sender.on_skipped(now, reason);
            return;
        }
        let (input, input_received_at) = self.newest_input.unwrap_or((nearlight_units::InputSeq(0), now));
        let id = self.sender.target().encoder.next;
        let EncoderTarget { key, recover, acknowledged, .. } = self.sender.target().encoder;
        let before = id.0.checked_sub(1).map(FrameId);
        let reference = if recover { acknowledged } else { before }.filter(|_| !key);
        self.references.push(reference);
        let header = FrameHeader { input, input_received_at, ..frame_header(now) };
        let bits = vec![id.0 as u8; if key { self.frame_bytes * 4 } else { self.frame_bytes }];
        let frame =
            EncodedFrame { id, reference, header, bits: bits.into(), distortion: self.distortion, group_index: None };
        self.sender.on_frame(now, frame);
    }

    fn decode(&mut self) {
        while let Some(frame) = self.receiver.frames().poll(self.now) {
            assert!(frame.bits().iter().all(|byte| *byte == frame.id.0 as u8), "frame {} is damaged", frame.id);
            let reference = self.references[frame.id.0 as usize];
            let decodable = reference.is_none_or(|reference| self.decoded.contains(&reference));
            let damaged = !decodable || reference.is_some_and(|reference| self.damaged.contains(&reference));
            assert_eq!(frame.damaged, damaged, "frame {} refers to {reference:?}", frame.id);
            assert!(!damaged || self.takes_damaged, "frame {} refers to what the decoder has not had", frame.id);
            self.damaged.extend(damaged.then_some(frame.id));
            assert!(self.decoded.last().is_none_or(|last| *last < frame.id), "frame {} comes too late", frame.id);
            self.decoded.insert(frame.id);
            let marker = Marker { frame: frame.id, input: frame.header.input };
            let free_at = self.decoding.last().map_or(self.now, |(at, ..)| *at);
            self.decoding.push((free_at + self.decode_time, frame.id, marker, frame.show));
        }
        while self.decoding.first().is_some_and(|(at, ..)| *at <= self.now) {
            let (_, id, marker, show) = self.decoding.remove(0);
            self.receiver.frames().on_decoded(self.now, id);
            if show {
                self.displayed.extend(self.receiver.frames().on_displayed(self.now, id, Some(marker)));
            }
        }
    }

    fn put(&mut self, datagram: &[u8], to_client: bool) {
        assert!(datagram.len() <= 1_200);
        let copies = if self.random.random_bool(self.conditions.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            if self.conditions.outage || self.loses(to_client) || self.leaves_out(datagram) {
                continue;
            }
            let jitter = self.conditions.jitter.mul_f64(self.random.random::<f64>());
            self.count += 1;
            let queue = if to_client { self.conditions.queue } else { Span::ZERO };
            let arrival = (self.now + self.conditions.delay + queue + jitter).as_nanos();
            let turn = self.conditions.turn.as_nanos().max(1) as u64;
            let arrives_at = std::cmp::Reverse((Time::from_nanos(arrival.next_multiple_of(turn)), self.count));
            self.in_flight.push(InFlight { arrives_at, to_client, datagram: datagram.to_vec() });
        }
    }

    fn leaves_out(&self, datagram: &[u8]) -> bool {
        let is_left_out = |frame| self.left_out.contains(&frame);
        matches!(ToClient::parse(datagram), Ok(ToClient::Symbol(header, _)) if header.index == 1 && is_left_out(header.frame))
    }

    fn loses(&mut self, to_client: bool) -> bool {
        let Conditions { loss, burst, .. } = self.conditions;
        if !to_client || burst <= 1.0 {
            return self.random.random_bool(loss);
        }
        let begins = loss / burst / (1.0 - loss);
        let change = if self.in_burst { 1.0 / burst } else { begins };
        self.in_burst ^= self.random.random_bool(change);
        self.in_burst
    }

    pub(super) fn received(&self) -> ReceiverStatistics {
        self.receiver.statistics(self.now)
    }

    pub(super) fn sent(&self) -> SenderStatistics {
        self.sender.statistics(self.server_now())
    }
}

/// 20 Mb/s, whatever the feedback.
fn controller() -> Box<dyn RateController> {
    let rate = Bitrate::from_mbps(20);
    new_controller("fixed", Bounds { minimum: rate, start: rate, maximum: rate }).expect("a preset")
}

/// The controller with a redundancy policy.
pub(super) fn protected(controller: Box<dyn RateController>, policy: &str) -> Algorithms {
    Algorithms { controller, redundancy: Some(new_policy(policy).expect("a policy")) }
}

pub(super) fn presence() -> Presence {
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) };
    Presence::of_views(Pose::default(), vec![view])
}

/// The header of a frame that was rendered at `now`.
pub(crate) fn frame_header(now: Time) -> FrameHeader {
    FrameHeader {
        width: 64,
        height: 64,
        input: nearlight_units::InputSeq(0),
        input_received_at: now,
        render_started_at: now,
        rendered_at: now,
        converted_at: now,
        encoded_at: now,
        display_at: now + Span::from_millis(50),
        deadline: now + Span::from_millis(100),
        views: presence().views,
    }
}
