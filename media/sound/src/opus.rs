//! Opus (RFC 6716) by libopus: one packet for each block of ten milliseconds.
//!
//! The low-delay mode looks ahead by 2.5 ms only. It has no redundancy of its own (that of RFC 6716 section 2.1.7 exists in the speech
//! modes alone), so senders over a lossy path repeat packets.

use nearlight_units::{Bitrate, Span};
use nearlight_wire::{MAX_SOUND_PACKET_BYTES, SOUND_PAUSE, SOUND_RATE};
use opusic_c as opus;

use crate::{BLOCK_FRAMES, SoundBlock};

/// Complexity of the encoder, 0 to 10. Guess: the middle. docs/results/live.md has its cost.
const COMPLEXITY: u8 = 5;

/// Largest amplitude that counts as silence: half a step of 16 bits, which is inaudible and which most sources cannot represent.
const MAX_SILENT_AMPLITUDE: f32 = 0.5 / 32_768.0;
/// Blocks of silence that are still encoded, so that the previous sound fades out in the decoder: 200 ms, as libopus waits before its
/// discontinuous transmission (`NB_SPEECH_FRAMES_BEFORE_DTX`).
const MIN_ENCODED_SILENT_BLOCKS: u32 = 20;
/// Blocks in a row in which a pause is announced, in case datagrams are lost, and the interval of later announcements in blocks: 400 ms, as
/// in libopus (`MAX_CONSECUTIVE_DTX`).
const PAUSE_ANNOUNCEMENTS: u32 = 3;
const ANNOUNCEMENT_INTERVAL_BLOCKS: u32 = 40;

/// Returns the name of the library and its version.
#[must_use]
pub fn version() -> &'static str {
    opus::version()
}

/// An error of encoding or decoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpusError {
    /// A failure of the library, or a rate that it does not accept.
    #[error("Opus failed to {what}: {reason}")]
    Library { what: &'static str, reason: String },
    /// An invalid packet in the stream.
    #[error("an Opus packet does not decode to ten milliseconds of stereo: {0}")]
    Packet(String),
}

fn library(what: &'static str) -> impl Fn(opus::ErrorCode) -> OpusError {
    move |code| OpusError::Library { what, reason: format!("{code:?}") }
}

/// Encodes one listener's sound.
pub struct SoundEncoder {
    encoder: opus::Encoder,
    rate: Bitrate,
    look_ahead: Span,
    /// Silent blocks in a row so far.
    silent: u32,
}

impl SoundEncoder {
    /// Opens an encoder with about this mean rate, which spends more on loud moments and less on silence.
    pub fn new(rate: Bitrate) -> Result<Self, OpusError> {
        let mut encoder =
            opus::Encoder::new(opus::Channels::Stereo, opus::SampleRate::Hz48000, opus::Application::LowDelay)
                .map_err(library("open an encoder"))?;
        encoder.set_complexity(COMPLEXITY).map_err(library("set its effort"))?;
        encoder.set_vbr(true).map_err(library("vary its rate"))?;
        let samples = encoder.get_look_ahead().map_err(library("tell its look-ahead"))?;
        let look_ahead = Span::from_nanos(i64::from(samples) * 1_000_000_000 / i64::from(SOUND_RATE));
        let mut encoder = Self { encoder, rate: Bitrate::ZERO, look_ahead, silent: 0 };
        encoder.set_rate(rate)?;
        Ok(encoder)
    }

    /// Returns the delay that encoding and decoding add to each sample.
    #[must_use]
    pub const fn look_ahead(&self) -> Span {
        self.look_ahead
    }

    /// Sets the rate, which takes effect with the next block.
    pub fn set_rate(&mut self, rate: Bitrate) -> Result<(), OpusError> {
        if rate != self.rate {
            let bits = u32::try_from(rate.as_bps()).unwrap_or(u32::MAX);
            self.encoder.set_bitrate(opus::Bitrate::Value(bits)).map_err(library("set its rate"))?;
            self.rate = rate;
        }
        Ok(())
    }

    /// Returns whether there is a pause: the receiver knows of the silence, and silent blocks are not encoded.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.silent >= MIN_ENCODED_SILENT_BLOCKS
    }

    /// Encodes one block. Returns none within a pause, of which [`SOUND_PAUSE`] has informed the receiver. Most pauses last long and cost
    /// almost nothing.
    pub fn encode(&mut self, block: &SoundBlock) -> Result<Option<Vec<u8>>, OpusError> {
        if block.iter().any(|sample| sample.abs() >= MAX_SILENT_AMPLITUDE) {
            self.silent = 0;
        } else if let Some(paused) = self.silent.checked_sub(MIN_ENCODED_SILENT_BLOCKS) {
            // Wraps to the end of the announcements, so that the count never overflows.
            self.silent = MIN_ENCODED_SILENT_BLOCKS
                + if paused + 1 < ANNOUNCEMENT_INTERVAL_BLOCKS * 2 { paused + 1 } else { ANNOUNCEMENT_INTERVAL_BLOCKS };
            let announced = paused < PAUSE_ANNOUNCEMENTS || paused.is_multiple_of(ANNOUNCEMENT_INTERVAL_BLOCKS);
            return Ok(announced.then(|| SOUND_PAUSE.to_vec()));
        } else {
            self.silent += 1;
        }
        let mut packet = vec![0; MAX_SOUND_PACKET_BYTES];
        let length = self.encoder.encode_float_to_slice(block, &mut packet).map_err(library("code a block"))?;
        packet.truncate(length);
        Ok(Some(packet))
    }
}

/// Decodes one stream.
pub struct SoundDecoder(opus::Decoder);

impl SoundDecoder {
    pub fn new() -> Result<Self, OpusError> {
        let decoder = opus::Decoder::new(opus::Channels::Stereo, opus::SampleRate::Hz48000);
        decoder.map(Self).map_err(library("open a decoder"))
    }

    /// Decodes a packet. Packets from the network may contain anything: the result is an error, never a panic.
    pub fn decode(&mut self, packet: &[u8]) -> Result<SoundBlock, OpusError> {
        let mut block = [0.0; BLOCK_FRAMES * 2];
        if packet.is_empty() {
            return Err(OpusError::Packet("it is empty".into()));
        }
        let decoded = self.0.decode_float_to_slice(packet, &mut block, false);
        match decoded {
            Ok(BLOCK_FRAMES) => Ok(block),
            Ok(frames) => Err(OpusError::Packet(format!("it holds {frames} samples"))),
            Err(code) => Err(OpusError::Packet(format!("{code:?}"))),
        }
    }
}
