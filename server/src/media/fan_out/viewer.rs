//! One viewer of a source that paces itself: which input its pictures show, and how they are encoded.

use std::collections::VecDeque;
use std::sync::Arc;

use nearlight_codec::{CodecKind, EncoderConfig, Size};
use nearlight_scene::predict::Predictor;
use nearlight_session::{
    CaptureDecision, CaptureFacts, FrameSkipper, MemberFacts, MemberId, PictureUpdate, SkipReason, UNKNOWN_TO_DISPLAY,
};
use nearlight_units::{Bitrate, InputSeq, Time};
use nearlight_wire::{DisplayKind, View, marker::Marker};

use super::StudioContext;
use crate::media::encoding::{DrainingLane, EncodeJob, EncoderLane, EncoderPlacement, PictureFacts, display_budget};
use crate::media::layer::Recipient;
use crate::media::pictures::SharedPicture;
use crate::media::studio::{Format, views_at};
use crate::session::exchange::{SessionExchange, StreamTarget};

/// An input that was forwarded to the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardedInput {
    pub(super) input: InputSeq,
    pub(super) received_at: Time,
    pub(super) handed_at: Time,
}

/// How a viewer's pictures are encoded.
pub(super) enum Encoding {
    /// An encoder of its own encodes them.
    Own { lane: Box<EncoderLane>, skipper: FrameSkipper, newest: u64 },
    /// The viewer's own encoder gets no more pictures and is still encoding the last one.
    Draining(DrainingLane),
    /// A layer encodes them and delivers them under this chain number, or nobody does yet.
    Layer(u64),
}

pub(super) struct Viewer {
    pub(super) exchange: Arc<SessionExchange>,
    pub(super) member: MemberId,
    pub(super) encoding: Encoding,
    pub(super) predictor: Predictor,
    pub(super) views: Vec<View>,
    pub(super) passed: VecDeque<ForwardedInput>,
    pub(super) shown: Option<ForwardedInput>,
    pub(super) left: bool,
}

impl Viewer {
    /// Updates which input is the newest one that a picture captured at this time can show.
    pub(super) fn on_captured(&mut self, captured_at: Time) {
        while self.passed.front().is_some_and(|passed| passed.handed_at <= captured_at) {
            self.shown = self.passed.pop_front();
        }
    }

    /// Returns the input that a picture shows, and when that input arrived.
    fn shown(&self, captured: &SharedPicture) -> (InputSeq, Time) {
        self.shown.map_or((InputSeq(0), captured.captured_at), |shown| (shown.input, shown.received_at))
    }

    pub(super) fn facts(&self) -> MemberFacts {
        let target = self.exchange.stream.target();
        let is_ready = match &self.encoding {
            Encoding::Own { .. } => false,
            Encoding::Draining(lane) => lane.has_ended(),
            Encoding::Layer(_) => true,
        };
        MemberFacts {
            rate: target.encoder.rate,
            scale: target.step.scale,
            frame_rate: target.step.frame_rate,
            key: self.exchange.stream.is_key_wanted(),
            refusal: target.refusal,
            is_ready,
        }
    }

    pub(super) fn kind(&self) -> (CodecKind, DisplayKind) {
        (self.exchange.codec, self.exchange.stream.target().display)
    }

    /// Stops passing pictures to the viewer's own encoder.
    pub(super) fn end_own(&mut self) {
        if matches!(self.encoding, Encoding::Own { .. })
            && let Encoding::Own { lane, .. } = std::mem::replace(&mut self.encoding, Encoding::Layer(0))
        {
            self.encoding = Encoding::Draining(lane.end());
        }
    }

    /// Returns when a picture is expected on the viewer's display, as far as that is known.
    fn display_at(&self, captured: &SharedPicture) -> Time {
        captured.captured_at + self.exchange.stream.target().render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY)
    }

    /// Returns the views that the picture was rendered for; a single view serves both eyes. If the picture does not depend on views,
    /// returns this viewer's own.
    fn views(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size, at: Time) -> Vec<View> {
        if let Some(first) = captured.views.first() {
            return (0..usize::from(kind.1)).map(|eye| *captured.views.get(eye).unwrap_or(first)).collect();
        }
        views_at(&self.views, &self.exchange, &self.predictor, kind, size, at)
    }

    pub(super) fn recipient(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size) -> Recipient {
        let chain = if let Encoding::Layer(chain) = self.encoding { chain } else { 0 };
        let (input, input_received_at) = self.shown(captured);
        let display_at = self.display_at(captured);
        let views = self.views(captured, kind, size, display_at);
        Recipient { exchange: Arc::clone(&self.exchange), chain, input, input_received_at, display_at, views }
    }

    /// Starts an encoder for this viewer alone. The error is for the viewer.
    fn begin_own(&mut self, common: &StudioContext, size: Size, rate: Bitrate) -> Result<(), String> {
        // Frames that a layer is still encoding must not reach this viewer any more.
        self.exchange.stream.begin_chain();
        let threads = EncoderConfig::default_threads();
        let config = EncoderConfig { size, fps: common.format.fps, rate, threads };
        let (exchange, encoders) = (Arc::clone(&self.exchange), common.encoders.clone());
        let lane = match common.placement {
            EncoderPlacement::Thread => EncoderLane::start(exchange, config, common.clock, encoders)
                .map_err(|error| format!("no thread for the encoder: {error}")),
            EncoderPlacement::Inline => {
                EncoderLane::inline(exchange, config, common.clock, encoders).map_err(|error| error.to_string())
            }
        }?;
        self.encoding = Encoding::Own { lane: Box::new(lane), skipper: FrameSkipper::default(), newest: 0 };
        Ok(())
    }

    /// Decides whether the viewer's own encoder leaves a picture out, and counts it if so.
    fn skips(&mut self, target: &StreamTarget, captured: &SharedPicture, update: PictureUpdate) -> bool {
        let key_wanted = self.exchange.stream.is_key_wanted();
        let Encoding::Own { lane, skipper, newest } = &mut self.encoding else { return true };
        if update == PictureUpdate::Unchanged && *newest == captured.number && !key_wanted {
            return true;
        }
        let facts = CaptureFacts::new(target.refusal, target.step, lane.has_picture());
        let CaptureDecision::Skip(reason) = skipper.on_moment(&facts) else { return false };
        // A picture that was skipped to keep the frame rate must not be sent later.
        if reason == SkipReason::FrameRate {
            *newest = captured.number;
        }
        if update == PictureUpdate::New {
            self.exchange.skipped.on_skipped(reason);
        }
        true
    }

    /// Encodes a picture for this viewer alone, at exactly its rate. `only` says that no other viewer reads the picture. Returns whether it
    /// was encoded.
    pub(super) fn encode_own(
        &mut self,
        now: Time,
        common: &StudioContext,
        (captured, update): (&Arc<SharedPicture>, PictureUpdate),
        only: bool,
    ) -> bool {
        let target = self.exchange.stream.target();
        let kind = (target.display, common.format.views_for(target.display));
        let (seen, copies) = captured.for_eyes(kind.1);
        let source = Format { size: seen, ..common.format };
        let size = source.size_for(target.display, target.step.scale);
        match &self.encoding {
            Encoding::Own { .. } => {}
            Encoding::Draining(lane) if !lane.has_ended() => return false,
            Encoding::Draining(_) | Encoding::Layer(_) => {
                if let Err(error) = self.begin_own(common, size, target.encoder.rate) {
                    self.exchange.failure.report(error);
                    self.left = true;
                    return false;
                }
            }
        }
        if self.skips(&target, captured, update) {
            return false;
        }
        let Encoding::Own { lane, newest, .. } = &mut self.encoding else { return false };
        let Some(mut picture) = lane.poll_picture() else { return false };
        *newest = captured.number;
        let id = self.exchange.stream.take_frame_id();
        let (input, input_received_at) = self.shown(captured);
        let marker = Marker { frame: id, input };
        let Encoding::Own { lane, .. } = &mut self.encoding else { return false };
        let as_it_is = captured.size == size && seen == size && copies <= 1;
        let in_place = lane.in_place(captured, marker, only).filter(|_| as_it_is);
        if in_place.is_none() {
            picture.fit(captured.part(&captured.read(), kind.1), size, copies);
            lane.add_marker(marker, &mut picture);
        }
        let display_at = self.display_at(captured);
        let facts = PictureFacts {
            size,
            id,
            input,
            input_received_at,
            render_started_at: captured.captured_at,
            rendered_at: captured.captured_at,
            converted_at: captured.converted_at,
            display_at,
            // A picture that has been static for long is as urgent as a new one.
            deadline: captured.captured_at.max(now) + display_budget(common.format.frame_interval()),
            views: self.views(captured, kind, size, display_at),
        };
        let Encoding::Own { lane, .. } = &mut self.encoding else { return false };
        self.left = !lane.encode(EncodeJob { picture, in_place, captured: Some(Arc::clone(captured)), facts });
        true
    }
}
