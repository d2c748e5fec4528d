//! Decodes sound and requests it from the receiver every 10 ms, as an output device would.

use nearlight_session::Receiver;
use nearlight_sound::{BLOCK_FRAMES, OpusError, SoundDecoder};
use nearlight_units::{Span, Time};
use nearlight_wire::BLOCK;

use crate::ViewerError;

/// Longest stall after which missed sound is still played. After a longer one, playback continues at the current time. Guess: a listener
/// hears a longer burst as delay.
const MAX_CATCH_UP: Span = Span::from_millis(200);

pub struct SoundOutput {
    decoder: SoundDecoder,
    next_at: Time,
}

impl SoundOutput {
    pub fn new(now: Time) -> Result<Self, OpusError> {
        Ok(Self { decoder: SoundDecoder::new()?, next_at: now })
    }

    /// Returns when [`SoundOutput::play`] must be called next.
    pub const fn next_at(&self) -> Time {
        self.next_at
    }

    /// Decodes the packets that arrived and passes blocks that are due to `play`, with the time at which their first sample is due.
    pub fn play(
        &mut self,
        now: Time,
        receiver: &mut Receiver,
        mut play: impl FnMut(Time, &[f32]) -> Result<(), ViewerError>,
    ) -> Result<(), ViewerError> {
        self.decode(now, receiver);
        if now - self.next_at > MAX_CATCH_UP {
            self.next_at = now;
        }
        while self.next_at <= now {
            let mut samples = [0.0; BLOCK_FRAMES * 2];
            receiver.sound().poll_samples(now, self.next_at, &mut samples);
            play(self.next_at, &samples)?;
            self.next_at += BLOCK;
            self.decode(now, receiver);
        }
        Ok(())
    }

    fn decode(&mut self, now: Time, receiver: &mut Receiver) {
        while let Some(packet) = receiver.sound().poll_packet(now) {
            match self.decoder.decode(&packet.bytes) {
                Ok(samples) => receiver.sound().on_decoded(packet.block, &samples),
                // The receiver conceals it like a lost packet.
                Err(error) => tracing::debug!(block = %packet.block, %error, "sound was not decoded"),
            }
        }
    }
}
