//! H.264 by OpenH264.
//!
//! The stream says in its VUI that it is BT.709 in limited range, and that no picture is reordered, so that decoders neither guess
//! colours nor wait for a later frame.

mod bitstream;
mod encode;
mod library;

use nearlight_units::Bitrate;
use openh264::OpenH264API;
use openh264::decoder::{Decoder as LibraryDecoder, DecoderConfig as LibraryDecoderConfig};

use self::encode::{LibraryEncoder, bits_per_second, needs_level_5_2};
use crate::{CodecError, Coded, Decoder, Encoder, EncoderConfig, Picture, PictureView, Size};

const CODEC: &str = "H.264";

/// What OpenH264 can encode (its README, "Encoder errors when resolution exceeds 3840x2160 or 2160x3840").
const ENCODER_LONG_SIDE: u16 = 3840;
const ENCODER_SHORT_SIDE: u16 = 2160;

/// Level 4.2 (ITU-T H.264 table A-1): pictures of 8704 macroblocks, 522,240 of them a second, so 1080p at 60 Hz. Every hardware
/// decoder of the last decade plays it, so smaller pictures need no lower one.
const LEVEL_4_2_PICTURE: u32 = 8_704;
const LEVEL_4_2_SECOND: u32 = 522_240;

/// Encodes in constrained baseline profile, without frame skipping, scene-change detection or periodic key frames.
///
/// At rates that its coarsest quantiser (51) cannot reach, OpenH264 would skip frames; since that is off, frames are then larger than
/// their share and the stream exceeds its rate. Measured on `sample::moving_picture`, 720p at 30 frames a second: 1 Mb/s is held, with
/// no frame but the first above 1.2 times its share; 0.5 Mb/s is exceeded by 12 %, 0.25 Mb/s by more than a factor of two.
pub struct H264Encoder {
    config: EncoderConfig,
    library: LibraryEncoder,
    /// Frames coded by this `library`.
    frames: u64,
}

impl H264Encoder {
    pub fn new(config: EncoderConfig) -> Result<Self, CodecError> {
        check_size(config.size)?;
        Ok(Self { library: LibraryEncoder::new(config)?, config, frames: 0 })
    }
}

fn check_size(size: Size) -> Result<(), CodecError> {
    size.check()?;
    if size.width.max(size.height) > ENCODER_LONG_SIDE || size.width.min(size.height) > ENCODER_SHORT_SIDE {
        return Err(CodecError::Shape { size, reason: "OpenH264 encodes at most 3840x2160 or 2160x3840" });
    }
    Ok(())
}

impl Encoder for H264Encoder {
    fn name(&self) -> String {
        format!("OpenH264 {}", library::version())
    }

    /// Profile and constraints of what the library writes for constrained baseline, and the level asked for.
    fn codec_string(&self) -> String {
        if needs_level_5_2(self.config) { "avc1.42C034" } else { "avc1.42C02A" }.to_owned()
    }

    fn encode(&mut self, picture: &Picture, key: bool) -> Result<Coded, CodecError> {
        if picture.size != self.config.size {
            return Err(CodecError::Size { expected: self.config.size, got: picture.size });
        }
        let view = picture.view();
        view.check()?;
        // Before its first frame, a key frame by nature, the library has nothing to force.
        if key && self.frames > 0 {
            self.library.force_key()?;
        }
        let milliseconds = self.frames * 1_000 / u64::from(self.config.fps.max(1));
        let coded = self.library.encode(&view, milliseconds.cast_signed())?;
        self.frames += 1;
        Ok(coded)
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        let (old, new) = (bits_per_second(self.config.rate), bits_per_second(rate));
        let config = EncoderConfig { rate, ..self.config };
        if self.frames == 0 {
            self.library = LibraryEncoder::new(config)?;
        } else if old != new {
            self.library.set_rate(rate, new > old)?;
        }
        self.config = config;
        Ok(())
    }

    /// A new library encoder: its own way to change size would go back to the rate that it was made with.
    fn set_size(&mut self, size: Size) -> Result<(), CodecError> {
        check_size(size)?;
        if size != self.config.size {
            let config = EncoderConfig { size, ..self.config };
            self.library = LibraryEncoder::new(config)?;
            self.config = config;
            self.frames = 0;
        }
        Ok(())
    }
}

/// Decodes with the caller's thread, one access unit in Annex B format per call, error concealment off.
///
/// OpenH264 notices a missing reference by the gap in the frame numbers; from then on, as after any damage, every frame is an error
/// until the next key frame. It does not notice a lost frame that nothing refers to.
pub struct H264Decoder {
    library: LibraryDecoder,
    /// The last picture is good to refer to.
    synchronised: bool,
}

impl H264Decoder {
    pub fn new() -> Result<Self, CodecError> {
        // The wrapper's default has error concealment off and no threads.
        let library = LibraryDecoder::with_api_config(OpenH264API::from_source(), LibraryDecoderConfig::new())
            .map_err(|error| CodecError::Library { codec: CODEC, call: "create", reason: error.to_string() })?;
        Ok(Self { library, synchronised: false })
    }
}

impl Decoder for H264Decoder {
    fn name(&self) -> String {
        format!("OpenH264 {}", library::version())
    }

    fn decode(&mut self, bits: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        let unit = bitstream::inspect(bits)?;
        if !unit.picture && unit.sequence.is_none() {
            return Err(bitstream::refused("neither a picture nor sequence parameters"));
        }
        if unit.picture && !unit.key && !self.synchronised {
            return Err(bitstream::refused("a key frame must come first"));
        }
        self.synchronised &= !unit.picture;
        let picture = library::decode(&mut self.library, bits)?;
        self.synchronised |= unit.picture && picture.is_some();
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn codec_string_is_what_the_stream_says() {
        let cases =
            [(640, 360, 30, 1), (1280, 720, 30, 60), (1920, 1080, 60, 20), (1920, 1080, 90, 20), (2560, 1440, 60, 40)];
        for (width, height, fps, rate) in cases {
            let size = Size { width, height };
            let config = EncoderConfig { size, fps, rate: Bitrate::from_mbps(rate), threads: 1 };
            let mut encoder = H264Encoder::new(config).unwrap();
            let promised = encoder.codec_string();
            let coded = encoder.encode(&sample::moving_picture(size, 0), false).unwrap();
            let unit = bitstream::inspect(&coded.bits).unwrap();
            assert!(unit.key && coded.key);
            assert_eq!(unit.sequence.unwrap().codec_string(), promised, "{config:?}");
        }
    }

    #[test]
    fn sizes_beyond_the_library_are_refused() {
        for (width, height) in [(3842, 2160), (2162, 2162), (16, 4096)] {
            let config =
                EncoderConfig { size: Size { width, height }, fps: 30, rate: Bitrate::from_mbps(1), threads: 1 };
            assert!(H264Encoder::new(config).is_err(), "{width}x{height}");
        }
    }
}
