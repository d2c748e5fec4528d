//! Factories of encoders and decoders: those of the libraries by default, or custom ones.

use std::fmt;
use std::sync::Arc;

use crate::{
    CodecError, CodecKind, Decoder, Encoder, EncoderConfig, EncoderDescription, describe_encoder, new_decoder,
    new_encoder,
};

type OpenDecoder = dyn Fn(CodecKind) -> Result<Box<dyn Decoder>, CodecError> + Send + Sync;

/// Creates encoders, and describes them before they are created.
pub trait EncoderFactory: Send + Sync {
    /// Describes the encoder that [`EncoderFactory::open`] would open. The error says why it could not.
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError>;

    /// Opens an encoder whose first frame will be a key frame.
    fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError>;
}

/// The libraries' encoders.
struct Libraries;

impl EncoderFactory for Libraries {
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        describe_encoder(kind, config)
    }

    fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        new_encoder(kind, config)
    }
}

/// Opens encoders.
#[derive(Clone)]
pub struct Encoders(Arc<dyn EncoderFactory>);

impl Encoders {
    /// Creates a handle whose encoders come from `factory`.
    pub fn new(factory: impl EncoderFactory + 'static) -> Self {
        Self(Arc::new(factory))
    }

    /// See [`EncoderFactory::describe`].
    pub fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        self.0.describe(kind, config)
    }

    /// See [`EncoderFactory::open`].
    pub fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        self.0.open(kind, config)
    }
}

impl Default for Encoders {
    fn default() -> Self {
        Self::new(Libraries)
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
    /// Creates a handle whose decoders come from `open`.
    pub fn new(open: impl Fn(CodecKind) -> Result<Box<dyn Decoder>, CodecError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// See [`new_decoder`].
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
