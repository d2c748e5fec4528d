//! One viewer of a source that paces itself: which input its pictures show, and how they are encoded.

use std::collections::VecDeque;
use std::sync::Arc;

use nearlight_codec::{CodecKind, EncoderConfig, Size};
use nearlight_scene::predict::Predictor;
use nearlight_session::{
    CaptureDecision, CaptureFacts, FrameSkipper, MemberFacts, MemberId, PictureUpdate, SkipReason, UNKNOWN_TO_DISPLAY,
};
use nearlight_units::{InputSeq, Time};
use nearlight_wire::{DisplayKind, View, marker::Marker};

use super::Common;
use crate::encoding::{EncoderLane, EndingLane, Job, PictureFacts, Where, display_budget};
use crate::layer::Recipient;
use crate::mailbox::{Delivery, EncoderMailbox};
use crate::pictures::SharedPicture;
use crate::studio::{Format, views_at};

/// An input that was passed to the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedInput {
    pub(super) input: InputSeq,
    pub(super) received_at: Time,
    pub(super) handed_at: Time,
}

/// How a viewer's pictures are encoded.
pub(super) enum Encoding {
    /// By an encoder of its own.
    Own { lane: Box<EncoderLane>, skipper: FrameSkipper, newest: u64 },
    /// That encoder is still encoding a picture.
    Ending(EndingLane),
    /// Not at all, or by a layer that delivers under this number.
    Layer(u64),
}

pub(super) struct Viewer {
    pub(super) mailbox: Arc<EncoderMailbox>,
    pub(super) member: MemberId,
    pub(super) encoding: Encoding,
    pub(super) predictor: Predictor,
    pub(super) views: Vec<View>,
    pub(super) passed: VecDeque<PassedInput>,
    pub(super) shown: Option<PassedInput>,
    pub(super) left: bool,
}

impl Viewer {
    /// Determines what the pictures captured since then show.
    pub(super) fn on_captured(&mut self, captured_at: Time) {
        while self.passed.front().is_some_and(|passed| passed.handed_at <= captured_at) {
            self.shown = self.passed.pop_front();
        }
    }

    /// The input that a picture shows, and when that input arrived.
    fn shown(&self, captured: &SharedPicture) -> (InputSeq, Time) {
        self.shown.map_or((InputSeq(0), captured.captured_at), |shown| (shown.input, shown.received_at))
    }

    pub(super) fn facts(&self) -> MemberFacts {
        let target = self.mailbox.target();
        let is_ready = match &self.encoding {
            Encoding::Own { .. } => false,
            Encoding::Ending(lane) => lane.has_ended(),
            Encoding::Layer(_) => true,
        };
        MemberFacts {
            rate: target.encoder.rate,
            scale: target.step.scale,
            frame_rate: target.step.frame_rate,
            key: self.mailbox.is_key_wanted(),
            refusal: target.refusal,
            is_ready,
        }
    }

    pub(super) fn kind(&self) -> (CodecKind, DisplayKind) {
        (self.mailbox.codec, self.mailbox.target().display)
    }

    /// Its encoder is passed no more pictures.
    pub(super) fn end_own(&mut self) {
        if matches!(self.encoding, Encoding::Own { .. })
            && let Encoding::Own { lane, .. } = std::mem::replace(&mut self.encoding, Encoding::Layer(0))
        {
            self.encoding = Encoding::Ending(lane.end());
        }
    }

    /// When a picture is expected on its display, as far as that is known.
    fn display_at(&self, captured: &SharedPicture) -> Time {
        captured.captured_at + self.mailbox.target().render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY)
    }

    /// The views that the picture was rendered for, a single one for both eyes; if it does not depend on views, this viewer's own.
    fn views(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size, at: Time) -> Vec<View> {
        if let Some(first) = captured.views.first() {
            return (0..usize::from(kind.1)).map(|eye| *captured.views.get(eye).unwrap_or(first)).collect();
        }
        views_at(&self.views, &self.predictor, kind, size, at)
    }

    pub(super) fn recipient(&self, captured: &SharedPicture, kind: (DisplayKind, u8), size: Size) -> Recipient {
        let chain = if let Encoding::Layer(chain) = self.encoding { chain } else { 0 };
        let (input, input_received_at) = self.shown(captured);
        let display_at = self.display_at(captured);
        let views = self.views(captured, kind, size, display_at);
        Recipient { mailbox: Arc::clone(&self.mailbox), chain, input, input_received_at, display_at, views }
    }

    /// Encodes a picture for this viewer alone, at exactly its rate. True if it was encoded. `only`: nobody else reads the picture.
    pub(super) fn encode_own(
        &mut self,
        now: Time,
        common: &Common,
        (captured, update): (&Arc<SharedPicture>, PictureUpdate),
        only: bool,
    ) -> bool {
        let target = self.mailbox.target();
        let kind = (target.display, common.format.views_for(target.display));
        let (seen, copies) = captured.for_eyes(kind.1);
        let source = Format { size: seen, ..common.format };
        let size = source.size_for(target.display, target.step.scale);
        match &self.encoding {
            Encoding::Own { .. } => {}
            Encoding::Ending(lane) if !lane.has_ended() => return false,
            Encoding::Ending(_) | Encoding::Layer(_) => {
                // Frames that a layer is still encoding are no longer for it.
                self.mailbox.begin_chain();
                let threads = EncoderConfig::usual_threads();
                let config = EncoderConfig { size, fps: common.format.fps, rate: target.encoder.rate, threads };
                let (mailbox, encoders) = (Arc::clone(&self.mailbox), common.encoders.clone());
                let lane = match common.place {
                    Where::Beside => EncoderLane::start(mailbox, config, common.clock, encoders)
                        .map_err(|error| format!("no thread for the encoder: {error}")),
                    Where::Here => {
                        EncoderLane::here(mailbox, config, common.clock, encoders).map_err(|error| error.to_string())
                    }
                };
                match lane {
                    Ok(lane) => {
                        self.encoding =
                            Encoding::Own { lane: Box::new(lane), skipper: FrameSkipper::default(), newest: 0 }
                    }
                    Err(error) => {
                        self.mailbox.deliver(Delivery::Failed(error));
                        self.left = true;
                        return false;
                    }
                }
            }
        }
        let wanted = self.mailbox.is_key_wanted();
        let Encoding::Own { lane, skipper, newest } = &mut self.encoding else { return false };
        if update == PictureUpdate::Unchanged && *newest == captured.number && !wanted {
            return false;
        }
        let facts = CaptureFacts::new(target.refusal, target.step, lane.has_picture());
        if let CaptureDecision::Skip(reason) = skipper.on_moment(&facts) {
            // A picture that was skipped for the frame rate must not be sent later.
            if reason == SkipReason::FrameRate {
                *newest = captured.number;
            }
            if update == PictureUpdate::New {
                self.mailbox.on_skipped(reason);
            }
            return false;
        }
        let Some(mut picture) = lane.poll_picture() else { return false };
        *newest = captured.number;
        let id = self.mailbox.take_frame_id();
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
        self.left = !lane.encode(Job { picture, in_place, captured: Some(Arc::clone(captured)), facts });
        true
    }
}
