//! The metrics of a media session, measured from outside: the world knows all times exactly.

use nearlight_events::{RecoveryCounts, STAGES, StallCounts, Stalls, Timeline};
use nearlight_units::{Span, Time};

use super::network::Arrival;
use super::standstill::StandstillMonitor;
use crate::encoder::Quality;
use crate::histogram::Histogram;
use crate::record::{FrameLossCounts, MediaRecord, SampleBytes, ServiceRecord};

/// Frames captured within this time before the end are not counted: they may still be in flight. Guess.
const DELIVERY_GRACE: Span = Span::from_secs(1);

/// Counts within a window of time. Frames belong to the time of their capture, packets to that of the event.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    from: Time,
    to: Time,
    frames_to: Time,
    /// Pauses, in which a picture cannot stall.
    pauses: Vec<(Time, Time)>,
    /// Stalls, on a clock that stops during pauses.
    stalls: Stalls,
    pub(crate) captured: u64,
    pub(crate) skipped: u64,
    pub(crate) sent: u64,
    pub(crate) key_frames: u64,
    pub(crate) received: u64,
    pub(crate) displayed: u64,
    /// Displayed pictures that were predicted from a frame that was never decoded.
    pub(crate) damaged: u64,
    /// When the display began to show damaged pictures, and the longest such time.
    damaged_since: Option<Time>,
    longest_damage: Span,
    pub(crate) late: u64,
    pub(crate) passed_over: u64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// How often the receiver had no request pending while the picture was frozen.
    pub(crate) stuck: u64,
    /// None over a reliable, ordered transport.
    pub(crate) standstill: Option<StandstillMonitor>,
    /// Bytes since the last sample, inside the window or not.
    pub(crate) sampled: SampleBytes,
    /// In microseconds.
    pub(crate) frame_network_latency: Histogram,
    pub(crate) frame_assembly: Histogram,
    pub(crate) frame_latency: Histogram,
    pub(crate) one_way_delay: Histogram,
    pub(crate) queue_delay: Histogram,
    pub(crate) motion_to_photon: Histogram,
    pub(crate) input_to_photon: Histogram,
    /// Stages of displayed frames, in the order of [`STAGES`].
    pub(crate) stages: [Histogram; STAGES.len()],
    /// PSNR in thousandths of a dB, SSIM in millionths.
    pub(crate) psnr: Histogram,
    pub(crate) ssim: Histogram,
}

/// A session's results beyond its tally.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTotals {
    pub(crate) retransmissions: u64,
    pub(crate) redundant: u64,
    pub(crate) other: u64,
    pub(crate) frame_losses: Option<FrameLossCounts>,
    pub(crate) recovery: Option<RecoveryCounts>,
    /// Frames of the measured time that were shown undamaged and in time, and the sum of their qualities.
    pub(crate) in_time: (u64, f64),
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
            frames_to: (to - DELIVERY_GRACE).max(from),
            pauses: Vec::new(),
            stalls: Stalls::default(),
            captured: 0,
            skipped: 0,
            sent: 0,
            key_frames: 0,
            received: 0,
            displayed: 0,
            damaged: 0,
            damaged_since: None,
            longest_damage: Span::ZERO,
            late: 0,
            passed_over: 0,
            packets_sent: 0,
            packets_lost: 0,
            bytes_sent: 0,
            bytes_received: 0,
            stuck: 0,
            standstill: None,
            sampled: SampleBytes::default(),
            frame_network_latency: none(),
            frame_assembly: none(),
            frame_latency: none(),
            one_way_delay: none(),
            queue_delay: none(),
            motion_to_photon: none(),
            input_to_photon: none(),
            stages: std::array::from_fn(|_| none()),
            psnr: none(),
            ssim: none(),
        }
    }

    pub(crate) fn with_pauses(self, pauses: &[(Time, Time)]) -> Self {
        Self { pauses: pauses.to_vec(), ..self }
    }

    /// Converts to a clock that stops during pauses.
    fn without_pauses(&self, at: Time) -> Time {
        let paused = |(from, to): &(Time, Time)| (*to).min(at).saturating_since(*from);
        at - self.pauses.iter().map(paused).fold(Span::ZERO, |sum, span| sum + span)
    }

    /// Returns the stalls from the first capture of the measured time to its end.
    pub(crate) fn stalls(&self) -> StallCounts {
        self.stalls.until(self.without_pauses(self.to))
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
        if self.counts(at) {
            self.stalls.on_start(self.without_pauses(at));
        }
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

    /// A picture's packet arrived at the client with this delay.
    pub(crate) fn on_media_received(&mut self, now: Time, way: Span) {
        if self.counts(now) {
            self.standstill.get_or_insert_default().on_media(now, way);
        }
    }

    /// A packet arrived at the server with this delay.
    pub(crate) fn on_answer_received(&mut self, way: Span) {
        if let Some(standstill) = &mut self.standstill {
            standstill.on_answer(way);
        }
    }

    /// The receiver was polled to its end; `stuck` if it should have requested something.
    pub(crate) fn on_stuck(&mut self, stuck: bool) {
        self.stuck += u64::from(stuck);
    }

    /// The session has ended.
    pub(crate) fn on_end(&mut self) {
        self.end_damage(self.to);
        if let Some(standstill) = &mut self.standstill {
            standstill.on_end();
        }
    }

    pub(crate) fn on_packet_lost(&mut self, now: Time) {
        self.packets_lost += u64::from(self.counts(now));
    }

    /// A frame is complete and in order.
    pub(crate) fn on_frame_received(&mut self, now: Time, captured_at: Time, sent_at: Time) {
        if self.counts_frame(captured_at) {
            self.received += 1;
            self.frame_network_latency.add(micros(now - sent_at));
        }
    }

    /// Records the time from the arrival of its first packet to that of its last.
    pub(crate) fn on_frame_assembled(&mut self, captured_at: Time, span: Span) {
        if self.counts_frame(captured_at) {
            self.frame_assembly.add(micros(span));
        }
    }

    pub(crate) fn on_passed_over(&mut self, now: Time) {
        self.passed_over += u64::from(self.counts(now));
    }

    /// `latency` is from capture to display; frames belong to the time `counted_at`.
    pub(crate) fn on_displayed(
        &mut self,
        now: Time,
        counted_at: Time,
        latency: Span,
        late: bool,
        quality: Option<Quality>,
    ) {
        if let Some(standstill) = self.standstill.as_mut().filter(|_| self.from <= now && now < self.to) {
            standstill.on_displayed(now);
        }
        if self.counts(now) {
            self.stalls.on_picture(self.without_pauses(now));
        }
        if !self.counts_frame(counted_at) {
            return;
        }
        self.displayed += 1;
        self.late += u64::from(late);
        self.frame_latency.add(micros(latency));
        if let Some(Quality { psnr, ssim }) = quality {
            self.psnr.add((psnr * 1e3).round() as u64);
            self.ssim.add((ssim.max(0.0) * 1e6).round() as u64);
        }
    }

    /// The picture displayed since `now` is damaged or intact.
    pub(crate) fn on_condition(&mut self, now: Time, counted_at: Time, damaged: bool) {
        if !self.counts_frame(counted_at) {
            return;
        }
        self.damaged += u64::from(damaged);
        if damaged {
            self.damaged_since.get_or_insert(now);
        } else {
            self.end_damage(now);
        }
    }

    fn end_damage(&mut self, now: Time) {
        if let Some(since) = self.damaged_since.take() {
            self.longest_damage = self.longest_damage.max(now - since);
        }
    }

    /// A displayed frame is the first to show inputs of these ages, the oldest first.
    pub(crate) fn on_inputs_displayed(&mut self, now: Time, spans: impl IntoIterator<Item = Span>) {
        let mut newest = None;
        for span in spans {
            self.on_input_to_photon(now, span);
            newest = Some(span);
        }
        if let Some(span) = newest {
            self.on_motion_to_photon(now, span);
        }
    }

    pub(crate) fn on_input_to_photon(&mut self, now: Time, span: Span) {
        if self.counts(now) {
            self.input_to_photon.add(micros(span));
        }
    }

    /// Records the motion-to-photon time: the age of the newest new input of a displayed frame.
    pub(crate) fn on_motion_to_photon(&mut self, now: Time, span: Span) {
        if self.counts(now) {
            self.motion_to_photon.add(micros(span));
        }
    }

    /// Records the stages of a displayed frame.
    pub(crate) fn on_timeline(&mut self, captured_at: Time, timeline: &Timeline) {
        if self.counts_frame(captured_at) {
            for (histogram, stage) in self.stages.iter_mut().zip(STAGES) {
                histogram.add(micros(timeline.stage(stage)));
            }
        }
    }

    /// Writes all counts and the session's totals into a record.
    pub(crate) fn write(&self, record: &mut MediaRecord, sums: &SessionTotals) {
        let SessionTotals { retransmissions, redundant, other, frame_losses, recovery, in_time: (in_time, quality) } =
            *sums;
        let StallCounts { stalls, stalled, watched, .. } = self.stalls();
        let service = (self.captured > 0).then_some(ServiceRecord { in_time, quality, stalls, stalled, watched });
        *record = MediaRecord {
            from: self.from().as_secs_f64(),
            to: self.to().as_secs_f64(),
            captured: self.captured,
            skipped: self.skipped,
            sent_frames: self.sent,
            key_frames: self.key_frames,
            received_frames: self.received,
            displayed: self.displayed,
            damaged: self.damaged,
            longest_damage: Some(micros(self.longest_damage)),
            late: self.late,
            passed_over: self.passed_over,
            packets_sent: self.packets_sent,
            packets_lost: self.packets_lost,
            retransmissions,
            redundant_bytes: redundant,
            other_bytes: other,
            frame_losses,
            recovery,
            service,
            longest_standstill: self.standstill.map(|standstill| standstill.longest().as_micros() as u64),
            overlong_standstills: self.standstill.map(|standstill| standstill.overlong()),
            stuck: self.stuck,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            frame_network_latency: self.frame_network_latency.clone(),
            frame_assembly: self.frame_assembly.clone(),
            frame_latency: self.frame_latency.clone(),
            one_way_delay: self.one_way_delay.clone(),
            queue_delay: self.queue_delay.clone(),
            motion_to_photon: self.motion_to_photon.clone(),
            input_to_photon: self.input_to_photon.clone(),
            stages: self.stages.clone(),
            psnr: self.psnr.clone(),
            ssim: self.ssim.clone(),
            ..std::mem::take(record)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_millis(milliseconds)
    }

    #[test]
    fn stalls_are_measured_from_the_first_capture_to_the_end_without_pauses() {
        let mut tally = Tally::new(at(1_000), at(11_000)).with_pauses(&[(at(4_000), at(6_000))]);
        for frame in 0..1_000 {
            let captured_at = at(frame * 10);
            if !(4_000..6_000).contains(&(frame * 10)) {
                tally.on_capture(captured_at);
            }
            // Pictures come from 1.5 to 4 s and from 6.1 to 9 s.
            if (150..400).contains(&frame) || (610..=900).contains(&frame) {
                tally.on_displayed(captured_at, captured_at, Span::ZERO, false, None);
            }
        }
        let counts = tally.stalls();
        // The start and the end are stalls; 110 ms around the pause are none.
        assert_eq!((counts.stalls, counts.stalled), (2, Span::from_millis(500 + 2_000)));
        assert_eq!(counts.watched, Span::from_millis(8_000));
    }
}
