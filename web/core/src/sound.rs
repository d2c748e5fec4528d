//! The page's sound: packets for its decoder, samples for its loudspeaker.

use nearlight_session::SoundPacket;
use nearlight_units::{BlockId, RemoteTime};
use wasm_bindgen::prelude::*;

use crate::{Core, rtp, time};

/// Samples per channel in a block of ten milliseconds.
pub(crate) const BLOCK_MOMENTS: usize = 480;
/// Its stereo samples.
const BLOCK_SAMPLES: usize = 2 * BLOCK_MOMENTS;

#[wasm_bindgen]
impl Core {
    /// The next packet for the sound decoder.
    pub fn poll_sound(&mut self, now: f64) -> Option<SoundChunk> {
        self.receiver.sound().poll_packet(time(now)).map(SoundChunk)
    }

    /// The decoder's samples of a block: left, right, left, and so on. Other lengths than a block's are ignored.
    pub fn on_sound_decoded(&mut self, block: u32, samples: &[f32]) {
        if let Ok(samples) = samples.try_into() {
            let samples: &[f32; BLOCK_SAMPLES] = samples;
            self.receiver.sound().on_decoded(BlockId(block), samples);
        }
    }

    /// The browser's counters where it receives and plays by itself: a `SoundCounts` as JSON. Anything else is ignored.
    pub fn on_rtp_sound(&mut self, now: f64, counts: &str) {
        let Ok(counts) = serde_json::from_str::<rtp::SoundCounts>(counts) else { return };
        self.receiver.rtp().on_sound(time(now), &counts.into());
    }

    /// How many moments of samples the loudspeaker should have; it has them for `left` more moments, or lacked them for as many as are
    /// below zero.
    pub fn speaker_depth(&mut self, now: f64, left: i32) -> usize {
        self.speaker.on_left(time(now), left);
        self.speaker.moments()
    }

    /// Samples for this many moments, at most a block's 480, the first of which is heard at `heard_at`.
    pub fn poll_samples(&mut self, now: f64, heard_at: f64, moments: usize) -> Vec<f32> {
        let mut samples = vec![0.0; moments.min(BLOCK_MOMENTS) * 2];
        self.receiver.sound().poll_samples(time(now), time(heard_at), &mut samples);
        samples
    }
}

/// An encoded block on its way to the decoder.
#[wasm_bindgen]
pub struct SoundChunk(SoundPacket<RemoteTime>);

#[wasm_bindgen]
impl SoundChunk {
    #[wasm_bindgen(getter)]
    pub fn block(&self) -> u32 {
        self.0.block.0
    }

    /// The packet, copied into JavaScript's memory.
    pub fn bits(&self) -> Vec<u8> {
        self.0.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_gets_samples_for_as_many_moments_as_it_asks_for() {
        let mut core = Core::over(crate::tally::TransportName::WebTransport);
        assert_eq!(core.poll_samples(1e6, 1e6, 240).len(), 480);
        assert_eq!(core.poll_samples(1e6, 1e6, 1 << 40).len(), BLOCK_SAMPLES);
        assert!(core.poll_sound(1e6).is_none());
        core.on_sound_decoded(0, &[0.0; 7]);
    }
}
