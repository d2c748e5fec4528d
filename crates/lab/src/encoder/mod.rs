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
pub use real::{Camera, Film, Quality, Screen};

use crate::plan;

/// A frame that is to be coded.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Counted from 0, including skipped frames.
    pub number: u32,
    pub at: Time,
    pub rate: Bitrate,
    pub reference: Reference,
    /// The newest frame that the receiver is known to have decoded, counted from 0 in the order of coding.
    pub acknowledged: Option<FrameId>,
    /// Of the picture's sides, above 0 and at most 1.
    pub scale: f64,
}

impl Capture {
    /// A picture in its full size, predicted from the one before it or a key frame.
    #[must_use]
    pub const fn plain(number: u32, at: Time, rate: Bitrate, key: bool) -> Self {
        let reference = if key { Reference::Nothing } else { Reference::Newest };
        Self { number, at, rate, reference, acknowledged: None, scale: 1.0 }
    }
}

/// A coded frame.
#[derive(Clone, Debug)]
pub struct Coded {
    pub bits: Cow<'static, [u8]>,
    /// The frame that it is predicted from; none for a key frame.
    pub reference: Option<FrameId>,
    pub distortion: Distortion,
}

impl Coded {
    #[must_use]
    pub const fn is_key(&self) -> bool {
        self.reference.is_none()
    }
}

/// Codes frame after frame; the time that it takes is the plan's.
pub trait FrameEncoder: Send {
    fn encode(&mut self, capture: &Capture) -> Result<Coded, CodecError>;
}

/// The encoder of a plan, and what decodes its frames where there are pictures to decode.
pub fn new_encoder(source: &plan::Source, seed: u64) -> Result<(Box<dyn FrameEncoder>, Option<Screen>), CodecError> {
    Ok(match &source.encoder {
        plan::Encoder::Model(options) => (Box::new(Model::new(*options, source.fps, source.bounds.start, seed)), None),
        plan::Encoder::Codec { kind, size, content } => {
            let film = Film::new(*content, *size);
            let camera = Camera::new(*kind, film.clone(), source.fps, source.bounds.start)?;
            (Box::new(camera), Some(Screen::new(*kind, film)?))
        }
    })
}
