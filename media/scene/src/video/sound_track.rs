//! The decoded sound of a film, by its place in the film.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex};

use nearlight_sound::{BLOCK_FRAMES, Feed};
use nearlight_units::lock;
use nearlight_wire::SOUND_RATE;

const CHANNELS: usize = 2;
/// Sound that may wait for its pictures, in sample frames: ten seconds. Guess: files interleave pictures and sound within one second.
const MAX_WAITING_FRAMES: usize = 10 * SOUND_RATE as usize;
/// Steps of a second at which sound is passed on at least. Guess: two blocks of sound, which listeners buffer anyway.
const MIN_STEPS_PER_SECOND: u16 = 50;

/// Samples that wait for the pictures that belong to them.
#[derive(Debug, Default)]
pub(super) struct SoundTrack {
    samples: VecDeque<f32>,
    /// The place of the first waiting sample frame, counted from the start of the film's first pass.
    front: u64,
    overrun: bool,
}

impl SoundTrack {
    fn end(&self) -> u64 {
        self.front + (self.samples.len() / CHANNELS) as u64
    }

    /// Begins the sound of a pass at this place. The sound before may be a little longer or shorter than its pictures.
    fn begin(&mut self, place: u64) {
        if place < self.front {
            self.samples.clear();
        }
        if self.samples.is_empty() {
            self.front = place;
        }
        self.samples.resize((place - self.front) as usize * CHANNELS, 0.0);
    }

    fn push(&mut self, samples: impl Iterator<Item = f32>) {
        self.samples.extend(samples);
        let waiting = self.samples.len() / CHANNELS;
        if waiting > MAX_WAITING_FRAMES {
            // Waiting for the pictures would stop the decoder, which has to come to them first.
            if !std::mem::replace(&mut self.overrun, true) {
                tracing::warn!(
                    "the film's sound lies more than ten seconds before its pictures in the file: some of it is dropped"
                );
            }
            self.skip_to(self.front + (waiting - MAX_WAITING_FRAMES) as u64);
        }
    }

    fn skip_to(&mut self, place: u64) {
        let frames = place.saturating_sub(self.front).min((self.samples.len() / CHANNELS) as u64);
        self.samples.drain(..frames as usize * CHANNELS);
        self.front += frames;
    }

    /// Moves the sound between two places into `taken`. Sound that came too late for its place is dropped, so that what follows is in step.
    fn take(&mut self, from: u64, to: u64, taken: &mut Vec<f32>) {
        self.skip_to(from);
        let frames = to.saturating_sub(self.front).min(self.end() - self.front);
        taken.extend(self.samples.drain(..frames as usize * CHANNELS));
        self.front += frames;
    }
}

/// The sound of a film on its way to the listeners.
#[derive(Clone, Debug, Default)]
pub(super) struct FilmSound {
    pub(super) feed: Arc<Mutex<Feed>>,
    track: Arc<Mutex<SoundTrack>>,
}

impl FilmSound {
    /// Reads a pass's sound until its end. It begins after this many sample frames of the passes before.
    pub(super) fn read(&self, mut samples: impl Read, place: u64) {
        let track = || lock(&self.track);
        track().begin(place);
        let mut bytes = [0; BLOCK_FRAMES * CHANNELS * 4];
        while samples.read_exact(&mut bytes).is_ok() {
            let words = bytes.chunks_exact(4);
            track().push(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])));
        }
    }
}

#[cfg(test)]
impl FilmSound {
    /// Returns the number of sample frames that were read so far.
    pub(super) fn end(&self) -> u64 {
        lock(&self.track).end()
    }
}

/// Passes a film's sound on in small steps, in the rhythm of its pictures.
#[derive(Debug)]
pub(super) struct SoundSteps {
    sound: FilmSound,
    /// Steps a second.
    rate: u64,
    step: u64,
    taken: Vec<f32>,
}

impl SoundSteps {
    pub(super) fn new(sound: FilmSound, fps: u16) -> Self {
        Self { sound, rate: u64::from(fps) * steps_per_picture(fps), step: 0, taken: Vec::new() }
    }

    /// Passes on the sound of the next step, and returns it.
    pub(super) fn advance(&mut self) -> &[f32] {
        let place = |step: u64| step * u64::from(SOUND_RATE) / self.rate;
        let (from, to) = (place(self.step), place(self.step + 1));
        self.step += 1;
        self.taken.clear();
        lock(&self.sound.track).take(from, to, &mut self.taken);
        lock(&self.sound.feed).push(&self.taken);
        &self.taken
    }
}

/// Returns the number of steps for each picture.
pub(super) fn steps_per_picture(fps: u16) -> u64 {
    u64::from(MIN_STEPS_PER_SECOND.div_ceil(fps.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns samples that name their place, for both ears.
    fn sound(places: std::ops::Range<u64>) -> Vec<u8> {
        places.flat_map(|place| [place as f32 / 1e6; 2]).flat_map(f32::to_le_bytes).collect()
    }

    #[test]
    fn each_step_has_the_sound_of_its_place_whatever_comes_late_or_ends_early() {
        let sound_of = FilmSound::default();
        let mut steps = SoundSteps::new(sound_of.clone(), 25);
        assert_eq!((steps.rate, steps_per_picture(60), steps_per_picture(1)), (50, 1, 50));
        let mut next = || {
            let taken = steps.advance();
            (taken.first().map(|sample| (sample * 1e6).round() as u64), taken.len())
        };
        // The first step finds nothing. The second one does not play what belonged to the first.
        assert_eq!(next(), (None, 0));
        sound_of.read(sound(0..4_800).as_slice(), 0);
        assert_eq!([next(), next()], [(Some(960), 1_920), (Some(1_920), 1_920)]);
        // The next pass begins at its place, although the sound before was longer than its pictures.
        sound_of.read(sound(0..1_920).as_slice(), 3_840);
        assert_eq!([next(), next(), next()], [(Some(2_880), 1_920), (Some(0), 1_920), (Some(960), 1_920)]);
        // Sound that ended early leaves a pause, and the next pass is in step again.
        assert_eq!(next(), (None, 0));
        sound_of.read(sound(0..480 * 8).as_slice(), 7 * 960);
        assert_eq!(next(), (Some(0), 1_920));
    }

    #[test]
    fn sound_that_is_far_ahead_of_its_pictures_is_bounded() {
        let sound_of = FilmSound::default();
        sound_of.read(sound(0..(MAX_WAITING_FRAMES as u64 + 48_000)).as_slice(), 0);
        let track = sound_of.track.lock().expect("not poisoned");
        assert_eq!((track.samples.len() / CHANNELS, track.front), (MAX_WAITING_FRAMES, 48_000));
    }
}
