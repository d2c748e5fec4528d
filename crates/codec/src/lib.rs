//! Pictures in, bits out, and back: encoder and decoder traits over OpenH264 and libvpx, colour conversion, PSNR and SSIM.
//!
//! Knows nothing of networks. Encoders never insert key frames of their own accord and change rate without one.

use nearlight_units::{Bitrate, Span};

/// What a stream is coded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodecKind {
    H264,
    Vp8,
}

/// Width and height in pixels, both even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

/// A 4:2:0 picture in BT.709 limited range, planes without padding: `width * height`, then twice a quarter of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub size: Size,
    pub luma: Vec<u8>,
    pub blue: Vec<u8>,
    pub red: Vec<u8>,
}

/// A decoded picture, borrowed from the decoder until its next call.
#[derive(Clone, Copy, Debug)]
pub struct PictureView<'a> {
    pub size: Size,
    pub luma: &'a [u8],
    pub blue: &'a [u8],
    pub red: &'a [u8],
    /// Bytes from one row to the next of luma and of each chroma plane.
    pub luma_stride: usize,
    pub chroma_stride: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    pub size: Size,
    pub fps: u16,
    pub rate: Bitrate,
}

/// One coded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    pub bits: Vec<u8>,
    /// Decodes without any other frame.
    pub key: bool,
}

/// Turns pictures into bits, each frame predicted from the one before it.
pub trait Encoder: Send {
    /// Library and version, for people.
    fn name(&self) -> String;
    /// WebCodecs' codec string of the stream, such as `avc1.42E01F`.
    fn codec_string(&self) -> String;
    /// Codes one picture of the configured size, as a key frame where `key` asks for it.
    fn encode(&mut self, picture: &Picture, key: bool) -> Result<Coded, CodecError>;
    /// Takes effect with the next frame and without a key frame.
    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError>;
    /// The next frame has this size; it will be a key frame.
    fn set_size(&mut self, size: Size) -> Result<(), CodecError>;
}

/// Turns bits into pictures.
pub trait Decoder: Send {
    fn name(&self) -> String;
    /// The decoded picture, or none where the decoder needs more data. Bits from the network may be damaged: an error, no panic.
    fn decode(&mut self, bits: &[u8]) -> Result<Option<PictureView<'_>>, CodecError>;
}

#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The caller's fault.
    #[error("picture of {got:?} given where {expected:?} was configured")]
    Size { expected: Size, got: Size },
    /// The stream's fault.
    #[error("the {codec} decoder refused the bits: {reason}")]
    Bits { codec: &'static str, reason: String },
    /// The library's fault.
    #[error("the {codec} library failed in {call}: {reason}")]
    Library { codec: &'static str, call: &'static str, reason: String },
}

/// How long each step took in a self-test, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub name: String,
    pub encode_median: Span,
    pub decode_median: Span,
}
