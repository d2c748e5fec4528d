//! Conversion of programs' samples to the encoder's format: left and right interleaved at 48 kHz.

use nearlight_wire::SOUND_RATE;
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Async, FixedAsync, Resampler, SincInterpolationParameters, SincInterpolationType, WindowFunction};

const CHANNELS: usize = 2;
/// Sample frames that the resampler takes at a time. Guess: 3 ms at 44.1 kHz is a small part of the delay that a block has anyway.
const RESAMPLER_FRAMES: usize = 128;
/// Length of the resampler's filter in samples. Guess: the middle of the range in the library's documentation, because Opus encodes up to
/// 20 kHz only.
const FILTER_TAPS: usize = 64;
/// Accepted sample rates in hertz, from telephones' to studios'.
pub const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;
/// Sample frames of the longest portion. A program that has more submits it in parts.
pub const MAX_PORTION_FRAMES: usize = 1 << 16;

/// Samples as floats from -1 to 1, or as 16-bit integers.
#[derive(Clone, Copy, Debug)]
pub enum Samples<'a> {
    Float(&'a [f32]),
    Short(&'a [i16]),
}

impl Samples<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Float(samples) => samples.len(),
            Self::Short(samples) => samples.len(),
        }
    }

    fn at(&self, index: usize) -> f32 {
        match self {
            Self::Float(samples) => samples[index],
            Self::Short(samples) => f32::from(samples[index]) / 32_768.0,
        }
    }
}

/// A portion of a program's sound, borrowed for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct Portion<'a> {
    /// The samples, with left and right interleaved if there are two channels.
    pub samples: Samples<'a>,
    /// Number of channels, 1 or 2.
    pub channels: u16,
    /// Sample rate in hertz.
    pub rate: u32,
}

/// Why a portion cannot be played. It is the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortionError {
    #[error("it has {0} channels: mix it to 1 or 2")]
    Channels(u16),
    #[error("its rate is {0} Hz: resample it to one from 8000 to 192000 Hz")]
    Rate(u32),
    #[error("it has {0} sample frames: submit at most 65536 at a time")]
    TooLong(usize),
    #[error("its samples are not a multiple of its channels: the last frame is incomplete")]
    Incomplete,
}

impl Portion<'_> {
    pub fn check(&self) -> Result<(), PortionError> {
        let channels = usize::from(self.channels);
        if !(1..=CHANNELS).contains(&channels) {
            return Err(PortionError::Channels(self.channels));
        }
        if !SAMPLE_RATES.contains(&self.rate) {
            return Err(PortionError::Rate(self.rate));
        }
        if !self.samples.len().is_multiple_of(channels) {
            return Err(PortionError::Incomplete);
        }
        let frames = self.samples.len() / channels;
        if frames > MAX_PORTION_FRAMES { Err(PortionError::TooLong(frames)) } else { Ok(()) }
    }

    fn frames(&self) -> impl Iterator<Item = [f32; CHANNELS]> {
        let (samples, channels) = (self.samples, usize::from(self.channels));
        (0..samples.len() / channels)
            .map(move |frame| [samples.at(frame * channels), samples.at(frame * channels + channels - 1)])
    }
}

/// Converts the successive portions of one program. Memory is allocated for the first portions, and when the rate changes.
#[derive(Default)]
pub struct Converter {
    resampling: Option<PendingResampler>,
    converted: Vec<f32>,
}

struct PendingResampler {
    rate: u32,
    resampler: Async<f32>,
    /// Samples that do not fill the resampler's input yet.
    waiting: Vec<f32>,
}

impl std::fmt::Debug for Converter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.resampling.as_ref().map(|resampling| resampling.rate);
        formatter.debug_struct("Converter").field("rate", &rate).finish_non_exhaustive()
    }
}

impl Converter {
    /// Returns the portion with left and right interleaved at 48 kHz. If the rate is another one, up to 3 ms are returned with the next
    /// portion.
    pub fn convert(&mut self, portion: &Portion<'_>) -> Result<&[f32], PortionError> {
        portion.check()?;
        self.converted.clear();
        if portion.rate == SOUND_RATE {
            self.resampling = None;
            self.converted.extend(portion.frames().flatten());
            return Ok(&self.converted);
        }
        if self.resampling.as_ref().is_none_or(|resampling| resampling.rate != portion.rate) {
            self.resampling = Some(PendingResampler::new(portion.rate).ok_or(PortionError::Rate(portion.rate))?);
        }
        if let Some(resampling) = &mut self.resampling {
            resampling.waiting.extend(portion.frames().flatten());
            resampling.resample(&mut self.converted);
        }
        Ok(&self.converted)
    }
}

impl PendingResampler {
    fn new(rate: u32) -> Option<Self> {
        let filter = SincInterpolationParameters::new(FILTER_TAPS, WindowFunction::BlackmanHarris2)
            .interpolation(SincInterpolationType::Linear);
        let ratio = f64::from(SOUND_RATE) / f64::from(rate);
        let resampler = Async::new_sinc(ratio, 1.0, &filter, RESAMPLER_FRAMES, CHANNELS, FixedAsync::Input).ok()?;
        Some(Self { rate, resampler, waiting: Vec::new() })
    }

    /// Resamples as much as fills the resampler's input, and appends it to `converted`.
    fn resample(&mut self, converted: &mut Vec<f32>) {
        let mut begin = 0;
        while self.waiting.len() - begin >= RESAMPLER_FRAMES * CHANNELS {
            let input = &self.waiting[begin..begin + RESAMPLER_FRAMES * CHANNELS];
            begin += RESAMPLER_FRAMES * CHANNELS;
            let (end, room) = (converted.len(), self.resampler.output_frames_next());
            converted.resize(end + room * CHANNELS, 0.0);
            let written = InterleavedSlice::new(input, CHANNELS, RESAMPLER_FRAMES).ok().and_then(|input| {
                let mut output = InterleavedSlice::new_mut(&mut converted[end..], CHANNELS, room).ok()?;
                self.resampler.process_into_buffer(&input, &mut output, None).ok()
            });
            converted.truncate(end + written.map_or(0, |(_, frames)| frames) * CHANNELS);
        }
        self.waiting.drain(..begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, frames: usize) -> Vec<f32> {
        let step = std::f32::consts::TAU * 440.0 / rate as f32;
        (0..frames).map(|frame| 0.5 * (frame as f32 * step).sin()).collect()
    }

    /// Returns the upward zero crossings per second, and the loudness.
    fn heard(samples: &[f32]) -> (f32, f32) {
        let left: Vec<f32> = samples.iter().copied().step_by(2).collect();
        let crossings = left.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
        let loudness = (left.iter().map(|sample| sample * sample).sum::<f32>() / left.len() as f32).sqrt();
        (crossings as f32 * SOUND_RATE as f32 / left.len() as f32, loudness)
    }

    #[test]
    fn a_tone_keeps_pitch_and_loudness_at_every_rate() {
        for rate in [8_000, 22_050, 44_100, 48_000, 96_000, 192_000] {
            let mut converter = Converter::default();
            let (tone, mut all) = (tone(rate, rate as usize), Vec::new());
            // The length of the portions is a multiple of nothing relevant.
            for samples in tone.chunks(611) {
                let portion = Portion { samples: Samples::Float(samples), channels: 1, rate };
                all.extend_from_slice(converter.convert(&portion).expect("a portion"));
            }
            let seconds = all.len() as f32 / (2 * SOUND_RATE) as f32;
            let (pitch, loudness) = heard(&all[2_000..]);
            assert!((0.98..=1.0).contains(&seconds), "{rate}: {seconds} s");
            assert!((pitch - 440.0).abs() < 2.0 && (loudness - 0.3536).abs() < 0.005, "{rate}: {pitch} {loudness}");
        }
    }

    #[test]
    fn channels_and_formats_come_as_left_and_right() {
        let mut converter = Converter::default();
        let mut convert = |samples, channels| {
            converter.convert(&Portion { samples, channels, rate: SOUND_RATE }).map(<[f32]>::to_vec)
        };
        assert_eq!(convert(Samples::Float(&[0.25, 0.5]), 1), Ok(vec![0.25, 0.25, 0.5, 0.5]));
        assert_eq!(convert(Samples::Float(&[0.25, 0.5]), 2), Ok(vec![0.25, 0.5]));
        assert_eq!(convert(Samples::Short(&[-32_768, 16_384]), 2), Ok(vec![-1.0, 0.5]));
        assert_eq!(convert(Samples::Short(&[1, 2, 3]), 2), Err(PortionError::Incomplete));
        assert_eq!(convert(Samples::Short(&[]), 0), Err(PortionError::Channels(0)));
        assert_eq!(convert(Samples::Float(&[0.0; 6]), 6), Err(PortionError::Channels(6)));
        let long = vec![0.0; MAX_PORTION_FRAMES + 1];
        assert_eq!(convert(Samples::Float(&long), 1), Err(PortionError::TooLong(MAX_PORTION_FRAMES + 1)));
        let odd = Portion { samples: Samples::Float(&[]), channels: 1, rate: 7_999 };
        assert_eq!(converter.convert(&odd).map(<[f32]>::to_vec), Err(PortionError::Rate(7_999)));
    }
}
