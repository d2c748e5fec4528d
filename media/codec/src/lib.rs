//! Encoder and decoder traits over OpenH264 and libvpx, colour conversion, PSNR and SSIM.
//!
//! The crate knows nothing of networks and never reads a clock. Encoders never insert key frames of their own accord, and change rate
//! without one.
//!
//! Copies of pixels: [`convert::to_picture`] reads the renderer's mapped buffer once and writes the [`Picture`]. Both libraries copy that
//! picture once more into padded memory of their own, which their interfaces do not let a caller avoid. A decoder's [`PictureView`] borrows
//! the library's memory and is not a copy.

#![deny(unsafe_code)]

pub mod convert;
mod factory;
mod h264;
pub mod image;
mod measure;
mod picture;
pub mod quality;
mod references;
mod row_pairs;
pub mod sample;
mod strip;
#[cfg(feature = "vp8")]
mod vp8;

use nearlight_units::{Bitrate, FrameId};

pub use factory::{Decoders, EncoderFactory, Encoders};
pub use measure::{CodecTimings, measure};
pub use picture::{MAX_SIDE, MIN_SIDE, Picture, PictureView, Size};
pub use references::MAX_REFERENCE_DISTANCE;

pub use nearlight_wire::{CodecKind, Reference};

/// The codecs of this build, best first.
#[cfg(feature = "vp8")]
pub const AVAILABLE_CODECS: &[CodecKind] = &CodecKind::ALL;
/// The codecs of this build, best first.
#[cfg(not(feature = "vp8"))]
pub const AVAILABLE_CODECS: &[CodecKind] = &[CodecKind::H264];

/// The initial configuration of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    pub size: Size,
    /// Frames per second, at least 1. They share the rate.
    pub fps: u16,
    pub rate: Bitrate,
    /// Threads that encode one frame, each its own slice; at least 1. VP8 uses one thread: with more, libvpx spins and is slower.
    pub threads: u8,
}

impl EncoderConfig {
    /// Returns the default number of threads: the number of processors, and at most four, which is `OpenH264`'s limit. On 16 processors of
    /// a Xeon a picture of 1280x720 takes 10.2, 7.8, 4.7 and 4.2 ms with one to four threads, and one of 1920x1080 takes 17, 16, 11 and 11
    /// ms. Four slices cost no more quality than two, 0.3 dB (bench `codec`, `slices`).
    #[must_use]
    pub fn default_threads() -> u8 {
        std::thread::available_parallelism().map_or(1, |processors| processors.get().min(4) as u8)
    }
}

/// The properties of an encoder, which are known without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderDescription {
    /// Library and version, for people.
    pub name: String,
    /// WebCodecs' codec string of the stream, such as `avc1.42C02A`, for the size that it starts with.
    pub codec_string: String,
    /// Whether [`Reference::Acknowledged`] ever yields anything but a key frame.
    pub keeps_references: bool,
}

/// One encoded frame.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedPicture {
    pub bits: Vec<u8>,
    /// The frame that this one is predicted from, at most [`MAX_REFERENCE_DISTANCE`] frames back; none for a key frame.
    pub reference: Option<FrameId>,
    /// Mean squared error of the decoded picture, in squared levels of 8-bit luma, where the library reports it. Measured at 720p: less
    /// than a tenth of a millisecond.
    pub distortion: Option<f64>,
}

impl EncodedPicture {
    /// Returns whether the frame decodes without any other frame.
    #[must_use]
    pub const fn is_key(&self) -> bool {
        self.reference.is_none()
    }
}

/// Turns pictures into bits. Neither encoder behind it refreshes pictures with intra-coded stripes.
pub trait Encoder: Send {
    /// Encodes one picture of the configured size. Frames are numbered from 0 in the order of calls; the first is a key frame.
    fn encode(&mut self, picture: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError>;
    /// Records that the receiver has decoded a frame, and all frames that it depends on. Repeated calls have no effect.
    fn on_decoded(&mut self, frame: FrameId);
    /// Sets the rate, which takes effect with the next frame and without a key frame.
    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError>;
    /// Sets the size of the following frames. The next one will be a key frame.
    fn set_size(&mut self, size: Size) -> Result<(), CodecError>;
}

/// Turns bits into pictures.
pub trait Decoder: Send {
    fn name(&self) -> String;
    /// Decodes a frame. Returns none if the decoder needs more data. Damaged bits from the network are an error and never a panic; errors
    /// continue until the next key frame.
    fn decode(&mut self, bits: &[u8]) -> Result<Option<PictureView<'_>>, CodecError>;
    /// Makes the decoder accept frames whose reference is missing, which it decodes with a substitute into a damaged picture. A decoder
    /// that does not detect missing references does so anyway.
    fn set_concealing(&mut self) {}
}

/// Opens an encoder whose first frame will be a key frame.
pub fn new_encoder(kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
    Ok(match kind {
        CodecKind::H264 => Box::new(h264::H264Encoder::new(config)?),
        #[cfg(feature = "vp8")]
        CodecKind::Vp8 => Box::new(vp8::Vp8Encoder::new(config)?),
        #[cfg(not(feature = "vp8"))]
        CodecKind::Vp8 => return Err(CodecError::NotBuiltIn { codec: kind }),
    })
}

/// Describes the encoder that [`new_encoder`] would open. The error says why it could not.
pub fn describe_encoder(kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
    match kind {
        CodecKind::H264 => h264::describe(config),
        #[cfg(feature = "vp8")]
        CodecKind::Vp8 => vp8::describe(config),
        #[cfg(not(feature = "vp8"))]
        CodecKind::Vp8 => Err(CodecError::NotBuiltIn { codec: kind }),
    }
}

/// Opens a decoder, which takes its size from the stream.
pub fn new_decoder(kind: CodecKind) -> Result<Box<dyn Decoder>, CodecError> {
    Ok(match kind {
        CodecKind::H264 => Box::new(h264::H264Decoder::new()?),
        #[cfg(feature = "vp8")]
        CodecKind::Vp8 => Box::new(vp8::Vp8Decoder::new()?),
        #[cfg(not(feature = "vp8"))]
        CodecKind::Vp8 => return Err(CodecError::NotBuiltIn { codec: kind }),
    })
}

#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The caller's fault.
    #[error(
        "{codec} was left out when this program was built: build it with the feature `{codec}`, or choose another codec"
    )]
    NotBuiltIn { codec: CodecKind },
    /// The caller's fault, or the stream's if a decoder returns it.
    #[error("pictures of {size} are not possible: {reason}")]
    Shape { size: Size, reason: &'static str },
    /// The caller's fault.
    #[error("picture of {got} given where {expected} was configured")]
    Size { expected: Size, got: Size },
    /// The caller's fault.
    #[error("{what} of {got} bytes is too small for {size}, which needs {needed}")]
    Buffer { what: &'static str, size: Size, needed: usize, got: usize },
    /// The caller's fault.
    #[error("{what} of {size} has rows of {needed} bytes, so that they cannot begin {got} bytes apart")]
    Stride { what: &'static str, size: Size, needed: usize, got: usize },
    /// The stream's fault.
    #[error("the {codec} decoder refused the bits: {reason}")]
    Bits { codec: &'static str, reason: String },
    /// The library's fault.
    #[error("the {codec} library failed in {call}: {reason}")]
    Library { codec: &'static str, call: &'static str, reason: String },
}
