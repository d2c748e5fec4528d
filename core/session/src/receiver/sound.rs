//! The sound of a receiver, played here or by the application's own media stack.

use nearlight_units::{BlockId, RemoteTime, Time};
use nearlight_wire::Sound;

use crate::Wake;
use crate::clock::{ClockEstimate, ClockSync};
use crate::sound::{PlayedSound, RtpSound, SoundBlock, SoundPacket, SoundPlayer, SoundStatistics};

/// Both ways in which a session's sound may be played.
#[derive(Debug, Default)]
pub(super) struct SoundReception {
    /// None: there is no listener.
    player: Option<Box<SoundPlayer>>,
    /// None: the application's own media stack plays nothing.
    played: Option<Box<PlayedSound>>,
}

impl SoundReception {
    /// Takes a datagram of sound that arrived. Returns false when there is no listener.
    pub(super) fn on_datagram(&mut self, now: Time, sound: &Sound<'_>, clock: Option<ClockEstimate>) -> bool {
        let Some(player) = &mut self.player else { return false };
        player.on_sound(now, sound, clock);
        true
    }

    pub(super) fn on_rtp_counts(&mut self, now: Time, sound: &RtpSound, clock: Option<ClockEstimate>) {
        self.played.get_or_insert_default().on_counts(now, sound, clock);
    }

    /// Records that the picture of `made_at`, on the client's clock, has been on the display since `now`.
    pub(super) fn on_displayed(&mut self, now: Time, made_at: Time) {
        if let Some(player) = &mut self.player {
            player.on_displayed(now, made_at);
        }
        if let Some(played) = &mut self.played {
            played.on_displayed(now, made_at);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<(Time, Wake)> {
        self.player.as_ref()?.poll_timeout().map(|at| (at, Wake::Sound))
    }

    /// Returns the statistics of the sound, or none in a session without sound.
    pub(super) fn statistics(&self, now: Time) -> Option<SoundStatistics> {
        let played = || self.played.as_ref().map(|played| played.statistics(now));
        self.player.as_ref().map(|player| player.statistics(now)).or_else(played)
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn held(&self) -> (usize, usize, usize) {
        self.player.as_ref().map_or((0, 0, 0), |player| player.held())
    }
}

/// Sound on its way to the decoder and the output device; see [`Receiver::sound`](super::Receiver::sound).
#[derive(Debug)]
pub struct ReceivedSound<'a> {
    pub(super) reception: &'a mut SoundReception,
    pub(super) clock: &'a ClockSync,
}

impl ReceivedSound<'_> {
    /// Enables the playback of sound. Sound that arrived before this call is not heard.
    pub fn set_enabled(self) {
        self.reception.player.get_or_insert_default();
    }

    /// Returns the next packet for the decoder; call until none.
    pub fn poll_packet(self, now: Time) -> Option<SoundPacket<RemoteTime>> {
        self.reception.player.as_mut()?.poll_packet(now)
    }

    /// Takes the decoder's samples of a block. A block that the decoder rejects is not reported and counts as missing.
    pub fn on_decoded(self, block: BlockId, samples: &SoundBlock) {
        if let Some(player) = &mut self.reception.player {
            player.on_decoded(block, samples);
        }
    }

    /// Fills `samples` (left, right, left, …) with what will be heard from `heard_at` on. Called in steps of at most ten milliseconds, each
    /// beginning where the previous one ends.
    pub fn poll_samples(self, now: Time, heard_at: Time, samples: &mut [f32]) {
        match &mut self.reception.player {
            Some(player) => player.play(now, heard_at, self.clock.estimate(now), samples),
            None => samples.fill(0.0),
        }
    }
}
