//! The traffic of the Unity Render Streaming study: video frames sent in batches, audio, poses.
//!
//! Sources are state machines: [`Video::poll`] returns the packets that are due.
//!
//! ```
//! use nearlight_units::{Bitrate, Time};
//! use nearlight_wifi::traffic::{Video, VideoConfig};
//!
//! let config = VideoConfig { frame_rate: 60, ..VideoConfig::study(Bitrate::from_mbps(50)) };
//! let mut video = Video::new(config, Time::ZERO, 1)?;
//! let first = video.poll(Time::ZERO).expect("the first frame starts at once");
//! assert_eq!(first.size.get(), 1_243);
//! # Ok::<(), nearlight_wifi::ConfigError>(())
//! ```

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};

use crate::config::{length, share, within};
use crate::error::ConfigError;
use crate::random::Random;

/// A packet is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Time,
    pub size: Bytes,
    /// Which video frame it belongs to.
    pub frame: Option<Frame>,
}

/// The video frame to which a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: FrameId,
    /// When it was handed to the network.
    pub at: Time,
    /// Packets that it consists of.
    pub packets: u32,
}

/// The number of batches of a frame: uniform from 1 to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// As many as begin before the next frame (the study's rule).
    Period,
    /// A fixed maximum. The study's second experiment must have used 3, regardless of the time between batches.
    UpTo(u32),
}

/// Video of constant rate, its frames cut into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoConfig {
    /// Frames per second.
    pub frame_rate: u32,
    pub rate: Bitrate,
    pub packet: Bytes,
    /// Time between packets of a batch.
    pub spacing: Span,
    /// Time between batches of a frame.
    pub interval: Span,
    pub batches: Batches,
}

impl VideoConfig {
    /// Returns the video of the study's section 8.2: 60 frames a second, packets of 1,243 bytes 5 µs apart, batches 5.56 ms apart.
    #[must_use]
    pub const fn study(rate: Bitrate) -> Self {
        Self {
            frame_rate: 60,
            rate,
            packet: Bytes::new(1_243),
            spacing: Span::from_micros(5),
            interval: Span::from_micros(5_560),
            batches: Batches::Period,
        }
    }

    /// Returns the frame interval.
    pub fn period(&self) -> Span {
        Span::from_nanos(1_000_000_000 / i64::from(self.frame_rate.max(1)))
    }

    /// Returns the maximum number of batches of a frame.
    pub fn max_batches(&self) -> u32 {
        match self.batches {
            Batches::UpTo(most) => most,
            Batches::Period => {
                let (period, interval) = (self.period().as_nanos(), self.interval.as_nanos().max(1));
                u32::try_from((period + interval - 1) / interval).unwrap_or(u32::MAX)
            }
        }
    }

    /// Returns the packets per batch of a frame sent in this many batches: enough for its share of the frame.
    pub fn packets_of_batch(&self, batches: u32) -> u32 {
        let batch = u64::from(self.frame_rate) * u64::from(batches) * self.packet.bits();
        u32::try_from(self.rate.as_bps().div_ceil(batch.max(1))).unwrap_or(u32::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("the frame rate", self.frame_rate, 1..=1_000)?;
        within("the video rate in b/s", self.rate.as_bps(), 1_000..=10_000_000_000)?;
        within("the size of a video packet", self.packet.get(), 1..=65_535)?;
        length("the time between video packets", self.spacing, Span::ZERO, Span::from_millis(10))?;
        length("the time between batches", self.interval, Span::from_micros(1), Span::from_secs(1))?;
        within("the number of batches of a frame", self.max_batches(), 1..=100_000)?;
        let most = u64::from(self.max_batches()) * u64::from(self.packets_of_batch(self.max_batches()));
        within("the packets of a frame in its most batches", most, 1..=1_000_000)?;
        within("the packets of a frame in one batch", self.packets_of_batch(1), 1..=1_000_000)
    }
}

/// A source of video packets.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    first: Time,
    frames: u32,
    /// When the next frame that is not yet scheduled begins.
    next_frame: Time,
    random: Random,
    /// In order of time.
    ready: VecDeque<Arrival>,
}

impl Video {
    /// Returns a source whose first frame comes at `first`. `seed` determines the number of batches of each frame.
    ///
    /// # Errors
    ///
    /// The configuration is invalid.
    pub fn new(config: VideoConfig, first: Time, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let (random, ready) = (Random::new(seed), VecDeque::new());
        let mut video = Self { config, first, frames: 0, next_frame: first, random, ready };
        video.make_ready();
        Ok(video)
    }

    /// Returns the next packet with `at` up to `now`. Call until None.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Arrival> {
        let arrival = self.ready.pop_front_if(|next| next.at <= now)?;
        self.make_ready();
        Some(arrival)
    }

    /// Returns when the next packet comes.
    #[inline]
    pub fn poll_timeout(&self) -> Time {
        self.ready.front().map_or(self.next_frame, |next| next.at)
    }

    fn frame_at(&self, frame: u32) -> Time {
        let passed = u128::from(frame) * 1_000_000_000 / u128::from(self.config.frame_rate);
        self.first + Span::from_nanos(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// Schedules frames until the packet at the head is certain to be the next one.
    #[inline]
    fn make_ready(&mut self) {
        while self.ready.front().is_none_or(|next| self.next_frame <= next.at) {
            self.lay_out_frame();
        }
    }

    fn lay_out_frame(&mut self) {
        let at = self.next_frame;
        let most = self.config.max_batches();
        let batches = 1 + self.random.below(u64::from(most)) as u32;
        let packets = self.config.packets_of_batch(batches);
        let frame = Frame { id: FrameId(self.frames), at, packets: batches * packets };
        self.frames += 1;
        self.next_frame = self.frame_at(self.frames);
        let interleaves = self.ready.back().is_some_and(|last| last.at > at)
            || (batches > 1 && self.config.spacing * i64::from(packets - 1) > self.config.interval);
        for batch in 0..batches {
            for packet in 0..packets {
                let offset = self.config.interval * i64::from(batch) + self.config.spacing * i64::from(packet);
                self.ready.push_back(Arrival { at: at + offset, size: self.config.packet, frame: Some(frame) });
            }
        }
        if interleaves {
            self.ready.make_contiguous().sort_by_key(|arrival| arrival.at);
        }
    }
}

/// Packets of one size at a constant rate: poses, input, background.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodicConfig {
    pub interval: Span,
    pub size: Bytes,
    /// Each packet comes up to this share of the interval early or late, so that no phase persists for an entire run.
    pub jitter: f64,
}

impl PeriodicConfig {
    /// The pose and input packets that the study measured: 175 bytes, 240 a second (its table 3).
    pub const POSES: Self = Self { interval: Span::from_nanos(4_166_667), size: Bytes::new(175), jitter: 0.0 };

    /// Returns a source of packets of the size of poses, `rate` per second.
    #[must_use]
    pub fn poses_at(rate: u32) -> Self {
        Self { interval: Span::from_nanos(1_000_000_000 / i64::from(rate.max(1))), ..Self::POSES }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        length("the interval of periodic packets", self.interval, Span::from_micros(10), Span::from_secs(10))?;
        within("the size of a periodic packet", self.size.get(), 1..=65_535)?;
        share("the jitter of periodic packets", self.jitter, 0.5)
    }
}

/// A source of periodic packets.
#[derive(Clone, Debug)]
pub struct Periodic {
    config: PeriodicConfig,
    /// Time of the next packet without jitter.
    nominal: Time,
    next: Time,
    random: Random,
}

impl Periodic {
    pub fn new(config: PeriodicConfig, first: Time, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { config, nominal: first, next: first, random: Random::new(seed) })
    }

    /// Returns the next packet with `at` up to `now`. Call until None.
    pub fn poll(&mut self, now: Time) -> Option<Arrival> {
        if self.next > now {
            return None;
        }
        let arrival = Arrival { at: self.next, size: self.config.size, frame: None };
        self.nominal += self.config.interval;
        self.next = self.nominal;
        if self.config.jitter > 0.0 {
            self.next += self.config.interval.mul_f64((self.random.unit() * 2.0 - 1.0) * self.config.jitter);
        }
        Some(arrival)
    }

    /// Returns when the next packet comes.
    pub fn poll_timeout(&self) -> Time {
        self.next
    }
}

/// The audio stream that the study measured without a sound playing: 83 bytes, 8 packets and 7 packets 20 ms apart, pauses of 30 ms
/// (its section 5.3).
#[derive(Clone, Debug)]
pub struct Audio {
    next: Time,
    sent: u64,
}

impl Audio {
    const SIZE: Bytes = Bytes::new(83);

    #[must_use]
    pub const fn new(first: Time) -> Self {
        Self { next: first, sent: 0 }
    }

    /// Returns the next packet with `at` up to `now`. Call until None.
    pub fn poll(&mut self, now: Time) -> Option<Arrival> {
        if self.next > now {
            return None;
        }
        let arrival = Arrival { at: self.next, size: Self::SIZE, frame: None };
        // The 8th and the 15th end a batch.
        let pause = matches!(self.sent % 15, 7 | 14);
        self.next += Span::from_millis(if pause { 30 } else { 20 });
        self.sent += 1;
        Some(arrival)
    }

    /// Returns when the next packet comes.
    pub fn poll_timeout(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(frame_rate: u32, batches: Batches) -> VideoConfig {
        VideoConfig { frame_rate, batches, ..VideoConfig::study(Bitrate::from_mbps(50)) }
    }

    fn arrivals(mut video: Video, until: Time) -> Vec<Arrival> {
        std::iter::from_fn(|| video.poll(until)).collect()
    }

    #[test]
    fn frames_are_cut_as_the_study_says() {
        let cases = [
            (30, 1, 168),
            (30, 2, 84),
            (30, 3, 56),
            (30, 4, 42),
            (30, 5, 34),
            (30, 6, 28),
            (60, 1, 84),
            (60, 2, 42),
            (60, 3, 28),
            (90, 1, 56),
            (90, 2, 28),
        ];
        for (frame_rate, batches, packets) in cases {
            assert_eq!(
                config(frame_rate, Batches::Period).packets_of_batch(batches),
                packets,
                "{frame_rate}/{batches}"
            );
        }
        for (frame_rate, most) in [(30, 6), (60, 3), (90, 2)] {
            assert_eq!(config(frame_rate, Batches::Period).max_batches(), most);
        }
        assert_eq!(config(60, Batches::UpTo(3)).max_batches(), 3);
    }

    #[test]
    fn a_batch_and_a_packet_come_when_the_study_says() {
        let video = Video::new(config(60, Batches::Period), Time::from_millis(1), 3).expect("a source");
        for arrival in arrivals(video, Time::from_secs(1)) {
            let frame = arrival.frame.expect("video");
            let offset = (arrival.at - frame.at).as_micros();
            let (batch, within) = (offset / 5_560, offset % 5_560);
            let packets = i64::from(frame.packets);
            assert!(within % 5 == 0 && batch < 3 && within / 5 < packets / (batch + 1), "{arrival:?}");
        }
    }

    #[test]
    fn audio_comes_in_batches_of_eight_and_seven() {
        let mut audio = Audio::new(Time::ZERO);
        let times: Vec<u64> =
            std::iter::from_fn(|| audio.poll(Time::from_millis(640))).map(|a| a.at.as_micros()).collect();
        assert_eq!(times.len(), 31);
        assert_eq!([times[7], times[8], times[14], times[15]], [140_000, 170_000, 290_000, 320_000]);
    }

    #[test]
    fn bad_traffic_is_refused() {
        let bad = [
            VideoConfig { frame_rate: 0, ..config(60, Batches::Period) },
            VideoConfig { packet: Bytes::ZERO, ..config(60, Batches::Period) },
            VideoConfig { interval: Span::ZERO, ..config(60, Batches::Period) },
            VideoConfig { rate: Bitrate::ZERO, ..config(60, Batches::Period) },
            VideoConfig { packet: Bytes::new(1), rate: Bitrate::from_mbps(9_000), ..config(1, Batches::Period) },
            config(60, Batches::UpTo(0)),
        ];
        for config in bad {
            assert!(Video::new(config, Time::ZERO, 0).is_err(), "{config:?}");
        }
        assert!(
            Periodic::new(PeriodicConfig { interval: Span::ZERO, ..PeriodicConfig::POSES }, Time::ZERO, 0).is_err()
        );
    }

    proptest! {
        #[test]
        fn packets_come_in_order_and_frames_are_whole(
            frame_rate in 24..240_u32,
            interval in 5..9_000_i64,
            spacing in 0..200_i64,
            batches in prop_oneof![Just(Batches::Period), (1..12_u32).prop_map(Batches::UpTo)],
            seed in any::<u64>(),
        ) {
            let interval = Span::from_micros(interval.max(200));
            let config = VideoConfig { interval, spacing: Span::from_micros(spacing), ..config(frame_rate, batches) };
            let all = arrivals(Video::new(config, Time::ZERO, seed).expect("a source"), Time::from_millis(300));
            prop_assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));
            for number in 0..4 {
                let of_frame = all.iter().filter_map(|arrival| arrival.frame).filter(|frame| frame.id == FrameId(number));
                let (count, packets) = of_frame.fold((0, 0), |(count, _), frame| (count + 1, frame.packets));
                prop_assert!(count == packets || count == 0 || all.last().expect("packets").at > Time::from_millis(200));
                prop_assert!(packets == 0 || u64::from(packets) * 1_243 * 8 * u64::from(frame_rate) >= 50_000_000);
            }
        }
    }
}
