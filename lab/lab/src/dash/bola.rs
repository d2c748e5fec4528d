//! BOLA: chooses the next bit rate from the buffer level alone (`BolaRule`).
//!
//! The utility of a bit rate is its logarithm. The best bit rate has the highest (V (utility + γ) − buffer) / bit rate. V and γ are chosen
//! so that this is zero for the lowest bit rate at a buffer of 10 s, and for the highest one at a target level, from which on it is the best.
//! When downloads pause for reasons other than the network, a placeholder keeps the level that BOLA sees. BOLA-O never steps up beyond what
//! the throughput carries.

use nearlight_units::{Span, Time};

use crate::dash::Content;

/// Buffer level at which the score of the lowest bit rate is zero (`MINIMUM_BUFFER_S`).
const MINIMUM_BUFFER_SECONDS: f64 = 10.0;
/// Further buffer per bit rate at which the score of the highest is zero (`MINIMUM_BUFFER_PER_BITRATE_LEVEL_S`).
const BUFFER_SECONDS_PER_RATE: f64 = 2.0;
/// Default buffer, the least level for the highest bit rate (`bufferTimeDefault`).
const DEFAULT_BUFFER_SECONDS: f64 = 18.0;
/// Share of the placeholder that remains after a segment (`PLACEHOLDER_BUFFER_DECAY`).
const PLACEHOLDER_DECAY: f64 = 0.99;

/// A downloaded segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedSegment {
    pub(crate) segment: usize,
    pub(crate) rung: usize,
    pub(crate) requested_at: Time,
    pub(crate) finished_at: Time,
    /// Buffer level before the segment was appended, in seconds.
    pub(crate) buffer: f64,
}

/// BOLA's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Advice {
    pub(crate) rung: usize,
    /// Time to wait before the next segment is fetched.
    pub(crate) delay: Span,
}

/// The BOLA rule and its state.
#[derive(Clone, Debug)]
pub struct Bola {
    /// Bit rates in kb/s.
    rates: Vec<f64>,
    /// Utilities, starting at 1.
    utilities: Vec<f64>,
    v: f64,     // Vp
    gamma: f64, // gp
    steady: bool,
    current: Option<usize>,
    placeholder: f64,
    furthest: Option<usize>,
    last_call: Option<Time>,
    /// When the segment since the last call was finished.
    finished_at: Option<Time>,
    seen_a_segment: bool,
    segment: f64,
}

impl Bola {
    /// Returns the rule. None with a single bit rate, when there is nothing to choose.
    #[must_use]
    pub fn new(content: &Content) -> Option<Self> {
        let rates: Vec<f64> = content.ladder().iter().map(|rate| rate.as_bps() as f64 / 1e3).collect();
        let utilities: Vec<f64> = rates.iter().map(|rate| libm::log(rate / rates[0]) + 1.0).collect();
        let highest = *utilities.last().filter(|_| utilities.len() > 1)?;
        let target = DEFAULT_BUFFER_SECONDS.max(MINIMUM_BUFFER_SECONDS + BUFFER_SECONDS_PER_RATE * rates.len() as f64);
        let gamma = (highest - 1.0) / (target / MINIMUM_BUFFER_SECONDS - 1.0);
        Some(Self {
            rates,
            utilities,
            v: MINIMUM_BUFFER_SECONDS / gamma,
            gamma,
            steady: false,
            current: None,
            placeholder: 0.0,
            furthest: None,
            last_call: None,
            finished_at: None,
            seen_a_segment: false,
            segment: content.segment().as_secs_f64(),
        })
    }

    /// Returns the best bit rate at this buffer level in seconds.
    #[must_use]
    pub fn rung_at(&self, buffer: f64) -> usize {
        let score = |rung: usize| (self.v * (self.utilities[rung] - 1.0 + self.gamma) - buffer) / self.rates[rung];
        // The higher one where two are equal.
        (0..self.rates.len()).max_by(|one, other| score(*one).total_cmp(&score(*other))).unwrap_or(0)
    }

    /// Returns the buffer level above which it is better to wait than to fetch this bit rate.
    ///
    /// The source adds γ to utilities that begin at 1 here, and to utilities that begin at 0 where it compares them.
    fn highest_level(&self, rung: usize) -> f64 {
        self.v * (self.utilities[rung] + self.gamma)
    }

    /// Returns the buffer level from which on this bit rate is preferred to all lower ones.
    fn lowest_level(&self, rung: usize) -> f64 {
        let (rate, utility) = (self.rates[rung], self.utilities[rung]);
        let level = |lower: usize| {
            let crossing = (rate * self.utilities[lower] - self.rates[lower] * utility) / (rate - self.rates[lower]);
            self.v * (self.gamma + crossing)
        };
        (0..rung).map(level).fold(0.0, f64::max)
    }

    /// Another rule chose a different bit rate.
    pub(crate) fn on_quality_change(&mut self, rung: usize) {
        self.current = Some(rung);
    }

    /// The buffer ran empty, so the placeholder is reset.
    pub(crate) fn on_buffer_empty(&mut self) {
        if self.steady {
            self.placeholder = 0.0;
        }
    }

    pub(crate) fn on_segment(&mut self, loaded: &LoadedSegment) {
        let replaced = self.furthest.is_some_and(|furthest| loaded.segment <= furthest);
        if !replaced {
            self.furthest = Some(loaded.segment);
        }
        self.current = Some(loaded.rung);
        self.seen_a_segment = true;
        self.finished_at = Some(loaded.finished_at);
        let took = (loaded.finished_at - loaded.requested_at).as_secs_f64();
        let most = (self.highest_level(loaded.rung) - (loaded.buffer + took)).max(0.0);
        self.placeholder = (self.placeholder * PLACEHOLDER_DECAY).min(most);
        if replaced {
            // It was fetched again and did not extend the buffer.
            self.placeholder += self.segment;
        }
    }

    /// A download was abandoned for this bit rate.
    pub(crate) fn on_abandoned(&mut self, buffer: f64) {
        let wanted = match self.current {
            Some(rung) if rung > 0 => self.lowest_level(rung),
            _ => MINIMUM_BUFFER_SECONDS,
        };
        self.placeholder = self.placeholder.min((wanted - buffer).max(0.0));
    }

    /// Returns the next bit rate. None before the throughput is known.
    pub(crate) fn advise(&mut self, now: Time, buffer: f64, safe: Option<f64>, content: &Content) -> Option<Advice> {
        if self.steady {
            return Some(self.advise_steady(now, buffer, safe, content));
        }
        let rung = content.rung_for(safe?);
        self.placeholder = (self.lowest_level(rung) - buffer).max(0.0);
        self.current = Some(rung);
        self.steady = self.seen_a_segment && buffer >= self.segment;
        Some(Advice { rung, delay: Span::ZERO })
    }

    fn advise_steady(&mut self, now: Time, buffer: f64, safe: Option<f64>, content: &Content) -> Advice {
        // Time without a download.
        if let Some(since) = self.finished_at.take().or(self.last_call) {
            self.placeholder += now.saturating_since(since).as_secs_f64();
        }
        self.last_call = Some(now);
        let mut rung = self.rung_at(buffer + self.placeholder);
        let current = self.current.unwrap_or(rung);
        let carried = content.rung_for(safe.unwrap_or(0.0));
        if rung > current && rung > carried {
            rung = carried.max(current);
        }
        let mut delay = (buffer + self.placeholder - self.highest_level(rung)).max(0.0);
        if delay <= self.placeholder {
            self.placeholder -= delay;
            delay = 0.0;
        } else {
            delay -= self.placeholder;
            self.placeholder = 0.0;
        }
        // At the highest bit rate, the buffer's target limits it.
        if rung == content.top() {
            delay = 0.0;
        }
        self.current = Some(rung);
        Advice { rung, delay: Span::from_secs_f64(delay) }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    const LADDER: [u64; 5] = [250, 500, 1_000, 2_000, 4_000];

    fn content() -> Content {
        Content::new(LADDER.map(Bitrate::from_kbps).to_vec(), Span::from_secs(4), Span::from_secs(400))
            .expect("a ladder")
    }

    fn bola() -> Bola {
        Bola::new(&content()).expect("five rates")
    }

    #[test]
    fn scores_are_zero_at_ten_seconds_and_at_the_target_from_which_on_the_highest_is_best() {
        let bola = bola();
        // Ten seconds, and two for each of five rates.
        let target = 20.0;
        let top_utility = libm::log(16.0);
        assert!((bola.gamma - top_utility / (target / 10.0 - 1.0)).abs() < 1e-12);
        assert!(
            (bola.v * bola.gamma - 10.0).abs() < 1e-9 && (bola.v * (top_utility + bola.gamma) - target).abs() < 1e-9
        );
        assert_eq!((bola.rung_at(0.0), bola.rung_at(7.0), bola.rung_at(target)), (0, 0, 4));
    }

    #[test]
    fn a_rate_takes_over_where_the_scores_of_two_are_equal() {
        let bola = bola();
        for rung in 1..LADDER.len() {
            // With utilities from 0 on: V (γ + (b u' − b' u) / (b − b')), for twice the rate: V (γ + u' − ln 2).
            let utility = libm::log(LADDER[rung - 1] as f64 / 250.0);
            let crossing = bola.v * (bola.gamma + utility - std::f64::consts::LN_2);
            assert_eq!((bola.rung_at(crossing - 0.01), bola.rung_at(crossing + 0.01)), (rung - 1, rung));
            // The source's own level for it is a whole V above.
            assert!((bola.lowest_level(rung) - bola.v - crossing).abs() < 1e-9);
        }
    }

    #[test]
    fn the_first_choice_is_the_throughputs() {
        let mut bola = bola();
        assert_eq!(bola.advise(Time::ZERO, 0.0, None, &content()), None);
        assert_eq!(bola.advise(Time::ZERO, 0.0, Some(1_700.0), &content()).map(|advice| advice.rung), Some(2));
        assert!(!bola.steady);
    }

    #[test]
    fn it_does_not_climb_beyond_what_the_throughput_carries_but_may_stay_there() {
        let mut bola = bola();
        (bola.steady, bola.current) = (true, Some(1));
        assert_eq!(bola.advise(Time::ZERO, 19.9, Some(1_200.0), &content()).map(|advice| advice.rung), Some(2));
        bola.current = Some(3);
        assert_eq!(bola.advise(Time::ZERO, 19.9, Some(1_200.0), &content()).map(|advice| advice.rung), Some(3));
    }

    #[test]
    fn a_full_buffer_of_low_rates_waits_and_the_wait_is_no_reason_to_climb() {
        let mut bola = bola();
        (bola.steady, bola.current) = (true, Some(0));
        let level = bola.highest_level(0) + 1.5;
        let advice = bola.advise(Time::ZERO, level, Some(300.0), &content()).expect("steady");
        assert_eq!(advice.rung, 0);
        assert!((advice.delay.as_secs_f64() - 1.5).abs() < 1e-6, "{advice:?}");
        // Two seconds later the buffer has lost them, and the placeholder has gained them.
        let later = bola.advise(Time::from_secs(2), level - 2.0, Some(300.0), &content()).expect("steady");
        assert_eq!(later.rung, 0);
        assert!((bola.placeholder + level - 2.0 - bola.highest_level(0)).abs() < 1e-6, "{bola:?}");
    }

    #[test]
    fn an_empty_buffer_and_an_abandoned_download_take_the_placeholder_away() {
        let mut bola = bola();
        (bola.steady, bola.current, bola.placeholder) = (true, Some(2), 30.0);
        bola.on_abandoned(5.0);
        assert!((bola.placeholder - (bola.lowest_level(2) - 5.0)).abs() < 1e-9);
        bola.on_buffer_empty();
        assert!(bola.placeholder.abs() < 1e-9);
    }

    #[test]
    fn one_rate_needs_no_rule() {
        let one = Content::new(vec![Bitrate::from_kbps(500)], Span::from_secs(4), Span::from_secs(40)).expect("one");
        assert!(Bola::new(&one).is_none());
    }
}
