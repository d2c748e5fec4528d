//! One contender for the medium: an access category of the access point or of a station.
//!
//! Decides when it may send, from the time the medium became idle, its backoff and its window. It does not handle packets.

use nearlight_units::{Span, Time};

use crate::config::{AccessRule, Edca};
use crate::random::Random;

/// Time after which others detect a transmission: `aCCATime` of 20 MHz channels (IEEE 802.11-2020, table 17-21), and the time in which ns-3 detects a
/// preamble. Earlier slot boundaries count as idle.
const PREAMBLE_DETECTION: Span = Span::from_micros(4);

/// The state of the medium, as heard by all nodes of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Idle,
    Busy,
}

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    aifs: Span,
    slot: Span,
    window_min: u16,
    window_max: u16,
    rule: AccessRule,
    /// Consecutive failures after which the window begins anew.
    retries: u8,
    /// Backoffs are drawn from 0 to this.
    window: u16,
    /// Consecutive failures.
    failures: u8,
    /// Slots left to count when counting last began.
    backoff: u16,
    /// The slots were drawn for the packets waiting now: zero of them means "at the next chance", not "none drawn".
    drawn: bool,
    wants: bool,
    /// Counting resumes an AIFS after this time at the earliest: the contender waits for an answer to its own packet, or to one that it could not
    /// decode.
    waits_until: Time,
    /// When the backoff begins to count while the medium is idle: an AIFS after it fell idle.
    counts_from: Time,
    grant_at: Time,
}

impl Contender {
    pub(crate) fn new(edca: &Edca, aifs: Span, slot: Span, rule: AccessRule, retries: u8) -> Self {
        Self {
            aifs,
            slot,
            window_min: edca.window_min,
            window_max: edca.window_max,
            rule,
            retries,
            window: edca.window_min,
            failures: 0,
            backoff: 0,
            drawn: false,
            wants: false,
            waits_until: Time::ZERO,
            counts_from: Time::ZERO + aifs,
            grant_at: Time::FAR_FUTURE,
        }
    }

    /// Returns whether a packet is waiting to be sent.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        self.wants
    }

    /// Returns when it sends if the medium stays idle until then.
    #[inline]
    pub(crate) fn grant_at(&self) -> Time {
        self.grant_at
    }

    /// Its queue is no longer empty.
    pub(crate) fn on_request(&mut self, now: Time, medium: Medium, random: &mut Random) {
        self.wants = true;
        match medium {
            Medium::Busy => {
                if self.backoff == 0 {
                    self.draw(random);
                }
                self.drawn = true;
            }
            Medium::Idle => {
                // Post-backoff counts on while the queue is empty.
                let counted = self.counted(now);
                self.drawn = self.backoff > counted;
                let ready = self.counts_from + self.slot * i64::from(self.backoff);
                self.grant_at = ready.max(match self.rule {
                    AccessRule::Komondor => now + self.aifs,
                    AccessRule::Edca => self.slot_from(now),
                });
            }
        }
    }

    /// No packet is waiting any more, or none that can be sent.
    pub(crate) fn withdraw(&mut self) {
        self.wants = false;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Returns the time until which a transmission that begins at `now` goes unnoticed.
    pub(crate) fn unnoticed_until(&self, now: Time) -> Time {
        match self.rule {
            AccessRule::Komondor => now,
            AccessRule::Edca => now + PREAMBLE_DETECTION - Span::from_nanos(1),
        }
    }

    /// The contender received only errors; their sender waits for an answer until `until` (EIFS).
    pub(crate) fn on_misheard(&mut self, until: Time) {
        self.waits_until = until;
    }

    /// Another node began to send: counting stops; only complete slots count.
    #[inline]
    pub(crate) fn on_busy(&mut self, now: Time, random: &mut Random) {
        self.backoff -= self.counted(self.unnoticed_until(now));
        self.grant_at = Time::FAR_FUTURE;
        if self.rule == AccessRule::Komondor && self.wants && self.backoff == 0 && !self.drawn {
            self.draw(random);
            self.drawn = true;
        }
    }

    /// The medium fell idle.
    #[inline]
    pub(crate) fn on_idle(&mut self, now: Time) {
        self.counts_from = now.max(self.waits_until) + self.aifs;
        if self.wants {
            self.grant_at = self.counts_from + self.slot * i64::from(self.backoff);
        }
    }

    /// The contender sends.
    pub(crate) fn on_access(&mut self) {
        self.backoff = 0;
        self.grant_at = Time::FAR_FUTURE;
    }

    /// Its exchange ended and at least one packet got through: the window is reset and a post-backoff is drawn.
    pub(crate) fn on_success(&mut self, random: &mut Random) {
        self.window = self.window_min;
        self.failures = 0;
        self.draw(random);
        self.drawn = true;
    }

    /// No packet of its exchange got through, as it learns at `knows_at`: the window doubles.
    pub(crate) fn on_failure(&mut self, knows_at: Time, random: &mut Random) {
        self.waits_until = knows_at;
        if self.rule == AccessRule::Edca && self.failures >= self.retries {
            // IEEE 802.11-2020, section 10.23.2.2: after as many failures as a frame has retries, the window begins anew.
            self.failures = 0;
            self.window = self.window_min;
        } else {
            self.failures = self.failures.saturating_add(1);
            let doubled = u32::from(self.window) * 2 + 1;
            self.window = doubled.min(u32::from(self.window_max)) as u16;
        }
        self.grant_at = Time::FAR_FUTURE;
        self.draw(random);
        self.drawn = true;
    }

    /// Sets [`Self::wants`] while the medium is busy and the backoff is drawn.
    pub(crate) fn set_wants(&mut self, wants: bool) {
        self.wants = wants;
    }

    fn draw(&mut self, random: &mut Random) {
        self.backoff = random.up_to(self.window);
    }

    /// Returns the first slot boundary not before `now`.
    fn slot_from(&self, now: Time) -> Time {
        let slots =
            now.saturating_since(self.counts_from).as_nanos().cast_unsigned().div_ceil(self.slot.as_nanos() as u64);
        self.counts_from + self.slot * slots as i64
    }

    /// Returns the backoff slots elapsed by `now`.
    #[inline]
    fn counted(&self, now: Time) -> u16 {
        if self.backoff == 0 || now < self.counts_from {
            return 0;
        }
        let passed = (now - self.counts_from).as_nanos() / self.slot.as_nanos();
        let slots = match self.rule {
            AccessRule::Komondor => passed,
            // The end of the AIFS is a boundary too.
            AccessRule::Edca => passed + 1,
        };
        slots.min(i64::from(self.backoff)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Timing;

    const BEST_EFFORT: Edca = Edca { aifs_slots: 2, window_min: 31, window_max: 1_023, txop: None };

    /// On a medium that has been idle since `since`, with this many slots to count.
    fn contender(rule: AccessRule, since: Time, backoff: u16) -> Contender {
        let timing = Timing::STANDARD;
        let mut contender = Contender::new(&BEST_EFFORT, BEST_EFFORT.aifs(&timing), timing.slot, rule, 7);
        contender.backoff = backoff;
        contender.on_idle(since);
        contender
    }

    fn micros(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn packets_that_find_the_medium_idle_go_at_the_next_slot_boundary() {
        let mut random = Random::new(1);
        // The AIFS ends at 134, boundaries follow every 9 us.
        for (arrival, backoff, edca, komondor) in
            [(110, 0, 134, 144), (134, 0, 134, 168), (135, 0, 143, 169), (152, 0, 152, 186), (135, 3, 161, 169)]
        {
            for (rule, expected) in [(AccessRule::Edca, edca), (AccessRule::Komondor, komondor)] {
                let mut contender = contender(rule, micros(100), backoff);
                contender.on_request(micros(arrival), Medium::Idle, &mut random);
                assert_eq!(contender.grant_at(), micros(expected), "{rule:?}, {arrival}, {backoff}");
            }
        }
    }

    /// IEEE 802.11-2020, section 10.23.2.4: the end of the AIFS is a boundary. One counts until another's transmission is noticed.
    #[test]
    fn a_backoff_counts_the_boundaries_until_another_is_noticed() {
        let mut random = Random::new(1);
        for (begins, edca, komondor) in [
            (120, 5, 5),
            (130, 5, 5),
            (131, 4, 5),
            (134, 4, 5),
            (139, 4, 5),
            (140, 3, 5),
            (143, 3, 4),
            (170, 0, 1),
            (179, 0, 0),
        ] {
            for (rule, left) in [(AccessRule::Edca, edca), (AccessRule::Komondor, komondor)] {
                let mut contender = contender(rule, micros(100), 5);
                contender.on_busy(micros(begins), &mut random);
                assert_eq!(contender.backoff, left, "{rule:?}, {begins}");
            }
        }
    }

    #[test]
    fn a_packet_that_arrived_in_time_keeps_its_zero_backoff_when_another_begins() {
        let mut random = Random::new(1);
        let mut contender = contender(AccessRule::Edca, micros(100), 0);
        contender.on_request(micros(110), Medium::Idle, &mut random);
        contender.on_busy(micros(130), &mut random);
        contender.on_idle(micros(500));
        assert_eq!(contender.grant_at(), micros(534));
    }

    /// IEEE 802.11-2020, section 10.23.2.2.
    #[test]
    fn the_window_begins_anew_after_as_many_failures_as_a_frame_has_retries() {
        let mut random = Random::new(1);
        for (rule, last) in [(AccessRule::Edca, 31), (AccessRule::Komondor, 1_023)] {
            let mut contender = contender(rule, micros(100), 0);
            let mut windows = Vec::new();
            for _ in 0..8 {
                contender.on_failure(micros(200), &mut random);
                windows.push(contender.window);
            }
            assert_eq!(windows, [63, 127, 255, 511, 1_023, 1_023, 1_023, last], "{rule:?}");
        }
    }

    #[test]
    fn who_misheard_a_transmission_leaves_time_for_its_answer() {
        let timing = Timing::STANDARD;
        let mut contender = contender(AccessRule::Edca, micros(100), 3);
        contender.set_wants(true);
        // Its data end at 200, and the medium is reserved for an acknowledgement of 28 us.
        contender.on_misheard(micros(200) + timing.longest_answer());
        contender.on_idle(micros(244));
        assert_eq!(contender.grant_at(), micros(200 + 60 + 34 + 3 * 9));
        contender.on_idle(micros(400));
        assert_eq!(contender.grant_at(), micros(400 + 34 + 3 * 9));
    }

    #[test]
    fn those_that_collided_count_on_only_when_they_know_it() {
        let mut random = Random::new(1);
        let mut contender = contender(AccessRule::Edca, micros(100), 0);
        contender.on_access();
        contender.on_failure(micros(245), &mut random);
        contender.set_wants(true);
        contender.on_idle(micros(200));
        let counts_from = micros(245) + Span::from_micros(34);
        assert_eq!(contender.grant_at(), counts_from + Span::from_micros(9) * i64::from(contender.backoff));
        assert_eq!(contender.window, 63);
    }
}
