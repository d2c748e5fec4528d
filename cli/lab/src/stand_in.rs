//! Substitute for rendering and encoding when a plan of the lab runs over a real path: both ends agree on it beforehand.

use std::str::FromStr;
use std::thread;
use std::time::Duration;

use nearlight_codec::{
    CodecError, CodecKind, Decoder, Decoders, EncodedPicture, Encoder, EncoderConfig, EncoderDescription,
    EncoderFactory, Encoders, Picture, PictureView, Reference, Size, describe_encoder, new_encoder, sample,
};
use nearlight_lab::{Capture, Model, ModelOptions};
use nearlight_net::Clock;
use nearlight_units::{Bitrate, FrameId, Span};
use serde::{Deserialize, Serialize};

/// The replacement of the codec in a server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StandIn {
    /// The lab's model of frame sizes in place of a codec; it takes `encode` for each frame.
    Model { options: ModelOptions, start: Bitrate, encode: Span, seed: u64 },
    /// The lab's moving picture, through the codec itself.
    #[serde(rename = "film")]
    MovingPicture,
}

impl FromStr for StandIn {
    type Err = serde_json::Error;

    /// Parses JSON, the form in which the lab passes it to the server's process.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

impl StandIn {
    pub(crate) fn encoders(self, clock: Clock) -> Encoders {
        Encoders::new(StandInEncoders { stand_in: self, clock })
    }
}

struct StandInEncoders {
    stand_in: StandIn,
    clock: Clock,
}

impl EncoderFactory for StandInEncoders {
    /// Neither keeps references, as in the lab.
    fn describe(&self, kind: CodecKind, config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        match self.stand_in {
            StandIn::Model { .. } => Ok(EncoderDescription {
                name: "the lab's model of frame sizes".into(),
                codec_string: "model".into(),
                keeps_references: false,
            }),
            StandIn::MovingPicture => {
                Ok(EncoderDescription { keeps_references: false, ..describe_encoder(kind, config)? })
            }
        }
    }

    fn open(&self, kind: CodecKind, config: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(match self.stand_in {
            StandIn::Model { options, start, encode, seed } => {
                let model = Model::new(options, config.fps, start, seed);
                Box::new(ModelEncoder { model, clock: self.clock, rate: config.rate, encode, number: 0 })
            }
            StandIn::MovingPicture => Box::new(MovingPictureEncoder::open(kind, config)?),
        })
    }
}

/// Decoders of the model's frames: each takes `decode` and gives an empty picture.
pub(crate) fn model_decoders(decode: Span) -> Decoders {
    const SIZE: Size = Size { width: 64, height: 64 };
    Decoders::new(move |_| Ok(Box::new(ModelDecoder { decode, picture: Picture::new(SIZE) })))
}

/// Blocks this thread; returns at once if the span is negative.
pub(crate) fn take_time(span: Span) {
    #[expect(clippy::disallowed_methods, reason = "a thread of its own keeps real time, as a plan asks for it")]
    thread::sleep(Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(0)));
}

struct ModelEncoder {
    model: Model,
    clock: Clock,
    rate: Bitrate,
    encode: Span,
    number: u32,
}

impl Encoder for ModelEncoder {
    fn on_decoded(&mut self, _: FrameId) {}

    fn encode(&mut self, _: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError> {
        // The first frame of a stream is a key frame, as with every encoder.
        let before = self.number.checked_sub(1).map(FrameId).filter(|_| reference == Reference::Newest);
        let capture = Capture::plain(self.number, self.clock.now(), self.rate, before.is_none());
        self.number += 1;
        take_time(self.encode);
        Ok(EncodedPicture { bits: vec![0; self.model.size(&capture)], reference: before, distortion: None })
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        self.rate = rate;
        Ok(())
    }

    fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
        Ok(())
    }
}

struct ModelDecoder {
    decode: Span,
    picture: Picture,
}

impl Decoder for ModelDecoder {
    fn name(&self) -> String {
        "the lab's model".into()
    }

    fn decode(&mut self, _: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        take_time(self.decode);
        Ok(Some(self.picture.view()))
    }
}

/// Encodes the lab's moving picture and ignores its input.
struct MovingPictureEncoder {
    encoder: Box<dyn Encoder>,
    size: Size,
    number: u32,
}

impl MovingPictureEncoder {
    fn open(kind: CodecKind, config: EncoderConfig) -> Result<Self, CodecError> {
        // A single thread, as in the lab.
        let encoder = new_encoder(kind, EncoderConfig { threads: 1, ..config })?;
        Ok(Self { encoder, size: config.size, number: 0 })
    }
}

impl Encoder for MovingPictureEncoder {
    fn on_decoded(&mut self, _: FrameId) {}

    fn encode(&mut self, _: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError> {
        let picture = sample::moving_picture(self.size, self.number);
        self.number += 1;
        self.encoder.encode(&picture, reference)
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        self.encoder.set_rate(rate)
    }

    fn set_size(&mut self, size: Size) -> Result<(), CodecError> {
        self.size = size;
        self.encoder.set_size(size)
    }
}

/// The clock of this process, or the one that a plan's runs share: nanoseconds of the machine's clock at its zero.
pub(crate) fn clock(origin: Option<u64>) -> Clock {
    let clock = Clock::start();
    let elapsed =
        |origin| nearlight_emulate::machine_time().saturating_since(nearlight_units::Time::from_nanos(origin));
    origin.map_or(clock, |origin| clock.started_earlier(elapsed(origin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_read_what_the_lab_writes() {
        let start = Bitrate::from_mbps(15);
        let model = StandIn::Model { options: ModelOptions::default(), start, encode: Span::from_millis(6), seed: 3 };
        for stand_in in [model, StandIn::MovingPicture] {
            let text = serde_json::to_string(&stand_in).expect("plain data");
            assert_eq!(serde_json::from_str::<StandIn>(&text).expect("JSON"), stand_in, "{text}");
        }
    }

    #[test]
    fn the_model_fills_its_share_of_the_rate() {
        let clock = Clock::start();
        let options = ModelOptions { deviation: 0.0, ..ModelOptions::default() };
        let start = Bitrate::from_mbps(8);
        let model = StandIn::Model { options, start, encode: Span::ZERO, seed: 1 };
        let size = Size { width: 64, height: 64 };
        let config = EncoderConfig { size, fps: 100, rate: start, threads: 1 };
        let mut encoder = model.encoders(clock).open(CodecKind::H264, config).expect("a model");
        let picture = Picture::new(size);
        let frames: Vec<EncodedPicture> =
            (0..200).map(|_| encoder.encode(&picture, Reference::Newest).expect("no library")).collect();
        assert!(frames[0].is_key() && !frames[1].is_key());
        // 8 Mb/s in 100 frames a second.
        assert_eq!(frames[199].bits.len(), 10_000);
        let mut decoder = model_decoders(Span::ZERO).open(CodecKind::H264).expect("a model");
        assert!(decoder.decode(&frames[0].bits).expect("any bits").is_some());
    }

    #[test]
    fn a_shared_clock_reads_the_same_everywhere() {
        let origin = nearlight_emulate::machine_time();
        let (one, other) = (clock(Some(origin.as_nanos())), clock(Some(origin.as_nanos())));
        assert!((one.now() - other.now()).abs() < Span::from_secs(1));
    }
}
