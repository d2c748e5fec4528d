//! How drivers come to encoders and decoders: the libraries', unless somebody has others in mind.

use std::fmt;
use std::sync::Arc;

use crate::{CodecError, CodecKind, Decoder, Encoder, EncoderConfig, new_decoder, new_encoder};

type OpenEncoder = dyn Fn(CodecKind, EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> + Send + Sync;
type OpenDecoder = dyn Fn(CodecKind) -> Result<Box<dyn Decoder>, CodecError> + Send + Sync;

/// Opens encoders.
#[derive(Clone)]
pub struct Encoders(Arc<OpenEncoder>);

impl Encoders {
    /// Encoders as `open` makes them.
    pub fn new(
        open: impl Fn(CodecKind, EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    /// As [`new_encoder`].
    pub fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        (self.0)(kind, config)
    }
}

impl Default for Encoders {
    fn default() -> Self {
        Self::new(new_encoder)
    }
}

impl fmt::Debug for Encoders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Encoders")
    }
}

/// Opens decoders.
#[derive(Clone)]
pub struct Decoders(Arc<OpenDecoder>);

impl Decoders {
    /// Decoders as `open` makes them.
    pub fn new(open: impl Fn(CodecKind) -> Result<Box<dyn Decoder>, CodecError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// As [`new_decoder`].
    pub fn open(&self, kind: CodecKind) -> Result<Box<dyn Decoder>, CodecError> {
        (self.0)(kind)
    }
}

impl Default for Decoders {
    fn default() -> Self {
        Self::new(new_decoder)
    }
}

impl fmt::Debug for Decoders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Decoders")
    }
}
