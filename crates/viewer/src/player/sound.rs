//! Sound, decoded, kept in sync and requested every ten milliseconds, as an output device would.

use nearlight_session::Receiver;
use nearlight_sound::{BLOCK_FRAMES, OpusError, SoundDecoder};
use nearlight_units::{Span, Time};
use nearlight_wire::BLOCK;

use crate::ViewerError;

/// After a stall longer than this nothing is made up for.
const STANDSTILL: Span = Span::from_millis(200);

pub struct SoundOutput {
    decoder: SoundDecoder,
    next_at: Time,
}

impl SoundOutput {
    pub fn new(now: Time) -> Result<Self, OpusError> {
        Ok(Self { decoder: SoundDecoder::new()?, next_at: now })
    }

    /// When [`SoundOutput::play`] is to be called at the latest.
    pub const fn next_at(&self) -> Time {
        self.next_at
    }

    /// Decodes what arrived and hands what is due to `play`, with the moment that its first sample is due.
    pub fn play(
        &mut self,
        now: Time,
        receiver: &mut Receiver,
        mut play: impl FnMut(Time, &[f32]) -> Result<(), ViewerError>,
    ) -> Result<(), ViewerError> {
        self.decode(now, receiver);
        if now - self.next_at > STANDSTILL {
            self.next_at = now;
        }
        while self.next_at <= now {
            let mut samples = [0.0; BLOCK_FRAMES * 2];
            receiver.poll_samples(now, self.next_at, &mut samples);
            play(self.next_at, &samples)?;
            self.next_at += BLOCK;
            self.decode(now, receiver);
        }
        Ok(())
    }

    fn decode(&mut self, now: Time, receiver: &mut Receiver) {
        while let Some(packet) = receiver.poll_sound(now) {
            match self.decoder.decode(&packet.bytes) {
                Ok(samples) => receiver.on_sound_decoded(packet.block, &samples),
                // It is concealed like one that never arrived.
                Err(error) => tracing::debug!(block = %packet.block, %error, "sound was not decoded"),
            }
        }
    }
}
