//! The sender's requests to the source, the encoder and the sound encoder.

use nearlight_rate::Step;
use nearlight_units::{Bitrate, FrameId, Span, Time};
use nearlight_wire::SYMBOL_HEADER_BYTES;

use super::{Recovery, Sender};
use crate::capture::schedule::SkipReason;

/// A frame is skipped when the queued data takes longer than this many frame intervals to leave, because it would only wait. Guess: one
/// frame that is leaving, and half of one behind it.
const MAX_QUEUE_INTERVALS: f64 = 1.5;
/// The step of a controller that has no steps: every frame, at full size.
const FULL_STEP: Step = Step { rung: 0, scale: 1.0, frame_rate: 1.0 };

/// How the next frame should be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderTarget {
    pub rate: Bitrate,
    /// Whether a key frame is requested. Stays set until one is encoded.
    pub key: bool,
    /// Whether prediction from a frame that the receiver has acknowledged is requested. Stays set until such a frame is encoded.
    pub recover: bool,
    /// Newest frame that the receiver is known to have decoded, with all frames that it depends on.
    pub acknowledged: Option<FrameId>,
    /// The id that the next frame must have: the first that the sender has not received yet. That frame or a later one meets this target.
    pub next: FrameId,
}

/// The properties of the next picture and the next sound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaTarget {
    pub encoder: EncoderTarget,
    /// Why a frame rendered now should be skipped: it would only wait in the pacer's queue, on the path, or in the decoder's queue.
    pub refusal: Option<SkipReason>,
    /// Scale of the pictures, and the fraction of the frame rate to use.
    pub step: Step,
    /// Time that a frame takes from the start of its rendering to the client's display, smoothed. It sets the prediction time of poses and
    /// the delay of sound. None before the first report.
    pub render_to_display: Option<Span>,
    /// A past or future moment at which a capture would be best: just after an input arrives, and so that the picture is ready just before
    /// the display refreshes. Moments whole frame intervals away are equally good; [`crate::CaptureSchedule`] converges to them. None while
    /// too little is known, or if no moment is better than another.
    pub best_capture: Option<Time>,
    /// The bit rate that the sound encoder should use.
    pub sound: Bitrate,
    /// Number of frames that the receiver should buffer before it shows them. The receiver is informed once, when the session opens.
    pub playback_buffer: u8,
}

impl Sender {
    /// The properties of the media that come next.
    #[must_use]
    pub fn target(&self) -> MediaTarget {
        MediaTarget {
            encoder: self.encoder_target(),
            refusal: self.refusal(),
            step: self.decision.step.unwrap_or(FULL_STEP),
            render_to_display: self.render_to_display,
            best_capture: self.timing.best(),
            sound: self.sound_rate(),
            playback_buffer: self.config.playback_buffer,
        }
    }

    fn refusal(&self) -> Option<SkipReason> {
        let pacing = self.ceiling().map_or(self.decision.pacing, |ceiling| ceiling.min(self.decision.pacing));
        let queued = pacing.time_to_send(self.pacer.queued());
        if queued > self.config.frame_interval.mul_f64(MAX_QUEUE_INTERVALS) {
            return Some(SkipReason::PacerQueue);
        }
        if self.restraint.until().is_some() {
            return Some(SkipReason::PathBlocked);
        }
        self.decoder_load.is_behind().then_some(SkipReason::DecoderBehind)
    }

    fn encoder_target(&self) -> EncoderTarget {
        // The target counts datagrams, the encoder only their payload.
        let payload = self.payload() as f64 / (self.payload() + SYMBOL_HEADER_BYTES) as f64;
        // Some controllers have already subtracted redundancy from their target.
        let includes_redundancy = self.decision.redundancy.is_some();
        let share = self.redundant.get();
        let left = |rate: Bitrate| self.sound.after_sound(rate).mul_f64(1.0 - share);
        let target = self.decision.target;
        let media = if self.protection.is_some() && !includes_redundancy {
            left(target)
        } else {
            self.sound.after_sound(target)
        };
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
}
