//! How much the page's loudspeaker buffers, so that a busy page does not interrupt it.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

/// Initial moments: ten milliseconds, the least that browsers pass to an output at once.
const FIRST: i64 = 480;
/// Two of the audio thread's steps, and a tenth of a second.
const LEAST: i64 = 256;
const MOST: i64 = 4_800;
/// Kept in addition to what was needed: less than a millisecond, for the worst of a second is rarely exceeded by much.
const SPARE: i64 = 32;
/// The need is recorded for each second, and forgotten after this many. The worst of them does not count: sound interrupted once is better
/// than sound that is always late. Guess.
const SECONDS: usize = 5;

#[derive(Debug)]
pub(crate) struct SpeakerDepth {
    moments: i64,
    /// The most that was needed in each of the last seconds.
    needed: VecDeque<i64>,
    second_began: Option<Time>,
}

impl Default for SpeakerDepth {
    fn default() -> Self {
        Self { moments: FIRST, needed: VecDeque::new(), second_began: None }
    }
}

impl SpeakerDepth {
    /// How many moments of samples it should have, here or on their way.
    pub(crate) const fn moments(&self) -> usize {
        self.moments as usize
    }

    /// It has samples left for this many moments, or lacked them for as many as are below zero.
    pub(crate) fn on_left(&mut self, now: Time, left: i32) {
        if self.second_began.is_none_or(|began| now - began >= Span::from_secs(1)) {
            self.second_began = Some(now);
            self.needed.push_back(0);
            if self.needed.len() > SECONDS {
                self.needed.pop_front();
            }
            self.renew();
        }
        let needed = self.moments - i64::from(left);
        if let Some(most) = self.needed.back_mut().filter(|most| **most < needed) {
            *most = needed;
            self.renew();
        }
    }

    fn renew(&mut self) {
        let mut needed: Vec<i64> = self.needed.iter().copied().collect();
        needed.sort_unstable();
        // The second that has just begun has little data yet.
        let Some(second) = needed.len().checked_sub(2).filter(|_| needed.len() > 2) else { return };
        self.moments = (needed[second] + SPARE).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that takes `burst` moments at once, every `burst` moments, for this many milliseconds; answers take no time.
    fn run(depth: &mut SpeakerDepth, from: &mut Time, millis: i64, burst: i64) {
        let end = *from + Span::from_millis(millis);
        while *from < end {
            depth.on_left(*from, (depth.moments() as i64 - burst) as i32);
            *from += Span::from_micros(burst * 1_000 / 48);
        }
    }

    #[test]
    fn it_keeps_what_its_output_takes_at_one_go() {
        for burst in [128, 256, 512, 1_024, 2_048] {
            let (mut depth, mut now) = (SpeakerDepth::default(), Time::ZERO);
            run(&mut depth, &mut now, 7_000, burst);
            assert_eq!(depth.moments() as i64, (burst + SPARE).max(LEAST), "{burst}");
        }
    }

    #[test]
    fn one_bad_second_is_let_pass_more_are_prepared_for_and_forgotten() {
        let (mut depth, mut now) = (SpeakerDepth::default(), Time::ZERO);
        run(&mut depth, &mut now, 7_300, 512);
        run(&mut depth, &mut now, 100, 2_400);
        run(&mut depth, &mut now, 1_600, 512);
        assert_eq!(depth.moments(), 544);
        run(&mut depth, &mut now, 1_300, 2_000);
        run(&mut depth, &mut now, 1_000, 512);
        assert_eq!(depth.moments(), 2_032);
        run(&mut depth, &mut now, 7_000, 512);
        assert_eq!(depth.moments(), 544);
    }

    #[test]
    fn whatever_it_says_the_depth_is_bounded() {
        let mut depth = SpeakerDepth::default();
        for (second, left) in [i32::MIN, i32::MAX, 0, -1, i32::MIN, i32::MIN].into_iter().enumerate() {
            depth.on_left(Time::ZERO + Span::from_secs(second as i64), left);
            assert!((LEAST..=MOST).contains(&(depth.moments() as i64)));
        }
    }
}
