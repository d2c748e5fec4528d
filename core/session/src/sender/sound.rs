//! The sender's sound: packets leave at once, ahead of media and outside the pacer, because they are small and evenly spaced.
//!
//! It counts towards the rate: the picture encoder gets the target minus the sound of the last second.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wire::{SOUND_HEADER_BYTES, Sound};

use super::{Sender, UNKNOWN_TO_DISPLAY};
use crate::recent::RecentRate;
use crate::sound::SoundPacket;

/// Maximum number of datagrams that wait for the driver: older sound is of no use.
const MAX_QUEUED: usize = 4;
/// The sound's share of the target, as a divisor and including repetitions, and the bit rates of its encoder in bits per second.
/// Guesses: at 64 kb/s music in stereo is good (RFC 7587, section 3.1.1: 64 to 128 kb/s), and at 24 kb/s it is still stereo.
const TARGET_DIVISOR: u64 = 8;
const ENCODER_RATES: [u64; 3] = [64_000, 40_000, 24_000];

#[derive(Debug, Default)]
pub(super) struct SoundOut {
    queue: VecDeque<Vec<u8>>,
    /// The packet that the next datagram repeats.
    before: Option<SoundPacket>,
    recent: RecentRate,
    /// Rate over the last second, as of the newest datagram.
    rate: Bitrate,
}

impl SoundOut {
    /// The remainder of a target after the sound.
    pub(super) fn after_sound(&self, target: Bitrate) -> Bitrate {
        Bitrate::from_bps(target.as_bps().saturating_sub(self.rate.as_bps()))
    }
}

impl Sender {
    /// Handles an encoded packet of sound, one for each block, in order.
    pub fn on_sound(&mut self, now: Time, packet: SoundPacket) {
        let due_after = self.render_to_display.unwrap_or(UNKNOWN_TO_DISPLAY).max(Span::ZERO);
        let before = self.sound.before.as_ref().filter(|before| before.block.next() == packet.block);
        let room = self.config.max_datagram.saturating_sub(SOUND_HEADER_BYTES + packet.bytes.len());
        let before = before.map_or(&[][..], |before| &before.bytes).get(..).filter(|before| before.len() <= room);
        let sound = Sound {
            block: packet.block,
            made_at: packet.made_at.for_peer(),
            due_after_us: u32::try_from(due_after.as_micros()).unwrap_or(u32::MAX),
            packet: &packet.bytes,
            before: before.unwrap_or_default(),
        };
        let datagram = sound.to_bytes();
        if self.sound.queue.len() == MAX_QUEUED {
            self.sound.queue.pop_front();
        }
        self.sound.recent.on_bytes(now, Bytes::new(datagram.len() as u64));
        self.sound.rate = self.sound.recent.rate(now);
        self.sound.queue.push_back(datagram);
        self.sound.before = Some(packet);
    }

    /// The bit rate that the sound encoder should use.
    pub(super) fn sound_rate(&self) -> Bitrate {
        // Everything is sent twice.
        let most = self.decision.target.as_bps() / TARGET_DIVISOR / 2;
        let rate =
            ENCODER_RATES.into_iter().find(|rate| *rate <= most).unwrap_or(ENCODER_RATES[ENCODER_RATES.len() - 1]);
        Bitrate::from_bps(rate)
    }

    pub(super) fn poll_sound(&mut self, now: Time) -> Option<Vec<u8>> {
        let datagram = self.sound.queue.pop_front()?;
        let size = Bytes::new(datagram.len() as u64);
        self.statistics.sound_packets += 1;
        self.statistics.sound += size;
        self.recent.on_bytes(now, size);
        Some(datagram)
    }
}
