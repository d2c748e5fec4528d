//! What is streamed: segments of equal length, each in several bit rates.

use nearlight_units::{Bitrate, Bytes, Span};
use thiserror::Error;

/// A manifest for a handful of bit rates. Guess: ffmpeg writes about as much.
const MANIFEST: Bytes = Bytes::new(3_000);
/// An initialisation segment (`moov` without samples), as ffmpeg writes it for H.264.
const INIT: Bytes = Bytes::new(850);
/// Bit rates at most.
const MOST_RATES: usize = 64;
/// Segments at most: a day of 2 s.
const MOST_SEGMENTS: i64 = 43_200;

/// Why a description is none of anything that can be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContentError {
    #[error("the ladder needs from 1 to {most} bit rates above zero, each higher than the one before", most = MOST_RATES)]
    Ladder,
    #[error("a segment lasts from 100 ms to 60 s, and the whole from one segment to {most} of them", most = MOST_SEGMENTS)]
    Length,
}

/// A file that the player asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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
    /// A last segment that would be shorter is left out.
    pub fn new(ladder: Vec<Bitrate>, segment: Span, length: Span) -> Result<Self, ContentError> {
        let rising = ladder.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || ladder.len() > MOST_RATES || ladder.first().is_none_or(|lowest| *lowest == Bitrate::ZERO) {
            return Err(ContentError::Ladder);
        }
        let usual = Span::from_millis(100)..=Span::from_secs(60);
        let segments = if usual.contains(&segment) { length.as_nanos() / segment.as_nanos() } else { 0 };
        if !(1..=MOST_SEGMENTS).contains(&segments) {
            return Err(ContentError::Length);
        }
        Ok(Self { ladder, segment, segments: segments as usize })
    }

    /// The bit rates, rising.
    #[must_use]
    pub fn ladder(&self) -> &[Bitrate] {
        &self.ladder
    }

    /// How long each segment plays.
    #[must_use]
    pub fn segment(&self) -> Span {
        self.segment
    }

    /// How many there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// How long all of it plays.
    #[must_use]
    pub fn length(&self) -> Span {
        self.segment * self.segments as i64
    }

    /// The index of the highest bit rate.
    #[must_use]
    pub fn top(&self) -> usize {
        self.ladder.len() - 1
    }

    /// Without HTTP's headers.
    #[must_use]
    pub fn size(&self, part: Part) -> Bytes {
        match part {
            Part::Manifest => MANIFEST,
            Part::Init { .. } => INIT,
            Part::Media { rung, .. } => self.ladder[rung.min(self.top())].bytes_in(self.segment).max(Bytes::new(1)),
        }
    }

    /// The highest bit rate that is not above this one, in kb/s; the lowest where all are (`getOptimalRepresentationForBitrate`).
    #[must_use]
    pub fn rung_for(&self, kbps: f64) -> usize {
        self.ladder.iter().rposition(|rate| rate.as_bps() as f64 / 1e3 <= kbps).unwrap_or(0)
    }
}
