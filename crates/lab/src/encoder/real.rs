//! A codec that really runs, on a picture that moves.

use nearlight_codec::{
    CodecError, CodecKind, Decoder, Encoder, EncoderConfig, Reference, Size, new_decoder, new_encoder, quality, sample,
};
use nearlight_units::Bitrate;

use super::{Capture, Coded, FrameEncoder};

/// Films the moving picture and codes it.
pub struct Camera {
    size: Size,
    rate: Bitrate,
    encoder: Box<dyn Encoder>,
}

impl Camera {
    pub fn new(kind: CodecKind, size: Size, fps: u16, rate: Bitrate) -> Result<Self, CodecError> {
        // A single thread: with more, libraries may code the same picture differently.
        let encoder = new_encoder(kind, EncoderConfig { size, fps, rate, threads: 1 })?;
        Ok(Self { size, rate, encoder })
    }
}

impl FrameEncoder for Camera {
    fn encode(&mut self, capture: &Capture) -> Result<Coded, CodecError> {
        if capture.rate != self.rate {
            self.rate = capture.rate;
            self.encoder.set_rate(capture.rate)?;
        }
        let reference = if capture.key { Reference::Nothing } else { Reference::Newest };
        let coded = self.encoder.encode(&sample::moving_picture(self.size, capture.number), reference)?;
        Ok(Coded { key: coded.is_key(), bits: coded.bits })
    }
}

/// How close a decoded picture is to the one that was filmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// In dB.
    pub psnr: f64,
    pub ssim: f64,
}

/// Decodes and compares.
pub struct Screen {
    size: Size,
    decoder: Box<dyn Decoder>,
}

impl Screen {
    pub fn new(kind: CodecKind, size: Size) -> Result<Self, CodecError> {
        Ok(Self { size, decoder: new_decoder(kind)? })
    }

    /// None where the decoder refuses the bits or has no picture yet; `number` is the capture that they were made of.
    pub fn decode(&mut self, bits: &[u8], number: u32) -> Option<Quality> {
        let picture = self.decoder.decode(bits).ok()??;
        let source = sample::moving_picture(self.size, number);
        let (psnr, ssim) = (quality::psnr(picture, source.view()), quality::ssim(picture, source.view()));
        Some(Quality { psnr: psnr.ok()?.min(100.0), ssim: ssim.ok()? })
    }
}
