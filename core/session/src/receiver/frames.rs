//! Reassembly of frames from symbols and repairs, and their delivery to the decoder in order and at their play time.

use nearlight_events::{Event, RecoveryKind};
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::{Acknowledgement, FrameHeader, RepairHeader, SymbolHeader, marker::Marker};

use super::context::Context;
use super::display::Display;
use super::requests::Requests;
use super::{LossRecovery, ReadyFrame};
use crate::clock::ClockSync;
use crate::receiver::assembly::{AssembledFrame, Assembler, ForgedFrame, Transfer};
use crate::receiver::playback::PlaybackBuffer;
use crate::receiver::presentation::DisplayedFrame;
use crate::{Wake, earliest};

/// If many frames become decodable at once, one of this many is displayed, so that the picture moves while the others are decoded. Guess: a
/// tenth of a second with a decoder that takes 12 ms for a frame.
const DISPLAYED_BACKLOG_STRIDE: u32 = 8;

/// Reassembles frames, requests what is missing, and hands frames out in decoding order.
#[derive(Debug, Default)]
pub(super) struct FrameReception {
    assembler: Assembler,
    requests: Requests,
    /// None: frames go to the decoder as they arrive.
    playback: Option<Box<PlaybackBuffer>>,
    /// Number of frames handed out since the last one that is to be displayed.
    hidden: u32,
}

impl FrameReception {
    fn set_loss_recovery(&mut self, recovery: LossRecovery) {
        self.requests.set_recovery(recovery);
        self.assembler.set_takes_damaged(recovery == LossRecovery::OpenUvr);
    }

    fn set_playback_buffer(&mut self, frames: u8, frame_interval: Span) {
        self.playback = (frames > 0).then(|| Box::new(PlaybackBuffer::new(frames, frame_interval)));
    }

    /// Takes a symbol that arrived. Returns whether it completed a frame.
    pub(super) fn on_symbol(
        &mut self,
        now: Time,
        header: &SymbolHeader,
        payload: &[u8],
        context: &mut Context,
    ) -> bool {
        self.requests.on_downlink_delay(now, now.ahead_of(header.sent_at), self.assembler.heard_at());
        self.assembler.on_symbol(now, header, payload);
        self.after_media(now, context)
    }

    /// Takes a repair that arrived. Returns whether it completed a frame.
    pub(super) fn on_repair(
        &mut self,
        now: Time,
        header: &RepairHeader,
        payload: &[u8],
        context: &mut Context,
    ) -> bool {
        self.requests.on_downlink_delay(now, now.ahead_of(header.sent_at), self.assembler.heard_at());
        self.assembler.on_repair(now, header, payload);
        self.after_media(now, context)
    }

    fn after_media(&mut self, now: Time, context: &mut Context) -> bool {
        let mut has_completed = false;
        while let Some(completed) = self.assembler.poll_completed() {
            has_completed = true;
            let behind = self.newer_than(completed.frame);
            context.telemetry.on_completed(now, &completed, behind);
        }
        while let Some(ForgedFrame { frame, completed }) = self.assembler.poll_forged() {
            context.telemetry.on_corrupt(now, frame, completed);
        }
        self.assembler.drop_useless();
        has_completed
    }

    /// Returns how many frames newer than this one have begun to arrive.
    fn newer_than(&self, frame: FrameId) -> u32 {
        self.assembler.newest().map_or(0, |newest| newest.0.saturating_sub(frame.0))
    }

    fn on_decode_failed(&mut self, now: Time, frame: FrameId, context: &mut Context) {
        context.telemetry.refused += 1;
        context.telemetry.emit(now, || Event::FrameLost { frame, reason: "decoder refused it".into() });
        if self.playback.as_mut().is_some_and(|buffer| buffer.skip_to_key_frame()) {
            return;
        }
        self.requests.set_broken(&mut self.assembler);
        self.requests.request_restart(now, &mut self.assembler, context);
    }

    fn poll(&mut self, now: Time, context: &mut Context) -> Option<(ReadyFrame, Transfer)> {
        if self.playback.is_none() {
            return self.poll_whole(now, context);
        }
        while let Some((frame, transfer)) = self.poll_whole(now, context) {
            self.playback.as_mut()?.on_frame(now, frame, transfer);
        }
        self.playback.as_mut()?.poll(now)
    }

    /// Returns the next frame that can be decoded after those before it.
    fn poll_whole(&mut self, now: Time, context: &mut Context) -> Option<(ReadyFrame, Transfer)> {
        loop {
            let whole = self.assembler.poll_whole()?;
            self.requests.on_ready();
            if let Some(by) = whole.recovered_by {
                self.on_recovered(now, &whole, by, context);
            }
            let Ok((header, bits)) = FrameHeader::parse(&whole.bytes) else {
                context.telemetry.malformed += 1;
                self.requests.set_broken(&mut self.assembler);
                continue;
            };
            let bits_from = whole.bytes.len() - bits.len();
            context.uplink.on_acknowledged(header.input);
            let show = !self.assembler.has_deliverable() || self.hidden + 1 >= DISPLAYED_BACKLOG_STRIDE;
            self.hidden = if show { 0 } else { self.hidden + 1 };
            let AssembledFrame { id, key, damaged, bytes, .. } = whole;
            let frame = ReadyFrame { id, key, header, bytes, bits_from, show, damaged };
            return Some((frame, whole.transfer));
        }
    }

    /// Records that the decoder gets a frame that was late or that restores the chain of references.
    fn on_recovered(&self, now: Time, whole: &AssembledFrame, by: RecoveryKind, context: &mut Context) {
        let frames = self.newer_than(whole.id).saturating_add(whole.skipped);
        context.telemetry.on_picture_recovered(now, whole.id, by, frames);
    }

    /// Gives frames up and requests what is missing.
    pub(super) fn on_timeout(&mut self, now: Time, context: &mut Context) {
        if self.requests.recovery() == LossRecovery::KeyFrames {
            self.assembler.give_up_lost(now);
        } else {
            self.assembler.expire(now, self.requests.retransmission_policy(&context.clock));
        }
        self.assembler.drop_useless();
        self.requests.request_missing(now, &mut self.assembler, context);
        self.requests.request_restart(now, &mut self.assembler, context);
    }

    pub(super) fn poll_timeout(&self, clock: &ClockSync) -> Option<(Time, Wake)> {
        earliest([
            self.playback.as_ref().and_then(|buffer| buffer.poll_timeout()).map(|at| (at, Wake::Playback)),
            self.assembler.poll_timeout().map(|at| (at, Wake::Retransmission)),
            self.requests.restart_due(&self.assembler, clock).map(|at| (at, Wake::KeyFrame)),
        ])
    }

    pub(super) fn poll_acknowledgement(&mut self) -> Option<Acknowledgement> {
        self.requests.poll_acknowledgement(self.assembler.newest())
    }

    /// Returns the playback buffer, if there is one, so that its fill level can be reported.
    pub(super) fn playback(&mut self) -> Option<&mut PlaybackBuffer> {
        self.playback.as_deref_mut()
    }

    pub(super) const fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// Implements [`Receiver::is_stuck`](super::Receiver::is_stuck).
    pub(super) fn is_stuck(&self, clock: &ClockSync) -> bool {
        // A receiver without requests awaits an incomplete frame until a newer packet shows that it is lost. With a transport that
        // retransmits, it waits for as long as that takes.
        let suffers = match self.requests.recovery() {
            LossRecovery::Symbols | LossRecovery::References => self.assembler.is_frozen(),
            LossRecovery::OpenUvr => {
                let damaged = self.assembler.is_waiting_for_key_frame() && !self.assembler.has_deliverable();
                damaged || self.assembler.is_frozen()
            }
            LossRecovery::KeyFrames | LossRecovery::Nothing { .. } | LossRecovery::Transport => false,
        };
        suffers
            && self.assembler.poll_timeout().is_none()
            && self.requests.restart_due(&self.assembler, clock).is_none()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn held_playback(&self) -> (usize, usize) {
        self.playback.as_ref().map_or((0, 0), |buffer| buffer.held())
    }

    /// Returns whether a frame with which the decoder can continue should have been requested by now.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn owes_request(&self, now: Time, clock: &ClockSync) -> bool {
        self.requests.restart_due(&self.assembler, clock).is_some_and(|due| due <= now)
    }
}

/// Reassembled frames on their way to the decoder and the display; see [`Receiver::frames`](super::Receiver::frames).
#[derive(Debug)]
pub struct ReceivedFrames<'a> {
    pub(super) reception: &'a mut FrameReception,
    pub(super) display: Display<'a>,
}

impl ReceivedFrames<'_> {
    /// Sets how losses are recovered from now on.
    pub fn set_loss_recovery(self, recovery: LossRecovery) {
        self.reception.set_loss_recovery(recovery);
    }

    /// Sets how many frames the playback buffer holds, each for as many frame intervals; the fill level is reported to the server. With 0,
    /// frames go to the decoder as they arrive. Call it before the first frame arrives.
    pub fn set_playback_buffer(self, frames: u8, frame_interval: Span) {
        self.reception.set_playback_buffer(frames, frame_interval);
    }

    /// Returns the next frame for the decoder; call until none.
    pub fn poll(mut self, now: Time) -> Option<ReadyFrame> {
        let (frame, transfer) = self.reception.poll(now, self.display.context)?;
        self.display.on_ready(now, frame.id, frame.header.clone(), transfer, frame.damaged);
        Some(frame)
    }

    /// Records that the decoder has decoded a frame.
    pub fn on_decoded(self, now: Time, frame: FrameId) {
        if self.display.presentation.on_decoded(now, frame) {
            self.reception.requests.on_decoded(frame);
        }
    }

    /// Records that the decoder rejected a frame. Only a key frame restores the picture then.
    pub fn on_decode_failed(self, now: Time, frame: FrameId) {
        self.reception.on_decode_failed(now, frame, self.display.context);
    }

    /// Records that a decoded frame has been on the display since `now`, with the marker read from the displayed pixels.
    ///
    /// Returns none for an unknown frame and before the first clock exchange.
    pub fn on_displayed(mut self, now: Time, frame: FrameId, marker: Option<Marker>) -> Option<DisplayedFrame> {
        self.display.on_displayed(now, frame, marker)
    }
}
