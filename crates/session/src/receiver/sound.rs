//! The receiver's sound: everything that concerns sound goes through here.

use nearlight_units::{BlockId, Bytes, RemoteTime, Time};
use nearlight_wire::Sound;

use super::Receiver;
use crate::sound::{RtpSound, SoundBlock, SoundPacket, SoundStatistics};

impl Receiver {
    /// The session has sound. Sound that arrived before this call is not heard.
    pub fn set_sound(&mut self) {
        self.sound.get_or_insert_default();
    }

    pub(super) fn on_sound(&mut self, now: Time, bytes: usize, sound: &Sound<'_>) {
        let clock = self.clock.estimate(now);
        let Some(player) = &mut self.sound else { return };
        player.on_sound(now, sound, clock);
        self.received += Bytes::new(bytes as u64);
        self.recent.on_bytes(now, Bytes::new(bytes as u64));
    }

    /// The next packet for the sound decoder; call until none.
    pub fn poll_sound(&mut self, now: Time) -> Option<SoundPacket<RemoteTime>> {
        self.sound.as_mut()?.poll_packet(now)
    }

    /// The decoder's samples of a block. A block that it rejects is not reported: it counts as missing.
    pub fn on_sound_decoded(&mut self, block: BlockId, samples: &SoundBlock) {
        if let Some(player) = &mut self.sound {
            player.on_decoded(block, samples);
        }
    }

    /// Fills `samples` (left, right, left, …) with what will be heard from `heard_at` on. Called in steps of at most ten milliseconds, each
    /// beginning where the previous one ends.
    pub fn poll_samples(&mut self, now: Time, heard_at: Time, samples: &mut [f32]) {
        let clock = self.clock.estimate(now);
        match &mut self.sound {
            Some(player) => player.play(now, heard_at, clock, samples),
            None => samples.fill(0.0),
        }
    }

    /// None in a session without sound.
    #[must_use]
    pub fn sound_statistics(&self, now: Time) -> Option<SoundStatistics> {
        let played = || self.played_sound.as_ref().map(|played| played.statistics(now));
        self.sound.as_ref().map(|player| player.statistics(now)).or_else(played)
    }

    /// What the application's own media stack has received and played by `now`.
    pub fn on_rtp_sound(&mut self, now: Time, sound: &RtpSound) {
        let clock = self.clock.estimate(now);
        self.played_sound.get_or_insert_default().on_counts(now, sound, clock);
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held_sound(&self) -> (usize, usize, usize) {
        self.sound.as_ref().map_or((0, 0, 0), |player| player.held())
    }
}
