//! A codec that really runs, on a picture that moves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nearlight_codec::quality::Change;
use nearlight_codec::{
    CodecError, CodecKind, Decoder, Encoder, EncoderConfig, Picture, Size, new_decoder, new_encoder, quality, sample,
};
use nearlight_session::Distortion;
use nearlight_units::Bitrate;

use super::{Capture, Coded, FrameEncoder, game, resize};
use crate::plan::Content;

/// Pictures that are kept for comparison: what may be on the way, coded and waiting. Guess: two seconds at 30 a second.
const KEPT: usize = 64;

/// Pictures by their moments, the newest last.
type Newest = VecDeque<(u32, Arc<Picture>)>;

/// What is filmed, so that each picture is drawn once.
#[derive(Clone, Debug)]
pub struct Film {
    content: Content,
    size: Size,
    newest: Arc<Mutex<Newest>>,
}

impl Film {
    #[must_use]
    pub fn new(content: Content, size: Size) -> Self {
        Self { content, size, newest: Arc::default() }
    }

    /// The picture of a moment.
    fn picture(&self, number: u32) -> Arc<Picture> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, picture)) = newest.iter().find(|(known, _)| *known == number) {
            return Arc::clone(picture);
        }
        let picture = Arc::new(match self.content {
            Content::Sample => sample::moving_picture(self.size, number),
            Content::Game => game::picture(self.size, number),
        });
        if newest.len() == KEPT {
            newest.pop_front();
        }
        newest.push_back((number, Arc::clone(&picture)));
        picture
    }
}

/// Films and codes.
pub struct Camera {
    film: Film,
    config: EncoderConfig,
    encoder: Box<dyn Encoder>,
    change: Change,
}

impl Camera {
    pub fn new(kind: CodecKind, film: Film, fps: u16, rate: Bitrate) -> Result<Self, CodecError> {
        // A single thread: with more, libraries may code the same picture differently.
        let config = EncoderConfig { size: film.size, fps, rate, threads: 1 };
        let encoder = new_encoder(kind, config)?;
        Ok(Self { film, config, encoder, change: Change::default() })
    }

    /// The nearest size with even sides; a library's smallest picture is a macroblock.
    fn size_at(&self, scale: f64) -> Size {
        let side = |full: u16| ((f64::from(full) * scale / 2.0).round() as u16 * 2).clamp(16, full.max(16));
        Size { width: side(self.film.size.width), height: side(self.film.size.height) }
    }
}

impl FrameEncoder for Camera {
    fn encode(&mut self, capture: &Capture) -> Result<Coded, CodecError> {
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
        let picture = self.film.picture(capture.number);
        let frozen = self.change.on_picture(picture.view());
        let reference = capture.reference;
        let coded = if size == self.film.size {
            self.encoder.encode(&picture, reference)?
        } else {
            self.encoder.encode(&resize::picture(picture.view(), size), reference)?
        };
        let distortion = Distortion { coded: coded.distortion, frozen };
        Ok(Coded { reference: coded.reference, bits: coded.bits.into(), distortion })
    }
}

/// How close a decoded picture is to the one that was filmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// In dB.
    pub psnr: f64,
    pub ssim: f64,
}

/// Decodes, enlarges and compares.
pub struct Screen {
    film: Film,
    decoder: Box<dyn Decoder>,
    enlarged: Picture,
}

impl Screen {
    pub fn new(kind: CodecKind, film: Film) -> Result<Self, CodecError> {
        Ok(Self { decoder: new_decoder(kind)?, enlarged: Picture::new(film.size), film })
    }

    /// The decoder continues if a reference is missing.
    pub fn set_concealing(&mut self) {
        self.decoder.set_concealing();
    }

    /// None where the decoder refuses the bits or has no picture yet; `number` is the capture that they were made of.
    pub fn decode(&mut self, bits: &[u8], number: u32) -> Option<Quality> {
        let picture = self.decoder.decode(bits).ok()??;
        let source = self.film.picture(number);
        let shown = if picture.size == self.film.size {
            picture
        } else {
            resize::luma(picture, &mut self.enlarged);
            self.enlarged.view()
        };
        let (psnr, ssim) = (quality::psnr(shown, source.view()), quality::ssim(shown, source.view()));
        Some(Quality { psnr: psnr.ok()?.min(100.0), ssim: ssim.ok()? })
    }
}
