//! Content: segments of equal length, each in several bit rates.

use nearlight_units::{Bitrate, Bytes, Span};
use thiserror::Error;

/// Size of a manifest with a handful of bit rates. Guess: about what ffmpeg writes.
const MANIFEST_SIZE: Bytes = Bytes::new(3_000);
/// Size of an initialisation segment (`moov` without samples), as ffmpeg writes it for H.264.
const INIT_SEGMENT_SIZE: Bytes = Bytes::new(850);
/// Largest number of bit rates.
const MAX_RATES: usize = 64;
/// Largest number of segments: a day of segments of 2 s.
const MAX_SEGMENTS: i64 = 43_200;

/// Why content cannot be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContentError {
    #[error("the ladder needs from 1 to {most} bit rates above zero, each higher than the one before", most = MAX_RATES)]
    Ladder,
    #[error("a segment lasts from 100 ms to 60 s, and the whole from one segment to {most} of them", most = MAX_SEGMENTS)]
    Length,
}

/// A file that the player requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Manifest,
    /// What a decoder needs before the first segment of a bit rate.
    Init {
        rung: usize,
    },
    Media {
        rung: usize,
        segment: usize,
    },
}

/// A video in several bit rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    ladder: Vec<Bitrate>,
    segment: Span,
    segments: usize,
}

impl Content {
    /// Returns content of `length`. A shorter last segment is omitted.
    pub fn new(ladder: Vec<Bitrate>, segment: Span, length: Span) -> Result<Self, ContentError> {
        let rising = ladder.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || ladder.len() > MAX_RATES || ladder.first().is_none_or(|lowest| *lowest == Bitrate::ZERO) {
            return Err(ContentError::Ladder);
        }
        let usual = Span::from_millis(100)..=Span::from_secs(60);
        let segments = if usual.contains(&segment) { length.as_nanos() / segment.as_nanos() } else { 0 };
        if !(1..=MAX_SEGMENTS).contains(&segments) {
            return Err(ContentError::Length);
        }
        Ok(Self { ladder, segment, segments: segments as usize })
    }

    /// Returns the bit rates in ascending order.
    #[must_use]
    pub fn ladder(&self) -> &[Bitrate] {
        &self.ladder
    }

    /// Returns the playing time of a segment.
    #[must_use]
    pub fn segment(&self) -> Span {
        self.segment
    }

    /// Returns the number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Returns the playing time of all segments.
    #[must_use]
    pub fn length(&self) -> Span {
        self.segment * self.segments as i64
    }

    /// Returns the index of the highest bit rate.
    #[must_use]
    pub fn top(&self) -> usize {
        self.ladder.len() - 1
    }

    /// Returns the size of a resource, without HTTP headers.
    #[must_use]
    pub fn size(&self, part: Resource) -> Bytes {
        match part {
            Resource::Manifest => MANIFEST_SIZE,
            Resource::Init { .. } => INIT_SEGMENT_SIZE,
            Resource::Media { rung, .. } => self.ladder[rung.min(self.top())].bytes_in(self.segment).max(Bytes::new(1)),
        }
    }

    /// Returns the index of the highest bit rate up to `kbps`, or of the lowest if all are above (`getOptimalRepresentationForBitrate`).
    #[must_use]
    pub fn rung_for(&self, kbps: f64) -> usize {
        self.ladder.iter().rposition(|rate| rate.as_bps() as f64 / 1e3 <= kbps).unwrap_or(0)
    }
}
