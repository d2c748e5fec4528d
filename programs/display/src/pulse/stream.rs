//! A playback stream. It buffers bytes in the client's format and converts them to the server's rate when they are due.

use std::collections::VecDeque;

use nearlight_sound::{BLOCK_FRAMES, Converter, Portion, SAMPLE_RATES, Samples, SoundBlock};
use nearlight_units::Span;
use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{SampleFormat, SampleSpec};

/// Maximum number of channels of a stream: 7.1 surround sound.
pub(crate) const MAX_CHANNELS: u8 = 8;
/// Chunks of conversion per second: 5 ms each.
const CHUNKS_PER_SECOND: u32 = 200;
/// Maximum number of bytes in a stream's buffer: more than 2 s of stereo floats at 48 kHz, the longest buffer that players are known to
/// request.
pub(crate) const MAX_BUFFERED_BYTES: usize = 1 << 20;
/// Fewest blocks of 10 ms in a buffer: one is played while the next one is on its way.
const MIN_BLOCKS: u32 = 2;
/// Blocks of 10 ms in a buffer if the client leaves its length to the server. Guess: a short delay that survives a late wake-up of the
/// client.
const DEFAULT_BLOCKS: u32 = 3;
/// Blocks of 10 ms per second.
const BLOCKS_PER_SECOND: u32 = SOUND_RATE / BLOCK_FRAMES as u32;

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The buffer is being filled. Playback begins once it holds `pre_buffering` bytes.
    Filling,
    Playing,
}

/// The result of mixing a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MixReport {
    /// Number of bytes to request from the client.
    pub(crate) requested: u32,
    /// Whether the buffer has run empty.
    pub(crate) starved: bool,
    /// The number of the client's request to drain, once everything was played.
    pub(crate) drained: Option<u32>,
    /// How long the played sound was buffered.
    pub(crate) waited: Span,
}

pub(crate) struct Stream {
    spec: SampleSpec,
    attributes: BufferAttr,
    state: State,
    corked: bool,
    /// Factors for left and right.
    volume: [f32; 2],
    muted: bool,
    buffer: VecDeque<u8>,
    /// Number of bytes that were requested and have not arrived.
    requested: u32,
    converter: Converter,
    /// Converted samples at the server's rate, interleaved.
    ready: VecDeque<f32>,
    draining: Option<u32>,
    written: u64,
    starved: bool,
}

impl Stream {
    /// Creates a stream; `None` for an unsupported format.
    pub(crate) fn new(spec: SampleSpec, attributes: BufferAttr) -> Option<Self> {
        let SampleSpec { format, channels, sample_rate } = spec;
        let known = !matches!(format, SampleFormat::Invalid | SampleFormat::Alaw | SampleFormat::Ulaw);
        if !known || channels == 0 || channels > MAX_CHANNELS || !SAMPLE_RATES.contains(&sample_rate) {
            return None;
        }
        let mut stream = Self {
            spec,
            attributes,
            state: State::Filling,
            corked: false,
            volume: [1.0; 2],
            muted: false,
            buffer: VecDeque::new(),
            requested: 0,
            converter: Converter::default(),
            ready: VecDeque::new(),
            draining: None,
            written: 0,
            starved: false,
        };
        stream.set_attributes(attributes);
        Some(stream)
    }

    /// Sets the buffer attributes, with defaults for those that the client leaves to the server, and within the server's limits.
    pub(crate) fn set_attributes(&mut self, mut requested: BufferAttr) {
        let frame = self.frame_bytes() as u32;
        let blocks = |count: u32| self.spec.sample_rate * count / BLOCKS_PER_SECOND * frame;
        let or_default = |value: u32, default: u32| if value == u32::MAX { default } else { value };
        let limit = MAX_BUFFERED_BYTES as u32;
        requested.max_length = or_default(requested.max_length, limit).clamp(blocks(MIN_BLOCKS), limit);
        requested.target_length =
            or_default(requested.target_length, blocks(DEFAULT_BLOCKS)).clamp(blocks(MIN_BLOCKS), requested.max_length);
        requested.minimum_request_length =
            or_default(requested.minimum_request_length, blocks(1)).clamp(frame, requested.target_length);
        requested.pre_buffering =
            or_default(requested.pre_buffering, requested.target_length).min(requested.target_length);
        self.attributes = requested;
    }

    pub(crate) const fn attributes(&self) -> BufferAttr {
        self.attributes
    }

    pub(crate) const fn spec(&self) -> SampleSpec {
        self.spec
    }

    /// Returns the number of bytes that the client has written, and of those that were played.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.written, self.written.saturating_sub(self.buffer.len() as u64))
    }

    pub(crate) fn is_playing(&self) -> bool {
        self.state == State::Playing && !self.corked && !self.starved
    }

    /// Returns the number of bytes to request from the client at the start.
    pub(crate) fn begin(&mut self) -> u32 {
        self.requested = self.attributes.target_length;
        self.requested
    }

    pub(crate) fn set_corked(&mut self, corked: bool) {
        self.corked = corked;
    }

    pub(crate) fn set_volume(&mut self, volume: [f32; 2]) {
        self.volume = volume.map(|factor| factor.clamp(0.0, 4.0));
    }

    pub(crate) fn set_muted(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Starts playback without waiting for more data.
    pub(crate) fn trigger(&mut self) {
        self.state = State::Playing;
    }

    pub(crate) fn flush(&mut self) {
        self.buffer.clear();
        self.ready.clear();
        self.state = State::Filling;
    }

    /// Plays everything. The client's request is answered when it was played.
    pub(crate) fn drain(&mut self, request: u32) {
        (self.draining, self.state) = (Some(request), State::Playing);
    }

    /// Buffers bytes of the client. Returns how many did not fit, and whether playback begins.
    pub(crate) fn on_bytes(&mut self, bytes: &[u8]) -> (u32, bool) {
        let room = (self.attributes.max_length as usize).saturating_sub(self.buffer.len());
        let taken = &bytes[..bytes.len().min(room)];
        self.buffer.extend(taken);
        self.written = self.written.wrapping_add(taken.len() as u64);
        self.requested = self.requested.saturating_sub(bytes.len() as u32);
        let enough = self.buffer.len() >= self.attributes.pre_buffering as usize && !self.buffer.is_empty();
        let begins = self.state == State::Filling && enough;
        if begins {
            self.state = State::Playing;
        }
        self.starved &= self.buffer.is_empty();
        ((bytes.len() - taken.len()) as u32, begins)
    }

    /// Adds the stream's next 10 ms to the block.
    pub(crate) fn mix(&mut self, block: &mut SoundBlock) -> MixReport {
        let mut played = MixReport::default();
        if self.state == State::Playing && !self.corked {
            while self.ready.len() < block.len() && self.convert() {}
            let was_starved = self.starved;
            self.starved = self.ready.len() < block.len();
            played.starved = self.starved && !was_starved && self.draining.is_none();
            let volume = if self.muted { [0.0; 2] } else { self.volume };
            let due = self.ready.len().min(block.len());
            for (index, (to, from)) in block.iter_mut().zip(self.ready.drain(..due)).enumerate() {
                *to += from * volume[index % 2];
            }
            if due > 0 {
                played.waited = self.buffered_time();
            }
            if self.starved && self.buffer.len() < self.frame_bytes() && self.ready.is_empty() {
                played.drained = self.draining.take();
            }
        }
        let there = (self.buffer.len() as u32).saturating_add(self.requested);
        let missing = self.attributes.target_length.saturating_sub(there);
        if !self.corked && missing >= self.attributes.minimum_request_length {
            self.requested += missing;
            played.requested = missing;
        }
        played
    }

    /// Returns the duration of the buffered sound.
    fn buffered_time(&self) -> Span {
        let frames = (self.buffer.len() / self.frame_bytes()) as i64;
        let converted = (self.ready.len() / 2) as i64;
        Span::from_secs(1) * frames / i64::from(self.spec.sample_rate)
            + Span::from_secs(1) * converted / i64::from(SOUND_RATE)
    }

    fn frame_bytes(&self) -> usize {
        self.spec.format.bytes_per_sample() * usize::from(self.spec.channels)
    }

    /// Converts the next chunk. Returns false if there is none. At another rate than the server's, the resampler holds back up to 3 ms,
    /// which are played with the following chunk.
    fn convert(&mut self) -> bool {
        let frame = self.frame_bytes();
        let chunk = (self.spec.sample_rate / CHUNKS_PER_SECOND) as usize;
        let there = (self.buffer.len() / frame).min(chunk);
        if there == 0 {
            return false;
        }
        let (format, channels) = (self.spec.format, usize::from(self.spec.channels));
        let bytes: Vec<u8> = self.buffer.drain(..there * frame).collect();
        let samples: Vec<f32> =
            bytes.chunks_exact(format.bytes_per_sample()).map(|bytes| sample(format, bytes)).collect();
        let frames: Vec<f32> = samples.chunks_exact(channels).flat_map(stereo).collect();
        let portion = Portion { samples: Samples::Float(&frames), channels: 2, rate: self.spec.sample_rate };
        let Ok(converted) = self.converter.convert(&portion) else { return false };
        self.ready.extend(converted);
        true
    }
}

/// Mixes down to stereo: the front pair, and half of each further channel.
fn stereo(channels: &[f32]) -> [f32; 2] {
    match channels {
        [one] => [*one; 2],
        [left, right, others @ ..] => {
            let more = others.iter().sum::<f32>() * 0.5;
            [left + more, right + more]
        }
        [] => [0.0; 2],
    }
}

/// Converts a sample to a fraction of full scale.
fn sample(format: SampleFormat, bytes: &[u8]) -> f32 {
    let word = |bytes: &[u8]| bytes.try_into().unwrap_or([0; 4]);
    // 24-bit samples are placed in the upper three bytes of a word.
    let low = |bytes: &[u8]| i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]);
    let high = |bytes: &[u8]| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], 0]);
    let long = |value: i32| value as f32 / 2_147_483_648.0;
    let short = |value: i16| f32::from(value) / 32_768.0;
    let float = |value: f32| if value.is_finite() { value.clamp(-4.0, 4.0) } else { 0.0 };
    match format {
        SampleFormat::U8 => (f32::from(bytes[0]) - 128.0) / 128.0,
        SampleFormat::S16Le => short(i16::from_le_bytes([bytes[0], bytes[1]])),
        SampleFormat::S16Be => short(i16::from_be_bytes([bytes[0], bytes[1]])),
        SampleFormat::Float32Le => float(f32::from_le_bytes(word(bytes))),
        SampleFormat::Float32Be => float(f32::from_be_bytes(word(bytes))),
        SampleFormat::S32Le => long(i32::from_le_bytes(word(bytes))),
        SampleFormat::S32Be => long(i32::from_be_bytes(word(bytes))),
        SampleFormat::S24Le | SampleFormat::S24In32Le => long(low(bytes)),
        SampleFormat::S24Be => long(high(bytes)),
        SampleFormat::S24In32Be => long(high(&bytes[1..])),
        SampleFormat::Invalid | SampleFormat::Alaw | SampleFormat::Ulaw => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::testing::{DEFAULTS, spec};

    /// Plays a tone of 1 kHz for half a second, as requests come, and returns its frequency by zero crossings and its peak.
    fn heard(format: SampleFormat, channels: u8, rate: u32) -> (f32, f32) {
        let mut stream = Stream::new(spec(format, channels, rate), DEFAULTS).expect("a format");
        let tone = |frame: u32| (frame as f32 * 1_000.0 * std::f32::consts::TAU / rate as f32).sin() * 0.5;
        let mut bytes = Vec::new();
        for frame in 0..rate / 2 {
            for _ in 0..channels {
                match format {
                    SampleFormat::U8 => bytes.push((tone(frame) * 127.0 + 128.0) as u8),
                    SampleFormat::S16Le => bytes.extend(((tone(frame) * 32_767.0) as i16).to_le_bytes()),
                    SampleFormat::Float32Be => bytes.extend(tone(frame).to_be_bytes()),
                    SampleFormat::S24Le => {
                        bytes.extend_from_slice(&((tone(frame) * 2_147_483_000.0) as i32).to_le_bytes()[1..]);
                    }
                    _ => unreachable!("not in the table"),
                }
            }
        }
        let mut rest = bytes.as_slice();
        let mut wanted = stream.begin();
        let mut heard = Vec::new();
        for _ in 0..45 {
            let (now, later) = rest.split_at(rest.len().min(wanted as usize));
            rest = later;
            stream.on_bytes(now);
            let mut block = [0.0; BLOCK_FRAMES * 2];
            wanted = stream.mix(&mut block).requested;
            heard.extend(block.chunks_exact(2).map(|frame| frame[0]));
        }
        let middle = &heard[BLOCK_FRAMES * 5..BLOCK_FRAMES * 35];
        let crossings = middle.windows(2).filter(|pair| pair[0] <= 0.0 && pair[1] > 0.0).count();
        (crossings as f32 / 0.3, middle.iter().copied().fold(0.0, f32::max))
    }

    #[test]
    fn every_format_and_rate_keeps_its_pitch_and_its_level() {
        for (format, channels, rate) in [
            (SampleFormat::S16Le, 2, 48_000),
            (SampleFormat::S16Le, 2, 44_100),
            (SampleFormat::Float32Be, 1, 22_050),
            (SampleFormat::U8, 1, 8_000),
            (SampleFormat::S24Le, 2, 96_000),
        ] {
            let (hertz, peak) = heard(format, channels, rate);
            assert!((hertz - 1_000.0).abs() < 10.0, "{format:?} at {rate}: {hertz} Hz");
            assert!((0.45..0.55).contains(&peak), "{format:?} at {rate}: {peak}");
        }
    }

    #[test]
    fn buffers_are_bounded_and_what_is_wanted_is_asked_for_once() {
        let mut stream = Stream::new(spec(SampleFormat::S16Le, 2, 48_000), DEFAULTS).expect("a format");
        assert_eq!(stream.attributes().target_length, 1_920 * DEFAULT_BLOCKS);
        assert_eq!(stream.begin(), 5_760);
        let mut block = [0.0; BLOCK_FRAMES * 2];
        assert_eq!(stream.mix(&mut block), MixReport::default(), "everything is on its way");
        assert_eq!(stream.on_bytes(&[0; 4_000]), (0, false));
        assert_eq!(stream.on_bytes(&[0; 1_760]), (0, true));
        assert_eq!(stream.mix(&mut block).requested, 1_920);
        assert_eq!(stream.mix(&mut block).requested, 1_920);
        let huge = vec![0; MAX_BUFFERED_BYTES + 9];
        let (lost, _) = stream.on_bytes(&huge);
        assert!(lost >= 9 && stream.buffer.len() <= MAX_BUFFERED_BYTES);
        let tiny =
            BufferAttr { target_length: 1, max_length: 1, pre_buffering: 1, minimum_request_length: 0, ..DEFAULTS };
        stream.set_attributes(tiny);
        assert_eq!(stream.attributes().target_length, 1_920 * MIN_BLOCKS);
        for wrong in [
            spec(SampleFormat::Invalid, 2, 48_000),
            spec(SampleFormat::U8, 0, 48_000),
            spec(SampleFormat::U8, 9, 48_000),
            spec(SampleFormat::U8, 1, 1),
        ] {
            assert!(Stream::new(wrong, DEFAULTS).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_client_writes_when_it_is_asked_waits_for_one_buffer() {
        for (target_length, blocks) in [(!0, DEFAULT_BLOCKS), (960, MIN_BLOCKS), (1_920 * 5, 5)] {
            let format = spec(SampleFormat::S16Le, 2, 48_000);
            let mut stream = Stream::new(format, BufferAttr { target_length, ..DEFAULTS }).expect("a format");
            let mut wanted = stream.begin();
            let longest = (0..200).map(|_| {
                stream.on_bytes(&vec![0; wanted as usize]);
                let played = stream.mix(&mut [0.0; BLOCK_FRAMES * 2]);
                wanted = played.requested;
                assert!(!played.starved, "of {blocks} blocks");
                played.waited
            });
            // The block itself is played by then.
            assert_eq!(longest.max(), Some(Span::from_millis(10) * i64::from(blocks - 1)), "of {blocks} blocks");
        }
    }

    #[test]
    fn a_stream_that_is_drained_says_when_all_was_played() {
        let mut stream = Stream::new(spec(SampleFormat::S16Le, 2, 48_000), DEFAULTS).expect("a format");
        stream.on_bytes(&[1; 3_000]);
        stream.drain(7);
        let mut block = [0.0; BLOCK_FRAMES * 2];
        let drained: Vec<_> = (0..4).map(|_| stream.mix(&mut block).drained).collect();
        assert_eq!(drained, [None, Some(7), None, None]);
    }

    #[test]
    fn a_muted_or_corked_stream_is_not_heard() {
        let mut stream = Stream::new(spec(SampleFormat::U8, 1, 48_000), DEFAULTS).expect("a format");
        stream.on_bytes(&[255; 4_800]);
        stream.trigger();
        let loud = |stream: &mut Stream| {
            let mut block = [0.0; BLOCK_FRAMES * 2];
            stream.mix(&mut block);
            block[100]
        };
        assert!(loud(&mut stream) > 0.9);
        stream.set_volume([0.5; 2]);
        assert!((0.4..0.6).contains(&loud(&mut stream)));
        stream.set_muted(true);
        assert!(loud(&mut stream).abs() < 1e-6);
        stream.set_muted(false);
        stream.set_corked(true);
        assert!(loud(&mut stream).abs() < 1e-6);
    }
}
