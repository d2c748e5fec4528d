//! What is known of the path, whatever the mode: the measurements that all modes share.

use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, RemoteTime, Span, Time, smoothed_to_nearest};

use super::Mechanism;
use super::capacity::{Capacity, FrameEnd};
use super::feedback_clock::FeedbackClock;
use super::frame_queue::FrameQueue;
use super::overload::Overload;
use super::parameters::Parameters;
use super::policer::Policer;
use crate::base_delay::BaseDelay;
use crate::{Bounds, Feedback, PacketReport, SentFrame, SentPacket};

/// The shared measurements, and the limits that the user sets.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) parameters: Parameters,
    pub(super) bounds: Bounds,
    /// The mechanism that an ablation leaves out.
    pub(super) without: Option<Mechanism>,
    /// The bottleneck's capacity.
    pub(super) capacity: Capacity,
    /// The queue that frames meet, and whose it is.
    pub(super) queue: FrameQueue,
    /// Which feedback is due.
    pub(super) feedback: FeedbackClock,
    /// Smoothed (RFC 6298).
    pub(super) round_trip: Option<Span>,
    /// The target while the bottleneck was last ours alone, for a fair start beside loss-based competitors.
    pub(super) solo_target: Bitrate,
    /// Smoothed (RFC 6298); the usual one before two frames have been sent.
    pub(super) frame_interval: Span,
    newest_frame: Option<(Time, Bytes)>,
    base_delay: BaseDelay,
    overload: Overload,
    pub(super) policer: Policer,
}

/// What the arrival of a frame's first packet says of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameArrival {
    /// The packet met a queue above the noise.
    pub(super) met_queue: bool,
    /// The frame's first packet.
    pub(super) packet: PacketSeq,
    /// The shortest queue that a packet of the frame before has met.
    pub(super) previous_min_queue: Span,
    /// The standing queue before this frame.
    pub(super) standing_queue: Span,
    /// A queue has just built up: the delivery rate meanwhile, in bit/s.
    pub(super) overload: Option<f64>,
}

impl Path {
    pub(super) fn new(bounds: Bounds, parameters: Parameters) -> Self {
        Self {
            parameters,
            bounds,
            without: None,
            capacity: Capacity::default(),
            queue: FrameQueue::default(),
            feedback: FeedbackClock::new(&parameters),
            round_trip: None,
            solo_target: bounds.start,
            frame_interval: parameters.initial_frame_interval,
            newest_frame: None,
            base_delay: BaseDelay::new(parameters.memory),
            overload: Overload::default(),
            policer: Policer::default(),
        }
    }

    pub(super) fn has(&self, mechanism: Mechanism) -> bool {
        self.without != Some(mechanism)
    }

    pub(super) fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.feedback.on_packet_sent(packet);
    }

    pub(super) fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        if let Some((before, _)) = self.newest_frame.replace((now, frame.size)) {
            // After a longer pause nothing is known.
            let longest = self.parameters.control_interval;
            let interval = now.saturating_since(before).clamp(self.parameters.min_frame_interval, longest);
            self.frame_interval = smoothed_to_nearest(self.frame_interval, interval);
        }
    }

    /// Handles what a feedback message says as a whole. Returns the bytes that it acknowledges.
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) -> Bytes {
        if let Some(sample) = feedback.round_trip {
            self.round_trip = Some(smoothed_to_nearest(self.round_trip, sample.max(Span::from_nanos(1))));
        }
        self.feedback.on_feedback(now, feedback, &self.parameters)
    }

    /// Handles the arrival of a frame's first packet, before [`Path::begin_frame`].
    pub(super) fn on_frame(&mut self, now: Time, report: &PacketReport, arrived_at: RemoteTime) -> FrameArrival {
        let (packet, parameters) = (&report.packet, &self.parameters);
        let service = |rate: f64| Span::from_secs_f64(packet.size.get() as f64 * 8.0 / rate.max(1.0));
        let serialisation = service(self.capacity_or_start());
        // On a path that has slowed down the packet itself takes longer than when the base delay was found. That is not a queue.
        let slower = serialisation - self.capacity.peak().map_or(serialisation, service);
        let waited = self.base_delay.on_delay(now, arrived_at.ahead_of(packet.sent_at));
        let queue = (waited - slower.min(self.frame_interval / 2)).max(Span::ZERO);
        let serialisation = self.capacity.min_gap().map_or(serialisation, |gap| gap.max(serialisation));
        let (previous_min_queue, standing_queue) = (self.queue.min_of_frame(), self.queue.standing());
        self.queue.on_frame(arrived_at, self.capacity.newest_arrival(), queue, serialisation, parameters);
        let overload = self.overload.on_frame(now, arrived_at, queue, self.frame_interval, parameters);
        self.overload.on_arrival(packet.size);
        let met_queue = queue > parameters.queue_noise;
        self.policer.on_frame(now, packet.sent_at, met_queue, parameters);
        FrameArrival { met_queue, packet: packet.seq, previous_min_queue, standing_queue, overload }
    }

    /// Ends the frame before, which may be a sample of the capacity, and begins the frame of this packet.
    pub(super) fn begin_frame(&mut self, report: &PacketReport, arrival: (FrameId, RemoteTime), met_queue: bool) {
        let end = FrameEnd { met_queue, frame_interval: self.frame_interval, start: self.start_capacity() };
        self.capacity.on_frame(report, arrival, &end, &self.parameters);
    }

    /// Handles the arrival of any other packet.
    pub(super) fn on_later_packet(&mut self, now: Time, report: &PacketReport, arrived_at: RemoteTime) {
        self.overload.on_arrival(report.packet.size);
        self.queue.on_later_packet(self.base_delay.on_delay(now, arrived_at.ahead_of(report.packet.sent_at)));
    }

    /// In bit/s; before the first sample the capacity whose share is the start rate.
    pub(super) fn capacity_or_start(&self) -> f64 {
        self.capacity.estimate().unwrap_or_else(|| self.start_capacity())
    }

    /// The capacity, in bit/s, whose share is the start rate.
    pub(super) fn start_capacity(&self) -> f64 {
        self.bounds.start.as_bps() as f64 / self.parameters.target_share
    }

    /// The share of the capacity that the encoder may use.
    pub(super) fn capacity_share(&self) -> Bitrate {
        self.capacity.estimate().map_or(self.bounds.start, |capacity| self.share_of(capacity))
    }

    /// The target for a capacity in bit/s.
    pub(super) fn share_of(&self, capacity: f64) -> Bitrate {
        Bitrate::from_bps((capacity * self.parameters.target_share) as u64)
    }

    /// The highest rate of a mode that gives up rate to others, in bit/s: the share of the highest capacity seen lately.
    pub(super) fn peak_share(&self) -> f64 {
        self.capacity.peak().unwrap_or_else(|| self.start_capacity()) * self.parameters.target_share
    }

    /// The limit that the newest overload sets.
    pub(super) fn overload_limit(&self) -> Option<Bitrate> {
        self.limit(Mechanism::Overload, |at| self.overload.limit(at, &self.parameters))
    }

    /// The limit that a policer sets.
    pub(super) fn policer_limit(&self) -> Option<Bitrate> {
        self.limit(Mechanism::Policing, |at| self.policer.limit(at, &self.parameters))
    }

    /// A mechanism's limit, given in bit/s, when the newest frame was sent.
    fn limit(&self, mechanism: Mechanism, at: impl FnOnce(Time) -> Option<f64>) -> Option<Bitrate> {
        let (newest_frame_at, _) = self.newest_frame.filter(|_| self.has(mechanism))?;
        at(newest_frame_at).map(|limit| Bitrate::from_bps(limit as u64))
    }

    /// The queue that the next frame will meet: what the newest frame met, or what late feedback implies.
    pub(super) fn expected_queue(&self) -> Span {
        let met = (self.queue.newest() - self.parameters.queue_noise).max(Span::ZERO);
        met.max(self.feedback.overdue())
    }

    /// The share of the frame interval that a queue leaves free.
    pub(super) fn room_beside(&self, queue: Span) -> f64 {
        let taken = queue.as_secs_f64() / self.frame_interval.as_secs_f64();
        (1.0 - taken).clamp(self.parameters.min_room, 1.0)
    }

    /// The rate of the newest frame over its interval.
    pub(super) fn newest_frame_rate(&self) -> Bitrate {
        self.newest_frame.map_or(Bitrate::ZERO, |(_, size)| size.over(self.frame_interval))
    }

    /// The newest packet that was sent.
    pub(super) fn newest_sent(&self) -> PacketSeq {
        self.feedback.newest_sent()
    }
}
