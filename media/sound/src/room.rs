//! All sound sources of a world, synthesised once for any number of listeners.

use glam::Vec3;

use crate::voice::Voice;
use crate::{BLOCK_FRAMES, Cues, Hum, Strike, Timbre};

/// Samples before a block that ears may access. The delay around a head is 0.66 ms, 32 samples.
pub(crate) const HISTORY_FRAMES: usize = 64;
/// Decaying sounds at the same time. A new one replaces the oldest.
const MAX_STRIKES: usize = 24;
/// Continuous sounds at the same time. Further ones are ignored.
const MAX_HUMS: usize = 16;

/// A sound source at a place.
#[derive(Debug)]
pub(crate) struct Source {
    /// Unique among all sources during the room's lifetime.
    pub(crate) key: u64,
    pub(crate) place: Vec3,
    voice: Voice,
    /// The end of the previous block, then the block, then its last sample again, up to which an ear without delay reads.
    pub(crate) samples: [f32; HISTORY_FRAMES + BLOCK_FRAMES + 1],
    /// Amplitude at the block's end, and at its beginning. The amplitude of a strike is in its voice.
    level: f32,
    level_before: f32,
    amplitude: f32,
    hum: Option<(u16, Timbre)>,
}

impl Source {
    fn new(key: u64, place: Vec3, voice: Voice) -> Self {
        let samples = [0.0; HISTORY_FRAMES + BLOCK_FRAMES + 1];
        Self { key, place, voice, samples, level: 1.0, level_before: 1.0, amplitude: 0.0, hum: None }
    }

    fn advance(&mut self) {
        self.amplitude = self.voice.amplitude() * self.level.max(self.level_before);
        self.samples.copy_within(BLOCK_FRAMES..BLOCK_FRAMES + HISTORY_FRAMES, 0);
        let block = &mut self.samples[HISTORY_FRAMES..HISTORY_FRAMES + BLOCK_FRAMES];
        self.voice.fill(block);
        let step = (self.level - self.level_before) / BLOCK_FRAMES as f32;
        let mut level = self.level_before;
        for sample in block {
            level += step;
            *sample *= level;
        }
        self.level_before = self.level;
        self.samples[HISTORY_FRAMES + BLOCK_FRAMES] = self.samples[HISTORY_FRAMES + BLOCK_FRAMES - 1];
    }

    /// Returns the largest amplitude of the block at one metre.
    pub(crate) const fn amplitude(&self) -> f32 {
        self.amplitude
    }

    /// Returns whether the source has ended for every ear.
    fn is_over(&self) -> bool {
        match self.hum {
            Some(_) => self.level == 0.0 && self.level_before == 0.0,
            None => self.voice.is_over(),
        }
    }
}

/// The world's sources and their sounds.
#[derive(Debug, Default)]
pub struct Room {
    sources: Vec<Source>,
    next_key: u64,
}

impl Room {
    /// Takes the world's newest cues, which take effect with the next block.
    pub fn on_cues(&mut self, cues: &Cues) {
        for source in self.sources.iter_mut().filter(|source| source.hum.is_some()) {
            source.level = 0.0;
        }
        cues.hums.iter().take(MAX_HUMS).for_each(|hum| self.set_hum(hum));
        cues.strikes.iter().for_each(|strike| self.strike(strike));
    }

    /// Synthesises the next ten milliseconds of every source.
    pub fn advance(&mut self) {
        self.sources.retain(|source| !source.is_over());
        self.sources.iter_mut().for_each(Source::advance);
    }

    /// Returns the number of sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    fn set_hum(&mut self, hum: &Hum) {
        let named = Some((hum.id, hum.timbre));
        if let Some(source) = self.sources.iter_mut().find(|source| source.hum == named) {
            (source.place, source.level) = (hum.place, hum.level.clamp(0.0, 1.0));
            return;
        }
        let mut source = Source::new(self.key(), hum.place, Voice::humming(hum.timbre, u32::from(hum.id)));
        (source.level, source.level_before, source.hum) = (hum.level.clamp(0.0, 1.0), 0.0, named);
        self.sources.push(source);
    }

    fn strike(&mut self, strike: &Strike) {
        let strikes = self.sources.iter().filter(|source| source.hum.is_none()).count();
        let oldest = self.sources.iter().position(|source| source.hum.is_none());
        if let (true, Some(oldest)) = (strikes >= MAX_STRIKES, oldest) {
            self.sources.remove(oldest);
        }
        let key = self.key();
        let voice = Voice::struck(strike.struck, strike.level.clamp(0.0, 1.0), key as u32);
        self.sources.push(Source::new(key, strike.place, voice));
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}
