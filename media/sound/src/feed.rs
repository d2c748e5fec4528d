//! A jitter buffer for sound that a program makes itself, between the program's threads and the thread that encodes. It is bounded and
//! reads no clock.
//!
//! A program submits portions of any length at its own pace, and the encoder takes a block every ten milliseconds. [`Feed`] buffers as much
//! as the program's jitter requires: a missing block increases the buffer by one block, and blocks that were not needed for a second are
//! skipped.

use std::collections::VecDeque;

use nearlight_units::Span;
use nearlight_wire::{BLOCK, SOUND_RATE};

use crate::{BLOCK_FRAMES, SoundBlock};

const CHANNELS: usize = 2;
const BLOCK_SAMPLES: usize = BLOCK_FRAMES * CHANNELS;
/// Initial length of the buffer in blocks. Guess: one portion of a program that submits sound with each of 60 pictures per second.
const INITIAL_LEAD_BLOCKS: usize = 2;
/// Largest length of the buffer in blocks. Guess: beyond a tenth of a second, late sound disturbs more than a gap does.
const MAX_LEAD_BLOCKS: usize = 10;
/// Blocks that may wait. Beyond that, the oldest samples are dropped. Guess.
const MAX_QUEUED_BLOCKS: usize = 20;
/// Missing blocks in a row after which the program is considered paused rather than late. Guess: 200 ms.
const PAUSE_BLOCKS: u32 = 20;
/// Blocks over which the buffer is observed before a block is skipped: a second.
const OBSERVATION_BLOCKS: u32 = 100;

/// The buffered sound of a program, left and right interleaved at 48 kHz.
#[derive(Debug)]
pub struct Feed {
    waiting: VecDeque<f32>,
    /// Whether the buffer fills up before it returns sound.
    starting: bool,
    /// Current length of the buffer in blocks.
    lead: usize,
    /// How long the returned sound has waited.
    delay: Span,
    missing: u32,
    /// The smallest number of waiting samples after taking a block, and the number of blocks over which it was observed.
    min_queued: usize,
    observed: u32,
    dropped: u64,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            waiting: VecDeque::with_capacity((MAX_QUEUED_BLOCKS + 1) * BLOCK_SAMPLES),
            starting: true,
            lead: INITIAL_LEAD_BLOCKS,
            delay: Span::ZERO,
            missing: PAUSE_BLOCKS,
            min_queued: usize::MAX,
            observed: 0,
            dropped: 0,
        }
    }
}

impl Feed {
    /// Appends the program's next samples, left and right interleaved. A last sample without its partner is ignored. If the buffer is full,
    /// the oldest samples are dropped.
    pub fn push(&mut self, samples: &[f32]) {
        let most = MAX_QUEUED_BLOCKS * BLOCK_SAMPLES;
        let samples = &samples[..samples.len() / CHANNELS * CHANNELS];
        let newest = &samples[samples.len().saturating_sub(most)..];
        let over = (self.waiting.len() + newest.len()).saturating_sub(most);
        self.waiting.drain(..over);
        self.dropped += ((over + samples.len() - newest.len()) / CHANNELS) as u64;
        self.waiting.extend(newest.iter().map(|sample| if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 }));
    }

    /// Returns the next block, and how long its sound has waited here. The block is silence if the program has not submitted enough.
    pub fn next_block(&mut self) -> (SoundBlock, Span) {
        let mut block = [0.0; BLOCK_SAMPLES];
        if self.starting && self.waiting.len() >= self.lead * BLOCK_SAMPLES {
            self.starting = false;
            self.delay = length_of(self.waiting.len());
            self.restart_observation();
        }
        if self.starting {
            self.missing = self.missing.saturating_add(1);
            return (block, self.delay);
        }
        if self.waiting.len() < BLOCK_SAMPLES {
            self.on_late();
            return (block, self.delay);
        }
        self.take(&mut block);
        self.missing = 0;
        self.skip_excess(&mut block);
        (block, self.delay)
    }

    /// Drops all waiting samples, because nobody has listened.
    pub fn clear(&mut self) {
        self.waiting.clear();
        (self.starting, self.missing) = (true, PAUSE_BLOCKS);
    }

    /// Returns the number of sample frames that were dropped because the program submitted more than is played.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn take(&mut self, block: &mut SoundBlock) {
        for (place, sample) in block.iter_mut().zip(self.waiting.drain(..BLOCK_SAMPLES)) {
            *place = sample;
        }
    }

    /// Handles a missing block. The remaining samples wait for the next ones.
    fn on_late(&mut self) {
        self.starting = true;
        // A program that pauses was not late.
        self.lead = if self.missing < PAUSE_BLOCKS { (self.lead + 1).min(MAX_LEAD_BLOCKS) } else { self.lead };
        self.missing = 1;
    }

    fn restart_observation(&mut self) {
        (self.min_queued, self.observed) = (usize::MAX, 0);
    }

    /// Skips a block if more than one block was not needed for a second. `block` then fades into the block after it.
    fn skip_excess(&mut self, block: &mut SoundBlock) {
        self.min_queued = self.min_queued.min(self.waiting.len());
        self.observed += 1;
        if self.observed < OBSERVATION_BLOCKS {
            return;
        }
        if self.min_queued > 2 * BLOCK_SAMPLES {
            for (index, (sample, next)) in block.iter_mut().zip(self.waiting.drain(..BLOCK_SAMPLES)).enumerate() {
                let share = (index / CHANNELS) as f32 / BLOCK_FRAMES as f32;
                *sample += (next - *sample) * share;
            }
            self.delay -= BLOCK;
            self.lead = (self.lead - 1).max(INITIAL_LEAD_BLOCKS);
        }
        self.restart_observation();
    }
}

/// Returns the duration of this many samples of both channels.
fn length_of(samples: usize) -> Span {
    Span::from_nanos((samples / CHANNELS) as i64 * 1_000_000_000 / i64::from(SOUND_RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns frames whose samples on both channels are the frames' numbers.
    fn numbers(from: usize, count: usize) -> Vec<f32> {
        (from..from + count).flat_map(|number| [number as f32 * 1e-6; CHANNELS]).collect()
    }

    #[test]
    fn portions_of_pictures_become_blocks_without_gaps() {
        let mut feed = Feed::default();
        let (mut submitted, mut heard) = (0, Vec::new());
        // A portion of 800 frames every 16.7 ms, a block every 10 ms.
        for tick in 0..600 {
            if tick % 5 == 0 || tick % 5 == 2 || tick % 5 == 3 {
                feed.push(&numbers(submitted, 800));
                submitted += 800;
            }
            heard.extend_from_slice(&feed.next_block().0);
        }
        let first = heard.iter().position(|sample| *sample > 0.0).expect("sound");
        let played: Vec<f32> = heard[first - first % 2..].iter().copied().step_by(2).collect();
        let breaks = played.windows(2).filter(|pair| (pair[1] - pair[0] - 1e-6).abs() > 5e-8).count();
        assert!(first < 4 * BLOCK_SAMPLES && breaks <= 1, "begins at {first}, {breaks} breaks");
        assert_eq!(feed.dropped(), 0);
    }

    #[test]
    fn a_late_program_is_held_back_longer_and_a_pause_is_none() {
        let mut feed = Feed::default();
        let delay_after = |feed: &mut Feed, gap: usize| {
            for _ in 0..gap {
                feed.next_block();
            }
            feed.push(&numbers(0, 10 * BLOCK_FRAMES));
            feed.lead
        };
        assert_eq!(delay_after(&mut feed, 50), INITIAL_LEAD_BLOCKS, "it has not begun");
        assert_eq!(delay_after(&mut feed, 11), INITIAL_LEAD_BLOCKS + 1, "it was late by one");
        // Lead, not time: a pause is as long as it wants to be.
        for _ in 0..10 {
            feed.next_block();
        }
        let before = feed.lead;
        for _ in 0..500 {
            assert!(feed.next_block().0.iter().all(|sample| *sample == 0.0));
        }
        feed.push(&numbers(0, 10 * BLOCK_FRAMES));
        feed.next_block();
        assert!(feed.lead <= before + 1);
    }

    #[test]
    fn too_much_is_dropped_at_the_old_end_and_what_is_never_needed_is_skipped() {
        let mut feed = Feed::default();
        feed.push(&numbers(0, 1_000_000));
        assert_eq!(feed.dropped(), (1_000_000 - MAX_QUEUED_BLOCKS * BLOCK_FRAMES) as u64);
        let (block, delay) = feed.next_block();
        assert!((block[0] - 0.9904).abs() < 1e-4, "{}", block[0]);
        assert_eq!(delay, Span::from_millis(200));
        for tick in 0..3_000 {
            feed.push(&numbers(tick * BLOCK_FRAMES, BLOCK_FRAMES));
            feed.next_block();
        }
        let (_, delay) = feed.next_block();
        assert!(delay < Span::from_millis(50), "{delay}");
        assert!(feed.waiting.len() <= 3 * BLOCK_SAMPLES);
    }

    #[test]
    fn what_is_no_sample_is_silence() {
        let mut feed = Feed::default();
        feed.push(&[f32::NAN, f32::INFINITY, -7.0, 7.0, 0.5]);
        assert_eq!(feed.waiting, [0.0, 0.0, -1.0, 1.0]);
        feed.clear();
        assert!(feed.waiting.is_empty());
    }
}
