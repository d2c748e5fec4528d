//! Decides whether a frame would only wait on the path. Packets that left long ago and are unreported are in a queue or lost, and more of
//! them would keep the queue full, so that whatever restores the picture is late as well. If the path carries less than the lowest rate,
//! fewer frames leave, because they cannot be smaller: as many as arrive soon. After a key frame that did not get through, the next one is
//! half the size, with nothing sent behind it. One that heavy losses would damage is halved at once and takes no longer than a part of a
//! queue at the rate at which packets arrive. Until it is displayed, nothing leaves faster than the path is known to carry, because a short
//! queue drops most of a burst. So one of them gets through, whatever the controller estimates.

use nearlight_rate::{ArrivingRate, PacketReport};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};

use super::overload::Overload;
use super::{Framing, SenderConfig};
use crate::packets::history::PacketHistory;

/// A packet may be unreported for this long beyond the shortest round trip before frames are skipped. As for silence and for
/// windows: half a second without feedback shows that the path is blocked.
const MAX_UNREPORTED_TIME: Span = Span::from_millis(500);
/// Without any feedback, a frame is still sent at this interval, to find out whether the path has recovered. Guess: two frames at 30 frames
/// a second.
const PROBE_INTERVAL: Span = Span::from_millis(66);
/// A draining queue produces feedback all the time. This long after the last feedback it is empty, and the feedback on its end was lost.
/// Guess: two probes.
const DRAIN_TIME: Span = Span::from_millis(132);
/// If the path carries less than the lowest rate, a frame is still sent at this interval. Guess: a picture that changes ten times a second
/// is not perceived as a stall.
const LOWEST_RATE_INTERVAL: Span = Span::from_millis(100);
/// A frame leaves earlier if it would arrive within this beyond the shortest round trip. Of 20, 30, 40, 50 and 60 ms, on paths of constant
/// 0.3, 0.5 and 0.8 Mb/s and one that changes, 40 ms has the most frames in time (100 ms).
const MAX_ARRIVAL_DELAY: Span = Span::from_millis(40);
/// When fewer frames leave, packets arrive with gaps. The path's rate is the maximum that arrived within this time. Of 0, 0.5, 1 and 2 s,
/// on these paths, 2 s has the most frames in time.
const ARRIVING_RATE_VALIDITY: Span = Span::from_secs(2);
/// The path carries less than that if a packet is not reported within this beyond the shortest round trip. Guess: half as long again as a
/// frame may take.
const MAX_REPORT_DELAY: Span = Span::from_millis(60);
/// Each sample raises the shortest round trip by one over this part of the difference, because the path may have become longer.
const MIN_ROUND_TRIP_GROWTH: i64 = 1_024;
/// Each shorter sample reduces the recent maximum by one over this part of the difference. Guess: forgotten after a dozen frames.
const MAX_ROUND_TRIP_DECAY: i64 = 16;

/// A key frame requested this soon after one that answered a request means that that one did not get through. Guess: ten round trips of a
/// typical path.
const MAX_REPEATED_REQUEST_TIME: Span = Span::from_secs(1);
/// Loss rate at which no key frame arrives complete, with the same effect. Guess: one packet in ten.
const HEAVY_LOSS: f64 = 0.1;
/// Weight of one packet in that rate. Guess: a few frames' memory.
const LOSS_WEIGHT: f64 = 1.0 / 64.0;
/// How often a key frame's size is halved at most. Guess: a sixteenth is still a picture.
const MAX_HALVINGS: i32 = 4;
/// How long such a key frame may take at the rate at which packets arrive. Guess: half of a full queue has drained when it leaves, a round
/// trip after the loss, and queues hold 100 ms.
const KEY_FRAME_TIME: Span = Span::from_millis(50);
/// If this share of all packets is lost, and those that arrive have waited for [`FULL_QUEUE_DELAY`], the queue is full and the arriving
/// rate is all that the path carries. If packets are lost by chance, the arriving rate says nothing about the path. Guess: chance rarely
/// causes that many losses.
const FULL_QUEUE_LOSS: f64 = 0.6;
/// Minimum queueing delay of a full queue. Guess: half of the shortest queue that a path has.
const FULL_QUEUE_DELAY: Span = Span::from_millis(5);
/// A ceiling under which a key frame did not get through falls by no more than this factor: most of the time nothing was on its way, which
/// says nothing about the path. As for the size of key frames.
const MIN_CEILING_FACTOR: f64 = 0.5;
/// The lowest ceiling: a lower one would hold packets back for longer than the path may be silent. Guess: a packet in a tenth of a second.
const MIN_CEILING: Bitrate = Bitrate::from_kbps(120);
/// After this many key frames in a row that did not get through under a ceiling, the next one leaves without a ceiling: chance loses them,
/// and the arriving rate then only follows the ceiling down. As for the size of key frames.
const MAX_FAILURES_UNDER_CEILING: i32 = MAX_HALVINGS;
/// The longest time that a key frame takes under a ceiling, because an encoder may exceed the requested size. As for a blocked path.
const MAX_KEY_FRAME_TIME: Span = MAX_UNREPORTED_TIME;
/// The window of the arriving rate. Guess: two round trips of a path with a full queue.
const ARRIVING_WINDOW: Span = Span::from_millis(200);
/// Frames after such a key frame wait until it is displayed, or for a round trip and this time, until the receiver may have repeated its
/// request. Guess: a frame at 30 frames a second and 20 ms.
const HOLD_MARGIN: Span = Span::from_millis(53);
/// On an overloaded path they wait for this many more round trips, in which its missing symbols are requested: other frames would fill the
/// queue ahead of those.
const RETRANSMISSION_ROUND_TRIPS: i64 = 2;
/// Packets wait in a queue if the newest round trip exceeds the shortest one by this. Guess: half of a short queue.
const MIN_QUEUE_DELAY: Span = Span::from_millis(10);

#[derive(Debug)]
pub(super) struct Restraint {
    /// The shortest round trip. None before the first feedback: frames do not wait for a receiver that reports no arrivals.
    shortest: Option<Span>,
    newest: Span,
    /// The recent maximum of the round trip: between two frames a short queue empties.
    longest: Span,
    frame_at: Time,
    heard_at: Time,
    /// Frames are skipped until this time.
    until: Option<Time>,
    /// When the newest key frame left that answered a request, unless it is known not to have got through.
    answered: Option<(FrameId, Time)>,
    /// How many such key frames in a row did not get through.
    failures: i32,
    /// The recent packet loss rate.
    loss: f64,
    arriving: ArrivingRate,
    /// The maximum rate at which packets may leave while such a key frame is on its way or awaited. None if the path's rate is unknown.
    ceiling: Option<Bitrate>,
    /// How many such key frames in a row did not get through under a ceiling.
    failures_under_ceiling: i32,
    held_until: Option<Time>,
    /// Whether the receiver may never report which frames it shows, like players of WHEP, so that it is unknown whether an answer got
    /// through.
    is_silent_on_display: bool,
    overload: Overload,
    interval: Span,
    /// The recent maximum rate at which packets arrived, and until when it is valid.
    carries: (Bitrate, Time),
    /// Whether frames leave unconditionally.
    off: bool,
}

impl Restraint {
    pub(super) fn new(config: &SenderConfig) -> Self {
        Self {
            shortest: None,
            newest: Span::ZERO,
            longest: Span::ZERO,
            frame_at: Time::ZERO,
            heard_at: Time::ZERO,
            until: None,
            answered: None,
            failures: 0,
            loss: 0.0,
            arriving: ArrivingRate::new(ARRIVING_WINDOW),
            ceiling: None,
            failures_under_ceiling: 0,
            held_until: None,
            is_silent_on_display: config.framing == Framing::Rtp,
            overload: Overload::default(),
            interval: config.frame_interval,
            carries: (Bitrate::ZERO, Time::ZERO),
            off: config.unrestrained,
        }
    }

    pub(super) fn on_round_trip(&mut self, sample: Span) {
        let longer = |shortest: Span| shortest + (sample - shortest) / MIN_ROUND_TRIP_GROWTH;
        self.shortest = Some(self.shortest.map_or(sample, |shortest| sample.min(longer(shortest))));
        self.newest = sample;
        self.longest = sample.max(self.longest - (self.longest - sample) / MAX_ROUND_TRIP_DECAY);
        // The path may carry less than when the key frame left.
        if let Some(((_, at), until)) = self.answered.zip(self.held_until) {
            self.held_until = Some(until.max(at + self.hold(sample)));
        }
    }

    /// How long frames wait after such a key frame.
    fn hold(&self, round_trip: Span) -> Span {
        let retransmission = if self.is_overloaded() { RETRANSMISSION_ROUND_TRIPS } else { 0 };
        round_trip * (1 + retransmission) + HOLD_MARGIN
    }

    /// Handles feedback with news: the path is not interrupted.
    pub(super) fn on_feedback(&mut self, now: Time, reports: &[PacketReport]) {
        self.heard_at = now;
        self.overload.on_feedback(reports);
        for report in reports {
            self.loss += (f64::from(u8::from(report.arrived_at.is_none())) - self.loss) * LOSS_WEIGHT;
            if let Some(arrived_at) = report.arrived_at {
                self.arriving.on_packet(arrived_at, report.packet.size);
            }
        }
    }

    pub(super) const fn on_frame(&mut self, now: Time) {
        self.frame_at = now;
    }

    /// Handles the receiver's request for a key frame when none that was sent since is on its way.
    pub(super) fn on_request(&mut self, now: Time) {
        // Frames held back for the previous key frame would only delay the next one.
        self.held_until = None;
        let answered = self.answered.take().filter(|_| !self.off);
        if let Some((_, at)) = answered {
            self.failures =
                if now - at < MAX_REPEATED_REQUEST_TIME { (self.failures + 1).min(MAX_HALVINGS) } else { 0 };
        }
        if self.loss > HEAVY_LOSS && !self.off {
            self.failures = self.failures.max(1);
        }
        if self.failures == 0 {
            self.lift_ceiling();
        } else if answered.is_some() || self.ceiling.is_none() {
            self.lower_ceiling();
        }
    }

    /// Handles a key frame that did not get through.
    fn lower_ceiling(&mut self) {
        self.failures_under_ceiling += i32::from(self.ceiling.is_some());
        if self.failures_under_ceiling == MAX_FAILURES_UNDER_CEILING {
            self.lift_ceiling();
            return;
        }
        let before = self.ceiling.map(|ceiling| ceiling.mul_f64(MIN_CEILING_FACTOR));
        let carried = self.arriving.rate().filter(|_| before.is_some() || self.is_queue_full());
        self.ceiling = carried.map(|rate| rate.max(MIN_CEILING)).max(before);
    }

    const fn lift_ceiling(&mut self) {
        (self.ceiling, self.failures_under_ceiling) = (None, 0);
    }

    /// Handles a requested key frame of this size that leaves.
    pub(super) fn on_answer(&mut self, now: Time, frame: FrameId, size: Bytes, round_trip: Span) {
        if self.is_silent_on_display {
            return;
        }
        let least = size.over(MAX_KEY_FRAME_TIME);
        self.ceiling = self.ceiling.map(|ceiling| ceiling.max(least));
        self.answered = Some((frame, now));
        self.held_until = (self.failures > 0).then(|| now + self.hold(round_trip));
    }

    /// Handles the receiver's report that it shows this frame.
    pub(super) fn on_displayed(&mut self, frame: FrameId) {
        self.is_silent_on_display = false;
        if self.answered.take_if(|(answer, _)| frame >= *answer).is_some() {
            (self.failures, self.held_until) = (0, None);
            self.lift_ceiling();
        }
    }

    /// The rate for a key frame that the receiver waits for, if the encoder's rate is `rate` and frames are an `interval` apart.
    pub(super) fn key_frame_rate(&self, rate: Bitrate, interval: Span) -> Bitrate {
        if self.failures == 0 {
            return rate;
        }
        let half = rate.mul_f64(0.5);
        let carried = |arriving: Bitrate| arriving.mul_f64(KEY_FRAME_TIME.as_secs_f64() / interval.as_secs_f64());
        let first = self.arriving.rate().map_or(half, |arriving| carried(arriving).min(half));
        first.mul_f64(0.5_f64.powi(self.failures - 1))
    }

    /// The rate above which nothing may leave now. `waits`: the receiver accepts nothing but a key frame, and none has been sent yet.
    pub(super) fn ceiling(&self, waits: bool) -> Option<Bitrate> {
        self.ceiling.filter(|_| waits || self.answered.is_some())
    }

    /// Whether the path carries less than is sent: packets queue, or the queue is so short that they are lost instead.
    fn is_overloaded(&self) -> bool {
        self.loss > HEAVY_LOSS || self.shortest.is_some_and(|shortest| self.newest > shortest + MIN_QUEUE_DELAY)
    }

    fn is_queue_full(&self) -> bool {
        let waits = self.shortest.is_some_and(|shortest| self.longest > shortest + FULL_QUEUE_DELAY);
        self.loss > FULL_QUEUE_LOSS && waits
    }

    /// Whether symbols of this frame would fill the queue ahead of a key frame that has not got through yet: they are not retransmitted.
    pub(super) fn is_hopeless(&self, frame: FrameId) -> bool {
        let is_behind = self.ceiling.is_some() || self.is_overloaded();
        self.failures > 0 && is_behind && self.answered.is_none_or(|(answer, _)| frame < answer)
    }

    /// Updates the decision. `queued` is about to leave after `packets`; `lowest` is the target, if the controller cannot lower it any
    /// further.
    pub(super) fn update(&mut self, now: Time, packets: &PacketHistory, queued: Bytes, lowest: Option<Bitrate>) {
        let oldest = packets.oldest_unreported();
        let under_way = self.shortest.zip(oldest).filter(|_| !self.off);
        let blocked = under_way.is_some_and(|(shortest, oldest)| now - oldest > shortest + MAX_UNREPORTED_TIME);
        let blocked = blocked.then(|| (self.frame_at + PROBE_INTERVAL).max(self.heard_at + DRAIN_TIME));
        let arrives = |lowest: Bitrate| self.arriving.rate().is_some_and(|arriving| arriving >= lowest);
        let is_carried = now - self.heard_at <= PROBE_INTERVAL && lowest.is_some_and(arrives);
        let wait = under_way.map_or(Span::ZERO, |(shortest, oldest)| self.newest.max(now - oldest) - shortest);
        let wait = Some(wait).filter(|_| !is_carried && !self.off);
        self.overload.update(now, wait, lowest.is_some(), self.loss, self.heard_at);
        if let Some(arriving) = self.arriving.rate()
            && (arriving >= self.carries.0 || now >= self.carries.1)
        {
            self.carries = (arriving, now + ARRIVING_RATE_VALIDITY);
        }
        let is_late = under_way.is_some_and(|(shortest, oldest)| now - oldest > shortest + MAX_REPORT_DELAY);
        let fits = |lowest| self.fits(packets.unreported() + queued, lowest);
        let overloaded = self.overload.is_certain() && (is_late || !lowest.is_some_and(fits));
        let overloaded = overloaded.then(|| self.frame_at + LOWEST_RATE_INTERVAL);
        self.until = blocked.max(overloaded).max(self.held_until).filter(|until| now < *until);
    }

    /// Whether another frame of the lowest rate would arrive soon after those in flight.
    fn fits(&self, in_flight: Bytes, lowest: Bitrate) -> bool {
        let frame = lowest.bytes_in(self.interval);
        let shortest = self.shortest.unwrap_or_default();
        // If nothing waits, the path carries more than is known.
        let is_idle = in_flight == Bytes::ZERO || self.newest <= shortest + MIN_QUEUE_DELAY;
        is_idle || in_flight + frame <= self.carries.0.bytes_in(shortest + MAX_ARRIVAL_DELAY)
    }

    /// The time until which frames are skipped. None if they may leave.
    pub(super) const fn until(&self) -> Option<Time> {
        self.until
    }
}
