//! Samples in playback order, read at any speed, with concealment of missing blocks.
//!
//! Missing blocks are concealed as in ITU-T G.711 Appendix I: the period that repeats in the most recent samples continues and fades out.
//!
//! Departures: the period is searched in both channels together, over 2.5 to 10 ms at 48 kHz (the source: 5 to 15 ms at 8 kHz, speech). It
//! does not grow with the gap. No delay is added to prepare the gap's beginning, where the period fits anyway.

use std::collections::VecDeque;

use nearlight_units::Span;
use nearlight_wire::{BLOCK, SOUND_RATE};

use super::SoundBlock;

pub(super) const BLOCK_FRAMES: usize = (SOUND_RATE as i64 * BLOCK.as_nanos() / Span::from_secs(1).as_nanos()) as usize;
/// Frames stored behind the reading position: two periods and the frames used to compare them.
const HISTORY_FRAMES: usize = 1_200;
/// Length in frames over which two sections are compared, and of a cross-fade between them.
const SEAM_FRAMES: usize = 120;
const MIN_PERIOD: usize = 120;
const MAX_PERIOD: usize = 480;
/// Reduction of the gain with each block after the first ten milliseconds (the source's I.2.7).
const FADE_PER_BLOCK: f32 = 0.2;
/// Frames after the reading position that interpolation needs.
const LOOKAHEAD_FRAMES: usize = 3;

type Frame = [f32; 2];

/// The signal that fills a gap.
#[derive(Debug)]
struct Gap {
    period: Vec<Frame>,
    phase: usize,
    /// Blocks generated so far.
    blocks: u32,
}

impl Gap {
    fn next(&mut self, gain: f32) -> Frame {
        let Some(frame) = self.period.get(self.phase) else { return [0.0; 2] };
        self.phase = (self.phase + 1) % self.period.len();
        frame.map(|sample| sample * gain)
    }

    /// Amplitude at the beginning of a block.
    fn gain(blocks: u32) -> f32 {
        (1.0 - FADE_PER_BLOCK * blocks.saturating_sub(1) as f32).max(0.0)
    }
}

#[derive(Debug)]
pub(super) struct PlayoutBuffer {
    frames: VecDeque<Frame>,
    /// Reading position, in frames from the front.
    read: f64,
    /// The block that is appended next.
    pub(super) next: u32,
    gap: Option<Gap>,
    /// The continuation of the last frame: the next block fades in from it.
    seam: Vec<Frame>,
}

impl PlayoutBuffer {
    /// Makes a buffer with silence until `lead` blocks after the one at `position`, which counts frames from block 0.
    pub(super) fn new(position: f64, lead: u32) -> Self {
        let block = (position / BLOCK_FRAMES as f64).clamp(0.0, f64::from(u32::MAX - lead)) as u32;
        let length = BLOCK_FRAMES * lead as usize;
        let within = (position - f64::from(block) * BLOCK_FRAMES as f64).clamp(0.0, BLOCK_FRAMES as f64);
        let frames = vec![[0.0; 2]; HISTORY_FRAMES + length].into();
        Self {
            frames,
            read: HISTORY_FRAMES as f64 + within,
            next: block + lead,
            gap: None,
            seam: vec![[0.0; 2]; SEAM_FRAMES],
        }
    }

    /// The next frame to be heard, counted from block 0.
    pub(super) fn position(&self) -> f64 {
        f64::from(self.next) * BLOCK_FRAMES as f64 - (self.frames.len() as f64 - self.read)
    }

    /// Whether another block must be appended before anything can be read.
    pub(super) fn is_short(&self) -> bool {
        self.read as usize + LOOKAHEAD_FRAMES >= self.frames.len()
    }

    /// Reads a frame and advances by `speed` frames. Must not be called while it is short.
    pub(super) fn next_frame(&mut self, speed: f64) -> Frame {
        let at = self.read as usize;
        let share = (self.read - at as f64) as f32;
        let frame = if share == 0.0 {
            self.frames[at]
        } else {
            [0, 1].map(|ear| between([at - 1, at, at + 1, at + 2].map(|index| self.frames[index][ear]), share))
        };
        self.read += speed;
        let excess = (self.read as usize).saturating_sub(HISTORY_FRAMES);
        self.frames.drain(..excess);
        self.read -= excess as f64;
        frame
    }

    /// Appends the next block.
    pub(super) fn append(&mut self, block: &SoundBlock) {
        let first = self.frames.len();
        self.frames.extend(block.as_chunks::<2>().0);
        let seam = std::mem::take(&mut self.seam);
        for (index, before) in seam.iter().enumerate() {
            let share = (index as f32 + 0.5) / seam.len() as f32;
            let frame = &mut self.frames[first + index];
            *frame = [0, 1].map(|ear| before[ear] + share * (frame[ear] - before[ear]));
        }
        self.gap = None;
        self.next = self.next.saturating_add(1);
    }

    /// Appends ten milliseconds that replace the next block, or with `wait` are inserted before it.
    pub(super) fn conceal(&mut self, wait: bool) {
        if self.gap.is_none() {
            self.gap = Some(Gap { period: self.period(), phase: 0, blocks: 0 });
        }
        let Some(gap) = &mut self.gap else { return };
        let (begin, end) = (Gap::gain(gap.blocks), Gap::gain(gap.blocks + 1));
        for index in 0..BLOCK_FRAMES {
            let gain = begin + (end - begin) * index as f32 / BLOCK_FRAMES as f32;
            let frame = gap.next(gain);
            self.frames.push_back(frame);
        }
        gap.blocks = gap.blocks.saturating_add(1);
        let phase = gap.phase;
        self.seam = (0..SEAM_FRAMES).map(|_| gap.next(end)).collect();
        gap.phase = phase;
        if !wait {
            self.next = self.next.saturating_add(1);
        }
    }

    /// Continues with another block, into which the remaining samples fade.
    pub(super) fn cut_to(&mut self, block: u32) {
        let at = (self.read as usize + LOOKAHEAD_FRAMES).min(self.frames.len());
        let ahead = self.frames.iter().skip(at).take(SEAM_FRAMES).copied();
        self.seam = ahead.collect();
        if self.seam.is_empty() {
            self.seam = vec![[0.0; 2]; SEAM_FRAMES];
        }
        self.frames.truncate(at);
        (self.next, self.gap) = (block, None);
    }

    /// The most recent section that repeats best.
    fn period(&self) -> Vec<Frame> {
        let end = self.frames.len();
        let newest: Vec<f32> = self.mono(end - SEAM_FRAMES..end);
        let past: Vec<f32> = self.mono(end - SEAM_FRAMES - MAX_PERIOD..end);
        let likeness = |period: usize| {
            let from = past.len() - SEAM_FRAMES - period;
            let other = &past[from..from + SEAM_FRAMES];
            let (product, energy) =
                newest.iter().zip(other).fold((0.0_f32, 1e-9_f32), |(product, energy), (one, other)| {
                    (product + one * other, energy + other * other)
                });
            product / energy.sqrt()
        };
        let periods = (MIN_PERIOD..=MAX_PERIOD).map(|period| (period, likeness(period)));
        let best = periods.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(MAX_PERIOD, |(period, _)| period);
        self.frames.range(end - best..).copied().collect()
    }

    fn mono(&self, range: std::ops::Range<usize>) -> Vec<f32> {
        self.frames.range(range).map(|[left, right]| left + right).collect()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn held(&self) -> usize {
        self.frames.len()
    }
}

/// Interpolates between the second and the third of four values (Catmull-Rom spline).
fn between([before, first, second, after]: [f32; 4], share: f32) -> f32 {
    let slope = (second - before) * 0.5;
    let slope_after = (after - first) * 0.5;
    let cubic = 2.0 * (first - second) + slope + slope_after;
    let square = 3.0 * (second - first) - 2.0 * slope - slope_after;
    ((cubic * share + square) * share + slope) * share + first
}
