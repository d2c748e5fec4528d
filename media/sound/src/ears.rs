//! Binaural rendering: how loud, how late and how dull each ear hears each source.
//!
//! A sound from the side reaches the far ear later (Woodworth's formula for a ball: R. S. Woodworth, Experimental Psychology, 1938), more
//! softly and duller; one from behind is duller in both; twice as far is half as loud. Not modelled: propagation through the air takes no
//! time, so that what is seen and heard stays together; there are no echoes; above and below sound alike.

use std::f32::consts::FRAC_PI_4;

use glam::{Quat, Vec3};
use nearlight_wire::{Pose, SOUND_RATE};

use crate::room::{HISTORY_FRAMES, Room, Source};
use crate::voice::low_pass;
use crate::{BLOCK_FRAMES, SoundBlock};

/// Radius of a head in metres, and metres a second of sound in air (as in the literature on Woodworth's formula).
const HEAD_RADIUS: f32 = 0.0875;
const SPEED_OF_SOUND: f32 = 343.0;
/// Share of full panning, 0 to 1. Guess: at the far ear a sound from the side is 16 dB softer, as around a head at 3 kHz.
const PANNING_SHARE: f32 = 0.8;
/// Cut-off in hertz of the dull part of a sound, and shares of that part: at the ear on the far side of the head, and for a sound from
/// behind. Guesses by ear.
const DULL_CUTOFF_HERTZ: f32 = 2_500.0;
const SHADOW_DULL_SHARE: f32 = 0.8;
const REAR_DULL_SHARE: f32 = 0.5;
/// Distance in metres below which a source does not get louder.
const MIN_DISTANCE: f32 = 1.0;
/// Amplitude below which a sound is not computed: 80 dB below full scale.
const MIN_AMPLITUDE: f32 = 1e-4;
/// Amplitude above which sums are compressed towards full scale instead of clipped. Guess.
const COMPRESSION_THRESHOLD: f32 = 0.7;
/// Frames that share one delay: few enough that the steps of a turning head are not heard, and enough for vector instructions.
const DELAY_STEP_FRAMES: usize = 32;

/// How one ear hears one source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Path {
    /// Gains of the clear and of the dull part.
    pub(crate) clear: f32,
    pub(crate) dull: f32,
    /// Delay in samples.
    pub(crate) delay: f32,
}

impl Path {
    /// Interpolates linearly between two paths.
    fn towards(self, to: Self, share: f32) -> Self {
        let between = |from: f32, to: f32| from + share * (to - from);
        Self {
            clear: between(self.clear, to.clear),
            dull: between(self.dull, to.dull),
            delay: between(self.delay, to.delay),
        }
    }
}

/// The sum of all sources at one ear in a block, before the dull part is filtered.
struct EarMix {
    clear: [f32; BLOCK_FRAMES],
    dull: [f32; BLOCK_FRAMES],
}

/// One listener.
#[derive(Debug, Default)]
pub struct Ears {
    /// The paths of each source at the end of the previous block.
    paths: Vec<(u64, [Path; 2])>,
    filters: [f32; 2],
}

impl Ears {
    /// Renders the room's newest block for a head at `head`. Changes from block to block are interpolated.
    pub fn hear(&mut self, room: &Room, head: &Pose) -> SoundBlock {
        let mut heard = [0, 1].map(|_| EarMix { clear: [0.0; BLOCK_FRAMES], dull: [0.0; BLOCK_FRAMES] });
        let mut paths = Vec::with_capacity(room.len());
        for source in room.sources() {
            let to = paths_of(head, source.place);
            let from = self.paths.iter().find(|(key, _)| *key == source.key).map_or(to, |(_, from)| *from);
            for ((heard, from), to) in heard.iter_mut().zip(from).zip(to) {
                let gain = (from.clear + from.dull).max(to.clear + to.dull);
                if gain * source.amplitude() > MIN_AMPLITUDE {
                    heard.add(source, from, to);
                }
            }
            paths.push((source.key, to));
        }
        self.paths = paths;
        self.mix(&heard)
    }

    fn mix(&mut self, heard: &[EarMix; 2]) -> SoundBlock {
        let mut block = [0.0; BLOCK_FRAMES * 2];
        let share = low_pass(DULL_CUTOFF_HERTZ);
        for (index, frame) in block.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            for ear in 0..2 {
                let filter = &mut self.filters[ear];
                *filter += share * (heard[ear].dull[index] - *filter);
                frame[ear] = compress(heard[ear].clear[index] + *filter);
            }
        }
        // Decaying filter states must not become denormal numbers, whose arithmetic is slow.
        self.filters = self.filters.map(|filter| if filter.abs() < 1e-20 { 0.0 } else { filter });
        block
    }
}

/// Returns the paths to the left and to the right ear.
pub(crate) fn paths_of(head: &Pose, place: Vec3) -> [Path; 2] {
    let turn = Quat::from_array(head.orientation).normalize();
    let way = turn.inverse() * (place - Vec3::from(head.position));
    let distance = way.length();
    let direction = way / distance.max(1e-3);
    let side = direction.x.clamp(-1.0, 1.0);
    let delay = HEAD_RADIUS / SPEED_OF_SOUND * (side.asin().abs() + side.abs()) * SOUND_RATE as f32;
    let turned = (1.0 + PANNING_SHARE * side) * FRAC_PI_4;
    let from_behind = REAR_DULL_SHARE * direction.z.max(0.0);
    [(turned.cos(), -side), (turned.sin(), side)].map(|(gain, towards)| {
        let far = (-towards).max(0.0);
        let gain = gain / distance.max(MIN_DISTANCE);
        let clear = (1.0 - SHADOW_DULL_SHARE * far) * (1.0 - from_behind);
        Path { clear: gain * clear, dull: gain * (1.0 - clear), delay: if far > 0.0 { delay } else { 0.0 } }
    })
}

impl EarMix {
    /// Adds a source whose path changes from one to another during the block.
    fn add(&mut self, source: &Source, from: Path, to: Path) {
        let per_frame = 1.0 / BLOCK_FRAMES as f32;
        let stretches = self.clear.chunks_mut(DELAY_STEP_FRAMES).zip(self.dull.chunks_mut(DELAY_STEP_FRAMES));
        for (index, (clear, dull)) in stretches.enumerate() {
            let first = index * DELAY_STEP_FRAMES;
            let path = from.towards(to, (first + DELAY_STEP_FRAMES / 2) as f32 * per_frame);
            let at = (HISTORY_FRAMES + first) as f32 - path.delay;
            let whole = at as usize;
            let share = at - whole as f32;
            let samples = &source.samples[whole..];
            let begin = from.towards(to, first as f32 * per_frame);
            let (clear_step, dull_step) = ((to.clear - from.clear) * per_frame, (to.dull - from.dull) * per_frame);
            let pairs = samples.iter().zip(&samples[1..]);
            for (frame, ((clear, dull), (sample, next))) in clear.iter_mut().zip(dull).zip(pairs).enumerate() {
                let sample = sample + share * (next - sample);
                *clear += sample * (begin.clear + clear_step * frame as f32);
                *dull += sample * (begin.dull + dull_step * frame as f32);
            }
        }
    }
}

fn compress(sample: f32) -> f32 {
    let over = sample.abs() - COMPRESSION_THRESHOLD;
    if over <= 0.0 {
        return sample;
    }
    let room = 1.0 - COMPRESSION_THRESHOLD;
    (COMPRESSION_THRESHOLD + room * (over / room).tanh()).copysign(sample)
}
