//! A playback stream. It buffers bytes in the client's format and converts them to the server's rate when they are due.

use std::collections::VecDeque;

use nearlight_sound::{BLOCK_FRAMES, Converter, Portion, SAMPLE_RATES, Samples, SoundBlock};
use nearlight_units::Span;
use nearlight_wire::SOUND_RATE;
use pulseaudio::protocol::ChannelVolume;
use pulseaudio::protocol::stream::BufferAttr;

use crate::pulse::channels::gains;
use crate::pulse::format::StreamFormat;
use crate::pulse::samples::decode;

/// Chunks of conversion per second: 5 ms each.
const CHUNKS_PER_SECOND: u32 = 200;
/// Maximum number of bytes in a stream's buffer: more than 2 s of stereo floats at 48 kHz, the longest buffer that players are known to
/// request, and 40 ms of 32 channels at 192 kHz.
pub(crate) const MAX_BUFFERED_BYTES: usize = 1 << 20;
/// Largest gain of a channel. Guess: players amplify up to 150 %, which the protocol's cubic scale makes 3.4.
const MAX_GAIN: f32 = 4.0;
/// Fewest blocks of 10 ms in a buffer: one is played while the next one is on its way.
const MIN_BLOCKS: u32 = 2;
/// Blocks of 10 ms in a buffer if the client leaves its length to the server. Guess: a short delay that survives a late wake-up of the
/// client.
const DEFAULT_BLOCKS: u32 = 3;
/// Blocks of 10 ms to which a buffer grows whose length the client leaves to the server, if it runs empty: the client writes in portions
/// that do not fit, or wakes up late. Guess: ffmpeg's portions of 23 ms then leave most of the buffer filled.
const MAX_DEFAULT_BLOCKS: u32 = 10;
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
    /// How long the played sound was buffered: the longest time since the buffer was last empty.
    pub(crate) waited: Span,
}

#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on one another")]
pub(crate) struct Stream {
    format: StreamFormat,
    attributes: BufferAttr,
    /// Whether the client leaves the buffer's length to the server.
    adapts: bool,
    state: State,
    corked: bool,
    /// The volume that the client has set.
    volume: ChannelVolume,
    /// For each channel, its gains left and right: those of its position, by its volume.
    gains: Vec<[f32; 2]>,
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
    /// The longest time for which sound was buffered since the buffer was last empty.
    longest_wait: Span,
}

impl Stream {
    pub(crate) fn new(format: StreamFormat, attributes: BufferAttr) -> Self {
        let mut stream = Self {
            format,
            attributes,
            adapts: false,
            state: State::Filling,
            corked: false,
            volume: ChannelVolume::empty(),
            gains: Vec::new(),
            muted: false,
            buffer: VecDeque::new(),
            requested: 0,
            converter: Converter::default(),
            ready: VecDeque::new(),
            draining: None,
            written: 0,
            starved: false,
            longest_wait: Span::ZERO,
        };
        stream.set_attributes(attributes);
        stream.set_volume(ChannelVolume::norm(format.spec.channels));
        stream
    }

    /// Sets the buffer attributes, with defaults for those that the client leaves to the server, and within the server's limits.
    pub(crate) fn set_attributes(&mut self, mut requested: BufferAttr) {
        let frame = self.frame_bytes() as u32;
        let blocks = |count: u32| self.format.spec.sample_rate * count / BLOCKS_PER_SECOND * frame;
        let or_default = |value: u32, default: u32| if value == u32::MAX { default } else { value };
        let limit = MAX_BUFFERED_BYTES as u32;
        self.adapts = requested.target_length == u32::MAX;
        requested.max_length = or_default(requested.max_length, limit).clamp(blocks(MIN_BLOCKS), limit);
        requested.target_length =
            or_default(requested.target_length, blocks(DEFAULT_BLOCKS)).clamp(blocks(MIN_BLOCKS), requested.max_length);
        requested.minimum_request_length =
            or_default(requested.minimum_request_length, blocks(1)).clamp(frame, requested.target_length);
        // Playback begins while the last request is unanswered: clients that write fixed portions, such as ffmpeg, cannot fill the buffer to
        // its end, and would wait for ever. PulseAudio has the same limit.
        let pre_buffering = requested.target_length - requested.minimum_request_length + frame;
        requested.pre_buffering = or_default(requested.pre_buffering, pre_buffering).min(pre_buffering);
        self.attributes = requested;
    }

    pub(crate) const fn attributes(&self) -> BufferAttr {
        self.attributes
    }

    pub(crate) const fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// Changes the rate at which the buffered and all further samples are played. Returns whether the rate is supported.
    pub(crate) fn set_rate(&mut self, rate: u32) -> bool {
        let supported = SAMPLE_RATES.contains(&rate);
        if supported {
            self.format.spec.sample_rate = rate;
        }
        supported
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

    /// Sets the channels' volumes. The last one also applies to channels without one.
    pub(crate) fn set_volume(&mut self, volume: ChannelVolume) {
        self.volume = volume;
        let volumes = volume.channels();
        let alone = self.format.spec.channels == 1;
        let gains = self.format.positions().enumerate().map(|(channel, position)| {
            let volume = volumes.get(channel).or(volumes.last()).map_or(1.0, pulseaudio::protocol::Volume::to_linear);
            gains(position, alone).map(|gain| gain * volume.clamp(0.0, MAX_GAIN))
        });
        self.gains = gains.collect();
    }

    pub(crate) const fn volume(&self) -> ChannelVolume {
        self.volume
    }

    pub(crate) fn set_muted(&mut self, muted: bool) {
        self.muted = muted;
    }

    pub(crate) const fn is_muted(&self) -> bool {
        self.muted
    }

    pub(crate) const fn is_corked(&self) -> bool {
        self.corked
    }

    /// Starts playback without waiting for more data.
    pub(crate) fn trigger(&mut self) {
        self.state = State::Playing;
    }

    pub(crate) fn flush(&mut self) {
        self.longest_wait = Span::ZERO;
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
            if played.starved && self.adapts {
                self.lengthen();
            }
            let gain = if self.muted { 0.0 } else { 1.0 };
            let due = self.ready.len().min(block.len());
            for (to, from) in block.iter_mut().zip(self.ready.drain(..due)) {
                *to += from * gain;
            }
            // A client that refills its buffer in large portions would otherwise make the sound's delay jump, and listeners follow it.
            self.longest_wait = if self.starved { Span::ZERO } else { self.longest_wait.max(self.buffered_time()) };
            if due > 0 {
                played.waited = self.longest_wait;
            }
            if self.starved && self.buffer.len() < self.frame_bytes() && self.ready.is_empty() {
                played.drained = self.draining.take();
            }
        }
        let there = (self.buffer.len() as u32).saturating_add(self.requested);
        let missing = self.attributes.target_length.saturating_sub(there);
        // A client whose buffer is empty may wait for less than a minimum request.
        if !self.corked && (missing >= self.attributes.minimum_request_length || (self.starved && missing > 0)) {
            self.requested += missing;
            played.requested = missing;
        }
        played
    }

    /// Doubles the buffer's length within its limits.
    fn lengthen(&mut self) {
        let frame = self.frame_bytes() as u32;
        let longest = self.format.spec.sample_rate * MAX_DEFAULT_BLOCKS / BLOCKS_PER_SECOND * frame;
        let length = self.attributes.target_length;
        self.attributes.target_length = (length * 2).min(longest).min(self.attributes.max_length).max(length);
    }

    /// Returns the duration of the buffered sound.
    pub(crate) fn buffered_time(&self) -> Span {
        let frames = (self.buffer.len() / self.frame_bytes()) as i64;
        let converted = (self.ready.len() / 2) as i64;
        Span::from_secs(1) * frames / i64::from(self.format.spec.sample_rate)
            + Span::from_secs(1) * converted / i64::from(SOUND_RATE)
    }

    fn frame_bytes(&self) -> usize {
        self.format.frame_bytes()
    }

    /// Converts the next chunk. Returns false if there is none. At another rate than the server's, the resampler holds back up to 3 ms,
    /// which are played with the following chunk.
    fn convert(&mut self) -> bool {
        let frame = self.frame_bytes();
        let chunk = (self.format.spec.sample_rate / CHUNKS_PER_SECOND) as usize;
        let there = (self.buffer.len() / frame).min(chunk);
        if there == 0 {
            return false;
        }
        let format = self.format.spec.format;
        let bytes: Vec<u8> = self.buffer.drain(..there * frame).collect();
        let mix_down = |bytes: &[u8]| {
            let mut stereo = [0.0; 2];
            for (bytes, [left, right]) in bytes.chunks_exact(format.bytes_per_sample()).zip(&self.gains) {
                let sample = decode(format, bytes);
                stereo = [stereo[0] + sample * left, stereo[1] + sample * right];
            }
            stereo
        };
        let frames: Vec<f32> = bytes.chunks_exact(frame).flat_map(mix_down).collect();
        let portion = Portion { samples: Samples::Float(&frames), channels: 2, rate: self.format.spec.sample_rate };
        let Ok(converted) = self.converter.convert(&portion) else { return false };
        self.ready.extend(converted);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pulse::samples::encode;
    use crate::pulse::testing::{DEFAULTS, format};
    use pulseaudio::protocol::{ChannelMap, ChannelPosition, SampleFormat, SampleSpec, Volume};

    /// Plays a tone of 1 kHz for half a second, as requests come, and returns its frequency by zero crossings and its peak.
    fn heard(samples: SampleFormat, channels: u8, rate: u32) -> (f32, f32) {
        let mut stream = Stream::new(format(samples, channels, rate), DEFAULTS);
        let tone = |frame: u32| (frame as f32 * 1_000.0 * std::f32::consts::TAU / rate as f32).sin() * 0.5;
        let mut bytes = Vec::new();
        for frame in 0..rate / 2 {
            for _ in 0..channels {
                encode(samples, tone(frame), &mut bytes);
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
            (SampleFormat::Ulaw, 1, 8_000),
            (SampleFormat::Alaw, 2, 16_000),
            (SampleFormat::S24In32Be, 2, 44_100),
        ] {
            let (hertz, peak) = heard(format, channels, rate);
            assert!((hertz - 1_000.0).abs() < 10.0, "{format:?} at {rate}: {hertz} Hz");
            assert!((0.45..0.55).contains(&peak), "{format:?} at {rate}: {peak}");
        }
    }

    #[test]
    fn buffers_are_bounded_and_what_is_wanted_is_asked_for_once() {
        let mut stream = Stream::new(format(SampleFormat::S16Le, 2, 48_000), DEFAULTS);
        assert_eq!(stream.attributes().target_length, 1_920 * DEFAULT_BLOCKS);
        assert_eq!(stream.begin(), 5_760);
        let mut block = [0.0; BLOCK_FRAMES * 2];
        assert_eq!(stream.mix(&mut block), MixReport::default(), "everything is on its way");
        assert_eq!(stream.on_bytes(&[0; 3_840]), (0, false));
        assert_eq!(stream.on_bytes(&[0; 1_920]), (0, true), "a minimum request is missing at most");
        assert_eq!(stream.mix(&mut block).requested, 1_920);
        assert_eq!(stream.mix(&mut block).requested, 1_920);
        let huge = vec![0; MAX_BUFFERED_BYTES + 9];
        let (lost, _) = stream.on_bytes(&huge);
        assert!(lost >= 9 && stream.buffer.len() <= MAX_BUFFERED_BYTES);
        let tiny =
            BufferAttr { target_length: 1, max_length: 1, pre_buffering: 1, minimum_request_length: 0, ..DEFAULTS };
        stream.set_attributes(tiny);
        assert_eq!(stream.attributes().target_length, 1_920 * MIN_BLOCKS);
    }

    #[test]
    fn what_a_client_writes_when_it_is_asked_waits_for_one_buffer() {
        for (target_length, blocks) in [(!0, DEFAULT_BLOCKS), (960, MIN_BLOCKS), (1_920 * 5, 5)] {
            let attributes = BufferAttr { target_length, ..DEFAULTS };
            let mut stream = Stream::new(format(SampleFormat::S16Le, 2, 48_000), attributes);
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
        let mut stream = Stream::new(format(SampleFormat::S16Le, 2, 48_000), DEFAULTS);
        stream.on_bytes(&[1; 3_000]);
        stream.drain(7);
        let mut block = [0.0; BLOCK_FRAMES * 2];
        let drained: Vec<_> = (0..4).map(|_| stream.mix(&mut block).drained).collect();
        assert_eq!(drained, [None, Some(7), None, None]);
    }

    #[test]
    fn a_muted_or_corked_stream_is_not_heard() {
        let mut stream = Stream::new(format(SampleFormat::U8, 1, 48_000), DEFAULTS);
        stream.on_bytes(&[255; 4_800]);
        stream.trigger();
        let loud = |stream: &mut Stream| {
            let mut block = [0.0; BLOCK_FRAMES * 2];
            stream.mix(&mut block);
            block[100]
        };
        assert!(loud(&mut stream) > 0.9);
        stream.set_volume(volume(&[0.5]));
        assert!((0.4..0.6).contains(&loud(&mut stream)));
        stream.set_muted(true);
        assert!(loud(&mut stream).abs() < 1e-6);
        stream.set_muted(false);
        stream.set_corked(true);
        assert!(loud(&mut stream).abs() < 1e-6);
    }

    fn volume(linear: &[f32]) -> ChannelVolume {
        let mut volume = ChannelVolume::empty();
        for linear in linear {
            volume.push(Volume::from_linear(*linear));
        }
        volume
    }

    #[test]
    fn each_channel_is_heard_where_its_map_places_it_and_as_loud_as_its_volume() {
        use ChannelPosition::{FrontCenter, FrontLeft, FrontRight, SideRight};
        let spec = SampleSpec { format: SampleFormat::Float32Le, channels: 4, sample_rate: 48_000 };
        let map = ChannelMap::new([FrontRight, FrontCenter, SideRight, FrontLeft]);
        for (channel, expected) in [[0.0, 1.0], [0.353_5, 0.353_5], [0.0, 0.707], [1.0, 0.0]].into_iter().enumerate() {
            let mut stream = Stream::new(StreamFormat::new(spec, map).expect("a format"), DEFAULTS);
            stream.set_volume(volume(&[1.0, 0.5, 1.0, 1.0]));
            let frame = (0..4).flat_map(|index| (if index == channel { 1.0_f32 } else { 0.0 }).to_le_bytes());
            let bytes: Vec<u8> = frame.collect::<Vec<_>>().repeat(960);
            stream.on_bytes(&bytes);
            stream.trigger();
            let mut block = [0.0; BLOCK_FRAMES * 2];
            stream.mix(&mut block);
            for (heard, expected) in [block[100], block[101]].into_iter().zip(expected) {
                assert!((heard - expected).abs() < 0.01, "channel {channel}: {heard} in place of {expected}");
            }
        }
    }

    #[test]
    fn a_client_that_writes_portions_which_do_not_fill_the_buffer_is_heard() {
        let mut stream = Stream::new(format(SampleFormat::S16Le, 2, 44_100), DEFAULTS);
        let mut writable = stream.begin();
        let mut heard = 0;
        for _ in 0..100 {
            while writable >= 4_096 {
                stream.on_bytes(&[64; 4_096]);
                writable -= 4_096;
            }
            let mut block = [0.0; BLOCK_FRAMES * 2];
            writable += stream.mix(&mut block).requested;
            heard += usize::from(block[100] > 0.1);
        }
        assert!(heard > 90, "{heard} of 100 blocks");
    }

    #[test]
    fn the_delay_of_a_client_that_writes_large_portions_stays_the_same() {
        let attributes = BufferAttr { target_length: 22_050, minimum_request_length: 5_512, ..DEFAULTS };
        let mut stream = Stream::new(format(SampleFormat::U8, 1, 44_100), attributes);
        let mut writable = stream.begin();
        let mut waits = std::collections::BTreeSet::new();
        for _ in 0..200 {
            stream.on_bytes(&vec![200; writable as usize]);
            let played = stream.mix(&mut [0.0; BLOCK_FRAMES * 2]);
            writable = played.requested;
            assert!(!played.starved);
            waits.insert(played.waited.as_micros() / 1_000);
        }
        let spread = waits.last().zip(waits.first()).map_or(0, |(last, first)| last - first);
        // Blocks are what the delay is measured in.
        assert!(spread <= 10, "{waits:?} ms");
    }

    #[test]
    fn a_stream_may_change_its_rate() {
        let mut stream = Stream::new(format(SampleFormat::U8, 1, 48_000), DEFAULTS);
        assert!(stream.set_rate(24_000) && !stream.set_rate(1) && !stream.set_rate(1_000_000));
        stream.on_bytes(&[128; 2_400]);
        assert_eq!(stream.buffered_time(), Span::from_millis(100));
    }
}
