//! The client's end of the sound: packets in, samples out at the moment when they are to be heard.
//!
//! It decides in which order the decoder gets packets and when one is given up, how late everything is played (in sync with the picture
//! if the path permits, later if packets arrive too unevenly for that), how fast (clocks of server and output drift apart), and what
//! replaces a missing block. It neither decodes nor knows an output device: the driver requests samples and says when they will
//! be heard.

mod delay_quantile;
mod pauses;
mod played;
mod playout_buffer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use nearlight_events::{Samples, SoundCounts};
use nearlight_units::{BlockId, RemoteTime, Span, Time};
use nearlight_wire::{BLOCK, SOUND_RATE, Sound, is_pause};

use crate::ClockEstimate;
use delay_quantile::DelayQuantile;
use pauses::Pauses;
pub(crate) use played::PlayedSound;
pub use played::RtpSound;
use playout_buffer::{BLOCK_FRAMES, PlayoutBuffer};

/// A block's samples: left, right, left, and so on.
pub type SoundBlock = [f32; BLOCK_FRAMES * 2];

const SILENCE: SoundBlock = [0.0; BLOCK_FRAMES * 2];

/// Maximum number of waiting packets, and of waiting blocks: two thirds of a second. Older ones are dropped.
const MAX_WAITING: usize = 64;
/// How long before the driver requests it a block must be decoded. Guess: a browser's decoder in another process takes 1 to 3 ms.
const DECODE_TIME: Span = Span::from_millis(3);
/// A block that is decoded too late shows that the decoder needs longer. The allowance grows by [`DECODE_STEP`], up to [`MAX_SLOWNESS`],
/// and shrinks by [`SLOWNESS_DECAY`] in a second without one. Guesses: on an overloaded machine decoders take tens of milliseconds, and
/// without this allowance there would be silence.
const DECODE_STEP: Span = Span::from_millis(1);
const MAX_SLOWNESS: Span = Span::from_millis(200);
const SLOWNESS_DECAY: f64 = 0.002;
/// Number of blocks by which the decoder starts ahead of playback, so that they are ready.
const LEAD_BLOCKS: u32 = 3;
/// Deviation from the target, in frames, beyond which sound is not stretched but cut: 40 ms. ITU-R BT.1359: sound that is early is noticed
/// from 45 ms on, sound that is late from 125 ms on.
const MAX_STRETCHED_FRAMES: f64 = 0.04 * SOUND_RATE as f64;
/// If a block is missing, waiting for it helps if sound should be delayed by at least this many frames anyway.
const MIN_INSERTED_FRAMES: f64 = BLOCK_FRAMES as f64 / 2.0;
/// A smaller deviation, in frames, is not corrected: 2 ms, a twentieth of what can be noticed.
const TOLERATED_FRAMES: f64 = 0.002 * SOUND_RATE as f64;
/// Maximum speed change of the sound: a sixth of a semitone. Guess: hardly audible without a comparison.
const MAX_BEND: f64 = 0.01;
/// Speed change per frame of deviation from the target: corrected in four seconds.
const BEND_PER_FRAME: f64 = MAX_BEND / (0.024 * SOUND_RATE as f64);
/// Decay of the output's latency in seconds per second: twice the rate by which sound is stretched.
const LATENCY_DECAY: f64 = 0.02;
/// Maximum delay of playback, whatever server and path report.
const MAX_DELAY: Span = Span::from_secs(1);
/// A delay is out of date after this time without requests for samples.
const DELAY_VALIDITY: Span = Span::from_millis(200);

/// A packet on its way from the encoder, with [`Time`], or to the decoder, with [`RemoteTime`]: the clock is the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundPacket<T = Time> {
    pub block: BlockId,
    /// The moment in the world of its first sample.
    pub made_at: T,
    pub bytes: Vec<u8>,
}

/// Statistics of the sound.
#[derive(Clone, Debug, Default)]
pub struct SoundStatistics {
    pub counts: SoundCounts,
    /// Time from the moment in the world to its playback. None while there is no listener.
    pub delay: Option<Span>,
    /// Distance in time between sound and picture, for each displayed frame.
    pub apart: Samples,
}

/// Keeps a stream of sound in order, synchronized and continuous.
#[derive(Debug, Default)]
pub(crate) struct SoundPlayer {
    waiting: BTreeMap<u32, Vec<u8>>,
    decoded: BTreeMap<u32, Box<SoundBlock>>,
    /// The newest block that arrived in its own datagram, and which of the 128 up to it have arrived.
    newest: Option<u32>,
    seen: u128,
    first: u32,
    pauses: Pauses,
    /// One block's moment, from which all others follow by their numbers.
    anchor: Option<(u32, RemoteTime)>,
    /// A block's picture is expected on the display this long after its moment.
    due_after: Span,
    delay: DelayQuantile,
    /// The next block for the decoder.
    next_packet: u32,
    playout: Option<PlayoutBuffer>,
    /// Whether playback waits until the sound is late enough.
    waits: bool,
    /// Time from requesting samples until they are heard.
    latency: Span,
    /// The decoder's time beyond the expected one.
    slowness: Span,
    /// When samples were requested, and for which duration.
    asked: Option<(Time, Span)>,
    /// When the newest samples are heard, and their delay.
    heard: Option<(Time, Span)>,
    counts: SoundCounts,
    apart: Samples,
}

impl SoundPlayer {
    pub(crate) fn on_sound(&mut self, now: Time, sound: &Sound<'_>, clock: Option<ClockEstimate>) {
        let block = sound.block.0;
        self.due_after = Span::from_micros(i64::from(sound.due_after_us)).min(MAX_DELAY);
        if !self.count(sound) {
            return;
        }
        if self.newest == Some(block) {
            self.anchor = Some((block, sound.made_at));
        }
        if let Some(clock) = clock {
            self.delay.on_arrival(now - clock.to_client(sound.made_at));
        }
        if !is_pause(sound.packet) {
            self.keep(block, sound.packet);
        }
        let repeats = !sound.before.is_empty() && !is_pause(sound.before);
        if let Some(before) = block.checked_sub(1).filter(|_| repeats) {
            self.counts.repeated += u64::from(self.keep(before, sound.before));
        }
    }

    /// Records the arrival of a block's own datagram. Returns false for a duplicate and for one that is long past.
    fn count(&mut self, sound: &Sound<'_>) -> bool {
        let block = sound.block.0;
        if self.newest.is_none_or(|newest| block > newest) {
            self.pauses.on_newest(self.newest, block, is_pause(sound.packet), !sound.before.is_empty());
        }
        let Some(newest) = self.newest else {
            (self.newest, self.first, self.seen) = (Some(block), block, 1);
            self.counts.packets = 1;
            return true;
        };
        if block > newest {
            self.seen = self.seen.checked_shl(block - newest).unwrap_or(0) | 1;
            self.newest = Some(block);
        } else {
            let age = newest - block;
            if age >= u128::BITS || self.seen >> age & 1 == 1 || block < self.first {
                return false;
            }
            self.seen |= 1 << age;
        }
        self.counts.packets += 1;
        true
    }

    /// Stores a packet for the decoder. Returns false for a duplicate and for one that is too late.
    fn keep(&mut self, block: u32, packet: &[u8]) -> bool {
        let past = self.playout.is_some() && block < self.next_packet;
        if past || self.waiting.contains_key(&block) {
            return false;
        }
        self.waiting.insert(block, packet.to_vec());
        while self.waiting.len() > MAX_WAITING {
            self.waiting.pop_first();
        }
        true
    }

    /// Returns the next packet for the decoder, in order. None before samples were requested.
    pub(crate) fn poll_packet(&mut self, now: Time) -> Option<SoundPacket<RemoteTime>> {
        let (anchor, made_at) = self.anchor?;
        let (oldest, _) = self.waiting.first_key_value()?;
        if *oldest > self.next_packet && self.give_up_at()? > now {
            return None;
        }
        let (block, bytes) = self.waiting.pop_first()?;
        self.next_packet = block.saturating_add(1);
        let made_at = made_at + BLOCK * (i64::from(block) - i64::from(anchor));
        Some(SoundPacket { block: BlockId(block), made_at, bytes })
    }

    /// When to call [`SoundPlayer::poll_packet`] even if nothing happens, because others wait behind a missing packet.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let (oldest, _) = self.waiting.first_key_value()?;
        (*oldest > self.next_packet).then(|| self.give_up_at()).flatten()
    }

    /// When to give up the next packet: its block will be requested soon after this, and those behind it must not wait any longer.
    fn give_up_at(&self) -> Option<Time> {
        let playout = self.playout.as_ref()?;
        let (asked_at, length) = self.asked?;
        let ahead = f64::from(self.next_packet) * BLOCK_FRAMES as f64 - playout.position();
        let requests = ((ahead / frames(length).max(1.0)).floor() + 1.0).clamp(0.0, MAX_WAITING as f64);
        Some(asked_at + length.mul_f64(requests) - DECODE_TIME - self.slowness)
    }

    pub(crate) fn on_decoded(&mut self, block: BlockId, samples: &SoundBlock) {
        let Some(playout) = &self.playout else { return };
        if block.0 < playout.next {
            self.counts.late += 1;
            self.slowness = (self.slowness + DECODE_STEP).min(MAX_SLOWNESS);
            return;
        }
        self.decoded.insert(block.0, Box::new(*samples));
        while self.decoded.len() > MAX_WAITING {
            self.decoded.pop_first();
        }
    }

    /// Fills `out` with the samples to be heard from `heard_at` on.
    pub(crate) fn play(&mut self, now: Time, heard_at: Time, clock: Option<ClockEstimate>, out: &mut [f32]) {
        let length = Span::from_secs(1) * ((out.len() / 2) as i64) / i64::from(SOUND_RATE);
        let (Some(clock), Some((anchor, made_at))) = (clock, self.anchor) else {
            out.fill(0.0);
            return;
        };
        self.asked = Some((now, length));
        self.latency = (heard_at - now).max(self.latency - length.mul_f64(LATENCY_DECAY)).max(Span::ZERO);
        self.slowness = (self.slowness - length.mul_f64(SLOWNESS_DECAY)).max(Span::ZERO);
        let least = self.delay.quantile().min(MAX_DELAY) + self.latency + length + DECODE_TIME + self.slowness;
        let delay = self.due_after.max(least);
        let wanted = f64::from(anchor) * BLOCK_FRAMES as f64 + frames(heard_at - delay - clock.to_client(made_at));
        let playout = self.playout.get_or_insert_with(|| {
            let playout = PlayoutBuffer::new(wanted, LEAD_BLOCKS);
            self.next_packet = playout.next;
            playout
        });
        self.waiting.retain(|block, _| *block >= playout.next);
        let since_anchor = span(playout.position() - f64::from(anchor) * BLOCK_FRAMES as f64);
        self.heard = Some((heard_at, heard_at - clock.to_client(made_at) - since_anchor));
        let off = playout.position() - wanted;
        if off < -MAX_STRETCHED_FRAMES {
            playout.cut_to((wanted / BLOCK_FRAMES as f64).max(0.0) as u32);
            self.next_packet = self.next_packet.max(playout.next);
        }
        self.waits |= off > MAX_STRETCHED_FRAMES;
        let bend = if off.abs() > TOLERATED_FRAMES && off.abs() <= MAX_STRETCHED_FRAMES {
            (-off * BEND_PER_FRAME).clamp(-MAX_BEND, MAX_BEND)
        } else {
            0.0
        };
        for (index, frame) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            while self.playout.as_ref().is_some_and(PlayoutBuffer::is_short) {
                self.extend(wanted + index as f64);
            }
            let Some(playout) = &mut self.playout else { return };
            *frame = playout.next_frame(1.0 + bend);
        }
    }

    /// Appends the next block, or a substitute.
    fn extend(&mut self, wanted: f64) {
        let Some(playout) = &mut self.playout else { return };
        let off = playout.position() - wanted;
        self.waits &= off > MIN_INSERTED_FRAMES;
        self.decoded.retain(|block, _| *block >= playout.next);
        let block = if self.waits { None } else { self.decoded.remove(&playout.next) };
        let silent = self.pauses.is_silent(playout.next);
        match block {
            Some(block) => playout.append(&block),
            None if silent && off <= MIN_INSERTED_FRAMES => playout.append(&SILENCE),
            None => {
                self.counts.concealed += u64::from(!silent);
                playout.conceal(off > MIN_INSERTED_FRAMES);
            }
        }
    }

    /// Records that the picture of `made_at`, on the client's clock, has been on the display since `now`.
    pub(crate) fn on_displayed(&mut self, now: Time, made_at: Time) {
        if let Some((_, delay)) = self.heard.filter(|(at, _)| (now - *at).abs() < DELAY_VALIDITY) {
            self.apart.push((delay - (now - made_at)).abs());
        }
    }

    pub(crate) fn statistics(&self, now: Time) -> SoundStatistics {
        let sent = self.newest.map_or(0, |newest| u64::from(newest - self.first) + 1);
        let lost = sent.saturating_sub(self.counts.packets).saturating_sub(self.pauses.unsent());
        let delay = self.heard.filter(|(at, _)| (now - *at).abs() < DELAY_VALIDITY).map(|(_, delay)| delay);
        SoundStatistics { counts: SoundCounts { lost, ..self.counts }, delay, apart: self.apart.clone() }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        (self.waiting.len(), self.decoded.len(), self.playout.as_ref().map_or(0, PlayoutBuffer::held))
    }
}

fn frames(span: Span) -> f64 {
    span.as_secs_f64() * f64::from(SOUND_RATE)
}

fn span(frames: f64) -> Span {
    Span::from_secs_f64(frames / f64::from(SOUND_RATE))
}
