//! Spatial sound: synthesises the sounds of a world's objects, renders them for two ears, and encodes them as Opus.
//!
//! Nothing here reads a clock: every call of [`Room::advance`] makes the next ten milliseconds, and the same calls make the same samples. A
//! world reports what hums and what was struck ([`Cues`]), [`Room`] synthesises each source's sound once for all listeners, [`Ears`]
//! spatialise it for one of them, [`SoundEncoder`] encodes what they hear. A program that makes its sound itself submits it to a [`Feed`],
//! in portions that a [`Converter`] has brought to the encoder's rate.

#![forbid(unsafe_code)]

mod convert;
mod ears;
mod feed;
mod opus;
mod room;
#[cfg(test)]
mod tests;
mod voice;

use glam::Vec3;
use nearlight_units::Span;
use nearlight_wire::{BLOCK, SOUND_RATE};

pub use convert::{Converter, MAX_PORTION_FRAMES, Portion, PortionError, SAMPLE_RATES, Samples};
pub use ears::Ears;
pub use feed::Feed;
pub use opus::{OpusError, SoundDecoder, SoundEncoder, version};
pub use room::Room;

/// Sample frames in a block. A frame has a sample for the left and one for the right ear.
pub const BLOCK_FRAMES: usize = (SOUND_RATE as i64 * BLOCK.as_nanos() / Span::from_secs(1).as_nanos()) as usize;

/// A block for two ears, with left and right interleaved, from -1 to 1.
pub type SoundBlock = [f32; BLOCK_FRAMES * 2];

/// The timbre of a continuous sound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timbre {
    /// A soft tone with two overtones that come and go.
    Tone { hertz: f32 },
    /// Water that splashes.
    Water,
}

/// A continuous sound that lasts as long as the world lists it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hum {
    /// Id of the hum within its world.
    pub id: u16,
    /// Position in metres, as in poses.
    pub place: Vec3,
    pub timbre: Timbre,
    /// Amplitude at one metre, 0 to 1.
    pub level: f32,
}

/// The kind of struck object, which decides how it rings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StrikeKind {
    /// Hard and round: rings for a quarter of a second.
    Ball { hertz: f32 },
    /// A wooden box: a dull knock.
    Crate { hertz: f32 },
    /// A little bell: rings for a second or two.
    Chime { hertz: f32 },
    /// Nothing is struck: an object flies through the air.
    Air,
}

/// A sound that begins now and dies away where it began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strike {
    pub place: Vec3,
    pub struck: StrikeKind,
    /// Amplitude at one metre, 0 to 1.
    pub level: f32,
}

/// The sounds of a world since the last call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cues {
    /// All current hums; those that are no longer listed fall silent.
    pub hums: Vec<Hum>,
    /// Objects that were struck since the last time, each once.
    pub strikes: Vec<Strike>,
}
