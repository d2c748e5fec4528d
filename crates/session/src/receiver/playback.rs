//! The path of complete frames to the decoder, through a playback buffer where there is one.

use nearlight_events::Event;
use nearlight_units::{Span, Time};
use nearlight_wire::{FrameHeader, Report};

use super::{ReadyFrame, Receiver};
use crate::assembly::{Transfer, Whole};
use crate::playback::PlaybackBuffer;

/// Where many frames become decodable at once, one of so many is shown: the decoder takes a while for all of them, and the picture would
/// stand meanwhile. Guess: a tenth of a second with a decoder that takes 12 ms for a frame.
const SHOWN_OF_BACKLOG: u32 = 8;

impl Receiver {
    /// Frames wait until this many are held, each for as many frame intervals, and the fill level is reported to the server. To be set
    /// before the first frame. 0: they go to the decoder as they arrive.
    pub fn set_playback_buffer(&mut self, frames: u8, frame_interval: Span) {
        self.playback = (frames > 0).then(|| Box::new(PlaybackBuffer::new(frames, frame_interval)));
    }

    /// The next frame for the decoder.
    pub fn poll_frame(&mut self, now: Time) -> Option<ReadyFrame> {
        let (frame, transfer) = if self.playback.is_some() {
            while let Some((frame, transfer)) = self.poll_whole(now) {
                self.playback.as_mut()?.on_frame(now, frame, transfer);
            }
            self.playback.as_mut()?.poll(now)?
        } else {
            self.poll_whole(now)?
        };
        self.presentation.on_ready(frame.id, frame.header.clone(), transfer, frame.damaged);
        self.emit(now, || Event::FrameReady { frame: frame.id });
        if frame.damaged {
            self.emit(now, || Event::FrameDamaged { frame: frame.id });
        }
        Some(frame)
    }

    /// The next frame that can be decoded after those before it.
    fn poll_whole(&mut self, now: Time) -> Option<(ReadyFrame, Transfer)> {
        loop {
            let whole = self.assembler.poll_whole()?;
            // The picture moves: what is requested next concerns another loss.
            (self.key_frame_asked_at, self.reference_asked) = (None, None);
            if let Some(by) = whole.recovered_by {
                self.on_recovered(now, whole.id, whole.skipped, by);
            }
            let Ok((header, bits)) = FrameHeader::parse(&whole.bytes) else {
                self.malformed += 1;
                self.set_broken();
                continue;
            };
            let bits_from = whole.bytes.len() - bits.len();
            self.uplink.on_acknowledged(header.input);
            let show = !self.assembler.has_deliverable() || self.hidden + 1 >= SHOWN_OF_BACKLOG;
            self.hidden = if show { 0 } else { self.hidden + 1 };
            let Whole { id, key, damaged, bytes, .. } = whole;
            let frame = ReadyFrame { id, key, header, bytes, bits_from, show, damaged };
            return Some((frame, whole.transfer));
        }
    }

    pub(super) fn poll_report(&mut self, now: Time) -> Option<Report> {
        let playback = self.playback.as_deref_mut();
        if !self.presentation.is_report_due(now) && !playback.as_ref().is_some_and(|buffer| buffer.is_report_due(now)) {
            return None;
        }
        let buffered = playback.map(|buffer| buffer.report(now));
        Some(Report { buffered, frames: self.presentation.take_reports() })
    }
}
