//! VP8 by libvpx.
//!
//! VP8's header cannot declare BT.709: strictly (RFC 6386 section 9.2) a decoder assumes BT.601. So the client must be informed, in a
//! browser by `VideoDecoderConfig.colorSpace`.

mod vpx;

use nearlight_units::{Bitrate, FrameId};

use self::vpx::Buffers;
use crate::references::{KeptReference, References};
use crate::{
    CodecError, Decoder, EncodedPicture, Encoder, EncoderConfig, EncoderDescription, Picture, PictureView, Reference,
    Size,
};

const CODEC: &str = "VP8";

/// Speed of the encoder (libvpx's `cpu-used`). Measured on the project's scene and on a game: -4 costs twice the time for 0.5 dB, -12 loses
/// up to 3 dB for 1 ms.
const CPU_USED: i32 = -8;

/// Rate-control buffer in milliseconds: how far the encoder may run ahead of its rate. Measured on `sample::moving_picture`, 720p at 30
/// frames per second and 4 Mb/s: the largest frame after the first is 3.3 times its share with 34 ms and 1.6 times with 100 ms, while 600
/// ms exceeds the rate by 5 %.
const BUFFER_MILLISECONDS: u32 = 100;

/// Largest key frame in percent of a frame's share. libwebrtc never goes below 300 (its `MaxIntraTarget`).
const MAX_KEY_FRAME_PERCENT: u32 = 300;

/// Encodes with one thread, in real time, at a constant rate, without lookahead, frame drops or periodic key frames.
///
/// One of the golden and the alternate buffer holds a frame that the receiver has decoded, the other one the candidate that replaces it.
/// When the outcome of a candidate is known, the next frame becomes the candidate, which costs no bits.
pub struct Vp8Encoder {
    config: EncoderConfig,
    library: vpx::Encoder,
    references: References,
    next: FrameId,
    /// The newest frame of this `library`.
    newest: Option<FrameId>,
}

impl Vp8Encoder {
    pub fn new(config: EncoderConfig) -> Result<Self, CodecError> {
        config.size.check()?;
        Ok(Self { library: open(config)?, config, references: References::default(), next: FrameId(0), newest: None })
    }

    /// Returns the frame to predict from and the buffer that holds it.
    ///
    /// It is always one buffer: on `sample::moving_picture`, 720p at 4 and 10 Mb/s, referring to the kept frame in addition to the last one
    /// costs 3 % of the time and gains nothing.
    fn prediction(&self, frame: FrameId, reference: Reference) -> (Option<FrameId>, Buffers) {
        match (reference, self.newest, self.references.usable(frame)) {
            (Reference::Newest, Some(newest), _) => (Some(newest), Buffers::LAST),
            // If two buffers hold the same picture, libvpx uses only the last one.
            (Reference::Acknowledged, Some(newest), Some(kept)) if kept.frame == newest => {
                (Some(newest), Buffers::LAST)
            }
            (Reference::Acknowledged, Some(_), Some(kept)) => (Some(kept.frame), Buffers::KEPT[usize::from(kept.slot)]),
            _ => (None, Buffers::NONE),
        }
    }
}

/// Returns the description of [`Vp8Encoder`].
pub fn describe(config: EncoderConfig) -> Result<EncoderDescription, CodecError> {
    config.size.check()?;
    Ok(EncoderDescription { name: name(), codec_string: "vp8".to_owned(), keeps_references: true })
}

fn name() -> String {
    format!("libvpx VP8 {}", vpx::version())
}

fn open(config: EncoderConfig) -> Result<vpx::Encoder, CodecError> {
    let settings = vpx::Settings {
        width: config.size.width.into(),
        height: config.size.height.into(),
        frames_per_second: config.fps.max(1).into(),
        kilobits_per_second: kilobits(config.rate),
        cpu_used: CPU_USED,
        buffer_milliseconds: BUFFER_MILLISECONDS,
        key_frame_percent: MAX_KEY_FRAME_PERCENT,
    };
    vpx::Encoder::new(config.size, &settings)
}

/// Returns a rate in kilobits per second, which libvpx multiplies by 1000 in 32 bits.
fn kilobits(rate: Bitrate) -> u32 {
    (rate.as_bps() / 1_000).clamp(1, 1_000_000) as u32
}

impl Encoder for Vp8Encoder {
    fn encode(&mut self, picture: &Picture, reference: Reference) -> Result<EncodedPicture, CodecError> {
        let frame = self.next;
        let (predicted_from, buffer) = self.prediction(frame, reference);
        if reference == Reference::Acknowledged {
            // Frames that are not acknowledged may be lost.
            self.references.candidate = None;
        }
        let slot = self.references.acknowledged.map_or(0, |kept| 1 - kept.slot);
        let keeps = self.references.candidate.is_none();
        let kept_in = if keeps { Buffers::KEPT[usize::from(slot)] } else { Buffers::NONE };
        let coded = self.library.encode(picture.view(), buffer, Buffers::LAST.and(kept_in))?;
        let nothing =
            || CodecError::Library { codec: CODEC, call: "vpx_codec_encode", reason: "no frame came out".into() };
        let vpx::Frame { bits, key, distortion } = coded.ok_or_else(nothing)?;
        let coded = EncodedPicture { bits: bits.to_vec(), reference: predicted_from.filter(|_| !key), distortion };
        self.references.on_coded(frame, coded.reference);
        (self.newest, self.next) = (Some(frame), frame.next());
        if keeps || key {
            // A key frame fills all buffers.
            let slot = if key { 0 } else { slot };
            self.references.candidate = Some(KeptReference { frame, announced_by: frame, slot });
        }
        Ok(coded)
    }

    fn on_decoded(&mut self, frame: FrameId) {
        self.references.on_decoded(frame);
    }

    fn set_rate(&mut self, rate: Bitrate) -> Result<(), CodecError> {
        self.library.set_rate(kilobits(rate))?;
        self.config.rate = rate;
        Ok(())
    }

    /// Recreates the library encoder. libvpx can change the size in place, but only a new encoder is certain to begin with a key frame.
    fn set_size(&mut self, size: Size) -> Result<(), CodecError> {
        size.check()?;
        if size != self.config.size {
            let config = EncoderConfig { size, ..self.config };
            self.library = open(config)?;
            self.config = config;
            (self.references, self.newest) = (References::default(), None);
        }
        Ok(())
    }
}

/// Decodes with one thread.
///
/// VP8 frames carry no number, so a frame whose reference never arrived decodes without error into a wrong picture: only the session knows
/// that a frame is missing. This decoder detects a first frame that is not a key frame, truncated or inconsistent bits, and every frame
/// after such an error until the next key frame.
pub struct Vp8Decoder {
    library: vpx::Decoder,
    /// Whether the last picture is a valid reference.
    synchronised: bool,
}

impl Vp8Decoder {
    pub fn new() -> Result<Self, CodecError> {
        Ok(Self { library: vpx::Decoder::new()?, synchronised: false })
    }
}

impl Decoder for Vp8Decoder {
    fn name(&self) -> String {
        name()
    }

    fn decode(&mut self, bits: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        match key_frame_size(bits)? {
            Some(size) => size.check()?,
            None if self.synchronised => {}
            None => {
                return Err(CodecError::Bits { codec: CODEC, reason: "a key frame must come first".to_owned() });
            }
        }
        self.synchronised = false;
        let picture = self.library.decode(bits)?;
        self.synchronised = picture.is_some();
        Ok(picture)
    }
}

/// Returns the size that a key frame announces, or none for other frames (RFC 6386 section 9.1).
fn key_frame_size(bits: &[u8]) -> Result<Option<Size>, CodecError> {
    let refused = |reason: &str| CodecError::Bits { codec: CODEC, reason: reason.to_owned() };
    let [tag, _, _, rest @ ..] = bits else { return Err(refused("fewer than three bytes")) };
    if tag & 1 == 1 {
        return Ok(None);
    }
    let [0x9D, 0x01, 0x2A, width_low, width_high, height_low, height_high, ..] = rest else {
        return Err(refused("a key frame without its start code"));
    };
    // The upper two bits request scaling in the display and are ignored.
    let dimension = |low: u8, high: u8| u16::from_le_bytes([low, high]) & 0x3FFF;
    Ok(Some(Size { width: dimension(*width_low, *width_high), height: dimension(*height_low, *height_high) }))
}
