//! A real codec that encodes moving pictures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use nearlight_codec::quality::PictureDifference;
use nearlight_codec::{
    CodecError, CodecKind, Decoder, Encoder, EncoderConfig, Picture, Size, new_decoder, new_encoder, quality, sample,
};
use nearlight_session::Distortion;
use nearlight_units::{Bitrate, lock};

use super::{Capture, CodedFrame, FrameEncoder, game, resize};
use crate::plan::Content;

/// Pictures kept for comparison, in frames: as many as may be in flight, encoded or waiting. Guess: two seconds at 30 a second.
const MAX_COMPARED_PICTURES: usize = 64;

/// Pictures by capture number, the newest last.
type RecentPictures = VecDeque<(u32, Arc<Picture>)>;

/// Draws the pictures of a plan, each of them once: encoder and quality meter share them.
#[derive(Clone, Debug)]
pub struct PictureSource {
    content: Content,
    size: Size,
    newest: Arc<Mutex<RecentPictures>>,
}

impl PictureSource {
    #[must_use]
    pub fn new(content: Content, size: Size) -> Self {
        Self { content, size, newest: Arc::default() }
    }

    /// Returns picture `number`, drawn at the first call.
    fn picture(&self, number: u32) -> Arc<Picture> {
        let mut newest = lock(&self.newest);
        if let Some((_, picture)) = newest.iter().find(|(known, _)| *known == number) {
            return Arc::clone(picture);
        }
        let picture = Arc::new(match self.content {
            Content::Sample => sample::moving_picture(self.size, number),
            Content::Game => game::picture(self.size, number),
        });
        if newest.len() == MAX_COMPARED_PICTURES {
            newest.pop_front();
        }
        newest.push_back((number, Arc::clone(&picture)));
        picture
    }
}

/// Encodes the pictures of a [`PictureSource`] with a real codec.
pub struct PictureEncoder {
    pictures: PictureSource,
    config: EncoderConfig,
    encoder: Box<dyn Encoder>,
    change: PictureDifference,
}

impl PictureEncoder {
    pub fn new(kind: CodecKind, pictures: PictureSource, fps: u16, rate: Bitrate) -> Result<Self, CodecError> {
        // A single thread: with more, libraries may code the same picture differently.
        let config = EncoderConfig { size: pictures.size, fps, rate, threads: 1 };
        let encoder = new_encoder(kind, config)?;
        Ok(Self { pictures, config, encoder, change: PictureDifference::default() })
    }

    /// The nearest size with even sides; a library's smallest picture is a macroblock.
    fn size_at(&self, scale: f64) -> Size {
        let side = |full: u16| ((f64::from(full) * scale / 2.0).round() as u16 * 2).clamp(16, full.max(16));
        Size { width: side(self.pictures.size.width), height: side(self.pictures.size.height) }
    }
}

impl FrameEncoder for PictureEncoder {
    fn encode(&mut self, capture: &Capture) -> Result<CodedFrame, CodecError> {
        if capture.rate != self.config.rate {
            self.config.rate = capture.rate;
            self.encoder.set_rate(capture.rate)?;
        }
        let size = self.size_at(capture.scale);
        if size != self.config.size {
            self.config.size = size;
            self.encoder.set_size(size)?;
        }
        if let Some(frame) = capture.acknowledged {
            self.encoder.on_decoded(frame);
        }
        let picture = self.pictures.picture(capture.number);
        let frozen = self.change.on_picture(picture.view());
        let reference = capture.reference;
        let coded = if size == self.pictures.size {
            self.encoder.encode(&picture, reference)?
        } else {
            self.encoder.encode(&resize::picture(picture.view(), size), reference)?
        };
        let distortion = Distortion { coded: coded.distortion, frozen };
        Ok(CodedFrame { reference: coded.reference, bits: coded.bits.into(), distortion })
    }
}

/// How close a decoded picture is to its original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Peak signal-to-noise ratio of luma in dB, at most 100.
    pub psnr: f64,
    pub ssim: f64,
}

/// Decodes frames, enlarges them to the full size and compares them with their originals.
pub struct QualityMeter {
    pictures: PictureSource,
    decoder: Box<dyn Decoder>,
    enlarged: Picture,
}

impl QualityMeter {
    pub fn new(kind: CodecKind, pictures: PictureSource) -> Result<Self, CodecError> {
        Ok(Self { decoder: new_decoder(kind)?, enlarged: Picture::new(pictures.size), pictures })
    }

    /// The decoder continues if a reference is missing.
    pub fn set_concealing(&mut self) {
        self.decoder.set_concealing();
    }

    /// Returns the quality of a frame that shows capture `number`. None if the decoder rejects the bits or has no picture yet.
    pub fn decode(&mut self, bits: &[u8], number: u32) -> Option<Quality> {
        let picture = self.decoder.decode(bits).ok()??;
        let source = self.pictures.picture(number);
        let shown = if picture.size == self.pictures.size {
            picture
        } else {
            resize::luma(picture, &mut self.enlarged);
            self.enlarged.view()
        };
        let (psnr, ssim) = (quality::psnr(shown, source.view()), quality::ssim(shown, source.view()));
        Some(Quality { psnr: psnr.ok()?.min(100.0), ssim: ssim.ok()? })
    }
}
