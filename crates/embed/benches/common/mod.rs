//! What the measurements of the path share.

use nearlight_codec::{
    CodecError, CodecKind, Coded, Encoder, EncoderConfig, EncoderDescription, EncoderFactory, Encoders,
    Picture as Planes, Reference,
};
use nearlight_embed::{Bitrate, Size, Span};
use nearlight_units::FrameId;

/// Bytes of the stub's frames: 20 Mb/s at 60 a second.
const FRAME: usize = 40_000;

/// The median and the 95th percentile, in microseconds.
pub fn quantiles(spans: &[Span]) -> String {
    let mut sorted: Vec<i64> = spans.iter().map(|span| span.as_micros()).collect();
    sorted.sort_unstable();
    let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
    format!("{} ({})", at(50), at(95))
}

/// Answers bits that no decoder takes, in no time.
struct Stub(Vec<u8>);

struct Stubs;

/// Encoders that take no time.
pub fn stub_encoders() -> Encoders {
    Encoders::new(Stubs)
}

impl EncoderFactory for Stubs {
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        Encoders::default().describe(kind, config)
    }

    fn open(&self, _: CodecKind, _: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(Stub(vec![7; FRAME])))
    }
}

impl Encoder for Stub {
    fn encode(&mut self, _: &Planes, _: Reference) -> Result<Coded, CodecError> {
        Ok(Coded { bits: self.0.as_slice().into(), reference: None, distortion: None })
    }

    fn on_decoded(&mut self, _: FrameId) {}

    fn set_rate(&mut self, _: Bitrate) -> Result<(), CodecError> {
        Ok(())
    }

    fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
        Ok(())
    }
}
