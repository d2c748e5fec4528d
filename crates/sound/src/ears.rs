//! Two ears on one head: how loud, how late and how dull each hears each source.
//!
//! A sound from the side reaches the far ear later (Woodworth's formula for a ball: R. S. Woodworth, Experimental Psychology, 1938),
//! more softly and duller; one from behind is duller in both; twice as far is half as loud. Left out: the way through the air takes
//! no time, as light takes none, so that what is seen and heard stays together; nothing echoes; above and below sound alike.

use std::f32::consts::FRAC_PI_4;

use glam::{Quat, Vec3};
use nearlight_wire::{Pose, SOUND_RATE};

use crate::room::{REACH_BACK, Room, Source};
use crate::voice::low_pass;
use crate::{BLOCK_FRAMES, SoundBlock};

/// Radius of a head in metres, and metres a second of sound in air (as in the literature on Woodworth's formula).
const HEAD_RADIUS: f32 = 0.0875;
const SPEED_OF_SOUND: f32 = 343.0;
/// Share of full panning. Guess: at the far ear a sound from the side is 16 dB softer, as around a head at 3 kHz.
const PANNING: f32 = 0.8;
/// Cut-offs in hertz of an ear that a sound meets directly, that lies behind the head, and of both for a sound from behind. Guesses.
const CLEAR: f32 = 16_000.0;
const SHADED: f32 = 2_800.0;
const BEHIND: f32 = 6_000.0;
/// A source does not get louder nearer than this, in metres.
const NEAREST: f32 = 1.0;
/// Softer than this is not worked out: 100 dB below full scale.
const SILENT: f32 = 1e-5;
/// Louder sums are bent towards full scale instead of cut off.
const LOUD: f32 = 0.7;

/// How one ear hears one source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Path {
    pub(crate) gain: f32,
    /// Samples.
    pub(crate) delay: f32,
    /// Of the low-pass.
    pub(crate) share: f32,
}

/// What remains from block to block for one source.
#[derive(Clone, Copy, Debug)]
struct Track {
    key: u64,
    paths: [Path; 2],
    filters: [f32; 2],
}

/// One listener.
#[derive(Debug, Default)]
pub struct Ears {
    tracks: Vec<Track>,
}

impl Ears {
    /// What a head at `head` hears of the room's newest block. From block to block everything changes gradually.
    pub fn hear(&mut self, room: &Room, head: &Pose) -> SoundBlock {
        let mut block = [0.0; BLOCK_FRAMES * 2];
        let mut tracks = Vec::with_capacity(room.len());
        for source in room.sources() {
            let paths = paths(head, source.place);
            let before = self.tracks.iter().find(|track| track.key == source.key);
            let mut track = before.copied().unwrap_or(Track { key: source.key, paths, filters: [0.0; 2] });
            for (ear, path) in paths.into_iter().enumerate() {
                if path.gain.max(track.paths[ear].gain) > SILENT {
                    add(&mut block[ear..], source, track.paths[ear], path, &mut track.filters[ear]);
                }
            }
            track.paths = paths;
            tracks.push(track);
        }
        self.tracks = tracks;
        block.iter_mut().for_each(|sample| *sample = bend(*sample));
        block
    }
}

/// Left and right.
pub(crate) fn paths(head: &Pose, place: Vec3) -> [Path; 2] {
    let turn = Quat::from_array(head.orientation).normalize();
    let way = turn.inverse() * (place - Vec3::from(head.position));
    let distance = way.length();
    let direction = way / distance.max(1e-3);
    let side = direction.x.clamp(-1.0, 1.0);
    let angle = side.asin();
    let delay = HEAD_RADIUS / SPEED_OF_SOUND * (angle.abs() + side.abs()) * SOUND_RATE as f32;
    let turned = (1.0 + PANNING * side) * FRAC_PI_4;
    let dull = direction.z.max(0.0);
    [(turned.cos(), -side), (turned.sin(), side)].map(|(gain, towards)| {
        let far = (-towards).max(0.0);
        // Cut-offs are heard by their ratios.
        let cutoff = CLEAR * (SHADED / CLEAR).powf(far) * (BEHIND / CLEAR).powf(dull);
        Path { gain: gain / distance.max(NEAREST), delay: if far > 0.0 { delay } else { 0.0 }, share: low_pass(cutoff) }
    })
}

/// Adds a source to every second sample, while its path changes from one to another.
fn add(ear: &mut [f32], source: &Source, from: Path, to: Path, filter: &mut f32) {
    let step = 1.0 / BLOCK_FRAMES as f32;
    let (gain_step, delay_step) = ((to.gain - from.gain) * step, (to.delay - from.delay) * step);
    let (mut gain, mut delay) = (from.gain, from.delay);
    let mut low = *filter;
    for (frame, out) in ear.iter_mut().step_by(2).enumerate() {
        gain += gain_step;
        delay += delay_step;
        let at = (REACH_BACK + frame) as f32 - delay;
        let whole = at as usize;
        let share = at - whole as f32;
        let next = source.samples.get(whole + 1).copied().unwrap_or(0.0);
        let sample = source.samples[whole] + share * (next - source.samples[whole]);
        low += to.share * (sample - low);
        *out += gain * low;
    }
    *filter = low;
}

fn bend(sample: f32) -> f32 {
    let over = sample.abs() - LOUD;
    if over <= 0.0 {
        return sample;
    }
    let room = 1.0 - LOUD;
    (LOUD + room * (over / room).tanh()).copysign(sample)
}
