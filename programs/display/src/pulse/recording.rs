//! A recording stream: the viewer's microphone in the client's format.

use nearlight_sound::{BLOCK_FRAMES, Converter, Portion, SAMPLE_RATES, Samples, SoundBlock};
use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::stream::BufferAttr;

use crate::pulse::format::StreamFormat;
use crate::pulse::samples::encode;
use crate::pulse::stream::MAX_BUFFERED_BYTES;

/// Blocks of 10 ms per fragment if the client leaves its size to the server. Guess: a short delay with few wake-ups.
const DEFAULT_BLOCKS: u32 = 2;
/// Maximum number of blocks of 10 ms per fragment. Guess: speech that is 200 ms late is still usable.
const MAX_BLOCKS: u32 = 20;
/// Maximum number of bytes of a fragment that is longer than a block. Guess: two of them fit into a socket's buffer.
const MAX_FRAGMENT_BYTES: u32 = 128 * 1_024;
const BLOCKS_PER_SECOND: u32 = SOUND_RATE / BLOCK_FRAMES as u32;

pub(crate) struct Recording {
    format: StreamFormat,
    attributes: BufferAttr,
    corked: bool,
    converter: Converter,
    buffer: Vec<u8>,
    sent: u64,
}

impl Recording {
    /// Creates a recording; `None` for an unsupported rate.
    pub(crate) fn new(format: StreamFormat, attributes: BufferAttr) -> Option<Self> {
        if !SAMPLE_RATES.contains(&reciprocal_rate(format.spec.sample_rate)) {
            return None;
        }
        let (converter, buffer) = (Converter::default(), Vec::new());
        let mut recording = Self { format, attributes, corked: false, converter, buffer, sent: 0 };
        recording.set_attributes(attributes);
        Some(recording)
    }

    /// Sets the buffer attributes, with defaults for those that the client leaves to the server, and within the server's limits.
    pub(crate) fn set_attributes(&mut self, requested: BufferAttr) {
        let blocks = |count: u32| self.format.spec.sample_rate * count / BLOCKS_PER_SECOND * self.frame_bytes();
        let fragment =
            if requested.fragment_size == u32::MAX { blocks(DEFAULT_BLOCKS) } else { requested.fragment_size };
        let fragment_size = fragment.clamp(blocks(1), blocks(MAX_BLOCKS).min(MAX_FRAGMENT_BYTES).max(blocks(1)));
        self.attributes = BufferAttr { max_length: MAX_BUFFERED_BYTES as u32, fragment_size, ..requested };
    }

    pub(crate) const fn attributes(&self) -> BufferAttr {
        self.attributes
    }

    pub(crate) const fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// Returns the number of bytes sent to the client.
    pub(crate) const fn position(&self) -> u64 {
        self.sent
    }

    pub(crate) fn set_corked(&mut self, corked: bool) {
        self.corked = corked;
        self.flush();
    }

    pub(crate) const fn is_running(&self) -> bool {
        !self.corked
    }

    pub(crate) fn flush(&mut self) {
        self.buffer.clear();
    }

    /// Adds the microphone's next 10 ms. Returns the bytes to send if they make up a fragment.
    pub(crate) fn on_block(&mut self, block: &SoundBlock) -> Option<Vec<u8>> {
        if self.corked {
            return None;
        }
        let portion = Portion {
            samples: Samples::Float(block),
            channels: 2,
            rate: reciprocal_rate(self.format.spec.sample_rate),
        };
        let converted = self.converter.convert(&portion).ok()?;
        let spec = self.format.spec;
        for frame in converted.chunks_exact(2) {
            for channel in 0..usize::from(spec.channels) {
                let sample = if spec.channels == 1 { f32::midpoint(frame[0], frame[1]) } else { frame[channel % 2] };
                encode(spec.format, sample, &mut self.buffer);
            }
        }
        if self.buffer.len() < self.attributes.fragment_size as usize {
            return None;
        }
        self.sent += self.buffer.len() as u64;
        Some(std::mem::take(&mut self.buffer))
    }

    fn frame_bytes(&self) -> u32 {
        self.format.frame_bytes() as u32
    }
}

/// Returns the rate from which conversion to [`SOUND_RATE`] has the same ratio as conversion from [`SOUND_RATE`] to `rate`. The error of
/// rounding is at most 4 ppm.
fn reciprocal_rate(rate: u32) -> u32 {
    let square = u64::from(SOUND_RATE) * u64::from(SOUND_RATE);
    u32::try_from((square + u64::from(rate) / 2) / u64::from(rate.max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::testing::{DEFAULTS, format};
    use pulseaudio::protocol::SampleFormat;

    /// Half a second of 1 kHz, as a client gets it in one channel of 16 bits.
    fn recorded(rate: u32) -> Vec<i16> {
        let mut recording = Recording::new(format(SampleFormat::S16Le, 1, rate), DEFAULTS).expect("a format");
        let tone = |frame: usize| (frame as f32 * 1_000.0 * std::f32::consts::TAU / SOUND_RATE as f32).sin() * 0.5;
        let blocks = (0..50).map(|block| std::array::from_fn(|index| tone(block * BLOCK_FRAMES + index / 2)));
        let bytes: Vec<u8> = blocks.filter_map(|block| recording.on_block(&block)).flatten().collect();
        assert_eq!(recording.position(), bytes.len() as u64);
        bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn every_rate_keeps_its_pitch_and_its_level() {
        for rate in [16_000, 44_100, 48_000, 96_000] {
            let samples = recorded(rate);
            let tenth = rate as usize / 10;
            let middle = &samples[tenth..tenth * 4];
            let crossings = middle.windows(2).filter(|pair| pair[0] <= 0 && pair[1] > 0).count();
            assert!((299..=301).contains(&crossings), "{rate}: {crossings} periods in 300 ms");
            let peak = middle.iter().max().expect("samples");
            assert!((15_000..17_500).contains(peak), "{rate}: {peak}");
            assert!(samples.len() > rate as usize * 9 / 20, "{rate}: {} samples", samples.len());
        }
    }

    #[test]
    fn fragments_have_the_length_that_was_asked_for_within_limits() {
        let stereo = format(SampleFormat::Float32Le, 2, 48_000);
        for (asked, fragment) in [(!0, 7_680), (1, 3_840), (10_000, 10_000), (1 << 30, 76_800)] {
            let attributes = BufferAttr { fragment_size: asked, ..DEFAULTS };
            let mut recording = Recording::new(stereo, attributes).expect("a format");
            assert_eq!(recording.attributes().fragment_size, fragment, "{asked}");
            let blocks = (1..=30).find_map(|count| recording.on_block(&[0.5; BLOCK_FRAMES * 2]).map(|_| count));
            assert_eq!(blocks, Some(fragment.div_ceil(3_840)), "{asked}");
        }
        let slow = format(SampleFormat::U8, 1, 8_000);
        assert!(Recording::new(slow, DEFAULTS).is_none(), "below the lowest rate");
    }

    #[test]
    fn a_corked_stream_records_nothing() {
        let mut recording = Recording::new(format(SampleFormat::U8, 1, 48_000), DEFAULTS).expect("a format");
        let block = [1.0; BLOCK_FRAMES * 2];
        assert_eq!(recording.on_block(&block), None, "half of what is sent at once");
        recording.set_corked(true);
        assert_eq!(recording.on_block(&block), None);
        recording.set_corked(false);
        assert_eq!(recording.on_block(&block), None, "from before the pause, nothing is left");
        assert_eq!(recording.on_block(&block), Some(vec![255; 960]));
    }
}
