//! Reads sound from the memory of other Python objects through the buffer protocol. The samples are copied: a second of sound has fewer
//! bytes than a small picture.

use nearlight_embed::{HostError, MAX_PORTION_FRAMES, Portion, PortionError, Samples};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::error::{ErrorClass, host_error, wrong_type};

/// A program's sound, copied out of an array.
pub(crate) struct Sound {
    samples: CopiedSamples,
    channels: u16,
    rate: u32,
}

enum CopiedSamples {
    Float(Vec<f32>),
    Short(Vec<i16>),
}

impl Sound {
    /// Copies sound from an array of shape (frames,) for one channel, of shape (frames, channels), or of interleaved samples of `channels`.
    pub(crate) fn new(object: &Bound<'_, PyAny>, rate: u32, channels: Option<u16>) -> PyResult<Self> {
        let (samples, channels) = if let Ok(buffer) = PyBuffer::<f32>::get(object) {
            let (samples, channels) = copy(object.py(), &buffer, channels)?;
            (CopiedSamples::Float(samples), channels)
        } else if let Ok(buffer) = PyBuffer::<i16>::get(object) {
            let (samples, channels) = copy(object.py(), &buffer, channels)?;
            (CopiedSamples::Short(samples), channels)
        } else {
            return Err(wrong_type(
                "the sound was not taken: pass an array of float32 within -1 and 1, or of int16, such as samples.astype(numpy.float32)",
            ));
        };
        Ok(Self { samples, channels, rate })
    }

    pub(crate) fn portion(&self) -> Portion<'_> {
        let samples = match &self.samples {
            CopiedSamples::Float(samples) => Samples::Float(samples),
            CopiedSamples::Short(samples) => Samples::Short(samples),
        };
        Portion { samples, channels: self.channels, rate: self.rate }
    }
}

/// Returns interleaved samples and their number of channels.
fn copy<T: Element>(py: Python<'_>, buffer: &PyBuffer<T>, channels: Option<u16>) -> PyResult<(Vec<T>, u16)> {
    let channels = match (buffer.shape(), channels) {
        (&[_], channels) => channels.unwrap_or(1),
        (&[_, columns], None) => u16::try_from(columns).unwrap_or(u16::MAX),
        (&[_, _], Some(_)) => {
            return Err(ErrorClass::Usage.with_message("an array has its channels in its shape: leave `channels` out"));
        }
        (shape, _) => {
            return Err(ErrorClass::Usage.with_message(format!(
                "the sound was not taken: its memory has {} dimensions. Pass an array of shape (frames,) or (frames, channels)",
                shape.len()
            )));
        }
    };
    // This check precedes the copy.
    let frames = buffer.item_count() / usize::from(channels.max(1));
    if frames > MAX_PORTION_FRAMES {
        return Err(host_error(&HostError::Sound(PortionError::TooLong(frames))));
    }
    Ok((buffer.to_vec(py)?, channels))
}
