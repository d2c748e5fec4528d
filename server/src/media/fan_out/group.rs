//! Viewers with the same codec and kind of display, and the layers that they share.

use std::sync::Arc;

use nearlight_codec::{CodecKind, EncoderConfig};
use nearlight_session::{LayerFrame, MAX_LAYERS, PictureUpdate, SharedStatistics, Simulcast};
use nearlight_units::Time;
use nearlight_wire::DisplayKind;

use super::StudioContext;
use super::viewer::{Encoding, Viewer};
use crate::media::encoding::EncoderPlacement;
use crate::media::layer::{LayerEncoder, LayerJob, Recipient};
use crate::media::pictures::SharedPicture;
use crate::media::studio::Format;

/// Viewers who can receive the same frames.
pub(super) struct ViewerGroup {
    pub(super) kind: (CodecKind, DisplayKind),
    pub(super) simulcast: Simulcast,
    pub(super) layers: [Option<LayerEncoder>; MAX_LAYERS],
    pub(super) viewers: Vec<Viewer>,
    /// The counts of `simulcast` at the last update of the metrics.
    pub(super) counted: SharedStatistics,
}

impl ViewerGroup {
    /// Offers a picture to all viewers of the group. `only` says that there is no other group. Returns how many pictures went to viewers'
    /// own encoders.
    pub(super) fn offer(
        &mut self,
        now: Time,
        common: &StudioContext,
        (captured, update): (&Arc<SharedPicture>, PictureUpdate),
        only: bool,
    ) -> u64 {
        let single = self.viewers.len() == 1;
        for viewer in &mut self.viewers {
            viewer.on_captured(captured.captured_at);
            if !single {
                viewer.end_own();
            }
            if viewer.exchange.stream.take_chain_broken() {
                self.simulcast.on_not_delivered(now, viewer.member);
            }
            self.simulcast.set_facts(now, viewer.member, viewer.facts());
        }
        self.simulcast.set_pixels(captured.size.pixels() as u32, common.format.fps);
        let busy: [bool; MAX_LAYERS] =
            std::array::from_fn(|slot| self.layers[slot].as_ref().is_some_and(LayerEncoder::is_busy));
        let plan = self.simulcast.on_picture(now, update, busy);
        for (encoder, live) in self.layers.iter_mut().zip(plan.live) {
            if !live {
                *encoder = None;
            }
        }
        if update == PictureUpdate::New {
            for (member, reason) in &plan.skipped {
                if let Some(viewer) = self.viewers.iter().find(|viewer| viewer.member == *member) {
                    viewer.exchange.skipped.on_skipped(*reason);
                }
            }
        }
        for frame in plan.frames {
            self.encode(common, captured, &frame);
        }
        let alone = plan.alone.and_then(|alone| self.viewers.iter_mut().find(|viewer| viewer.member == alone));
        alone.map_or(0, |viewer| u64::from(viewer.encode_own(now, common, (captured, update), single && only)))
    }

    fn encode(&mut self, common: &StudioContext, captured: &Arc<SharedPicture>, frame: &LayerFrame) {
        let (codec, display) = self.kind;
        let eyes = common.format.views_for(display);
        let source = Format { size: captured.for_eyes(eyes).0, ..common.format };
        let size = source.size_for(display, frame.scale);
        let slot = &mut self.layers[frame.layer];
        if slot.is_none() {
            let threads = EncoderConfig::default_threads();
            let config = EncoderConfig { size, fps: common.format.fps, rate: frame.rate, threads };
            let encoder = match common.placement {
                EncoderPlacement::Thread => LayerEncoder::start(codec, config, common.clock, common.encoders.clone()),
                EncoderPlacement::Inline => Ok(LayerEncoder::inline(codec, config, common.clock, &common.encoders)),
            };
            match encoder {
                Ok(encoder) => *slot = Some(encoder),
                Err(error) => {
                    for viewer in &mut self.viewers {
                        viewer.exchange.failure.report(format!("no thread for the encoder: {error}"));
                        viewer.left = true;
                    }
                    return;
                }
            }
        }
        let recipients = self.viewers.iter_mut().filter(|viewer| frame.members.contains(&viewer.member));
        let recipients = recipients.map(|viewer| {
            if frame.joined.contains(&viewer.member) {
                viewer.encoding = Encoding::Layer(viewer.exchange.stream.begin_chain());
            }
            viewer.recipient(captured, (display, eyes), size)
        });
        let recipients: Vec<Recipient> = recipients.collect();
        let (captured, rate, key) = (Arc::clone(captured), frame.rate, frame.key);
        let job = LayerJob { captured, size, eyes, rate, key, recipients };
        if slot.as_mut().is_some_and(|encoder| !encoder.encode(job)) {
            // The failed encoder has informed its recipients. A new one begins with a key frame.
            *slot = None;
            for viewer in &self.viewers {
                if frame.members.contains(&viewer.member) {
                    self.simulcast.on_not_delivered(common.clock.now(), viewer.member);
                }
            }
        }
    }
}
