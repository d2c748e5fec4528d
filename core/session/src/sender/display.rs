//! The client's reports on displayed pictures: how long they took to get there, and when to capture the next.

use nearlight_rate::FrameOutcome;
use nearlight_units::{Span, Time};
use nearlight_wire::{FrameReport, MAX_FRAME_REPORTS, Report};

use super::Sender;

/// Time from rendering to display before the first report. Guess: two frames at 30 frames a second.
pub const UNKNOWN_TO_DISPLAY: Span = Span::from_millis(66);
/// Weight of the newest frame in that time's average, as a divisor. Guess: a second's memory at 30 frames a second.
const DISPLAY_SMOOTHING: i64 = 16;

impl Sender {
    /// Sets the client's display rate in refreshes per second, as it reports. 0 for a client that shows a picture the moment it is decoded.
    /// Before the first call, [`crate::MediaTarget::best_capture`] ignores waits for the display.
    pub fn set_display_hz(&mut self, hz: u16) {
        self.timing.set_display_hz(hz);
    }

    /// Returns the fate of each frame as reported by the client, once per frame.
    pub fn poll_outcome(&mut self) -> Option<FrameReport> {
        self.outcomes.pop_front()
    }

    pub(super) fn on_report(&mut self, now: Time, report: &Report) {
        for frame in &report.frames {
            let outcome = FrameOutcome {
                frame: frame.frame,
                network: frame.network,
                reassemble: frame.reassemble,
                decode: frame.decode,
                motion_to_photon: frame.motion_to_photon,
                late: frame.late,
            };
            self.controller.on_frame_outcome(now, &outcome);
            if let Some(protection) = &mut self.protection {
                protection.on_decode(frame.decode);
            }
            self.note_display(frame);
            self.restraint.on_displayed(frame.frame);
            if self.outcomes.len() == MAX_FRAME_REPORTS {
                self.outcomes.pop_front();
            }
            self.outcomes.push_back(*frame);
        }
        if let Some(buffered) = report.buffered {
            self.controller.on_playback_buffer(now, buffered.into());
        }
        if let Some(newest) = report.frames.last() {
            self.timing.on_reported(now);
            self.decoder_load.on_report(now, newest.decode);
        }
        self.take_decision(now);
    }

    fn note_display(&mut self, report: &FrameReport) {
        let Some(frame) = self.frames.get_mut(report.frame) else { return };
        let at_server = frame.last_sent_at.saturating_since(frame.render_started_at);
        let sample = at_server + report.network + report.reassemble + report.decode + report.present;
        self.timing.on_displayed(frame.render_started_at, frame.render_started_at + sample, report.present);
        let smoothed = self.render_to_display.map_or(sample, |mean| mean + (sample - mean) / DISPLAY_SMOOTHING);
        self.render_to_display = Some(smoothed);
    }
}
