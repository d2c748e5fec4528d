//! Sound in the memory of other Python objects, through the buffer protocol. It is copied here: a second of it is less than a small picture.

use nearlight_embed::{HostError, MOST_FRAMES, Portion, PortionError, Samples};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::error::{Class, of_host, wrong_type};

/// A program's sound, copied out of an array.
pub(crate) struct Sound {
    samples: Copied,
    channels: u16,
    rate: u32,
}

enum Copied {
    Float(Vec<f32>),
    Short(Vec<i16>),
}

impl Sound {
    /// From an array (frames) of one channel, (frames, channels), or samples of `channels` in turn without a shape.
    pub(crate) fn new(object: &Bound<'_, PyAny>, rate: u32, channels: Option<u16>) -> PyResult<Self> {
        let (samples, channels) = if let Ok(buffer) = PyBuffer::<f32>::get(object) {
            let (samples, channels) = copy(object.py(), &buffer, channels)?;
            (Copied::Float(samples), channels)
        } else if let Ok(buffer) = PyBuffer::<i16>::get(object) {
            let (samples, channels) = copy(object.py(), &buffer, channels)?;
            (Copied::Short(samples), channels)
        } else {
            return Err(wrong_type(
                "the sound was not taken: pass an array of float32 within -1 and 1, or of int16, such as samples.astype(numpy.float32)",
            ));
        };
        Ok(Self { samples, channels, rate })
    }

    pub(crate) fn portion(&self) -> Portion<'_> {
        let samples = match &self.samples {
            Copied::Float(samples) => Samples::Float(samples),
            Copied::Short(samples) => Samples::Short(samples),
        };
        Portion { samples, channels: self.channels, rate: self.rate }
    }
}

/// Samples in turn, and of how many channels.
fn copy<T: Element>(py: Python<'_>, buffer: &PyBuffer<T>, channels: Option<u16>) -> PyResult<(Vec<T>, u16)> {
    let channels = match (buffer.shape(), channels) {
        (&[_], channels) => channels.unwrap_or(1),
        (&[_, columns], None) => u16::try_from(columns).unwrap_or(u16::MAX),
        (&[_, _], Some(_)) => {
            return Err(Class::Usage.because("an array has its channels in its shape: leave `channels` out"));
        }
        (shape, _) => {
            return Err(Class::Usage.because(format!(
                "the sound was not taken: its memory has {} dimensions. Pass an array of shape (frames,) or (frames, channels)",
                shape.len()
            )));
        }
    };
    // Before anything is copied.
    let frames = buffer.item_count() / usize::from(channels.max(1));
    if frames > MOST_FRAMES {
        return Err(of_host(&HostError::Sound(PortionError::TooLong(frames))));
    }
    Ok((buffer.to_vec(py)?, channels))
}
