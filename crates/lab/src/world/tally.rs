//! What a media session did, measured from outside: the world knows all times exactly.

use nearlight_events::{STAGES, Timeline};
use nearlight_units::{Span, Time};

use super::network::Arrival;
use crate::encoder::Quality;
use crate::histogram::Histogram;

/// Frames that were captured so shortly before the end may not have arrived through no fault of anybody.
const GRACE: Span = Span::from_secs(1);

/// Counts within a window of time. Frames belong to the time of their capture, packets to that of the event.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    from: Time,
    to: Time,
    frames_to: Time,
    pub(crate) captured: u64,
    pub(crate) skipped: u64,
    pub(crate) sent: u64,
    pub(crate) key_frames: u64,
    pub(crate) received: u64,
    pub(crate) displayed: u64,
    pub(crate) late: u64,
    pub(crate) passed_over: u64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Since the last sample, whatever the window.
    pub(crate) sampled: Sampled,
    /// In microseconds.
    pub(crate) frame_network_latency: Histogram,
    pub(crate) frame_assembly: Histogram,
    pub(crate) frame_latency: Histogram,
    pub(crate) one_way_delay: Histogram,
    pub(crate) queue_delay: Histogram,
    pub(crate) motion_to_photon: Histogram,
    /// Of displayed frames, in the order of [`STAGES`].
    pub(crate) stages: [Histogram; STAGES.len()],
    /// In thousandths of a dB, and in millionths.
    pub(crate) psnr: Histogram,
    pub(crate) ssim: Histogram,
}

/// Bytes since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

fn micros(span: Span) -> u64 {
    span.max(Span::ZERO).as_micros() as u64
}

impl Tally {
    pub(crate) fn new(from: Time, to: Time) -> Self {
        let none = Histogram::default;
        Self {
            from,
            to,
            frames_to: (to - GRACE).max(from),
            captured: 0,
            skipped: 0,
            sent: 0,
            key_frames: 0,
            received: 0,
            displayed: 0,
            late: 0,
            passed_over: 0,
            packets_sent: 0,
            packets_lost: 0,
            bytes_sent: 0,
            bytes_received: 0,
            sampled: Sampled::default(),
            frame_network_latency: none(),
            frame_assembly: none(),
            frame_latency: none(),
            one_way_delay: none(),
            queue_delay: none(),
            motion_to_photon: none(),
            stages: std::array::from_fn(|_| none()),
            psnr: none(),
            ssim: none(),
        }
    }

    pub(crate) fn from(&self) -> Time {
        self.from
    }

    pub(crate) fn to(&self) -> Time {
        self.to
    }

    fn counts(&self, now: Time) -> bool {
        self.from <= now && now < self.to
    }

    pub(crate) fn counts_frame(&self, captured_at: Time) -> bool {
        self.from <= captured_at && captured_at < self.frames_to
    }

    pub(crate) fn on_capture(&mut self, at: Time) {
        self.captured += u64::from(self.counts_frame(at));
    }

    pub(crate) fn on_skipped(&mut self, at: Time) {
        self.skipped += u64::from(self.counts_frame(at));
    }

    pub(crate) fn on_frame_sent(&mut self, captured_at: Time, key: bool) {
        let counts = self.counts_frame(captured_at);
        self.sent += u64::from(counts);
        self.key_frames += u64::from(counts && key);
    }

    #[inline]
    pub(crate) fn on_packet_sent(&mut self, now: Time, bytes: usize) {
        self.sampled.sent += bytes as u64;
        if self.counts(now) {
            self.packets_sent += 1;
            self.bytes_sent += bytes as u64;
        }
    }

    #[inline]
    pub(crate) fn on_packet_received(&mut self, now: Time, arrival: &Arrival, bytes: u64) {
        self.sampled.received += bytes;
        if self.counts(now) {
            self.bytes_received += bytes;
            self.one_way_delay.add(micros(now - arrival.sent_at));
            self.queue_delay.add(micros(arrival.queued));
        }
    }

    pub(crate) fn on_packet_lost(&mut self, now: Time) {
        self.packets_lost += u64::from(self.counts(now));
    }

    /// A frame is whole and in order.
    pub(crate) fn on_frame_received(&mut self, now: Time, captured_at: Time, sent_at: Time) {
        if self.counts_frame(captured_at) {
            self.received += 1;
            self.frame_network_latency.add(micros(now - sent_at));
        }
    }

    /// Its packets took so long from first to last, as they came.
    pub(crate) fn on_frame_assembled(&mut self, captured_at: Time, span: Span) {
        if self.counts_frame(captured_at) {
            self.frame_assembly.add(micros(span));
        }
    }

    pub(crate) fn on_passed_over(&mut self, now: Time) {
        self.passed_over += u64::from(self.counts(now));
    }

    pub(crate) fn on_displayed(&mut self, now: Time, captured_at: Time, late: bool, quality: Option<Quality>) {
        if !self.counts_frame(captured_at) {
            return;
        }
        self.displayed += 1;
        self.late += u64::from(late);
        self.frame_latency.add(micros(now - captured_at));
        if let Some(Quality { psnr, ssim }) = quality {
            self.psnr.add((psnr * 1e3).round() as u64);
            self.ssim.add((ssim.max(0.0) * 1e6).round() as u64);
        }
    }

    pub(crate) fn on_motion_to_photon(&mut self, now: Time, span: Span) {
        if self.counts(now) {
            self.motion_to_photon.add(micros(span));
        }
    }

    /// Where the time of a displayed frame went.
    pub(crate) fn on_timeline(&mut self, captured_at: Time, timeline: &Timeline) {
        if self.counts_frame(captured_at) {
            for (histogram, stage) in self.stages.iter_mut().zip(STAGES) {
                histogram.add(micros(timeline.stage(stage)));
            }
        }
    }
}
