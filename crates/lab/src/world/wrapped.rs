//! What baselines know that the session does not tell them: how full the playback buffer is, and where a frame stands in its group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nearlight_fec::policy::{FrameFacts, Plan, RedundancyPolicy, Shortage};
use nearlight_rate::{Bounds, Decision, Feedback, FrameOutcome, Probe, RateController, SentFrame, SentPacket, Wake};
use nearlight_units::{Bytes, Time};

/// A number that one end of a run writes and the other reads.
pub(crate) type Shared = Arc<AtomicU32>;

/// A rate controller whose receiver says with each feedback message how many frames it holds.
pub(crate) struct Buffered {
    pub(crate) inner: Box<dyn RateController>,
    pub(crate) frames: Shared,
}

impl RateController for Buffered {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.inner.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.inner.on_playback_buffer(now, self.frames.load(Ordering::Relaxed));
        self.inner.on_feedback(now, feedback);
    }

    fn on_outdated_feedback(&mut self, now: Time) {
        self.inner.on_outdated_feedback(now);
    }

    fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        self.inner.on_frame_sent(now, frame);
    }

    fn on_frame_outcome(&mut self, now: Time, outcome: &FrameOutcome) {
        self.inner.on_frame_outcome(now, outcome);
    }

    fn on_sender_queue(&mut self, now: Time, queued: Bytes) {
        self.inner.on_sender_queue(now, queued);
    }

    fn on_playback_buffer(&mut self, now: Time, frames: u32) {
        self.inner.on_playback_buffer(now, frames);
    }

    fn on_timeout(&mut self, now: Time) {
        self.inner.on_timeout(now);
    }

    fn poll_timeout(&self) -> Option<(Time, Wake)> {
        self.inner.poll_timeout()
    }

    fn poll_probe(&mut self, now: Time) -> Option<Probe> {
        self.inner.poll_probe(now)
    }

    fn set_bounds(&mut self, now: Time, bounds: Bounds) {
        self.inner.set_bounds(now, bounds);
    }

    fn set_priority(&mut self, now: Time, weight: f64) {
        self.inner.set_priority(now, weight);
    }

    fn decision(&self) -> Decision {
        self.inner.decision()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }
}

/// A redundancy policy that hears each frame's place in its group, although for the session every frame stands alone.
pub(crate) struct Placed {
    pub(crate) inner: Box<dyn RedundancyPolicy>,
    pub(crate) index: Shared,
}

impl Placed {
    fn placed(&self, facts: &FrameFacts) -> FrameFacts {
        let index = self.index.load(Ordering::Relaxed);
        FrameFacts { index, key: index == 0, ..*facts }
    }
}

impl RedundancyPolicy for Placed {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn plan(&mut self, facts: &FrameFacts) -> Plan {
        let facts = self.placed(facts);
        self.inner.plan(&facts)
    }

    fn answer(&mut self, shortage: &Shortage) -> Option<u16> {
        self.inner.answer(&Shortage { facts: self.placed(&shortage.facts), ..*shortage })
    }

    fn reach(&self) -> u8 {
        self.inner.reach()
    }
}
