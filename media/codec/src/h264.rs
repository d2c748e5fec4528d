//! H.264 by OpenH264.
//!
//! The stream declares in its VUI that it is BT.709 in limited range, and that no picture is reordered, so that decoders neither guess
//! colours nor wait for a later frame.

mod bitstream;
mod encode;
mod library;
mod slice;

use nearlight_units::{Bitrate, FrameId};
use openh264::OpenH264API;
use openh264::decoder::{Decoder as LibraryDecoder, DecoderConfig as LibraryDecoderConfig};

use self::bitstream::Sequence;
use self::encode::{LibraryEncoder, MAX_FPS, bits_per_second, needs_level_5_2};
use self::slice::{LongTermMarking, ReferencePicture, Slice};
use crate::references::{CandidateOutcome, KeptReference, References};
use crate::{
    CodecError, Decoder, EncodedPicture, Encoder, EncoderConfig, EncoderDescription, Picture, PictureView, Reference,
    Size, quality,
};

const CODEC: &str = "H.264";

/// Largest sides in pixels that OpenH264 can encode (its README, "Encoder errors when resolution exceeds 3840x2160 or 2160x3840").
const MAX_ENCODER_LONG_SIDE: u16 = 3840;
const MAX_ENCODER_SHORT_SIDE: u16 = 2160;

/// Limits of level 4.2 (ITU-T H.264 table A-1) in macroblocks per picture and per second: 1080p at 60 Hz. Every hardware decoder of the
/// last decade supports it, so smaller pictures need no lower level.
const LEVEL_4_2_MACROBLOCKS_PER_PICTURE: u32 = 8_704;
const LEVEL_4_2_MACROBLOCKS_PER_SECOND: u32 = 522_240;

/// Encodes in constrained baseline profile, without frame skipping, scene-change detection or periodic key frames.
///
/// At rates that its coarsest quantiser (51) cannot reach, OpenH264 would skip frames; since that is off, frames are then larger than
/// their share and the stream exceeds its rate. Measured on `sample::moving_picture`, 720p at 30 frames a second: 1 Mb/s is held, with
/// no frame but the first above 1.2 times its share; 0.5 Mb/s is exceeded by 12 %, 0.25 Mb/s by more than a factor of two.
///
/// Frames that are kept beyond the newest are long-term references. The library chooses them itself, one at a time, and takes the next
/// after the outcome of the last was reported to it. Which frame it kept and which it predicted from is read from the bits, so that nothing
/// depends on how it decides. Measured on `sample::moving_picture`, 720p at 4 and 10 Mb/s: no cost in time or rate, and less than 0.01 dB.
/// After a recovery that is never acknowledged the library may reject a frame (code 2) instead of finding a reference. It is then
/// recreated, and that frame is a key frame.
pub struct H264Encoder {
    config: EncoderConfig,
    library: LibraryEncoder,
    /// Number of frames that this `library` has encoded.
    frames: u64,
    next: FrameId,
    references: References,
    /// Sequence parameters of the newest key frame.
    sequence: Option<Sequence>,
    key_number: u16,
    newest: Option<(FrameId, u16)>,
    /// The long-term references of the decoder, by the library's index, with their frame numbers.
    kept: [Option<(FrameId, u16)>; 2],
}

impl H264Encoder {
    pub fn new(config: EncoderConfig) -> Result<Self, CodecError> {
        check_size(config.size)?;
        Ok(Self {
            library: LibraryEncoder::new(config)?,
            config,
            frames: 0,
            next: FrameId(0),
            references: References::default(),
            sequence: None,
            key_number: 0,
            newest: None,
            kept: [None; 2],
        })
    }

    /// Prepares the library for the frame's intended reference.
    fn request_reference(&mut self, frame: FrameId, reference: Reference) -> Result<(), CodecError> {
        match (reference, self.references.usable(frame)) {
            // The first frame is a key frame anyway, and the library cannot force one before it.
            (_, _) if self.frames == 0 => Ok(()),
            (Reference::Newest, _) => Ok(()),
            (Reference::Acknowledged, Some(_)) => {
                if let Some(candidate) = self.references.candidate.take() {
                    // Frames that are not acknowledged may be lost.
                    self.report_outcome(candidate, false)?;
                }
                self.library.refer_to_kept(self.key_number)
            }
            (Reference::Acknowledged, None) | (Reference::Nothing, _) => self.library.force_key(),
        }
    }

    fn report_outcome(&mut self, kept: KeptReference, received: bool) -> Result<(), CodecError> {
        match self.kept.get(usize::from(kept.slot)).copied().flatten() {
            Some((frame, number)) if frame == kept.frame => {
                self.library.report_outcome(self.key_number, number, received)
            }
            _ => Ok(()),
        }
    }

    fn encode_picture(&mut self, view: &PictureView<'_>) -> Result<EncodedPicture, CodecError> {
        let frame = self.next;
        let milliseconds = self.frames * 1_000 / u64::from(self.config.fps.clamp(1, MAX_FPS));
        let (bits, key) = self.library.encode(view, milliseconds.cast_signed())?;
        self.frames += 1;
        let reference = self.read_references(frame, &bits, key)?;
        self.next = frame.next();
        let distortion = self.library.psnr().map(quality::error_of);
        Ok(EncodedPicture { bits, reference, distortion })
    }

    /// Recreates the library encoder, whose first frame is a key frame.
    fn reopen(&mut self, config: EncoderConfig) -> Result<(), CodecError> {
        *self = Self { next: self.next, ..Self::new(config)? };
        Ok(())
    }

    /// Reads from the bits which frame this one refers to and which one is kept.
    fn read_references(&mut self, frame: FrameId, bits: &[u8], key: bool) -> Result<Option<FrameId>, CodecError> {
        let unreadable = |reason: &str| CodecError::Library {
            codec: CODEC,
            call: "EncodeFrame",
            reason: format!("a frame whose references cannot be read: {reason}"),
        };
        if key {
            self.sequence = bitstream::inspect(bits)?.sequence;
            self.kept = [None; 2];
            self.newest = None;
        }
        let sequence = self.sequence.ok_or_else(|| unreadable("no sequence parameters"))?;
        let slice = slice::first_slice(bits, sequence).ok_or_else(|| unreadable("its header"))?;
        let reference = match slice.referred {
            None => None,
            Some(referred) => {
                Some(self.referenced_frame(referred, frame).ok_or_else(|| unreadable("a frame that is gone"))?)
            }
        };
        if let Some(number) = slice.key_number {
            self.key_number = number;
        }
        self.references.on_coded(frame, reference);
        self.store_reference(frame, slice);
        self.newest = Some((frame, slice.frame_number));
        Ok(reference)
    }

    fn referenced_frame(&self, referred: ReferencePicture, frame: FrameId) -> Option<FrameId> {
        match referred {
            // Every frame is a reference, so frame numbers increase by one per frame, like frame ids.
            ReferencePicture::Short(1) => self.newest.map(|(newest, _)| newest),
            ReferencePicture::Short(back) => frame.0.checked_sub(back).map(FrameId),
            ReferencePicture::Long(index) => self.kept.get(usize::from(index))?.map(|(kept, _)| kept),
        }
    }

    fn store_reference(&mut self, frame: FrameId, slice: Slice) {
        let (kept, slot) = match slice.mark {
            Some(LongTermMarking::Current(slot)) => ((frame, slice.frame_number), slot),
            // The library keeps no earlier frame than the preceding one.
            Some(LongTermMarking::Earlier(_, slot)) => match self.newest {
                Some(newest) => (newest, slot),
                None => return,
            },
            None => return,
        };
        if let Some(place) = self.kept.get_mut(usize::from(slot)) {
            *place = Some(kept);
            self.references.candidate = Some(KeptReference { frame: kept.0, announced_by: frame, slot });
        }
    }
}

/// Returns the description of [`H264Encoder`].
pub fn describe(config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
    check_size(config.size)?;
    // The profile and the constraints that the library writes for constrained baseline, and the requested level.
    let codec_string = if needs_level_5_2(config) { "avc1.42C034" } else { "avc1.42C02A" };
    Ok(EncoderDescription { name: name(), codec_string: codec_string.to_owned(), keeps_references: true })
}

fn name() -> String {
    format!("OpenH264 {}", library::version())
}

fn check_size(size: Size) -> Result<(), CodecError> {
    size.check()?;
    if size.width.max(size.height) > MAX_ENCODER_LONG_SIDE || size.width.min(size.height) > MAX_ENCODER_SHORT_SIDE {
        return Err(CodecError::Shape { size, reason: "OpenH264 encodes at most 3840x2160 or 2160x3840" });
    }
    Ok(())
}

impl Encoder for H264Encoder {
    fn encode(&mut self, picture: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError> {
        if picture.size != self.config.size {
            return Err(CodecError::Size { expected: self.config.size, got: picture.size });
        }
        let view = picture.view();
        view.check()?;
        self.request_reference(self.next, reference)?;
        match self.encode_picture(&view) {
            Err(_) if self.frames > 0 => {
                self.reopen(self.config)?;
                self.encode_picture(&view)
            }
            coded => coded,
        }
    }

    fn on_decoded(&mut self, frame: FrameId) {
        let settled = match self.references.on_decoded(frame) {
            Some(CandidateOutcome::Acknowledged(kept)) => self.report_outcome(kept, true),
            Some(CandidateOutcome::Abandoned(kept)) => self.report_outcome(kept, false),
            None => Ok(()),
        };
        // The library then keeps its references; a frame that it cannot predict from an old one becomes a key frame.
        drop(settled);
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        let config = EncoderConfig { rate, ..self.config };
        let (old, new) = (bits_per_second(self.config), bits_per_second(config));
        if self.frames == 0 {
            self.library = LibraryEncoder::new(config)?;
        } else if old != new {
            self.library.set_rate(config, new > old)?;
        }
        self.config = config;
        Ok(())
    }

    /// Recreates the library encoder: its own resizing would revert to the rate that it was created with.
    fn set_size(&mut self, size: Size) -> Result<(), CodecError> {
        check_size(size)?;
        if size != self.config.size {
            self.reopen(EncoderConfig { size, ..self.config })?;
        }
        Ok(())
    }
}

/// Decodes on the caller's thread, one access unit in Annex B format per call. Error concealment is off unless enabled.
///
/// OpenH264 notices a missing reference by the gap in the frame numbers; from then on, as after any damage, every frame is an error
/// until the next key frame. It does not notice a lost frame that nothing refers to.
pub struct H264Decoder {
    library: LibraryDecoder,
    /// Whether the last picture is a valid reference.
    synchronised: bool,
    /// Whether pictures are accepted for which the library reports a missing reference.
    conceals: bool,
    /// Whether the library has rejected a frame, or returned no picture for one, since it was created.
    damaged: bool,
}

impl H264Decoder {
    pub fn new() -> Result<Self, CodecError> {
        Ok(Self { library: Self::new_library()?, synchronised: false, conceals: false, damaged: false })
    }

    fn new_library() -> Result<LibraryDecoder, CodecError> {
        // The wrapper's default has error concealment off and no threads.
        LibraryDecoder::with_api_config(OpenH264API::from_source(), LibraryDecoderConfig::new())
            .map_err(|error| CodecError::Library { codec: CODEC, call: "create", reason: error.to_string() })
    }

    /// Recreates the library decoder. The state that a damaged frame leaves behind can make the library reject an intact key frame, even
    /// though such a frame has its own parameter sets and depends on no earlier one.
    fn reopen(&mut self) -> Result<(), CodecError> {
        self.library = Self::new_library()?;
        self.damaged = false;
        if self.conceals {
            self.conceals = library::conceal(&mut self.library);
        }
        Ok(())
    }
}

impl Decoder for H264Decoder {
    fn name(&self) -> String {
        name()
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
        if self.damaged && unit.key && unit.sequence.is_some() {
            self.reopen()?;
        }
        match library::decode(&mut self.library, bits, self.conceals) {
            Ok(picture) => {
                self.synchronised |= unit.picture && picture.is_some();
                // The library reports no error for some truncated frames.
                self.damaged |= unit.picture && picture.is_none();
                Ok(picture)
            }
            Err(error) => {
                self.damaged = true;
                Err(error)
            }
        }
    }

    fn set_concealing(&mut self) {
        self.conceals = library::conceal(&mut self.library);
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
            let promised = describe(config).unwrap().codec_string;
            let coded = encoder.encode(&sample::moving_picture(size, 0), Reference::Newest).unwrap();
            let unit = bitstream::inspect(&coded.bits).unwrap();
            assert!(unit.key && coded.is_key());
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
