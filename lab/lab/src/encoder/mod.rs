//! Encoders: a model of frame sizes, or a real codec.

pub mod game;
mod model;
mod real;
pub mod resize;

use std::borrow::Cow;

use nearlight_codec::{CodecError, Reference};
use nearlight_session::Distortion;
use nearlight_units::{Bitrate, FrameId, Time};

pub use model::Model;
pub use real::{PictureEncoder, PictureSource, Quality, QualityMeter};

use crate::plan;

/// A captured frame, before it is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Counted from 0, including skipped frames.
    pub number: u32,
    pub at: Time,
    pub rate: Bitrate,
    pub reference: Reference,
    /// The newest frame that the receiver is known to have decoded; numbers count encoded frames from 0.
    pub acknowledged: Option<FrameId>,
    /// Factor of the picture's width and height, above 0 and at most 1.
    pub scale: f64,
}

impl Capture {
    /// Returns a capture in full size, predicted from the previous frame unless `key`.
    #[must_use]
    pub const fn plain(number: u32, at: Time, rate: Bitrate, key: bool) -> Self {
        let reference = if key { Reference::Nothing } else { Reference::Newest };
        Self { number, at, rate, reference, acknowledged: None, scale: 1.0 }
    }
}

/// An encoded frame.
#[derive(Clone, Debug)]
pub struct CodedFrame {
    pub bits: Cow<'static, [u8]>,
    /// The frame that it is predicted from; None for a key frame.
    pub reference: Option<FrameId>,
    pub distortion: Distortion,
}

impl CodedFrame {
    #[must_use]
    pub const fn is_key(&self) -> bool {
        self.reference.is_none()
    }
}

/// Encodes frames in order. Encoding takes no virtual time of its own; the plan states how long it lasts.
pub trait FrameEncoder: Send {
    fn encode(&mut self, capture: &Capture) -> Result<CodedFrame, CodecError>;
}

/// Returns the encoder of a plan, and the quality meter if the encoder is a real codec.
pub fn new_encoder(
    source: &plan::Source,
    seed: u64,
) -> Result<(Box<dyn FrameEncoder>, Option<QualityMeter>), CodecError> {
    Ok(match &source.encoder {
        plan::Encoder::Model(options) => (Box::new(Model::new(*options, source.fps, source.bounds.start, seed)), None),
        plan::Encoder::Codec { kind, size, content } => {
            let pictures = PictureSource::new(*content, *size);
            let encoder = PictureEncoder::new(*kind, pictures.clone(), source.fps, source.bounds.start)?;
            (Box::new(encoder), Some(QualityMeter::new(*kind, pictures)?))
        }
    })
}
